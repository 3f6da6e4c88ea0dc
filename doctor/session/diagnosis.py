"""Bytes to findings: the step records go to detectors, the lines to rules, and what both say is reasoned about."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Optional, Union

from doctor.detect.alarm import Alarm
from doctor.detect.facts import RunFacts
from doctor.detect.host import Host, HostSample
from doctor.detect.processes import judge as judge_processes
from doctor.detect.processes import judge_exit, judge_raised
from doctor.detect.ranks import POINTS
from doctor.detect.ranks import judge as judge_ranks
from doctor.detect.stream import RankStream
from doctor.finding import Finding, Severity
from doctor.match.aside import Progress
from doctor.match.finder import Finder
from doctor.match.pack import Pack
from doctor.match.reason import evidence_of
from doctor.match.scan import Scanner
from doctor.records.discover import KINDS
from doctor.records.metrics import NOTHING, WORDS, MetricReader
from doctor.records.record import Chunk, Metric, Notice
from doctor.session.advice import Saves, advised, placed, resume_words
from doctor.session.echoed import Echo, Echoes
from doctor.session.forewarned import forewarned, warnings_of, worth_telling
from doctor.session.incidents import Event, Incidents, Origin
from doctor.session.kept import Kept
from doctor.session.lifecycle import Mark, mark_id, note, split, with_marks
from doctor.session.traces import Source, Traces, family

if TYPE_CHECKING:
    from doctor.records.block import MetricBlock
    from doctor.session.parallel import Part

    Records = Union[Metric, MetricBlock]

#: points of all rank curves together
MOST_POINTS = 1 << 17
#: seconds between two comparisons of ranks while a run is followed, and the part of the time that they may take
COMPARE_EVERY, COMPARE_SHARE = 5.0, 0.005
#: the comparisons across ranks and the last judgement on processes raise alarms under these names
_SAVED = mark_id("saved")
#: as ``doctor train`` keeps it in the configuration of a run; a log may print this name for anything
_MAX_STEPS = re.compile(rb"^ *(?:max_steps|total_steps): *(\d{1,12})[ \t]*$", re.MULTILINE)
#: kinds of logs that hold no step lines
_STEPLESS = ("error", "scheduler", "device")
RANKS: Origin = ("ranks", None)
PROCESSES: Origin = ("processes", None)
HOST: Origin = ("host", None)


class DiagnosisSession:
    """`eager` is for watching live: what the lines say is reasoned about at once rather than at the end.
    `on_metric` is called with each step record that counts, and `on_block`, when it is given, in its stead with those that
    were read together; `place` stands for PATH in commands that are given."""

    def __init__(
        self,
        pack: Pack,
        *,
        eager: bool = False,
        on_metric: Optional[Callable[[Metric], None]] = None,
        finder: Union[str, Finder, None] = None,
        place: str = "PATH",
    ) -> None:
        self.pack = pack
        self.place = place
        self.facts = RunFacts()
        self.eager = eager
        self.on_metric = on_metric
        self.on_block: Optional[Callable[[MetricBlock], None]] = None
        self.scanner = Scanner(with_marks(pack), finder=finder, words=WORDS)
        self.reader = MetricReader()
        self.incidents = Incidents(pack)
        self.saves = Saves()
        self.traces = Traces()
        self.notices: list[Notice] = []
        #: every alarm in order, when somebody wants them: who put parts together
        self.alarms: Optional[list[tuple[Origin, Alarm]]] = None
        self.sources: dict[str, Source] = {}
        self.streams: dict[Origin, RankStream] = {}
        #: rank -> the best kind of log (index in KINDS) that has given its steps
        self._kinds: dict[Optional[int], int] = {}
        self._kept = Kept(pack, self.traces)
        #: what was last said of each rule that is open
        self._said: dict[str, Finding] = {}
        self._compare_next = 0.0
        self._compared: dict[str, Alarm] = {}
        self.ended = False
        self._code: Optional[int] = None
        self._host = Host(self.facts)
        #: the configuration of the run, and what the checks say of it once somebody asks
        self.config: Optional[Path] = None
        self._warnings: Optional[tuple[Finding, ...]] = None
        #: the configuration that the run printed
        self._echoes = Echoes()

    # what comes in

    def feed(self, item: Union[Chunk, Notice]) -> list[Event]:
        """Events of a chunk of a log, or of a notice about one."""
        if isinstance(item, Notice):
            self.notices.append(item)
            return []
        source = self.sources.get(item.source)
        if source is None:
            source = self.sources[item.source] = Source(item.source, item.rank)
            self.traces.of(source.family, item.rank)
        source.read(item)
        reading = NOTHING if source.kind in _STEPLESS else self.reader.read(item, self.scanner)
        marks, hits = split(self.scanner.scan(item, reading.seen))
        self._forget_tallies(item.source)
        self._echoes.take(item, marks)
        events = list(self._in_order(source, reading.records, marks))
        if hits:
            self._kept.add(hits)
        if self.eager and (hits or (events and self._kept.hits)):
            events.extend(self._reason())
        return events

    def given(self, name: str, text: bytes) -> None:
        """Settings from a configuration: only what it says of the run counts."""
        most = _MAX_STEPS.search(text)
        if most is not None:
            self.facts.max_steps = int(most[1]) or None
        marks, _ = split(Scanner(with_marks(self.pack)).scan(Chunk(name, text, 0, 1)))
        for mark in marks:
            note(self.facts, mark)

    def tick(self, now: float) -> list[Event]:
        """`now` in seconds, from a clock that only goes forward. Call it some times a second."""
        events: list[Event] = []
        for origin, stream in self.streams.items():
            for alarm in stream.tick(now):
                events.extend(self._take(origin, alarm))
        if now >= self._compare_next:
            began = process_time()
            events.extend(self._compare())
            self._compare_next = now + max(COMPARE_EVERY, (process_time() - began) / COMPARE_SHARE)
        return events

    def host(self, sample: HostSample) -> list[Event]:
        """Events of a look at the machine that the run is on."""
        return [event for alarm in self._host.feed(sample) for event in self._take(HOST, alarm)]

    def command_ended(self, code: int) -> None:
        """The command that wrote the logs has ended with this code, negative for a signal."""
        self._code = code

    def finish(self, source: str) -> list[Event]:
        """A log has been read to its end and will not grow."""
        marks, hits = split(self.scanner.finish(source))
        events = list(self._in_order(self.sources[source], [], marks)) if source in self.sources else []
        self._kept.add(hits)
        if self.eager and hits:
            events.extend(self._reason())
        return events

    def end(self, over: bool = True) -> list[Event]:
        """Nothing more will be fed. `over` is False when the run goes on though we stop looking."""
        events: list[Event] = []
        for name in list(self.sources):
            events.extend(self.finish(name))
        for origin, stream in self.streams.items():
            for alarm in stream.end():
                events.extend(self._take(origin, alarm))
        events.extend(self._compare())
        if over:
            events.extend(self._judge_processes())
        events.extend(self._reason())
        self.ended = True
        return events

    # what is known

    def findings(self) -> tuple[Finding, ...]:
        """What is open, the likeliest cause first, then as information what was over before the end."""
        found = [self._advised(finding) for finding in self._reasoned()]
        return (*found, *(placed(finding, self.place) for finding in self.incidents.closed()))

    def open_findings(self) -> tuple[Finding, ...]:
        """What was last said of each rule that is open, in the order of ids."""
        return tuple(self._said[rule] for rule in sorted(self._said))

    @property
    def verdict(self) -> str:
        """ok, warning or error, from what is open."""
        worst = max((finding.severity.rank for finding in self._said.values()), default=0)
        return ("ok", "warning", "error", "error")[worst]

    @property
    def printed(self) -> Optional[Echo]:
        """The configuration that the run printed into its log, if it did."""
        return self._echoes.echo

    @property
    def run_ended(self) -> bool:
        """Whether the logs say that the run is over: every rank with steps has finished or made its last one."""
        if self.traces.all_finished:
            return True
        if not self.streams:
            return False
        for stream in self.streams.values():
            if stream.last is not None:
                self.traces.step(stream.last, stream.stride, self.facts.announced(stream.last))
        return all(self.traces.of(*origin).complete for origin in self.streams)

    @property
    def lines(self) -> int:
        return sum(source.lines for source in self.sources.values())

    @property
    def bytes(self) -> int:
        return sum(source.bytes for source in self.sources.values())

    # inside

    def _in_order(self, source: Source, records: Sequence[Records], marks: Sequence[Mark]) -> Iterator[Event]:
        """Marks and step records in the order of their lines, so that settings are known before the steps they rule."""
        waiting = list(marks)
        for item in records:
            for part in _cut(item, [mark.hit.line for mark in waiting]):
                first = part.line if isinstance(part, Metric) else int(part.lines[0])
                while waiting and waiting[0].hit.line <= first:
                    yield from self._mark(waiting.pop(0))
                yield from self._steps(source, part)
        for mark in waiting:
            yield from self._mark(mark)

    def _steps(self, source: Source, records: Records) -> Iterator[Event]:
        if isinstance(records, Metric):
            stream = self._stream(source, records.rank)
            if stream is None:
                return
            if self.on_metric is not None:
                self.on_metric(records)
            for alarm in stream.feed(records):
                yield from self._take((source.family, records.rank), alarm)
            return
        if "rank" in records.columns:
            yield from self._steps_of_ranks(source, records)
            return
        stream = self._stream(source, records.rank)
        if stream is None:
            return
        from doctor.detect.bulk import feed_block

        self._tell_block(records)
        for alarm in feed_block(stream, records):
            yield from self._take((source.family, records.rank), alarm)

    def _tell_block(self, records: MetricBlock) -> None:
        if self.on_block is not None:
            self.on_block(records)
        elif self.on_metric is not None:
            for metric in records:
                self.on_metric(metric)

    def _steps_of_ranks(self, source: Source, records: MetricBlock) -> Iterator[Event]:
        """Each rank's steps go to its own stream; what is said of them comes in the order of their lines."""
        if self.on_metric is not None and self.on_block is None:
            for metric in records:
                yield from self._steps(source, metric)
            return
        from doctor.detect.bulk import feed_block

        said: list[tuple[int, Origin, Alarm]] = []
        for part in records.by_rank():
            stream = self._stream(source, part.rank)
            if stream is not None:
                self._tell_block(part)
                for alarm in feed_block(stream, part):
                    assert stream.last is not None
                    said.append((stream.last.line, (source.family, part.rank), alarm))
        for _, origin, alarm in sorted(said, key=lambda item: item[0]):
            yield from self._take(origin, alarm)

    def _stream(self, source: Source, rank: Optional[int]) -> Optional[RankStream]:
        """The stream that step records of a rank in a log belong to; None when a better log of that rank has them."""
        kind = KINDS.index(source.kind)
        best = self._kinds.setdefault(rank, kind)
        if kind != best:
            if kind > best:
                return None
            self._kinds[rank] = kind
            self._give_way(rank)
        origin = (source.family, rank)
        stream = self.streams.get(origin)
        if stream is None:
            stream = self.streams[origin] = RankStream(source.family, rank, self.facts)
            self._share_points()
        return stream

    def _give_way(self, rank: Optional[int]) -> None:
        """A better log of the rank has turned up and tells its steps from the first: what the one before it has
        raised is taken back without a word, or it would stand for ever."""
        for origin in [known for known in self.streams if known[1] == rank]:
            del self.streams[origin]
            self.incidents.forget(origin)

    def _mark(self, mark: Mark) -> Iterator[Event]:
        note(self.facts, mark)
        hit = mark.hit
        self.traces.mark(mark, hit.rank)
        if mark.name != "saved":
            return
        origin = (family(hit.source), hit.rank)
        stream = self.streams.get(origin)
        step = mark.integer("step")
        if step is None:
            return
        epoch = mark.integer("epoch")
        if epoch and stream is not None and stream.last is not None and stream.last.steps:
            step += (epoch - 1) * stream.last.steps
        self.saves.add(step, mark.text("path"))
        seconds = mark.real("seconds")
        if stream is not None and seconds is not None:
            for alarm in stream.saved(seconds):
                yield from self._take(origin, alarm)

    def _share_points(self) -> None:
        limit = max(64, min(POINTS, MOST_POINTS // max(1, len(self.streams))))
        for stream in self.streams.values():
            if limit < stream.curve.limit:
                stream.curve.shrink(limit)

    def part(self) -> Part:
        """What was found in some of the logs of a run, to be put together with the others by `absorb`."""
        from doctor.session.parallel import Part

        return Part(
            self.facts,
            self.alarms or [],
            self.streams,
            self.sources,
            self.traces,
            self.saves,
            self._kept.hits,
            self.scanner.tallies,
            self.notices,
            self._echoes,
        )

    def absorb(self, part: Part) -> list[Event]:
        """Takes over what another session has found in other logs of the same run."""
        for name, value in vars(part.facts).items():
            if getattr(self.facts, name) is None:
                setattr(self.facts, name, value)
        self.sources.update(part.sources)
        self.streams.update(part.streams)
        self.traces.absorb(part.traces)
        self.saves.absorb(part.saves)
        self._echoes.absorb(part.echoes)
        self.scanner.tallies.update(part.tallies)
        self.notices.extend(part.notices)
        self._kept.add(part.hits)
        self._share_points()
        return [event for origin, alarm in part.alarms for event in self._take(origin, alarm)]

    def _take(self, origin: Origin, alarm: Alarm) -> Iterator[Event]:
        if self.alarms is not None:
            self.alarms.append((origin, alarm))
        for event in self.incidents.take(origin, alarm):
            rule = event.finding.rule
            if event.kind == "resolved":
                self._said.pop(rule, None)
                yield event
                continue
            finding = self._advised(event.finding)
            known = self._said.get(rule)
            if known is not None:
                finding = finding.with_(root_cause=known.root_cause, explains=known.explains)
            self._said[rule] = finding
            yield Event(event.kind if known is None else "updated", finding, event.times)

    def _compare(self) -> Iterator[Event]:
        if len(self.streams) < 2:
            return
        found = {alarm.rule: alarm for alarm in judge_ranks([item.curve for item in self.streams.values()])}
        for rule in sorted(set(self._compared) - set(found)):
            yield from self._take(RANKS, _resolved(self._compared[rule]))
        for rule, alarm in sorted(found.items()):
            if self._compared.get(rule) != alarm:
                yield from self._take(RANKS, alarm)
        self._compared = found

    def _judge_processes(self) -> Iterator[Event]:
        for stream in self.streams.values():
            if stream.last is not None:
                self.traces.step(stream.last, stream.stride, self.facts.announced(stream.last))
        for hit in self._kept.failures(self._progress()):
            self.traces.failed(hit.source, hit.rank, evidence_of(hit))
        if self._code == 0:
            self.traces.all_finished = True
        traces = self.traces.finish(self.sources.values())
        alarms = judge_processes(traces, resume_words(self.saves.last()))
        explained = any(finding.severity.at_least(Severity.ERROR) for finding in self._reasoned())
        if not explained and not alarms:
            alarms.extend(judge_raised(traces))
        if self._code:
            alarms.extend(judge_exit(self._code, traces, explained or bool(alarms)))
        for alarm in alarms:
            yield from self._take(PROCESSES, alarm)

    def _progress(self) -> Progress:
        return Progress({origin: tuple(stream.lines) for origin, stream in self.streams.items()})

    def _reasoned(self) -> tuple[Finding, ...]:
        return self._kept.reasoned(self.incidents.open(), self._progress(), self.scanner.tallies)

    def _reason(self) -> Iterator[Event]:
        """What has changed in the light of everything seen so far."""
        found = {finding.rule: self._advised(finding) for finding in self._reasoned()}
        for rule, finding in found.items():
            known = self._said.get(rule)
            if known is None:
                yield Event("opened", finding)
            elif _differs(known, finding):
                yield Event("updated", finding)
        for rule in sorted(set(self._said) - set(found)):
            yield Event("resolved", self._said[rule].with_(severity=Severity.INFO))
        self._said = found

    def _advised(self, finding: Finding) -> Finding:
        return placed(advised(self._told(finding), self.incidents.onset(finding.rule), self.saves), self.place)

    def _told(self, finding: Finding) -> Finding:
        return forewarned(finding, self._warned(), printed=self.config is None)

    def _warned(self) -> tuple[Finding, ...]:
        """What the checks say of the configuration that was given, else of the one that the run printed."""
        if self._warnings is None:
            if self.config is not None:
                self._warnings = warnings_of(self.config)
            elif self._echoes.echo is not None:
                self._warnings = worth_telling(self._echoes.echo.warnings())
        return self._warnings or ()

    def _forget_tallies(self, source: str) -> None:
        """Saves are wanted each time, however often: the scanner's count of them begins again."""
        tally = self.scanner.tallies.get((_SAVED, source))
        if tally is not None:
            tally.count = 0


def _cut(item: Records, lines: Sequence[int]) -> Iterator[Records]:
    """A block in parts, so that none reaches over one of the lines."""
    if isinstance(item, Metric) or not lines:
        yield item
        return
    done = 0
    for line in lines:
        at = int(item.lines.searchsorted(line))
        if done < at < len(item):
            yield item.part(done, at)
            done = at
    yield item.part(done, len(item)) if done else item


def _differs(before: Finding, now: Finding) -> bool:
    """Whether a reader should be told again."""
    return (before.severity, before.root_cause, before.explains, before.title) != (
        now.severity,
        now.root_cause,
        now.explains,
        now.title,
    )


def _resolved(alarm: Alarm) -> Alarm:
    return Alarm("resolved", alarm.rule, alarm.onset, alarm.evidence, alarm.values, Severity.INFO)
