"""Robust statistics over short windows: medians, and noise that a trend does not widen."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import mul, sub

#: a median absolute deviation times this is the standard deviation of a normal distribution
MAD_TO_SIGMA = 1.4826


def median(values: Sequence[float]) -> float:
    """Raises IndexError on an empty window."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return 0.5 * (ordered[middle - 1] + ordered[middle])


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def noise(values: Sequence[float]) -> float:
    """Standard deviation of the noise around a trend, from the median absolute difference of neighbours.

    Two neighbours differ by sqrt(2) sigma; a slope adds next to nothing, and single outliers do not count.
    """
    if len(values) < 3:
        return 0.0
    steps = list(map(abs, map(sub, values[1:], values)))
    return MAD_TO_SIGMA * median(steps) / 1.4142135623730951


def spread(values: Sequence[float]) -> float:
    """The same from the mean absolute difference: surer on short windows, but for windows without outliers only."""
    if len(values) < 3:
        return 0.0
    total: float = sum(map(abs, map(sub, values[1:], values)))
    return 0.8862269254527580 * total / (len(values) - 1)


def rise_of(values: Sequence[float]) -> float:
    """Least-squares slope per step of two values or more."""
    rise: float = sum(map(mul, _weights(len(values)), values))
    return rise


@lru_cache(maxsize=64)
def _weights(count: int) -> tuple[float, ...]:
    """What each of so many values counts in their slope."""
    middle, spread = (count - 1) / 2, count * (count * count - 1) / 12
    return tuple((index - middle) / spread for index in range(count))


def slope(values: Sequence[float]) -> tuple[float, float]:
    """Least-squares slope per step and its t value; (0, 0) when there are fewer than three points."""
    count = len(values)
    if count < 3:
        return 0.0, 0.0
    middle = (count - 1) / 2
    average = mean(values)
    spread = count * (count * count - 1) / 12
    rise = sum((index - middle) * (value - average) for index, value in enumerate(values)) / spread
    rest = sum((value - average - rise * (index - middle)) ** 2 for index, value in enumerate(values))
    error = (rest / (count - 2) / spread) ** 0.5
    return rise, rise / error if error > 0 else (0.0 if rise == 0 else float("inf") * (1 if rise > 0 else -1))


def alternation(values: Sequence[float]) -> float:
    """Autocorrelation of neighbours after the trend is taken out: -1 is a perfect zigzag, noise is near 0."""
    count = len(values)
    rise, _ = slope(values)
    middle, average = (count - 1) / 2, mean(values)
    rest = [value - average - rise * (index - middle) for index, value in enumerate(values)]
    power = sum(item * item for item in rest)
    return sum(a * b for a, b in zip(rest, rest[1:])) / power if power > 0 else 0.0


def rhythms(values: Sequence[float], longest: int) -> list[float]:
    """For patterns of two to `longest` steps the share of the variance round a line that each explains: 1 is a curve
    that repeats itself, noise of n values is near (p - 1) / (n - 1) for a pattern of p steps."""
    rise, _ = slope(values)
    middle, average = (len(values) - 1) / 2, mean(values)
    rest = [value - average - rise * (index - middle) for index, value in enumerate(values)]
    power = sum(item * item for item in rest)
    if power <= 0:
        return [0.0] * (longest - 1)
    shares = []
    for period in range(2, longest + 1):
        between = 0.0
        for phase in range(period):
            group = rest[phase::period]
            between += sum(group) ** 2 / len(group)
        shares.append(between / power)
    return shares
