"""What each setting of MindFormers' files may hold: kinds and bounds by section and key (data: rules/tables/config-keys).

A spec is one line: kinds (int, num, bool, str, list, map, any, null) and an optional range `low..high` with
either end open, as ``int 1.. null`` or ``num 0..1``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Optional

from doctor.plan.names import read_table
from doctor.plan.plan import Dialect
from doctor.plan.value import Value


@dataclass(frozen=True)
class Spec:
    """Kinds and inclusive bounds of a setting."""

    kinds: frozenset[str]
    low: float = -math.inf
    high: float = math.inf

    @property
    def numeric(self) -> bool:
        return "int" in self.kinds or "num" in self.kinds

    @property
    def words(self) -> str:
        """The range for people: >= 1, 0 to 1."""
        if math.isfinite(self.low) and math.isfinite(self.high):
            return f"{self.low:g} to {self.high:g}"
        if math.isfinite(self.low):
            return f">= {self.low:g}"
        return f"<= {self.high:g}" if math.isfinite(self.high) else "a number"


def parse_spec(text: str) -> Spec:
    kinds, low, high = set(), -math.inf, math.inf
    for word in text.split():
        if ".." in word:
            first, _, last = word.partition("..")
            low, high = float(first) if first else low, float(last) if last else high
        else:
            kinds.add(word)
    return Spec(frozenset(kinds), low, high)


_GROUPS = {Dialect.PYNATIVE: "pynative", Dialect.TRAINER: "trainer"}


@cache
def section_specs(dialect: Dialect, section: str) -> Mapping[str, Spec]:
    """The known settings of a section; empty when nothing is known about it."""
    table = read_table("config-keys")
    group = table[_GROUPS.get(dialect, "graph")]
    rows: Optional[Mapping[str, str]] = group.get(section)
    if (dialect, section) in ((Dialect.PYNATIVE, "model"), (Dialect.HUGGINGFACE, "")):
        rows = table["graph"]["model.model_config"]
    found: dict[str, Spec] = {}
    for text, names in (rows or {}).items():
        spec = parse_spec(text)
        found.update(dict.fromkeys(names.split(), spec))
    return found


@cache
def sections(dialect: Dialect) -> tuple[str, ...]:
    """The sections that are known, outer ones first; of one that ends in `[]` each item of the list is meant."""
    if dialect is Dialect.HUGGINGFACE:
        return ("",)
    table = read_table("config-keys")
    names = set(table[_GROUPS.get(dialect, "graph")])
    return tuple(sorted(names | ({"model"} if dialect is Dialect.PYNATIVE else set())))


@cache
def strict_keys(section: str) -> frozenset[str]:
    """The keys that a section may hold and no others, from MindFormers 1.6 on (its ConfigTemplate)."""
    return frozenset(read_table("config-keys")["strict"].get(section, "").split())


@cache
def taken_by_release(section: str) -> Mapping[str, str]:
    """Key -> the releases that take it (`1.2.0-2.1.0`), of a section that refuses any other; empty for other sections."""
    found: Mapping[str, str] = read_table("config-keys")["refusing"].get(section, {})
    return found


@cache
def mcore_keys() -> frozenset[str]:
    """The settings that mcore's converter takes in model.model_config."""
    return frozenset(read_table("config-keys")["mcore"].split())


@cache
def open_sections() -> frozenset[str]:
    """PyNative sections that take keys beyond the known ones."""
    return frozenset(read_table("config-keys")["open"])


def known_values(root: Value, dialect: Dialect) -> Iterator[tuple[Value, Spec]]:
    """Every setting of the file that the tables know, with its spec."""
    for section in sections(dialect):
        place = section[:-2] if section.endswith("[]") else section
        here = root.get(*place.split(".")) if section else root
        for part in here.sequence if place != section else (here,):
            if part.mapping:
                specs = section_specs(dialect, section)
                for name, value in part.mapping.items():
                    spec = specs.get(name)
                    if spec is not None and "any" not in spec.kinds:
                        yield value, spec


FALSE_WORDS = frozenset(("false", "no", "off", "0", "none", "n", "f"))
TRUE_WORDS = frozenset(("true", "yes", "on", "1", "y", "t"))


def fault_of(value: Value, spec: Spec) -> Optional[str]:
    """How a value breaks its spec, or None: number-text, text-for-number, fraction, flag-for-number, flag-text,
    text-for-flag, number-for-flag, number-for-text, flag-for-text, not-list, not-mapping, null, not-finite, range."""
    item: Any = value.value
    kinds = spec.kinds
    if item is None:
        return None if "null" in kinds else "null"
    if isinstance(item, bool):
        if "bool" in kinds:
            return None
        return "flag-for-number" if spec.numeric else _wrong_shape(kinds, "flag-for-text")
    if isinstance(item, (int, float)):
        if spec.numeric:
            return _number_fault(value, spec)
        return _wrong_shape(kinds, "number-for-flag" if "bool" in kinds else "number-for-text")
    if isinstance(item, str):
        return _text_fault(item, spec)
    if isinstance(item, dict):
        return None if "map" in kinds else "not-list" if "list" in kinds else "mapping"
    return None if "list" in kinds else "not-mapping" if "map" in kinds else "list"


def _wrong_shape(kinds: frozenset[str], otherwise: str) -> Optional[str]:
    if "str" in kinds or "bool" in kinds:
        return otherwise
    return "not-mapping" if "map" in kinds else "not-list"


def _number_fault(value: Value, spec: Spec) -> Optional[str]:
    number = value.number
    if number is None:
        return None
    if isinstance(number, float) and not math.isfinite(number):
        return "not-finite"
    if "num" not in spec.kinds and value.whole is None:
        return "fraction"
    return None if spec.low <= number <= spec.high else "range"


def _text_fault(text: str, spec: Spec) -> Optional[str]:
    if "str" in spec.kinds:
        return None
    if spec.numeric and as_number(text) is not None:
        return "number-text"
    if spec.numeric and "bool" not in spec.kinds:
        return "text-for-number"
    if "bool" in spec.kinds:
        return "flag-text" if text.strip().lower() in FALSE_WORDS | TRUE_WORDS else "text-for-flag"
    return "not-mapping" if "map" in spec.kinds else "not-list"


def as_number(text: str) -> Optional[float]:
    """The number that a text means, also without the dot that YAML 1.1 wants (1e-5); None when it is none."""
    word = text.strip().replace("_", "")
    if not word or word[0] not in "+-.0123456789":
        return None
    try:
        return float(word)
    except ValueError:
        return None
