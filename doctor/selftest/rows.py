"""Results by part and kind: what was planted, what was found, how soon, and what was raised in vain."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from doctor.finding import Text
from doctor.selftest.trial import PARTS, Result

#: what delays are counted in
UNITS = {"watch": "steps", "explain": "lines"}


@dataclass(frozen=True)
class Row:
    """One kind of one part. `healthy` is the number of inputs without a fault, `hidden` that of faults of which nothing was
    to be seen, which count neither as planted nor as missed."""

    part: str
    kind: str
    results: tuple[Result, ...]

    @property
    def judged(self) -> tuple[Result, ...]:
        return tuple(item for item in self.results if item.found is not None and not item.hidden)

    @property
    def missed(self) -> tuple[Result, ...]:
        return tuple(item for item in self.judged if not item.found)

    @property
    def planted(self) -> int:
        return len(self.judged)

    @property
    def found(self) -> int:
        return self.planted - len(self.missed)

    @property
    def hidden(self) -> int:
        return sum(item.hidden for item in self.results)

    @property
    def healthy(self) -> int:
        return sum(item.found is None and not item.hidden for item in self.results)

    @property
    def alarmed(self) -> tuple[Result, ...]:
        return tuple(item for item in self.results if item.alarms)

    @property
    def delay(self) -> Optional[float]:
        delays = [item.delay for item in self.judged if item.delay is not None]
        return float(statistics.median(delays)) if delays else None

    @property
    def delays_ms(self) -> list[float]:
        return sorted(ms for item in self.results for ms in item.delays_ms)

    def to_dict(self, timed: bool) -> dict[str, Any]:
        row: dict[str, Any] = {
            "part": self.part,
            "kind": self.kind,
            "rules": sorted({rule for item in self.results for rule in item.rules}),
            "planted": self.planted,
            "found": self.found,
            "delay": self.delay,
            "unit": UNITS.get(self.part),
            "healthy": self.healthy,
            "false_alarms": len(self.alarmed),
            "missed": [item.trial.case for item in self.missed],
        }
        if self.hidden:
            row["not_to_be_seen"] = self.hidden
        if self.alarmed:
            row["alarms"] = [
                {"case": item.trial.case, "rule": alarm.rule, "severity": alarm.severity, **alarm.place.to_dict()}
                for item in self.alarmed
                for alarm in item.alarms
            ]
        if timed and self.delays_ms:
            row["delay_ms"] = {"p50": quantile(self.delays_ms, 0.5), "p99": quantile(self.delays_ms, 0.99)}
        return row


@dataclass(frozen=True)
class Part:
    """All that one part gave; `skipped` says why it gave nothing."""

    name: str
    results: tuple[Result, ...] = ()
    skipped: Optional[Text] = None

    @property
    def rows(self) -> tuple[Row, ...]:
        groups: dict[str, list[Result]] = {}
        for item in self.results:
            groups.setdefault(item.trial.kind, []).append(item)
        return tuple(Row(self.name, kind, tuple(found)) for kind, found in groups.items())

    @property
    def whole(self) -> Row:
        return Row(self.name, "", self.results)

    @property
    def crash(self) -> Optional[str]:
        return next((item.crash for item in self.results if item.crash is not None), None)


def parts_of(results: Iterable[Result], skipped: dict[str, Text]) -> tuple[Part, ...]:
    """The parts that were asked for, in their order."""
    groups: dict[str, list[Result]] = {}
    for item in results:
        groups.setdefault(item.trial.part, []).append(item)
    return tuple(
        Part(name, tuple(groups.get(name, ())), skipped.get(name))
        for name in PARTS
        if name in groups or name in skipped
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest of the ordered values that so large a share does not exceed."""
    at = min(len(ordered) - 1, max(0, -(-len(ordered) * share // 1) - 1))
    return ordered[int(at)]
