"""The running level of the loss and its noise, which several detectors share."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from doctor.detect.alarm import QUIET, Alarm, Detector
from doctor.detect.window import median, noise
from doctor.records.record import Metric

WINDOW = 48
#: losses that make the start of a curve
START = 5
#: up to here the level is renewed every four losses, later every eight
EARLY = 96

#: what is higher is counted as this: squares of it can still be summed
HIGHEST = 1e100


class LossLevel(Detector):
    """Says nothing itself. After `feed`, `fresh` tells whether the record held a loss that counts, and the rest
    describes the curve up to and with it."""

    def __init__(self) -> None:
        self.fresh = False
        self.value = 0.0
        self.count = 0
        self.first: list[float] = []
        self.window: deque[float] = deque(maxlen=WINDOW)
        #: median of the last half window
        self.middle = 0.0
        #: standard deviation of the noise round the trend
        self.sigma = 0.0
        #: a jump is under observation: slower detectors wait for what comes of it
        self.jumping = False
        #: losses of either sign, as policy gradients have, or that begin at nothing, as the cost of leaving a reference does:
        #: they measure no fit, and nothing follows from how high they are
        self.signed = False

    def feed(self, metric: Metric) -> Sequence[Alarm]:
        loss = metric.loss
        if loss is None or metric.evaluation or not math.isfinite(loss):
            self.fresh = False
            return QUIET
        self.fresh = True
        self.value = loss = max(-HIGHEST, min(loss, HIGHEST))
        self.count += 1
        if loss < 0:
            self.signed = True
        if len(self.first) < START:
            self.first.append(loss)
            if len(self.first) == START and self.start == 0:
                self.signed = True
        self.window.append(loss)
        if self.count < 16 or not self.count & (3 if self.count < EARLY else 7):
            values = list(self.window)
            self.middle = median(values[-WINDOW // 2 :])
            self.sigma = noise(values)
        return QUIET

    @property
    def start(self) -> float:
        """Where the curve began: the median of its first losses, 0 when there is none."""
        return median(self.first) if self.first else 0.0

    def recent(self, count: int) -> list[float]:
        return list(self.window)[-count:]
