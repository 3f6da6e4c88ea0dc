"""What a user does to a run by hand: back to a checkpoint, or on with an edited config. The run has been stopped; what is
done is written down in the book of interventions, as the supervisor's own are.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from doctor.errors import UsageError
from doctor.finding import Text, plain
from doctor.trainer import checkpoint as checkpoints
from doctor.trainer.config import load_config
from doctor.trainer.runfolder import RunFolder, write_atomically


@dataclass(frozen=True)
class GoOn:
    """How the run goes on: the config, and what `doctor train --resume` is told."""

    config: Path
    resume: str


def current_config(folder: RunFolder) -> Path:
    """The config that the run was last given: that of the last intervention, else its own."""
    for row in reversed(booked(folder)):
        name = row.get("config")
        if isinstance(name, str) and (folder.root / name).is_file():
            return folder.root / name
    return folder.config


def booked(folder: RunFolder) -> list[dict[str, Any]]:
    """The rows of interventions.jsonl, those that can be read."""
    rows = []
    try:
        lines = folder.interventions.read_bytes().splitlines()
    except OSError:
        return []
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows


def book(folder: RunFolder, row: Mapping[str, Any]) -> None:
    with folder.interventions.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"time": round(time.time(), 3), **row}, ensure_ascii=False) + "\n")


def go_on(folder: RunFolder) -> GoOn:
    """From the newest checkpoint, as it was stopped. Raises UsageError where no run is."""
    if not folder.holds_run():
        raise UsageError(
            Text(f"{folder.root}: there is no run in it.", f"{folder.root}：其中没有训练记录。"),
            Text("Name the folder of a run of doctor train.", "请指定 doctor train 的运行目录。"),
        )
    return GoOn(current_config(folder), "newest")


def roll_back(folder: RunFolder, step: int) -> GoOn:
    """To the checkpoint of `step`; later ones are removed. Raises UsageError when there is none of that step."""
    found = next((item for item in checkpoints.whole(folder.checkpoints) if item.step == step), None)
    if found is None:
        raise UsageError(
            Text(
                f"{folder.root}: no whole checkpoint of step {step}.", f"{folder.root}：没有第 {step} 步的完整检查点。"
            ),
            Text(f"See: ls {folder.checkpoints}", f"请查看：ls {folder.checkpoints}"),
        )
    config = current_config(folder)
    removed = checkpoints.discard_after(folder.checkpoints, step)
    book(folder, _row(folder, "rolled back by hand", step, [], config, found, removed))
    return GoOn(config, str(found.path))


def edit(folder: RunFolder, text: str) -> GoOn:
    """With `text` as the config, from the newest checkpoint. Raises UsageError when it does not read; then nothing has
    changed."""
    old = load_config(str(current_config(folder)))
    path = folder.root / f"config.edit-{len(booked(folder)) + 1}.yaml"
    write_atomically(path, text)
    try:
        new = load_config(str(path))
    except UsageError:
        path.unlink()
        raise
    was, now = _flat(old.raw), _flat(new.raw)
    edits = [
        {"key": key, "old": plain(was.get(key)), "new": plain(now.get(key))}
        for key in sorted({*was, *now})
        if was.get(key) != now.get(key)
    ]
    found = checkpoints.whole(folder.checkpoints)
    newest = found[-1] if found else None
    book(folder, _row(folder, "config edited by hand", newest.step if newest else None, edits, path, newest, []))
    return GoOn(path, "newest")


def _row(
    folder: RunFolder,
    why: str,
    step: Optional[int],
    edits: list[dict[str, Any]],
    config: Path,
    checkpoint: Optional[checkpoints.Checkpoint],
    removed: list[int],
) -> dict[str, Any]:
    """A row of the form that the supervisor writes, without a finding."""
    return {
        "number": len(booked(folder)) + 1,
        "step": step,
        "finding": None,
        "why": why,
        "edits": edits,
        "config": config.name,
        "checkpoint": f"checkpoints/{checkpoint.path.name}" if checkpoint is not None else None,
        "checkpoints_removed": removed,
        "applicability": "manual",
        "consent": "asked",
    }


def _flat(raw: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Dotted keys to values."""
    found: dict[str, Any] = {}
    for key, value in raw.items():
        if isinstance(value, Mapping):
            found.update(_flat(value, f"{before}{key}."))
        else:
            found[f"{before}{key}"] = value
    return found
