"""The learning rate as it was really used: zero, jumping, running away, started anew, or not warmed up."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Sequence
from typing import Optional

from doctor.detect.alarm import QUIET, Alarm, Detector, number, seen
from doctor.detect.facts import RunFacts
from doctor.detect.flat import FIRST_STEPS
from doctor.detect.level import LossLevel
from doctor.finding import Severity
from doctor.records.record import Metric

#: zeros in a row after the rate was up
ZEROS = 4
#: share of the announced steps that may run at the end of a schedule with a rate of zero
TAIL = 0.02
#: rates are printed with six decimals at least
ROUNDED = 1e-5
#: zeros from the first step on
ZEROS_FROM_START = 24
#: a step up by this factor is no schedule
JUMP = 2.5
#: steps without a rise after which the warm-up is over
SETTLED = 8
#: steps after the end of the warm-up within which the rate is near the configured one, and the share of it that is not
AFTER_WARMUP, FAR_BELOW = 8, 0.1
#: rising above the former peak by this factor, step after step
RUNAWAY = 1.5
RISING = 12
#: rising by this factor, in one step or in that many, is a second beginning
AGAIN, CLIMBS = 1.5, 3


#: a rate printed with an exponent keeps its digits however small it gets
_EXPONENT = re.compile(r"(?:lr|rate)\W{1,4}\d(?:\.\d+)?[eE]-")


class LearningRate(Detector):
    """RUN-LR-001 zero, RUN-LR-002 jumped up, RUN-LR-003 not warmed up, RUN-LR-004 started anew, RUN-LR-005 runs away,
    RUN-LR-006 far below the configured one when the warm-up is over.

    A rate that falls in steps, decays to zero at the end, or goes back up to its peak after having decayed
    (cosine with restarts) is a schedule.
    """

    rules = ("RUN-LR-001", "RUN-LR-002", "RUN-LR-003", "RUN-LR-004", "RUN-LR-005", "RUN-LR-006")

    def __init__(self, level: LossLevel, facts: RunFacts) -> None:
        self.level = level
        self.facts = facts
        self.last: Optional[Metric] = None
        self.rate = -1.0
        self.peak = 0.0
        #: the highest rate of the run before it was started anew
        self.former = 0.0
        #: steps since the rate last rose
        self.flat = 0
        self.settled = False
        #: peak at the end of the warm-up
        self.top = 0.0
        self.rising: list[Metric] = []
        #: the rate before it last fell
        self.before = 0.0
        self.zeros: list[Metric] = []
        #: the last rate before the zeros, and its line
        self.before_zero = 0.0
        self.line_before = ""
        self.count = 0
        self.losses: deque[float] = deque(maxlen=8)
        self.start_losses: list[float] = []
        #: the lowest rate since the last peak, with its step and the rate before it
        self.trough: Optional[tuple[Metric, float, float]] = None
        self.opened: dict[str, Alarm] = {}

    def feed(self, metric: Metric) -> Sequence[Alarm]:
        rate = metric.lr
        if rate is None or not math.isfinite(rate) or metric.evaluation:
            return QUIET
        previous = self.rate
        if rate == previous and rate > 0 and self.settled and not self.opened and self._warmed_up(metric):
            self.last = metric
            return QUIET
        self.count += 1
        said: list[Alarm] = []
        if rate == 0 and not metric.overflow:
            said.extend(self._zero(metric))
        elif rate > 0:
            self.zeros = []
            said.extend(self._end("RUN-LR-001", metric))
            if previous > 0 and self.last is not None:
                said.extend(self._moved(metric, previous, rate))
        if self.count == 1:
            said.extend(self._cold_start(metric))
        said.extend(self._not_up(metric, rate))
        if self.level.fresh and len(self.start_losses) < 8:
            self.start_losses.append(self.level.value)
        self._remember(metric, previous, rate)
        return said

    def _remember(self, metric: Metric, previous: float, rate: float) -> None:
        if rate > previous * (1 + 1e-6):
            self.flat = 0
        elif not metric.overflow:  # a step that is skipped does not move the schedule
            self.flat += 1
            if self.flat >= SETTLED and not self.settled and self.peak > 0:
                self.settled, self.top = True, self.peak
        self.peak = max(self.peak, rate)
        self.rate = rate
        self.last = metric

    def _zero(self, metric: Metric) -> Sequence[Alarm]:
        if "RUN-LR-001" in self.opened:
            return QUIET
        if not self.zeros:
            self.before_zero = max(self.rate, 0.0)
            self.line_before = self.last.text if self.last is not None else ""
        self.zeros.append(metric)
        first = self.zeros[0]
        count = len(self.zeros)
        if self.peak > 0:
            total = self.facts.announced(metric)
            at_end = total is not None and first.at is not None and first.at > (1 - TAIL) * total
            # Printed with few decimals a small rate is zero; the one shown before it is then a single unit.
            unit = f"{self.before_zero:e}".startswith("1.000000") and not _EXPONENT.search(self.line_before)
            rounded = unit and (self.before_zero < 0.5 * self.peak or self.before_zero <= ROUNDED)
            if count < ZEROS or at_end or rounded:
                return QUIET
            if total is None and count < 3 * ZEROS:
                return QUIET
        else:
            begun = first.at is not None and first.at <= FIRST_STEPS
            if count < ZEROS_FROM_START or not begun or not self._stands_still():
                return QUIET
        return (
            self._open(
                "RUN-LR-001",
                first,
                ("before", number(self.peak) if self.peak else "0"),
                ("count", count),
            ),
        )

    def _stands_still(self) -> bool:
        """The loss has not fallen either, so the zero is not one of rounding."""
        if len(self.start_losses) < 8 or self.level.count < 16:
            return True
        before = sum(self.start_losses) / len(self.start_losses)
        recent = self.level.recent(8)
        return sum(recent) / len(recent) > 0.97 * before

    def _moved(self, metric: Metric, previous: float, rate: float) -> Sequence[Alarm]:
        ratio = rate / previous
        if not self.settled:
            return self._warming(metric, ratio, previous, rate)
        if ratio >= JUMP and rate > 1.2 * max(self.top, self.former, self.facts.learning_rate or 0.0):
            self.rising = []
            return (self._open("RUN-LR-002", metric, ("before", number(previous)), ("times", number(ratio))),)
        said: list[Alarm] = []
        if ratio > 1 + 1e-6:
            if not self.rising:
                self.trough = (self.last or metric, previous, self.before)
            self.rising.append(metric)
            said.extend(self._rises(metric, ratio, rate))
        else:
            self.rising = []
            if ratio < 1 - 1e-6:
                self.before = previous
        if rate <= 1.2 * self.top:
            said.extend(self._end("RUN-LR-002", metric))
            said.extend(self._end("RUN-LR-005", metric))
        return said

    def _rises(self, metric: Metric, ratio: float, rate: float) -> Sequence[Alarm]:
        """A rate that rises again after its warm-up: above all it was, or up to its peak a second time."""
        assert self.trough is not None
        first, lowest, before = self.trough
        if rate > RUNAWAY * self.top:
            if len(self.rising) < RISING or "RUN-LR-005" in self.opened:
                return QUIET
            again = self._end("RUN-LR-004", metric)
            return (*again, self._open("RUN-LR-005", self.rising[0], ("before", number(self.top)), now=metric))
        if "RUN-LR-004" in self.opened or rate < AGAIN * lowest:
            return QUIET
        # Warm restarts of a cosine jump to the peak from next to nothing: that is a schedule.
        jumped = len(self.rising) == 1 and ratio >= AGAIN and lowest > 0.2 * self.top
        if not jumped and len(self.rising) < CLIMBS:
            return QUIET
        return (self._open("RUN-LR-004", first, ("before", number(before or lowest)), now=metric),)

    def _warming(self, metric: Metric, ratio: float, previous: float, rate: float) -> Sequence[Alarm]:
        """Within the warm-up the steps up get relatively smaller; one that is suddenly larger is a jump."""
        if ratio >= 2 * JUMP and self.count > 6 and self.flat == 0 and rate > 2 * JUMP * self.peak:
            self.settled, self.top = True, previous
            return (self._open("RUN-LR-002", metric, ("before", number(previous)), ("times", number(ratio))),)
        return QUIET

    def _cold_start(self, metric: Metric) -> Sequence[Alarm]:
        """A warm-up was asked for, and the first step already runs at the full rate."""
        facts, rate = self.facts, metric.lr
        if not facts.warmup_steps or facts.warmup_steps < 5 or not facts.learning_rate or facts.resumes or rate is None:
            return QUIET
        if (metric.at or 0) != 1 or rate < 0.9 * facts.learning_rate:
            return QUIET
        return (self._open("RUN-LR-003", metric, ("steps", facts.warmup_steps)),)

    def _warmed_up(self, metric: Metric) -> bool:
        """Whether `_not_up` has had its time."""
        warmup = self.facts.warmup_steps
        return warmup is None or (metric.at or 0) > max(warmup, AFTER_WARMUP) + 1 + AFTER_WARMUP

    def _not_up(self, metric: Metric, rate: float) -> Sequence[Alarm]:
        """The warm-up that was configured is over, and the rate is still nowhere near the configured one."""
        wanted, warmup, step = self.facts.learning_rate, self.facts.warmup_steps, metric.at
        if not wanted or warmup is None or step is None or self.facts.resumes:
            return QUIET
        first = max(warmup, AFTER_WARMUP) + 1
        # After the last step of a run that is shorter than that nothing is said.
        if not first <= step <= first + AFTER_WARMUP or "RUN-LR-006" in self.opened:
            return QUIET
        if not 0 < rate < FAR_BELOW * wanted or self.peak >= FAR_BELOW * wanted or self._soon_over(metric, first):
            return QUIET
        return (self._open("RUN-LR-006", metric, ("wanted", number(wanted)), ("steps", warmup)),)

    def _soon_over(self, metric: Metric, first: int) -> bool:
        """The warm-up takes most of the run: epochs or steps were counted otherwise than here."""
        total = self.facts.announced(metric)
        return total is not None and first > 0.8 * total

    def _open(self, rule: str, first: Metric, *values: tuple[str, object], now: Optional[Metric] = None) -> Alarm:
        evidence = [seen(first, "lr")]
        if now is not None and now is not first:
            evidence.append(seen(now, "lr"))
        elif self.last is not None and self.last is not first:
            evidence.append(seen(self.last, "lr"))
        alarm = Alarm(
            "opened",
            rule,
            first.at,
            tuple(evidence),
            (
                ("step", "?" if first.at is None else first.at),
                ("value", number((now or first).lr)),
                *values,
            ),
        )
        self.opened[rule] = alarm
        return alarm

    def _end(self, rule: str, metric: Metric) -> Sequence[Alarm]:
        opened = self.opened.pop(rule, None)
        if opened is None:
            return QUIET
        evidence = (*opened.evidence, seen(metric, "lr"))
        return (Alarm("resolved", rule, opened.onset, evidence, opened.values, Severity.INFO),)
