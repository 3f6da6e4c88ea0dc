"""What each log says of its own process, gathered line by line; judged when the run is over."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Optional

from doctor.detect.alarm import message
from doctor.detect.processes import Trace
from doctor.escape import decode, visible
from doctor.finding import Evidence
from doctor.match.reason import evidence_of
from doctor.records.discover import kind_of
from doctor.records.record import Chunk, Metric
from doctor.session.lifecycle import Mark

#: bytes of the end of a log that are kept, to quote its last line and the exception that it may end with
_TAIL = 3000
# How Python ends a traceback, behind what a launcher puts in front of a line
_RAISED = re.compile(
    rb"^(?:\[[^\]\n]{1,24}\](?:<\w+>)?:? ?| {0,4}\d{1,5}: )?(?P<name>(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?:: .*)?$"
)
_NAMED = re.compile(rb"(?:Error|Exception|Failure|Fault|Abort(?:ed)?|Timeout|Exit|Interrupt|NotFound|Failed)$")
# what ends a run on purpose, and what an interpreter that shuts down prints of objects that are in its way
_STOPPED = re.compile(rb"(?:KeyboardInterrupt|SystemExit)$")
_IGNORED = b"Exception ignored in"
_FRAME = b'File "'
_PART = re.compile(r"(?:[.-]\d{4}-?\d\d-?\d\d|\.\d{1,4}|\.old)?(?:\.(?:gz|bz2|xz))?$")


def family(source: str) -> str:
    """The log of which a source is a part: ``info.log`` for ``info.log.2.gz``."""
    return _PART.sub("", source) or source


class Source:
    """One log: how far it was read and how it ends."""

    def __init__(self, name: str, rank: Optional[int]) -> None:
        self.name = name
        self.family = family(name)
        self.rank = rank
        self.kind = kind_of(PurePath(name))  # type: ignore[arg-type]
        self.bytes = 0
        self.tail = b""
        self._chunk: Optional[Chunk] = None
        self._lines = 0

    def read(self, chunk: Chunk) -> None:
        self._chunk = chunk
        self.bytes += len(chunk.data)
        self.tail = chunk.data[-_TAIL:]

    @property
    def lines(self) -> int:
        """Lines up to the end of the last chunk. Counted when asked for: each chunk says where it begins."""
        if self._chunk is not None:
            data = self._chunk.data
            self._lines = self._chunk.first_line + data.count(b"\n") - (1 if data.endswith(b"\n") else 0)
            self._chunk = None
        return self._lines

    def last_line(self) -> Optional[Evidence]:
        """The last line that is not blank, as evidence."""
        text = self.tail.rstrip()
        if not text:
            return None
        blank = self.tail[len(text) :].count(b"\n") - 1
        last = visible(decode(text.split(b"\n")[-1].split(b"\r")[-1]).strip(), 300)
        return Evidence("log", self.name, line=self.lines - max(0, blank), text=last, rank=self.rank)

    def raised(self) -> Optional[Evidence]:
        """The exception that the log ends with: the last line behind a traceback's frames, or None."""
        if _IGNORED in self.tail:
            return None
        rows = self.tail.rstrip().split(b"\n")
        for back, row in enumerate(reversed(rows[1:])):
            found = _RAISED.match(row.rstrip())
            if found is None:
                continue
            above = rows[max(0, len(rows) - 3 - back) : len(rows) - 1 - back]
            if not _NAMED.search(found["name"]) and not any(_FRAME in line for line in above):
                continue
            if _STOPPED.search(found["name"]):
                return None
            blank = self.tail[len(self.tail.rstrip()) :].count(b"\n") - 1
            line = self.lines - max(0, blank) - back
            return Evidence("log", self.name, line=line, text=visible(decode(row).strip(), 300), rank=self.rank)
        return None


class Traces:
    """A trace for each process: for each log, and within a log for each rank that its lines name."""

    def __init__(self) -> None:
        self._traces: dict[tuple[str, Optional[int]], Trace] = {}
        self.all_finished = False

    def of(self, source: str, rank: Optional[int]) -> Trace:
        key = (source, rank)
        trace = self._traces.get(key)
        if trace is None:
            scheduler = kind_of(PurePath(source)) == "scheduler"  # type: ignore[arg-type]
            trace = self._traces[key] = Trace(source, rank, scheduler)
        return trace

    def step(self, metric: Metric, stride: int, announced: Optional[int]) -> None:
        """The last step line of a stream, and how many steps the run is to make."""
        trace = self.of(family(metric.source), metric.rank)
        trace.last = Evidence(
            "metric",
            metric.source,
            line=metric.line,
            offset=metric.offset,
            key="step",
            text=message(metric.text),
            rank=metric.rank,
            step=metric.at,
        )
        trace.stride = max(1, stride)
        trace.total = announced or trace.total

    def mark(self, mark: Mark, rank: Optional[int]) -> None:
        """Takes over what a mark says of its process."""
        name, line = mark.name, evidence_of(mark.hit)
        trace = self.of(family(mark.hit.source), rank)
        node = mark.integer("node")
        if name == "ended":
            trace.finished = True
            if b"All workers" in mark.hit.text:
                self.all_finished = True
        elif name == "traceback":
            trace.failed = trace.failed or line
        elif name == "node" and node is not None:
            of_rank = mark.integer("rank")
            if trace.scheduler and of_rank is not None:
                trace.ranks[node] = of_rank
            elif not trace.scheduler:
                trace.node = node
                trace.pid = mark.integer("pid") or trace.pid
        elif name == "node-timed-out" and node is not None:
            trace.timed_out.setdefault(node, line)
        elif name == "node-left" and node is not None:
            trace.left.setdefault(node, line)
        elif name == "nodes-alive":
            trace.alive = mark.integer("alive")
        elif name == "peer-lost":
            trace.peer_lost = trace.peer_lost or line
        elif name == "peer-waited-for":
            trace.peer_waited_for = trace.peer_waited_for or line
            trace.failed = trace.failed or line
        elif name == "scheduler-lost":
            if trace.node is not None:
                trace.scheduler_lost = trace.scheduler_lost or line
        elif name == "worker-exit":
            pid, code = mark.integer("pid"), mark.text("code")
            if pid is not None and code is not None:
                trace.exits.setdefault(pid, (int(code), line))

    def failed(self, source: str, rank: Optional[int], line: Evidence) -> None:
        """A line that says that the process failed."""
        trace = self.of(family(source), rank)
        if trace.failed is None or (line.line or 0) < (trace.failed.line or 0):
            trace.failed = line

    def said(self, source: str, rank: Optional[int], waits: bool) -> None:
        """A rule knows an error of the process: that it waited for a peer, or another."""
        trace = self.of(family(source), rank)
        if waits:
            trace.waited = True
        else:
            trace.known = True

    def absorb(self, other: Traces) -> None:
        """Takes over the traces of other logs."""
        self._traces.update(other._traces)
        self.all_finished = self.all_finished or other.all_finished

    def finish(self, sources: Iterable[Source]) -> list[Trace]:
        """The traces with the last lines of their logs, in the order of logs and ranks."""
        known = list(sources)
        ends = {source.name: source.last_line() for source in known}
        raised = {source.name: source.raised() for source in known}
        return list(self._finished(ends, raised))

    def _finished(self, ends: dict[str, Optional[Evidence]], raised: dict[str, Optional[Evidence]]) -> Iterator[Trace]:
        left = {trace.ranks.get(node, node) for trace in self._traces.values() for node in trace.left}
        sharing = Counter(trace.source for trace in self._traces.values() if trace.rank is not None)
        order = sorted(self._traces, key=lambda key: (key[0], -1 if key[1] is None else key[1]))
        for key in order:
            trace = self._traces[key]
            # The last line of a log that ranks share is that of some rank.
            trace.raised = raised.get(trace.source)
            trace.place = ends.get(trace.source) if sharing[trace.source] < 2 else trace.failed or trace.last
            if self.all_finished or (trace.rank is not None and trace.rank in left):
                trace.finished = True
            yield trace
