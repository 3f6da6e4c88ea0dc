"""Which lines of a log a bundle keeps: its beginning, its end, what lies round each line that a finding or a rule points to,
and as many step lines as there is room for. The rest is named, not kept."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Optional

from doctor.bundled import Piece
from doctor.finding import Finding
from doctor.match.pack import Pack
from doctor.match.scan import Scanner
from doctor.records.metrics import MetricReader
from doctor.records.record import Chunk, Metric
from doctor.session.lifecycle import with_marks


class Level(NamedTuple):
    """How much is kept: lines of the beginning and the end, lines round one that a finding points to, lines round one that a
    rule knows, and lines of each rule in a log. None: everything."""

    ends: Optional[int]
    round_findings: int = 0
    round_hits: int = 0
    of_each: int = 0
    #: keep all step lines
    steps: bool = False


#: from everything to next to nothing
LEVELS = (
    Level(None),
    Level(400, 400, 6, 200, steps=True),
    Level(40_000, 40_000, 6, 200),
    Level(15_000, 12_000, 6, 200),
    Level(5000, 4000, 6, 100),
    Level(2000, 1500, 6, 100),
    Level(800, 600, 4, 40),
    Level(300, 250, 3, 20),
    Level(120, 100, 2, 8),
    Level(50, 40, 2, 4),
    Level(20, 15, 1, 2),
)


@dataclass
class Seen:
    """What was seen in one log: how many lines and bytes, and which lines hold what. Line numbers count from 1."""

    lines: int = 0
    size: int = 0
    #: rule -> lines; marks of the life of a run are rules too
    hits: dict[str, list[int]] = field(default_factory=dict)
    #: (first line, last line) of step records that follow one another
    steps: list[tuple[int, int]] = field(default_factory=list)
    pointed: list[int] = field(default_factory=list)


def look(chunks: Iterable[Chunk], pack: Pack, findings: Sequence[Finding], source: str) -> Seen:
    """Reads a log once."""
    seen = Seen()
    scanner, reader = Scanner(with_marks(pack)), MetricReader()
    for chunk in chunks:
        for hit in scanner.scan(chunk):
            seen.hits.setdefault(hit.rule, []).append(hit.line)
        for item in reader.blocks(chunk):
            first, last = (
                (item.line, item.line) if isinstance(item, Metric) else (int(item.lines[0]), int(item.lines[-1]))
            )
            if seen.steps and first <= seen.steps[-1][1] + 3:
                seen.steps[-1] = (seen.steps[-1][0], last)
            else:
                seen.steps.append((first, last))
        data = chunk.data
        seen.lines = chunk.first_line + data.count(b"\n") - (1 if data.endswith(b"\n") else 0)
        seen.size = chunk.offset + len(data)
    for hit in scanner.finish():
        seen.hits.setdefault(hit.rule, []).append(hit.line)
    seen.pointed = sorted(
        {
            item.line
            for finding in findings
            for item in finding.evidence
            if item.source == source and item.line is not None
        }
    )
    return seen


def ranges(seen: Seen, level: Level) -> list[tuple[int, int]]:
    """First and last lines of what is kept, in order and apart."""
    last = max(1, seen.lines)
    if level.ends is None:
        return [(1, last)]
    found = [(1, level.ends), (last - level.ends + 1, last)]
    for line in seen.pointed:
        found.append((line - level.round_findings, line + level.round_findings))
    for lines in seen.hits.values():
        half = max(1, level.of_each // 2)
        for line in (*lines[:half], *lines[half:][-half:]):
            found.append((line - level.round_hits, line + level.round_hits))
    if level.steps:
        found += seen.steps
    return _merged([(max(1, first), min(last, end)) for first, end in found if first <= last and end >= 1])


def _merged(found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for first, last in sorted(found):
        if out and first <= out[-1][1] + 2:  # a gap of one line costs more to name than to keep
            out[-1] = (out[-1][0], max(out[-1][1], last))
        else:
            out.append((first, last))
    return out


def extract(
    chunks: Iterable[Chunk], kept: Sequence[tuple[int, int]], cover: Callable[[bytes], bytes]
) -> tuple[bytes, Optional[list[Piece]]]:
    """The kept lines as they stand in the bundle's file, a note where some are left out, and the pieces; None when the file
    is whole."""
    body: list[bytes] = []
    pieces: list[Piece] = []
    size, next_line, whole = 0, 1, True
    for line, offset, data in _runs(chunks, kept):
        joins = bool(pieces) and offset == pieces[-1].offset + pieces[-1].size
        if not joins and offset > (pieces[-1].offset + pieces[-1].size if pieces else 0):
            whole = False
            note = f"[doctor bundle: lines {next_line} to {line - 1} are left out]\n".encode()
            body.append(note)
            size += len(note)
        covered = cover(data)
        body.append(covered)
        if joins:
            pieces[-1] = pieces[-1]._replace(size=pieces[-1].size + len(covered))
        else:
            pieces.append(Piece(line, offset, size, len(covered)))
        size += len(covered)
        next_line = line + data.count(b"\n")
    return b"".join(body), None if whole else pieces


def _runs(chunks: Iterable[Chunk], kept: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, bytes]]:
    """Line, offset and bytes of the kept parts of each chunk."""
    firsts = [first for first, _ in kept]
    for chunk in chunks:
        data, line, ends = chunk.data, chunk.first_line, chunk.ends
        last = line + len(ends) - (1 if data.endswith(b"\n") else 0)
        at = max(0, bisect_right(firsts, line) - 1)
        while at < len(kept) and kept[at][0] <= last:
            first, end = max(kept[at][0], line), min(kept[at][1], last)
            at += 1
            if end < first:
                continue
            begin = int(ends[first - line - 1]) + 1 if first > line else 0
            stop = int(ends[end - line]) + 1 if end - line < len(ends) else len(data)
            if stop > begin:
                yield first, chunk.offset + begin, data[begin:stop]
