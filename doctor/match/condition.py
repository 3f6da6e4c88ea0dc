"""Conditions of a rule on the lines near a hit: what was sighted where, and whether that can still change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Optional, TypeVar

from doctor.match.textrule import Condition

#: sightings that a condition can look back on from one chunk to the next, per pattern and source
_HISTORY = 4096
_Pending = TypeVar("_Pending")


@dataclass(frozen=True)
class Sighting:
    """A line on which the pattern of a condition stood."""

    line: int
    rank: Optional[int]
    groups: Mapping[str, str]


@dataclass
class SourceState(Generic[_Pending]):
    """What is remembered of one source between chunks."""

    #: last line seen
    line: int = 0
    seen: dict[int, list[Sighting]] = field(default_factory=dict)
    #: the first sighting of each pattern by each rank, kept for good
    first: dict[int, list[Sighting]] = field(default_factory=dict)
    pending: list[_Pending] = field(default_factory=list)
    ranks: set[int] = field(default_factory=set)
    tail: bytes = b""

    def remember(self, atom: int, sighting: Sighting) -> None:
        self.seen.setdefault(atom, []).append(sighting)
        first = self.first.setdefault(atom, [])
        if all(known.rank != sighting.rank for known in first):
            first.append(sighting)

    def forget(self) -> None:
        """Lets go of what is too far back."""
        for sightings in self.seen.values():
            del sightings[:-_HISTORY]


def nearest(
    condition: Condition,
    atom: int,
    line: int,
    rank: Optional[int],
    crowd: int,
    state: SourceState[_Pending],
    others: Iterable[SourceState[_Pending]],
) -> Optional[Sighting]:
    """The sighting nearest to a hit that fulfils the condition, or None. `crowd` ranks write into the source: so many
    times more lines are looked at."""
    best: Optional[Sighting] = None
    anywhere = condition.where == "anywhere" or condition.rank == "other"
    reach = condition.within * crowd
    recent = state.seen.get(atom, ())
    for sighting in [*state.first.get(atom, ()), *recent] if anywhere else recent:
        distance = sighting.line - line
        if (condition.where == "before" and distance > 0) or (condition.where == "after" and distance < 0):
            continue
        fits = anywhere or abs(distance) <= reach
        nearer = best is None or abs(distance) < abs(best.line - line)
        if fits and nearer and _rank_fits(condition.rank, rank, sighting.rank):
            best = sighting
    if best is None and anywhere and condition.rank != "same":
        for other in others:
            for sighting in other.first.get(atom, ()):
                if _rank_fits(condition.rank, rank, sighting.rank):
                    return sighting
    return best


def past(condition: Condition, line: int, crowd: int, state: SourceState[_Pending]) -> bool:
    """Whether no line to come can change what the condition says of a hit on `line`."""
    if condition.where in ("before", "same-line"):
        return True
    if condition.where == "anywhere" or condition.rank == "other":
        return False
    return state.line > line + condition.within * crowd


def _rank_fits(wanted: str, of_hit: Optional[int], of_line: Optional[int]) -> bool:
    if wanted == "any":
        return True
    if wanted == "other":
        return of_line is not None and of_line != of_hit
    return of_line == of_hit or of_line is None or of_hit is None
