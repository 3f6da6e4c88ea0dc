"""Which lines are worth a look: ways to find the literals of all rules in a block of bytes at once.

A finder gets a block and gives ``(position, atom)``: in the line that holds `position`, pattern number `atom` may
match. It may say so in vain, it never misses one; the scanner verifies with `re`, so that all finders give equal
results. Literals are compared in lower case: one automaton then serves patterns of either kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Optional, Protocol, runtime_checkable

from doctor.match.pack import Pack
from doctor.match.textrule import Pattern

if TYPE_CHECKING:
    from doctor.match.shapes import ShapeFinder

#: below this much text in all, building an automaton costs more than it saves
_LITTLE = 32 * 1024


class Finder(Protocol):
    name: str

    def find(self, data: bytes) -> Iterable[tuple[int, int]]: ...


@runtime_checkable
class Looking(Protocol):
    """A finder that also tells which lines hold certain words, and which shapes of lines no pattern can match."""

    def look(self, data: bytes) -> tuple[Optional[list[int]], Iterable[tuple[int, int]]]: ...

    def may_match(self, shape: bytes) -> bool: ...


class AhoFinder:
    """Aho-Corasick over all literals (package ahocorasick_rs). A DFA is a fifth faster and takes 100 MB for 8,300 of them."""

    name = "aho-corasick"

    def __init__(self, atoms: Sequence[Pattern]) -> None:
        import ahocorasick_rs

        found = owners(atoms) or {b"\x00": ()}
        self._atoms = list(found.values())
        self._automaton = ahocorasick_rs.BytesAhoCorasick(
            list(found), implementation=ahocorasick_rs.Implementation.ContiguousNFA
        )

    def find(self, data: bytes) -> Iterable[tuple[int, int]]:
        atoms = self._atoms
        return [
            (start, atom)
            for index, start, _ in self._automaton.find_matches_as_indexes(data.lower(), overlapping=True)
            for atom in atoms[index]
        ]


class PlainFinder:
    """The standard library only: lines without their digits repeat themselves, so each shape is looked at once."""

    name = "standard library"
    _MOST_SHAPES = 50_000
    _DIGITS = b"0123456789"

    def __init__(self, atoms: Sequence[Pattern]) -> None:
        self._direct: list[tuple[bytes, tuple[int, ...]]] = []
        self._shaped: list[tuple[bytes, tuple[int, ...]]] = []
        for literal, atoms_of in owners(atoms).items():
            shape = literal.translate(None, self._DIGITS)
            if len(shape) < 3:
                self._direct.append((literal, atoms_of))
            else:
                self._shaped.append((shape, atoms_of))
        self._shapes: dict[bytes, tuple[int, ...]] = {}

    def find(self, data: bytes) -> Iterable[tuple[int, int]]:
        data = data.lower()
        out = list(_literal_positions(data, self._direct))
        shapes = data.translate(None, self._DIGITS).split(b"\n")
        hot = {shape for shape in set(shapes) if self._atoms_of(shape)}
        if hot:
            start = 0
            for line, shape in zip(data.split(b"\n"), shapes):
                if shape in hot:
                    out.extend((start, atom) for atom in self._atoms_of(shape))
                start += len(line) + 1
        return out

    def _atoms_of(self, shape: bytes) -> tuple[int, ...]:
        known = self._shapes.get(shape)
        if known is None:
            found = {atom for literal, atoms_of in self._shaped if literal in shape for atom in atoms_of}
            known = tuple(sorted(found))
            if len(self._shapes) >= self._MOST_SHAPES:
                self._shapes.clear()
            self._shapes[shape] = known
        return known


class LittleFirst:
    """Looks for each literal by itself while there is little text, then remembers the shapes of lines. Most calls of
    ``doctor explain`` never need that."""

    name = "automatic"

    def __init__(self, pack: Pack, words: Sequence[bytes] = ()) -> None:
        self._pack = pack
        self._words = words
        self._literals: Optional[Literals] = None
        self._seen = 0
        self._shapes: Optional[ShapeFinder] = None

    def find(self, data: bytes) -> Iterable[tuple[int, int]]:
        return self.look(data)[1]

    def look(self, data: bytes) -> tuple[Optional[list[int]], Iterable[tuple[int, int]]]:
        """As `ShapeFinder.look`."""
        if self._shapes is None:
            self._seen += len(data)
            if self._seen <= _LITTLE:
                if self._literals is None:
                    self._literals = Literals(self._pack.atoms)
                return None, self._literals.places(data)
        return self._finder().look(data)

    def may_match(self, shape: bytes) -> bool:
        return self._finder().may_match(shape)

    def _finder(self) -> ShapeFinder:
        if self._shapes is None:
            from doctor.match.shapes import ShapeFinder

            self._shapes = ShapeFinder(self._pack.atoms, lambda: _fastest(self._pack), self._words)
            self._literals = None
        return self._shapes


class Literals:
    """Looks for the literals of all patterns one after the other. They are compared as text in which each byte is a
    character: that needs no encoding of ten thousand words to look into a few lines."""

    def __init__(self, atoms: Sequence[Pattern]) -> None:
        self._words = [(word.lower(), atom) for atom, item in enumerate(atoms) for word in item.literals]

    def places(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Where a literal stands, and the pattern it belongs to."""
        text = data.lower().decode("latin-1")
        for literal, atom in self._words:
            for word in (literal,) if literal.isascii() else (raw.decode("latin-1") for raw in encoded(literal)):
                at = text.find(word)
                while at >= 0:
                    yield at, atom
                    at = text.find(word, at + 1)


def _literal_positions(data: bytes, literals: Iterable[tuple[bytes, tuple[int, ...]]]) -> Iterable[tuple[int, int]]:
    for literal, atoms in literals:
        at = data.find(literal)
        while at >= 0:
            for atom in atoms:
                yield at, atom
            at = data.find(literal, at + 1)


def encoded(literal: str) -> tuple[bytes, ...]:
    """A literal as it may stand in a log: in UTF-8, and as a Chinese locale writes it."""
    raw = literal.encode("utf-8")
    return (raw,) if raw.isascii() else (raw, literal.encode("gb18030"))


def certain_texts(atom: Pattern) -> tuple[tuple[bytes, ...], ...]:
    """Of each of these sets every matching line in UTF-8 holds one text, once it is in lower case."""
    return tuple(tuple(text.encode("utf-8").lower() for text in texts) for texts in (atom.literals, *atom.needs))


def owners(atoms: Sequence[Pattern]) -> dict[bytes, tuple[int, ...]]:
    """Literal in lower case -> the atoms that need it."""
    found: dict[bytes, list[int]] = {}
    for number, atom in enumerate(atoms):
        for literal in atom.literals:
            for raw in encoded(literal):
                numbers = found.setdefault(raw.lower(), [])
                if numbers[-1:] != [number]:
                    numbers.append(number)
    return {literal: tuple(numbers) for literal, numbers in found.items()}


def makers() -> dict[str, Any]:
    """The finders by name, fastest first."""
    from doctor.match.hyper import HyperscanFinder

    return {maker.name: maker for maker in (HyperscanFinder, AhoFinder, PlainFinder)}


def _fastest(pack: Pack) -> Finder:
    for maker in makers().values():
        try:
            finder: Finder = maker(pack.atoms)
        except ImportError:
            continue
        return finder
    raise AssertionError("the last maker needs the standard library only")


def make_finder(pack: Pack, wanted: Optional[str] = None, words: Sequence[bytes] = ()) -> Finder:
    """The finder that is `wanted` by name, or one that suits the amount of text and looks for `words` as well. Raises
    ImportError when it cannot be had."""
    if wanted is None:
        return LittleFirst(pack, words)
    if wanted == "shapes":
        from doctor.match.shapes import ShapeFinder

        return ShapeFinder(pack.atoms, lambda: _fastest(pack), words)
    finder: Finder = makers()[wanted](pack.atoms)
    return finder
