"""Reads values out of a JSON document that may hold anything: a value of the wrong type is as good as none."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Optional


@dataclass(frozen=True)
class Fields:
    """One JSON value. Every question has an answer of the type it promises, whatever the value is."""

    value: Any

    def at(self, *keys: str) -> Fields:
        """What stands under nested keys."""
        value = self.value
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return Fields(value)

    def text(self, *keys: str) -> Optional[str]:
        """A text that is not empty; numbers count as texts (a version written without quotation marks)."""
        value = self.at(*keys).value
        if isinstance(value, bool):
            return None
        if isinstance(value, (int, float)):
            return str(value)[:200]
        return value.strip()[:2000] or None if isinstance(value, str) else None

    def number(self, *keys: str) -> Optional[float]:
        """A finite number; digits in a text count."""
        value = self.at(*keys).value
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                return None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        return value if abs(value) < 1e18 and math.isfinite(value) else None

    def integer(self, *keys: str) -> Optional[int]:
        value = self.number(*keys)
        return None if value is None else int(value)

    def flag(self, *keys: str) -> Optional[bool]:
        value = self.at(*keys).value
        return value if isinstance(value, bool) else None

    def rows(self, *keys: str) -> Iterator[Fields]:
        """The objects in a list."""
        value = self.at(*keys).value
        if isinstance(value, list):
            for item in value:
                if isinstance(item, dict):
                    yield Fields(item)

    def texts(self, *keys: str) -> tuple[str, ...]:
        """The texts in a list."""
        value = self.at(*keys).value
        return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()

    def pairs(self, *keys: str) -> dict[str, str]:
        """An object's entries whose values are texts or numbers."""
        value = self.at(*keys).value
        if not isinstance(value, dict):
            return {}
        found = {str(key): Fields(item).text() for key, item in value.items()}
        return {key: text for key, text in found.items() if text is not None}

    def objects(self, *keys: str) -> dict[str, Fields]:
        """An object's entries that are objects."""
        value = self.at(*keys).value
        if not isinstance(value, dict):
            return {}
        return {str(key): Fields(item) for key, item in value.items() if isinstance(item, dict)}

    def __bool__(self) -> bool:
        return self.value is not None
