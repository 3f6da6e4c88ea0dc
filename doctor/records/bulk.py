"""A chunk that is mostly step lines of known makes, read in columns; what is left of it goes line by line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Optional

import numpy as np

from doctor.records.block import MetricBlock
from doctor.records.columns import Bools, Floats, Ints, Text, differences, numbers, read_holes
from doctor.records.layout import LONGEST, Layout, learn_layout
from doctor.records.reading import Fields
from doctor.records.record import Chunk
from doctor.records.stream import FEWEST, Stream
from doctor.records.template import Columns, Hole, Template

#: another line is looked at when one of these is in it (its place in them is that of a rare byte)
WORDS = ((b"oss", 1), (b"step time", 3))
#: fewer lines of a make than this are read one by one
_FEW = 8
#: a layout pays from so many lines of a chunk on; below, numbers are followed from one to the next in all lines at once
_PAYS = 96
#: new layouts that are learnt from one chunk, and those of one make and length that are kept
_MOST_NEW, _MOST_LAYOUTS = 12, 4
_ZEROS = bytes.maketrans(b"123456789", b"000000000")

#: whether a pattern of some rule can match lines of a shape (a line with its digits as zeros)
MayMatch = Callable[[bytes], bool]


class _Lines(NamedTuple):
    """The lines of a chunk: where each begins and ends (without its line end), and which end in a carriage return."""

    text: Text
    newlines: Ints
    starts: Ints
    ends: Ints
    returns: Bools


class _Read(NamedTuple):
    """Lines that are of one make, and their values."""

    template: Template
    make: Columns
    rows: Ints
    columns: dict[str, Floats]


class Bulk(NamedTuple):
    """The lines `taken` have records, in `reads`; the lines `passed`, all of them taken, need not be looked at by anyone
    else: no pattern can match them."""

    chunk: Chunk
    lines: _Lines
    reads: list[_Read]
    taken: Bools
    passed: Bools

    def rest(self) -> tuple[bytes, Callable[[Sequence[int]], list[int]]]:
        """What was not passed, and how places in it become places in the chunk."""
        if not self.passed.any():
            return self.chunk.data, list
        edges = np.flatnonzero(np.diff(np.concatenate([[True], self.passed, [True]])))
        firsts, behind = edges[0::2], edges[1::2]
        begins = self.lines.starts[firsts]
        ends = self.lines.newlines[behind - 1] + 1
        data = self.chunk.data
        rest = b"".join([data[begin:end] for begin, end in zip(begins.tolist(), ends.tolist())])
        before = np.concatenate([[0], np.cumsum(ends - begins)])

        def place(places: Sequence[int]) -> list[int]:
            at = np.asarray(places, dtype=np.int64)
            run = np.searchsorted(before, at, side="right") - 1
            return list((at - before[run] + begins[run]).tolist()) if len(at) else []

        return rest, place

    def block(self, stream: Stream, alone: bool) -> Optional[MetricBlock]:
        """The records as a block, and `stream` as it is after them. `alone`: no other line may hold a record. None, and
        `stream` as it was, when the lines must be read one by one."""
        return _block(self.chunk, self.lines, self.reads, stream, alone)

    def others(self, places: Sequence[int]) -> list[tuple[int, int]]:
        """The lines (start and end) that hold these places, and that were not taken."""
        rows = np.unique(np.searchsorted(self.lines.newlines, np.asarray(places, dtype=np.int64)))
        rows = rows[~self.taken[rows]]
        return list(zip(self.lines.starts[rows].tolist(), self.lines.ends[rows].tolist()))

    def with_words(self, label: bytes, pick: int) -> list[tuple[int, int]]:
        """The lines that were not taken in which one of WORDS stands, or the label of a make."""
        at = self.lines.text.find(label, pick)
        found: list[int] = at.tolist() if len(at) != sum(len(read.rows) for read in self.reads) else []
        for word, pick in WORDS:
            at = self.lines.text.find(word, pick, pair=True)
            if len(at) != sum(read.make.example.count(word) * len(read.rows) for read in self.reads):
                found.extend(at.tolist())
        return self.others(found)


def read_bulk(chunk: Chunk, stream: Stream, text: Text, may_match: Optional[MayMatch] = None) -> Optional[Bulk]:
    """`text` is room to work in. None when the chunk is better read line by line. `stream` has not changed yet."""
    main = stream.main
    if main is None or main.columns is None or not chunk.data.endswith(b"\n"):
        return None
    text.hold(chunk.data)
    lines = _lines(text, chunk.ends)
    taken = np.zeros(len(lines.starts), dtype=np.bool_)
    passed = np.zeros(len(lines.starts), dtype=np.bool_)
    reads: list[_Read] = []
    for template in (main, *(known for known in stream.templates if known is not main)):
        found = _reads(lines, template, taken, passed, stream.layouts, may_match)
        reads += found
        if template is main and not found:
            return None
    if not reads or sum(len(read.rows) for read in reads) < FEWEST:
        return None
    return Bulk(chunk, lines, reads, taken, passed)


def _lines(text: Text, newlines: Ints) -> _Lines:
    starts = np.zeros(len(newlines), dtype=np.int64)
    starts[1:] = newlines[:-1] + 1
    returns = text.bytes[newlines - 1] == 13
    return _Lines(text, newlines, starts, newlines - returns, returns)


def _candidates(lines: _Lines, make: Columns, taken: Bools) -> Ints:
    """Lines that are not taken and have the label of a make where its lines have it."""
    rows = np.flatnonzero((lines.ends - lines.starts > len(make.prefix) + len(make.label)) & ~taken)
    return rows[lines.text.equal(lines.starts[rows] + len(make.prefix), make.label)]


def _reads(
    lines: _Lines,
    template: Template,
    taken: Bools,
    passed: Bools,
    layouts: dict[tuple[Template, int], list[Layout]],
    may_match: Optional[MayMatch],
) -> list[_Read]:
    """The lines of a make."""
    if template.columns is None:
        return []
    rows = _candidates(lines, template.columns, taken)
    reads = _by_layout(lines, template, rows, taken, passed, layouts, may_match)
    return reads + _by_holes(lines, template.columns, template, rows[~taken[rows]], taken)


def _by_layout(
    lines: _Lines,
    template: Template,
    rows: Ints,
    taken: Bools,
    passed: Bools,
    layouts: dict[tuple[Template, int], list[Layout]],
    may_match: Optional[MayMatch],
) -> list[_Read]:
    """Those of `rows` that come in layouts, those of one length together."""
    lengths = lines.ends[rows] - lines.starts[rows]
    order = np.argsort(lengths, kind="stable")
    rows, lengths = rows[order], lengths[order]
    edges = np.flatnonzero(np.diff(lengths, prepend=-1, append=-1)).tolist()
    reads: list[_Read] = []
    budget = _MOST_NEW
    for first, end in zip(edges, edges[1:]):
        length = int(lengths[first])
        if end - first < _PAYS or length > LONGEST:
            continue
        left = rows[first:end]
        known = layouts.setdefault((template, length), [])
        for layout in list(known):
            size = len(left)
            if size >= _PAYS:
                left = _take(lines, layout, left, reads, taken, passed)
                if size - len(left) < _PAYS // 2:
                    known.remove(layout)
        while len(left) >= _PAYS and budget > 0 and len(known) < _MOST_LAYOUTS:
            budget -= 1
            new = _learn(lines, template, int(left[len(left) // 2]), may_match)
            if new is None:
                break
            size = len(left)
            left = _take(lines, new, left, reads, taken, passed)
            if size - len(left) < _PAYS // 2:
                break
            known.append(new)
    return reads


def _learn(lines: _Lines, template: Template, row: int, may_match: Optional[MayMatch]) -> Optional[Layout]:
    line = lines.text.bytes[lines.starts[row] : lines.ends[row]].tobytes()
    plain = b"\x1b" not in line and b"\0" not in line
    passes = may_match is not None and plain and not may_match(line.translate(_ZEROS))
    return learn_layout(template, line, passes)


def _take(lines: _Lines, layout: Layout, rows: Ints, reads: list[_Read], taken: Bools, passed: Bools) -> Ints:
    """Reads those of `rows` that are of the layout; gives the others."""
    good, columns = layout.read(lines.text, lines.starts[rows])
    if not columns:
        return rows
    whole = good.all()
    mine = rows if whole else rows[good]
    taken[mine] = True
    passed[mine] = layout.passes
    make = layout.template.columns
    assert make is not None
    _add_constants(layout.template, columns, len(mine))
    reads.append(_Read(layout.template, make, mine, columns))
    return rows[:0] if whole else rows[~good]


def _by_holes(lines: _Lines, make: Columns, template: Template, rows: Ints, taken: Bools) -> list[_Read]:
    """The others of `rows`, where a number has as many digits as it has."""
    if len(rows) < _FEW:
        return []
    rows = rows[lines.returns[rows] == lines.returns[rows[0]]]
    read = _read(lines, template, make, rows)
    taken[read.rows] = True
    return [read] if len(read.rows) else []


def _read(lines: _Lines, template: Template, make: Columns, rows: Ints) -> _Read:
    """The values of `rows`; those that are not of the make are left out."""
    text = lines.text
    last = make.holes[-1]
    end = last.literal + (b"\r\n" if lines.returns[rows[0]] else b"\n")
    holes = [*make.holes[:-1], Hole(last.field, last.factor, end, end[0])]
    starts = lines.starts[rows]
    columns, good = read_holes(text, starts + len(make.prefix) + len(make.label), holes)
    for place, byte in make.marks:
        good &= text.bytes[starts + place] == byte
    if make.rank_at is not None:
        columns["rank"], found = numbers(text, starts + make.rank_at)
        good &= found
    _add_constants(template, columns, len(rows))
    if good.all():
        return _Read(template, make, rows, columns)
    return _Read(template, make, rows[good], {name: column[good] for name, column in columns.items()})


def _add_constants(template: Template, columns: dict[str, Floats], size: int) -> None:
    for name, value in template.constants.items():
        if isinstance(value, (bool, int, float)):
            columns[name] = np.full(size, float(value))


def _block(chunk: Chunk, lines: _Lines, reads: list[_Read], stream: Stream, alone: bool) -> Optional[MetricBlock]:
    """The rows of all makes in order as one block, with what `Stream.complete` adds to single records. None where that
    depends on the order of rows and other lines."""
    units = {read.template.constants.get("throughput_unit") for read in reads if "throughput" in read.columns}
    if not reads or len(units) > 1 or ("skipped" in reads[0].columns and not alone):
        return None
    rows, columns, absent = _merged(reads)
    counter = _counter(columns, absent, stream)
    if counter is None:
        return None
    _complete(columns, absent, counter, stream.last_step)
    stream.zero_based = counter.zero_based
    if "step" in columns:
        stream.last_step = int(columns["step"][-1])
    if "epoch" in columns:
        stream.last_epoch = int(columns["epoch"][-1])
    words: Fields = {"throughput_unit": units.pop()} if units else {}
    last = reads[-1].template
    stream.names = frozenset([*dict(last.groups), *last.constants])
    rank = chunk.rank
    ranks = columns.get("rank")
    if ranks is not None and "rank" not in absent and (ranks == ranks[0]).all():
        rank = int(columns.pop("rank")[0])
    return MetricBlock(
        chunk.source,
        rank,
        chunk.data,
        chunk.offset,
        lines.starts[rows],
        lines.ends[rows],
        rows + chunk.first_line,
        columns,
        absent,
        words,
        _stamps(lines, reads, rows),
    )


def _stamps(lines: _Lines, reads: list[_Read], rows: Ints) -> Optional[tuple[Ints, Ints]]:
    """Where in the chunk the time stamp of each row of the block stands, and its length (0: it has none)."""
    if len({read.make.time_at for read in reads}) == 1:
        at = reads[0].make.time_at
        if at is None:
            return None
        return lines.starts[rows] + at[0], np.full(len(rows), at[1] - at[0])
    places, lengths = [], []
    for read in reads:
        start, end = read.make.time_at or (0, 0)
        places.append(lines.starts[read.rows] + start)
        lengths.append(np.full(len(read.rows), end - start))
    if not any(length.any() for length in lengths):
        return None
    order = np.argsort(np.concatenate([read.rows for read in reads])) if len(reads) > 1 else slice(None)
    return np.concatenate(places)[order], np.concatenate(lengths)[order]


def _merged(reads: list[_Read]) -> tuple[Ints, dict[str, Floats], dict[str, Bools]]:
    """The reads in order of their rows; what a row does not have is 0 and marked absent."""
    if len(reads) == 1:
        return reads[0].rows, dict(reads[0].columns), {}
    order = np.argsort(np.concatenate([read.rows for read in reads]))
    rows = np.concatenate([read.rows for read in reads])[order]
    columns, absent = {}, {}
    for name in {name: None for read in reads for name in read.columns}:
        parts = [read.columns.get(name, np.zeros(len(read.rows))) for read in reads]
        columns[name] = np.concatenate(parts)[order]
        if any(name not in read.columns for read in reads):
            missing = [np.full(len(read.rows), name not in read.columns) for read in reads]
            absent[name] = np.concatenate(missing)[order]
    return rows, columns, absent


class _Counter(NamedTuple):
    """How global steps are counted: from an epoch 0, and over the ends of epochs."""

    zero_based: bool
    continuous: bool


def _counter(columns: dict[str, Floats], absent: dict[str, Bools], stream: Stream) -> Optional[_Counter]:
    """As `Stream.complete` finds it out line by line; None when it changes within these records."""
    epoch, step = columns.get("epoch"), columns.get("step")
    if epoch is None or step is None:
        return _Counter(stream.zero_based, stream.continuous)
    if "epoch" in absent or "step" in absent:
        return None
    zero_based = stream.zero_based or bool(epoch[0] == 0)
    if not zero_based and (epoch == 0).any():
        return None
    # beginning with the record before these
    epochs = differences(epoch, epoch[0] if stream.last_epoch is None else float(stream.last_epoch))
    gaps = differences(step, step[0] if stream.last_step is None else float(stream.last_step))
    usual = np.maximum(np.concatenate([[stream.last_gap], gaps[:-1]]), 1)
    if not stream.continuous and ((epochs == 1) & (gaps > 0) & (gaps <= usual)).any():
        return None
    stream.last_gap = int(gaps[-1])
    return _Counter(zero_based, stream.continuous)


def _complete(
    columns: dict[str, Floats], absent: dict[str, Bools], counter: _Counter, last_step: Optional[int]
) -> None:
    """As `Stream.complete`, of columns."""
    step = columns.get("step")
    skipped = columns.pop("skipped", None)
    missing = absent.pop("skipped", None)
    if step is None:
        return
    if skipped is not None:
        since = differences(step, float(last_step) if last_step is not None else 0.0)
        columns["overflow"] = ((since > 0) & (since <= skipped)).astype(np.float64)
        if missing is not None:
            absent["overflow"] = missing
    epoch, steps = columns.get("epoch"), columns.get("steps")
    if epoch is None or steps is None or "global_step" in columns:
        return
    placed = (epoch == np.floor(epoch)) & (step >= 0) & (step <= steps)
    if "steps" in absent:
        placed &= ~absent["steps"]
    if placed.any():
        before = 0.0 if counter.continuous else (epoch if counter.zero_based else epoch - 1) * steps
        columns["global_step"] = np.where(placed, before + step, 0.0)
        if not placed.all():
            absent["global_step"] = ~placed
