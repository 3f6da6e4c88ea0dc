"""Chunks of log bytes to step records, whatever wrote the log."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Optional, Union

from doctor.escape import decode
from doctor.records.block import TEXT_LIMIT, MetricBlock
from doctor.records.bulk import read_bulk
from doctor.records.columns import Text
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
        stream = self._streams.get(chunk.source)
        if stream is None:
            stream = self._streams[chunk.source] = Stream(self._shared)
        if len(chunk.data) < BULK_BYTES:
            return [*self._single(chunk, stream, _candidates(chunk.data, 0, len(chunk.data)))]
        if self._room is None:
            self._room = Text()
        before, main = stream.counters(), stream.main
        bulk = read_bulk(chunk, stream, self._room)
        if bulk is None:
            stream.used.clear()
            found = [*self._single(chunk, stream, _candidates(chunk.data, 0, len(chunk.data)))]
            stream.choose_main(chunk.data)
            return [*found]
        if len(bulk.others) > len(bulk.block):
            stream.main = None
        items = self._mixed(chunk, stream, bulk.block, bulk.others)
        if stream.counting != counting(before) or _other_epochs(chunk, items, main):
            # what stands between the records changes how epochs are counted: line by line it does so where it stands
            stream.restore(before)
            return [*self._single(chunk, stream, _candidates(chunk.data, 0, len(chunk.data)))]
        return items

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
            number += data.count(b"\n", counted, start)
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
