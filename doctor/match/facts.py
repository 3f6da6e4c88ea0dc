"""Conditions of rules on facts: versions, device family, settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_CONDITION = re.compile(r"(<=|>=|==|!=|<|>)\s*(.+)")


def fact(facts: Mapping[str, Any], name: str) -> Any:
    """The fact with a dotted name, or None."""
    value: Any = facts
    for part in name.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def holds(facts: Mapping[str, Any], name: str, wanted: str) -> bool:
    """Whether a fact meets ``< 8.0``, ``!= 910A`` or a plain value (``a | b``: either). What is not known holds: a
    rule is not silenced by what nobody has told."""
    value = fact(facts, name)
    if value is None:
        return True
    found = _CONDITION.fullmatch(wanted.strip())
    if found is None:
        return str(value).lower() in [choice.strip().lower() for choice in wanted.split("|")]
    sign, right = found.group(1), found.group(2).strip()
    if sign in ("==", "!="):
        return (str(value).lower() == right.lower()) == (sign == "==")
    left_key, right_key = version_key(str(value)), version_key(right)
    return {
        "<": left_key < right_key,
        "<=": left_key <= right_key,
        ">": left_key > right_key,
        ">=": left_key >= right_key,
    }[sign]


def version_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """Orders versions as people write them: 8.0.RC1 < 8.0.RC2 < 8.0.0 < 8.0.1."""
    parts: list[tuple[int, int, str]] = []
    for number, word in re.findall(r"(\d+)|([A-Za-z]+)", text):
        if number:
            parts.append((1, int(number), ""))
        elif word.lower() != "v":
            _drop_zeros(parts)
            parts.append((0, 0, word.lower()))
    _drop_zeros(parts)
    return (*parts, (0, 99, ""))


def _drop_zeros(parts: list[tuple[int, int, str]]) -> None:
    """8.0 and 8.0.0 are one version, and 8.0.RC1 comes before both."""
    while len(parts) > 1 and parts[-1] == (1, 0, ""):
        parts.pop()
