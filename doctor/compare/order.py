"""A comparison as a whole: the differences in the order of what they explain, and a verdict that says no more than that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Optional

from doctor.compare.environment import compare_hosts, compare_surroundings
from doctor.compare.outcome import Outcome, compare_outcomes, figures
from doctor.compare.row import PARTS, Row
from doctor.compare.settings import compare_plans
from doctor.compare.subject import RUN, Subject
from doctor.finding import Finding, Severity, Text

#: parts whose differences are causes rather than what followed from them
CAUSES = ("config", "environment")


@dataclass(frozen=True)
class Comparison:
    """`rows` begin with what explains a difference in outcome; `new` are findings that only B has, `gone` those that only A
    has. `outcome` is None where nothing was run."""

    kind: str
    a: Subject
    b: Subject
    rows: tuple[Row, ...]
    new: tuple[Finding, ...]
    gone: tuple[Finding, ...]
    outcome: Optional[Outcome] = None
    #: settings that were compared, and what could not be
    compared: int = 0
    missing: tuple[Text, ...] = field(default=())

    @property
    def regression(self) -> bool:
        return self.outcome is not None and self.outcome.regression

    @property
    def causes(self) -> tuple[Row, ...]:
        """Differences of settings and surroundings that may explain a difference in outcome, the likeliest first."""
        return tuple(row for row in self.rows if row.part in CAUSES and row.explains)

    def facts(self, lang: str) -> dict[str, Any]:
        """The JSON form, below `facts`."""
        row: dict[str, Any] = {"kind": self.kind, "a": {"name": self.a.name}, "b": {"name": self.b.name}}
        if self.a.run is not None and self.b.run is not None:
            row["a"].update(figures(self.a.run))
            row["b"].update(figures(self.b.run))
        row["outcome"] = sorted(self.outcome.kinds) if self.outcome is not None else []
        row["regression"] = self.regression
        row["loss"] = (
            self.outcome.loss.to_dict() if self.outcome is not None and self.outcome.loss is not None else None
        )
        row["compared"] = self.compared
        row["not_compared"] = [text.pick(lang) for text in self.missing]
        row["rows"] = [item.to_dict(lang) for item in self.rows]
        return row


def compare(a: Subject, b: Subject) -> Comparison:
    """What differs between two subjects of one kind."""
    rows: list[Row] = []
    compared = 0
    missing: list[Text] = []
    if a.plan is not None and b.plan is not None:
        shared = compare_plans(a.plan, b.plan)
        rows += [_placed(row, a, b) for row in shared.rows]
        compared = shared.compared
    elif a.kind == RUN:
        names = [subject.name for subject in (a, b) if subject.plan is None]
        missing.append(Text(f"settings: {' and '.join(names)} shows none", f"配置：{'、'.join(names)} 中没有配置信息"))
    if a.kind == RUN and a.run is not None and b.run is not None:
        rows += compare_surroundings(a.run.environment, b.run.environment)
        if not set(a.run.environment) & {"mindspore", "mindformers", "cann"}.intersection(b.run.environment):
            missing.append(Text("versions: the logs do not tell them", "版本：日志中没有记录"))
        outcome = compare_outcomes(a.run, b.run)
        rows += outcome.rows
        return Comparison(
            RUN, a, b, in_order(rows, outcome.kinds), outcome.new, outcome.gone, outcome, compared, tuple(missing)
        )
    if a.facts is not None and b.facts is not None:
        rows += compare_hosts(a.facts, b.facts)
    new, gone = _only(b, a), _only(a, b)
    rows += [_finding(finding, None, finding.severity) for finding in new]
    rows += [_finding(finding, finding.severity, None) for finding in gone]
    return Comparison(a.kind, a, b, in_order(rows, frozenset()), new, gone, None, compared, tuple(missing))


def _placed(row: Row, a: Subject, b: Subject) -> Row:
    """A setting that a run printed stands where its log has it, not in a file of its own."""
    places = []
    for subject, place in ((a, row.place_a), (b, row.place_b)):
        run = subject.run
        printed = run is not None and run.session.config is None and run.session.printed is not None
        places.append(run.plan_source if printed and place is not None and run is not None else place)
    return replace(row, place_a=places[0], place_b=places[1])


def in_order(rows: Sequence[Row], outcomes: frozenset[str]) -> tuple[Row, ...]:
    """Causes of what differs first, then what differs in outcome, then the rest; within each the heavier first."""
    marked = [row.explaining(outcomes) if row.part in CAUSES else row for row in rows]

    def key(row: Row) -> tuple[Any, ...]:
        group = 0 if row.explains else 1 if row.part not in CAUSES else 2
        return (group, -row.weight, PARTS.index(row.part), row.key)

    return tuple(sorted(marked, key=key))


def _only(one: Subject, other: Subject) -> tuple[Finding, ...]:
    known = {finding.rule for finding in other.findings}
    found: dict[str, Finding] = {}
    for finding in one.findings:
        if finding.rule not in known:
            found.setdefault(finding.rule, finding)
    return tuple(sorted(found.values(), key=lambda finding: (-finding.severity.rank, finding.rule)))


def _finding(finding: Finding, a: Optional[Severity], b: Optional[Severity]) -> Row:
    return Row(
        "findings",
        finding.rule,
        finding.title,
        a.value if a is not None else None,
        b.value if b is not None else None,
        (),
        0.2 + 0.2 * finding.severity.rank,
    )
