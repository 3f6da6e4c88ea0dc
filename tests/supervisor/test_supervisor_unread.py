"""A config that the trainer refuses to read: put right by what `check` proposes for the rule, with consent only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from doctor.errors import UsageError
from doctor.supervisor.care import put_right
from doctor.supervisor.unread import read_or_mend
from doctor.trainer.config import load_config
from doctor.trainer.runfolder import RunFolder

SIZES = "{type: llama, hidden_size: 32, num_hidden_layers: 1, num_attention_heads: 2, vocab_size: 64}"
RISES = f"model: {SIZES}  # small\ntraining_args:\n  learning_rate: 1.0e-3\n  lr_end: 0.5  # a slip\n"


def _write(folder: Path, text: str) -> Path:
    path = folder / "run.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_config_that_reads_is_left_alone(tmp_path: Path) -> None:
    path = _write(tmp_path, RISES.replace("0.5", "0.0"))
    config, changes = read_or_mend(str(path), 3, lambda *_: pytest.fail("nobody is to be asked"))
    assert config.args.lr_end == 0.0
    assert changes == ()


@pytest.mark.parametrize(("most", "agrees"), [(0, True), (3, False)])
def test_without_consent_the_refusal_stands(most: int, agrees: bool, tmp_path: Path) -> None:
    path = _write(tmp_path, RISES)
    with pytest.raises(UsageError, match=r"lr_end: 0\.5 is not at most learning_rate"):
        read_or_mend(str(path), most, lambda *_: agrees)
    assert path.read_text() == RISES


def test_with_consent_a_copy_is_edited_and_booked(tmp_path: Path) -> None:
    path = _write(tmp_path, RISES)
    config, changes = read_or_mend(
        str(path), 3, lambda finding, remedy: finding.rule == "CFG-LRS-001" and not remedy.safe
    )
    assert (config.args.lr_end, len(changes)) == (1e-4, 1)
    folder = RunFolder(tmp_path / "out")
    folder.create(False)
    done = put_right(1, changes[0], config, folder, "yes")
    assert path.read_text() == RISES
    assert load_config(str(done.path)).args.lr_end == 1e-4
    assert "# a slip" in done.path.read_text()
    assert "-  lr_end: 0.5  # a slip" in done.diff
    row = json.loads(folder.interventions.read_text())
    assert row["edits"] == [{"key": "training_args.lr_end", "old": 0.5, "new": 1e-4}]
    assert (row["finding"]["rule"], row["consent"], row["checkpoint"]) == ("CFG-LRS-001", "yes", None)


def test_two_faults_are_two_changes(tmp_path: Path) -> None:
    raw = yaml.safe_load(RISES)
    raw["training_args"].update(warmup_ratio=1.5)
    path = _write(tmp_path, yaml.safe_dump(raw))
    config, changes = read_or_mend(str(path), 3, lambda *_: True)
    assert [change.finding.rule for change in changes] == ["CFG-LRS-003", "CFG-LRS-001"]
    assert 0 < config.args.warmup_ratio <= 0.1


def test_where_nothing_is_proposed_the_refusal_stands(tmp_path: Path) -> None:
    path = _write(tmp_path, "model: no_such_model\n")
    with pytest.raises(UsageError):
        read_or_mend(str(path), 3, lambda *_: True)
    with pytest.raises(UsageError, match="no such file"):
        read_or_mend(str(tmp_path / "gone.yaml"), 3, lambda *_: True)
