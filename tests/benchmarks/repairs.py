"""``python -m tests.benchmarks.repairs``: planted faults that can be cured, and how many `doctor train --auto-fix` cures.

Each run is a tiny model on the CPU. A base (family, sizes, schedule, data, seed) is trained clean; each kind of fault is
planted into it and trained with ``--auto-fix --unsafe-fixes``. It is repaired when the mean loss of the last tenth of
the steps is at most 2 % above that of the clean run and the command says that all is well. Clean runs have the rate that
the field would take, as nobody can know which was meant where a rate is absurd. A fault that does no harm
(the same run without cures ends within 2 % too) is no fault and is not counted; ``--unaided`` trains those runs as well.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np
import yaml

Config = dict[str, Any]
#: share of the clean run's loss by which a repaired run may end above it
MARGIN = 0.02


@dataclass(frozen=True)
class Kind:
    """`plant` changes a copy of the clean config; `limit` is the address space of the processes, in bytes."""

    name: str
    plant: Callable[[Config, np.random.Generator, Path], None]
    #: what the clean run has that the base has not (a data set on disk, say)
    clean: Callable[[Config, np.random.Generator, Path], None] = lambda config, random, folder: None
    limit: Optional[int] = None


KINDS: dict[str, Kind] = {}


def _kind(name: str, **more: Any) -> Callable[[Any], Any]:
    def add(plant: Any) -> Any:
        KINDS[name] = Kind(name, plant, **more)
        return plant

    return add


def base(seed: int) -> Config:
    """A clean config that learns its data to their noise in some seconds."""
    random = np.random.default_rng([seed, 3])
    family = str(random.choice(["llama", "qwen2", "qwen3", "gpt2", "bloom", "glm"]))
    batch = int(random.choice([4, 8]))
    steps = int(random.choice([300, 350, 400]))
    return {
        "model": {
            "type": family,
            "hidden_size": int(random.choice([32, 48])),
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "vocab_size": int(random.choice([48, 64, 96])),
            "max_position_embeddings": 64,
            "initializer_range": 0.1,
        },
        "train_dataset": {
            "data_loader": {"type": "Generated", "samples": 512, "noise": 0.05},
            "max_length": int(random.choice([16, 24])),
        },
        "training_args": {
            "seed": seed,
            "max_steps": steps,
            "per_device_train_batch_size": batch,
            "learning_rate": 1e-3,
            "lr_scheduler": str(random.choice(["cosine", "linear", "constant"])),
            "warmup_steps": int(random.choice([5, 10, 20])),
            "save_steps": int(random.choice([10, 20])),
            "save_total_limit": 20,
        },
    }


@_kind("fixed scale, overflow applied")
def _applied(config: Config, random: np.random.Generator, folder: Path) -> None:
    scale = float(2.0 ** random.integers(22, 28))
    config["training_args"].update(
        mixed_precision="O2",
        loss_scale={"type": "fixed", "loss_scale_value": scale, "drop_overflow_update": False},
    )


@_kind("fixed scale, every step dropped")
def _dropped(config: Config, random: np.random.Generator, folder: Path) -> None:
    config["training_args"].update(mixed_precision="O2", loss_scale=float(2.0 ** random.integers(24, 30)))


@_kind("rate far too high")
def _rate(config: Config, random: np.random.Generator, folder: Path) -> None:
    config["training_args"]["learning_rate"] = float(
        config["training_args"]["learning_rate"] * 10 ** random.uniform(2, 3)
    )


@_kind("rate far too high, nothing clipped")
def _rate_unclipped(config: Config, random: np.random.Generator, folder: Path) -> None:
    _rate(config, random, folder)
    config["training_args"]["max_grad_norm"] = 0.0


@_kind("rate absurd")
def _absurd(config: Config, random: np.random.Generator, folder: Path) -> None:
    config["training_args"].update(learning_rate=float(10 ** random.uniform(2, 6)), max_grad_norm=0.0)


def _usual_rate(config: Config, random: np.random.Generator, folder: Path) -> None:
    """The rate that large models start from."""
    config["training_args"]["learning_rate"] = 3e-4


@_kind("rate zero", clean=_usual_rate)
def _zero(config: Config, random: np.random.Generator, folder: Path) -> None:
    config["training_args"]["learning_rate"] = 0.0


@_kind("rate of next to nothing", clean=_usual_rate)
def _tiny(config: Config, random: np.random.Generator, folder: Path) -> None:
    config["training_args"]["learning_rate"] = float(10 ** random.uniform(-12, -8))


@_kind("decay absurd")
def _decay(config: Config, random: np.random.Generator, folder: Path) -> None:
    config["training_args"].update(weight_decay=10.0)


@_kind("clipped to nothing")
def _clipped(config: Config, random: np.random.Generator, folder: Path) -> None:
    config["training_args"]["max_grad_norm"] = float(10 ** random.uniform(-12, -9))


def _columns(config: Config, folder: Path, shift: int) -> None:
    """The generated data as MindRecord with input_ids and labels, which lie `shift` tokens ahead."""
    from doctor.trainer.data.samples import generated
    from doctor.trainer.data.settings import Source

    length, vocabulary = config["train_dataset"]["max_length"], config["model"]["vocab_size"]
    rows = generated(Source(samples=512), length, vocabulary, config["training_args"]["seed"])
    path = folder / f"shift{shift}.mindrecord"
    write_mindrecord(path, {"input_ids": rows[:, :length], "labels": rows[:, shift : shift + length]})
    config["train_dataset"]["data_loader"] = {"type": "MindDataset", "dataset_dir": str(path)}
    config["train_dataset"]["input_columns"] = ["input_ids", "labels"]


@_kind("labels not shifted", clean=lambda config, random, folder: _columns(config, folder, 0))
def _unshifted(config: Config, random: np.random.Generator, folder: Path) -> None:
    _columns(config, folder, 0)
    config["train_dataset"]["shift_labels"] = "never"


@_kind("more workers than cores", clean=lambda config, random, folder: _columns(config, folder, 1))
def _workers(config: Config, random: np.random.Generator, folder: Path) -> None:
    _columns(config, folder, 1)
    config["train_dataset"]["num_parallel_workers"] = int(random.choice([64, 128, 512]))


#: what a larger model needs of address space, between what it has with half the batch and with the whole
@_kind("no memory for the batch", clean=lambda config, random, folder: _wide(config), limit=4_710_000_000)
def _memory(config: Config, random: np.random.Generator, folder: Path) -> None:
    _wide(config)


def _wide(config: Config) -> None:
    config["model"].update(type="llama", hidden_size=256, num_hidden_layers=2, num_attention_heads=8, vocab_size=8000)
    config["train_dataset"]["max_length"] = 512
    config["train_dataset"]["data_loader"]["samples"] = 64
    config["training_args"].update(max_steps=4, warmup_steps=1, per_device_train_batch_size=16, save_steps=2)


def write_mindrecord(path: Path, columns: Mapping[str, Any]) -> None:
    if path.exists():
        return
    from mindspore.mindrecord import FileWriter

    writer = FileWriter(str(path), shard_num=1)
    writer.add_schema({name: {"type": "int32", "shape": [-1]} for name in columns}, "samples")
    count = len(next(iter(columns.values())))
    writer.write_raw_data([{name: values[row] for name, values in columns.items()} for row in range(count)])
    writer.commit()


@dataclass(frozen=True)
class Ended:
    """How a run went: exit code, mean loss of its last tenth, and the rules that were answered, in order."""

    code: int
    loss: float
    answered: tuple[str, ...] = ()
    said: tuple[str, ...] = ()


def run(config: Config, folder: Path, cured: bool, limit: Optional[int] = None) -> Ended:
    """Trains in `folder`, which is new: the trainer alone, or watched and cured."""
    folder.mkdir(parents=True)
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    out = folder / "out"
    command = [sys.executable, "-m", "doctor.trainer", str(path), "--output-dir", str(out)]
    if cured:
        command = [sys.executable, "-m", "doctor", "train", str(path), "--output-dir", str(out)]
        command += ["--auto-fix", "--unsafe-fixes", "--max-interventions", "4", "-q"]
    # Kernels of a tiny model are too small to share; where other work runs beside, threads wait for one another.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    prepare = (lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))) if limit else None
    with (folder / "screen.txt").open("w") as screen:
        code = subprocess.run(
            command, stdout=screen, stderr=screen, timeout=900, check=False, preexec_fn=prepare, env=environment
        )
    book = out / "interventions.jsonl"
    rows = [json.loads(line) for line in book.read_text().splitlines()] if book.exists() else []
    found = out / "findings.jsonl"
    events = [json.loads(line) for line in found.read_text().splitlines()] if found.exists() else []
    said = dict.fromkeys(event["finding"]["rule"] for event in events if event["event"] == "opened")
    return Ended(code.returncode, _end_loss(out, config), tuple(row["finding"]["rule"] for row in rows), tuple(said))


def _end_loss(out: Path, config: Config) -> float:
    """The mean over the last tenth of the steps; of a step that was made twice the later counts."""
    path = out / "metrics" / "rank_0.jsonl"
    if not path.exists():
        return math.nan
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    losses = {row["global_step"]: float(row["loss"]) for row in rows if not row.get("evaluation")}
    total = config["training_args"]["max_steps"]
    tail = [losses.get(step, math.nan) for step in range(total - max(1, total // 10) + 1, total + 1)]
    return statistics.fmean(tail)


@dataclass(frozen=True)
class Case:
    kind: str
    seed: int
    clean: Ended
    repaired: Ended
    unaided: Optional[Ended] = None

    @property
    def within(self) -> bool:
        return self.repaired.loss <= self.clean.loss * (1 + MARGIN)

    @property
    def fine(self) -> bool:
        return self.within and self.repaired.code == 0

    @property
    def harmless(self) -> bool:
        return self.unaided is not None and self.unaided.loss <= self.clean.loss * (1 + MARGIN)


#: clean runs by the text of their config: kinds that plant into the same base share it
_CLEAN: dict[str, Ended] = {}


def case(kind: Kind, seed: int, root: Path, unaided: bool) -> Case:
    """One base with one fault, in `root`."""
    place = root / f"{kind.name.replace(' ', '-').replace(',', '')}-{seed}"
    place.mkdir(parents=True)

    def made(change: Callable[[Config, np.random.Generator, Path], None]) -> Config:
        config = base(seed)
        change(config, np.random.default_rng([seed, 7]), place)
        return config

    sound = made(kind.clean)
    text = json.dumps(sound)
    if text not in _CLEAN:
        _CLEAN[text] = run(sound, place / "clean", cured=False)
    faulty = made(kind.plant)
    alone = run(faulty, place / "unaided", False, kind.limit) if unaided else None
    return Case(kind.name, seed, _CLEAN[text], run(faulty, place / "cured", True, kind.limit), alone)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="*", choices=list(KINDS), default=list(KINDS), metavar="KIND")
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 6), metavar=("FIRST", "END"))
    parser.add_argument("--unaided", action="store_true", help="also without cures: does the fault do harm at all")
    parser.add_argument("--keep", metavar="DIR", help="leave the runs there")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        root = Path(args.keep or name)
        cases = []
        for seed in range(*args.seeds):
            for kind in args.kinds:
                cases.append(case(KINDS[kind], seed, root, args.unaided))
                print(words(cases[-1]), flush=True)
    counted = [item for item in cases if not item.harmless]
    for kind in args.kinds:
        mine = [item for item in counted if item.kind == kind]
        print(f"{kind:<36}{sum(item.fine for item in mine):>4} of {len(mine)}")
    fine = sum(item.fine for item in counted)
    within = sum(item.within for item in counted)
    print(
        f"repaired {fine} of {len(counted)} ({fine / max(1, len(counted)):.1%}); loss within 2 % in {within}; goal 98.5 %"
    )


def words(item: Case) -> str:
    verdict = "harmless" if item.harmless else "repaired" if item.fine else "MISSED"
    answered = " ".join(item.repaired.answered) or "nothing"
    return (
        f"{verdict:<9}{item.kind:<36}{item.seed:>3}  clean {item.clean.loss:.4f}  cured {item.repaired.loss:.4f}"
        f"  exit {item.repaired.code}  answered {answered}; said {' '.join(item.repaired.said)}"
    )


if __name__ == "__main__":
    main()
