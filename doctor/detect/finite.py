"""Losses and gradient norms that are not numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Optional

from doctor.detect.alarm import QUIET, Alarm, Detector, number, seen
from doctor.finding import Severity, Text
from doctor.records.record import Metric

#: finite losses in a row after which the run has recovered
RECOVERED = 3
#: steps in a row without a finite gradient norm, and without a word of overflow, that are worth a warning
BAD_NORMS = 3


class LossNotFinite(Detector):
    """Opens at the first loss that is nan or inf. While a loss scaler still searches for its scale, one such
    step that it skips is normal; the second in a row is not."""

    rules = ("RUN-NAN-001",)

    def __init__(self) -> None:
        self.last: Optional[Metric] = None
        self.waiting: Optional[Metric] = None
        self.first: Optional[Metric] = None
        self.finite = 0

    def feed(self, metric: Metric) -> Sequence[Alarm]:
        loss = metric.loss
        if loss is None or metric.evaluation:
            return QUIET
        if math.isfinite(loss):
            self.waiting = None
            if self.first is None:
                self.last = metric
                return QUIET
            self.finite += 1
            if self.finite < RECOVERED:
                return QUIET
            alarm = self._alarm("resolved", self.first, Severity.INFO)
            self.first, self.last = None, metric
            return (alarm,)
        self.finite = 0
        if self.first is not None:
            return QUIET
        searching = metric.overflow and (metric.loss_scale or 0) > 1
        if searching and self.waiting is None:
            self.waiting = metric
            return QUIET
        self.first = self.waiting or metric
        return (self._alarm("opened", self.first, None),)

    def end(self) -> Sequence[Alarm]:
        if self.waiting is not None and self.first is None:
            self.first = self.waiting
            return (self._alarm("opened", self.waiting, None),)
        return QUIET

    def _alarm(self, kind: str, first: Metric, severity: Optional[Severity]) -> Alarm:
        evidence = [seen(first, "loss", "a finite number")]
        before = "?"
        if self.last is not None:
            evidence.append(seen(self.last, "loss"))
            before = number(self.last.loss)
        value = str(first.loss)
        return Alarm(
            kind,
            "RUN-NAN-001",
            first.at,
            tuple(evidence),
            (
                ("value", value),
                ("step", "?" if first.at is None else first.at),
                ("before", before),
                ("circumstances", self._circumstances(first)),
            ),
            severity,
        )

    def _circumstances(self, first: Metric) -> Text:
        """What stood beside it: the rate, the loss scale, the norm before."""
        en, zh = [], []
        if first.lr is not None:
            en.append(f"learning rate {number(first.lr)}")
            zh.append(f"学习率 {number(first.lr)}")
        if first.loss_scale is not None:
            en.append(f"loss scale {number(first.loss_scale)}")
            zh.append(f"loss scale {number(first.loss_scale)}")
        norm = self.last.grad_norm if self.last is not None else None
        if norm is not None:
            en.append(f"gradient norm {number(norm)} one step earlier")
            zh.append(f"前一步梯度范数 {number(norm)}")
        if not en:
            return Text("", "")
        return Text(f"Then: {', '.join(en)}.", f"当时{'，'.join(zh)}。")


class NormNotFinite(Detector):
    """Gradient norms that are nan or inf while the loss is a number and no overflow is reported: in FP32 or BF16
    nothing skips such a step, and the weights are lost with it. ``grad_norm: NaN`` from the first step on
    only means that this rank does not know the norm."""

    rules = ("RUN-NAN-003",)

    def __init__(self) -> None:
        self.known = False
        self.bad: list[Metric] = []
        self.opened: Optional[Metric] = None

    def feed(self, metric: Metric) -> Sequence[Alarm]:
        norm = metric.grad_norm
        if norm is None or metric.loss is None or not math.isfinite(metric.loss):
            return QUIET
        if math.isfinite(norm):
            self.known = True
            self.bad.clear()
            if self.opened is None:
                return QUIET
            alarm = self._alarm("resolved", self.opened, Severity.INFO)
            self.opened = None
            return (alarm,)
        if not self.known or metric.overflow or self.opened is not None:
            return QUIET
        self.bad.append(metric)
        if len(self.bad) < BAD_NORMS:
            return QUIET
        self.opened = self.bad[0]
        self.bad.clear()
        return (self._alarm("opened", self.opened, None),)

    def _alarm(self, kind: str, first: Metric, severity: Optional[Severity]) -> Alarm:
        values = (("step", "?" if first.at is None else first.at), ("value", str(first.grad_norm)))
        return Alarm(kind, "RUN-NAN-003", first.at, (seen(first, "grad_norm", "a finite number"),), values, severity)
