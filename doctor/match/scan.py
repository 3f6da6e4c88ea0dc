"""Finds what the rules describe in the bytes of logs, block by block, with all rules at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Optional, Union

from doctor.match import regex
from doctor.match.condition import Sighting, SourceState, nearest, past
from doctor.match.facts import holds
from doctor.match.finder import Finder, Looking, certain_texts, make_finder
from doctor.match.line import NOWHERE, Setting, normal, pieces, setting_of, utf8
from doctor.match.pack import Pack
from doctor.match.textrule import Condition, TextRule
from doctor.records.lines import by_numpy, count_lines
from doctor.records.record import Chunk

#: of one rule in one source only so many hits are handed out, and the first of each rank that writes there; the rest
#: are counted
MOST_HITS = 20
#: bytes of the last chunk that are kept, to know what stands above the first lines of the next
_TAIL = 8192


@dataclass(frozen=True)
class Hit:
    """A line that shows what a rule describes. `line` counts from 1 and `offset` in bytes in the source; `text` is
    the line (or its part) without colours; `groups` are the captured values."""

    rule: str
    source: str
    line: int
    offset: int
    text: bytes
    rank: Optional[int] = None
    groups: Mapping[str, str] = field(default_factory=dict)
    setting: Setting = NOWHERE
    #: length of the text that the pattern matched: of two rules on one line the longer says more
    span: int = 0
    #: how many ranks had written into the source by then
    crowd: int = 1


@dataclass
class Tally:
    """How often a rule hit in one source and where last; counts those that were not handed out."""

    count: int = 0
    last_line: int = 0
    last_offset: int = 0
    ranks: set[int] = field(default_factory=set)


class Scanner:
    """Feed it chunks; it gives hits. Hits whose rule looks at lines that follow come with a later chunk, or with
    `finish`. Equal input gives equal hits however it is cut into chunks and whichever finder is used."""

    def __init__(
        self,
        pack: Pack,
        facts: Optional[Mapping[str, Any]] = None,
        finder: Union[str, Finder, None] = None,
        words: Sequence[bytes] = (),
    ) -> None:
        self.pack = pack
        self.facts = dict(facts or {})
        self.finder: Finder = make_finder(pack, finder, words) if finder is None or isinstance(finder, str) else finder
        #: (rule, source) -> how often and where last
        self.tallies: dict[tuple[str, str], Tally] = {}
        self._compiled: dict[int, re.Pattern[bytes]] = {}
        self._texts: dict[int, tuple[tuple[bytes, ...], ...]] = {}
        self._sources: dict[str, SourceState[Hit]] = {}

    def look(self, data: bytes) -> tuple[Optional[list[int]], Optional[list[tuple[int, int]]]]:
        """Where lines begin that hold one of the `words` (None: not looked for), and the candidates for `scan`, whose
        places may be moved with their lines. None when the data have colours in them, which `scan` takes out first."""
        if normal(data) is not data:
            return None, None
        if isinstance(self.finder, Looking):
            words, found = self.finder.look(data)
            return words, list(found)
        return None, list(self.finder.find(data))

    def may_match(self, shape: bytes) -> bool:
        """Whether a pattern may match lines that are `shape` once their digits are zeros."""
        if isinstance(self.finder, Looking):
            return self.finder.may_match(shape)
        return True

    def scan(self, chunk: Chunk, candidates: Optional[Iterable[tuple[int, int]]] = None) -> list[Hit]:
        """The hits that this chunk settles, in the order of lines. `candidates` are what `look` found in its lines."""
        state = self._sources.get(chunk.source)
        if state is None:
            state = self._sources[chunk.source] = SourceState()
        data = normal(chunk.data) if candidates is None else chunk.data
        if candidates is None:
            candidates = self.finder.find(data)
        starts = _Starts(chunk.data, data is chunk.data)
        numbers = _Numbers(chunk, data)
        fresh: list[Hit] = []
        for position, atoms in _by_line(data, candidates):
            start = data.rfind(b"\n", 0, position) + 1
            end = data.find(b"\n", position)
            number = numbers.of(start)
            plain = utf8(data[start : end if end >= 0 else len(data)].rstrip(b"\r"))
            found = self._verified(atoms, pieces(plain))
            if not found:
                continue
            above = data[max(0, start - _TAIL) : start]
            if start < _TAIL:
                above = state.tail + above
            setting = setting_of(plain, above, chunk.rank)
            if setting.rank is not None:
                state.ranks.add(setting.rank)
            offset = chunk.offset + starts.of(number - chunk.first_line, start)
            fresh.extend(self._on_line(state, Hit("", chunk.source, number, offset, plain, setting=setting), found))
        if fresh or state.pending:  # they are judged by how far the source was read
            state.line = chunk.first_line + numbers.lines - (1 if data.endswith(b"\n") else 0)
        state.tail = (state.tail + data)[-_TAIL:] if len(data) < _TAIL else data[-_TAIL:]
        settled = self._settle(state, fresh, final=False)
        state.forget()
        return settled

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
        lower = [part.lower() for part in parts]
        for atom in atoms:
            left = [part for part, text in zip(parts, lower) if self._may_match(atom, text)]
            match = self._verify(atom, left) if left else None
            if match is not None:
                found[atom] = match
        return found

    def _may_match(self, atom: int, text: bytes) -> bool:
        """Whether all is in a text in lower case that the pattern needs. To compile it takes a thousand times as long."""
        texts = self._texts.get(atom)
        if texts is None:
            texts = self._texts[atom] = certain_texts(self.pack.atoms[atom])
        return all(any(word in text for word in words) for words in texts)

    def _verify(self, atom: int, parts: Iterable[bytes]) -> Optional[re.Match[bytes]]:
        compiled = self._compiled.get(atom)
        if compiled is None:
            compiled = self._compiled[atom] = regex.compile_bytes(self.pack.atoms[atom].regex)
        for part in parts:
            match = compiled.search(part)
            if match is not None:
                return match
        return None

    def _on_line(self, state: SourceState[Hit], line: Hit, found: Mapping[int, re.Match[bytes]]) -> Iterator[Hit]:
        """One hit for each rule that has a pattern on the line; values come from all its patterns there, the
        earlier in the rule's list the stronger."""
        rules: dict[str, TextRule] = {}
        rank = line.setting.rank
        for atom in sorted(found):
            if atom in self.pack.watched:
                state.remember(atom, Sighting(line.line, rank, _groups(found[atom])))
            for rule in self.pack.rules_of(atom):
                rules[rule.id] = rule
        for rule_id in sorted(rules):
            match = rules[rule_id].match
            assert match is not None
            own = [found[atom] for atom in map(self.pack.atom, match.line) if atom in found]
            groups: dict[str, str] = {}
            for item in own:
                groups = {**_groups(item), **groups}
            span = max(item.end() - item.start() for item in own)
            crowd = max(1, len(state.ranks))
            yield replace(line, rule=rule_id, text=own[0].string, rank=rank, groups=groups, span=span, crowd=crowd)

    def _settle(self, state: SourceState[Hit], fresh: list[Hit], final: bool) -> list[Hit]:
        """Hands out what is decided, keeps what must wait."""
        if not fresh and not state.pending:
            return []
        out: list[Hit] = []
        waiting: list[Hit] = []
        for hit in [*state.pending, *fresh]:
            verdict = self._judge(hit, state, final)
            if verdict is None:
                waiting.append(hit)
            elif verdict is not False:
                tally = self.tallies.setdefault((hit.rule, hit.source), Tally())
                tally.count += 1
                tally.last_line, tally.last_offset = hit.line, hit.offset
                rank = hit.rank if hit.rank not in tally.ranks else None
                if tally.count <= MOST_HITS or rank is not None:
                    out.append(verdict)
                if rank is not None:
                    tally.ranks.add(rank)
        state.pending = waiting
        out.sort(key=lambda hit: (hit.line, hit.rule))
        return out

    def _judge(self, hit: Hit, state: SourceState[Hit], final: bool) -> Any:
        """The hit (with values captured by conditions) when it holds, False when not, None when it must wait."""
        rule = self.pack.get(hit.rule)
        assert rule is not None and rule.match is not None
        match = rule.match
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
            elif final or past(condition, hit.line, hit.crowd, state):
                return False
            else:
                wait = True
        if match.any:
            sightings = [self._sighting(condition, hit, state) for condition in match.any]
            if any(sighting is not None for sighting in sightings):
                for sighting in sightings:
                    groups = {**(sighting.groups if sighting else {}), **groups}
            elif final or all(past(condition, hit.line, hit.crowd, state) for condition in match.any):
                return False
            else:
                wait = True
        for condition in match.none:
            if self._sighting(condition, hit, state) is not None:
                return False
            if not final and not past(condition, hit.line, hit.crowd, state):
                wait = True
        return None if wait else replace(hit, groups=groups)

    def _sighting(self, condition: Condition, hit: Hit, state: SourceState[Hit]) -> Optional[Sighting]:
        atom = self.pack.atom(condition.pattern)
        if condition.where == "same-line":
            found = self._verify(atom, pieces(hit.text))
            return None if found is None else Sighting(hit.line, hit.rank, _groups(found))
        others = [self._sources[name] for name in sorted(self._sources) if self._sources[name] is not state]
        return nearest(condition, atom, hit.line, hit.rank, hit.crowd, state, others)


class _Starts:
    """Offsets of lines in the bytes as they were, when the block was changed to be matched on."""

    def __init__(self, data: bytes, same: bool) -> None:
        self._data = data
        self._same = same
        self._number, self._start = 0, 0

    def of(self, number: int, start: int) -> int:
        """Offset of line `number` (from 0, never falling); `start` is its offset in the changed block."""
        if self._same:
            return start
        while self._number < number:
            self._start = self._data.find(b"\n", self._start) + 1
            self._number += 1
        return self._start


class _Numbers:
    """Numbers of lines in a chunk; `data` is its bytes or what was made of them to be matched on."""

    def __init__(self, chunk: Chunk, data: bytes) -> None:
        self._chunk = chunk
        self._data = data
        #: for large chunks all ends of lines, which others need too
        self._ends = chunk.ends if data is chunk.data and by_numpy(len(data)) else None
        self._number, self._counted = chunk.first_line, 0

    def of(self, start: int) -> int:
        """Number of the line that begins at `start`; never falling from call to call."""
        if self._ends is not None:
            return self._chunk.first_line + int(self._ends.searchsorted(start))
        self._number += count_lines(self._data, self._counted, start)
        self._counted = start
        return self._number

    @property
    def lines(self) -> int:
        """How many lines end in the chunk."""
        return self._chunk.lines if self._data is self._chunk.data else count_lines(self._data)


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
