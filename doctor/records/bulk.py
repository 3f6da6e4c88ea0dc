"""A chunk that is mostly step lines of known makes, read in columns; what is left of it goes line by line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Optional

import numpy as np

from doctor.records.block import MetricBlock
from doctor.records.columns import PADDING, Bools, Bytes, Floats, Ints, numbers, read_holes
from doctor.records.reading import Fields
from doctor.records.record import Chunk
from doctor.records.stream import FEWEST, Stream
from doctor.records.template import DELETED, Columns, Template

#: another line is looked at when one of these is in it
WORDS = (b"oss", b"step time")


class Bulk(NamedTuple):
    """`block` has the records of known makes; `others` are the lines (start, end in the chunk) still to be read."""

    block: MetricBlock
    others: list[tuple[int, int]]


class _Lines(NamedTuple):
    """The lines that hold the main make's label. `text` has them from the label on, one behind the other."""

    data: Bytes
    text: bytes
    #: where each begins in `text`, and how long it is there
    at: Ints
    lengths: Ints
    #: in the chunk: where the line begins, where its label is, and the number of lines before
    starts: Ints
    labels: Ints
    numbers: Ints


class _Read(NamedTuple):
    """Rows of `_Lines` that are of one make, and their values."""

    template: Template
    rows: Ints
    columns: dict[str, Floats]


def read_bulk(chunk: Chunk, stream: Stream) -> Optional[Bulk]:
    """None when the chunk is better read line by line; `stream` has not changed then."""
    main = stream.main.columns if stream.main is not None else None
    if main is None or not chunk.data.endswith(b"\n"):
        return None
    parts = main.split.split(chunk.data)
    if len(parts) < 2 * FEWEST:
        return None
    lines = _lines(chunk.data, parts)
    text = np.frombuffer(lines.text + PADDING, dtype=np.uint8)
    reads = [
        _read(lines, text, template, template.columns, rows)
        for template, rows in _makes(lines, main, stream)
        if template.columns is not None
    ]
    reads = [read for read in reads if len(read.rows)]
    others = _others(lines, parts, reads)
    block = _block(chunk, lines, reads, stream, alone=not others)
    return Bulk(block, others) if block is not None else None


def _lines(data: bytes, parts: Sequence[bytes]) -> _Lines:
    """`parts`: what the main make's label split the chunk into, text between and text from a label to its line's end
    in turn."""
    found = parts[1::2]
    sizes = np.fromiter(map(len, parts), dtype=np.int64, count=len(parts))
    labels = np.cumsum(sizes)[0:-1:2]
    lengths = sizes[1::2]
    text = b"\n".join(found)
    if found[0].endswith(b"\r") and text.count(b"\r") == len(found):
        text, lengths = text.replace(b"\r\n", b"\n").removesuffix(b"\r"), lengths - 1
    buffer = np.frombuffer(data, dtype=np.uint8)
    newlines = np.flatnonzero(buffer == 10)
    before = np.searchsorted(newlines, labels)
    starts = np.where(before > 0, newlines[before - 1] + 1, 0)
    at = np.cumsum(lengths + 1) - (lengths + 1)
    return _Lines(buffer, text, at, lengths, starts, labels, before)


def _makes(lines: _Lines, main: Columns, stream: Stream) -> list[tuple[Template, Ints]]:
    """Which rows are of which known make, told by their skeletons and by the lengths of their prefixes."""
    known = {
        (template.columns.skeleton, len(template.columns.prefix)): template
        for template in reversed(stream.templates)
        if template.columns is not None and template.columns.label == main.label
    }
    skeletons = lines.text.translate(None, DELETED)
    lengths = lines.labels - lines.starts
    count = len(lines.at)
    if (lengths == lengths[0]).all():
        first = skeletons[: skeletons.find(b"\n")]
        template = known.get((first, int(lengths[0])))
        if template is not None and skeletons == b"\n".join([first] * count):
            return [(template, np.arange(count))]
    rows: dict[Template, list[int]] = {}
    for row, key in enumerate(zip(skeletons.split(b"\n"), lengths.tolist())):
        template = known.get(key)
        if template is not None:
            rows.setdefault(template, []).append(row)
    return [(template, np.array(found)) for template, found in rows.items()]


def _read(lines: _Lines, text: Bytes, template: Template, make: Columns, rows: Ints) -> _Read:
    """The values of `rows`; those that are not quite of the make are left out."""
    at = lines.at[rows]
    columns, good, ends = read_holes(text, at + len(make.label), make.holes)
    good &= ends == at + lines.lengths[rows]
    starts = lines.starts[rows]
    for place, byte in make.marks:
        good &= lines.data[starts + place] == byte
    if make.rank_at is not None:
        columns["rank"], _, found = numbers(lines.data, starts + make.rank_at)
        good &= found
    for name, value in template.constants.items():
        if isinstance(value, (bool, int, float)):
            columns[name] = np.full(len(rows), float(value))
    if good.all():
        return _Read(template, rows, columns)
    return _Read(template, rows[good], {name: column[good] for name, column in columns.items()})


def _others(lines: _Lines, parts: Sequence[bytes], reads: list[_Read]) -> list[tuple[int, int]]:
    """The lines still to be read: those with the label that no make took, and others with one of WORDS in them."""
    left = np.ones(len(lines.at), dtype=np.bool_)
    for read in reads:
        left[read.rows] = False
    ends = lines.labels + np.fromiter(map(len, parts[1::2]), dtype=np.int64, count=len(left))
    found = [(int(lines.starts[row]), int(ends[row])) for row in np.flatnonzero(left)]
    between = parts[::2]
    rest = b"\n".join(between)
    for word in WORDS:
        ours = sum(read.template.columns.prefix.count(word) * len(read.rows) for read in reads if read.template.columns)
        if rest.count(word) != ours:
            found += _lines_with(between, ends)
            return sorted(set(found))
    return found


def _lines_with(between: Sequence[bytes], ends: Ints) -> list[tuple[int, int]]:
    """Whole lines in the texts between labels that hold one of WORDS."""
    found = []
    for text, begin in zip(between, [0, *ends.tolist()]):
        # behind the last line end stands the prefix of the next line with a label
        stop = text.rfind(b"\n") + 1
        if not any(word in text[:stop] for word in WORDS):
            continue
        at = 0
        while at < stop:
            end = text.index(b"\n", at)
            if any(word in text[at:end] for word in WORDS):
                found.append((begin + at, begin + end))
            at = end + 1
    return found


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
    return MetricBlock(
        chunk.source,
        chunk.rank,
        chunk.data,
        chunk.offset,
        lines.starts[rows],
        lines.labels[rows] + lines.lengths[rows],
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
        start, end = (read.template.columns and read.template.columns.time_at) or (0, 0)
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
