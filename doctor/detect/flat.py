"""Losses that do not move: exactly zero, exactly constant, or never below where they began."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Optional

from doctor.detect.alarm import QUIET, Alarm, Detector, number, seen
from doctor.detect.facts import RunFacts
from doctor.detect.level import LossLevel
from doctor.detect.window import mean, slope
from doctor.finding import Severity, Text
from doctor.records.record import Metric

ZEROS = 3
#: zeros from the first step on are what the other stages of a pipeline print
ZEROS_FROM_START = 8
#: equal losses in a row that chance does not give, when printed with four decimals or more, and with fewer
EQUAL_FINE = 8
EQUAL_COARSE = 24


class LossZero(Detector):
    """RUN-LOSS-005: no label counts. A pipeline stage that is not the last prints 0.000 from its first step on while its
    gradient norm is a number; that is normal and stays silent."""

    rules = ("RUN-LOSS-005",)

    def __init__(self, facts: RunFacts) -> None:
        self.facts = facts
        self.before: Optional[float] = None
        self.zeros = 0
        self.first: Optional[Metric] = None
        self.opened = False

    def feed(self, metric: Metric) -> Sequence[Alarm]:
        loss = metric.loss
        if loss is None or metric.evaluation:
            return QUIET
        if loss != 0:
            first, opened = self.first, self.opened
            self.before, self.zeros, self.first, self.opened = loss, 0, None, False
            if opened and first is not None:
                return (self._alarm("resolved", first, Severity.INFO),)
            return QUIET
        if self.opened:
            return QUIET
        self.zeros += 1
        if self.first is None:
            self.first = metric
        if self.before is None and not self._is_fault(metric):
            return QUIET
        if self.zeros < (ZEROS if self.before is not None else ZEROS_FROM_START):
            return QUIET
        self.opened = True
        return (self._alarm("opened", self.first, None),)

    def _is_fault(self, metric: Metric) -> bool:
        if metric.grad_norm is not None:
            return metric.grad_norm == 0
        return self.facts.pipeline_stages == 1

    def _alarm(self, kind: str, first: Metric, severity: Optional[Severity]) -> Alarm:
        before = "?" if self.before is None else number(self.before)
        values = (("step", "?" if first.at is None else first.at), ("before", before))
        return Alarm(kind, "RUN-LOSS-005", first.at, (seen(first, "loss", "above 0"),), values, severity)


class LossConstant(Detector):
    """RUN-LOSS-006: the same loss to the last digit, step after step, though the batches differ."""

    rules = ("RUN-LOSS-006",)

    def __init__(self) -> None:
        self.value: Optional[float] = None
        self.first: Optional[Metric] = None
        self.times = 0
        self.opened = False

    def feed(self, metric: Metric) -> Sequence[Alarm]:
        loss = metric.loss
        if loss is None or metric.evaluation:
            return QUIET
        if loss == self.value:
            self.times += 1
            if self.opened or not loss or math.isinf(1000 * loss) or self.first is None or self.times < EQUAL_FINE:
                return QUIET
            if self.times < EQUAL_COARSE and abs(loss * 1000 - round(loss * 1000)) < 1e-6:
                return QUIET
            self.opened = True
            return (self._alarm("opened", self.first, None),)
        first, opened = self.first, self.opened
        self.value, self.first, self.times, self.opened = loss, metric, 1, False
        if opened and first is not None:
            return (self._alarm("resolved", first, Severity.INFO),)
        return QUIET

    def _alarm(self, kind: str, first: Metric, severity: Optional[Severity]) -> Alarm:
        values = (("step", "?" if first.at is None else first.at), ("value", str(first.loss)), ("times", self.times))
        return Alarm(kind, "RUN-LOSS-006", first.at, (seen(first, "loss", "a new value each step"),), values, severity)


#: steps at a rate that has come up before "never" is said
TRAINED = 40
#: steps before it is said when the rate is not known
TRAINED_BLIND = 200
#: a loss of this much or more at the start is that of a model that has learnt nothing yet
UNTRAINED = 3.3
#: a curve that begins later than this did not begin with the run
FIRST_STEPS = 8
#: noise relative to the level of a model that guesses, at most; when the size of the vocabulary is known, and when not
CALM_KNOWN, CALM = 0.05, 0.015
#: the least share of its start that a loss must lose
LEAST_FALL = 0.0005
#: a line through the last losses falls, by this many of its standard errors
SURELY = 2.5
#: share of the start below which a loss has shown that it can fall
FELL = 0.95


class LossNeverFalls(Detector):
    """RUN-LOSS-007: an untrained model whose loss is where it began, though the rate has long been up."""

    rules = ("RUN-LOSS-007",)

    def __init__(self, level: LossLevel, facts: RunFacts) -> None:
        self.level = level
        self.facts = facts
        self.begin: Optional[Metric] = None
        self.early: list[float] = []
        self.peak = 0.0
        #: steps since the rate was last at a new peak, at a tenth of its peak or more
        self.trained = 0
        self.opened: Optional[Metric] = None

    def feed(self, metric: Metric) -> Sequence[Alarm]:
        level = self.level
        if self.done or not level.fresh or metric.overflow:
            return QUIET
        if self.begin is None:
            self.begin = metric
        if len(self.early) < 8:
            self.early.append(level.value)
        rate = metric.lr
        if rate is not None:
            # While the rate still climbs, little can be learnt: long warm-ups begin at next to nothing.
            rises = rate > self.peak * (1 + 1e-6)
            self.peak = max(self.peak, rate)
            if rises:
                self.trained = 0
            elif rate >= 0.1 * self.peak > 0:
                self.trained += 1
        if level.count & 7 or level.count < 16:
            return QUIET
        if mean(level.recent(16)) < FELL * mean(self.early):
            # It can learn.
            self.done = True
            return self._recovery(metric)
        if level.count < TRAINED or self.opened is not None:
            return QUIET
        ready = self.trained >= TRAINED if self.peak else level.count >= TRAINED_BLIND
        if not ready or level.jumping:
            return QUIET
        early = mean(self.early)
        if not self._untrained(early) or not self._flat(early):
            return QUIET
        self.opened = self.begin
        return (self._alarm("opened", metric, early, None),)

    def _untrained(self, early: float) -> bool:
        """Whether the curve begins where training begins: at the first step, at the loss of a model that guesses, which
        is nearly the same for every batch. A fine-tune may stay flat for long, and a log may begin anywhere."""
        facts = self.facts
        begin = self.begin.at if self.begin is not None else None
        if begin is None or begin > FIRST_STEPS or facts.loads_weights or facts.resumes or early < UNTRAINED:
            return False
        uniform = facts.uniform_loss()
        if uniform is not None and early < 0.9 * uniform:
            return False
        return self.level.sigma <= (CALM_KNOWN if uniform is not None else CALM) * early

    def _flat(self, early: float) -> bool:
        recent = self.level.recent(16)
        error = self.level.sigma * (1 / 8 + 1 / 16) ** 0.5
        if early - mean(recent) >= max(LEAST_FALL * early, 3 * error):
            return False
        # However little it falls: when it falls surely, something is being learnt.
        _, surely = slope(list(self.level.window))
        return surely > -SURELY

    def _recovery(self, metric: Metric) -> Sequence[Alarm]:
        if self.opened is None:
            return QUIET
        self.opened = None
        return (self._alarm("resolved", metric, mean(self.early), Severity.INFO),)

    def _alarm(self, kind: str, metric: Metric, early: float, severity: Optional[Severity]) -> Alarm:
        assert self.begin is not None
        uniform = self.facts.uniform_loss()
        vocabulary = Text("", "")
        if uniform is not None:
            vocabulary = Text(
                f"A model that guesses has a loss of ln({self.facts.vocab_size}) = {number(uniform)}.",
                f"随机猜测的模型损失为 ln({self.facts.vocab_size}) = {number(uniform)}。",
            )
        return Alarm(
            kind,
            "RUN-LOSS-007",
            self.begin.at,
            (seen(self.begin, "loss"), seen(metric, "loss", f"clearly below {number(early)}")),
            (
                ("before", number(early)),
                ("value", number(mean(self.level.recent(16)))),
                ("steps", self.level.count),
                ("step", "?" if metric.at is None else metric.at),
                *((("lr", number(metric.lr)),) if metric.lr is not None else ()),
                ("vocabulary", vocabulary),
            ),
            severity,
        )
