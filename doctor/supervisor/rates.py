"""Which learning rate a model bears, measured: the learning rate range test (Smith 2017, arXiv 1506.01186).

In one short run the rate rises by the same factor each step, over five powers of ten. The loss falls until the rate is
more than the model bears; a tenth of the rate at which it was lowest leaves room for a whole run. As that is right to
a factor of some units only, it is then tried as it would be used, and more or less of it until neither ends lower.
"""

from __future__ import annotations

import math
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

from doctor.supervisor.trial import TrialFailed, trial
from doctor.trainer.arguments import TrainingArguments
from doctor.trainer.config import RunConfig

STEPS = 100
#: with AdamW, no model learns at more
HIGHEST = 0.3
#: share of the rate at which the loss was lowest, and of the whole fall that counts as lowest
ROOM, LOWEST = 0.1, 0.05
#: weight of the newest loss in the mean; the fall that is none, as share of the first loss
_NEWEST, _NO_FALL = 0.2, 0.02
#: the factor between two rates that are tried, how many are at most, and what one must gain in loss to be taken
FACTOR, TRIALS, GAIN = 1.8, 5, 0.002


def bearable_rate(config: RunConfig, stop: Callable[[], bool] = lambda: False) -> Optional[float]:
    """The rate to train with instead of that of `config`, or None where the loss falls at none or nothing could be tried."""
    rising = replace(config.args, learning_rate=HIGHEST, lr_scheduler="range_test", warmup_steps=0)
    try:
        with tempfile.TemporaryDirectory(prefix="doctor-rates-") as name:

            def tried(args: TrainingArguments) -> list[dict[str, Any]]:
                short = replace(args, lr_end=0.0, warmup_ratio=0.0, max_steps=STEPS)
                return trial(replace(config, args=short), Path(name), stop)

            def end(rate: float) -> float:
                warmup = min(config.args.warmup_steps, STEPS // 10)
                rows = tried(replace(config.args, learning_rate=rate, warmup_steps=warmup))
                return statistics.fmean(float(row["loss"]) for row in rows[-STEPS // 10 :])

            rate = of_rows(tried(rising))
            return climbed(rate, end) if rate is not None else None
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


def climbed(rate: float, end: Callable[[float], float]) -> float:
    """The rate with the least `end` among neighbours by `FACTOR`, tried upwards first and, where that is no gain at once,
    downwards. A loss that is not a number is no less than anything."""
    best, least, tries = rate, end(rate), 1
    for factor in (FACTOR, 1 / FACTOR):
        while tries < TRIALS:
            found = end(best * factor)
            tries += 1
            if not found < (1 - GAIN) * least:
                break
            best, least = best * factor, found
        if best != rate:
            break
    return float(f"{best:.2g}")
