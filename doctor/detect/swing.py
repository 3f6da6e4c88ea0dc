"""Losses that swing: in a rhythm of a few steps, or in a noise that has grown out of all proportion."""

from __future__ import annotations

from collections.abc import Sequence
from operator import mul
from typing import Optional

from doctor.detect.alarm import QUIET, Alarm, Detector, number, seen
from doctor.detect.level import WINDOW, LossLevel
from doctor.detect.window import alternation, mean, rhythms, rise_of
from doctor.finding import Severity
from doctor.records.record import Metric

#: correlation of neighbours that is no noise, over 48 steps and over 32: white noise has standard deviations of 0.14 and 0.18
ZIGZAG, SHORT_ZIGZAG = -0.6, -0.7
#: steps -> shares of the variance that patterns of two, three, ... steps must explain. Noise reaches each about once in a
#: million windows: a share of noise has a beta distribution of (p - 1) / 2 and (n - p) / 2.
RHYTHMS = {
    24: (0.66, 0.74, 0.8),
    32: (0.56, 0.62, 0.67, 0.71, 0.75),
    48: (0.45, 0.47, 0.51, 0.55, 0.58, 0.61, 0.64),
}
SHORT = 32
#: noise relative to the level: what a rhythm must have, and what is a swing by itself
LEAST_SWING = 0.04
#: what a rhythm must have where the swing has grown as much as `MUCH_WILDER` says
SMALL_SWING = 0.02
WILD_SWING = 0.35
#: how many times calmer the run must have been before: for noise, and for a rhythm of more than two steps, which batches
#: that come round in the same order have as well
CALMER = 3.0
CALMER_ZIGZAG, CALMER_RHYTHM = 1.25, 1.6
#: a zigzag that explains half of the variance is enough where the swing is this many times what it was
MUCH_WILDER, HALF = 2.5, 0.5
#: the loss has left its start, where all batches look alike, at this share of it
LEFT_START = 0.97


class LossSwings(Detector):
    """RUN-LOSS-008: judged each eighth step over the last 24, 32 and 48, and said when it holds twice."""

    rules = ("RUN-LOSS-008",)

    def __init__(self, level: LossLevel) -> None:
        self.level = level
        self.calmest = float("inf")
        #: least deviation over 24 steps since the loss left its start
        self.least = float("inf")
        self.bad = 0
        self.good = 0
        self.opened: Optional[Alarm] = None

    def feed(self, metric: Metric) -> Sequence[Alarm]:
        level = self.level
        late = level.count > 10 * WINDOW
        if (
            not level.fresh
            or level.count & (15 if late else 7)
            or level.count < 40
            or level.middle <= 0
            or level.signed
        ):
            return QUIET
        # Near zero every batch is a large multiple of the last: that is memorising, not swinging.
        if level.middle < 0.2 * level.start:
            return QUIET
        relative = level.sigma / level.middle
        values = list(level.window)
        bad = self._in_rhythm(values) or self._wild(values, relative)
        if not bad and level.count >= WINDOW + 32:
            self.calmest = min(self.calmest, relative)
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
                ("swing", f"{max(relative, _deviation(values[-24:]) / level.middle):.0%}"),
                ("low", number(min(values))),
                ("high", number(max(values))),
            ),
        )
        return (self.opened,)

    def _in_rhythm(self, values: list[float]) -> bool:
        level = self.level
        deviation = _deviation(values[-24:])
        least = SMALL_SWING if deviation > MUCH_WILDER * self.least else LEAST_SWING
        if deviation > least * level.middle:
            # A swing that was there from the start has nothing to be compared with.
            grown = deviation / self.least if self.least < float("inf") else CALMER_ZIGZAG
            if (
                level.count >= WINDOW + 16
                and grown >= CALMER_ZIGZAG
                and (alternation(values) < ZIGZAG or alternation(values[-SHORT:]) < SHORT_ZIGZAG)
            ):
                return True
            for count, needed in RHYTHMS.items():
                if len(values) < count or grown < CALMER_ZIGZAG:
                    break
                shares = rhythms(values[-count:], len(needed) + 1 if grown > CALMER_RHYTHM else 2)
                if any(share > enough for share, enough in zip(shares, needed)):
                    return True
                if count <= SHORT and grown > MUCH_WILDER and self.least < float("inf") and shares[0] > HALF:
                    return True
        # the same loss over and over is no calm curve; its deviation is zero but for rounding
        if level.middle < LEFT_START * level.start and deviation > 1e-9 * level.middle:
            self.least = min(self.least, deviation)
        return False

    def _wild(self, values: list[float], relative: float) -> bool:
        return self.level.count >= WINDOW + 16 and relative > WILD_SWING and relative > CALMER * self.calmest


def _deviation(values: Sequence[float]) -> float:
    """Standard deviation round a line."""
    rise, middle, average = rise_of(values), (len(values) - 1) / 2, mean(values)
    rest = [value - average - rise * (index - middle) for index, value in enumerate(values)]
    return float((sum(map(mul, rest, rest)) / max(1, len(values) - 2)) ** 0.5)
