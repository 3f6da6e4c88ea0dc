"""Step records in columns: what a detector needs to pass over thousands of healthy steps at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Optional

import numpy as np

from doctor.escape import decode
from doctor.records.columns import Bools, Floats, Ints, stamps
from doctor.records.prefix import seconds
from doctor.records.reading import COUNTS, Fields, whole
from doctor.records.record import Metric

#: the most of a line that is kept as a record's text (bytes)
TEXT_LIMIT = 400


@dataclass(frozen=True)
class MetricBlock:
    """Step records of one source in the order of their lines. ``columns[name]`` has a float64 for each record (counts
    and flags too: True is 1); a field that no record has is no column, and ``absent[name]`` marks records without it.
    `data` is the chunk that the records are in, `starts` and `ends` where their lines begin and end in it.
    """

    source: str
    rank: Optional[int]
    data: bytes
    offset: int
    starts: Ints
    ends: Ints
    lines: Ints
    columns: dict[str, Floats]
    absent: dict[str, Bools]
    #: fields that are words, the same in all records: `throughput_unit`
    words: Fields
    #: where the time stamps of the lines stand in the chunk, and their lengths (0: none)
    stamps: Optional[tuple[Ints, Ints]] = None

    def __len__(self) -> int:
        return len(self.starts)

    def column(self, name: str) -> Optional[Floats]:
        """The values of a field when every record has it, else None."""
        return self.columns.get(name) if name not in self.absent else None

    def times(self) -> tuple[Floats, Bools]:
        """The times of the lines, in seconds since the epoch, and which lines have one. Made when asked for: few do."""
        times, known = np.zeros(len(self)), np.zeros(len(self), dtype=np.bool_)
        if self.stamps is not None:
            data = np.frombuffer(self.data, dtype=np.uint8)
            for length in np.unique(self.stamps[1][self.stamps[1] > 0]):
                rows = np.flatnonzero(self.stamps[1] == length)
                times[rows], known[rows] = stamps(data, self.stamps[0][rows], int(length))
        return times, known

    def __iter__(self) -> Iterator[Metric]:
        """The same records one by one."""
        return self.metrics(0, len(self))

    def metric(self, row: int) -> Metric:
        """Record number `row`."""
        start = int(self.starts[row])
        fields: dict[str, object] = {"source": self.source, "rank": self.rank, **self.words}
        for name, column in self.columns.items():
            if name not in self.absent or not self.absent[name][row]:
                value = column.item(row)
                convert = _KINDS.get(name)
                fields[name] = value if convert is None else convert(value)
        if self.stamps is not None:
            place = int(self.stamps[0][row])
            stamp = self.data[place : place + int(self.stamps[1][row])]
            fields["time"] = seconds(stamp.decode("ascii", "replace"))
        fields["line"] = int(self.lines[row])
        fields["offset"] = start + self.offset
        fields["text"] = _text(self.data[start : min(int(self.ends[row]), start + TEXT_LIMIT)])
        return Metric.of(fields)

    def metrics(self, first: int, end: int) -> Iterator[Metric]:
        """Records from number `first` up to `end`."""
        if end - first < _FEW:
            for row in range(first, end):
                yield self.metric(row)
            return
        names = list(self.columns)
        values: list[Iterable[object]] = []
        for name in names:
            column = _listed(name, self.columns[name][first:end])
            if name in self.absent:
                for row in np.flatnonzero(self.absent[name][first:end]).tolist():
                    column[row] = None
            values.append(column)
        if self.stamps is not None:
            times, known = self.part(first, end).times()
            names.append("time")
            values.append([time if there else None for time, there in zip(times.tolist(), known.tolist())])
        starts, ends = self.starts[first:end].tolist(), self.ends[first:end].tolist()
        names += ["line", "offset", "text", "source"]
        data, offset = self.data, self.offset
        values.append(self.lines[first:end].tolist())
        values.append([start + offset for start in starts])
        values.append([_text(data[start : min(stop, start + TEXT_LIMIT)]) for start, stop in zip(starts, ends)])
        values.append(repeat(self.source))
        if "rank" not in self.columns:
            names.append("rank")
            values.append(repeat(self.rank))
        for name, word in self.words.items():
            names.append(name)
            values.append(repeat(word))
        of = Metric.of
        for fields in zip(*values):
            yield of(dict(zip(names, fields)))

    def part(self, first: int, end: int) -> MetricBlock:
        """The records from number `first` up to `end` as a block."""
        return MetricBlock(
            self.source,
            self.rank,
            self.data,
            self.offset,
            self.starts[first:end],
            self.ends[first:end],
            self.lines[first:end],
            {name: column[first:end] for name, column in self.columns.items()},
            {name: mask[first:end] for name, mask in self.absent.items() if mask[first:end].any()},
            self.words,
            (self.stamps[0][first:end], self.stamps[1][first:end]) if self.stamps else None,
        )

    def copied(self, first: int, end: int) -> MetricBlock:
        """Some of the records that follow one another as a block that holds nothing but them."""
        part = self.part(first, end)
        begin, stop = int(part.starts[0]), int(part.ends[-1])
        return replace(
            part,
            data=self.data[begin:stop],
            offset=self.offset + begin,
            starts=part.starts - begin,
            ends=part.ends - begin,
            lines=part.lines.copy(),
            columns={name: column.copy() for name, column in part.columns.items()},
            absent={name: mask.copy() for name, mask in part.absent.items()},
            stamps=(part.stamps[0] - begin, part.stamps[1].copy()) if part.stamps else None,
        )

    def at(self, rows: Ints) -> MetricBlock:
        """Some of the records, in the order of `rows`, as a block."""
        absent = {name: mask[rows] for name, mask in self.absent.items()}
        return replace(
            self,
            starts=self.starts[rows],
            ends=self.ends[rows],
            lines=self.lines[rows],
            columns={name: column[rows] for name, column in self.columns.items()},
            absent={name: mask for name, mask in absent.items() if mask.any()},
            stamps=(self.stamps[0][rows], self.stamps[1][rows]) if self.stamps else None,
        )

    def by_rank(self) -> Iterator[MetricBlock]:
        """The records of each rank as a block of its own, where lines say their rank; in the order of their first lines."""
        ranks, absent = self.columns["rank"], self.absent.get("rank")
        if absent is not None:
            ranks = np.where(absent, -1.0 if self.rank is None else float(self.rank), ranks)
        found, firsts = np.unique(ranks, return_index=True)
        for rank in found[np.argsort(firsts)].tolist():
            part = self.at(np.flatnonzero(ranks == rank))
            columns = {name: column for name, column in part.columns.items() if name != "rank"}
            missing = {name: mask for name, mask in part.absent.items() if name != "rank"}
            yield replace(part, rank=int(rank) if rank >= 0 else None, columns=columns, absent=missing)


def _text(line: bytes) -> str:
    try:
        return line.decode("ascii")
    except UnicodeDecodeError:
        return decode(line)


#: how a float64 becomes a value of its field
_KINDS: dict[str, Callable[[float], object]] = {
    **dict.fromkeys(("overflow", "evaluation", "summary"), bool),
    **dict.fromkeys(COUNTS, int),
    "epoch": whole,
}
#: fewer records than this are made one by one
_FEW = 8


def _listed(name: str, column: Floats) -> list[object]:
    """A column as Python values of the field's type."""
    convert = _KINDS.get(name)
    if convert is int:
        return list(column.astype(np.int64).tolist())
    return list(column.tolist()) if convert is None else [convert(value) for value in column.tolist()]
