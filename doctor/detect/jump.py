"""Losses that jump: a spike that recovers, or a level that stays."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Optional

from doctor.detect.alarm import QUIET, Alarm, Detector, number, seen
from doctor.detect.flat import UNTRAINED
from doctor.detect.level import EARLY, LossLevel
from doctor.detect.window import median, spread
from doctor.finding import Severity
from doctor.records.record import Metric

#: Each loss adds its distance from the level, in sigmas and at most MOST, less ALLOWED, to a sum that never falls below
#: zero (Page's CUSUM); at ENOUGH the level has left. Three losses seven sigmas out are enough, or eleven at three and a half.
#: Single losses do not: on hard batches every good run reaches 17 (the 29 public healthy curves give no alarm).
MOST, ALLOWED, ENOUGH = 7.0, 2.2, 14.0
#: While a curve still tumbles its noise is that of few losses, and a rate that has just reached its peak shakes it: until YOUNG
#: losses were seen more is asked for (of 288 short healthy trainings 4 reached 14, one 19).
YOUNG, ENOUGH_WHILE_YOUNG = 64, 19.0
#: losses below this many sigmas belong to the level and renew it
BELONGS = 3.0
LEAST_RISE = 1.03
#: one step alone counts when it is as far out as no batch is
SIGMAS_ALONE = 30.0
RISE_ALONE = 1.7
#: and so does one that is this many times the level, with fewer; hard batches of the public runs reach 1.9. These sigmas
#: are those of the logarithm: where batches are small and the noise is large, high losses are far more frequent than low ones
SIGMAS_TOWER, RISE_TOWER = 7.0, 2.3
WINDOW = 32
#: losses that tell where a falling curve is, by how many sigmas their median may be below that of the window by chance, and
#: losses before they do: before that, curves tumble
LATEST, SLACK, SETTLED = 6, 0.6, 24
#: the first steps of a run swing; healthy runs have doubled their loss at step 2
GRACE = 20
#: but not, once ten have been seen, to this many times the first
ABOVE_START = 1.2
#: nor, for a model that begins with guessing, at any step to this many times its first loss
WILD_START = 3.0
FEWEST = 10
#: below this share of the start, each batch that is not known by heart stands out
NOTHING_LEFT = 0.12
#: steps after which a spike that has not come back is a new level
STAYS = 24
CALM = 4


class LossJump(Detector):
    """RUN-LOSS-002 opens when the loss leaves its band upwards, and is resolved (as information) when it comes back;
    when it does not, RUN-LOSS-001 takes its place."""

    rules = ("RUN-LOSS-001", "RUN-LOSS-002")

    def __init__(self, level: LossLevel) -> None:
        self.level = level
        self.base: deque[float] = deque(maxlen=WINDOW)
        self.suspects: list[Metric] = []
        self.total = 0.0
        self.middle = 0.0
        self.sigma = 0.0
        #: up to here a loss is within its band, and nothing need be computed
        self.limit = float("inf")
        self.first: Optional[Metric] = None
        self.peak: Optional[Metric] = None
        self.age = 0
        self.calm = 0
        self.stays = False

    def feed(self, metric: Metric) -> Sequence[Alarm]:
        level = self.level
        if not level.fresh or level.signed:
            return QUIET
        value = level.value
        if self.first is not None:
            return self._follow(metric, value)
        if value == 0 and level.start > 0:
            return QUIET  # zeros have a rule of their own, and are no level to come back from
        early = level.count <= GRACE and value <= ABOVE_START * level.start
        if (early or len(self.base) < FEWEST) and self._wild(value):
            return self._begin(metric)
        if early or len(self.base) < FEWEST:
            self._accept(value)
            return QUIET
        # Above a level of nothing every loss is high: a penalty that begins at 0 and grows as the model learns.
        below = value <= self.limit and not self.total
        if below or value < NOTHING_LEFT * level.start or not self.sigma or self.middle <= 0:
            self._accept(value)
            return QUIET
        distance = (value - self.middle) / self.sigma
        # One that is below its level takes no more away than one that is at it: a swing has both.
        self.total = max(0.0, self.total + max(0.0, min(distance, MOST)) - ALLOWED)
        if not self.total:
            self.suspects.clear()
        if distance > ALLOWED:
            self.suspects.append(metric)
        if distance <= BELONGS:
            self._accept(value)
        alone = distance > SIGMAS_ALONE and value > RISE_ALONE * self.middle
        alone = alone or (value > RISE_TOWER * self.middle and self._stands_out(value))
        enough = ENOUGH if level.count > YOUNG else ENOUGH_WHILE_YOUNG
        if not alone and (self.total < enough - 1e-9 or not self._risen()):
            return QUIET
        return self._open()

    def _stands_out(self, value: float) -> bool:
        return math.log(value / self.middle) > SIGMAS_TOWER * self.sigma / self.middle

    def _wild(self, value: float) -> bool:
        return self.level.count > 3 and value > WILD_START * self.level.start >= WILD_START * UNTRAINED

    def _begin(self, metric: Metric) -> Sequence[Alarm]:
        """A loss that leaves its start upwards before there is a level that it could be compared with."""
        self.middle = self.level.start
        self.sigma = 0.01 * self.middle
        self.suspects = [metric]
        return self._open()

    def _open(self) -> Sequence[Alarm]:
        self.first = self.suspects[0]
        self.peak = max(self.suspects, key=lambda item: item.loss or 0.0)
        self.age = len(self.suspects)
        self.calm = 0
        self.stays = False
        self.suspects, self.total = [], 0.0
        self.level.jumping = True
        return (self._alarm("opened", "RUN-LOSS-002", None),)

    def end(self) -> Sequence[Alarm]:
        if self.first is not None and not self.stays and self.age >= STAYS // 2 and not self.calm:
            return self._stay()
        return QUIET

    def _risen(self) -> bool:
        """Whether the rise matters: sigmas of a curve without noise are small."""
        values = [item.loss or 0.0 for item in self.suspects[-8:]]
        return bool(values) and median(values) > LEAST_RISE * self.middle

    def _accept(self, value: float) -> None:
        self.base.append(value)
        count = len(self.base)
        if count < FEWEST or (self.level.count & (3 if self.level.count < EARLY else 7) and self.limit != float("inf")):
            return
        values = list(self.base)
        half = values if count < 16 else values[-16:]
        self.sigma = spread(values)
        # On a falling curve the middle of the window lies above where the curve is by now.
        self.middle = median(half)
        if count >= SETTLED:
            self.middle = min(self.middle, median(values[-LATEST:]) + SLACK * self.sigma)
        self.sigma = max(self.sigma, 0.004 * self.middle)
        self.limit = self.middle + ALLOWED * self.sigma

    def _follow(self, metric: Metric, value: float) -> Sequence[Alarm]:
        assert self.first is not None and self.peak is not None
        self.age += 1
        if value > (self.peak.loss or 0.0):
            self.peak = metric
        back = max(self.middle + 3 * self.sigma, 1.03 * self.middle)
        self.calm = self.calm + 1 if value <= back else 0
        if self.calm >= CALM:
            rule = "RUN-LOSS-001" if self.stays else "RUN-LOSS-002"
            alarm = self._alarm("resolved", rule, Severity.INFO, metric)
            self._reset(value)
            return (alarm,)
        if self.age >= STAYS and not self.stays and not self.calm:
            return self._stay()
        return QUIET

    def _stay(self) -> Sequence[Alarm]:
        self.stays = True
        return (
            self._alarm("resolved", "RUN-LOSS-002", Severity.INFO),
            self._alarm("opened", "RUN-LOSS-001", None),
        )

    def _reset(self, value: float) -> None:
        self.first = self.peak = None
        self.level.jumping = False
        self._accept(value)

    def _alarm(self, kind: str, rule: str, severity: Optional[Severity], back: Optional[Metric] = None) -> Alarm:
        assert self.first is not None and self.peak is not None
        normal = f"about {number(self.middle)}"
        evidence = [seen(self.first, "loss", normal)]
        if self.peak is not self.first:
            evidence.append(seen(self.peak, "loss", normal))
        if back is not None:
            evidence.append(seen(back, "loss", normal))
        return Alarm(
            kind,
            rule,
            self.first.at,
            tuple(evidence),
            (
                ("step", "?" if self.first.at is None else self.first.at),
                ("before", number(self.middle)),
                ("value", number(self.first.loss)),
                ("peak", number(self.peak.loss)),
                ("peak_step", "?" if self.peak.at is None else self.peak.at),
            ),
            severity,
        )
