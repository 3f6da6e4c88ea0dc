"""Which lines are worth a look: three ways to find the literals of all rules in a block of bytes at once.

A finder gets a block and yields ``(position, atom)``: somewhere in the line that holds `position`, pattern number
`atom` may match. It may say so in vain, it never misses one; the scanner verifies with `re`, so that all
three give equal results.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, Optional, Protocol

from doctor.match.pack import Pack
from doctor.match.textrule import Pattern

#: length of the piece of a caseless literal that is looked for in all its spellings
_CASELESS_PIECE = 4


class Finder(Protocol):
    name: str

    def find(self, data: bytes) -> Iterable[tuple[int, int]]: ...


def spellings(literal: str, nocase: bool) -> list[bytes]:
    """The byte strings of which one stands in the line when `literal` does, in any case if `nocase`."""
    raw = literal.encode("utf-8")
    if not nocase:
        return [raw]
    start = max(range(max(1, len(raw) - _CASELESS_PIECE + 1)), key=lambda i: sum(map(_rare, raw[i : i + 4])))
    piece = raw[start : start + _CASELESS_PIECE]
    choices = [sorted({bytes((byte,)).lower(), bytes((byte,)).upper()}) for byte in piece]
    return [b"".join(combination) for combination in itertools.product(*choices)]


def _rare(byte: int) -> int:
    """A rough rarity of a byte in log text."""
    return {32: 0, 101: 1, 116: 1, 97: 1, 111: 1, 105: 1, 110: 1, 115: 1, 114: 1}.get(byte, 3)


class AhoFinder:
    """Aho-Corasick over all literals (package ahocorasick_rs)."""

    name = "aho-corasick"

    def __init__(self, atoms: Sequence[Pattern]) -> None:
        import ahocorasick_rs

        owners = _owners(atoms)
        self._atoms = [tuple(atoms_of) for atoms_of in owners.values()]
        self._automaton = ahocorasick_rs.BytesAhoCorasick(
            list(owners), implementation=ahocorasick_rs.Implementation.DFA if len(owners) < 4000 else None
        )

    def find(self, data: bytes) -> Iterable[tuple[int, int]]:
        owners = self._atoms
        for index, start, _ in self._automaton.find_matches_as_indexes(data, overlapping=True):
            for atom in owners[index]:
                yield start, atom


class PlainFinder:
    """The standard library only: lines whose digits are deleted repeat themselves, so each shape is looked at once."""

    name = "standard library"
    _MOST_SHAPES = 50_000

    def __init__(self, atoms: Sequence[Pattern]) -> None:
        owners = _owners(atoms)
        self._direct: list[tuple[bytes, tuple[int, ...]]] = []
        self._shaped: list[tuple[bytes, tuple[int, ...]]] = []
        for literal, atoms_of in owners.items():
            shape = literal.translate(None, b"0123456789")
            if len(shape) < 3:
                self._direct.append((literal, tuple(atoms_of)))
            else:
                self._shaped.append((shape, tuple(atoms_of)))
        self._shapes: dict[bytes, tuple[int, ...]] = {}

    def find(self, data: bytes) -> Iterable[tuple[int, int]]:
        out: list[tuple[int, int]] = []
        for literal, atoms_of in self._direct:
            at = data.find(literal)
            while at >= 0:
                out.extend((at, atom) for atom in atoms_of)
                at = data.find(literal, at + 1)
        shapes = data.translate(None, b"0123456789").split(b"\n")
        hot = {shape for shape in set(shapes) if self._atoms_of(shape)}
        if hot:
            start = 0
            for line, shape in zip(data.split(b"\n"), shapes):
                if shape in hot:
                    out.extend((start, atom) for atom in self._atoms_of(shape))
                start += len(line) + 1
        out.sort()
        return out

    def _atoms_of(self, shape: bytes) -> tuple[int, ...]:
        known = self._shapes.get(shape)
        if known is None:
            known = tuple(sorted({atom for literal, atoms_of in self._shaped if literal in shape for atom in atoms_of}))
            if len(self._shapes) >= self._MOST_SHAPES:
                self._shapes.clear()
            self._shapes[shape] = known
        return known


def _owners(atoms: Sequence[Pattern]) -> dict[bytes, list[int]]:
    owners: dict[bytes, list[int]] = {}
    for number, atom in enumerate(atoms):
        for literal in atom.literals:
            for spelling in spellings(literal, atom.nocase):
                owners.setdefault(spelling, []).append(number)
    return owners


def make_finder(pack: Pack, wanted: Optional[str] = None) -> Finder:
    """The fastest finder that can be had, or the one that is `wanted` by name."""
    makers: list[Any] = [AhoFinder, PlainFinder]
    for maker in makers:
        if wanted in (None, maker.name):
            try:
                finder: Finder = maker(pack.atoms)
            except ImportError:
                continue
            return finder
    raise ValueError(f"no finder {wanted!r} on this machine")
