"""`doctor tune`: what is tried, what is kept, and a real run of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from doctor.supervisor import tune as tuning
from doctor.supervisor.tune import Measured, tune
from doctor.trainer.config import RunConfig, load_config, parse_config

CONFIG = b"model: llama\ntraining_args: {per_device_train_batch_size: 4, gradient_accumulation_steps: 4}\n"


def machine(monkeypatch: pytest.MonkeyPatch, speed: Any) -> None:
    """Replaces the measuring by a rule; every measured config must have the same global batch."""

    def measure(config: RunConfig, change: str, _steps: int, _root: Path) -> Measured:
        args = config.args
        assert args.per_device_train_batch_size * args.gradient_accumulation_steps == 16
        return Measured(change, config, 1.0, 0.0, speed(config), 100.0, 1.0)

    monkeypatch.setattr(tuning, "_measure", measure)


def by_batch(config: RunConfig) -> float:
    """Batch 8 is best, recompute costs a third, half precision doubles."""
    base = {2: 80.0, 4: 100.0, 8: 150.0, 16: 120.0}[config.args.per_device_train_batch_size]
    return base * (0.67 if config.args.recompute else 1.0) * (2.0 if config.args.mixed_precision == "O2" else 1.0)


def test_keeps_what_is_faster_and_changes_no_arithmetic_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, by_batch)
    rows = list(tune(parse_config(CONFIG, "x.yaml", "x"), 8, precision=False))
    assert [(row.change, row.kept) for row in rows] == [
        ("start", True),
        ("larger batch", True),
        ("larger batch again", False),
        ("recompute on", False),
        ("precision O2", False),
    ]
    assert rows[-1].row(rows[0])["against_start"] == pytest.approx(2.0)
    asked = list(tune(parse_config(CONFIG, "x.yaml", "x"), 8, precision=True))
    assert asked[-1].kept


def test_a_gain_that_does_not_come_again_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run of the start was slow by chance; the second, in turn with the variant, shows it."""
    calls: dict[str, int] = {}

    def speed(config: RunConfig) -> float:
        key = str(config.effective())
        calls[key] = calls.get(key, 0) + 1
        return 50.0 if len(calls) == 1 and calls[key] == 1 else 100.0

    machine(monkeypatch, speed)
    assert [row.change for row in tune(parse_config(CONFIG, "x.yaml", "x"), 8, precision=True) if row.kept] == ["start"]


def test_a_start_that_fails_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "_measure", lambda config, change, *_: Measured(change, config, error="no data"))
    rows = list(tune(parse_config(CONFIG, "x.yaml", "x"), 8, precision=True))
    assert [(row.change, row.error) for row in rows] == [("start", "no data")]


@pytest.mark.heavy
@pytest.mark.mindspore
def test_tune_for_real(tmp_path: Path) -> None:
    pytest.importorskip("mindspore")
    sizes = {"type": "llama", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 64}
    config = {
        "model": sizes,
        "train_dataset": {"data_loader": {"type": "Generated", "samples": 64}, "max_length": 16},
        "training_args": {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2},
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    command = [sys.executable, "-m", "doctor", "tune", "run.yaml", "--steps", "6", "--format", "json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)["facts"]
    assert facts["rows"][0]["change"] == "start"
    assert all(row["tokens_per_s"] > 0 and row["memory_mb"] > 0 for row in facts["rows"])
    best = load_config(str(tmp_path / "run.tuned.yaml"))
    assert best.args.per_device_train_batch_size * best.args.gradient_accumulation_steps == 4
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (again.returncode, again.stdout) == (2, "")
    assert "run.tuned.yaml is there already" in again.stderr


def test_the_best_config_is_the_one_given_with_its_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, by_batch)
    text = (
        "# tried on two cores\nmodel: llama  # the family\ntraining_args:\n  batch_size: 4   # by its other name\n"
        "  gradient_accumulation_steps: 4\n  mixed_precision: O0 # exact\n"
    )
    start, *more = list(tune(parse_config(text.encode(), "x.yaml", "x"), 8, precision=True))
    best = [row for row in (start, *more) if row.kept][-1]
    written = tuning.tuned_text(start.config, best.config)
    assert written == text.replace("batch_size: 4 ", "batch_size: 8 ").replace("steps: 4", "steps: 2").replace(
        "O0", "O2"
    )
    assert parse_config(written.encode(), "y.yaml", "y").args == best.config.args
    assert tuning.tuned_text(start.config, start.config) == text
