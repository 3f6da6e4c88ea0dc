"""A value captured from a log line that can be written in other units: ``{size:bytes}`` in a rule's text."""

from __future__ import annotations

_UNITS = {"bytes": 1, "kb": 1024, "mb": 1024**2, "gb": 1024**3}


class Captured(str):
    """A text; formatted with ``bytes``, ``kb``, ``mb`` or ``gb`` a number in that unit becomes one that people read."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        scale = _UNITS.get(spec)
        if scale is None:
            return format(str(self), spec)
        try:
            return human_bytes(float(self) * scale)
        except ValueError:
            return str(self)


def human_bytes(count: float) -> str:
    """1610612736 is ``1.5 GB`` (units of 1024, as memory is counted)."""
    size = float(count)
    unit = "B"
    for larger in ("KB", "MB", "GB", "TB"):
        if abs(size) < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.1f}".removesuffix(".0") + f" {unit}"
