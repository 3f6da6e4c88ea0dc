"""The built-in trainer's own records: one JSON object a line, the ``metric`` event of ``watch --format jsonl``."""

from __future__ import annotations

import json
import math
from typing import Any, Optional

from doctor.records.reading import Fields

#: what a line of ours begins with; other events (findings that quote log lines) begin with their own names
METRIC_LINE = b'{"event": "metric"'
EVENT_LINE = b'{"event": "'

_INTEGERS = ("step", "global_step", "steps", "epochs")
_NUMBERS = (
    "epoch",
    "loss",
    "lr",
    "grad_norm",
    "loss_scale",
    "step_time_ms",
    "data_time_ms",
    "throughput",
    "memory_mb",
    "time",
)


def metric_fields(line: bytes) -> Optional[Fields]:
    """The fields of one metric event; None when the line is cut short or something else."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    if not isinstance(row, dict) or row.get("event") != "metric":
        return None
    fields: Fields = {}
    for name in _NUMBERS:
        value = _number(row.get(name))
        if value is not None:
            fields[name] = value
    for name in _INTEGERS:
        value = _number(row.get(name))
        if value is not None and math.isfinite(value):
            fields[name] = int(value)
    if "throughput" not in fields and _number(row.get("tokens_per_s")) is not None:
        fields["throughput"], fields["throughput_unit"] = _number(row["tokens_per_s"]), "tokens/s"
    for name, kind in (("overflow", bool), ("throughput_unit", str), ("evaluation", bool), ("summary", bool)):
        if isinstance(row.get(name), kind):
            fields[name] = row[name]
    rank = row.get("rank")
    if isinstance(rank, int) and not isinstance(rank, bool):
        fields["rank"] = rank
    return fields


def _number(value: Any) -> Optional[float]:
    """Not-a-number and infinities stand as the strings nan, inf, -inf."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, str) and value.lower() in ("nan", "inf", "-inf"):
        return float(value)
    return None
