"""The ranks of a run as a grid in which the odd ones stand out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from rich.text import Text as Styled

from doctor.tui.runview import Odd
from doctor.tui.words import say

#: rows of the grid, and odd ranks that are told in words
ROWS, TOLD = 3, 3


def ranks_text(ranks: Sequence[int], odd: Sequence[Odd], lang: str, width: int, chosen: Optional[int] = None) -> Styled:
    """Ranks as a grid, and in words what is odd about the first of them; the one whose curves are shown is underlined."""
    text = Styled(no_wrap=True, overflow="ellipsis")
    text.append(say("ranks_all", lang, count=len(ranks)), "dim")
    if odd:
        told = [f"rank {item.rank}: {item.why.pick(lang)}" for item in odd[:TOLD]]
        rest = f" (+{len(odd) - TOLD})" if len(odd) > TOLD else ""
        text.append("; ".join(told) + rest, "bold yellow")
    else:
        text.append(say("ranks_even", lang), "green")
    signs = {item.rank: item.sign for item in odd}
    cell = len(str(ranks[-1])) + 2
    room = max(1, width // cell) * ROWS
    # when not all fit, those that differ come first
    shown = ranks if len(ranks) <= room else sorted([*signs, *[r for r in ranks if r not in signs]][:room])
    for number, rank in enumerate(shown):
        if number % max(1, width // cell) == 0:
            text.append("\n")
        sign = signs.get(rank, "")
        style = "bold reverse yellow" if sign else "green"
        text.append(f"{rank}{sign}".rjust(cell - 1), f"{style} underline" if rank == chosen else style).append(" ")
    return text
