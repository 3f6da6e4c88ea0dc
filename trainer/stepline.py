"""The step record: one text line in MindFormers 1.8's format, the progress line below it, and one JSON line."""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np

from doctor.finding import plain

_BAR = 50


@dataclass(frozen=True)
class StepRecord:
    """One update. `step` counts within the epoch from 1, `global_step` over all; times in milliseconds.

    `samples` and `tokens` are those of the whole update, `flops` those of its forward and backward.
    """

    time: float
    epoch: int
    epochs: int
    step: int
    steps: int
    global_step: int
    total_steps: int
    loss: float
    mean_loss: float
    lr: float
    grad_norm: float
    overflow: bool
    step_time_ms: float
    data_time_ms: float
    samples: int
    tokens: int
    flops: float
    memory_mb: float
    eta_s: float
    loss_scale: Optional[float] = None
    rank: int = 0

    @property
    def samples_per_s(self) -> float:
        return self.samples / self.step_time_ms * 1000

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.step_time_ms * 1000

    def text(self) -> str:
        """The message of the step line, from its brace on; the closing brace is on `progress`, as in MindFormers."""
        scale = "unavailable" if self.loss_scale is None else repr(float(self.loss_scale))
        teraflops = self.flops / self.step_time_ms / 1e9
        return (
            f"{{ Epoch:[{self.epoch:3d}/{self.epochs:3d}], step:[{self.step:5d}/{self.steps:5d}], "
            f"loss:[{self.loss:5.6f}/{self.mean_loss:5.6f}], per_step_time: {int(self.step_time_ms)}ms, "
            f"lr: {_short(self.lr)}, overflow cond: {self.overflow}, loss_scale: {scale}, "
            f"global_norm: [{_short(self.grad_norm)}], train_throughput_per_npu: {teraflops:.3f}T, "
            f"tokens_per_s: {self.tokens_per_s:.1f}, data_time: {self.data_time_ms:.1f}ms, "
            f"memory: {self.memory_mb:.0f}MB"
        )

    def progress(self) -> str:
        share = self.global_step / self.total_steps
        bar = ("█" * int(share * _BAR)).ljust(_BAR)
        rest = datetime.timedelta(seconds=int(self.eta_s))
        return f"  {share * 100:4.1f}% |{bar}| {self.samples_per_s:.5f} samples/s/p  {rest} }}"

    def event(self, source: str, line: int) -> dict[str, Any]:
        """The metric event of the run folder: values at full precision, absent ones left out."""
        row: dict[str, Any] = {
            "event": "metric",
            "source": source,
            "line": line,
            "rank": self.rank,
            "epoch": self.epoch,
            "step": self.step,
            "global_step": self.global_step,
            "steps": self.steps,
            "epochs": self.epochs,
            "loss": plain(self.loss),
            "lr": plain(self.lr),
            "grad_norm": plain(self.grad_norm),
            "overflow": self.overflow,
            "step_time_ms": round(self.step_time_ms, 3),
            "throughput": round(self.samples_per_s, 5),
            "throughput_unit": "samples/s",
            "data_time_ms": round(self.data_time_ms, 3),
            "tokens_per_s": round(self.tokens_per_s, 1),
            "memory_mb": round(self.memory_mb, 1),
            "time": round(self.time, 3),
        }
        if self.loss_scale is not None:
            row["loss_scale"] = plain(self.loss_scale)
        return row


def json_line(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"


def stamp(seconds: float) -> str:
    """Local time as Python's logging writes it: 2026-03-14 09:26:54,000."""
    moment = datetime.datetime.fromtimestamp(seconds)
    return f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03d}"


def _short(value: float) -> str:
    """As a float32 prints: nan, inf, 1e-05, 0.00020000001."""
    return str(np.float32(value))
