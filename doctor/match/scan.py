"""Finds what the rules describe in the bytes of logs, block by block, with all rules at once."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Optional

from doctor.match import regex
from doctor.match.facts import holds
from doctor.match.finder import Finder, make_finder
from doctor.match.line import pieces, plain_line, rank_of
from doctor.match.pack import Pack
from doctor.match.textrule import Condition, TextRule
from doctor.records.record import Chunk

#: of one rule in one source only so many hits are handed out; the rest are counted
MOST_HITS = 20
#: lines that a condition can look back on, per pattern and source
_HISTORY = 512


@dataclass(frozen=True)
class Hit:
    """A line that shows what a rule describes. `line` counts from 1 and `offset` in bytes in the source; `text` is
    the line without colours; `groups` are the captured values."""

    rule: str
    source: str
    line: int
    offset: int
    text: bytes
    rank: Optional[int] = None
    groups: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Tally:
    """How often a rule hit in one source and where last; counts those that were not handed out."""

    count: int = 0
    last_line: int = 0
    last_offset: int = 0


@dataclass(frozen=True)
class _Sighting:
    """A line on which the pattern of a condition stood."""

    line: int
    rank: Optional[int]
    groups: Mapping[str, str]


@dataclass
class _Source:
    """What is remembered of one source."""

    #: last line seen
    line: int = 0
    seen: dict[int, deque[_Sighting]] = field(default_factory=dict)
    #: the first sighting of each pattern by each rank, kept for good
    first: dict[int, list[_Sighting]] = field(default_factory=dict)
    pending: list[Hit] = field(default_factory=list)
    ranks: set[int] = field(default_factory=set)


class Scanner:
    """Feed it chunks; it gives hits. Hits whose rule looks at lines that follow come with a later chunk, or with
    `finish`. Equal input gives equal hits however it is cut into chunks and whichever finder is used."""

    def __init__(self, pack: Pack, facts: Optional[Mapping[str, Any]] = None, finder: Optional[str] = None) -> None:
        self.pack = pack
        self.facts = dict(facts or {})
        self.finder: Finder = make_finder(pack.atoms, finder)
        self.tallies: dict[tuple[str, str], Tally] = {}
        self._compiled: dict[int, re.Pattern[bytes]] = {}
        self._rules_of: dict[int, list[TextRule]] = {}
        self._watched: set[int] = set()
        for rule in pack.rules:
            match = rule.match
            if match is None:
                continue
            for pattern in match.line:
                self._rules_of.setdefault(pack.atom(pattern), []).append(rule)
            for condition in (*match.all, *match.any, *match.none):
                self._watched.add(pack.atom(condition.pattern))
        self._sources: dict[str, _Source] = {}

    def scan(self, chunk: Chunk) -> list[Hit]:
        """The hits that this chunk settles, in the order of lines."""
        state = self._sources.setdefault(chunk.source, _Source())
        data = chunk.data
        fresh: list[Hit] = []
        number, counted, line_end = chunk.first_line, 0, -1
        for position, atoms in _by_line(data, self.finder.find(data)):
            start = data.rfind(b"\n", 0, position) + 1
            line_end = data.find(b"\n", position)
            number += data.count(b"\n", counted, start)
            counted = start
            plain = plain_line(data[start : line_end if line_end >= 0 else len(data)])
            found = self._verified(atoms, pieces(plain))
            if found:
                rank = rank_of(plain, chunk.rank)
                if rank is not None:
                    state.ranks.add(rank)
                fresh.extend(self._on_line(state, chunk, number, start, rank, found))
        state.line = chunk.first_line + data.count(b"\n") - (1 if data.endswith(b"\n") else 0)
        return self._settle(state, fresh, final=False)

    def finish(self, source: Optional[str] = None) -> list[Hit]:
        """The hits that still waited for lines to follow; call it when a source has ended or gone quiet."""
        out: list[Hit] = []
        for name in sorted(self._sources):
            if source in (None, name):
                out.extend(self._settle(self._sources[name], [], final=True))
        return out

    def _verified(self, atoms: Iterable[int], parts: list[bytes]) -> dict[int, re.Match[bytes]]:
        """The patterns that truly match the line, with their matches."""
        found = {}
        for atom in atoms:
            match = self._verify(atom, parts)
            if match is not None:
                found[atom] = match
        return found

    def _verify(self, atom: int, parts: Iterable[bytes]) -> Optional[re.Match[bytes]]:
        compiled = self._compiled.get(atom)
        if compiled is None:
            compiled = self._compiled[atom] = regex.compile_bytes(self.pack.atoms[atom].regex)
        for part in parts:
            match = compiled.search(part)
            if match is not None:
                return match
        return None

    def _on_line(
        self,
        state: _Source,
        chunk: Chunk,
        line: int,
        start: int,
        rank: Optional[int],
        found: Mapping[int, re.Match[bytes]],
    ) -> Iterator[Hit]:
        """One hit for each rule that has a pattern on the line; values come from all its patterns there, the
        earlier in the rule's list the stronger."""
        rules: dict[str, TextRule] = {}
        for atom in sorted(found):
            if atom in self._watched:
                self._remember(state, atom, _Sighting(line, rank, _groups(found[atom])))
            for rule in self._rules_of.get(atom, ()):
                rules[rule.id] = rule
        for rule_id in sorted(rules):
            match = rules[rule_id].match
            assert match is not None
            own = [found[atom] for atom in map(self.pack.atom, match.line) if atom in found]
            groups: dict[str, str] = {}
            for item in own:
                groups = {**_groups(item), **groups}
            yield Hit(rule_id, chunk.source, line, chunk.offset + start, own[0].string, rank, groups)

    def _remember(self, state: _Source, atom: int, sighting: _Sighting) -> None:
        state.seen.setdefault(atom, deque(maxlen=_HISTORY)).append(sighting)
        first = state.first.setdefault(atom, [])
        if all(known.rank != sighting.rank for known in first):
            first.append(sighting)

    def _settle(self, state: _Source, fresh: list[Hit], final: bool) -> list[Hit]:
        """Hands out what is decided, keeps what must wait."""
        out: list[Hit] = []
        waiting: list[Hit] = []
        for hit in [*state.pending, *fresh]:
            rule = self.pack.get(hit.rule)
            assert rule is not None
            verdict = self._judge(rule, hit, state, final)
            if verdict is None:
                waiting.append(hit)
            elif verdict is not False:
                tally = self.tallies.setdefault((hit.rule, hit.source), Tally())
                tally.count += 1
                tally.last_line, tally.last_offset = hit.line, hit.offset
                if tally.count <= MOST_HITS:
                    out.append(verdict)
        state.pending = waiting
        out.sort(key=lambda hit: (hit.line, hit.rule))
        return out

    def _judge(self, rule: TextRule, hit: Hit, state: _Source, final: bool) -> Any:
        """The hit (with values captured by conditions) when it holds, False when not, None when it must wait."""
        match = rule.match
        assert match is not None
        if match.facts and not all(holds(self.facts, name, wanted) for name, wanted in match.facts):
            return False
        if not (match.all or match.any or match.none):
            return hit
        wait = False
        groups = dict(hit.groups)
        for condition in match.all:
            sighting = self._sighting(condition, hit, state)
            if sighting is not None:
                groups = {**sighting.groups, **groups}
            elif final or self._past(condition, hit, state):
                return False
            else:
                wait = True
        if match.any:
            sightings = [self._sighting(condition, hit, state) for condition in match.any]
            if any(sighting is not None for sighting in sightings):
                for sighting in sightings:
                    groups = {**(sighting.groups if sighting else {}), **groups}
            elif final or all(self._past(condition, hit, state) for condition in match.any):
                return False
            else:
                wait = True
        for condition in match.none:
            if self._sighting(condition, hit, state) is not None:
                return False
            if not final and not self._past(condition, hit, state):
                wait = True
        return None if wait else replace(hit, groups=groups)

    def _sighting(self, condition: Condition, hit: Hit, state: _Source) -> Optional[_Sighting]:
        """The nearest line on which the condition's pattern stands, if it stands where it should."""
        atom = self.pack.atom(condition.pattern)
        if condition.where == "same-line":
            found = self._verify(atom, pieces(hit.text))
            return None if found is None else _Sighting(hit.line, hit.rank, _groups(found))
        best: Optional[_Sighting] = None
        anywhere = condition.where == "anywhere" or condition.rank == "other"
        reach = condition.within * max(1, len(state.ranks))
        here = [*state.first.get(atom, ()), *state.seen.get(atom, ())] if anywhere else state.seen.get(atom, ())
        for sighting in here:
            distance = sighting.line - hit.line
            if (condition.where == "before" and distance > 0) or (condition.where == "after" and distance < 0):
                continue
            fits = anywhere or abs(distance) <= reach
            nearer = best is None or abs(distance) < abs(best.line - hit.line)
            if fits and nearer and _rank_fits(condition.rank, hit.rank, sighting.rank):
                best = sighting
        if best is None and anywhere and condition.rank != "same":
            for name in sorted(self._sources):
                if self._sources[name] is not state:
                    for sighting in self._sources[name].first.get(atom, ()):
                        if _rank_fits(condition.rank, hit.rank, sighting.rank):
                            return sighting
        return best

    def _past(self, condition: Condition, hit: Hit, state: _Source) -> bool:
        """No line to come can change what the condition says."""
        if condition.where in ("before", "same-line"):
            return True
        if condition.where == "anywhere" or condition.rank == "other":
            return False
        return state.line > hit.line + condition.within * max(1, len(state.ranks))


def _by_line(data: bytes, candidates: Iterable[tuple[int, int]]) -> Iterator[tuple[int, list[int]]]:
    """Candidates gathered by line: a position in the line and the atoms that may match it, in order."""
    position, end = -1, -1
    atoms: set[int] = set()
    for at, atom in sorted(candidates):
        if atoms and at > end:
            yield position, sorted(atoms)
            atoms = set()
        if not atoms:
            position = at
            end = data.find(b"\n", at)
            if end < 0:
                end = len(data)
        atoms.add(atom)
    if atoms:
        yield position, sorted(atoms)


def _groups(found: re.Match[bytes]) -> dict[str, str]:
    return {name: value.decode("utf-8", "replace") for name, value in found.groupdict().items() if value is not None}


def _rank_fits(wanted: str, of_hit: Optional[int], of_line: Optional[int]) -> bool:
    if wanted == "any":
        return True
    if wanted == "other":
        return of_line is not None and of_line != of_hit
    return of_line == of_hit or of_line is None or of_hit is None
