"""Which learning rate a model bears, measured: the learning rate range test (Smith 2017, arXiv 1506.01186).

In one short run the rate rises by the same factor each step, over five powers of ten. The loss falls until the rate is
more than the model bears; a tenth of the rate at which it was lowest leaves room for a whole run.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

from doctor.supervisor.trial import TrialFailed, trial
from doctor.trainer.config import RunConfig

STEPS = 100
#: with AdamW, no model learns at more
HIGHEST = 0.3
#: share of the rate at which the loss was lowest, and of the whole fall that counts as lowest
ROOM, LOWEST = 0.1, 0.05
#: weight of the newest loss in the mean; the fall that is none, as share of the first loss
_NEWEST, _NO_FALL = 0.2, 0.02


def bearable_rate(config: RunConfig, stop: Callable[[], bool] = lambda: False) -> Optional[float]:
    """The rate to train with instead of that of `config`, or None where the loss falls at none or nothing could be tried."""
    args = replace(
        config.args,
        learning_rate=HIGHEST,
        lr_scheduler="range_test",
        lr_end=0.0,
        warmup_steps=0,
        warmup_ratio=0.0,
        max_steps=STEPS,
    )
    try:
        with tempfile.TemporaryDirectory(prefix="doctor-rates-") as name:
            return of_rows(trial(replace(config, args=args), Path(name), stop))
    except (TrialFailed, OSError):
        return None


def of_rows(rows: Sequence[Mapping[str, Any]]) -> Optional[float]:
    """From the step records of a range test: `ROOM` of the least rate at which the smoothed loss had all but fallen to its
    lowest."""
    smooth: list[tuple[float, float]] = []
    for row in rows:
        loss = float(row["loss"])
        if not math.isfinite(loss):
            break
        before = smooth[-1][1] if smooth else loss
        smooth.append((float(row["lr"]), before + _NEWEST * (loss - before)))
    if not smooth:
        return None
    first, lowest = smooth[0][1], min(loss for _, loss in smooth)
    if first - lowest < _NO_FALL * first:
        return None
    found = next(rate for rate, loss in smooth if loss <= lowest + LOWEST * (first - lowest))
    return float(f"{ROOM * found:.2g}")
