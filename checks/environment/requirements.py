"""Reads what a Python distribution declares it needs (``Requires-Dist``): name, range, and whether it applies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Optional

from doctor.checks.environment.versions import satisfies

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]*)\])?\s*([^;]*?)\s*(?:;(.*))?")


def normal(name: str) -> str:
    """A distribution name as the index compares it: ``rouge_chinese`` is rouge-chinese."""
    return re.sub(r"[-_.]+", "-", name).lower()


@dataclass(frozen=True)
class Requirement:
    """`name` in normal form, `specifier` such as ``>=1.0,<2`` (empty: any), `marker` as written or None."""

    name: str
    specifier: str
    marker: Optional[str] = None


def parse(line: str) -> Optional[Requirement]:
    """One Requires-Dist value; None when it is not one, or names a URL instead of a range."""
    match = _REQUIREMENT.fullmatch(line)
    if match is None or match.group(3).startswith("@"):
        return None
    marker = match.group(4)
    return Requirement(
        normal(match.group(1)), match.group(3).strip("() \t"), marker.strip() if marker and marker.strip() else None
    )


_TOKEN = re.compile(r"\s*(\(|\)|'[^']*'|\"[^\"]*\"|[a-z_][a-z0-9_.]*|===|==|!=|~=|>=|<=|>|<)", re.I)


def applies(marker: Optional[str], environment: Mapping[str, str]) -> Optional[bool]:
    """Whether an environment marker holds: ``python_version < "3.9" and platform_machine == "aarch64"``.

    A requirement of an extra does not apply. None when the marker cannot be read or names what is not known:
    a caller stays silent then."""
    if marker is None:
        return True
    tokens = _TOKEN.findall(marker)
    if "".join(tokens).replace(" ", "") != re.sub(r"\s+", "", marker):
        return None
    try:
        value, end = _either(tokens, 0, environment)
    except (IndexError, ValueError, RecursionError):
        return None
    return value if end == len(tokens) else None


def _either(tokens: list[str], at: int, environment: Mapping[str, str]) -> tuple[bool, int]:
    value, at = _both(tokens, at, environment)
    while at < len(tokens) and tokens[at] == "or":
        other, at = _both(tokens, at + 1, environment)
        value = value or other
    return value, at


def _both(tokens: list[str], at: int, environment: Mapping[str, str]) -> tuple[bool, int]:
    value, at = _one(tokens, at, environment)
    while at < len(tokens) and tokens[at] == "and":
        other, at = _one(tokens, at + 1, environment)
        value = value and other
    return value, at


def _one(tokens: list[str], at: int, environment: Mapping[str, str]) -> tuple[bool, int]:
    if tokens[at] == "(":
        value, at = _either(tokens, at + 1, environment)
        if tokens[at] != ")":
            raise ValueError(tokens[at])
        return value, at + 1
    left, operator, at = tokens[at], tokens[at + 1], at + 2
    negated = operator == "not"
    if negated:
        operator, at = tokens[at], at + 1
    right, at = tokens[at], at + 1
    if "extra" in (left, right):
        return False, at
    return _compare(_value(left, environment), operator, _value(right, environment), left, negated), at


def _value(token: str, environment: Mapping[str, str]) -> str:
    if token[0] in "'\"":
        return token[1:-1]
    if token not in environment:
        raise ValueError(token)
    return environment[token]


def _compare(left: str, operator: str, right: str, name: str, negated: bool) -> bool:
    if operator == "in":
        return (left in right) != negated
    if "version" in name:
        held = satisfies(left, operator + right)
        if held is not None:
            return held
    if operator in {"==", "==="}:
        return left == right
    if operator == "!=":
        return left != right
    raise ValueError(operator)
