"""A check: one function that judges one subject for one rule, and what came of it.

A check is written as a generator of findings and stands beside its kin under ``checks/``::

    @check(Rule(id="CFG-PAR-001", name="parallel-product-mismatch", …))
    def parallel_product(plan: Plan) -> Iterator[Finding]:
        if plan.devices is None:
            raise Skip(Text("the number of devices is not known; give --devices N", "…"))
        …
        yield RULE.finding(…)          # the rule is the decorator's argument: `parallel_product.rule`

Yielding nothing means passed; raising `Skip` means that it could not judge, and why; anything else that
is raised is a crash of this check alone (`doctor.runner` turns it into an outcome and goes on).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Generic, Optional, TypeVar

from doctor.finding import Finding, Text
from doctor.rule import Rule

Subject = TypeVar("Subject")


class Skip(Exception):
    """Raised by a check that cannot judge; the reason says what is missing and how to supply it."""

    def __init__(self, reason: Text) -> None:
        super().__init__(reason.en)
        self.reason = reason


@dataclass(frozen=True)
class Check(Generic[Subject]):
    """A rule with the function that judges it. Call it with the subject to get the findings."""

    rule: Rule
    judge: Callable[[Subject], Iterator[Finding]]

    def __call__(self, subject: Subject) -> Iterator[Finding]:
        return self.judge(subject)

    def finding(self, *args: Any, **values: Any) -> Finding:
        """Short for ``self.rule.finding`` inside the judging function."""
        return self.rule.finding(*args, **values)


def check(rule: Rule) -> Callable[[Callable[[Any], Iterator[Finding]]], Check[Any]]:
    """Makes a `Check` of the function below; discovery (`doctor.registry`) finds it by its type."""

    def wrap(judge: Callable[[Any], Iterator[Finding]]) -> Check[Any]:
        return Check(rule, judge)

    return wrap


@dataclass(frozen=True)
class CheckOutcome:
    """passed, found, skipped or crashed: four different things."""

    rule: str
    state: str
    reason: Optional[Text] = None
    findings: tuple[Finding, ...] = ()
    #: what the outcome is about when several targets are checked at once
    target: Optional[str] = None

    def to_dict(self, lang: str) -> dict[str, Any]:
        row: dict[str, Any] = {"rule": self.rule, "state": self.state}
        if self.reason is not None:
            row["reason"] = self.reason.pick(lang)
        if self.target is not None:
            row["target"] = self.target
        return row


@dataclass(frozen=True)
class Options:
    """What the user said on the command line that a subject or a check may need; None is not said."""

    devices: Optional[int] = None
    #: bytes
    device_memory: Optional[int] = None
    mindformers: Optional[str] = None
    weights: Optional[str] = None
    data: Optional[str] = None
    #: the training config that weights or data are meant for
    against: Optional[str] = None
    #: the interpreter to examine
    python: Optional[str] = None
    #: fact files collected elsewhere
    hosts: tuple[str, ...] = ()
    #: parts that no fix may change (driver, cann, mindspore, mindformers, python)
    keep: tuple[str, ...] = ()
    #: read tensor values, not only headers
    values: bool = False
    #: import the framework in a child process and compute
    deep: bool = False


class _Callable(ModuleType):
    """The contract's ``from doctor import check`` is a function, and this module has its name: once anything has
    imported the module, that is what the import gives. So the module answers as the function does."""

    def __call__(self, *targets: Any, **options: Any) -> Any:
        return importlib.import_module("doctor.api").check(*targets, **options)


sys.modules[__name__].__class__ = _Callable
