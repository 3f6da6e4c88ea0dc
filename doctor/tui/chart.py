"""A curve with its axes, and the findings marked where they began."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text as Styled

from doctor.tui.plot import Curve, bounds, column, draw

#: cells of the scale on the left
SCALE = 9
LINE = "bold cyan"


@dataclass(frozen=True)
class Marker:
    """A finding on the plot: the step it began at, its id, and the style of its severity."""

    step: float
    label: str
    style: str


def chart(curve: Curve, width: int, height: int, braille: bool = True, markers: Sequence[Marker] = ()) -> Styled:
    """`height` lines of `width` cells at most: scale, plot, and below it the steps from first to last."""
    inner, rows = width - SCALE, height - 1
    if inner < 10 or rows < 2:
        return Styled("\n".join(draw(curve, width, height, braille)))
    if not curve.points:
        return Styled("")
    grid = [[(cell, LINE) for cell in line.ljust(inner)] for line in draw(curve, inner, rows, braille)]
    axis = [("─" if braille else "-", "dim")] * inner
    for number, marker in enumerate(markers):
        _put_marker(grid, axis, marker, column(curve, marker.step, inner), number, braille)
    low, top = bounds(curve.points)
    text = Styled(no_wrap=True)
    for number, row in enumerate(grid):
        value = top - (top - low) * number / max(rows - 1, 1)
        label = _short(value) if number in (0, rows // 2, rows - 1) else ""
        text.append(f"{label:>{SCALE - 2}} ", "dim")
        text.append("┤" if label and braille else "│" if braille else "|", "dim")
        _append(text, row)
        text.append("\n")
    text.append(f"{'step':>{SCALE - 2}} " + ("╰" if braille else "+"), "dim")
    _append(text, _with_steps(axis, curve))
    return text


def _append(text: Styled, row: Sequence[tuple[str, str]]) -> None:
    for cell, style in row:
        text.append(cell, style)


def _put_marker(
    grid: list[list[tuple[str, str]]],
    axis: list[tuple[str, str]],
    marker: Marker,
    x: int,
    number: int,
    braille: bool,
) -> None:
    """A column of bars through what is empty, and the id beside it; ids of neighbours stand on rows of their own."""
    for row in grid:
        if row[x][0] in " \u2800":
            row[x] = ("┊" if braille else "|", marker.style)
    axis[x] = ("▲" if braille else "^", marker.style)
    row = grid[number % len(grid)]
    label = f" {marker.label} "
    start = x + 1 if x + 1 + len(label) <= len(row) else x - len(label)
    if start >= 0 and all(cell in " \u2800" for cell, _ in row[start : start + len(label)]):
        row[start : start + len(label)] = [(char, marker.style) for char in label]


def _with_steps(axis: list[tuple[str, str]], curve: Curve) -> list[tuple[str, str]]:
    """The first and the last step, written into the axis where no marker stands."""
    first, last = f" {curve.first:.0f} ", f" {curve.end:.0f}"
    for start, label in ((1, first), (len(axis) - len(last), last)):
        if start >= 0 and all(style == "dim" for _, style in axis[start : start + len(label)]):
            axis[start : start + len(label)] = [(char, "dim") for char in label]
    return axis


def _short(value: float) -> str:
    """A value in at most seven cells."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    text = f"{value:.4g}"
    return text if len(text) <= 7 else f"{value:.1e}"
