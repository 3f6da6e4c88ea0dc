"""Runs that go on from a checkpoint: does the loss go on where it was?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Optional

from doctor.detect.alarm import QUIET, Alarm, Detector, number, seen
from doctor.detect.window import median, noise
from doctor.records.record import Metric

#: points kept of a curve; when they are full, neighbours are merged
POINTS = 512
#: losses after the resumption that are compared
COMPARED = 8
SIGMAS = 5.0
LEAST_RISE = 1.08


class Curve:
    """A loss curve in bounded memory: means of blocks of steps, the blocks doubling as the curve grows."""

    def __init__(self) -> None:
        self.block = 1
        self.points: list[tuple[int, float]] = []
        self.total = 0.0
        self.count = 0
        self.begin = 0

    def add(self, step: int, loss: float) -> None:
        if not self.count:
            self.begin = step
        self.total += loss
        self.count += 1
        if self.count < self.block:
            return
        self.points.append((self.begin, self.total / self.count))
        self.total, self.count = 0.0, 0
        if len(self.points) >= POINTS:
            pairs = zip(self.points[::2], self.points[1::2])
            self.points = [(first[0], (first[1] + second[1]) / 2) for first, second in pairs]
            self.block *= 2

    def near(self, step: int) -> list[float]:
        """The values round a step, at least COMPARED of them where the curve is long enough."""
        reach = max(COMPARED, 2 * self.block)
        found = [value for at, value in self.points if step - reach <= at <= step + reach]
        return found or [value for _, value in self.points[-COMPARED:]]


class Resumption(Detector):
    """RUN-RES-001: the step counter went back, and the loss is well above what it was at those steps."""

    rules = ("RUN-RES-001",)

    def __init__(self) -> None:
        self.curve = Curve()
        self.last: Optional[int] = None
        self.resumed: Optional[Metric] = None
        self.losses: list[float] = []

    def feed(self, metric: Metric) -> Sequence[Alarm]:
        step, loss = metric.at, metric.loss
        if step is None or loss is None or metric.evaluation or not math.isfinite(loss):
            return QUIET
        last = self.last
        self.last = step
        if last is not None and step < last - 2:
            if step <= 1:
                # A new run in the same file.
                self.curve, self.resumed = Curve(), None
            else:
                self.resumed, self.losses = metric, []
        if self.resumed is None:
            self.curve.add(step, loss)
            return QUIET
        self.losses.append(loss)
        if len(self.losses) < COMPARED:
            return QUIET
        return self._judge(self.resumed)

    def _judge(self, first: Metric) -> Sequence[Alarm]:
        self.resumed = None
        former = self.curve.near(first.at or 0)
        if len(former) < 3:
            return QUIET
        before, now = median(former), median(self.losses)
        sigma = max(noise(self.losses), noise(former)) / COMPARED**0.5
        if now < max(LEAST_RISE * before, before + SIGMAS * sigma):
            return QUIET
        return (
            Alarm(
                "opened",
                self.rules[0],
                first.at,
                (seen(first, "loss", f"about {number(before)}"),),
                (
                    ("step", "?" if first.at is None else first.at),
                    ("before", number(before)),
                    ("value", number(now)),
                    ("lr", number(first.lr)),
                ),
            ),
        )
