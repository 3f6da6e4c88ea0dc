"""Units as logs print them. The T behind a throughput is tera-operations a second, not a time."""

from __future__ import annotations

from typing import Optional

FLOPS = "TFLOP/s"

#: unit -> milliseconds
MILLISECONDS = {
    "us": 0.001,
    "ms": 1.0,
    "msec": 1.0,
    "millisecond": 1.0,
    "milliseconds": 1.0,
    "s": 1000.0,
    "sec": 1000.0,
    "secs": 1000.0,
    "second": 1000.0,
    "seconds": 1000.0,
    "min": 60000.0,
}
_MEGABYTES = {"mb": 1.0, "mib": 1.0, "m": 1.0, "gb": 1024.0, "gib": 1024.0, "g": 1024.0, "kb": 1 / 1024}


def megabytes(unit: str) -> Optional[float]:
    """MB of 2**20 bytes in one `unit`; without a unit it is MB, as training loops print it. None: no unit of memory."""
    return _MEGABYTES.get(unit.lower(), None if unit else 1.0)


def throughput_unit(unit: str, default: str) -> Optional[str]:
    """`imgs/sec` as printed; a unit without "per second" in it belongs to the next word of the line."""
    if default == FLOPS or unit == "T":
        return FLOPS
    return unit if "/" in unit else default or None
