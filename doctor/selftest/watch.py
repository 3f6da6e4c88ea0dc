"""Short real trainings of a small network, healthy and with planted faults, read as ``doctor watch --once`` reads a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from doctor.selftest.faults import KINDS
from doctor.selftest.network import NumpyNetwork
from doctor.selftest.runs import Run, faulty, healthy
from doctor.selftest.training import Networks, make
from doctor.selftest.trial import GIVEN, HEALTHY, Raised, Result, Room, Trial, worth_telling

if TYPE_CHECKING:
    from doctor.finding import Finding
    from doctor.match.finder import Finder
    from doctor.match.pack import Pack

#: healthy trainings for each run that is asked for of a kind
CALM = 16
_NETWORKS = Networks(NumpyNetwork)


def trials(seed: int, runs: int) -> Iterator[Trial]:
    """`runs` of each kind, and healthy ones; their seeds follow from `seed`."""
    for kind in KINDS:
        for number in range(seed * runs, (seed + 1) * runs):
            yield Trial("watch", kind, str(number), number)
    for number in range(seed * runs * CALM, (seed + 1) * runs * CALM):
        yield Trial("watch", HEALTHY, str(number), number)


def perform(trial: Trial, room: Room) -> list[Result]:
    """Trains, with the fault planted, and judges the logs."""
    if trial.kind == GIVEN:
        given = judge(Path(trial.case), room.pack, room.finder)
        return [Result(trial, alarms=tuple(Raised.of(finding) for finding in given if worth_telling(finding)))]
    kind = KINDS.get(trial.kind)
    rules = kind.rules if kind is not None else ()

    def fresh() -> Run:
        return healthy(trial.seed) if kind is None else faulty(kind, trial.seed)

    made = make(fresh, _NETWORKS, room.folder)
    if made is None:
        return [Result(trial, rules, hidden=True)]
    said = judge(room.folder, room.pack, room.finder)
    raised = tuple(Raised.of(finding) for finding in said if worth_telling(finding))
    if kind is None:
        return [Result(trial, alarms=raised)]
    steps = [last_step(finding) for finding in said if finding.rule in rules]
    others = tuple(item.rule for item in raised if item.rule not in rules)
    delay = max(0, min(steps) - made.onset) if steps else None
    return [Result(trial, rules, bool(steps), delay, hidden=kind.out_of_reach and not steps, instead=others)]


def judge(folder: Path, pack: Pack, finder: Optional[Finder]) -> list[Finding]:
    """What is opened on the logs of a run folder, in order."""
    from doctor.session import DiagnosisSession, Event
    from doctor.session.reading import read_run

    said: list[Finding] = []

    def tell(event: Event) -> None:
        if event.kind == "opened":
            said.append(event.finding)

    read_run(DiagnosisSession(pack, finder=finder), [str(folder)], tell)
    return said


def last_step(finding: Finding) -> int:
    """The last step that the evidence of a finding is from."""
    return max((item.step for item in finding.evidence if item.step is not None), default=0)
