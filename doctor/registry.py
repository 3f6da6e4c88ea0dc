"""Finds the checks and the rules: every module under ``doctor/checks/<family>`` is looked through once.

A family is a package under ``doctor.checks`` with a module ``subject`` (what is judged: how it is
recognised, loaded and described) and any number of modules with `Check` objects, all directly in it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from typing import Any, Optional

from doctor.check import Check
from doctor.rule import Rule

FAMILIES = ("environment", "config", "weights", "data")


@cache
def checks(family: str) -> tuple[Check[Any], ...]:
    """All checks of a family in the order of their ids. Raises ValueError when two share an id."""
    package = importlib.import_module(f"doctor.checks.{family}")
    found: dict[str, Check[Any]] = {}
    for info in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        if info.ispkg:  # what a family reads its subject with holds no checks, and costs time to load
            continue
        module = importlib.import_module(info.name)
        for value in vars(module).values():
            if isinstance(value, Check):
                other = found.setdefault(value.rule.id, value)
                if other is not value:
                    raise ValueError(f"two checks have the id {value.rule.id}")
    return tuple(found[key] for key in sorted(found))


def rules() -> Iterator[Rule]:
    """Every rule of the program: those of the checks, those of the self-test, then those on logs and runs."""
    for family in FAMILIES:
        for item in checks(family):
            yield item.rule
    yield from importlib.import_module("doctor.selftest.rules").RULES
    yield from _text_rules().values()


def rule(rule_id: str) -> Optional[Rule]:
    """The rule with that id (any case) or kebab name, or None."""
    wanted = rule_id.strip()
    text_rules = _text_rules()
    hit = text_rules.get(wanted.upper())
    if hit is not None:
        return hit
    for item in rules():
        if item.id == wanted.upper() or item.name == wanted.lower():
            return item
    return None


def _text_rules() -> dict[str, Rule]:
    from doctor.match.pack import load_pack

    return {item.rule.id: item.rule for item in load_pack().rules}
