"""One setting as it stands in a file: its value, and the file, line, column, byte offset and key path of it.

A `Value` survives anchors, aliases and merges: `location` is the place where the setting is used, `origin` the
place of the anchor when the text itself stands elsewhere. Settings that are not in the file exist too
(`given` is False): their value is the default of the release or None, their location the nearest section.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Optional, Union

from doctor.finding import Location

Number = Union[int, float]


@dataclass(frozen=True, eq=False)
class Value:
    """A scalar (str, int, float, bool, None), a mapping (dict of Values) or a sequence (tuple of Values)."""

    value: Any
    location: Location
    #: the scalar's text in the file, without quotes; None for collections and for what is not given
    raw: Optional[str] = None
    quoted: bool = False
    #: where the anchored text stands, when this setting is an alias of it
    origin: Optional[Location] = None
    #: where the name of the setting stands
    named: Optional[Location] = None
    given: bool = True

    @property
    def key(self) -> str:
        return self.location.key or ""

    @property
    def name(self) -> str:
        """The last part of the key path."""
        return self.key.rpartition(".")[2]

    @property
    def whole(self) -> Optional[int]:
        """The value when it is an integer (true and false are not), also as the float 8.0; else None."""
        value = self.value
        if isinstance(value, bool):
            return None
        if isinstance(value, int):
            return value
        if isinstance(value, float) and value.is_integer():
            return int(value)
        return None

    @property
    def count(self) -> Optional[int]:
        """The value when it is an integer above zero; else None."""
        whole = self.whole
        return whole if whole is not None and whole > 0 else None

    @property
    def number(self) -> Optional[Number]:
        """The value when it is a number (true and false are not); an integer beyond every float is infinite."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        if isinstance(value, int) and abs(value) > sys.float_info.max:
            return math.inf if value > 0 else -math.inf
        return value

    @property
    def flag(self) -> Optional[bool]:
        return self.value if isinstance(self.value, bool) else None

    @property
    def on(self) -> bool:
        """True only when the value is the boolean true."""
        return self.value is True

    @property
    def text(self) -> Optional[str]:
        return self.value if isinstance(self.value, str) else None

    @property
    def words(self) -> str:
        """The text without blanks at the ends; empty when it is not a text."""
        return self.value.strip() if isinstance(self.value, str) else ""

    @property
    def mapping(self) -> dict[str, Value]:
        return self.value if isinstance(self.value, dict) else {}

    @property
    def sequence(self) -> tuple[Value, ...]:
        return self.value if isinstance(self.value, tuple) else ()

    @property
    def is_mapping(self) -> bool:
        return isinstance(self.value, dict)

    @property
    def is_sequence(self) -> bool:
        return isinstance(self.value, tuple)

    @property
    def is_scalar(self) -> bool:
        return not isinstance(self.value, (dict, tuple))

    def get(self, *path: str) -> Value:
        """The value under `path`, or one that is not given, placed at the nearest section that exists."""
        here = self
        for depth, part in enumerate(path):
            inner = here.value.get(part) if isinstance(here.value, dict) else None
            if inner is None:
                return here.absent(*path[depth:])
            here = inner
        return here

    def absent(self, *path: str, default: Any = None) -> Value:
        """A setting below this one that the file does not hold."""
        spot = self.named or self.location
        key = ".".join((*filter(None, (self.location.key,)), *path))
        return Value(default, replace(spot, key=key, column=None, offset=None), given=False)

    def or_default(self, default: Any) -> Value:
        """This value, or `default` in its place when it is not given (or null)."""
        if self.given and self.value is not None:
            return self
        return replace(self, value=default, given=False)

    def plain(self) -> Any:
        """The value as plain Python. Only for bounded trees (`doctor.plan.reader` bounds them)."""
        if isinstance(self.value, dict):
            return {key: item.plain() for key, item in self.value.items()}
        if isinstance(self.value, tuple):
            return [item.plain() for item in self.value]
        return self.value

    def places(self) -> tuple[Location, ...]:
        """Where a reader should look: the use, then the anchor."""
        return (self.location,) if self.origin is None else (self.location, self.origin)

    def walk(self) -> Iterator[Value]:
        """This value and all below it, each once: what is reached again through an alias is left out."""
        seen: set[int] = set()
        stack = [self]
        while stack:
            item = stack.pop()
            if id(item) in seen:
                continue
            seen.add(id(item))
            yield item
            children = item.value.values() if isinstance(item.value, dict) else item.sequence
            stack.extend(reversed(tuple(children)))


def nothing(source: str) -> Value:
    """The root of a file that holds no settings."""
    return Value({}, Location(source, 1), given=False)
