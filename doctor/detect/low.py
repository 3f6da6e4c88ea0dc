"""Losses that are too good: near zero too soon, and first losses that betray what was or was not loaded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Optional

from doctor.detect.alarm import QUIET, Alarm, Detector, number, seen
from doctor.detect.facts import KNOWN_VOCABULARIES, RunFacts
from doctor.detect.flat import FIRST_STEPS, UNTRAINED
from doctor.detect.level import LossLevel
from doctor.detect.window import mean
from doctor.finding import Severity, Text
from doctor.records.record import Metric

#: text has entropy: no language model gets near zero on text that it has not seen
TOO_LOW = 0.06
#: and within its first steps a model that knew nothing gets nowhere near this share of where it began: 400 healthy short
#: runs of small models on text reach 0.43
SOON, TOO_LOW_SOON = 400, 0.22
#: curves that begin below this may be classifiers, which do reach zero
LANGUAGE = 2.5
WINDOW = 16
#: passes over the data after which small data are known by heart: to be told, and no fault of the labels
BY_HEART = 4


class LossTooLow(Detector):
    """RUN-LOSS-009: the mean of 16 steps is below 6 % of where the curve began, or within the first 400 steps of an
    untrained model below 22 %. Only information once every sample was seen several times: a model that is to learn a
    handful of samples by heart is a common test of a set-up."""

    rules = ("RUN-LOSS-009",)

    def __init__(self, level: LossLevel, facts: RunFacts) -> None:
        self.level = level
        self.facts = facts
        self.opened: Optional[Alarm] = None
        #: the curve begins where the run does
        self.fresh = False

    def feed(self, metric: Metric) -> Sequence[Alarm]:
        level = self.level
        if level.fresh and level.count == 1:
            self.fresh = metric.at is not None and metric.at <= FIRST_STEPS
        if not level.fresh or level.count < WINDOW or level.count & 3:
            return QUIET
        start = level.start
        if start < LANGUAGE:
            return QUIET
        soon = self.fresh and metric.at is not None and metric.at <= SOON and not self.facts.loads_weights
        share = TOO_LOW_SOON if soon and start >= UNTRAINED else TOO_LOW
        if level.value > 2 * share * start and self.opened is None:
            return QUIET
        recent = level.recent(WINDOW)
        average = mean(recent)
        if self.opened is not None:
            if average < max(4 * TOO_LOW, 1.3 * TOO_LOW_SOON) * start:
                return QUIET
            opened, self.opened = self.opened, None
            return (Alarm("resolved", opened.rule, opened.onset, opened.evidence, opened.values, Severity.INFO),)
        # Zeros have a rule of their own.
        if average >= share * start or sum(1 for item in recent if item == 0) > WINDOW // 2:
            return QUIET
        self.opened = Alarm(
            "opened",
            self.rules[0],
            metric.at,
            (seen(metric, "loss", f"above {number(share * start)}"),),
            (
                ("step", "?" if metric.at is None else metric.at),
                ("value", number(average)),
                ("before", number(start)),
                ("steps", level.count),
            ),
            *self._by_heart(metric, average, start),
        )
        return (self.opened,)

    @staticmethod
    def _by_heart(
        metric: Metric, average: float, start: float
    ) -> tuple[Optional[Severity], Optional[float], Optional[Text]]:
        """Severity, confidence and message where the data were gone through often enough; else those of the rule."""
        passes = metric.epoch or 0.0
        if passes < BY_HEART:
            return None, None, None
        fell, times = f"{number(start)} -> {number(average)}", f"{passes:.0f}"
        return (
            Severity.INFO,
            0.7,
            Text(
                f"It fell ({fell}) while every sample was seen about {times} times: the model knows these data by heart. As a "
                "test of the set-up that is what it should do; what it has learnt shows only on data that it has not seen.",
                f"损失 {fell}，每个样本已看过约 {times} 遍：模型把这些数据背下来了。若只是验证流程，这正是预期结果；真实效果只能在未见过的数据上看出。",
            ),
        )


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
