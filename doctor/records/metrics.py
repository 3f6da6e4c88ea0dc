"""Chunks of log bytes to step records, whatever wrote the log."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Optional

from doctor.escape import decode
from doctor.records.jsonl import EVENT_LINE, METRIC_LINE, metric_fields
from doctor.records.prefix import rank_of_line, time_of_line
from doctor.records.progress import bar_fields
from doctor.records.record import Chunk, Metric
from doctor.records.tokens import Fields, records

# A line without one of these is no step line; looked for in bytes, before anything else is done with it
_CANDIDATE = re.compile(
    rb"[Ll]oss|LOSS|step[ _]time|step cost|time per (?:step|iteration)|it/s|s/it|"
    + "损失".encode()
    + b"|"
    + "损失".encode("gbk")
)
_LINE = re.compile(rb"[^\r\n]+")
#: longer lines hold no step record at their beginning; their ends are looked at
_LONGEST = 4096


@dataclass
class _Stream:
    """What the lines of one source so far tell about the next ones."""

    #: position and length of the last progress bar: a Hugging Face dict names no step of its own
    bar: Optional[tuple[int, int]] = None
    last_step: Optional[int] = None
    #: an epoch 0 was seen: epochs count from there
    zero_based: bool = False
    #: what the last record held, to tell whether a line without its newline is complete
    names: frozenset[str] = frozenset()


class MetricReader:
    """`feed` takes the chunks of any number of sources, each source's in order."""

    def __init__(self) -> None:
        self._streams: dict[str, _Stream] = {}

    def feed(self, chunk: Chunk) -> list[Metric]:
        """The step records of the chunk, in order of their lines."""
        data = chunk.data
        if not _CANDIDATE.search(data) and b'"metric"' not in data:
            return []
        stream = self._streams.setdefault(chunk.source, _Stream())
        metrics: list[Metric] = []
        line, counted = chunk.first_line, 0
        for match in _LINE.finditer(data):
            start, end = match.span()
            found = self._line(match.group(), stream, whole=end < len(data))
            if not found:
                continue
            line += data.count(b"\n", counted, start)
            counted = start
            for fields in found:
                metrics.append(_metric(fields, chunk, line, chunk.offset + start, match.group()))
        return metrics

    def _line(self, raw: bytes, stream: _Stream, whole: bool) -> list[Fields]:
        if raw.startswith(EVENT_LINE):
            own = metric_fields(raw) if raw.startswith(METRIC_LINE) else None
            return [own] if own is not None else []
        if _CANDIDATE.search(raw) is None:
            return []
        text = decode(raw[-_LONGEST:])
        bar = bar_fields(text)
        found = list(records(text)) if bar is None else []
        if bar is not None:
            stream.bar = (int(bar.get("step") or 0), int(bar.get("steps") or 0))
            if "loss" in bar:
                found = [bar]
        if not whole:
            found = [fields for fields in found if not _torn(fields, text, stream)]
        rank, time = rank_of_line(text), time_of_line(text)
        for fields in found:
            stream.names = frozenset(fields)
            _complete(fields, stream, rank, time)
        return found


def _torn(fields: Fields, text: str, stream: _Stream) -> bool:
    """Whether a last line without its newline was cut: ``loss: 9.`` may have been 9.7, so it is not believed."""
    return text.rstrip()[-1:] in ".-+" or (bool(stream.names) and not stream.names <= fields.keys())


def _complete(fields: Fields, stream: _Stream, rank: Optional[int], time: Optional[float]) -> None:
    """What the line itself does not say but its neighbours do."""
    if rank is not None:
        fields.setdefault("rank", rank)
    if time is not None:
        fields["time"] = time
    if "step" not in fields and stream.bar is not None and not fields.get("summary"):
        fields["step"], fields["steps"] = stream.bar
    skipped = fields.pop("skipped", None)
    epoch, step, steps = fields.get("epoch"), fields.get("step"), fields.get("steps")
    if not isinstance(step, int):
        return
    if isinstance(skipped, int):
        # Megatron counts the skipped ones since its last line; only all of them make an overflow of the line
        since = step - stream.last_step if stream.last_step is not None else step
        fields["overflow"] = 0 < since <= skipped
    stream.last_step = step
    if isinstance(epoch, int) and isinstance(steps, int) and "global_step" not in fields and 0 <= step <= steps:
        stream.zero_based = stream.zero_based or epoch == 0
        fields["global_step"] = (epoch if stream.zero_based else epoch - 1) * steps + step


def _metric(fields: Fields, chunk: Chunk, line: int, offset: int, raw: bytes) -> Metric:
    fields.setdefault("rank", chunk.rank)
    return Metric(chunk.source, line, offset, text=decode(raw[:400]), **fields)  # type: ignore[arg-type]
