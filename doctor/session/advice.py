"""What to do now about a finding: from which checkpoint to go on."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import NamedTuple, Optional

from doctor.finding import Finding, Fix, Text

#: saves that are remembered
MOST_SAVES = 256

#: categories whose faults make the weights worse, so that the place in time of a checkpoint counts
_SPOILS = frozenset(("nan-overflow", "loss-not-converging", "ckpt-format"))
#: rules of those categories after which the weights are still good
_HARMLESS = frozenset(
    ("RUN-OVF-001", "RUN-OVF-003", "RUN-LOSS-002", "RUN-LOSS-007", "RUN-LOSS-009", "RUN-GRAD-003", "RUN-GRAD-004")
)


class Save(NamedTuple):
    """A checkpoint that the log says was written."""

    step: int
    path: Optional[str]


class Saves:
    """The checkpoints that a run has written, newest last."""

    def __init__(self) -> None:
        self._saves: deque[Save] = deque(maxlen=MOST_SAVES)

    def add(self, step: int, path: Optional[str]) -> None:
        if not self._saves or self._saves[-1].step != step:
            self._saves.append(Save(step, path))

    def absorb(self, other: Saves) -> None:
        """Takes over the saves that another log tells of; the ranks of a run save at the same steps."""
        known = {save.step for save in self._saves}
        merged = sorted([*self._saves, *(save for save in other._saves if save.step not in known)])
        self._saves = deque(merged, maxlen=MOST_SAVES)

    def last(self) -> Optional[Save]:
        return self._saves[-1] if self._saves else None

    def before(self, step: int) -> Optional[Save]:
        """The newest checkpoint whose weights no step from `step` on has touched."""
        good = [save for save in self._saves if save.step < step]
        return max(good, key=lambda save: save.step) if good else None

    def __bool__(self) -> bool:
        return bool(self._saves)


def resume_words(save: Optional[Save]) -> Optional[Text]:
    """Where to go on from, as a sentence."""
    if save is None:
        return None
    where = f" ({save.path})" if save.path else ""
    return Text(
        f"Then resume from the checkpoint of step {save.step}{where}.",
        f"然后从第 {save.step} 步的 checkpoint{where} 续训。",
    )


def advised(finding: Finding, onset: Optional[int], saves: Saves) -> Finding:
    """The finding with the checkpoint to go back to, where that matters and the log tells of one."""
    if finding.category not in _SPOILS or finding.rule in _HARMLESS or onset is None or not saves:
        return finding
    save = saves.before(onset)
    if save is None:
        words = Text(
            f"Every checkpoint that this log tells of was saved at or after step {onset}: start again, or from the weights you began with.",
            f"日志中的 checkpoint 都在第 {onset} 步或之后保存：请重新开始，或从最初的权重开始。",
        )
    else:
        where = f" ({save.path})" if save.path else ""
        words = Text(
            f"Resume from the checkpoint of step {save.step}{where}: it is the last one from before step {onset}.",
            f"从第 {save.step} 步的 checkpoint{where} 续训：它是第 {onset} 步之前的最后一个。",
        )
    return finding.with_(fixes=(*finding.fixes, Fix(words)))


def placed(finding: Finding, place: str) -> Finding:
    """The finding with the user's own path in the commands that watch or explain a run."""

    def put(command: Optional[str]) -> Optional[str]:
        if command is None or not command.startswith("doctor ") or not command.endswith(" PATH"):
            return command
        return f"{command[:-4]}{place}"

    fixes = tuple(replace(fix, command=put(fix.command), verify=put(fix.verify)) for fix in finding.fixes)
    return finding if fixes == finding.fixes else finding.with_(fixes=fixes)
