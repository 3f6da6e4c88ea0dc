"""What all parts of the self-test share: a trial plants one fault, or none, and a result says what the doctor made of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from doctor.finding import Evidence, Finding, Severity

if TYPE_CHECKING:
    from doctor.match.finder import Finder
    from doctor.match.pack import Pack

#: in the order in which they are shown
PARTS = ("watch", "explain", "config", "weights", "data", "live")
#: the kind of trials that nothing is planted in
HEALTHY = "healthy"
#: and of logs that the user says are healthy
GIVEN = "your-runs"
#: the kinds of rules that are not the program's own
OWN, INSTALLED = "own-rules", "installed-rules"


@dataclass(frozen=True)
class Trial:
    """One thing to be judged. `case` repeats it: ``--only PART/KIND`` and the case name one trial and no other."""

    part: str
    kind: str
    case: str
    seed: int = 0


@dataclass(frozen=True)
class Raised:
    """What was raised that ought not to have been, and where."""

    rule: str
    severity: str
    place: Evidence

    @classmethod
    def of(cls, finding: Finding) -> Raised:
        place = finding.place or Evidence("value", "-")
        return cls(finding.rule, finding.severity.value, place)


@dataclass(frozen=True)
class Result:
    """`rules` are those that may name the fault. `found` is None where nothing was planted, or where nothing is to be seen
    of it (`hidden`). `delay` counts steps (watch) or lines (explain) from the fault to what is told of it."""

    trial: Trial
    rules: tuple[str, ...] = ()
    found: Optional[bool] = None
    delay: Optional[int] = None
    alarms: tuple[Raised, ...] = ()
    hidden: bool = False
    #: what was raised instead, or why it went wrong, for those who look into it
    instead: tuple[str, ...] = ()
    #: an exception of ours: its type, words and place
    crash: Optional[str] = None
    #: the file of the rule, when it cannot be read
    broken: Optional[str] = None
    #: the file of the rule that is tried
    source: Optional[str] = None
    #: the file of another rule of the same id that goes before it
    replaced: Optional[str] = None
    #: milliseconds from a written line to its alert (live)
    delays_ms: tuple[float, ...] = ()


@dataclass(frozen=True)
class Room:
    """What trials work with: the rules, a folder of their own, the settings file that child processes are to be given, and a
    finder that all sessions of a process share."""

    pack: Pack
    folder: Path
    settings: Optional[str] = None
    finder: Optional[Finder] = None


def anywhere(result: Result, folder: Path) -> Result:
    """The result without the name of the folder that it was made in, which is another one each time."""
    lead = f"{folder}/"
    return replace(
        result,
        alarms=tuple(
            replace(item, place=replace(item.place, source=item.place.source.replace(lead, "")))
            for item in result.alarms
        ),
        instead=tuple(item.replace(lead, "") for item in result.instead),
        crash=result.crash and result.crash.replace(lead, ""),
    )


def worth_telling(finding: Finding) -> bool:
    """Whether a finding on something healthy is a false alarm."""
    return finding.severity.at_least(Severity.WARNING)
