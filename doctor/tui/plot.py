"""A line of values as a plot of fixed size: braille dots, or plain characters where the terminal has no braille."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Optional

#: bit of each dot of a braille cell, by column and row
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))


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
        self._open: list[tuple[float, float]] = []

    def add(self, step: float, value: float) -> None:
        self.last = value
        if not math.isfinite(value):
            self.not_finite += 1
            return
        self._open.append((step, value))
        if len(self._open) >= self.stride:
            self._close()

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


def draw(curve: Curve, width: int, height: int, braille: bool = True, marks: Sequence[float] = ()) -> list[str]:
    """`height` lines of `width` cells. `marks` are steps at which a finding stands: drawn as a column of bars below."""
    if width < 4 or height < 2 or not curve.points:
        return [""] * max(height, 0)
    points = curve.points
    low, top = bounds(points)
    first, last = points[0][0], points[-1][0]
    span = max(last - first, 1e-9)
    columns, rows = (width * 2, height * 4) if braille else (width, height)
    grid = [[0] * width for _ in range(height)]
    previous: Optional[int] = None
    for step, small, large in points:
        x = min(columns - 1, int((step - first) / span * (columns - 1)))
        upper = _row(large, low, top, rows)
        lower = _row(small, low, top, rows)
        if previous is not None:
            lower, upper = max(lower, min(previous, lower + rows)), min(upper, max(previous, upper - rows))
        for y in range(min(upper, lower), max(upper, lower) + 1):
            if braille:
                grid[y // 4][x // 2] |= _DOTS[x % 2][y % 4]
            else:
                grid[y][x] = 1
        previous = _row((small + large) / 2, low, top, rows)
    lines = ["".join(chr(0x2800 + cell) if braille else "*" if cell else " " for cell in row) for row in grid]
    if marks:
        lines[-1] = _marked(lines[-1], marks, first, span, width)
    return lines


def _row(value: float, low: float, top: float, rows: int) -> int:
    share = (min(max(value, low), top) - low) / (top - low)
    return round((1 - share) * (rows - 1))


def _marked(line: str, marks: Sequence[float], first: float, span: float, width: int) -> str:
    cells = list(line.ljust(width))
    for mark in marks:
        x = int((mark - first) / span * (width - 1))
        if 0 <= x < width:
            cells[x] = "^"
    return "".join(cells)
