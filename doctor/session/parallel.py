"""Many or large logs, read by one process a core: each judges whole ranks, and what it found is put together.

What lines say about each other across ranks, and the comparison of ranks, is done where everything comes together, by
the same code as when one process reads all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Optional

from doctor.detect.alarm import Alarm
from doctor.detect.facts import RunFacts
from doctor.detect.stream import RankStream
from doctor.errors import UsageError
from doctor.match.finder import Finder, make_finder
from doctor.match.pack import Pack
from doctor.match.scan import Hit, Tally
from doctor.records.discover import LogFile
from doctor.records.metrics import WORDS
from doctor.records.record import Notice
from doctor.session.advice import Saves
from doctor.session.echoed import Echoes
from doctor.session.incidents import Event, Origin
from doctor.session.lifecycle import with_marks
from doctor.session.traces import Source, Traces

#: bytes in all from which starting processes pays
WORTH = 24 << 20
#: logs that one task reads, so that the tasks of large runs are of about one size
TASKS_PER_CORE = 4


@dataclass
class Part:
    """What reading some of the logs has given."""

    facts: RunFacts
    alarms: list[tuple[Origin, Alarm]] = field(default_factory=list)
    streams: dict[Origin, RankStream] = field(default_factory=dict)
    sources: dict[str, Source] = field(default_factory=dict)
    traces: Traces = field(default_factory=Traces)
    saves: Saves = field(default_factory=Saves)
    hits: list[Hit] = field(default_factory=list)
    tallies: dict[tuple[str, str], Tally] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)
    echoes: Echoes = field(default_factory=Echoes)
    events: list[Event] = field(default_factory=list)
    #: the first log that could not be read
    refused: Optional[UsageError] = None
    read: int = 0


def worth_it(logs: Sequence[LogFile]) -> bool:
    """Whether there is enough to read, in more than one log, and more than one core to read it."""
    if len(logs) < 2 or cores() < 2:
        return False
    size = 0
    for log in logs:
        for part in log.parts or (log.path,):
            try:
                size += os.stat(part).st_size
            except OSError:
                continue
    return size >= WORTH


def cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return os.cpu_count() or 1


def read_parts(pack: Pack, facts: RunFacts, logs: Sequence[LogFile]) -> Iterator[Part]:
    """The parts in the order of the logs. All logs of one rank are in one part: they are judged together."""
    from concurrent.futures import ProcessPoolExecutor

    tasks = _tasks(logs, cores() * TASKS_PER_CORE)
    with ProcessPoolExecutor(min(cores(), len(tasks)), initializer=_prepare, initargs=(pack,)) as pool:
        yield from pool.map(_read, [(replace(facts), task) for task in tasks])


def _tasks(logs: Sequence[LogFile], count: int) -> list[list[LogFile]]:
    ranks: dict[Optional[int], list[LogFile]] = {}
    for log in logs:
        ranks.setdefault(log.rank, []).append(log)
    groups = list(ranks.values())
    size = max(1, -(-len(groups) // count))
    return [[log for group in groups[at : at + size] for log in group] for at in range(0, len(groups), size)]


#: of a worker: the rules, and what it has learnt about the lines of the logs that it has read
_KNOWN: list[tuple[Pack, Finder]] = []


def _prepare(pack: Pack) -> None:
    _KNOWN[:] = [(pack, make_finder(with_marks(pack), words=WORDS))]


def _read(task: tuple[RunFacts, list[LogFile]]) -> Part:
    from doctor.session.diagnosis import DiagnosisSession
    from doctor.session.reading import read_logs

    facts, logs = task
    pack, finder = _KNOWN[0]
    session = DiagnosisSession(pack, finder=finder)
    session.facts.__dict__.update(facts.__dict__)
    session.alarms = []
    events: list[Event] = []
    refused, done = read_logs(session, logs, events.append)
    part = session.part()
    part.events, part.refused, part.read = events, refused, done
    return part
