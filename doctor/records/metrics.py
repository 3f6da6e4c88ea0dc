"""Chunks of log bytes to step records, whatever wrote the log."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple, Optional, Protocol, Union

from doctor.escape import decode
from doctor.records.block import TEXT_LIMIT, MetricBlock
from doctor.records.bulk import Bulk, read_bulk
from doctor.records.columns import Text
from doctor.records.lines import count_lines
from doctor.records.record import Chunk, Metric
from doctor.records.stream import Stream, counting
from doctor.records.template import Template

#: a line without one of these is no step line; looked for in bytes, before anything else is done with it
WORDS = (
    *(b"loss", b"Loss", b"LOSS", b"step time", b"step_time", b"step cost", b"time per step", b"it/s", b"s/it"),
    *("损失".encode(), "损失".encode("gbk"), b'"metric"'),
)


#: smaller chunks are read line by line
BULK_BYTES = 1 << 14


class Looker(Protocol):
    """Who looks at the lines of a chunk for something else (`doctor.match.scan.Scanner`)."""

    def may_match(self, shape: bytes) -> bool:
        """Whether it may find something in lines that are `shape` once their digits are zeros."""

    def look(self, data: bytes) -> tuple[Optional[list[int]], Optional[Seen]]:
        """Where lines begin that hold one of `WORDS`, and what was seen (None: that has to be found out in another way)."""


#: places in a chunk, each with a number that means something to who looked
Seen = list[tuple[int, int]]


class Reading(NamedTuple):
    """The records of a chunk, and what a `Looker` saw in its lines."""

    records: list[Union[MetricBlock, Metric]]
    seen: Optional[Seen] = None


NOTHING = Reading([])


class MetricReader:
    """Takes the chunks of any number of sources, each source's in order."""

    def __init__(self) -> None:
        self._streams: dict[str, Stream] = {}
        self._shared: list[Template] = []
        self._room: Optional[Text] = None

    def feed(self, chunk: Chunk) -> list[Metric]:
        """The step records of the chunk, in order of their lines."""
        metrics: list[Metric] = []
        for item in self.blocks(chunk):
            if isinstance(item, MetricBlock):
                metrics.extend(item)
            else:
                metrics.append(item)
        return metrics

    def blocks(self, chunk: Chunk) -> list[Union[MetricBlock, Metric]]:
        """The same records, where many of one make follow one another as a block of columns."""
        return self.read(chunk).records

    def read(self, chunk: Chunk, looker: Optional[Looker] = None) -> Reading:
        """The same. A `looker` looks at the lines at the same time, except those that it need not see."""
        stream = self._streams.get(chunk.source)
        if stream is None:
            stream = self._streams[chunk.source] = Stream(self._shared)
        if len(chunk.data) < BULK_BYTES:
            return Reading([*self._single(chunk, stream, _candidates(chunk.data, 0, len(chunk.data)))])
        if self._room is None:
            self._room = Text()
        before, main = stream.counters(), stream.main
        bulk = read_bulk(chunk, stream, self._room, looker.may_match if looker is not None else None)
        if bulk is None:
            words, seen = looker.look(chunk.data) if looker is not None else (None, None)
            return Reading(self._all(chunk, stream, words), seen)
        others, seen = _others(bulk, stream, looker)
        block = bulk.block(stream, alone=not others)
        if block is None:
            return Reading(self._all(chunk, stream), seen)
        if len(others) > len(block):
            stream.main = None
        items = self._mixed(chunk, stream, block, others)
        if stream.counting != counting(before) or _other_epochs(chunk, items, main):
            # what stands between the records changes how epochs are counted: line by line it does so where it stands
            stream.restore(before)
            return Reading([*self._single(chunk, stream, _candidates(chunk.data, 0, len(chunk.data)))], seen)
        return Reading(items, seen)

    def _all(self, chunk: Chunk, stream: Stream, words: Optional[list[int]] = None) -> list[Union[MetricBlock, Metric]]:
        """The records of all lines, one by one; the make of most of them becomes the main one."""
        lines = _candidates(chunk.data, 0, len(chunk.data)) if words is None else _lines_at(chunk.data, words)
        stream.used.clear()
        records = [*self._single(chunk, stream, lines)]
        stream.choose_main(chunk.data)
        return [*records]

    def _mixed(
        self, chunk: Chunk, stream: Stream, block: MetricBlock, others: list[tuple[int, int]]
    ) -> list[Union[MetricBlock, Metric]]:
        """The block, cut where other lines come between its records."""
        items: list[Union[MetricBlock, Metric]] = []
        done = 0
        last_step = stream.last_step
        for start, end in others:
            before = int(block.starts.searchsorted(start))
            if before > done:
                items.append(block.part(done, before))
                step = block.columns.get("step")
                stream.last_step = int(step[before - 1]) if step is not None else stream.last_step
                done = before
            items.extend(self._single(chunk, stream, _candidates(chunk.data, start, end)))
        if done < len(block):
            items.append(block.part(done, len(block)) if done else block)
            stream.last_step = last_step
        return items

    def _single(self, chunk: Chunk, stream: Stream, lines: Iterator[tuple[int, int]]) -> Iterator[Metric]:
        """The records of lines that begin and end at these places of the chunk."""
        data = chunk.data
        number, counted = chunk.first_line, 0
        for start, end in lines:
            raw = data[start:end]
            found = stream.line(raw, whole=end < len(data))
            if not found:
                continue
            number += count_lines(data, counted, start)
            counted = start
            base: dict[str, Any] = {
                "source": chunk.source,
                "rank": chunk.rank,
                "line": number,
                "offset": chunk.offset + start,
                "text": decode(raw[:TEXT_LIMIT]),
            }
            for fields in found:
                yield Metric.of({**base, **fields})


def _other_epochs(chunk: Chunk, items: list[Union[MetricBlock, Metric]], main: Optional[Template]) -> bool:
    """Whether records of another make than the main one name an epoch."""
    label = main.columns.label if main is not None and main.columns is not None else b""
    for item in items:
        if isinstance(item, Metric) and item.epoch is not None:
            start = item.offset - chunk.offset
            if label not in chunk.data[start : chunk.data.find(b"\n", start)]:
                return True
    return False


def _others(bulk: Bulk, stream: Stream, looker: Optional[Looker]) -> tuple[list[tuple[int, int]], Optional[Seen]]:
    """The lines that were not read in bulk and may hold a record, and what was seen in all lines that are not passed."""
    assert stream.main is not None and stream.main.columns is not None
    label = stream.main.columns.label
    if looker is None:
        return bulk.with_words(label, stream.pick), None
    rest, place = bulk.rest()
    words, seen = looker.look(rest)
    if seen is not None:
        seen = list(zip(place([at for at, _ in seen]), [what for _, what in seen]))
    return bulk.with_words(label, stream.pick) if words is None else bulk.others(place(words)), seen


def _lines_at(data: bytes, starts: list[int]) -> Iterator[tuple[int, int]]:
    """The lines that begin at these places; they end at ``\\n`` or ``\\r``."""
    for start in starts:
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        carriage = data.find(b"\r", start, end)
        yield start, end if carriage < 0 else carriage


@lru_cache(maxsize=1)
def _finder() -> Any:
    import ahocorasick_rs

    return ahocorasick_rs.BytesAhoCorasick(list(WORDS), implementation=ahocorasick_rs.Implementation.DFA)


def _candidates(data: bytes, begin: int, stop: int) -> Iterator[tuple[int, int]]:
    """The lines (start, end; cut at ``\\n`` and ``\\r``) between two places that hold one of WORDS."""
    part = data if stop - begin == len(data) else data[begin:stop]
    done = 0
    for _, at, _ in _finder().find_matches_as_indexes(part):
        if at < done:
            continue
        start = part.rfind(b"\n", done, at) + 1 or done
        start = part.rfind(b"\r", start, at) + 1 or start
        end = part.find(b"\n", at)
        end = len(part) if end < 0 else end
        carriage = part.find(b"\r", at, end)
        end = end if carriage < 0 else carriage
        yield begin + start, begin + end
        done = end
