"""One difference."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Optional

from doctor.finding import Text, number_text, plain

#: what a difference may bear on
LOSS, SPEED, MEMORY, FAILURE = "loss", "speed", "memory", "failure"
#: the parts of a comparison, in the order in which causes come before what follows from them
PARTS = ("config", "environment", "findings", "curves", "ending")


@dataclass(frozen=True)
class Row:
    """`key` is the stable name of what differs, `label` its name for people; `a` and `b` are the two values, None where one
    has none. `bears_on` says which kinds of outcome it can change, `weight` how often it is the cause (0 to 1).
    `explains` is set when it bears on an outcome that does differ."""

    part: str
    key: str
    label: Text
    a: Any
    b: Any
    bears_on: tuple[str, ...] = ()
    weight: float = 0.0
    note: Optional[Text] = None
    place_a: Optional[str] = None
    place_b: Optional[str] = None
    explains: bool = False

    def explaining(self, outcomes: frozenset[str]) -> Row:
        """The row, marked when it can change something that did change."""
        return replace(self, explains=bool(outcomes.intersection(self.bears_on)))

    def to_dict(self, lang: str) -> dict[str, Any]:
        row = {
            "part": self.part,
            "key": self.key,
            "label": self.label.pick(lang),
            "a": plain(self.a),
            "b": plain(self.b),
            "bears_on": list(self.bears_on),
            "explains": self.explains,
        }
        if self.note is not None:
            row["note"] = self.note.pick(lang)
        for name, place in (("place_a", self.place_a), ("place_b", self.place_b)):
            if place is not None:
                row[name] = place
        return row


def shown(value: Any) -> str:
    """A value as a person reads it in a table; "-" for none."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e12 else number_text(float(f"{value:.6g}"))
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(shown(item) for item in value) + "]"
    if isinstance(value, dict):
        kind = [shown(value["type"])] if isinstance(value.get("type"), str) else []
        return ", ".join([*kind, *(f"{name}: {shown(item)}" for name, item in value.items() if name != "type")])
    return str(value)
