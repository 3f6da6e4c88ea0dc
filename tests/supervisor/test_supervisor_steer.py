"""A run taken back, or gone on with another config, by hand: what is kept, what is removed, what is written down."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from doctor.errors import UsageError
from doctor.examples import example
from doctor.supervisor import steer
from doctor.trainer import checkpoint as checkpoints
from doctor.trainer.runfolder import RunFolder


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """The folder of a stopped run with checkpoints of three steps."""
    folder = RunFolder(tmp_path / "run")
    folder.create(False)
    source = example("tiny-llama")
    assert source is not None
    folder.config.write_text(source.read_text())
    for step in (10, 20, 30):
        weights = {"w": np.ones(3, np.float32)}
        checkpoints.save(folder.checkpoints, step, weights, {}, {"progress": {}})
    return folder


def steps(folder: RunFolder) -> list[int]:
    return [item.step for item in checkpoints.whole(folder.checkpoints)]


def test_a_run_goes_back_and_what_came_after_is_gone(run: RunFolder) -> None:
    way = steer.roll_back(run, 10)
    assert way == steer.GoOn(run.config, str(run.checkpoints / "step-10"))
    assert steps(run) == [10]
    (row,) = steer.booked(run)
    assert (row["number"], row["step"], row["finding"], row["checkpoint"]) == (1, 10, None, "checkpoints/step-10")
    assert row["checkpoints_removed"] == [20, 30] and row["consent"] == "asked"


def test_a_step_without_a_checkpoint_changes_nothing(run: RunFolder) -> None:
    with pytest.raises(UsageError):
        steer.roll_back(run, 15)
    assert steps(run) == [10, 20, 30] and not steer.booked(run)


def test_an_edited_config_is_written_beside_and_used_from_then_on(run: RunFolder) -> None:
    old = run.config.read_text()
    rate = next(line for line in old.splitlines() if "learning_rate:" in line)
    new = old.replace(rate, rate.split(":")[0] + ": 5.0e-4")
    way = steer.edit(run, new)
    assert way.config == run.root / "config.edit-1.yaml" and way.config.read_text() == new and way.resume == "newest"
    assert run.config.read_text() == old, "what the run began with stays readable"
    (row,) = steer.booked(run)
    assert [(edit["key"], edit["new"]) for edit in row["edits"]] == [("training_args.learning_rate", 5.0e-4)]
    assert steer.current_config(run) == way.config
    assert steer.go_on(run) == steer.GoOn(way.config, "newest")
    assert steer.roll_back(run, 20).config == way.config
    assert [row["number"] for row in steer.booked(run)] == [1, 2]


def test_a_config_that_does_not_read_changes_nothing(run: RunFolder) -> None:
    with pytest.raises(UsageError) as caught:
        steer.edit(run, run.config.read_text().replace("training_args:", "training_arguments:"))
    assert "training_arg" in caught.value.line("en")
    assert not list(run.root.glob("config.edit*")) and not steer.booked(run)


def test_a_damaged_row_does_not_hide_the_others(run: RunFolder) -> None:
    run.interventions.write_text('{"number": 1}\n[1]\n{"numb')
    assert steer.booked(run) == [{"number": 1}]


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        steer.go_on(RunFolder(tmp_path))


def test_rows_by_hand_have_the_keys_of_the_supervisors(run: RunFolder) -> None:
    steer.roll_back(run, 10)
    row = json.loads(run.interventions.read_text())
    wanted = {"time", "number", "step", "finding", "why", "edits", "config", "checkpoint", "checkpoints_removed"}
    assert wanted | {"applicability", "consent"} == set(row)
