"""What stands round the message of a log line: colours, carriage returns, the rank that wrote it."""

from __future__ import annotations

import re
from typing import Optional

_ANSI = re.compile(rb"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)|[@-Z\\^_])")
_RANK = re.compile(
    rb"^\W{0,3}(?:rank|Rank|RANK|default|worker|Worker)[ _-]?(\d{1,5})\b"  # [rank3]: [default7]: worker_3:
    rb"|\[(?:Rank|rank|RANK)[ _:]?(\d{1,5})\]"
    rb"|\bRankID[:=] ?(\d{1,5})\b"
    rb"|^\S{0,200}?rank_(\d{1,5})[/.:_-]"  # grep's prefix: rank_3/worker.log:12:
    rb"|^\S{0,200}?worker_(\d{1,5})\.log"
)
#: a line longer than this is looked at in overlapping pieces of this size, so that no expression is slow on it
PIECE = 8192
OVERLAP = 2048


def plain_line(line: bytes) -> bytes:
    """The line without colours, NULs and its line end."""
    if b"\x1b" in line:
        line = _ANSI.sub(b"", line)
    if b"\x00" in line:
        line = line.replace(b"\x00", b"")
    return line.rstrip(b"\r\n")


def pieces(line: bytes) -> list[bytes]:
    """The parts of a plain line to match on: between carriage returns, and overlapping cuts of a very long one."""
    parts = line.split(b"\r") if b"\r" in line else [line]
    if len(line) <= PIECE:
        return parts
    cut: list[bytes] = []
    for part in parts:
        if len(part) <= PIECE:
            cut.append(part)
        else:
            cut.extend(part[start : start + PIECE] for start in range(0, len(part) - OVERLAP, PIECE - OVERLAP))
    return cut


def rank_of(line: bytes, default: Optional[int] = None) -> Optional[int]:
    """The rank that a line says it comes from, else `default`."""
    found = _RANK.search(line[:400])
    if found is None:
        return default
    return int(next(group for group in found.groups() if group is not None))
