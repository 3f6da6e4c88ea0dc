"""The result of a command, independent of the form it is written in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from doctor.check import CheckOutcome
from doctor.errors import EXIT_CRASH, EXIT_FINDINGS, EXIT_OK, EXIT_USAGE
from doctor.finding import Finding, Severity, Text, plain

SCHEMA = "doctor.report/1"


@dataclass(frozen=True)
class Collect:
    """What to gather when the cause is unknown: what it is and the command that gets it."""

    what: Text
    command: str

    def to_dict(self, lang: str) -> dict[str, Any]:
        return {"what": self.what.pick(lang), "command": self.command}


@dataclass(frozen=True)
class Report:
    """`facts` is what the command measured or read; `unknown` says that no cause was found in what was given.
    `next_command` is what a reader should run now; it ends the text output."""

    command: str
    findings: tuple[Finding, ...] = ()
    outcomes: tuple[CheckOutcome, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    collect: tuple[Collect, ...] = ()
    unknown: bool = False
    next_command: Optional[str] = None
    #: lines of talk that only the text form shows, above the findings
    headline: tuple[Text, ...] = ()
    #: further keys of the JSON form, by name (nearest rules, a rule's skeleton)
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def worst(self) -> Optional[Severity]:
        return max((finding.severity for finding in self.findings), key=lambda s: s.rank, default=None)

    @property
    def verdict(self) -> str:
        """ok, warning, error or unknown. A report that could judge nothing is unknown, not ok."""
        worst = self.worst
        if self.unknown or (worst is None and self.judged_nothing):
            return "unknown"
        if worst is None or worst is Severity.INFO:
            return "ok"
        return "warning" if worst is Severity.WARNING else "error"

    @property
    def judged_nothing(self) -> bool:
        return bool(self.outcomes) and all(o.state in {"skipped", "crashed"} for o in self.outcomes)

    def to_dict(self, lang: str) -> dict[str, Any]:
        row: dict[str, Any] = {
            "schema": SCHEMA,
            "command": self.command,
            "verdict": self.verdict,
            "findings": [finding.to_dict(lang) for finding in self.findings],
            "outcomes": [outcome.to_dict(lang) for outcome in self.outcomes],
            "facts": plain(self.facts),
        }
        if self.collect:
            row["collect"] = [item.to_dict(lang) for item in self.collect]
        row.update(plain(self.extra))
        return row


def exit_code(report: Report, fail_on: str) -> int:
    """The contract's exit code: 3 when a check crashed, 1 for findings at or above `fail_on` (error, warning,
    never), 2 when no check could be judged, else 0."""
    if any(outcome.state == "crashed" for outcome in report.outcomes):
        return EXIT_CRASH
    if fail_on != "never" and any(f.severity.at_least(Severity(fail_on)) for f in report.findings):
        return EXIT_FINDINGS
    if report.judged_nothing:
        return EXIT_USAGE
    return EXIT_OK


def in_order(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Worst first, then by place and id: the order that every report of checks uses."""

    def key(finding: Finding) -> tuple[Any, ...]:
        place = finding.place
        where = (place.source, place.line or 0, place.column or 0) if place else ("", 0, 0)
        return (-finding.severity.rank, *where, finding.rule)

    return tuple(sorted(findings, key=key))
