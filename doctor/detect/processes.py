"""Who left the run, and how: killed, hung, or only a victim; told from what each log says and where it ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Optional

from doctor.detect.alarm import Alarm
from doctor.finding import Evidence, Severity, Text

#: steps by which a rank must be behind all others before it is said to have stopped first
BEHIND = 2
#: ranks that must have written into a log before it is one that they share
SHARED = 2


@dataclass
class Trace:
    """What one log says of its process. `last` is its last step line, `place` its last line of any kind."""

    source: str
    rank: Optional[int] = None
    scheduler: bool = False
    last: Optional[Evidence] = None
    place: Optional[Evidence] = None
    #: the number of steps that the run announced
    total: Optional[int] = None
    #: the least distance between two printed steps
    stride: int = 1
    finished: bool = False
    #: first line that says that something failed in this process
    failed: Optional[Evidence] = None
    #: the exception that the log ends with
    raised: Optional[Evidence] = None
    #: it says that it waited for a peer in vain; a rule knows what else it says
    waited: bool = False
    known: bool = False
    pid: Optional[int] = None
    node: Optional[int] = None
    peer_lost: Optional[Evidence] = None
    peer_waited_for: Optional[Evidence] = None
    scheduler_lost: Optional[Evidence] = None
    #: node -> the line that says that it timed out or left (of a scheduler)
    timed_out: dict[int, Evidence] = field(default_factory=dict)
    left: dict[int, Evidence] = field(default_factory=dict)
    alive: Optional[int] = None
    #: node -> rank (of a scheduler)
    ranks: dict[int, int] = field(default_factory=dict)
    #: pid -> (exit code, the launcher's line)
    exits: dict[int, tuple[int, Evidence]] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return self.finished or (
            self.total is not None
            and self.last is not None
            and self.last.step is not None
            and self.last.step > self.total - self.stride
        )


def judge(traces: Sequence[Trace], resume: Optional[Text] = None) -> list[Alarm]:
    """The processes of a run that is over. `resume` says from which checkpoint to go on, when one is known."""
    shared = Counter(trace.source for trace in traces if trace.rank is not None)
    # Of a log that ranks share, the lines that name none are the launcher's.
    workers = [
        trace for trace in traces if not (trace.scheduler or (trace.rank is None and shared[trace.source] >= SHARED))
    ]
    said = _lost_scheduler(traces, workers)
    if not said:
        said = [*_killed(traces, workers), *_hung(traces, workers)]
    if not said:
        said = _failed_by_itself(workers)
    if not said:
        said = _stopped_first(workers)
    return [*said, *_ended_early(workers, resume)]


#: signals that no user sends to stop a run
_DEADLY = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV"}


def judge_exit(code: int, traces: Sequence[Trace], explained: bool) -> list[Alarm]:
    """The end of a command with `code`, negative for a signal. `explained`: something was found that may be the cause."""
    latest = max(traces, key=_step, default=None)
    places = tuple(trace.place for trace in traces if trace.place is not None)
    if code < 0:
        if -code not in _DEADLY:
            return []
        name = _DEADLY[-code]
        how = Text(f"signal {-code} ({name})", f"信号 {-code}（{name}）")
        at = _at(latest) if latest is not None else Text("early", "开头")
        return [Alarm("opened", "RUN-END-004", None, places[:2], (("how", how), ("at", at)))]
    if explained:
        return []
    last = next((place.text for place in places if place.source.startswith("<")), None)
    return [Alarm("opened", "RUN-END-005", None, places[:2], (("code", code), ("last", last or "-")))]


def judge_raised(traces: Sequence[Trace]) -> list[Alarm]:
    """A run that ends in a traceback, where nothing else that was found says why."""
    failed = [
        trace
        for trace in traces
        if trace.failed is not None
        and trace.raised is not None
        and not trace.complete
        and _line(trace) > (trace.last.line or 0 if trace.last is not None else 0)
    ]
    if not failed or any(trace.complete for trace in traces if trace.last is not None):
        return []
    first = min(failed, key=lambda trace: (_step(trace), _number(trace), trace.source))
    assert first.raised is not None and first.failed is not None
    values = (("at", _at(first)), ("text", first.raised.text or "?"))
    step = first.last.step if first.last is not None else None
    return [Alarm("opened", "RUN-END-007", step, (first.raised, first.failed), values)]


def _lost_scheduler(traces: Sequence[Trace], workers: Sequence[Trace]) -> list[Alarm]:
    lost = [trace.scheduler_lost for trace in workers if trace.scheduler_lost is not None]
    registered = [trace for trace in workers if trace.scheduler_lost is not None and trace.node is not None]
    schedulers = [trace for trace in traces if trace.scheduler]
    alive = [trace for trace in schedulers if trace.failed is not None or trace.timed_out or trace.left]
    if not registered or not schedulers or alive:
        return []
    evidence = [*lost[:3], *(trace.place for trace in schedulers if trace.place is not None)]
    return [Alarm("opened", "RUN-END-003", None, tuple(evidence))]


def _exit_codes(traces: Sequence[Trace]) -> dict[int, tuple[int, Evidence]]:
    found: dict[int, tuple[int, Evidence]] = {}
    for trace in traces:
        found.update(trace.exits)
    return found


def _killed(traces: Sequence[Trace], workers: Sequence[Trace]) -> list[Alarm]:
    """A worker without an error of its own whose launcher saw a signal, or whose node the scheduler missed."""
    codes = _exit_codes(traces)
    missing: dict[int, Evidence] = {}
    for trace in traces:
        for node, seen in trace.timed_out.items():
            missing.setdefault(trace.ranks.get(node, node), seen)
    said = []
    for trace in workers:
        if trace.failed is not None or trace.complete:
            continue
        exit_ = codes.get(trace.pid) if trace.pid is not None else None
        code = exit_[0] if exit_ is not None else 0
        line = exit_[1] if exit_ is not None else None
        gone = missing.get(trace.rank) if trace.rank is not None else None
        # Signal 15 is what the launcher sends to the rest when one has died.
        if code in (-9, -7, -6, -11) or gone is not None:
            evidence = [item for item in (trace.place, line, gone) if item is not None]
            evidence.extend(other.peer_lost for other in workers if other.peer_lost is not None and other is not trace)
            how = Text(f"signal {-code}", f"信号 {-code}") if code < 0 else Text("it vanished", "进程消失")
            said.append(
                Alarm(
                    "opened",
                    "RUN-END-002",
                    trace.last.step if trace.last else None,
                    tuple(evidence[:4]),
                    (("rank", _rank(trace)), ("how", how), ("at", _at(trace))),
                    Severity.FATAL,
                )
            )
    return said


#: of a silent rank that no scheduler tells of
_UNSEEN = (
    ("state", Text("is silent (it hangs, or was killed without a word)", "没有输出（挂起，或被直接杀掉）")),
    ("alive", Text(": whether its process is alive tells which", "：看进程是否还在即可区分")),
)


def _hung(traces: Sequence[Trace], workers: Sequence[Trace]) -> list[Alarm]:
    """The one that is silent while others give up waiting for it."""
    waited = [trace for trace in workers if trace.peer_waited_for is not None]
    silent = [
        trace for trace in workers if trace.failed is None and trace.peer_waited_for is None and not trace.complete
    ]
    most, known = len(workers) // 2, bool(waited)
    if not waited:
        # Collectives on the device say so in other words, which rules know.
        waited, most = [trace for trace in workers if trace.waited and trace.failed is not None], len(workers) // 8
        silent = [trace for trace in silent if not trace.waited and not trace.known and trace.last is not None]
    if not waited or not silent or len(silent) > max(1, most) or len(waited) < len(workers) // 2:
        return []
    gone = {rank for trace in traces for node in trace.timed_out for rank in (trace.ranks.get(node, node),)}
    said = []
    for trace in silent:
        if trace.rank in gone:
            continue
        line = waited[0].peer_waited_for or waited[0].failed
        evidence = [item for item in (trace.place, line) if item is not None]
        said.append(
            Alarm(
                "opened",
                "RUN-HANG-003",
                trace.last.step if trace.last else None,
                tuple(evidence),
                (("rank", _rank(trace)), ("at", _at(trace)), *(() if known else _UNSEEN)),
                confidence=None if known else 0.7,
            )
        )
    return said[:1]


def _failed_by_itself(workers: Sequence[Trace]) -> list[Alarm]:
    """The one whose error no rule knows, while all others only say that a peer did not come."""
    waiting = [trace for trace in workers if trace.waited]
    own = [
        trace
        for trace in workers
        if trace.failed is not None
        and trace.place is not None
        and not (trace.waited or trace.known or trace.complete)
        and _begins(trace, workers)
    ]
    if len(waiting) < 2 or not own or len(own) > max(1, len(waiting) // 4):
        return []
    first = min(own, key=lambda trace: (_step(trace), _number(trace)))
    evidence = tuple(item for item in (first.place, first.failed) if item is not None)
    text = (first.place.text or "?") if first.place is not None else "?"
    values = (("rank", _rank(first)), ("at", _at(first)), ("text", text), ("others", len(waiting)))
    return [Alarm("opened", "RUN-END-006", first.last.step if first.last else None, evidence, values)]


def _begins(trace: Trace, workers: Sequence[Trace]) -> bool:
    """Whether no other rank in the same log failed on a line before. Of ranks that share a log, not all errors are kept."""
    own = _line(trace)
    return all(_line(other) >= own for other in workers if other.source == trace.source and other.failed is not None)


def _line(trace: Trace) -> int:
    return (trace.failed.line or 0) if trace.failed is not None else 0


def _stopped_first(workers: Sequence[Trace]) -> list[Alarm]:
    """The rank whose last step is lower than that of all others."""
    running = [trace for trace in workers if trace.last is not None and trace.last.step is not None]
    if len({trace.rank for trace in running}) < 2 or all(trace.complete for trace in running):
        return []
    reached: dict[int, Trace] = {}
    for trace in running:
        best = reached.get(_number(trace))
        if best is None or _step(trace) > _step(best):
            reached[_number(trace)] = trace
    order = sorted(reached.values(), key=lambda trace: (_step(trace), _number(trace)))
    first, rest = order[0], order[1:]
    if not rest or first.complete:
        return []
    stride = max(trace.stride for trace in order)
    if _step(rest[0]) - _step(first) < BEHIND * stride:
        return []
    evidence = [first.last, rest[-1].last]
    return [
        Alarm(
            "opened",
            "RUN-HANG-002",
            _step(first),
            tuple(item for item in evidence if item is not None),
            (("rank", _rank(first)), ("step", _step(first)), ("others", _step(rest[-1]))),
        )
    ]


def _ended_early(workers: Sequence[Trace], resume: Optional[Text]) -> list[Alarm]:
    # Of ranks that share a log, not the errors of all are kept.
    failing = {trace.source for trace in workers if trace.failed is not None}
    early = [
        trace
        for trace in workers
        if not trace.complete and trace.source not in failing and trace.total is not None and trace.last is not None
    ]
    if not early or any(trace.complete for trace in workers):
        return []
    first = min(early, key=lambda trace: (_step(trace), _number(trace)))
    values: list[tuple[str, object]] = [("step", _step(first)), ("total", first.total)]
    if resume is not None:
        values.append(("resume", resume))
    evidence = tuple(item for item in (first.last, first.place) if item is not None)
    return [Alarm("opened", "RUN-END-001", _step(first), evidence, tuple(values))]


def _step(trace: Trace) -> int:
    return (trace.last.step or 0) if trace.last is not None else 0


def _number(trace: Trace) -> int:
    return -1 if trace.rank is None else trace.rank


def _rank(trace: Trace) -> object:
    return "?" if trace.rank is None else trace.rank


def _at(trace: Trace) -> Text:
    if trace.last is not None and trace.last.step is not None:
        return Text(f"at step {trace.last.step}", f"第 {trace.last.step} 步")
    line = trace.place.line if trace.place is not None else None
    return Text(f"at line {line}", f"第 {line} 行") if line else Text("early", "开头")
