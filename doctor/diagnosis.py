"""What a text or the logs of a run say as a whole: the rules on their lines and the detectors on their numbers.

One pass over the bytes in bounded memory, for `doctor explain` and the Python face; `doctor.session` does the same
live and judges in addition what silence means.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union

from doctor.errors import UsageError
from doctor.escape import visible
from doctor.finding import Finding, Severity, Text
from doctor.match.aside import Progress
from doctor.match.document import PASTE, by_header, chunks_of, is_quotation
from doctor.match.explain import Explanation, conclude, words_of
from doctor.match.line import normal
from doctor.match.pack import Pack, load_pack
from doctor.match.reason import finding_of
from doctor.match.scan import Hit, Scanner
from doctor.match.textrule import TextRule
from doctor.match.words import filled, values_of
from doctor.records.record import Chunk, Metric, Notice

if TYPE_CHECKING:
    from doctor.detect import Alarm
    from doctor.detect.stream import RankStream
    from doctor.records.metrics import MetricReader

#: whether a block can hold step lines at all; saves the import of all that reads them
_NUMBERS = re.compile(rb"[Ll]oss|LOSS|it/s|s/it|step[ _]time|per_step_time|\"metric\"")
#: of a long text so much of the end is kept in words
_TAIL = 64 * 1024
#: the step lines of one rank in one source
_Stream = tuple[str, Optional[int]]


def diagnose_text(
    text: Union[str, bytes],
    source: str = "-",
    pack: Optional[Pack] = None,
    facts: Optional[Mapping[str, Any]] = None,
) -> Explanation:
    """Explains a text of any encoding, with line numbers and offsets in it. What is one quotation (of a mail, of an
    issue) is explained, but nothing is raised: somebody else saw it."""
    found = _diagnose(chunks_of(text, source), pack, facts, words_of(text))
    if found.findings and is_quotation(text):
        return replace(found, findings=tuple(item.with_(severity=Severity.INFO) for item in found.findings))
    return found


def diagnose_paths(
    paths: Sequence[Union[str, Path]], pack: Optional[Pack] = None, facts: Optional[Mapping[str, Any]] = None
) -> Explanation:
    """Explains log files and folders of logs, of any size. Raises UsageError when one cannot be read."""
    return diagnose_chunks(_chunks(paths), pack, facts)


def diagnose_stdin(pack: Optional[Pack] = None, facts: Optional[Mapping[str, Any]] = None) -> Explanation:
    """Explains what comes through standard input: a paste as a text, more than that as it comes, without keeping it.
    Compressed data and UTF-16 are undone, and lines and offsets then count decoded bytes."""
    from doctor.records.reader import STDIN, STDIN_SOURCE, read

    chunks = read(STDIN)
    first: list[Chunk] = []
    size = 0
    for chunk in chunks:
        first.append(chunk)
        size += len(chunk.data)
        if size > PASTE:
            return diagnose_chunks(by_header(_one_after_another(first, chunks)), pack, facts)
    return diagnose_text(b"".join(chunk.data for chunk in first), STDIN_SOURCE, pack, facts)


def diagnose_chunks(
    chunks: Iterable[Chunk], pack: Optional[Pack] = None, facts: Optional[Mapping[str, Any]] = None
) -> Explanation:
    """Explains chunks of any number of sources, each of which is let go once it is read."""
    return _diagnose(chunks, pack, facts, None)


def _one_after_another(first: list[Chunk], rest: Iterator[Chunk]) -> Iterator[Chunk]:
    """All chunks, none of which is kept for longer than its turn."""
    while first:
        yield first.pop(0)
    yield from rest


def _chunks(paths: Sequence[Union[str, Path]]) -> Iterator[Chunk]:
    from doctor.records.decode import NO_LOG
    from doctor.records.discover import discover
    from doctor.records.reader import read

    notices: list[Notice] = []
    empty = True
    for log in discover(paths):
        for part in log.parts:
            for chunk in by_header(read(part, log.rank, on_notice=notices.append)):
                empty = False
                yield chunk
    damaged = [notice for notice in notices if notice.detail != NO_LOG]  # of what is no text the cause is unknown
    if empty and damaged:
        raise _undecodable(damaged[0])


def _undecodable(notice: Notice) -> UsageError:
    """Of files that gave not one line: a log that cannot be read is not one in which nothing stands."""
    name = visible(notice.source, 200)
    return UsageError(
        Text(f"{name} cannot be read: {notice.detail}.", f"{name} 无法读取：{notice.detail}。"),
        Text(
            "Name the log itself; a damaged one: copy it again, or unpack it by hand.",
            "请指定日志文件本身；若文件损坏，请重新拷贝或手动解压。",
        ),
    )


def _diagnose(
    chunks: Iterable[Chunk], pack: Optional[Pack], facts: Optional[Mapping[str, Any]], words: Optional[str]
) -> Explanation:
    rules = pack if pack is not None else load_pack()
    scanner = Scanner(rules, facts)
    numbers = _Numbers()
    hits: list[Hit] = []
    tail = b""
    for chunk in chunks:
        hits.extend(scanner.scan(chunk))
        numbers.feed(chunk)
        if words is None:
            tail = (tail + normal(chunk.data[-_TAIL:]))[-_TAIL:]
    hits.extend(scanner.finish())
    text = words if words is not None else tail.decode("utf-8", "replace")
    return conclude(hits, scanner, text, numbers.progress(), numbers.findings(rules))


class _Numbers:
    """The step records of all streams, each fed to detectors of its own."""

    def __init__(self) -> None:
        self._reader: Optional[MetricReader] = None
        self._streams: dict[_Stream, RankStream] = {}
        #: the first step records of each stream, for when there are no more than these
        self._few: dict[_Stream, list[Metric]] = {}
        #: stream, rule -> the alarm that stands
        self._alarms: dict[tuple[_Stream, str], Alarm] = {}

    def feed(self, chunk: Chunk) -> None:
        if self._reader is None:
            if _NUMBERS.search(chunk.data) is None:
                return
            from doctor.records.metrics import MetricReader

            self._reader = MetricReader()
        for metric in self._reader.feed(chunk):
            self._step(metric)

    def _step(self, metric: Metric) -> None:
        from doctor.detect.excerpt import MOST
        from doctor.detect.facts import RunFacts
        from doctor.detect.stream import RankStream

        key = (metric.source, metric.rank)
        stream = self._streams.get(key)
        if stream is None:
            stream = self._streams[key] = RankStream(metric.source, metric.rank, RunFacts())
            self._few[key] = []
        few = self._few[key]
        if len(few) <= MOST:
            few.append(metric)
        self._hear(key, stream.feed(metric))

    def _hear(self, key: _Stream, alarms: Iterable[Alarm]) -> None:
        for alarm in alarms:
            if alarm.kind == "resolved":
                self._alarms.pop((key, alarm.rule), None)
            elif alarm.kind == "opened" or (key, alarm.rule) in self._alarms:
                self._alarms[(key, alarm.rule)] = alarm

    def progress(self) -> Progress:
        return Progress({key: tuple(stream.lines) for key, stream in self._streams.items()})

    def findings(self, pack: Pack) -> tuple[Finding, ...]:
        """One finding a rule: of the stream in which it began first."""
        for key, stream in self._streams.items():
            self._hear(key, stream.end())
        if not self._alarms and self._streams:
            from doctor.detect.excerpt import judge_excerpt

            for key, few in self._few.items():
                self._hear(key, judge_excerpt(few))
        found: dict[str, Finding] = {}
        for place in sorted(self._alarms, key=lambda item: (_onset(self._alarms[item]), str(item))):
            alarm = self._alarms[place]
            rule = pack.get(alarm.rule)
            if rule is not None and alarm.rule not in found:
                found[alarm.rule] = finding_of_alarm(alarm, rule)
        return tuple(found[rule] for rule in sorted(found))


def _onset(alarm: Alarm) -> int:
    return alarm.onset if alarm.onset is not None else 0


def finding_of_alarm(alarm: Alarm, rule: TextRule) -> Finding:
    """The finding that an alarm of a detector stands for."""
    values = values_of(rule, {})
    values.update((name, value if isinstance(value, (str, int, Text)) else str(value)) for name, value in alarm.values)
    finding = finding_of(rule, values, alarm.evidence)
    return finding.with_(
        message=filled(alarm.message, values) if alarm.message is not None else finding.message,
        severity=alarm.severity or finding.severity,
        confidence=finding.confidence if alarm.confidence is None else alarm.confidence,
    )
