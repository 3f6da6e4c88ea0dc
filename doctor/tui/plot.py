"""A line of values as a plot of fixed size: braille dots, or plain characters where the terminal has no braille."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Optional

#: bit of each dot of a braille cell, by column and row
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))

#: values beyond are drawn as this: the difference of two must be a number
LARGEST = 1e150


class Curve:
    """At most `size` points of a series of any length: when it is full, neighbours are merged, so that a run of
    days costs what a run of minutes does. Each point keeps the smallest and largest value of its steps; values that
    are not finite are counted, not drawn."""

    def __init__(self, size: int = 512) -> None:
        self.size = size
        self.stride = 1
        self.points: list[tuple[float, float, float]] = []
        self.last: Optional[float] = None
        self.not_finite = 0
        #: smallest and largest step that was added, finite or not
        self.first, self.end = math.inf, -math.inf
        self._open: list[tuple[float, float]] = []

    def add(self, step: float, value: float) -> None:
        self.last = value
        self.first, self.end = min(self.first, step), max(self.end, step)
        if not math.isfinite(value):
            self.not_finite += 1
            return
        self._open.append((step, min(max(value, -LARGEST), LARGEST)))
        if len(self._open) >= self.stride:
            self._close()

    def add_all(self, step: float, values: Sequence[float]) -> None:
        """Values of the steps up to `step`, of which only the spread is kept."""
        finite = [value for value in values if math.isfinite(value)]
        self.not_finite += len(values) - len(finite)
        if finite:
            self.add(step, min(finite))
            self.add(step, max(finite))
        if values:
            self.first, self.end = min(self.first, step), max(self.end, step)
            self.last = values[-1]

    def _close(self) -> None:
        values = [value for _, value in self._open]
        self.points.append((self._open[-1][0], min(values), max(values)))
        self._open = []
        if len(self.points) > self.size:
            merged = zip(self.points[0::2], self.points[1::2])
            self.points = [(b[0], min(a[1], b[1]), max(a[2], b[2])) for a, b in merged]
            self.stride *= 2


def bounds(points: Iterable[tuple[float, float, float]]) -> tuple[float, float]:
    """Smallest and largest value to draw. One spike does not flatten the rest: the top is cut at the 98th percentile
    when the largest value is more than five times the spread above it."""
    highs = sorted(high for _, _, high in points)
    if not highs:
        return 0.0, 1.0
    low, top = min(low for _, low, _ in points), highs[-1]
    usual = highs[int(0.98 * (len(highs) - 1))]
    if len(highs) >= 50 and top - usual > 5 * max(usual - low, 1e-12):
        top = usual + (usual - low)
    if top <= low:
        top = low + (abs(low) * 0.1 or 1.0)
    return low, top


def draw(curve: Curve, width: int, height: int, braille: bool = True) -> list[str]:
    """`height` lines of `width` cells: the points joined by a line, each with the spread of the steps it stands for."""
    if width < 4 or height < 2 or not curve.points:
        return [""] * max(height, 0)
    low, top = bounds(curve.points)
    columns, rows = (width * 2, height * 4) if braille else (width, height)
    grid = [[0] * width for _ in range(height)]

    def dot(x: int, y: int) -> None:
        if braille:
            grid[y // 4][x // 2] |= _DOTS[x % 2][y % 4]
        else:
            grid[y][x] = 1

    before: Optional[tuple[int, int]] = None
    for step, small, large in curve.points:
        x = column(curve, step, columns)
        upper, lower = _row(large, low, top, rows), _row(small, low, top, rows)
        for y in range(upper, lower + 1):
            dot(x, y)
        here = (x, (upper + lower) // 2)
        if before is not None:
            for cell in _line(before, here):
                dot(*cell)
        before = here
    return ["".join(chr(0x2800 + cell) if braille else "*" if cell else " " for cell in row) for row in grid]


def column(curve: Curve, step: float, columns: int) -> int:
    """Where a step stands in a plot of so many columns; steps without a finite value have their place too."""
    span = max(curve.end - curve.first, 1e-9)
    return min(columns - 1, max(0, round((step - curve.first) / span * (columns - 1))))


def _line(a: tuple[int, int], b: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """The cells between two cells, both included."""
    steps = max(abs(b[0] - a[0]), abs(b[1] - a[1]), 1)
    for n in range(steps + 1):
        yield a[0] + (b[0] - a[0]) * n // steps, a[1] + (b[1] - a[1]) * n // steps


def _row(value: float, low: float, top: float, rows: int) -> int:
    share = (min(max(value, low), top) - low) / (top - low)
    return round((1 - share) * (rows - 1))
