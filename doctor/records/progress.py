"""Progress bars (tqdm): ``12%|###  | 320/2724 [11:49:53<88:41:03, 132.80s/it, loss=2.31]``."""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

from doctor.records.reading import Reading, reading_of
from doctor.records.tokens import pairs

# Bars of steps only: those of downloads and files count bytes or examples
_BAR = re.compile(
    r"(\d{1,3})%\|[^|]*\|\s*(\d+)/(\d+)\s*\[[^\]<]*<[^\],]*,\s*"
    r"(?:(\?|[\d.]+)(?:it|step|batch)s?/s|([\d.]+)s/(?:it|step|batch))(?:,\s*([^\]]*))?\]"
)


class Bar(NamedTuple):
    """Where the bar stands (step, steps), and what its text and postfix say."""

    position: tuple[int, int]
    reading: Reading


def bar_of(line: str) -> Optional[Bar]:
    """The first bar of steps in a cleaned line, or None."""
    found = _BAR.search(line)
    if found is None:
        return None
    step, steps, rate, duration = int(found[2]), int(found[3]), found[4], found[5]
    words = f"step: {step}, {line[: found.start()]} {found[6] or ''}"
    reading = reading_of(pairs(words), words) or Reading()
    reading.fields["step"], reading.fields["steps"] = step, steps
    if duration:
        reading.fields["step_time_ms"] = float(duration) * 1000.0
    elif rate and rate != "?" and float(rate) > 0:
        reading.fields["step_time_ms"] = 1000.0 / float(rate)
    return Bar((step, steps), reading)
