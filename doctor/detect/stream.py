"""One stream of step records: its detectors, fed in order, and what must outlive a restart of the run.

The first records of a run are all shown to all detectors. Later on records come in groups, and of a group in which
nothing stands out only the last one is shown: a run of a million steps is then judged at the cost of some
thousand. Nothing depends on how the records arrive, one by one while a run is followed or thousands at a time
out of an old log (`bulk`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Optional

from doctor.detect import detectors
from doctor.detect.alarm import QUIET, Alarm, Detector
from doctor.detect.facts import RunFacts
from doctor.detect.gradient import GradientNorm
from doctor.detect.level import LossLevel
from doctor.detect.pace import STARVED, SaveTime, StepTime
from doctor.detect.ranks import RankCurve
from doctor.detect.rate import LearningRate
from doctor.detect.resume import Resumption
from doctor.finding import Severity
from doctor.records.record import Metric

#: the step counter has to go back this far; lines of several ranks in one log may come in any order
BACK = 3
#: lines of the last steps that are remembered
LINES = 8
#: records that are all shown to the detectors
WHOLE = 2048
#: records of which one is shown when nothing stands out, and records judged by the same bounds
GROUP, TILE = 64, 1024
#: a loss this far above its level stands out, in sigmas, and one below this share of it
ABOVE, BELOW = 5.0, 0.5
#: so does a gradient norm outside these multiples of its median, or above the third when the one before it was above the
#: fourth: single norms of healthy runs are up to ten times the median
NORM_LOW, NORM_HIGH, NORM_RISEN, NORM_RISES = 0.1, 10.0, 5.0, 2.0
#: and so many steps of a group that took longer than their pace allows: single ones do on any busy machine
SLOW_STEPS = 16
#: and a rate that moves by more than this share from one record to the next
RATE_MOVES = 0.05
#: equal losses in a row, within a group, that may not be chance
SAME = 6
#: after an alarm so many records are all shown; one that stands longer is no news, and quiet groups are passed over again
NEWS = 1024


@dataclass(frozen=True)
class Bounds:
    """What is quiet for the records of one tile."""

    loss_low: float
    loss_high: float
    norm_low: float
    norm_high: float
    norm_risen: float
    norm_rises: float
    longest: float
    scale: Optional[float]


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
        #: records since the beginning
        self.count = 0
        self.bounds: Optional[Bounds] = None
        self._before: Optional[Metric] = None
        #: the records of the present group, while it is quiet
        self._group: list[Iterable[Metric]] = []
        self._loud = False
        self._same = self._slow = 0
        #: up to this record all are shown
        self._news = 0

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
        if self.count < WHOLE:
            self._show(metric, said)
        else:
            self._sift(metric, said)
        self.count += 1
        self._before = metric
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
        if self._group and not self._loud and self._before is not None:
            self._show(self._before, said)
            self._group = []
        for detector in self.detectors:
            said.extend(detector.end())
        self._remember(said)
        return said

    @property
    def has_open(self) -> bool:
        return bool(self._open)

    @property
    def before(self) -> Optional[Metric]:
        """The record that was fed last."""
        return self._before

    @property
    def epoch(self) -> float:
        """That of the record before, where steps are counted within epochs; else 0."""
        return self._order[0]

    @property
    def may_skip(self) -> bool:
        """Whether a group may be passed over: past the beginning, where a group begins, no news."""
        return self.count >= WHOLE and self.count % GROUP == 0 and self.count >= self._news

    def skip(self, last: Metric, count: int, lines: Sequence[int]) -> Sequence[Alarm]:
        """A whole group in which nothing stands out, of which `last` is the last; the numbers of its last lines."""
        said: list[Alarm] = []
        self._order = (0.0 if last.global_step is not None else last.epoch or 0.0, last.at or 0)
        self.last = self._before = last
        self.lines.extend(lines)
        self._show(last, said)
        self._group, self._loud, self._same, self._slow = [], False, 0, 0
        self.count += count
        self._remember(said)
        return said

    def may_hold(self, same: int, slow: int) -> bool:
        """Whether some of the records of a group may be passed over that are quiet each by itself, `same` of them with the
        loss of the one before and `slow` of them slow."""
        if self.count < max(WHOLE, self._news):
            return False
        if self.count % GROUP == 0:
            return self.stride > 0 and same < SAME and slow < SLOW_STEPS
        return not self._loud and self.stride > 0 and self._same + same < SAME and self._slow + slow < SLOW_STEPS

    def hold(
        self, records: Iterable[Metric], last: Metric, lines: Sequence[int], same: int, slow: int
    ) -> Sequence[Alarm]:
        """Records of one group that `may_hold` lets pass, their last one and the numbers of their lines. They are made
        only if something that follows in their group stands out."""
        said: list[Alarm] = []
        if self.count % GROUP == 0:
            self._begin_group()
        self._order = (0.0 if last.global_step is not None else last.epoch or 0.0, last.at or 0)
        self.last = self._before = last
        self.lines.extend(lines)
        self._same += same
        self._slow += slow
        self._group.append(records)
        self.count += len(lines)
        if self.count % GROUP == 0:
            self._show(last, said)
            self._group = []
        self._remember(said)
        return said

    def _begin_group(self) -> None:
        self.bounds_now()
        self._group, self._loud, self._same, self._slow = [], False, 0, 0

    def _show(self, metric: Metric, said: list[Alarm]) -> None:
        for detector in self.detectors:
            found = detector.feed(metric)
            if found:
                said.extend(found)
        found = self.resumption.feed(metric)
        if found:
            said.extend(found)

    def _sift(self, metric: Metric, said: list[Alarm]) -> None:
        if self.count % GROUP == 0:
            self._begin_group()
        if self._loud:
            self._show(metric, said)
            return
        self._group.append((metric,))
        if self.count < self._news or not self._is_quiet(metric):
            self._loud = True
            group, self._group = self._group, []
            for records in group:
                for item in records:
                    self._show(item, said)
        elif self.count % GROUP == GROUP - 1:
            self._show(metric, said)
            self._group = []

    def bounds_now(self) -> Bounds:
        """The bounds of the present tile; where one begins, made from what the detectors know there."""
        if self.bounds is None or self.count % TILE == 0:
            self.bounds = self._make_bounds()
        return self.bounds

    def _make_bounds(self) -> Bounds:
        self.detectors = [detector for detector in self.detectors if not detector.done]
        level = self._level
        sigma = max(level.sigma, 0.004 * level.middle)
        middle = self._gradient.middle
        return Bounds(
            BELOW * level.middle,
            level.middle + ABOVE * sigma,
            NORM_LOW * middle,
            NORM_HIGH * middle,
            NORM_RISEN * middle,
            NORM_RISES * middle,
            self._pace.limit,
            self._before.loss_scale if self._before is not None else None,
        )

    def _is_quiet(self, metric: Metric) -> bool:
        """Whether nothing about a record stands out. `bulk.quiet` says the same of columns."""
        bounds, before = self.bounds, self._before
        if bounds is None or before is None or metric.overflow or metric.evaluation:
            return False
        loss, rate, norm = metric.loss, metric.lr, metric.grad_norm
        if loss is None or not bounds.loss_low <= loss <= bounds.loss_high or metric.loss_scale != bounds.scale:
            return False
        if loss == before.loss:
            self._same += 1
            if self._same >= SAME:
                return False
        if (rate is None) != (before.lr is None) or (rate is not None and not _near(rate, before.lr)):
            return False
        if norm is not None and not bounds.norm_low <= norm <= bounds.norm_high:
            return False
        if norm is not None and norm > bounds.norm_risen and (before.grad_norm or 0.0) > bounds.norm_rises:
            return False
        time = metric.step_time_ms
        if time is not None and time > bounds.longest:
            self._slow += 1
            if self._slow >= SLOW_STEPS:
                return False
        wait = metric.data_time_ms
        if wait is not None and (time is None or wait > STARVED * time):
            return False
        step, last = metric.at, before.at
        return step is not None and last is not None and step - last == self.stride > 0

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
        if said:
            self._news = self.count + NEWS
        for alarm in said:
            if alarm.kind == "resolved":
                self._open.pop(alarm.rule, None)
            else:
                self._open[alarm.rule] = alarm


def _near(rate: float, before: Optional[float]) -> bool:
    return before is not None and before > 0 and rate > 0 and abs(rate / before - 1) <= RATE_MOVES
