"""What a detector says, and what every detector is.

A detector is pure: it is fed the step records of one stream in order, holds windows of fixed length, reads no
clock and touches no file. What it says is an `Alarm`: the rule, the step at which the fault began, the lines that
prove it and the numbers for the rule's text. The session turns alarms into findings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Optional

from doctor.finding import Evidence, Severity, Text
from doctor.records.record import Metric


@dataclass(frozen=True)
class Alarm:
    """`kind` is opened, updated or resolved; a detector opens a rule once and says how it went on. `onset` is the
    step at which the fault began, which is often earlier than the one at which it became certain."""

    kind: str
    rule: str
    onset: Optional[int] = None
    evidence: tuple[Evidence, ...] = ()
    #: what fills the placeholders of the rule's texts
    values: tuple[tuple[str, object], ...] = ()
    severity: Optional[Severity] = None
    confidence: Optional[float] = None
    #: what happened in this run, instead of the rule's general `why`
    message: Optional[Text] = None


QUIET: tuple[Alarm, ...] = ()


class Detector:
    """`feed` takes the next step record, `tick` the time, `end` says that no more will come."""

    #: ids of the rules that this detector can raise
    rules: ClassVar[tuple[str, ...]] = ()
    #: it has said all that it can say, and need not be fed any more
    done = False

    def feed(self, metric: Metric) -> Sequence[Alarm]:
        return QUIET

    def tick(self, now: float) -> Sequence[Alarm]:
        """`now` in seconds, from any clock that only goes forward."""
        return QUIET

    def end(self) -> Sequence[Alarm]:
        return QUIET


def seen(metric: Metric, key: str, expected: Any = None) -> Evidence:
    """The line of a step record as evidence for one of its values."""
    return Evidence(
        "metric",
        metric.source,
        line=metric.line,
        offset=metric.offset,
        key=key,
        text=message(metric.text),
        rank=metric.rank,
        step=metric.at,
        observed=getattr(metric, key, None),
        expected=expected,
    )


def message(line: str) -> Optional[str]:
    """A log line without what its logger puts before the message, so that the numbers are seen first."""
    for mark in (" - INFO - ", " - WARNING - ", " - ERROR - "):
        at = line.find(mark)
        if at >= 0:
            return line[at + len(mark) :].strip() or None
    return line.strip() or None


def number(value: Optional[float]) -> str:
    """A number as people write it in a sentence: four significant digits, no trailing noise."""
    if value is None:
        return "?"
    return f"{value:.4g}"
