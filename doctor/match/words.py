"""Fills the texts of a rule with what was captured; a value can itself be in both languages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Union

from doctor.escape import visible
from doctor.finding import Text, fill
from doctor.match.captured import Captured
from doctor.match.textrule import TextRule

Value = Union[str, int, Text]
#: a captured value longer than this is cut in the middle
_LONGEST = 160


def values_of(rule: TextRule, groups: Mapping[str, str], **more: Value) -> dict[str, Value]:
    """The values for a rule's texts: its defaults, then what was captured, then `more`."""
    values: dict[str, Value] = dict(rule.defaults)
    values.update((name, Captured(visible(value.strip(), _LONGEST))) for name, value in groups.items() if value)
    values.update(more)
    return values


def filled(text: Text, values: Mapping[str, Value]) -> Text:
    return Text(fill(text.en, _in(values, "en")), fill(text.zh, _in(values, "zh")))


def filled_line(line: str, values: Mapping[str, Value]) -> str:
    """The same for a command."""
    return fill(line, _in(values, "en"))


def _in(values: Mapping[str, Value], lang: str) -> dict[str, object]:
    return {name: value.pick(lang) if isinstance(value, Text) else value for name, value in values.items()}
