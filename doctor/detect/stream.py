"""One stream of step records: its detectors, fed in order, and what must outlive a restart of the run."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Optional

from doctor.detect import detectors
from doctor.detect.alarm import Alarm, Detector
from doctor.detect.facts import RunFacts
from doctor.detect.pace import SaveTime
from doctor.detect.ranks import RankCurve
from doctor.detect.resume import Resumption
from doctor.finding import Severity
from doctor.records.record import Metric

#: the step counter has to go back this far; lines of several ranks in one log may come in any order
BACK = 3
#: lines of the last steps that are remembered
LINES = 8


class RankStream:
    """The step records of one rank in one log. When the step counter goes back, the run was started anew: the detectors
    begin afresh, what they had opened is resolved, and `Resumption` compares the losses on both sides."""

    def __init__(self, source: str, rank: Optional[int], facts: RunFacts) -> None:
        self.source = source
        self.rank = rank
        self.facts = facts
        self.curve = RankCurve(source, rank)
        self.resumption = Resumption()
        self.detectors: list[Detector] = detectors(facts)
        self.last: Optional[Metric] = None
        #: numbers of the lines of the last steps
        self.lines: deque[int] = deque(maxlen=LINES)
        self.stride = 0
        self.restarts = 0
        self._order: tuple[float, int] = (0.0, 0)
        self._open: dict[str, Alarm] = {}

    def feed(self, metric: Metric) -> list[Alarm]:
        """The alarms of one step record."""
        if metric.summary:
            return []
        said: list[Alarm] = []
        step = metric.at
        if step is not None:
            self._follow(metric, step, said)
        for detector in self.detectors:
            found = detector.feed(metric)
            if found:
                said.extend(found)
        found = self.resumption.feed(metric)
        if found:
            said.extend(found)
        self.curve.add(metric)
        if said:
            self._remember(said)
        return said

    def saved(self, seconds: float) -> list[Alarm]:
        """A checkpoint was saved in that time."""
        said = [alarm for item in self.detectors if isinstance(item, SaveTime) for alarm in item.saved(seconds)]
        self._remember(said)
        return said

    def tick(self, now: float) -> list[Alarm]:
        said = [alarm for detector in self.detectors for alarm in detector.tick(now)]
        self._remember(said)
        return said

    def end(self) -> list[Alarm]:
        said = [alarm for detector in self.detectors for alarm in detector.end()]
        self._remember(said)
        return said

    def _follow(self, metric: Metric, step: int, said: list[Alarm]) -> None:
        order = (0.0 if metric.global_step is not None else metric.epoch or 0.0, step)
        last = self.last
        if last is not None and order[0] <= self._order[0] and order < (self._order[0], self._order[1] - BACK + 1):
            said.extend(self._restart())
        elif last is not None and order[0] == self._order[0] and step > self._order[1]:
            gap = step - self._order[1]
            self.stride = min(self.stride, gap) if self.stride else gap
        self._order = order
        self.last = metric
        self.lines.append(metric.line)

    def _restart(self) -> Sequence[Alarm]:
        self.restarts += 1
        self.detectors = detectors(self.facts)
        ended = [
            replace(alarm, kind="resolved", severity=Severity.INFO)
            for rule, alarm in sorted(self._open.items())
            if rule not in self.resumption.rules
        ]
        return ended

    def _remember(self, said: Sequence[Alarm]) -> None:
        for alarm in said:
            if alarm.kind == "resolved":
                self._open.pop(alarm.rule, None)
            else:
                self._open[alarm.rule] = alarm
