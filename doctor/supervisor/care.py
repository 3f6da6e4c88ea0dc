"""One intervention: back to the last sound checkpoint, a new config beside the old one, a line in the book."""

from __future__ import annotations

import difflib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from doctor.finding import Finding, plain
from doctor.supervisor.cures.remedy import BEST, NEWEST, START, Remedy
from doctor.supervisor.edits import at, edited
from doctor.trainer import checkpoint as checkpoints
from doctor.trainer.config import RunConfig, load_config
from doctor.trainer.runfolder import RunFolder, write_atomically


@dataclass(frozen=True)
class Intervention:
    """What was done: the new config, the diff to the old one, and where the run goes on (None: from the start)."""

    number: int
    finding: Finding
    remedy: Remedy
    config: RunConfig
    path: Path
    diff: str
    checkpoint: Optional[checkpoints.Checkpoint]

    @property
    def resume(self) -> str:
        """For the trainer's --resume."""
        return str(self.checkpoint.path) if self.checkpoint is not None else "start"


@dataclass(frozen=True)
class Change:
    """A remedy for a finding, as the text of a config before and after."""

    finding: Finding
    remedy: Remedy
    old: str
    new: str

    def diff(self, source: str, path: Path) -> str:
        old, new = self.old.splitlines(keepends=True), self.new.splitlines(keepends=True)
        return "".join(difflib.unified_diff(old, new, source, str(path), n=2))


def put_right(number: int, change: Change, config: RunConfig, folder: RunFolder, consent: str) -> Intervention:
    """Books a change that was made before the run could begin; its config is the one to run with."""
    path = folder.root / f"config.fix-{number}.yaml"
    write_atomically(path, change.new)
    done = Intervention(number, change.finding, change.remedy, config, path, change.diff(config.source, path), None)
    edits = [
        {"key": edit.key, "old": plain(edit.old), "new": plain(edit.new)} for edit in change.finding.fixes[0].edits
    ]
    _book(folder, done, None, edits, [], consent)
    return done


def intervene(
    number: int, finding: Finding, remedy: Remedy, config: RunConfig, folder: RunFolder, consent: str
) -> Intervention:
    """Prepares the next attempt; the run must have stopped. `consent` tells who agreed: safe, asked, or yes (said before).

    Raises UsageError when the edited config does not read: then nothing was changed.
    """
    path = folder.root / f"config.fix-{number}.yaml"
    old, new = edited(config, remedy.edits)
    write_atomically(path, new)
    changed = load_config(str(path))
    back = _back(folder, _onset(finding), remedy.back)
    removed = checkpoints.discard_after(folder.checkpoints, back.step if back is not None else -1)
    diff = Change(finding, remedy, old, new).diff(config.source, path)
    done = Intervention(number, finding, remedy, changed, path, diff, back)
    edits = [
        {"key": key, "old": plain(at(config.raw, key)), "new": plain(value)} for key, value in remedy.edits.items()
    ]
    _book(folder, done, _onset(finding), edits, removed, consent)
    return done


def _book(
    folder: RunFolder,
    done: Intervention,
    onset: Optional[int],
    edits: list[dict[str, Any]],
    removed: list[int],
    consent: str,
) -> None:
    """A row of interventions.jsonl."""
    finding, back = done.finding, done.checkpoint
    row = {
        "time": round(time.time(), 3),
        "number": done.number,
        "step": onset,
        "finding": {"rule": finding.rule, "name": finding.name, "message": finding.message.en},
        "why": done.remedy.summary.en,
        "edits": edits,
        "config": done.path.name,
        "checkpoint": f"checkpoints/{back.path.name}" if back is not None else None,
        "checkpoints_removed": removed,
        "applicability": "safe" if done.remedy.safe else "unsafe",
        "consent": consent,
    }
    with folder.interventions.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _onset(finding: Finding) -> Optional[int]:
    """The first step at which the evidence shows the fault."""
    steps = [item.step for item in finding.evidence if item.step is not None]
    return steps[0] if steps else None


def _back(folder: RunFolder, onset: Optional[int], where: str) -> Optional[checkpoints.Checkpoint]:
    """The checkpoint that the run goes back to, as `Remedy.back` has it; None is the beginning.

    `sound` is the newest from before the onset whose weights are all finite, `best` also from before the loss was at its
    best. Where that lies in the first half of the way to the onset the run was never sound, and nothing of it is kept.
    """
    found = checkpoints.whole(folder.checkpoints)
    if where == START:
        return None
    if where == NEWEST:
        return found[-1] if found else None
    found = [item for item in found if item.sound]
    limit = onset
    if where == BEST and onset is not None:
        best = _best_step(_losses(folder), onset)
        limit = best + 1 if best is not None and best >= onset / 2 else 0
    found = [item for item in found if limit is None or item.step < limit]
    return found[-1] if found else None


#: losses over which a mean is taken to tell where a curve is lowest
_SMOOTH = 8


def _best_step(losses: Mapping[int, float], onset: int) -> Optional[int]:
    """The last step of the `_SMOOTH` steps before the onset whose mean loss is the least."""
    steps = sorted(step for step in losses if step < onset)
    windows = [steps[index : index + _SMOOTH] for index in range(len(steps) - _SMOOTH + 1)]
    means = {window[-1]: sum(losses[step] for step in window) / _SMOOTH for window in windows}
    return min(means, key=lambda step: means[step]) if means else None


def _losses(folder: RunFolder) -> dict[int, float]:
    """The finite losses by step; of a step made twice the later counts."""
    losses: dict[int, float] = {}
    for line in folder.metrics().read_text(encoding="utf-8").splitlines() if folder.metrics().exists() else ():
        try:
            row = json.loads(line)
        except ValueError:
            continue  # the last line of a process that was killed
        if not row.get("evaluation") and isinstance(row.get("loss"), float):
            losses[row["global_step"]] = row["loss"]
    return losses
