"""One stream of step records: its detectors, fed in order, and what must outlive a restart of the run.

Nothing depends on how the records arrive, one by one while a run is followed or thousands at a time out of an old log
(`bulk`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Optional

from doctor.detect import detectors
from doctor.detect.alarm import QUIET, Alarm, Detector
from doctor.detect.facts import RunFacts
from doctor.detect.gradient import GradientNorm
from doctor.detect.level import LossLevel
from doctor.detect.pace import SaveTime, StepTime
from doctor.detect.ranks import RankCurve
from doctor.detect.rate import LearningRate
from doctor.detect.resume import Resumption
from doctor.detect.sieve import ABOVE, BELOW, NORM_HIGH, NORM_LOW, NORM_RISEN, NORM_RISES, Sieve
from doctor.detect.usual import Bounds
from doctor.finding import Severity
from doctor.records.record import Metric

if TYPE_CHECKING:
    from doctor.records.block import MetricBlock

#: the step counter has to go back this far; lines of several ranks in one log may come in any order
BACK = 3
#: what a rule says more often than this (of faults that come and go) is no news
NEWS_TIMES = 12
#: lines of the last steps that are remembered
LINES = 8
#: records, a power of two, after which detectors that have said all are left out
PRUNE_EVERY = 64


class RankStream:
    """The step records of one rank in one log. When the step counter goes back, the run was started anew: the detectors
    begin afresh, what they had opened is resolved, and `Resumption` compares the losses on both sides."""

    def __init__(self, source: str, rank: Optional[int], facts: RunFacts) -> None:
        self.source = source
        self.rank = rank
        self.facts = facts
        self.curve = RankCurve(source, rank)
        self.resumption = Resumption()
        self.last: Optional[Metric] = None
        #: numbers of the lines of the last steps
        self.lines: deque[int] = deque(maxlen=LINES)
        self.stride = 0
        self.restarts = 0
        self._order: tuple[float, int] = (0.0, 0)
        self._open: dict[str, Alarm] = {}
        #: rule -> how often something was said of it
        self._told: Counter[str] = Counter()
        self._rate: Optional[LearningRate] = None
        self._begin()

    def _begin(self) -> None:
        self.detectors: list[Detector] = detectors(self.facts)
        self._level = next(item for item in self.detectors if isinstance(item, LossLevel))
        self._gradient = next(item for item in self.detectors if isinstance(item, GradientNorm))
        self._pace = next(item for item in self.detectors if isinstance(item, StepTime))
        rate = next(item for item in self.detectors if isinstance(item, LearningRate))
        rate.former = self._highest_rate()
        self._rate = rate
        self.sieve = Sieve(self._show, self._bounds)

    def _highest_rate(self) -> float:
        """Of the run so far: what a schedule comes back to after a resumption is no jump."""
        before = self._rate
        return max(before.former, before.peak) if before is not None else 0.0

    def feed(self, metric: Metric, point: bool = True) -> Sequence[Alarm]:
        """The alarms of one step record. `point` is False when the curve of the rank has it already."""
        if metric.summary:
            return QUIET
        said: list[Alarm] = []
        step = metric.at
        if step is not None:
            self._follow(metric, step, said)
        if point:
            self.curve.add(metric)
        self.sieve.take(metric, self.stride, said)
        if said:
            self._remember(said)
            return said
        return QUIET

    def saved(self, seconds: float) -> Sequence[Alarm]:
        """A checkpoint was saved in that time."""
        said = [alarm for item in self.detectors if isinstance(item, SaveTime) for alarm in item.saved(seconds)]
        self._remember(said)
        return said

    def tick(self, now: float) -> Sequence[Alarm]:
        said = [alarm for detector in self.detectors for alarm in detector.tick(now)]
        self._remember(said)
        return said

    def end(self) -> Sequence[Alarm]:
        said: list[Alarm] = []
        self.sieve.end(said)
        for detector in self.detectors:
            said.extend(detector.end())
        self._remember(said)
        return said

    @property
    def has_open(self) -> bool:
        return bool(self._open)

    @property
    def count(self) -> int:
        """Records since the run began."""
        return self.sieve.count

    @property
    def before(self) -> Optional[Metric]:
        """The record that was fed last."""
        return self.sieve.before

    @property
    def epoch(self) -> float:
        """That of the record before, where steps are counted within epochs; else 0."""
        return self._order[0]

    def skip(self, last: Metric, lines: Sequence[int], same: int) -> Sequence[Alarm]:
        """A whole group in which nothing stands out, as `Sieve.skip`; the numbers of its last lines."""
        said: list[Alarm] = []
        self._passed(last, lines)
        self.sieve.skip(last, same, said)
        self._remember(said)
        return said

    def hold(self, records: MetricBlock, last: Metric, same: int, slow: int) -> Sequence[Alarm]:
        """Some quiet records, as `Sieve.hold`; `last` is the last of them."""
        said: list[Alarm] = []
        self._passed(last, records.lines[-LINES:].tolist())
        self.sieve.hold(records, last, same, slow, said)
        self._remember(said)
        return said

    def _passed(self, last: Metric, lines: Sequence[int]) -> None:
        self._order = (0.0 if last.global_step is not None else last.epoch or 0.0, last.at or 0)
        self.last = last
        self.lines.extend(lines)

    def _show(self, metric: Metric, said: list[Alarm]) -> None:
        for detector in self.detectors:
            found = detector.feed(metric)
            if found:
                said.extend(found)
        if not self.sieve.count & PRUNE_EVERY - 1:
            self.detectors = [detector for detector in self.detectors if not detector.done]
        found = self.resumption.feed(metric)
        if found:
            said.extend(found)

    def _bounds(self, before: Optional[Metric]) -> Bounds:
        """What is quiet after the record before."""
        self.detectors = [detector for detector in self.detectors if not detector.done]
        level = self._level
        sigma = max(level.sigma, 0.004 * level.middle)
        middle = self._gradient.middle
        scale = before.loss_scale if before is not None else None
        return Bounds(
            BELOW * level.middle,
            level.middle + ABOVE * sigma,
            NORM_LOW * middle,
            NORM_HIGH * middle,
            NORM_RISEN * middle,
            NORM_RISES * middle,
            self._pace.limit,
            scale,
            scale,
        )

    def _follow(self, metric: Metric, step: int, said: list[Alarm]) -> None:
        order = (0.0 if metric.global_step is not None else metric.epoch or 0.0, step)
        if self.last is not None and order < (self._order[0], self._order[1] - BACK + 1):
            said.extend(self._restart())
        elif self.last is not None and order[0] == self._order[0] and step > self._order[1]:
            gap = step - self._order[1]
            self.stride = min(self.stride, gap) if self.stride else gap
        self._order = order
        self.last = metric
        self.lines.append(metric.line)

    def _restart(self) -> Sequence[Alarm]:
        self.restarts += 1
        self._begin()
        return [
            replace(alarm, kind="resolved", severity=Severity.INFO)
            for rule, alarm in sorted(self._open.items())
            if rule not in self.resumption.rules
        ]

    def _remember(self, said: Sequence[Alarm]) -> None:
        if any(self._told[alarm.rule] < NEWS_TIMES for alarm in said):
            self.sieve.heard()
        for alarm in said:
            self._told[alarm.rule] += 1
            if alarm.kind == "resolved":
                self._open.pop(alarm.rule, None)
            else:
                self._open[alarm.rule] = alarm
