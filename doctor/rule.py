"""A rule: what can go wrong, in words. Its text is its documentation: `doctor explain RULE-ID` prints it.

Rules of checks stand in the code beside the function that judges (`doctor.check.check`); rules on log
text stand in YAML files under ``rules/``. Both are this one class, so that ids, names and texts have one shape.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Optional

from doctor.finding import CATEGORIES, Evidence, Finding, Fix, Severity, Text, fill

ID = re.compile(r"(ENV|CFG|WGT|DAT|LOG|RUN)-[A-Z0-9]{2,8}-[0-9]{3}")
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Rule:
    """`title` states the fault, `why` the cause or the consequence, `fix` the cure; each may hold
    ``{placeholders}`` that the finding fills. `verify` is the command that shows that the cure worked.

    Raises ValueError when the id, name or category is not of the form that scripts rely on.
    """

    id: str
    name: str
    severity: Severity
    category: str
    title: Text
    why: Text
    fix: Text
    verify: Optional[str] = None
    confidence: float = 1.0
    references: tuple[str, ...] = ()
    #: rule ids whose findings are consequences of this one when both stand
    explains: tuple[str, ...] = ()
    #: what looks the same and is harmless
    false_positives: Optional[Text] = None
    status: str = "stable"
    since: str = "0.1.0"

    def __post_init__(self) -> None:
        if not ID.fullmatch(self.id):
            raise ValueError(f"rule id {self.id!r} is not FAMILY-AREA-NNN")
        if not NAME.fullmatch(self.name):
            raise ValueError(f"{self.id}: name {self.name!r} is not in kebab-case")
        if self.category not in CATEGORIES:
            raise ValueError(f"{self.id}: category {self.category!r} is not one of the contract's")

    @property
    def family(self) -> str:
        return self.id.split("-", 1)[0]

    def finding(
        self,
        message: Optional[Text] = None,
        *,
        evidence: Iterable[Evidence] = (),
        fixes: Optional[Iterable[Fix]] = None,
        severity: Optional[Severity] = None,
        confidence: Optional[float] = None,
        root_cause: bool = True,
        explains: Iterable[str] = (),
        **values: object,
    ) -> Finding:
        """A finding of this rule. Without `message` the rule's `why` is used; without `fixes` its `fix` and
        `verify`. ``values`` fill the placeholders of every text."""
        if fixes is None:
            verify = fill(self.verify, values) if self.verify else None
            fixes = (Fix(self.fix.format(**values), verify=verify),)
        return Finding(
            rule=self.id,
            name=self.name,
            severity=severity or self.severity,
            category=self.category,
            title=self.title.format(**values),
            message=(message or self.why).format(**values),
            confidence=self.confidence if confidence is None else confidence,
            root_cause=root_cause,
            evidence=tuple(evidence),
            explains=(*self.explains, *explains),
            fixes=tuple(fixes),
            references=self.references,
        )
