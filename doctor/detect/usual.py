"""What is quiet in a run, and what has become usual.

A record stands out when it leaves the bounds that the detectors give. In some runs many records do, and the detectors
find nothing in them: losses of single samples, norms with a heavy tail, rates that are printed as 0. Once a tile of
records was shown for the most part and nothing was said of it, only what goes beyond that tile stands out in the next.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Optional

#: a rate moves when it changes by more than this share from one record to the next
RATE_MOVES = 0.05
#: this many losses in a row that equal the one before may not be chance, nor may so many wherever some are usual; what
#: follows the next `SAME_SEEN` of them tells nothing that they do not
SAME, SAME_MOST, SAME_SEEN = 5, 160, 48
#: how far beyond what is usual: of the range of losses, and as factors
_LOSS, _NORM, _TIME, _SAME = 0.1, 1.25, 1.2, 2

#: so many steps among so many that took longer than their pace allows stand out: single ones do on any busy machine
SLOW_STEPS, SLOW_AMONG = 16, 64

INF = float("inf")


@dataclass(frozen=True)
class Bounds:
    """What is quiet for the records of one tile."""

    loss_low: float
    loss_high: float
    norm_low: float
    norm_high: float
    norm_risen: float
    norm_rises: float
    longest: float
    #: loss scales; both None where there is none
    scale_low: Optional[float]
    scale_high: Optional[float]
    moves: float = RATE_MOVES
    same: int = SAME
    #: distances from one step to the next; None: the stride of the run only
    gaps: Optional[tuple[float, float]] = None
    #: whether losses and norms may be nan or inf, and data be waited for
    broken: bool = False
    starved: bool = False
    #: whether `longest` is that of slow steps that are usual
    slow: bool = False
    #: flags of overflow that may be
    overflow: tuple[bool, ...] = (False,)


class Usual:
    """Extremes of the records of a tile."""

    def __init__(self) -> None:
        self.loss_low = self.norm_low = self.scale_low = self.gap_low = INF
        self.loss_high = self.norm_high = self.scale_high = self.gap_high = -INF
        self.longest = self.moves = 0.0
        self.same = self.slow = 0
        self.broken = self.starved = False
        self.overflow: set[bool] = set()

    def losses(self, low: float, high: float) -> None:
        """The least and the largest finite loss of some records."""
        self.loss_low, self.loss_high = min(self.loss_low, low), max(self.loss_high, high)

    def norms(self, low: float, high: float) -> None:
        self.norm_low, self.norm_high = min(self.norm_low, low), max(self.norm_high, high)

    def scales(self, low: float, high: float) -> None:
        self.scale_low, self.scale_high = min(self.scale_low, low), max(self.scale_high, high)

    def gaps(self, low: float, high: float) -> None:
        self.gap_low, self.gap_high = min(self.gap_low, low), max(self.gap_high, high)

    def times(self, longest: float, slow: int) -> None:
        """The longest step, and how many slow ones were counted among so many."""
        self.longest, self.slow = max(self.longest, longest), max(self.slow, slow)

    def rest(self, moves: float, same: int, starved: bool, overflow: Iterable[bool]) -> None:
        self.moves, self.same = max(self.moves, moves), max(self.same, same)
        self.starved |= starved
        self.overflow.update(overflow)

    def widen(self, bounds: Bounds, slow: bool) -> Bounds:
        """The bounds with all that was seen within them; `slow` when slow steps were usual in the tile."""
        slow = self.slow >= SLOW_STEPS or (slow and self.longest > bounds.longest)
        margin = _LOSS * (self.loss_high - self.loss_low)
        whole = self.loss_low <= self.loss_high  # else not one loss was finite: the first one that is, is news
        norms = self.norm_low <= self.norm_high
        scaled = bounds.scale_low is not None and bounds.scale_high is not None and self.scale_low <= self.scale_high
        return replace(
            bounds,
            loss_low=min(bounds.loss_low, self.loss_low - margin) if whole else INF,
            loss_high=max(bounds.loss_high, self.loss_high + margin) if whole else -INF,
            norm_low=min(bounds.norm_low, self.norm_low / _NORM) if norms else INF,
            norm_high=max(bounds.norm_high, self.norm_high * _NORM) if norms else -INF,
            norm_risen=max(bounds.norm_risen, self.norm_high * _NORM),
            longest=max(bounds.longest, self.longest * _TIME) if slow else bounds.longest,
            slow=slow,
            scale_low=min(bounds.scale_low or 0.0, self.scale_low) if scaled else bounds.scale_low,
            scale_high=max(bounds.scale_high or 0.0, self.scale_high) if scaled else bounds.scale_high,
            moves=max(bounds.moves, self.moves),
            same=max(bounds.same, min(_SAME * self.same, SAME_MOST)),
            # going back is never usual: the run may have been started anew
            gaps=(self.gap_low, self.gap_high) if 0 <= self.gap_low <= self.gap_high else None,
            broken=self.broken,
            starved=self.starved,
            overflow=tuple(sorted(self.overflow)) or bounds.overflow,
        )


def news(same: int, bounds: Bounds) -> bool:
    """Whether so many losses in a row that equal the one before stand out."""
    return bounds.same <= same < bounds.same + SAME_SEEN


def move(rate: Optional[float], before: Optional[float]) -> float:
    """By which share of itself a rate moves; infinite from, to and at a rate that is not above 0 or not printed."""
    if rate is None and before is None:
        return 0.0
    if rate is None or before is None or not rate > 0 or not before > 0 or math.isinf(rate) or math.isinf(before):
        return INF
    return abs(rate / before - 1)
