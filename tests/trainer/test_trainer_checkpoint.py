"""Checkpoints survive whatever happens while they are written."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doctor.errors import UsageError
from doctor.trainer import checkpoint as checkpoints


def arrays(step: int, size: int = 4000) -> dict[str, Any]:
    return {"a": np.full((size,), step, np.float32), "b": np.full((3, 5), -step, np.float32)}


def save(root: Path, step: int, **more: Any) -> checkpoints.Checkpoint:
    return checkpoints.save(root, step, arrays(step), {"m": np.zeros(4, np.float32)}, more)


def test_reads_back_what_was_written(tmp_path: Path) -> None:
    saved = save(tmp_path, 5, note="x")
    found = checkpoints.find(tmp_path)
    assert (found.path, found.step, found.state["note"]) == (saved.path, 5, "x")
    weights, optimizer = checkpoints.read_arrays(found)
    assert set(weights) == {"a", "b"}
    assert np.array_equal(weights["b"], arrays(5)["b"])
    assert set(optimizer) == {"m"}
    assert (tmp_path / "latest").resolve() == saved.path.resolve()


def test_keeps_the_last_ones_the_best_and_the_last_sound(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        save(tmp_path, step)
    for step in (4, 5, 6):
        broken = {**arrays(step), "b": np.full((3, 5), np.nan, np.float32)}
        assert not checkpoints.save(tmp_path, step, broken, {}, {}).sound
    assert checkpoints.prune(tmp_path, keep=2, best=1) == [2, 4]
    assert [item.step for item in checkpoints.whole(tmp_path)] == [1, 3, 5, 6]
    assert [item.step for item in checkpoints.whole(tmp_path) if item.sound] == [1, 3]


def test_going_back_removes_what_came_later(tmp_path: Path) -> None:
    for step in (2, 4, 6):
        save(tmp_path, step)
    assert checkpoints.discard_after(tmp_path, 2) == [4, 6]
    assert (tmp_path / "latest").resolve().name == "step-2"
    checkpoints.discard_after(tmp_path, -1)
    assert not checkpoints.whole(tmp_path)


@pytest.mark.parametrize("torn", ["model.safetensors", "optimizer.safetensors", "state.json"])
def test_torn_one_is_passed_over(tmp_path: Path, torn: str) -> None:
    save(tmp_path, 1)
    path = save(tmp_path, 2).path / torn
    path.write_bytes(path.read_bytes()[:-5])
    assert checkpoints.find(tmp_path).step == 1


@pytest.mark.parametrize(
    ("torn", "why"),
    [
        ("model.safetensors", "step-2 model.safetensors has [0-9]+ of [0-9]+ bytes"),
        ("state.json", "step-2 state.json cannot be read"),
        ("", "step-2 has no state.json"),
    ],
)
def test_where_all_are_torn_it_is_said_instead_of_beginning_anew(tmp_path: Path, torn: str, why: str) -> None:
    for step in (1, 2):
        folder = save(tmp_path, step).path
        if torn:
            (folder / torn).write_bytes((folder / torn).read_bytes()[:-5])
        else:
            (folder / "state.json").unlink()
    with pytest.raises(UsageError, match=why) as found:
        checkpoints.newest(tmp_path)
    assert "rm -r" in found.value.line("en")
    assert [item.path.name for item in checkpoints.torn(tmp_path)] == ["step-1", "step-2"]


def test_the_newest_of_none_is_none_and_torn_ones_are_told_beside_a_whole_one(tmp_path: Path) -> None:
    assert checkpoints.newest(tmp_path / "nowhere") is None
    assert checkpoints.newest(tmp_path) is None
    save(tmp_path, 1)
    (save(tmp_path, 2).path / "optimizer.safetensors").unlink()
    newest = checkpoints.newest(tmp_path)
    assert newest is not None
    assert newest.step == 1
    assert [str(item) for item in checkpoints.torn(tmp_path)] == ["step-2 (has no optimizer.safetensors)"]


def test_file_with_the_right_size_and_wrong_bytes_is_one_clear_line(tmp_path: Path) -> None:
    path = save(tmp_path, 1).path / "model.safetensors"
    path.write_bytes(b"\xff" * path.stat().st_size)
    with pytest.raises(UsageError, match="cannot be read"):
        checkpoints.read_arrays(checkpoints.find(tmp_path))


def test_full_disk_leaves_the_earlier_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 1)

    def full(*_args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints, "_write_text", full)
    with pytest.raises(OSError, match="No space"):
        save(tmp_path, 2)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["latest", "step-1"]


def test_a_step_saved_again_replaces_the_old_one(tmp_path: Path) -> None:
    save(tmp_path, 3, run=1)
    save(tmp_path, 3, run=2)
    assert checkpoints.find(tmp_path).state["run"] == 2


def test_one_set_aside_by_a_killed_save_comes_back(tmp_path: Path) -> None:
    save(tmp_path, 3).path.rename(tmp_path / ".step-3.99.old")
    (tmp_path / ".step-4.99.tmp").mkdir()
    checkpoints.clean(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest", "step-3"]


@pytest.mark.parametrize("moments", [30, pytest.param(200, marks=pytest.mark.heavy)])
def test_killed_at_any_moment_there_is_a_whole_one(tmp_path: Path, moments: int) -> None:
    """Savers are killed at random moments; each time the newest whole checkpoint reads back, and it is the one
    before the save that was cut short or that one itself."""
    source = random.Random(1)
    save(tmp_path, 0)
    last = 0
    for _ in range(moments):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            for step in range(last + 1, last + 1000):
                save(tmp_path, step)
                checkpoints.prune(tmp_path, keep=2)
                os.write(writer, b"%d\n" % step)
            os._exit(0)
        begun = time.perf_counter()
        first = os.read(reader, 1 << 16)
        # Somewhere within the next save or the one after it, however slow this machine is just now.
        time.sleep(source.random() * 2 * (time.perf_counter() - begun))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(writer)
        finished = int((first + os.read(reader, 1 << 16)).split()[-1])
        os.close(reader)
        found = checkpoints.find(tmp_path)
        assert finished <= found.step <= finished + 1
        weights, _ = checkpoints.read_arrays(found)
        assert (weights["a"] == found.step).all()
        assert json.loads((found.path / "state.json").read_text())["step"] == found.step
        checkpoints.clean(tmp_path)
        last = found.step
    assert last > moments
