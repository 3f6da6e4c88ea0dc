"""The lowest and the highest number of a column over all rows that could be read, and where they stand.

Samples that are drawn miss one bad token in ten thousand; a pass over the numbers alone is cheap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Optional


class Seen(NamedTuple):
    """A number and the row (counted from 0) of the file that holds it."""

    file: Path
    row: int
    value: int


class Extremes(NamedTuple):
    """`share` is the part of the column that was read, 1.0 for all of it."""

    lowest: Seen
    highest: Seen
    share: float = 1.0


def widened(one: Optional[Extremes], other: Extremes) -> Extremes:
    """Both together; of equal numbers the first stays. `share` is the smaller one."""
    if one is None:
        return other
    return Extremes(
        other.lowest if other.lowest.value < one.lowest.value else one.lowest,
        other.highest if other.highest.value > one.highest.value else one.highest,
        min(one.share, other.share),
    )


def of_row(file: Path, row: int, values: Mapping[str, Any]) -> Iterable[tuple[str, Extremes]]:
    """Of the columns of a JSON object that are lists of whole numbers."""
    for name, items in values.items():
        if not isinstance(items, list) or not items or type(items[0]) is not int:
            continue
        try:
            low, high = min(items), max(items)
        except TypeError:
            continue
        if isinstance(low, int) and isinstance(high, int):
            yield name, Extremes(Seen(file, row, low), Seen(file, row, high))
