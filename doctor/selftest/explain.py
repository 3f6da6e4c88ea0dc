"""The rules' own examples, of the program and of the user: each is planted in a healthy log and read as a stream of lines."""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Optional

from doctor.finding import Finding
from doctor.match.installed import installed_packs
from doctor.match.pack import rule_paths, rules_folder
from doctor.match.rulefile import RuleError, read_rule
from doctor.match.textrule import Example, RuleFile
from doctor.records.record import Chunk
from doctor.selftest.logs import KINDS, healthy_lines
from doctor.selftest.trial import HEALTHY, INSTALLED, OWN, Raised, Result, Room, Trial, worth_telling
from doctor.session import DiagnosisSession

#: what launchers put before each line of a rank: nothing, torchrun, mpirun
PREFIXES = ("", "[rank3]: ", "[1,3]<stderr>:")
#: lines of the log before and behind the planted text
_BEFORE, _BEHIND = (12, 40), (0, 4)
#: healthy logs of each kind, and their lines
_LOGS, _LINES = 2, 1500
#: where a log that nobody wrote to a file is read from
_SOURCE = "rank_3.log"
_ID = re.compile(r"^id: *([A-Z0-9-]+)", re.MULTILINE)


@dataclass(frozen=True)
class Told:
    """A finding and after how many lines it was told."""

    finding: Finding
    after: int


def trials(seed: int, own: Sequence[Path]) -> Iterator[Trial]:
    """One for each rule file, and for each healthy log."""
    for folder in own:
        yield from (Trial("explain", OWN, str(path), seed) for path in rule_paths(folder))
    for folder in installed_packs():
        yield from (Trial("explain", INSTALLED, str(path), seed) for path in rule_paths(folder))
    for path in rule_paths(rules_folder()):
        yield Trial("explain", path.parent.name, str(path), seed)
    for kind in KINDS:
        for number in range(_LOGS):
            yield Trial("explain", HEALTHY, f"{kind}-{number}", seed)


def rule_id(trial: Trial) -> Optional[str]:
    """The id in the rule file of a trial, without reading all of it."""
    if trial.kind == HEALTHY:
        return None
    with contextlib.suppress(OSError, UnicodeDecodeError):
        found = _ID.search(Path(trial.case).read_text(encoding="utf-8"))
        return found.group(1) if found is not None else None
    return None


def perform(trial: Trial, room: Room) -> list[Result]:
    """The examples of one rule file, or one healthy log."""
    if trial.kind == HEALTHY:
        return [_healthy(trial, room)]
    try:
        item = read_rule(Path(trial.case))
    except RuleError as error:
        name = Path(trial.case).name
        return [Result(replace(trial, case=name), found=False, instead=(str(error),), broken=trial.case)]
    if item.rule.match is None:
        return []
    return list(_examples(trial, item, room))


def _healthy(trial: Trial, room: Room) -> Result:
    kind = trial.case.rpartition("-")[0]
    rng = random.Random(f"{trial.seed} {trial.case}")
    told = _read(healthy_lines(rng, kind, _LINES), room)
    return Result(trial, alarms=tuple(Raised.of(item.finding) for item in told if worth_telling(item.finding)))


def _examples(trial: Trial, item: RuleFile, room: Room) -> Iterator[Result]:
    rule = item.rule.id
    known = room.pack.get(rule)
    replaced = known.path if known is not None and known.path != item.rule.path else None
    for number, example in enumerate(item.must_match):
        case = replace(trial, case=f"{rule} match[{number}]")
        log = _Log(example.text, f"{trial.seed} {case.case}")
        told = _read(log.lines, room)
        mine = [it for it in told if it.finding.rule in (rule, example.cause) and log.shows(it.finding, example)]
        # Of two rules on one line the one that says more is told; the fault is found all the same.
        near = [it for it in told if log.shows(it.finding, example) and worth_telling(it.finding)]
        first = (mine or near)[:1]
        delay = max(0, first[0].after - log.place(first[0].finding)) if first else None
        instead = () if mine else tuple(sorted({it.finding.rule for it in told}))
        yield Result(
            case,
            (rule,),
            bool(first),
            delay,
            hidden=replaced is not None and not first,
            instead=instead,
            replaced=replaced,
            source=item.rule.path,
        )
    for number, example in enumerate(item.must_not_match):
        case = replace(trial, case=f"{rule} no_match[{number}]")
        log = _Log(example.text, f"{trial.seed} {case.case}")
        told = _read(log.lines, room)
        # Where another rule of that id goes before this one, what is told is not this one's doing.
        wrong = [it.finding for it in told if it.finding.rule == rule and worth_telling(it.finding) and not replaced]
        yield Result(case, (rule,), alarms=tuple(map(Raised.of, wrong)), source=item.rule.path)


def told_of(text: str, room: Room) -> set[str]:
    """The rules that are told of a text in a healthy log."""
    return {item.finding.rule for item in _read(_Log(text, text).lines, room)}


class _Log:
    """A healthy log of some kind with a text planted at a drawn place, each line behind a prefix."""

    def __init__(self, text: str, seed: str) -> None:
        rng = random.Random(seed)
        kind = rng.choice(("graph", "shapes", "pynative"))
        prefix = rng.choice(PREFIXES)
        before = healthy_lines(rng, kind, rng.randint(*_BEFORE))
        planted = text.rstrip("\n").split("\n")
        behind = healthy_lines(rng, kind, rng.randint(*_BEHIND), 60)
        self.lines = [prefix + line for line in (*before, *planted, *behind)]
        self._first, self._last = len(before) + 1, len(before) + len(planted)

    def shows(self, finding: Finding, example: Example) -> bool:
        """Whether the finding names the line that it must name; where the example leaves that open, any of the text."""
        lines = [item.line for item in finding.evidence if item.line is not None]
        if example.line and example.cause is None:
            return self._first + example.line - 1 in lines
        return any(self._first <= line <= self._last for line in lines)

    def place(self, finding: Finding) -> int:
        """The first line of the planted text that the finding names."""
        return min(
            item.line for item in finding.evidence if item.line is not None and self._first <= item.line <= self._last
        )


def _read(lines: Sequence[str], room: Room, source: str = _SOURCE) -> list[Told]:
    """Feeds the lines one by one, as they are read while they are written, and ends the log."""
    session = DiagnosisSession(room.pack, eager=True, finder=room.finder)
    told: list[Told] = []
    offset = 0
    for number, line in enumerate(lines, 1):
        data = (line + "\n").encode()
        events = session.feed(Chunk(source, data, offset, number))
        told.extend(Told(event.finding, number) for event in events if event.kind != "resolved")
        offset += len(data)
    told.extend(Told(event.finding, len(lines)) for event in session.end(over=False) if event.kind != "resolved")
    return told
