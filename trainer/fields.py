"""What a setting may hold, and the one clear line when it holds something else.

Each setting of a section is a field of a frozen dataclass whose metadata names its `Kind`; reading a
section is then one loop. Nothing is guessed: a string that looks like a number is refused with the reason.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Optional, TypeVar

from doctor.errors import UsageError
from doctor.finding import Text

Section = TypeVar("Section")
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")


@dataclass(frozen=True)
class Place:
    """Where a value stands: file and line for messages, `key` with dots from the top of the file."""

    source: str = ""
    key: str = ""
    lines: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def at(self, key: str) -> Place:
        return Place(self.source, f"{self.key}.{key}" if self.key else key, self.lines)

    def __str__(self) -> str:
        line = self.lines.get(self.key)
        if not self.source:
            return self.key
        return f"{self.source}:{line}: {self.key}" if line else f"{self.source}: {self.key}"


class Kind(ABC):
    """What values a setting takes."""

    @abstractmethod
    def read(self, value: Any, place: Place) -> Any:
        """The value as used. Raises UsageError when it is not one of this kind."""


@dataclass(frozen=True)
class Number(Kind):
    """A number within bounds; `integer` refuses fractions. The bounds themselves are allowed unless `above` (the lower)
    or `below` (the upper). `rule` explains what is wrong with a number out of them."""

    low: float = -math.inf
    high: float = math.inf
    integer: bool = False
    above: bool = False
    below: bool = False
    rule: str = "CFG-TYP-014"

    def read(self, value: Any, place: Place) -> Any:
        if isinstance(value, str) and _NUMBER.fullmatch(value):
            raise UsageError(
                Text(f"{place}: {value!r} is a string, not a number.", f"{place}：{value!r} 是字符串而不是数字。"),
                Text(
                    f"YAML 1.1 reads a float only with a dot: write {_dotted(value)} without quotes.",
                    f"YAML 1.1 只把带小数点的写法识别为浮点数：请写成 {_dotted(value)}，不加引号。",
                ),
                "CFG-TYP-001",
            )
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise wrong(place, value, self.words(), rule=_not_a_number(value))
        if isinstance(value, float) and not math.isfinite(value):
            raise wrong(place, value, self.words(), rule="CFG-TYP-013")
        if self.integer:
            if isinstance(value, float) and not value.is_integer():
                raise wrong(place, value, self.words(), rule="CFG-TYP-003")
            value = int(value)
        beyond = value < self.low or value > self.high
        if beyond or (self.above and value == self.low) or (self.below and value == self.high):
            raise wrong(place, value, self.words(), rule=self.rule)
        return value if self.integer else float(value)

    def words(self) -> Text:
        low, high = (">" if self.above else ">="), ("<" if self.below else "<=")
        bounds = [f"{low} {self.low:g}"] if math.isfinite(self.low) else []
        bounds += [f"{high} {self.high:g}"] if math.isfinite(self.high) else []
        en, zh = ("a whole number", "整数") if self.integer else ("a number", "数字")
        tail = " and ".join(bounds)
        return Text(f"{en} {tail}".strip(), f"{zh} {' 且 '.join(bounds)}".strip())


def _not_a_number(value: Any) -> str:
    """The rule for a value that is none."""
    if isinstance(value, bool):
        return "CFG-TYP-006"
    return "CFG-TYP-002" if isinstance(value, str) else "CFG-TYP-011"


@dataclass(frozen=True)
class Flag(Kind):
    def read(self, value: Any, place: Place) -> bool:
        if not isinstance(value, bool):
            raise wrong(place, value, Text("true or false", "true 或 false"), rule="CFG-TYP-004")
        return value


@dataclass(frozen=True)
class Choice(Kind):
    """One of some words. `spelled` maps other spellings, in lower case, to the word meant."""

    words: tuple[str, ...]
    spelled: Mapping[str, str] = dataclasses.field(default_factory=dict)
    rule: str = "CFG-KEY-015"

    def read(self, value: Any, place: Place) -> str:
        word = str(value).strip() if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
        for known in self.words:
            if word.lower() == known.lower():
                return known
        if word.lower() in self.spelled:
            return self.spelled[word.lower()]
        listed = ", ".join(self.words)
        expected = Text(f"one of: {listed}", f"以下之一：{listed}")
        raise wrong(place, value, expected, nearest(word, self.words), self.rule)


@dataclass(frozen=True)
class Words(Kind):
    """A string; `empty` allows the empty one."""

    empty: bool = False

    def read(self, value: Any, place: Place) -> str:
        if not isinstance(value, str) or "\0" in value or (not value and not self.empty):
            raise wrong(place, value, Text("a text", "字符串"), rule="CFG-TYP-008")
        return value


@dataclass(frozen=True)
class Maybe(Kind):
    """The kind, or null for "not said"."""

    kind: Kind

    def read(self, value: Any, place: Place) -> Any:
        return None if value is None else self.kind.read(value, place)


@dataclass(frozen=True)
class Many(Kind):
    """A list of the kind; one value alone counts as a list of one."""

    kind: Kind

    def read(self, value: Any, place: Place) -> tuple[Any, ...]:
        values = value if isinstance(value, (list, tuple)) else [value]
        return tuple(self.kind.read(item, place) for item in values)


def setting(default: Any, kind: Kind, *also: str) -> Any:
    """A dataclass field with its kind; `also` are other names under which configs hold the same setting."""
    return dataclasses.field(default=default, metadata={"kind": kind, "also": also})


def read_section(
    cls: type[Section], raw: Mapping[str, Any], place: Place, more: Optional[Mapping[str, Any]] = None
) -> Section:
    """Makes a `cls` of a mapping. Raises UsageError for an unknown key (with the nearest known one), for a value
    of the wrong kind, and for two spellings of one setting that differ. `more` are values taken as they are."""
    known: dict[str, str] = {}
    kinds: dict[str, Kind] = {}
    for item in dataclasses.fields(cls):  # type: ignore[arg-type]
        if "kind" in item.metadata:
            kinds[item.name] = item.metadata["kind"]
            for name in (item.name, *item.metadata["also"]):
                known[name] = item.name
    values: dict[str, Any] = {}
    spelled: dict[str, str] = {}
    for key, value in raw.items():
        name = known.get(str(key))
        if name is None:
            raise unknown_key(place.at(str(key)), str(key), known)
        read = kinds[name].read(value, place.at(str(key)))
        if name in values and values[name] != read:
            raise UsageError(
                Text(
                    f"{place.at(str(key))}: {value!r} contradicts {spelled[name]}, which is the same setting.",
                    f"{place.at(str(key))}：{value!r} 与同一设置 {spelled[name]} 的值矛盾。",
                ),
                Text("Keep one of the two.", "请只保留其中一个。"),
                "CFG-KEY-006",
            )
        values[name], spelled[name] = read, str(key)
    return cls(**values, **(more or {}))


def unknown_key(place: Place, key: str, known: Iterable[str]) -> UsageError:
    names = sorted(set(known))
    hint = nearest(key, names) or Text(f"Known here: {', '.join(names)}.", f"此处可用：{', '.join(names)}。")
    return UsageError(Text(f"{place} is not a known setting.", f"{place} 不是已知设置。"), hint, "CFG-KEY-014")


def nearest(word: str, known: Iterable[str]) -> Optional[Text]:
    lowered = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=0.6)
    if not near:
        return None
    name = lowered[near[0]]
    return Text(f"Did you mean {name}?", f"是否想写 {name}？")


def wrong(
    place: Place, value: Any, expected: Text, hint: Optional[Text] = None, rule: str = "CFG-TYP-011"
) -> UsageError:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    words = Text(f"{place}: {shown} is not {expected.en}.", f"{place}：{shown} 不合法，应为{expected.zh}。")
    return UsageError(words, hint, rule)


def _dotted(word: str) -> str:
    """The same number as YAML 1.1 understands it: 1e-5 -> 1.0e-5."""
    word = word.strip()
    mantissa, mark, exponent = word.lower().partition("e")
    if not mark:
        return word
    sign = "" if exponent[:1] in "+-" else "+"
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{sign}{exponent}"
