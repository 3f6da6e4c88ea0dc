"""How long steps take: drifting away from the run's own pace, waiting for data, or not coming at all."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Optional

from doctor.detect.alarm import QUIET, Alarm, Detector, number, seen
from doctor.detect.window import median
from doctor.finding import Severity
from doctor.records.record import Metric

#: the first steps compile and fill caches
SKIP = 3
BASE = 24
WINDOW = 16
#: a base that varies more than this, relative to its median, is no base
UNSTEADY = 0.35
#: slower by this factor for this long (seconds), or by a larger one for a shorter time: on a busy machine short steps
#: vary twofold for a while
SLOWER, SLOW_SECONDS = 1.5, 60.0
TWICE, TWICE_SECONDS = 2.0, 20.0
MUCH_SLOWER, MUCH_SLOWER_SECONDS = 2.5, 4.0
#: steps shorter than this (ms) slow down with whatever else the machine does: for them it takes that many times as long
SHORT_MS, SHORT_PATIENCE = 250.0, 3.0
#: what a step counts where only a throughput is printed
UNKNOWN_SECONDS = 0.5


class StepTime(Detector):
    """RUN-TIME-001: the median of 16 steps is well above the run's own pace. Where a line holds no time, the
    throughput is judged in its place (RUN-TIME-005)."""

    rules = ("RUN-TIME-001", "RUN-TIME-005")

    def __init__(self) -> None:
        self.count = 0
        self.base: list[float] = []
        self.pace = 0.0
        self.spread = 0.0
        self.limit = float("inf")
        self.recent: deque[float] = deque(maxlen=WINDOW)
        #: throughputs of the base and of the last steps, where they are printed beside the times
        self.base_rates: list[float] = []
        self.rates: deque[float] = deque(maxlen=WINDOW)
        self.slow_since: Optional[Metric] = None
        self.slow_seconds = 0.0
        self.opened: Optional[Alarm] = None

    def feed(self, metric: Metric) -> Sequence[Alarm]:
        value = metric.step_time_ms
        if value is None:
            if not metric.throughput:
                return QUIET
            value = 1000.0 / metric.throughput
        if value <= 0 or metric.evaluation:
            return QUIET
        self.count += 1
        if self.count <= SKIP:
            return QUIET
        if not self.pace:
            self.base.append(value)
            if metric.throughput:
                self.base_rates.append(metric.throughput)
            if len(self.base) == BASE:
                self._settle()
            return QUIET
        self.recent.append(value)
        if metric.throughput:
            self.rates.append(metric.throughput)
        if value <= self.limit:
            if self.slow_since is None:
                return QUIET
        elif self.slow_since is None:
            self.slow_since, self.slow_seconds = metric, 0.0
        if value > self.limit:
            self.slow_seconds += value / 1000.0 if metric.step_time_ms is not None else UNKNOWN_SECONDS
        return self._judge(metric, value)

    def _settle(self) -> None:
        middle = median(self.base)
        # The pace is that of the better half: start-up is slow, never fast.
        self.pace = median(sorted(self.base)[: BASE // 2 + 1])
        self.spread = median([abs(item - middle) for item in self.base]) / middle
        self.limit = self.pace * (1 + max(0.25, 4 * self.spread))

    def _more_work(self, ratio: float) -> bool:
        """Whether steps take longer because there is more in them: longer sequences, larger batches. The throughput has then
        fallen by less than half of what the time has grown (of their logarithms)."""
        if len(self.base_rates) < BASE // 2 or len(self.rates) < WINDOW // 2:
            return False
        if len({*self.base_rates, *self.rates}) == 1:
            return False  # a figure that never moves was not measured
        return median(self.base_rates) < math.sqrt(ratio) * median(list(self.rates))

    def _judge(self, metric: Metric, value: float) -> Sequence[Alarm]:
        middle = median(list(self.recent))
        if middle <= self.limit:
            if len(self.recent) == WINDOW:
                self.slow_since = None
                if self.opened is not None and middle <= 1.2 * self.pace:
                    opened, self.opened = self.opened, None
                    return (
                        Alarm("resolved", opened.rule, opened.onset, opened.evidence, opened.values, Severity.INFO),
                    )
            return QUIET
        if self.opened is not None or len(self.recent) < WINDOW or self.slow_since is None:
            return QUIET
        ratio = middle / self.pace
        bound = 1 + 8 * self.spread
        timed = metric.step_time_ms is not None
        seconds = self.slow_seconds / (SHORT_PATIENCE if timed and self.pace < SHORT_MS else 1.0)
        long = ratio >= SLOWER and seconds >= SLOW_SECONDS
        long = long or (ratio >= TWICE and seconds >= TWICE_SECONDS)
        strong = ratio >= MUCH_SLOWER and seconds >= MUCH_SLOWER_SECONDS
        if self.spread > UNSTEADY or ratio < bound or not (long or strong) or self._more_work(ratio):
            return QUIET
        first = self.slow_since
        key = "step_time_ms" if timed else "throughput"
        normal = self.pace if timed else 1000.0 / self.pace
        now = middle if timed else 1000.0 / middle
        self.opened = Alarm(
            "opened",
            "RUN-TIME-001" if timed else "RUN-TIME-005",
            first.at,
            (seen(first, key, f"about {number(normal)}"), seen(metric, key, f"about {number(normal)}")),
            (
                ("step", "?" if first.at is None else first.at),
                ("before", number(normal)),
                ("value", number(now)),
                ("times", f"{ratio:.1f}"),
                ("unit", "ms" if timed else (metric.throughput_unit or "")),
            ),
        )
        return (self.opened,)


STARVED = 0.4
LEAST_WAIT_MS = 5.0


class DataWait(Detector):
    """RUN-TIME-002: a large share of each step is spent waiting for data."""

    rules = ("RUN-TIME-002",)

    def __init__(self) -> None:
        self.count = 0
        self.shares: deque[float] = deque(maxlen=WINDOW)
        self.first: Optional[Metric] = None
        self.opened: Optional[Alarm] = None

    def feed(self, metric: Metric) -> Sequence[Alarm]:
        wait, whole = metric.data_time_ms, metric.step_time_ms
        if wait is None or not whole or metric.evaluation:
            return QUIET
        self.count += 1
        if self.count <= SKIP:
            return QUIET
        share = min(1.0, wait / whole) if wait >= LEAST_WAIT_MS else 0.0
        self.shares.append(share)
        if share < STARVED:
            self.first = None if self.opened is None else self.first
        elif self.first is None:
            self.first = metric
        if len(self.shares) < WINDOW or (share < STARVED) == (self.opened is None):
            return QUIET
        middle = median(list(self.shares))
        if self.opened is not None:
            if middle >= STARVED / 2:
                return QUIET
            opened, self.opened = self.opened, None
            return (Alarm("resolved", opened.rule, opened.onset, opened.evidence, opened.values, Severity.INFO),)
        if middle < STARVED:
            return QUIET
        first = self.first or metric
        self.opened = Alarm(
            "opened",
            self.rules[0],
            first.at,
            (seen(first, "data_time_ms", "a few percent of the step"), seen(metric, "data_time_ms")),
            (
                ("step", "?" if first.at is None else first.at),
                ("value", number(wait)),
                ("before", number(whole)),
                ("share", f"{middle:.0%}"),
            ),
        )
        return (self.opened,)


#: without a step for this many usual ones, or three times the longest pause so far
PATIENCE = 20.0
LONGER = 3.0
LEAST_SECONDS = 20.0
#: compiling comes before the first step
COMPILE_SECONDS = 1800.0


class Stall(Detector):
    """RUN-HANG-001: no step for far longer than usual. The only detector that needs the time; `tick` it at least
    each few seconds while the run is followed live."""

    rules = ("RUN-HANG-001",)

    def __init__(self) -> None:
        self.fed = False
        self.steps = 0
        self.last: Optional[Metric] = None
        self.times: deque[float] = deque(maxlen=WINDOW)
        self.at: Optional[float] = None
        self.longest = 0.0
        self.opened: Optional[Alarm] = None
        self.over = False

    def feed(self, metric: Metric) -> Sequence[Alarm]:
        self.fed = True
        self.steps += 1
        self.last = metric
        if metric.step_time_ms and self.steps > SKIP:
            self.times.append(metric.step_time_ms / 1000.0)
        return QUIET

    def tick(self, now: float) -> Sequence[Alarm]:
        if self.at is None or now < self.at:
            self.at = now
            self.fed = False
            return QUIET
        if self.fed:
            gap = now - self.at
            if self.steps > SKIP + 1 and self.opened is None:
                self.longest = max(self.longest, gap)
            self.fed, self.at = False, now
            if self.opened is None:
                return QUIET
            opened, self.opened = self.opened, None
            return (Alarm("resolved", opened.rule, opened.onset, opened.evidence, opened.values, Severity.INFO),)
        if self.opened is not None or self.last is None or self.over:
            return QUIET
        idle = now - self.at
        if idle < self._allowed():
            return QUIET
        usual = number(median(list(self.times))) if self.times else number(self.longest)
        step = "?" if self.last.at is None else self.last.at
        self.opened = Alarm(
            "opened",
            self.rules[0],
            self.last.at,
            (seen(self.last, "step", "a next step"),),
            (("step", step), ("idle", f"{idle:.0f}"), ("usual", usual)),
        )
        return (self.opened,)

    def _allowed(self) -> float:
        if self.steps <= SKIP:
            return COMPILE_SECONDS
        usual = median(list(self.times)) if self.times else self.longest
        return max(LEAST_SECONDS, PATIENCE * usual, LONGER * self.longest)


#: share of the time that saving may take
SAVE_SHARE = 0.2
SAVE_SECONDS = 10.0


class SaveTime(Detector):
    """RUN-TIME-003: saving checkpoints takes a large share of the time. `saved` is called for each save."""

    rules = ("RUN-TIME-003",)

    def __init__(self) -> None:
        self.times: deque[float] = deque(maxlen=WINDOW)
        self.last: Optional[Metric] = None
        self.saved_at: Optional[int] = None
        self.opened = False
        self.saves = 0

    def feed(self, metric: Metric) -> Sequence[Alarm]:
        self.last = metric
        if metric.step_time_ms:
            self.times.append(metric.step_time_ms / 1000.0)
        return QUIET

    def saved(self, seconds: float) -> Sequence[Alarm]:
        """A checkpoint was saved in that many seconds, at the step fed last."""
        step = self.last.at if self.last is not None else None
        steps = step - self.saved_at if step is not None and self.saved_at is not None else 0
        self.saved_at = step
        self.saves += 1
        if self.opened or self.saves < 2 or not self.times or self.last is None or steps <= 0:
            return QUIET
        training = steps * median(list(self.times))
        share = seconds / (seconds + training)
        if share < SAVE_SHARE or seconds < SAVE_SECONDS:
            return QUIET
        self.opened = True
        return (
            Alarm(
                "opened",
                self.rules[0],
                self.last.at,
                (seen(self.last, "step"),),
                (
                    ("step", "?" if self.last.at is None else self.last.at),
                    ("seconds", number(seconds)),
                    ("steps", steps),
                    ("share", f"{share:.0%}"),
                ),
            ),
        )
