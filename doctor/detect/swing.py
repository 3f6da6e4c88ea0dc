"""Losses that swing: a zigzag from step to step, or a noise that has grown out of all proportion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from doctor.detect.alarm import QUIET, Alarm, Detector, number, seen
from doctor.detect.level import WINDOW, LossLevel
from doctor.detect.window import alternation, mean
from doctor.finding import Severity
from doctor.records.record import Metric

#: correlation of neighbours that is no noise, over 48 steps and over 32: white noise has standard deviations of 0.14 and 0.18
ZIGZAG, SHORT_ZIGZAG = -0.6, -0.7
SHORT = 32
#: noise relative to the level: what a zigzag must have, and what is a swing by itself
LEAST_SWING = 0.04
WILD_SWING = 0.35
#: how many times calmer the run must have been before
CALMER = 3.0


class LossSwings(Detector):
    """RUN-LOSS-008: judged each eighth step over the last 48, and said when it holds twice."""

    rules = ("RUN-LOSS-008",)

    def __init__(self, level: LossLevel) -> None:
        self.level = level
        self.calmest = float("inf")
        self.bad = 0
        self.good = 0
        self.opened: Optional[Alarm] = None

    def feed(self, metric: Metric) -> Sequence[Alarm]:
        level = self.level
        late = level.count > 10 * WINDOW
        if not level.fresh or level.count & (15 if late else 7) or level.count < WINDOW + 16 or level.middle <= 0:
            return QUIET
        # Near zero every batch is a large multiple of the last: that is memorising, not swinging.
        if level.middle < 0.2 * level.start:
            return QUIET
        relative = level.sigma / level.middle
        values = list(level.window)
        zigzag = alternation(values) < ZIGZAG or alternation(values[-SHORT:]) < SHORT_ZIGZAG
        bad = (zigzag and relative > LEAST_SWING) or (relative > WILD_SWING and relative > CALMER * self.calmest)
        if not bad:
            self.calmest = min(self.calmest, relative) if level.count >= WINDOW + 32 else self.calmest
        self.bad = self.bad + 1 if bad else 0
        self.good = 0 if bad else self.good + 1
        if self.opened is not None:
            if self.good < 4:
                return QUIET
            opened, self.opened = self.opened, None
            return (Alarm("resolved", opened.rule, opened.onset, opened.evidence, opened.values, Severity.INFO),)
        if self.bad < 2 or level.jumping:
            return QUIET
        onset = None if metric.at is None else max(1, metric.at - WINDOW)
        self.opened = Alarm(
            "opened",
            self.rules[0],
            onset,
            (seen(metric, "loss", f"near {number(level.middle)}"),),
            (
                ("step", "?" if onset is None else onset),
                ("value", number(mean(values))),
                ("swing", f"{relative:.0%}"),
                ("low", number(min(values))),
                ("high", number(max(values))),
            ),
        )
        return (self.opened,)
