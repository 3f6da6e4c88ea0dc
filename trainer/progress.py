"""Where a run stands, in values that a checkpoint can hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from doctor.finding import plain


@dataclass
class Progress:
    """Where the run stands. `step` counts batches taken, `updates` those applied (an overflow step is not)."""

    step: int = 0
    updates: int = 0
    epoch: int = 0
    batch: int = 0
    best_loss: Optional[float] = None
    best_step: Optional[int] = None

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> Progress:
        return cls(**{key: state[key] for key in vars(cls()) if key in state})


@dataclass
class Mean:
    """A running mean that a checkpoint can hold."""

    total: float = 0.0
    count: int = 0

    def add(self, value: float) -> None:
        self.total += value
        self.count += 1

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else math.nan

    def state(self) -> dict[str, Any]:
        return {"total": plain(self.total), "count": self.count}

    @classmethod
    def of(cls, state: Any) -> Mean:
        return cls(float(state["total"]), int(state["count"]))
