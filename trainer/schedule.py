"""The learning rate of each update: warm-up, then cosine, linear or constant."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """`at(update)` counts updates from 0 and starts the warm-up at rate 0, as Hugging Face and MindFormers do."""

    kind: str
    peak: float
    end: float
    warmup: int
    total: int

    def at(self, update: int) -> float:
        if update < self.warmup:
            return self.peak * update / self.warmup
        if self.kind == "constant":
            return self.peak
        span = max(1, self.total - self.warmup)
        done = min(1.0, (update - self.warmup) / span)
        rest = 0.5 * (1 + math.cos(math.pi * done)) if self.kind == "cosine" else 1 - done
        return self.end + (self.peak - self.end) * rest
