"""Overflow and the loss scale: a streak that does not end, a scale that falls and falls."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Optional

from doctor.detect.alarm import QUIET, Alarm, Detector, number, seen
from doctor.finding import Severity, Text
from doctor.records.record import Metric

#: overflows in a row that are no chance once training runs
STREAK = 5
#: a scaler that starts at 2**24, the default of some, skips two to five steps before it has found its scale: no news
USUAL_SEARCH = 6
#: one that starts at 2**32 needs this many steps
SEARCH = 40
#: in this many steps a scale that has settled does not overflow half the time
WINDOW = 24
OFTEN = 0.4
#: halvings within the window that show that the scale finds no floor
HALVINGS = 5


class Overflow(Detector):
    """RUN-OVF-001: steps are skipped one after the other. RUN-OVF-002: the scale collapses, with a forecast of when
    it reaches 1. RUN-OVF-003: every step is skipped and the scale does not move.

    At the start a dynamic scale searches downwards from a high value; six skipped steps or more are worth a
    line (information), and end with the first step that is not skipped.
    """

    rules = ("RUN-OVF-001", "RUN-OVF-002", "RUN-OVF-003")

    def __init__(self) -> None:
        self.steps: deque[tuple[bool, float]] = deque(maxlen=WINDOW)
        self.streak: int = 0
        self.first: Optional[Metric] = None
        self.good = 0
        self.first_scale: Optional[float] = None
        self.opened: Optional[Alarm] = None

    def feed(self, metric: Metric) -> Sequence[Alarm]:
        overflow, scale = metric.overflow, _scale(metric)
        if overflow is None:
            return QUIET
        if not overflow and self.opened is None and not self.streak:
            # the common case, kept short
            self.good += 1
            self.steps.append((False, scale or 0.0))
            return QUIET
        self.steps.append((overflow, scale or 0.0))
        if overflow:
            if not self.streak:
                self.first, self.first_scale = metric, scale
            self.streak += 1
        else:
            if not self.good:
                # The search for a scale at the start does not count against what comes after.
                self.steps.clear()
            self.streak = 0
            self.good += 1
        if self.opened is not None:
            return self._follow(metric)
        if not overflow:
            return QUIET
        return self._judge(metric)

    def _judge(self, metric: Metric) -> Sequence[Alarm]:
        scale = _scale(metric)
        assert self.first is not None
        searching = self.good == 0
        if self.streak >= STREAK and scale is not None and scale == self.first_scale and scale >= 1:
            return self._open("RUN-OVF-003", metric, self.first)
        scales = [item for _, item in self.steps if item > 0]
        halvings = math.log2(scales[0]) - math.log2(scales[-1]) if len(scales) > 1 else 0.0
        if searching:
            if self.streak == USUAL_SEARCH:
                return self._open("RUN-OVF-001", metric, self.first, Severity.INFO)
            return QUIET
        skipped = sum(1 for bad, _ in self.steps if bad)
        if halvings >= HALVINGS and skipped >= STREAK and (skipped >= OFTEN * len(self.steps) or self.streak >= STREAK):
            return self._open("RUN-OVF-002", metric, self.first)
        if self.streak >= STREAK:
            return self._open("RUN-OVF-001", metric, self.first)
        return QUIET

    def _follow(self, metric: Metric) -> Sequence[Alarm]:
        assert self.opened is not None
        opened = self.opened
        recent = list(self.steps)[-12:]
        if not self.streak and (self.good == 1 or not any(bad for bad, _ in recent[-8:])) and opened.severity:
            self.opened = None
            return (self._resolved(opened, metric),)
        if not any(bad for bad, _ in recent) and len(recent) == 12:
            self.opened = None
            return (self._resolved(opened, metric),)
        scale = _scale(metric)
        if opened.rule == "RUN-OVF-001" and metric.overflow and scale is not None and self.first is not None:
            gone = opened.severity is Severity.INFO
            if gone and (scale < 1 or self.streak >= SEARCH):
                self.opened = None
                return (
                    self._resolved(opened, metric),
                    *self._open("RUN-OVF-002", metric, self.first),
                )
            scales = [item for _, item in self.steps if item > 0]
            falls = math.log2(scales[0]) - math.log2(scales[-1]) if len(scales) > 1 else 0.0
            if not gone and falls >= HALVINGS:
                self.opened = None
                return (self._resolved(opened, metric), *self._open("RUN-OVF-002", metric, self.first))
        return QUIET

    def _resolved(self, opened: Alarm, metric: Metric) -> Alarm:
        evidence = (*opened.evidence[:2], seen(metric, "loss_scale"))
        return Alarm("resolved", opened.rule, opened.onset, evidence, opened.values, Severity.INFO)

    def _open(self, rule: str, metric: Metric, first: Metric, severity: Optional[Severity] = None) -> Sequence[Alarm]:
        evidence = [seen(first, "overflow", False)]
        if metric is not first:
            evidence.append(seen(metric, "loss_scale"))
        self.opened = Alarm(
            "opened",
            rule,
            first.at,
            tuple(evidence),
            (
                ("step", "?" if first.at is None else first.at),
                ("count", sum(1 for bad, _ in self.steps if bad)),
                ("window", len(self.steps)),
                ("before", number(self._before(first))),
                ("value", number(metric.loss_scale)),
                ("forecast", self._forecast(metric)),
            ),
            severity,
        )
        return (self.opened,)

    def _before(self, first: Metric) -> Optional[float]:
        scales = [item for _, item in self.steps if item > 0]
        return scales[0] if scales else first.loss_scale

    def _forecast(self, metric: Metric) -> Text:
        """When the scale reaches 1 at the pace of the window."""
        scale = _scale(metric)
        scales = [item for _, item in self.steps if item > 0]
        if scale is None or len(scales) < 2 or scales[-1] >= scales[0]:
            return Text("", "")
        if scale <= 1:
            return Text(
                "It is below 1 already: gradients are now made smaller, not larger.",
                "它已低于 1：此时是在缩小梯度，而不是放大。",
            )
        pace = (math.log2(scales[0]) - math.log2(scales[-1])) / (len(scales) - 1)
        left = max(1, round(math.log2(scale) / pace))
        return Text(f"At this pace it reaches 1 in about {left} steps.", f"按此速度约 {left} 步后降到 1。")


def _scale(metric: Metric) -> Optional[float]:
    """The loss scale, when it is one: a product with nan, infinity or nothing scales no loss."""
    scale = metric.loss_scale
    return scale if scale is not None and 0 < scale < math.inf else None
