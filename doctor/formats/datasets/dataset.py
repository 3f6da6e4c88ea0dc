"""What a data set says about itself, whatever its format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Optional

from doctor.finding import Text
from doctor.formats.datasets.extremes import Extremes
from doctor.formats.tensor import Problem


@dataclass(frozen=True)
class Column:
    """`dtype` is numpy's name, or string, bytes, list, object; `shape` as the schema states it, -1 for any length."""

    dtype: str
    shape: Optional[tuple[int, ...]] = None


class Row(NamedTuple):
    """One sample: its number in its file, and its values: numpy arrays, numbers, text or plain JSON values."""

    file: Path
    number: int
    values: Mapping[str, Any]


def nothing(count: int) -> Iterator[Row]:
    """No rows."""
    return iter(())


def unseen() -> Mapping[str, Extremes]:
    """No column whose numbers are read as a whole."""
    return {}


@dataclass(frozen=True)
class Dataset:
    """`draw(n)` gives about n rows spread evenly over all files, always the same ones. `rows` is None while unknown;
    `unread` says why values cannot be read when they cannot. `extremes` reads all numbers of the columns that hold
    some, or a stated share of them, where that is cheap."""

    path: Path
    format: str
    files: tuple[Path, ...]
    rows: Optional[int] = None
    columns: Mapping[str, Column] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    draw: Callable[[int], Iterator[Row]] = nothing
    unread: Optional[Text] = None
    #: files that the set itself says belong to it and that are not there
    missing: tuple[str, ...] = ()
    extremes: Callable[[], Mapping[str, Extremes]] = unseen


def spread(total: int, count: int) -> Iterator[int]:
    """`count` numbers below `total`, evenly spread, without repetition; the first and the last among them."""
    if total <= count:
        yield from range(total)
        return
    last = -1
    for index in range(count):
        number = index * (total - 1) // max(count - 1, 1)
        if number != last:
            yield number
            last = number
