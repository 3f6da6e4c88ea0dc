"""The machine that the run is on: memory that fills up, a disk too small for the next checkpoint, too many workers.

Pure like the other detectors: samples are taken elsewhere (`doctor.session.sampling`) and fed here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from doctor.detect.alarm import QUIET, Alarm
from doctor.detect.facts import RunFacts
from doctor.detect.window import slope
from doctor.finding import Evidence, Severity, Text

#: samples that a forecast rests on
WINDOW = 30
#: share of the memory in use before it is worth a word, and the time until it is full, in seconds
USED, SOON = 0.6, 7200.0
#: a steady rise: the slope in its standard errors
STEADY = 8.0
#: what a checkpoint needs beside its own size
ROOM = 1.05


@dataclass(frozen=True)
class Card:
    """An NPU as npu-smi lists it: its health in npu-smi's word, device memory in MB. Unknown is None."""

    npu_id: int
    chip_id: Optional[int] = None
    health: Optional[str] = None
    memory_used_mb: Optional[int] = None
    memory_total_mb: Optional[int] = None

    @property
    def place(self) -> tuple[int, int]:
        return self.npu_id, self.chip_id or 0

    @property
    def label(self) -> str:
        return f"NPU {self.npu_id}" + (f" chip {self.chip_id}" if self.chip_id else "")


@dataclass(frozen=True)
class HostSample:
    """One look at the machine. Bytes and seconds; unknown is None."""

    time: float
    memory_used: Optional[int] = None
    memory_total: Optional[int] = None
    cores: Optional[int] = None
    disk_path: Optional[str] = None
    disk_free: Optional[int] = None
    #: size of the newest checkpoint below `disk_path`
    checkpoint: Optional[int] = None
    #: what npu-smi listed; None when it was not asked or gave no answer
    cards: Optional[tuple[Card, ...]] = None


class Host:
    """RUN-HOST-001 memory grows, RUN-HOST-002 the next checkpoint does not fit, RUN-HOST-003 workers above the cores,
    RUN-HOST-004 a card is no longer healthy, RUN-HOST-005 a card is no longer there."""

    rules = ("RUN-HOST-001", "RUN-HOST-002", "RUN-HOST-003", "RUN-HOST-004", "RUN-HOST-005")

    def __init__(self, facts: RunFacts) -> None:
        self.facts = facts
        self.memory: deque[tuple[float, int]] = deque(maxlen=WINDOW)
        self.opened: dict[str, Alarm] = {}
        #: the cards that have been seen healthy since the run is watched
        self._well: dict[tuple[int, int], Card] = {}
        #: those that were ill, and that were missing, at the last look
        self._ill: dict[tuple[int, int], Card] = {}
        self._missing: dict[tuple[int, int], Card] = {}

    def feed(self, sample: HostSample) -> Sequence[Alarm]:
        return [*self._memory(sample), *self._disk(sample), *self._workers(sample), *self._cards(sample)]

    def _memory(self, sample: HostSample) -> Sequence[Alarm]:
        used, total = sample.memory_used, sample.memory_total
        if used is None or not total:
            return QUIET
        self.memory.append((sample.time, used))
        if len(self.memory) < WINDOW:
            return QUIET
        seconds = (self.memory[-1][0] - self.memory[0][0]) / (WINDOW - 1)
        rise, surely = slope([float(value) for _, value in self.memory])
        pace = rise / seconds if seconds > 0 else 0.0
        left = (total - used) / pace if pace > 0 else float("inf")
        if used < USED * total or surely < STEADY or left > SOON:
            return self._end("RUN-HOST-001") if surely < 2 else QUIET
        text = Text(f"{left / 60:.0f} minutes", f"{left / 60:.0f} 分钟")
        return self._open(
            "RUN-HOST-001",
            Evidence("value", "host memory", observed=used, expected=f"steady, of {total}"),
            ("pace", _size(60 * pace)),
            ("left", text),
            ("used", _size(used)),
            ("total", _size(total)),
        )

    def _disk(self, sample: HostSample) -> Sequence[Alarm]:
        free, need = sample.disk_free, sample.checkpoint
        if free is None or not need:
            return QUIET
        if free >= ROOM * need:
            return self._end("RUN-HOST-002")
        return self._open(
            "RUN-HOST-002",
            Evidence("value", sample.disk_path or "disk", observed=free, expected=f"at least {need}"),
            ("free", _size(free)),
            ("need", _size(need)),
            ("path", sample.disk_path or "?"),
        )

    def _workers(self, sample: HostSample) -> Sequence[Alarm]:
        workers, cores = self.facts.workers, sample.cores
        if workers is None or not cores or workers <= cores:
            return QUIET
        return self._open(
            "RUN-HOST-003",
            Evidence("value", "num_parallel_workers", observed=workers, expected=f"at most {cores}"),
            ("workers", workers),
            ("cores", cores),
        )

    def _cards(self, sample: HostSample) -> Sequence[Alarm]:
        """What was ill when the watch began is for ``doctor check``; a fault counts when it stands at two looks."""
        cards = sample.cards
        if cards is None:
            return QUIET
        listed = {card.place for card in cards}
        ill = {card.place: card for card in cards if card.place in self._well and _is_ill(card.health)}
        missing = {place: card for place, card in self._well.items() if place not in listed}
        self._well.update((card.place, card) for card in cards if (card.health or "").upper() == "OK")
        fresh, gone = sorted(ill.keys() & self._ill.keys()), sorted(missing.keys() & self._missing.keys())
        self._ill, self._missing = ill, missing
        said: list[Alarm] = []
        if fresh:
            card = ill[fresh[0]]
            said += self._open(
                "RUN-HOST-004",
                Evidence(
                    "command", "npu-smi info", text=f"{card.label}: {card.health}", observed=card.health, expected="OK"
                ),
                ("card", card.label),
                ("health", card.health or "?"),
                ("npu", card.npu_id),
            )
        elif not ill:
            said += self._end("RUN-HOST-004")
        if gone:
            names = ", ".join(missing[place].label for place in gone)
            said += self._open(
                "RUN-HOST-005",
                Evidence("command", "npu-smi info", text=names, observed=len(listed), expected=len(listed) + len(gone)),
                ("card", names),
                ("listed", len(listed)),
            )
        elif not missing:
            said += self._end("RUN-HOST-005")
        return said

    def _open(self, rule: str, evidence: Evidence, *values: tuple[str, object]) -> Sequence[Alarm]:
        if rule in self.opened:
            return QUIET
        self.opened[rule] = Alarm("opened", rule, None, (evidence,), values)
        return (self.opened[rule],)

    def _end(self, rule: str) -> Sequence[Alarm]:
        opened = self.opened.pop(rule, None)
        if opened is None:
            return QUIET
        return (Alarm("resolved", rule, None, opened.evidence, opened.values, Severity.INFO),)


def _is_ill(health: Optional[str]) -> bool:
    """`Warning` comes and goes with temperature and stops no run."""
    return (health or "").upper() in ("ALARM", "CRITICAL")


def _size(value: float) -> str:
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if abs(value) < 1000 or unit == "TB":
            return f"{value:.3g} {unit}"
        value /= 1000
    return "?"
