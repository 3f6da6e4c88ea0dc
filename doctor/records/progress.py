"""Progress bars (tqdm): ``12%|###  | 320/2724 [11:49:53<88:41:03, 132.80s/it, loss=2.31]``."""

from __future__ import annotations

import re
from typing import Optional

from doctor.records.tokens import Fields, clean, fields_of, pairs
from doctor.records.units import milliseconds

_BAR = re.compile(
    r"(\d{1,3})%\|[^|]*\|\s*(\d+)/(\d+)\s*\[[^\]<]*<[^\],]*,\s*(?:(\?|[\d.]+)(it|step|batch)s?/s|([\d.]+)(s)/(?:it|step|batch))(?:,\s*([^\]]*))?\]"
)


def bar_fields(line: str) -> Optional[Fields]:
    """Step, steps, time a step, and what the bar's postfix says; None when the line holds no bar of steps."""
    text = clean(line)
    bar = _BAR.search(text)
    if bar is None:
        return None
    fields = fields_of(list(pairs(f"step: 1, {text[: bar.start()]} {bar.group(8) or ''}")), text) or {}
    fields["step"], fields["steps"] = int(bar.group(2)), int(bar.group(3))
    if bar.group(6):
        value = milliseconds(float(bar.group(6)), "s")
    else:
        rate = float(bar.group(4)) if bar.group(4) not in (None, "?") else 0.0
        value = 1000.0 / rate if rate else None
    if value is not None:
        fields.setdefault("step_time_ms", value)
    return fields
