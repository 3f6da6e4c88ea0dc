"""What the page of a run shows, as values; nothing in here knows HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

from doctor.finding import Finding, Text


@dataclass(frozen=True)
class Line:
    """A curve of one rank: arrays of equal length. `low` and `high` are the extremes of what each point stands for; `left`
    says that the run went back and left this piece behind."""

    name: str
    steps: Any
    mean: Any
    low: Any
    high: Any
    left: bool = False


@dataclass(frozen=True)
class Plot:
    """`lines` of one field, the rank that stands for the run first. `broken_from` is the step from which on there is no
    number any more; `span` are the first and last step of the run."""

    key: str
    title: Text
    lines: tuple[Line, ...]
    span: tuple[int, int]
    broken_from: Optional[int] = None
    logarithmic: bool = False


@dataclass(frozen=True)
class Mark:
    """A finding at its step: `number` is that of the finding on the page."""

    number: int
    step: int
    severity: str


@dataclass(frozen=True)
class RankRow:
    """One rank's line of the table; unknown is None."""

    rank: Optional[int]
    source: str
    records: int
    step: Optional[int]
    loss: Optional[float]
    step_time_ms: Optional[float]
    throughput: Optional[float]
    overflows: int


@dataclass(frozen=True)
class Intervention:
    """What was done to the run while it went on."""

    step: Optional[int]
    rule: str
    what: str
    back_to: str


@dataclass(frozen=True)
class PageContent:
    """`verdict` is ok, warning, error or unknown; `said` the verdict in a sentence. `summary` are names and values for the
    top of the page, `configuration` the text of the settings and where it came from."""

    name: str
    verdict: str
    said: Text
    summary: tuple[tuple[Text, Text], ...]
    findings: tuple[Finding, ...]
    plots: tuple[Plot, ...]
    marks: tuple[Mark, ...]
    ranks: tuple[RankRow, ...]
    more_ranks: int
    unit: Optional[str]
    environment: tuple[tuple[str, str], ...]
    configuration: Optional[tuple[str, str]]
    interventions: tuple[Intervention, ...]
    notices: tuple[Text, ...] = ()


def marks_of(findings: Sequence[Finding]) -> tuple[Mark, ...]:
    """Where findings stand on the axis of steps: at the first step that their evidence names."""
    marks = []
    for number, finding in enumerate(findings, 1):
        step = next((item.step for item in finding.evidence if item.step is not None), None)
        if step is not None:
            marks.append(Mark(number, step, finding.severity.value))
    return tuple(marks)
