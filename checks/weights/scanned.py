"""On request (--values): the statistics of every value, and what they are shown as."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from doctor.check import Skip
from doctor.checks.weights.subject import Weights
from doctor.finding import Evidence, Text
from doctor.formats.layers import is_buffer, is_state

if TYPE_CHECKING:
    from doctor.formats.values import Statistics


_ASK = Text("it reads every value; ask for it with --values", "需要读取全部数值；请加 --values")


def statistics(subject: Weights) -> Mapping[str, Statistics]:
    """Of the parameters, without states and buffers. Raises Skip unless values were asked for."""
    if not subject.options.values:
        raise Skip(_ASK)
    return {
        name: row
        for name, row in subject.statistics.items()
        if row.complete and not is_state(row.name) and not is_buffer(row.name)
    }


def evidence_of_values(subject: Weights, rows: Iterable[tuple[str, object]], expected: object = None) -> list[Evidence]:
    listed = list(rows)[:5]
    return [
        Evidence("value", str(subject.path), key=name, observed=observed, expected=expected)
        for name, observed in listed
    ]


def is_norm(name: str) -> bool:
    return name.endswith((".weight", ".gamma")) and any(part in name for part in ("norm", "ln_", ".ln"))
