"""`doctor train` as a user sees it: watched, cured, and its exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from doctor.trainer.config import load_config

pytestmark = [pytest.mark.mindspore]
pytest.importorskip("mindspore")

OVERFLOWS: dict[str, Any] = {
    "model": {"type": "llama", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 64},
    "train_dataset": {"data_loader": {"type": "Generated", "samples": 64}, "max_length": 16},
    "training_args": {
        "seed": 3,
        "max_steps": 40,
        "per_device_train_batch_size": 4,
        "learning_rate": 0.01,
        "mixed_precision": "O2",
        "loss_scale": {"type": "fixed", "loss_scale_value": 2**26, "drop_overflow_update": False},
        "save_steps": 10,
    },
}


def doctor(*words: str, cwd: Path, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "doctor", *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        **more,
    )


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(OVERFLOWS, sort_keys=False))
    return path


def test_a_real_overflow_is_seen_said_cured_and_written_down(faulty: Path, tmp_path: Path) -> None:
    done = doctor("train", "run.yaml", "--output-dir", "out", "--auto-fix", "--lang", "en", cwd=tmp_path)
    out = tmp_path / "out"
    assert done.returncode == 0, done.stderr + done.stdout[-2000:]
    assert "error RUN-NAN-001" in done.stdout
    assert "+    type: dynamic" in done.stdout
    assert "step 40/40" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("OK")

    rows = [json.loads(line) for line in (out / "interventions.jsonl").read_text().splitlines()]
    assert [row["finding"]["rule"] for row in rows] == ["RUN-NAN-001"]
    assert json.loads((out / "end.json").read_text())["state"] == "ended"
    assert (out / "config.fix-1.yaml").exists()
    assert "type: fixed" in (out / "config.yaml").read_text()
    events = [json.loads(line) for line in (out / "findings.jsonl").read_text().splitlines()]
    told = [event["event"] for event in events if event["finding"]["rule"] == "RUN-NAN-001"]
    # how often it is "updated" between depends on how many steps each look at the log meets
    assert [event for event in told if event != "updated"][:2] == ["opened", "resolved"]

    metrics = [json.loads(line) for line in (out / "metrics" / "rank_0.jsonl").read_text().splitlines()]
    assert any(row["loss"] == "nan" for row in metrics)
    assert metrics[-1]["global_step"] == 40
    assert metrics[-1]["loss"] < metrics[0]["loss"] - 0.3


@pytest.mark.heavy
def test_without_consent_it_is_only_said(faulty: Path, tmp_path: Path) -> None:
    done = doctor("train", "run.yaml", "--output-dir", "out", "--lang", "en", cwd=tmp_path)
    assert done.returncode == 1
    assert "error RUN-NAN-001" in done.stdout
    assert "edit: training_args.loss_scale.type: fixed -> dynamic" in done.stdout
    assert done.stdout.splitlines()[-1].endswith("Next: doctor train run.yaml --auto-fix")
    assert (tmp_path / "out" / "interventions.jsonl").read_text() == ""


@pytest.mark.heavy
def test_fixes_that_change_the_training_need_a_word(tmp_path: Path) -> None:
    config = json.loads(json.dumps(OVERFLOWS))
    config["training_args"].update(mixed_precision="O0", loss_scale=None, adam_beta2=0.0)
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    told = doctor("train", "run.yaml", "--output-dir", "a", "--auto-fix", "--lang", "en", cwd=tmp_path)
    assert told.returncode == 1
    assert "--unsafe-fixes allows it" in told.stderr
    done = doctor(
        "train", "run.yaml", "--output-dir", "b", "--auto-fix", "--unsafe-fixes", "--lang", "en", cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert edited(tmp_path / "b") == {"training_args.adam_beta2"}


def edited(folder: Path) -> set[str]:
    """The keys that interventions changed."""
    rows = [json.loads(line) for line in (folder / "interventions.jsonl").read_text().splitlines()]
    return {key["key"] for row in rows for key in row["edits"]}


#: the command, which tries two rates after the range test where it else tries five: each is a process
_TRIES_TWO = "import sys, doctor.cli, doctor.supervisor.rates as rates; rates.TRIALS = 2; sys.exit(doctor.cli.main())"


@pytest.mark.heavy
def test_a_rate_that_breaks_the_run_is_replaced_by_one_that_was_measured(tmp_path: Path) -> None:
    config = json.loads(json.dumps(OVERFLOWS))
    config["training_args"].update(mixed_precision="O0", loss_scale=None, learning_rate=1e5, max_grad_norm=0)
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    command = [sys.executable, "-c", _TRIES_TWO, "train", "run.yaml", "--output-dir", "out"]
    command += ["--auto-fix", "--unsafe-fixes", "--lang", "en"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert edited(tmp_path / "out") >= {"training_args.learning_rate"}
    assert "in a short run with a rising rate the loss fell" in (tmp_path / "out" / "interventions.jsonl").read_text()


@pytest.mark.heavy
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_saves_and_ends(number: int, code: int, tmp_path: Path) -> None:
    config = json.loads(json.dumps(OVERFLOWS))
    config["training_args"].update(mixed_precision="O0", loss_scale=None, max_steps=100_000)
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    command = [sys.executable, "-m", "doctor", "train", "run.yaml", "--output-dir", "out"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        metrics = tmp_path / "out" / "metrics" / "rank_0.jsonl"
        _wait_for(lambda: metrics.exists() and metrics.read_text().count("\n") > 12)
        child.send_signal(number)
        child.communicate(timeout=60)
        assert child.returncode == code
    end = json.loads((tmp_path / "out" / "end.json").read_text())
    assert (end["state"], end["exit_code"]) == ("interrupted", code)
    assert (tmp_path / "out" / "checkpoints" / f"step-{end['last_step']}").is_dir()


@pytest.mark.heavy
def test_ten_runs_killed_at_random_lose_only_unsaved_steps_and_resume_alike(tmp_path: Path) -> None:
    """kill -9 of the whole run, the supervisor and so the trainer; the last resumed run agrees with an unbroken one."""
    import random

    config = json.loads(json.dumps(OVERFLOWS))
    config["training_args"].update(mixed_precision="O0", loss_scale=None, max_steps=240, save_steps=7)
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    whole = doctor("train", "run.yaml", "--output-dir", "whole", cwd=tmp_path)
    assert whole.returncode == 0
    source = random.Random(5)
    metrics = tmp_path / "out" / "metrics" / "rank_0.jsonl"
    for _ in range(10):
        resume = ["--resume"] if metrics.exists() else []
        command = [sys.executable, "-m", "doctor", "train", "run.yaml", "--output-dir", "out", *resume]
        lines = metrics.read_text().count("\n") if metrics.exists() else 0
        with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
            more = lines + source.randrange(1, 20)
            _wait_for(lambda more=more: metrics.exists() and metrics.read_text().count("\n") >= more)
            os.kill(child.pid, signal.SIGKILL)
    done = doctor("train", "run.yaml", "--output-dir", "out", "--resume", cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr

    def losses(folder: str) -> dict[int, float]:
        text = (tmp_path / folder / "metrics" / "rank_0.jsonl").read_text()
        rows = [json.loads(line) for line in text.splitlines()]
        return {row["global_step"]: row["loss"] for row in rows}

    assert losses("out") == losses("whole")


@pytest.mark.heavy
def test_smoke_goes_the_whole_way(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("model: glm4_9b\ntraining_args: {mixed_precision: bf16, recompute: true}\n")
    done = doctor("train", "run.yaml", "--smoke", "--format", "json", "--lang", "en", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    rows = json.loads(done.stdout)["facts"]["rows"]
    assert [row["stage"] for row in rows if row["state"] == "passed"] == ["shrink", "train", "save", "resume"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.yaml"]


def test_bad_config_is_one_line_and_exit_2(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("model: llama\ntraining_args:\n  learning_rat: 0.1\n")
    done = doctor("train", "run.yaml", "--lang", "en", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert "run.yaml:3: training_args.learning_rat is not a known setting. Did you mean learning_rate?" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.yaml"]


def _wait_for(ready: Any, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


@pytest.mark.heavy
def test_a_trainer_that_is_killed_is_a_failed_run(tmp_path: Path) -> None:
    """As the kernel does when memory runs out: no last words of its own."""
    import psutil

    config = json.loads(json.dumps(OVERFLOWS))
    config["training_args"].update(mixed_precision="O0", loss_scale=None, max_steps=100_000)
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    command = [sys.executable, "-m", "doctor", "train", "run.yaml", "--output-dir", "out"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        metrics = tmp_path / "out" / "metrics" / "rank_0.jsonl"
        _wait_for(lambda: metrics.exists() and metrics.read_text().count("\n") > 12)
        for process in psutil.Process(child.pid).children():
            process.kill()
        child.communicate(timeout=60)
        assert child.returncode == 1
    end = json.loads((tmp_path / "out" / "end.json").read_text())
    assert (end["state"], end["exit_code"]) == ("failed", 137)
    assert end["last_step"] > 12


@pytest.mark.heavy
def test_interrupted_while_it_sets_up(tmp_path: Path, faulty: Path) -> None:
    command = [sys.executable, "-m", "doctor", "train", "run.yaml", "--output-dir", "out"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        _wait_for(lambda: (tmp_path / "out" / "log" / "rank_0.log").exists())
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)
        assert child.returncode == 130
    assert json.loads((tmp_path / "out" / "end.json").read_text())["state"] == "interrupted"


@pytest.mark.heavy
def test_more_workers_than_cores_is_cured_before_the_first_step(tmp_path: Path) -> None:
    config = json.loads(json.dumps(OVERFLOWS))
    config["training_args"].update(mixed_precision="O0", loss_scale=None, max_steps=2)
    config["train_dataset"]["num_parallel_workers"] = 4096
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    told = doctor("train", "run.yaml", "--output-dir", "a", "--lang", "en", cwd=tmp_path)
    assert told.returncode == 2
    assert "4096 workers on" in told.stderr
    done = doctor("train", "run.yaml", "--output-dir", "b", "--lang", "en", "--auto-fix", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    row = json.loads((tmp_path / "b" / "interventions.jsonl").read_text())
    assert row["edits"][0]["key"] == "train_dataset.num_parallel_workers"


@pytest.mark.heavy
def test_check_can_try_the_config_as_well(tmp_path: Path) -> None:
    config = json.loads(json.dumps(OVERFLOWS))
    config["training_args"].update(mixed_precision="O0", loss_scale=None)
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    done = doctor("check", "run.yaml", "--smoke", "--format", "json", "--lang", "en", cwd=tmp_path)
    smoke = json.loads(done.stdout)["facts"]["smoke"]
    assert smoke["works"], done.stdout
    assert [row["stage"] for row in smoke["rows"]] == ["shrink", "train", "save", "resume"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.yaml"]


def test_smoke_is_for_one_config(tmp_path: Path) -> None:
    done = doctor("check", "--smoke", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("doctor: --smoke tries one training config")


def test_the_config_in_the_help_is_read_as_it_stands(tmp_path: Path) -> None:
    shown = doctor("train", "--help", "--lang", "en", cwd=tmp_path).stdout
    text = shown[shown.index("  model: {") :]
    assert max(len(line) for line in text.splitlines()) <= 80
    (tmp_path / "run.yaml").write_text("\n".join(line[2:] for line in text.splitlines()))
    read = load_config(str(tmp_path / "run.yaml"))
    assert (read.model.hidden_size, read.dataset.data_loader.type, read.args.summary_dir) == (
        128,
        "Json",
        "tensorboard",
    )
