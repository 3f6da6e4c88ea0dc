"""Small weight folders as people download and convert them, whole and broken in one way each."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from doctor.check import Options
from doctor.errors import UsageError
from doctor.runner import judge_path
from doctor.selftest.trial import HEALTHY, Raised, Result, Room, Trial, worth_telling
from doctor.selftest.weightfiles import ckpt_value, safetensors_bytes

Tensors = dict[str, Any]
LAYERS = 4
_CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 61,
    "tie_word_embeddings": False,
}
_DTYPES = {"float32": "F32", "float16": "F16"}


@dataclass
class Folder:
    """A folder that is being made; a fault changes `tensors` before it is written, or the files after it."""

    path: Path
    rng: random.Random
    tensors: Tensors
    shards: int = 1
    form: str = "safetensors"

    def name(self, *ends: str) -> str:
        """One tensor whose name ends so, drawn."""
        return self.rng.choice([name for name in self.tensors if name.endswith(ends)])

    def file(self) -> Path:
        """One of the files with weights, drawn."""
        return self.rng.choice(sorted(self.path.glob(f"*.{self.form}")))


Change = Callable[[Folder], None]


@dataclass(frozen=True)
class Fault:
    kind: str
    rules: tuple[str, ...]
    change: Change
    #: made when the files are there rather than before
    afterwards: bool = False
    shards: int = 1
    form: str = "safetensors"


FAULTS: dict[str, Fault] = {}


def _fault(kind: str, rules: str, **more: Any) -> Callable[[Change], Change]:
    def keep(change: Change) -> Change:
        FAULTS[kind] = Fault(kind, tuple(rules.split()), change, **more)
        return change

    return keep


def llama(rng: random.Random) -> Tensors:
    """LLaMA's names and shapes with values as trained ones have them."""
    wild = np.random.default_rng(rng.randrange(1 << 30))
    hidden, feed, vocabulary, kv = 32, 48, 61, 16
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocabulary, hidden)}
    for layer in range(LAYERS):
        lead = f"model.layers.{layer}."
        shapes[f"{lead}self_attn.q_proj.weight"] = (hidden, hidden)
        shapes[f"{lead}self_attn.k_proj.weight"] = shapes[f"{lead}self_attn.v_proj.weight"] = (kv, hidden)
        shapes[f"{lead}self_attn.o_proj.weight"] = (hidden, hidden)
        shapes[f"{lead}mlp.gate_proj.weight"] = shapes[f"{lead}mlp.up_proj.weight"] = (feed, hidden)
        shapes[f"{lead}mlp.down_proj.weight"] = (hidden, feed)
        shapes[f"{lead}input_layernorm.weight"] = shapes[f"{lead}post_attention_layernorm.weight"] = (hidden,)
    shapes["model.norm.weight"] = (hidden,)
    shapes["lm_head.weight"] = (vocabulary, hidden)
    return {
        name: ((1.0 if len(shape) == 1 else 0.0) + wild.normal(0, 0.02 + 0.01 * (order % 5), shape)).astype(np.float32)
        for order, (name, shape) in enumerate(shapes.items())
    }


def trials(seed: int, runs: int = 1) -> Iterator[Trial]:
    """Two of each fault for each run that is asked for, and healthy folders of each form; places and values are drawn."""
    for kind in FAULTS:
        yield from (
            Trial("weights", kind, str(number), number) for number in range(2 * seed * runs, 2 * (seed + 1) * runs)
        )
    for form in ("one-file", "shards", "ckpt", "half"):
        yield Trial("weights", HEALTHY, f"{form}-{seed}", seed)


def perform(trial: Trial, room: Room) -> list[Result]:
    """Checks one folder as ``doctor check FOLDER --values`` does."""
    rng = random.Random(f"{trial.kind} {trial.case}")
    folder = Folder(room.folder / "model", rng, llama(rng))
    fault = FAULTS.get(trial.kind)
    if fault is None:
        _healthy(folder, trial.case.rpartition("-")[0])
        raised = tuple(Raised.of(finding) for finding in _judge(folder.path) if worth_telling(finding))
        return [Result(trial, alarms=raised)]
    folder.shards, folder.form = fault.shards, fault.form
    if not fault.afterwards:
        fault.change(folder)
    write(folder)
    if fault.afterwards:
        fault.change(folder)
    try:
        found = {finding.rule for finding in _judge(folder.path) if worth_telling(finding)}
    except UsageError as error:
        found = {error.rule or error.what.en}
    hit = bool(found & set(fault.rules))
    return [Result(trial, fault.rules, hit, instead=() if hit else tuple(sorted(found)))]


def _judge(path: Path) -> list[Any]:
    judged = judge_path(path, Options(values=True))
    for outcome in judged.outcomes:
        if outcome.state == "crashed" and outcome.reason is not None:
            raise RuntimeError(f"{outcome.rule}: {outcome.reason.en}")
    return [finding for outcome in judged.outcomes for finding in outcome.findings]


def _healthy(folder: Folder, form: str) -> None:
    if form == "half":
        folder.tensors = {name: value.astype(np.float16) for name, value in folder.tensors.items()}
    folder.shards = 3 if form == "shards" else 1
    folder.form = "ckpt" if form == "ckpt" else "safetensors"
    write(folder)


def write(folder: Folder) -> None:
    """config.json and the weights in the form and the number of shards that are asked for."""
    folder.path.mkdir()
    (folder.path / "config.json").write_text(json.dumps(_CONFIG, indent=2))
    names = list(folder.tensors)
    if folder.form == "ckpt":
        values = (ckpt_value(name, "Float32", value.shape, value.tobytes()) for name, value in folder.tensors.items())
        (folder.path / "model.ckpt").write_bytes(b"".join(values))
        return
    table = {}
    per = -(-len(names) // folder.shards)
    for number in range(folder.shards):
        mine = names[number * per : (number + 1) * per]
        file = "model.safetensors"
        if folder.shards > 1:
            file = f"model-{number + 1:05d}-of-{folder.shards:05d}.safetensors"
        table.update(dict.fromkeys(mine, file))
        (folder.path / file).write_bytes(_safetensors({name: folder.tensors[name] for name in mine}))
    if folder.shards > 1:
        size = sum(value.nbytes for value in folder.tensors.values())
        index = {"metadata": {"total_size": size}, "weight_map": table}
        (folder.path / "model.safetensors.index.json").write_text(json.dumps(index))


def _safetensors(tensors: Tensors) -> bytes:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, value in tensors.items():
        shape = list(value.shape)
        header[name] = {"dtype": _DTYPES[str(value.dtype)], "shape": shape, "data_offsets": [at, at + value.nbytes]}
        at += value.nbytes
    return safetensors_bytes(header, b"".join(value.tobytes() for value in tensors.values()))


# before the files are written


@_fault("missing-tensor", "WGT-KEY-001 WGT-KEY-011")
def _missing_tensor(folder: Folder) -> None:
    del folder.tensors[folder.name("down_proj.weight", "o_proj.weight", "input_layernorm.weight")]


@_fault("missing-layer", "WGT-KEY-003")
def _missing_layer(folder: Folder) -> None:
    layer = f"model.layers.{folder.rng.randrange(1, LAYERS - 1)}."
    folder.tensors = {name: value for name, value in folder.tensors.items() if not name.startswith(layer)}


@_fault("missing-head", "WGT-KEY-007 WGT-KEY-001")
def _missing_head(folder: Folder) -> None:
    del folder.tensors["lm_head.weight"]


@_fault("prefix-on-names", "WGT-KEY-005")
def _prefix(folder: Folder) -> None:
    lead = folder.rng.choice(("module.", "_orig_mod.", "network."))
    folder.tensors = {lead + name: value for name, value in folder.tensors.items()}


@_fault("wrong-shape", "WGT-SHP-001 WGT-SHP-002 WGT-SHP-003")
def _wrong_shape(folder: Folder) -> None:
    name = folder.name("gate_proj.weight", "up_proj.weight")
    folder.tensors[name] = folder.tensors[name][:-4]


@_fault("transposed", "WGT-SHP-007")
def _transposed(folder: Folder) -> None:
    name = folder.name("down_proj.weight", "gate_proj.weight")
    folder.tensors[name] = np.ascontiguousarray(folder.tensors[name].T)


@_fault("other-vocabulary", "WGT-SHP-001 WGT-SHP-002 WGT-SHP-003 WGT-SHP-005")
def _vocabulary(folder: Folder) -> None:
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        folder.tensors[name] = np.concatenate([folder.tensors[name]] * 2)


@_fault("nan-values", "WGT-VAL-001")
def _nan(folder: Folder) -> None:
    value = folder.tensors[folder.name("proj.weight")]
    value.reshape(-1)[folder.rng.randrange(value.size)] = np.nan


@_fault("zeros", "WGT-VAL-002 WGT-VAL-003")
def _zeros(folder: Folder) -> None:
    folder.tensors[folder.name("proj.weight")][:] = 0


# afterwards


@_fault("torn-file", "WGT-FILE-002", afterwards=True)
def _torn(folder: Folder) -> None:
    path = folder.file()
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * folder.rng.uniform(0.3, 0.98))])


@_fault("torn-header", "WGT-FILE-002", afterwards=True)
def _torn_header(folder: Folder) -> None:
    path = folder.file()
    path.write_bytes(path.read_bytes()[: folder.rng.randrange(9, 600)])


@_fault("torn-ckpt", "WGT-FILE-002", afterwards=True, form="ckpt")
def _torn_ckpt(folder: Folder) -> None:
    _torn(folder)


@_fault("empty-file", "WGT-FILE-001", afterwards=True, shards=3)
def _empty(folder: Folder) -> None:
    folder.file().write_bytes(b"")


@_fault("missing-shard", "WGT-SHARD-001", afterwards=True, shards=3)
def _missing_shard(folder: Folder) -> None:
    folder.file().unlink()


@_fault("git-lfs-pointer", "WGT-FILE-004", afterwards=True, shards=3)
def _pointer(folder: Folder) -> None:
    path = folder.file()
    size = path.stat().st_size
    path.write_text(f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize {size}\n")


@_fault("download-page", "WGT-FILE-005", afterwards=True, shards=3)
def _page(folder: Folder) -> None:
    folder.file().write_text("<!DOCTYPE html><html><head><title>403 Forbidden</title></head></html>\n")


@_fault("index-of-other-files", "WGT-SHARD-003", afterwards=True, shards=3)
def _index(folder: Folder) -> None:
    path = folder.path / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    files = sorted(set(index["weight_map"].values()))
    name = folder.rng.choice(sorted(index["weight_map"]))
    index["weight_map"][name] = next(file for file in files if file != index["weight_map"][name])
    path.write_text(json.dumps(index))
