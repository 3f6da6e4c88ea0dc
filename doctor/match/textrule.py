"""A rule on text as values: the lines that show it, the lines that must or must not stand near, its examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from doctor.finding import Text
from doctor.rule import Rule

#: cause: what went wrong. symptom: an effect with several possible causes. generic: a code or wrapper that says only that something failed.
ROLES = ("cause", "symptom", "generic")
WHERE = ("around", "before", "after", "same-line", "anywhere")
RANKS = ("same", "other", "any")
#: lines that a condition looks at on each side unless the rule says otherwise
WITHIN = 40


@dataclass(frozen=True)
class Pattern:
    """One way a line can look: a regular expression on the bytes of the line, and literals of which every
    matching line contains at least one (in lower case when `nocase`; none when it is tried on lines found otherwise).
    `needs` are further sets of texts in lower case, of each of which it contains one as well."""

    regex: str
    literals: tuple[str, ...]
    nocase: bool = False
    needs: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Condition:
    """A line that must (or must not) stand near the one that shows the fault.

    `within` counts lines, `where` says on which side; in another file or for another rank the whole text is looked at."""

    pattern: Pattern
    within: int = WITHIN
    where: str = "around"
    rank: str = "same"


#: levels of log lines that a rule may ask for: a program that only informs or warns goes on, unless the rule knows better
LEVELS = ("info", "warning", "error")


@dataclass(frozen=True)
class Match:
    """`line`: any of these shows the fault and becomes the evidence. `all`, `any`, `none`: what must stand near it."""

    line: tuple[Pattern, ...]
    all: tuple[Condition, ...] = ()
    any: tuple[Condition, ...] = ()
    none: tuple[Condition, ...] = ()
    #: (name of a fact, condition on it), such as ("cann", "< 8.0")
    facts: tuple[tuple[str, str], ...] = ()
    #: the lowest level (of LEVELS) at which a program prints this fault; lines that name a lower one do not count
    level: str = "error"


@dataclass(frozen=True)
class Example:
    """A text and what must come of it. `line` counts from 1 and is where the evidence must be; 0 means any line.
    `values` are captured values. `cause` names the rule that comes first in the whole text when it is not this one."""

    text: str
    line: int = 0
    values: tuple[tuple[str, str], ...] = ()
    cause: Optional[str] = None


@dataclass(frozen=True)
class TextRule:
    """One rule file."""

    rule: Rule
    origin: str
    role: str = "cause"
    match: Optional[Match] = None
    #: name of the detector in `doctor.detect` that raises it, for rules on the numbers of a run
    detector: Optional[str] = None
    #: the table in which the captured `code` is looked up; fills {meaning} and {action} and gives the category
    table: Optional[str] = None
    command: Optional[str] = None
    #: fall-back for captured values that a line does not hold
    defaults: tuple[tuple[str, Text], ...] = ()
    #: ways in which people ask for it, each a set of words of which all must occur (a|b: either)
    asked: tuple[str, ...] = ()
    #: where the file stands, for messages
    path: str = ""

    @property
    def id(self) -> str:
        return self.rule.id


@dataclass(frozen=True)
class RuleFile:
    """A rule with its examples: what an author writes. Scanning needs the rule only."""

    rule: TextRule
    must_match: tuple[Example, ...] = ()
    must_not_match: tuple[Example, ...] = ()
