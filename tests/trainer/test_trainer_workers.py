"""Several workers through msrun: the losses of one, an end together, plain words for what cannot be."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from doctor.errors import UsageError
from doctor.trainer.arguments import TrainingArguments
from doctor.trainer.assemble import refuse_devices
from doctor.trainer.cluster import Cluster, refuse_workers
from doctor.trainer.config import parse_config
from doctor.trainer.runfolder import RunFolder
from doctor.trainer.stopping import Follow, announce

CONFIG = """model: {{type: llama, hidden_size: 32, num_hidden_layers: 1, num_attention_heads: 2, vocab_size: 64}}
train_dataset:
  data_loader: {{type: Generated, samples: 128}}
  max_length: 16
training_args: {{seed: 3, max_steps: {steps}, per_device_train_batch_size: {batch}, gradient_accumulation_steps: 2,
  learning_rate: 1.0e-3, lr_scheduler: constant, save_steps: 5, mixed_precision: {precision}}}
"""


def _write(folder: Path, steps: int, batch: int, precision: str = "O0") -> Path:
    path = folder / f"{steps}-{batch}.yaml"
    path.write_text(CONFIG.format(steps=steps, batch=batch, precision=precision), encoding="utf-8")
    return path


def _train(config: Path, out: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "doctor", "train", str(config), "--output-dir", str(out), "-q", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _losses(out: Path, rank: int = 0) -> list[float]:
    return [json.loads(line)["loss"] for line in (out / f"metrics/rank_{rank}.jsonl").read_text().splitlines()]


def test_the_parts_of_a_batch_are_all_of_it_in_order() -> None:
    rows = list(range(12))
    parts = [Cluster(rank, 3).share(rows) for rank in range(3)]
    assert parts == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def test_a_process_knows_its_part_from_what_msrun_says() -> None:
    assert Cluster.of_environment({}) == Cluster(0, 1)
    assert Cluster.of_environment({"MS_ROLE": "MS_WORKER", "RANK_ID": "1", "MS_WORKER_NUM": "4"}) == Cluster(1, 4)
    assert not Cluster.of_environment({"MS_ROLE": "MS_SCHED", "RANK_ID": "0", "MS_WORKER_NUM": "4"}).shared


def test_a_worker_goes_to_the_announced_step_and_no_further(tmp_path: Path) -> None:
    step = 6
    follow = Follow(tmp_path / ".stop", lambda: step)
    assert follow.noted == 0
    announce(tmp_path / ".stop", 7, signal.SIGTERM)
    assert follow.noted == 0, "rank 0 makes step 7 before it stops"
    step = 7
    assert follow.noted == signal.SIGTERM


def test_more_workers_than_cores_are_refused_with_the_most_that_go() -> None:
    with pytest.raises(UsageError, match="--workers 64: this machine has 2 cores"):
        refuse_workers(64, 2)


def test_a_config_for_other_devices_is_told_the_workers_it_needs() -> None:
    config = parse_config(CONFIG.format(steps=5, batch=4, precision="O0").encode(), "a.yaml", "a")

    def wanting(**sizes: int) -> object:
        from dataclasses import replace

        args = TrainingArguments(use_parallel=True, parallel_config=sizes)
        return replace(config, args=args)

    refuse_devices(wanting(data_parallel=2), Cluster(0, 2))  # type: ignore[arg-type]
    with pytest.raises(UsageError) as found:
        refuse_devices(wanting(data_parallel=4), Cluster(0, 2))  # type: ignore[arg-type]
    assert "4 devices" in str(found.value)
    assert "--workers 4" in found.value.line("en")
    with pytest.raises(UsageError, match="model_parallel 2: this trainer parallelises over data only"):
        refuse_devices(wanting(data_parallel=2, model_parallel=2), Cluster(0, 4))  # type: ignore[arg-type]


def test_a_run_of_two_does_not_go_on_with_one(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.create(False)
    for rank in range(2):
        folder.metrics(rank).touch()
    folder.check_workers(2)
    with pytest.raises(UsageError, match="2 workers so far"):
        folder.check_workers(1)


@pytest.mark.heavy
@pytest.mark.mindspore
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="two workers need two cores")
def test_two_workers_give_the_losses_of_one_and_stop_together(tmp_path: Path) -> None:
    one = _train(_write(tmp_path, 10, 8), tmp_path / "one")
    said, _ = one.communicate(timeout=300)
    assert one.returncode == 0, said
    two = _train(_write(tmp_path, 4000, 4), tmp_path / "two", "--workers", "2")
    end = time.monotonic() + 300
    while not (tmp_path / "two/checkpoints/step-10").exists() and time.monotonic() < end:
        time.sleep(0.1)
    two.send_signal(signal.SIGTERM)
    said, _ = two.communicate(timeout=60)
    assert two.returncode == 143
    assert "--resume --workers 2" in said
    stopped = json.loads((tmp_path / "two/end.json").read_text())
    assert stopped["state"] == "interrupted"
    mine, other = _losses(tmp_path / "two"), _losses(tmp_path / "two", 1)
    assert mine == other
    assert len(mine) == stopped["last_step"]
    assert (tmp_path / "two/checkpoints" / f"step-{len(mine)}").is_dir()
    # Gradients summed over two workers are those of the large batch but for rounding.
    assert mine[:10] == pytest.approx(_losses(tmp_path / "one"), rel=1e-5)
