"""The learning rate of each update: warm-up, then cosine, linear or constant; or rising, to find what a model bears."""

from __future__ import annotations

import math
from dataclasses import dataclass

#: `range_test` begins at this share of the rate that it ends with
LOWEST = 1e-5


@dataclass(frozen=True)
class Schedule:
    """`at(update)` counts updates from 0 and starts the warm-up at rate 0, as Hugging Face and MindFormers do.
    `range_test` (Smith 2017) rises by the same factor each update, from `LOWEST` of the peak to the peak."""

    kind: str
    peak: float
    end: float
    warmup: int
    total: int

    def at(self, update: int) -> float:
        if self.kind == "range_test":
            return float(self.peak * LOWEST ** (1 - (update + 1) / self.total))
        if update < self.warmup:
            return self.peak * update / self.warmup
        if self.kind == "constant":
            return self.peak
        span = max(1, self.total - self.warmup)
        done = min(1.0, (update - self.warmup) / span)
        rest = 0.5 * (1 + math.cos(math.pi * done)) if self.kind == "cosine" else 1 - done
        return self.end + (self.peak - self.end) * rest
