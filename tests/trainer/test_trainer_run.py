"""Real runs of the trainer's process: the folder it leaves, resuming, signals, and what it does with bad input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = [pytest.mark.mindspore]
pytest.importorskip("mindspore")

TINY: dict[str, Any] = {
    "model": {"type": "llama", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 64},
    "train_dataset": {"data_loader": {"type": "Generated", "samples": 40}, "max_length": 16},
    "training_args": {
        "seed": 3,
        "max_steps": 12,
        "per_device_train_batch_size": 4,
        "learning_rate": 0.01,
        "warmup_steps": 2,
        "save_steps": 4,
        "save_total_limit": 2,
    },
}
Train = Callable[..., "subprocess.CompletedProcess[str]"]


def write(path: Path, **training: Any) -> Path:
    config = {**TINY, "training_args": {**TINY["training_args"], **training}}
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "doctor.trainer", *words]


def train(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*words), cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


def metrics(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "metrics" / "rank_0.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run from its first step to its last, never interrupted."""
    root = tmp_path_factory.mktemp("whole")
    done = train(str(write(root / "run.yaml")), "--output-dir", "out", cwd=root)
    assert done.returncode == 0, done.stderr
    return root / "out"


def test_folder_holds_what_the_contract_names(whole: Path) -> None:
    assert json.loads((whole / "end.json").read_text())["state"] == "ended"
    assert json.loads((whole / "end.json").read_text())["last_step"] == 12
    assert sorted(path.name for path in (whole / "checkpoints").iterdir()) == ["latest", "step-12", "step-8"]
    assert (whole / "checkpoints" / "latest").resolve().name == "step-12"
    for name in ("findings.jsonl", "interventions.jsonl"):
        assert (whole / name).read_text() == ""
    config = yaml.safe_load((whole / "config.yaml").read_text())
    assert config["training_args"]["adam_beta2"] == 0.95
    assert config["versions"]["mindspore"]
    state = json.loads((whole / "checkpoints" / "step-12" / "state.json").read_text())
    assert state["sound"] is True
    assert {"progress", "scaler", "schedule", "random", "model"} <= set(state)


def test_loss_falls_and_each_step_is_measured(whole: Path) -> None:
    rows = metrics(whole)
    assert [row["global_step"] for row in rows] == list(range(1, 13))
    assert [row["epoch"] for row in rows] == [1] * 10 + [2] * 2
    assert [row["step"] for row in rows[9:]] == [10, 1, 2]
    assert rows[-1]["loss"] < rows[0]["loss"] - 0.1
    for row in rows:
        assert {"loss", "lr", "grad_norm", "step_time_ms", "data_time_ms", "tokens_per_s", "memory_mb"} <= set(row)
        assert row["overflow"] is False
    assert rows[0]["lr"] == 0.0
    assert rows[2]["lr"] == pytest.approx(0.01)


def test_step_lines_are_mindformers_and_agree_with_the_json_lines(whole: Path) -> None:
    from doctor.records.metrics import MetricReader
    from doctor.records.record import Chunk

    data = (whole / "log" / "rank_0.log").read_bytes()
    read = [item for item in MetricReader().feed(Chunk("log", data, 0, 1)) if item.loss is not None]
    rows = metrics(whole)
    assert len(read) == len(rows)
    for item, row in zip(read, rows):
        assert item.loss == pytest.approx(row["loss"], abs=1e-6)
        assert (item.epoch, item.step, item.line) == (row["epoch"], row["step"], row["line"])
        assert item.grad_norm == pytest.approx(row["grad_norm"], rel=1e-5)


def test_screen_is_clean_and_the_log_complete(tmp_path: Path) -> None:
    done = train(str(write(tmp_path / "run.yaml", max_steps=2)), "--output-dir", "out", cwd=tmp_path)
    assert done.stderr == ""
    assert all(line[:4].isdigit() for line in done.stdout.splitlines())
    log = (tmp_path / "out" / "log" / "rank_0.log").read_text()
    assert "global_batch_size = batch_size_per_card * device_num * gradient_accumulation_steps = 4 = 4 * 1 * 1" in log
    assert "config |   learning_rate: 0.01" in log
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "run.yaml"]


def test_resumed_run_gives_the_very_losses_of_the_unbroken_one(whole: Path, tmp_path: Path) -> None:
    config = str(write(tmp_path / "run.yaml"))
    child = subprocess.Popen(
        command(config, "--output-dir", "out"), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    for line in child.stdout:
        if "Epoch:[  1/  2], step:[    5/" in line:
            child.send_signal(signal.SIGTERM)
            break
    child.communicate(timeout=60)
    assert child.returncode == 143
    end = json.loads((tmp_path / "out" / "end.json").read_text())
    assert (end["state"], end["exit_code"]) == ("interrupted", 143)
    assert end["last_step"] >= 5

    done = train(config, "--output-dir", "out", "--resume", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    expected = {row["global_step"]: row["loss"] for row in metrics(whole)}
    seen = {row["global_step"]: row["loss"] for row in metrics(tmp_path / "out")}
    assert seen == expected


def test_a_fault_in_the_folder_is_one_line_and_exit_2(whole: Path, tmp_path: Path) -> None:
    config = str(write(tmp_path / "run.yaml"))
    again = train(config, "--output-dir", str(whole), cwd=tmp_path)
    assert (again.returncode, again.stdout) == (2, "")
    assert "holds a run already" in again.stderr
    (tmp_path / "file").write_text("")
    assert "this is a file" in train(config, "--output-dir", "file", cwd=tmp_path).stderr


def test_checkpoint_of_another_model_is_refused_before_any_compile(whole: Path, tmp_path: Path) -> None:
    other = {**TINY, "model": {**TINY["model"], "hidden_size": 64}}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(other))
    done = train("run.yaml", "--output-dir", "out", "--resume", str(whole / "checkpoints" / "step-8"), cwd=tmp_path)
    assert done.returncode == 2
    assert "another model: hidden_size 32 (config: 64)" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_second_process_in_a_folder_is_told_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from doctor.errors import UsageError
    from doctor.trainer.runfolder import RunFolder

    folder = RunFolder(tmp_path / "out")
    folder.create(False)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        with folder.lock():
            os.write(writer, b"x")
            time.sleep(30)
        os._exit(0)
    try:
        os.read(reader, 1)
        with pytest.raises(UsageError, match=f"process {pid} is training there"), folder.lock(patience=0.1):
            pass
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
