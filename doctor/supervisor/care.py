"""One intervention: back to the last sound checkpoint, a new config beside the old one, a line in the book."""

from __future__ import annotations

import difflib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import yaml

from doctor.finding import Edit, Finding, plain
from doctor.plan.edit import edit_text
from doctor.plan.reader import parse
from doctor.supervisor.remedies import Remedy
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


def intervene(
    number: int, finding: Finding, remedy: Remedy, config: RunConfig, folder: RunFolder, consent: str
) -> Intervention:
    """Prepares the next attempt; the run must have stopped. `consent` tells who agreed: safe, asked, or yes (said before).

    Raises UsageError when the edited config does not read: then nothing was changed.
    """
    path = folder.root / f"config.fix-{number}.yaml"
    old, new = _edited(config, remedy.edits)
    write_atomically(path, new)
    edited = load_config(str(path))
    back = _sound_before(folder, _onset(finding)) if remedy.back else _newest(folder)
    removed = checkpoints.discard_after(folder.checkpoints, back.step if back is not None else -1)
    diff = "".join(
        difflib.unified_diff(
            old.splitlines(keepends=True), new.splitlines(keepends=True), config.source, str(path), n=2
        )
    )
    row = {
        "time": round(time.time(), 3),
        "number": number,
        "step": _onset(finding),
        "finding": {"rule": finding.rule, "name": finding.name, "message": finding.message.en},
        "why": remedy.summary.en,
        "edits": [
            {"key": key, "old": plain(at(config.raw, key)), "new": plain(value)} for key, value in remedy.edits.items()
        ],
        "config": path.name,
        "checkpoint": f"checkpoints/{back.path.name}" if back is not None else None,
        "checkpoints_removed": removed,
        "applicability": "safe" if remedy.safe else "unsafe",
        "consent": consent,
    }
    with folder.interventions.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return Intervention(number, finding, remedy, edited, path, diff, back)


def _onset(finding: Finding) -> Optional[int]:
    """The first step at which the evidence shows the fault."""
    steps = [item.step for item in finding.evidence if item.step is not None]
    return steps[0] if steps else None


def _sound_before(folder: RunFolder, step: Optional[int]) -> Optional[checkpoints.Checkpoint]:
    """The newest checkpoint from before that step whose weights are all finite."""
    found = [item for item in checkpoints.whole(folder.checkpoints) if item.sound]
    found = [item for item in found if step is None or item.step < step]
    return found[-1] if found else None


def _newest(folder: RunFolder) -> Optional[checkpoints.Checkpoint]:
    found = checkpoints.whole(folder.checkpoints)
    return found[-1] if found else None


def _edited(config: RunConfig, edits: Mapping[str, Any]) -> tuple[str, str]:
    """The config's text before and after: its own, with comments and layout, where that can be edited as meant; else the
    sections written anew."""
    if config.text is not None:
        wanted = [Edit(config.source, key, at(config.raw, key), value) for key, value in edits.items()]
        text = edit_text(config.text, wanted)
        read = parse(text.encode("utf-8"), Path(config.source)).root.plain()
        if all(at(read, key) == value for key, value in edits.items()):
            return config.text, text
    changed = _copy(config.raw)
    for key, value in edits.items():
        *parents, last = key.split(".")
        section = changed
        for name in parents:
            inner = section.get(name)
            section[name] = inner if isinstance(inner, dict) else {}
            section = section[name]
        section[last] = value
    return _dump(config.raw), _dump(changed)


def _dump(raw: Mapping[str, Any]) -> str:
    return yaml.safe_dump(_copy(raw), sort_keys=False, allow_unicode=True)


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, (list, tuple)) else value


def at(raw: Mapping[str, Any], key: str) -> Any:
    """The value under a dotted key, or None."""
    here: Any = raw
    for name in key.split("."):
        here = here.get(name) if isinstance(here, Mapping) else None
    return here
