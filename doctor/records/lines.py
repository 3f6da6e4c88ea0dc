"""Where lines end in large blocks of bytes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from doctor.records.columns import Ints

#: bytes that are looked at together: they stay in the cache
_PART = 1 << 17
#: in less than this numpy gains nothing
_LARGE = 1 << 14


def by_numpy(size: int) -> bool:
    """Whether so many bytes are for numpy, which is five times as fast but takes longer than most reads to be imported:
    large ones are, where someone else has imported it."""
    return size >= _LARGE and "numpy" in sys.modules


def count_lines(data: bytes, start: int = 0, end: Optional[int] = None) -> int:
    """How many lines end in ``data[start:end]``."""
    size = (len(data) if end is None else end) - start
    if not by_numpy(size):
        return data.count(b"\n", start, end)
    import numpy

    text = numpy.frombuffer(data, dtype=numpy.uint8, count=size, offset=start)
    parts = (text[at : at + _PART] for at in range(0, size, _PART))
    return sum(int(numpy.count_nonzero(part == 10)) for part in parts)


def line_ends(data: bytes) -> Ints:
    """The places of all newlines."""
    import numpy

    text = numpy.frombuffer(data, dtype=numpy.uint8)
    found = [numpy.flatnonzero(text[at : at + _PART] == 10) + at for at in range(0, len(data), _PART)]
    ends: Ints = numpy.concatenate(found) if found else numpy.zeros(0, dtype=numpy.int64)
    return ends
