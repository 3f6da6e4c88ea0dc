"""Small meters: how busy the host and the NPUs are, as one line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text as Styled

#: shares from which a meter is yellow and red
HIGH, FULL = 0.92, 0.98
BAR = 8


@dataclass(frozen=True)
class Meter:
    """`share` is of 1; `words` stands behind the bar, with its unit."""

    label: str
    share: float
    words: str


def row(meters: Sequence[Meter], width: int, unicode: bool = True) -> Styled:
    """As many meters as fit on a line of `width` cells; the first ones matter most."""
    line = Styled(no_wrap=True)
    for number, meter in enumerate(meters):
        cells = _one(meter, unicode)
        gap = 3 if number else 0
        if line.cell_len + gap + cells.cell_len > width:
            break
        line.append(" " * gap)
        line.append(cells)
    return line


def _one(meter: Meter, unicode: bool) -> Styled:
    share = min(max(meter.share, 0.0), 1.0)
    full = round(share * BAR)
    style = "red" if share >= FULL else "yellow" if share >= HIGH else "green"
    bar = ("━" if unicode else "=") * full
    rest = ("━" if unicode else ".") * (BAR - full)
    return Styled.assemble((f"{meter.label} ", "dim"), (bar, style), (rest, "grey37"), f" {meter.words}")
