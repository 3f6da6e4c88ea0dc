"""Losses that are too good: near zero too soon, and first losses that betray what was or was not loaded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Optional

from doctor.detect.alarm import QUIET, Alarm, Detector, number, seen
from doctor.detect.facts import KNOWN_VOCABULARIES, RunFacts
from doctor.detect.level import LossLevel
from doctor.detect.window import mean
from doctor.finding import Severity
from doctor.records.record import Metric

#: text has entropy: no language model gets near zero on text that it has not seen
TOO_LOW = 0.06
#: curves that begin below this may be classifiers, which do reach zero
LANGUAGE = 2.5
WINDOW = 16


class LossTooLow(Detector):
    """RUN-LOSS-009: the mean of 16 steps is below 6 % of where the curve began."""

    rules = ("RUN-LOSS-009",)

    def __init__(self, level: LossLevel) -> None:
        self.level = level
        self.opened: Optional[Alarm] = None

    def feed(self, metric: Metric) -> Sequence[Alarm]:
        level = self.level
        if not level.fresh or level.count < WINDOW or level.count & 3:
            return QUIET
        start = level.start
        if start < LANGUAGE:
            return QUIET
        if level.value > 2 * TOO_LOW * start and self.opened is None:
            return QUIET
        recent = level.recent(WINDOW)
        average = mean(recent)
        if self.opened is not None:
            if average < 4 * TOO_LOW * start:
                return QUIET
            opened, self.opened = self.opened, None
            return (Alarm("resolved", opened.rule, opened.onset, opened.evidence, opened.values, Severity.INFO),)
        # Zeros have a rule of their own.
        if average >= TOO_LOW * start or sum(1 for item in recent if item == 0) > WINDOW // 2:
            return QUIET
        self.opened = Alarm(
            "opened",
            self.rules[0],
            metric.at,
            (seen(metric, "loss", f"above {number(TOO_LOW * start)}"),),
            (
                ("step", "?" if metric.at is None else metric.at),
                ("value", number(average)),
                ("before", number(start)),
                ("steps", level.count),
            ),
        )
        return (self.opened,)


class FirstLoss(Detector):
    """RUN-INIT-001: weights were loaded, yet the first loss is that of a model that guesses, ln(vocabulary).

    When the size of the vocabulary is not known, the sizes of the common families are tried, and only a
    close hit counts.
    """

    rules = ("RUN-INIT-001",)

    def __init__(self, facts: RunFacts) -> None:
        self.facts = facts
        self.done = False

    def feed(self, metric: Metric) -> Sequence[Alarm]:
        if self.done or metric.loss is None or metric.evaluation:
            return QUIET
        self.done = True
        loss = metric.loss
        if not self.facts.loads_weights or not math.isfinite(loss) or (metric.at or 1) > 20:
            return QUIET
        uniform, size, confidence = self.facts.uniform_loss(), self.facts.vocab_size, 0.93
        if uniform is None:
            size = min(KNOWN_VOCABULARIES, key=lambda item: abs(math.log(item) - loss))
            uniform, confidence = math.log(size), 0.7
            if abs(loss - uniform) > 0.02 * uniform:
                return QUIET
        elif not 0.93 * uniform <= loss <= 1.25 * uniform:
            return QUIET
        return (
            Alarm(
                "opened",
                self.rules[0],
                metric.at,
                (seen(metric, "loss", f"well below ln({size}) = {number(uniform)}"),),
                (
                    ("step", "?" if metric.at is None else metric.at),
                    ("value", number(loss)),
                    ("uniform", number(uniform)),
                    ("vocab", size),
                ),
                confidence=confidence,
            ),
        )
