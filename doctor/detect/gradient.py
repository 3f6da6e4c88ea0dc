"""Gradient norms: none, hardly any, too many, rising before a spike, or always cut."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Optional

from doctor.detect.alarm import QUIET, Alarm, Detector, number, seen
from doctor.detect.facts import RunFacts
from doctor.detect.level import LossLevel
from doctor.detect.window import median
from doctor.finding import Severity
from doctor.records.record import Metric

WINDOW = 32
FEWEST = 8
#: norms after which their median is renewed
RENEW = 6
#: Public healthy runs: single norms reach 7.5 times the median of 64 steps, three in a row 1.9 times.
EXPLODES = 20.0
IN_A_ROW = 3
#: growth from step to step that, three times in a row, comes before a spike (BLOOM-176B: 0.24, 0.95, 2.4, 16, 145, 960)
DOUBLES = 1.8
RISEN = 10.0
#: share of its former median at which a norm has vanished
VANISHED = 1e-3
TINY = 1e-7
GONE = 5
#: a norm this large is wrong whatever came before
HUGE = 1e4


class GradientNorm(Detector):
    """RUN-GRAD-001 vanishing, RUN-GRAD-002 exploding, RUN-GRAD-003 rising before a spike."""

    rules = ("RUN-GRAD-001", "RUN-GRAD-002", "RUN-GRAD-003")

    def __init__(self, level: LossLevel) -> None:
        self.level = level
        self.base: deque[float] = deque(maxlen=WINDOW)
        self.middle = 0.0
        self.high: list[Metric] = []
        self.gone: list[Metric] = []
        self.climb: list[Metric] = []
        self.opened: dict[str, Alarm] = {}
        self.calm = 0
        self.huge = 0
        #: norms since the median was renewed
        self.since = 0

    def feed(self, metric: Metric) -> Sequence[Alarm]:
        norm = metric.grad_norm
        if norm is None or not math.isfinite(norm) or norm < 0 or metric.overflow:
            return QUIET
        if len(self.base) >= FEWEST and VANISHED * self.middle < norm <= RISEN * self.middle and not self.opened:
            # the common case, kept short
            self.base.append(norm)
            self.since += 1
            if self.since >= RENEW:
                self.since = 0
                self.middle = median(list(self.base))
            if self.high or self.gone or self.huge:
                self.high, self.gone, self.huge = [], [], 0
            self._climbs(metric, norm)
            return QUIET
        return [*self._explodes(metric, norm), *self._vanishes(metric, norm), *self._precursor(metric, norm)]

    def _accept(self, norm: float) -> None:
        self.base.append(norm)
        self.middle = median(list(self.base))

    def _climbs(self, metric: Metric, norm: float) -> None:
        last = self.climb[-1].grad_norm if self.climb else None
        if last is not None and last > 0 and norm >= DOUBLES * last:
            self.climb.append(metric)
        else:
            self.climb = [metric]

    def _precursor(self, metric: Metric, norm: float) -> Sequence[Alarm]:
        self._climbs(metric, norm)
        first = self.climb[0].grad_norm or 0.0
        known = self.middle or first
        # The first steps of a run climb by themselves.
        started = (metric.at or 0) > 20 or self.level.count > 20
        if (
            len(self.climb) > IN_A_ROW
            and started
            and norm > RISEN * first
            and norm > 3 * known
            and not {"RUN-GRAD-003", "RUN-GRAD-002"} & set(self.opened)
        ):
            return (self._open("RUN-GRAD-003", metric, self.climb[0], known),)
        return QUIET

    def _explodes(self, metric: Metric, norm: float) -> Sequence[Alarm]:
        self.huge = self.huge + 1 if norm > max(HUGE, 30 * (metric.loss_scale or 1.0)) else 0
        small_loss = metric.loss is not None and abs(metric.loss) < 100
        if self.huge >= 2 and small_loss and "RUN-GRAD-002" not in self.opened:
            return (self._open("RUN-GRAD-002", metric, metric, self.middle or 1.0),)
        if len(self.base) < FEWEST:
            if norm > 0:
                self._accept(norm)
            return QUIET
        if norm <= EXPLODES * self.middle:
            self.high = []
            if norm > VANISHED * self.middle:
                self._accept(norm)
                return self._calmer(metric)
            return QUIET
        self.calm = 0
        self.high.append(metric)
        if len(self.high) >= IN_A_ROW and "RUN-GRAD-002" not in self.opened:
            return (self._open("RUN-GRAD-002", metric, self.high[0], self.middle),)
        return QUIET

    def _vanishes(self, metric: Metric, norm: float) -> Sequence[Alarm]:
        limit = max(TINY, VANISHED * self.middle) if len(self.base) >= FEWEST else TINY
        if norm > limit:
            self.gone = []
            opened = self.opened.pop("RUN-GRAD-001", None)
            return (self._resolve(opened, metric),) if opened else QUIET
        # Where nothing is left to learn, or no label counts, the gradient is small as it should be.
        loss = metric.loss
        if loss is None or loss <= 0.06 * self.level.start:
            return QUIET
        self.gone.append(metric)
        if len(self.gone) < GONE or "RUN-GRAD-001" in self.opened:
            return QUIET
        return (self._open("RUN-GRAD-001", metric, self.gone[0], self.middle),)

    def _calmer(self, metric: Metric) -> Sequence[Alarm]:
        """Eight norms back in the band end what was said of high ones."""
        self.calm += 1
        if self.calm < 8:
            return QUIET
        names = [name for name in ("RUN-GRAD-002", "RUN-GRAD-003") if name in self.opened]
        return [self._resolve(self.opened.pop(name), metric) for name in names]

    def _open(self, rule: str, metric: Metric, first: Metric, normal: float) -> Alarm:
        self.calm = 0
        evidence = [seen(first, "grad_norm", f"about {number(normal)}")]
        if metric is not first:
            evidence.append(seen(metric, "grad_norm", f"about {number(normal)}"))
        alarm = Alarm(
            "opened",
            rule,
            first.at,
            tuple(evidence),
            (
                ("step", "?" if first.at is None else first.at),
                ("now", "?" if metric.at is None else metric.at),
                ("before", number(normal)),
                ("value", number(metric.grad_norm)),
                ("times", number((metric.grad_norm or 0.0) / normal) if normal else "?"),
            ),
        )
        self.opened[rule] = alarm
        return alarm

    @staticmethod
    def _resolve(opened: Alarm, metric: Metric) -> Alarm:
        evidence = (*opened.evidence, seen(metric, "grad_norm"))
        return Alarm("resolved", opened.rule, opened.onset, evidence, opened.values, Severity.INFO)


#: norms this many times the limit, at every step, leave next to nothing of a gradient
CUT = 20.0
CUT_STEPS = 48


class AlwaysClipped(Detector):
    """RUN-GRAD-004: the limit on the gradient norm is known, and every step is far above it."""

    rules = ("RUN-GRAD-004",)

    def __init__(self, facts: RunFacts) -> None:
        self.facts = facts
        self.window: deque[float] = deque(maxlen=CUT_STEPS)
        self.opened = False
        self.first: Optional[Metric] = None

    def feed(self, metric: Metric) -> Sequence[Alarm]:
        limit, norm = self.facts.clip_norm, metric.grad_norm
        if limit is None or limit <= 0 or norm is None or self.opened or not math.isfinite(norm):
            return QUIET
        if norm <= CUT * limit:
            self.window.clear()
            self.first = None
            return QUIET
        self.first = self.first or metric
        self.window.append(norm)
        if len(self.window) < CUT_STEPS:
            return QUIET
        self.opened = True
        middle = median(list(self.window))
        return (
            Alarm(
                "opened",
                self.rules[0],
                self.first.at,
                (seen(self.first, "grad_norm", f"near {number(limit)}"),),
                (
                    ("step", "?" if self.first.at is None else self.first.at),
                    ("count", CUT_STEPS),
                    ("value", number(middle)),
                    ("limit", number(limit)),
                    ("times", number(middle / limit)),
                ),
            ),
        )
