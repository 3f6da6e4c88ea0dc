"""A chunk that is mostly step lines of known makes, read in columns; what is left of it goes line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Optional

import numpy as np

from doctor.records.block import MetricBlock
from doctor.records.columns import Bools, Floats, Ints, Text, numbers, read_holes
from doctor.records.reading import Fields
from doctor.records.record import Chunk
from doctor.records.stream import FEWEST, Stream
from doctor.records.template import Columns, Hole, Template

#: another line is looked at when one of these is in it (its place in them is that of a rare byte)
WORDS = ((b"oss", 1), (b"step time", 3))
#: fewer lines of a make than this are read one by one
_FEW = 8


class Bulk(NamedTuple):
    """`block` has the records of known makes; `others` are the lines (start, end in the chunk) still to be read."""

    block: MetricBlock
    others: list[tuple[int, int]]


class _Lines(NamedTuple):
    """The lines that hold the main make's label: where the label is in the chunk, where the line begins and ends (without
    its line end), and its number from 0. `newlines` are those of the whole chunk."""

    text: Text
    newlines: Ints
    labels: Ints
    numbers: Ints
    starts: Ints
    ends: Ints
    line_end: bytes


class _Read(NamedTuple):
    """Rows of `_Lines` that are of one make, and their values."""

    template: Template
    make: Columns
    rows: Ints
    columns: dict[str, Floats]


def read_bulk(chunk: Chunk, stream: Stream, text: Text) -> Optional[Bulk]:
    """`text` is room to work in. None when the chunk is better read line by line; `stream` has not changed then."""
    main = stream.main
    if main is None or main.columns is None or not chunk.data.endswith(b"\n"):
        return None
    text.hold(chunk.data)
    lines = _lines(text, main.columns.label, stream.pick)
    if len(lines.labels) < FEWEST:
        return None
    reads, left = _by_make(lines, [main, *(known for known in stream.templates if known is not main)])
    if sum(len(read.rows) for read in reads) < FEWEST:
        return None
    others = sorted({*_spans(lines, left), *_with_words(lines, reads)})
    block = _block(chunk, lines, reads, stream, alone=not others)
    return Bulk(block, others) if block is not None else None


def _lines(text: Text, label: bytes, pick: int) -> _Lines:
    newlines = text.newlines()
    labels = text.find(label, pick)
    lines = np.searchsorted(newlines, labels)
    first = np.ones(len(labels), dtype=np.bool_)
    np.not_equal(lines[1:], lines[:-1], out=first[1:])
    labels, lines = labels[first], lines[first]
    ends = newlines[lines]
    line_end = b"\r\n" if len(ends) and text.bytes[ends[0] - 1] == 13 else b"\n"
    starts = np.where(lines > 0, newlines[lines - 1] + 1, 0)
    return _Lines(text, newlines, labels, lines, starts, ends + 1 - len(line_end), line_end)


def _by_make(lines: _Lines, templates: Iterable[Template]) -> tuple[list[_Read], Ints]:
    """The rows that known makes read, and those that are left."""
    reads = []
    left = np.arange(len(lines.labels))
    label = None
    for template in templates:
        make = template.columns
        if make is None or len(left) < _FEW:
            continue
        label = label or make.label
        rows = left[lines.labels[left] - lines.starts[left] == len(make.prefix)]
        if make.label != label or len(rows) < _FEW:
            continue
        read = _read(lines, template, make, rows)
        if len(read.rows):
            reads.append(read)
            left = np.setdiff1d(left, read.rows, assume_unique=True)
    return reads, left


def _read(lines: _Lines, template: Template, make: Columns, rows: Ints) -> _Read:
    """The values of `rows`; those that are not of the make are left out."""
    text = lines.text
    last = make.holes[-1]
    end = last.literal + lines.line_end
    holes = [*make.holes[:-1], Hole(last.field, last.factor, end, end[0])]
    columns, good = read_holes(text, lines.labels[rows] + len(make.label), holes)
    starts = lines.starts[rows]
    for place, byte in make.marks:
        good &= text.bytes[starts + place] == byte
    if make.rank_at is not None:
        columns["rank"], found = numbers(text, starts + make.rank_at)
        good &= found
    for name, value in template.constants.items():
        if isinstance(value, (bool, int, float)):
            columns[name] = np.full(len(rows), float(value))
    if good.all():
        return _Read(template, make, rows, columns)
    return _Read(template, make, rows[good], {name: column[good] for name, column in columns.items()})


def _spans(lines: _Lines, rows: Ints) -> Iterator[tuple[int, int]]:
    return zip(lines.starts[rows].tolist(), lines.ends[rows].tolist())


def _with_words(lines: _Lines, reads: list[_Read]) -> Iterator[tuple[int, int]]:
    """The lines, of those that no make has read, in which one of WORDS stands."""
    taken: Optional[Bools] = None
    for word, pick in WORDS:
        at = lines.text.find(word, pick, pair=True)
        if len(at) == sum(read.make.example.count(word) * len(read.rows) for read in reads):
            continue
        if taken is None:
            taken = np.zeros(len(lines.newlines) + 1, dtype=np.bool_)
            for read in reads:
                taken[lines.numbers[read.rows]] = True
        found = np.searchsorted(lines.newlines, at)
        for line in np.unique(found[~taken[found]]).tolist():
            start = int(lines.newlines[line - 1]) + 1 if line else 0
            yield start, int(lines.newlines[line]) + 1 - len(lines.line_end)


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
        lines.numbers[rows] + chunk.first_line,
        columns,
        absent,
        words,
        _stamps(lines, reads),
    )


def _stamps(lines: _Lines, reads: list[_Read]) -> Optional[tuple[Ints, Ints]]:
    """Where in the chunk the time stamp of each row of the block stands, and its length (0: it has none)."""
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
    epochs = np.diff(epoch, prepend=epoch[0] if stream.last_epoch is None else float(stream.last_epoch))
    gaps = np.diff(step, prepend=step[0] if stream.last_step is None else float(stream.last_step))
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
        since = np.diff(step, prepend=float(last_step) if last_step is not None else 0.0)
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
