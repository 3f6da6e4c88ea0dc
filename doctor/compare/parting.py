"""Where two curves part: the first point from which they differ by more than their noise, at equal progress.

Two runs with the same seed and data print the same digits until something differs; two runs with other data differ by
noise from the first step on. Both are measured on the difference of the curves: its noise is that of the numbers that do
not cancel out, its lasting mean is what sets the runs apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

import numpy as np

from doctor.session.history import Points

#: two numbers that agree this well are the same one, printed or summed in another way
EQUAL = 2e-6
#: a lasting difference: its mean over a window in standard errors, and as a share of the level
SIGMAS, SHARE = 4.0, 0.01
#: points of a window: a twentieth of the curve, within these
FEWEST, MOST = 5, 100
#: share of the windows behind the point that must differ too
LASTING = 0.8
#: a median absolute difference of neighbours times this is the standard deviation of the noise of one
_NEIGHBOURS = 1.4826 / 1.4142135623730951


@dataclass(frozen=True)
class Parting:
    """`unit` is "step" or "tokens". `same_until` is the last point up to which all values are equal, `at` the point from
    which on the curves differ by more than noise; None: there is none. `a` and `b` are the means over the last window of
    what both have, `up_to` where that ends, `window` its points, and `apart` whether they differ there by more than noise."""

    unit: str
    points: int
    same_until: Optional[int]
    first_difference: Optional[int]
    at: Optional[int]
    up_to: int
    a: float
    b: float
    window: int
    noise: float
    apart: bool

    @property
    def identical(self) -> bool:
        return self.first_difference is None

    def to_dict(self) -> dict[str, Any]:
        return {
            "unit": self.unit,
            "points": self.points,
            "equal_until": self.same_until,
            "first_difference": self.first_difference,
            "parts_at": self.at,
            "up_to": self.up_to,
            "a": self.a,
            "b": self.b,
            "window": self.window,
            "noise": self.noise,
            "apart": self.apart,
        }


def parting(a: Points, b: Points, tokens: Optional[tuple[int, int]] = None) -> Optional[Parting]:
    """`tokens` of a step of each, where they differ: progress is counted in tokens then. None when the curves have fewer
    than three points in common."""
    unit = "tokens" if tokens is not None and tokens[0] != tokens[1] else "step"
    scale = (float(tokens[0]), float(tokens[1])) if unit == "tokens" and tokens is not None else (1.0, 1.0)
    width = max(a.stride * scale[0], b.stride * scale[1])
    if unit == "step":
        width = float(max(a.stride, b.stride, _spacing(a), _spacing(b)))
    left, right = _binned(a, scale[0], width), _binned(b, scale[1], width)
    shared, at_left, at_right = np.intersect1d(left[0], right[0], assume_unique=True, return_indices=True)
    if len(shared) < 3:
        return None
    return _parted(unit, left[1][at_left], left[2][at_left], right[2][at_right])


def _spacing(points: Points) -> int:
    """Steps between two records of a log that prints each Nth one."""
    return int(np.median(np.diff(points.steps))) if len(points) > 1 else 1


def _binned(points: Points, scale: float, width: float) -> tuple[Any, Any, Any]:
    """Bins of equal progress, the progress of the first point of each, and the means."""
    progress = points.steps.astype(np.float64) * scale
    bins = np.ceil(progress / width - 1e-9).astype(np.int64)
    starts = np.flatnonzero(np.concatenate([[True], bins[1:] != bins[:-1]]))
    counts = np.diff(np.concatenate([starts, [len(bins)]]))
    return bins[starts], progress[starts], np.add.reduceat(points.mean, starts) / counts


def _parted(unit: str, progress: Any, a: Any, b: Any) -> Parting:
    count = len(progress)
    window = int(min(MOST, max(FEWEST, count // 20), count))
    difference = b - a
    level = np.maximum(np.abs(a), np.abs(b))
    differs = np.abs(difference) > EQUAL * np.maximum(level, 1e-12)
    first = int(np.flatnonzero(differs)[0]) if differs.any() else None
    tail = difference[first:] if first is not None else difference
    sigma = float(np.median(np.abs(np.diff(tail)))) * _NEIGHBOURS if len(tail) > 2 else 0.0
    means = _running(difference, window)
    levels = _running(level, window)
    limit = np.maximum(SIGMAS * sigma / window**0.5, SHARE * levels)
    beyond = (np.abs(means) > limit) & (np.abs(means) > EQUAL * levels)
    at = _onset(beyond, difference, first)
    return Parting(
        unit,
        count,
        int(progress[first - 1]) if first else None,
        int(progress[first]) if first is not None else None,
        int(progress[at]) if at is not None else None,
        int(progress[-1]),
        float(a[-window:].mean()),
        float(b[-window:].mean()),
        window,
        sigma,
        bool(beyond[-1]),
    )


def _running(values: Any, window: int) -> Any:
    """Means of all windows of so many values that follow one another."""
    sums = np.cumsum(np.concatenate([[0.0], values]))
    return (sums[window:] - sums[:-window]) / window


def _onset(beyond: Any, difference: Any, first: Optional[int]) -> Optional[int]:
    """The point at which a difference begins that lasts: of the first window after which most differ, the first value that
    has the sign of the window and is followed by none of the other."""
    if first is None or not beyond.any():
        return None
    behind = np.cumsum(beyond[::-1])[::-1] / np.arange(len(beyond), 0, -1)
    lasting = np.flatnonzero(beyond & (behind >= LASTING))
    if not len(lasting):
        return None
    begin = int(lasting[0])
    window = len(difference) - len(beyond) + 1
    part = difference[begin : begin + window]
    sign = np.sign(part.mean())
    against = np.flatnonzero(np.sign(part) != sign)
    within = int(against[-1]) + 1 if len(against) else 0
    return max(first, begin + min(within, window - 1))
