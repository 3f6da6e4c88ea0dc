"""The lines around a place in a file, however large the file is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Optional

from doctor.escape import decode, visible
from doctor.finding import Evidence

BLOCK = 1 << 20
#: bytes read on either side of a place whose offset is known
AROUND = 1 << 16
#: bytes read at most to find a line by its number
MOST = 256 << 20
LINE = 400


class Line(NamedTuple):
    """`number` counts from 1, None where only the offset was known; `marked` is the line that was asked for."""

    number: Optional[int]
    text: str
    marked: bool


def excerpt(item: Evidence, before: int = 100, after: int = 100) -> list[Line]:
    """The lines around the evidence. Empty where there is no such line. Raises OSError when the file has gone."""
    path = Path(item.source)
    if item.offset is not None:
        return _at_offset(path, item.offset, item.line, before, after)
    if item.line is not None:
        return _at_line(path, item.line, before, after)
    return []


def _at_offset(path: Path, offset: int, number: Optional[int], before: int, after: int) -> list[Line]:
    start = max(0, offset - AROUND)
    with path.open("rb") as stream:
        stream.seek(start)
        head = stream.read(offset - start).split(b"\n")
        tail = stream.read(AROUND).split(b"\n")
    # the offset may point into its line: what stands before it on that line belongs to it
    above, here = head[:-1], head[-1] + tail[0]
    if start:
        above = above[1:]
    lines = [*above[-before:], here, *tail[1 : after + 1]]
    marked = min(len(above), before)
    return [
        Line(None if number is None else number + n - marked, _shown(raw), n == marked) for n, raw in enumerate(lines)
    ]


def _at_line(path: Path, number: int, before: int, after: int) -> list[Line]:
    first, last = max(1, number - before), number + after
    rows = []
    for at, raw in enumerate(_lines(path), 1):
        if at > last:
            break
        if at >= first:
            rows.append(Line(at, _shown(raw), at == number))
    return rows if any(row.marked for row in rows) else []


def _lines(path: Path) -> Iterator[bytes]:
    """Lines of the first `MOST` bytes; a line longer than a block comes in parts only as far as memory is bounded."""
    done = 0
    with path.open("rb") as stream:
        while done < MOST:
            raw = stream.readline(BLOCK)
            if not raw:
                return
            done += len(raw)
            whole = raw
            while not whole.endswith(b"\n") and len(whole) == BLOCK:
                rest = stream.readline(BLOCK)
                done += len(rest)
                if not rest or rest.endswith(b"\n") or done >= MOST:
                    break
            yield raw.rstrip(b"\n")


def _shown(raw: bytes) -> str:
    return visible(decode(raw[: LINE * 4].rstrip(b"\r")), LINE).replace("\\t", "    ")
