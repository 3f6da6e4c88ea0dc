"""The finder for logs: lines that differ in their digits only are looked at once.

A shape is a line with every digit a zero. No pattern is told apart from another by which digits stand in a line once each
of its own digits stands for any (`blind`): when such a wide pattern does not match a shape, the pattern itself matches no
line of that shape, however often it comes. A run prints a few thousand shapes, most of them in its first minute.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, compress
from typing import Any, Optional

import ahocorasick_rs

from doctor.match import regex
from doctor.match.blind import blind, shrunk
from doctor.match.finder import Finder, certain_texts, owners
from doctor.match.line import PIECE, pieces
from doctor.match.textrule import Pattern

#: digits to zeros; a carriage return ends a line as well, since patterns are tried on the parts between them
_MASK = bytes(48 if 48 <= byte < 58 else 10 if byte == 13 else byte for byte in range(256))
#: `[INFO] PARALLEL(3071,7f3a2c1d,python):` in a shape, up to the thread: a number in hexadecimal, of which half of the digits
#: are letters. No pattern looks for a certain one.
_THREAD = re.compile(rb"^(\[[A-Z]+\] [A-Z_]+\(0+),[0a-f]{4,16}(?=[,)])")
_NUMBER = re.compile(rb"00+")
#: what stands for the words among the numbers of patterns
_WORD = -1
#: the most shapes that are remembered, and bytes of them
_MOST_SHAPES, _MOST_BYTES = 60_000, 12 << 20
#: part of the bytes that may be of new shapes, bytes above that from which the memory is given up, and for how long
_NEW_SHARE, _PATIENCE, _PAUSE = 0.25, 4 << 20, 64 << 20


class ShapeFinder:
    """Remembers which patterns can match a shape. For text in which few shapes come again, it steps aside for the finder
    that `direct` makes. `words` are looked for besides; they hold no digits."""

    name = "shapes"

    def __init__(self, atoms: Sequence[Pattern], direct: Callable[[], Finder], words: Sequence[bytes] = ()) -> None:
        literals = _owners(atoms)
        for word in words:
            literals.setdefault(word.lower(), []).append(_WORD)
        self._owners = list(literals.values()) or [[]]
        self._automaton = ahocorasick_rs.BytesAhoCorasick(
            list(literals) or [b"\x00"], implementation=ahocorasick_rs.Implementation.ContiguousNFA
        )
        self._words = words
        self._blind = _Views(atoms, blind, _masked)
        self._shrunk = _Views(atoms, shrunk, _shortened)
        #: kind of shape -> the patterns that may match some line of it
        self._kinds: dict[bytes, tuple[int, ...]] = {}
        #: shape -> the patterns that can match it, `_WORD` among them
        self._shapes: dict[bytes, tuple[int, ...]] = {}
        self._bytes = 0
        self._make_direct = direct
        self._direct: Optional[Finder] = None
        #: bytes that may still be of new shapes, and those for which the memory is not asked
        self._credit = _PATIENCE
        self._pause = 0
        self._mask = _Mask()

    def find(self, data: bytes) -> Iterable[tuple[int, int]]:
        return self.look(data)[1]

    def look(self, data: bytes) -> tuple[Optional[list[int]], Iterable[tuple[int, int]]]:
        """Where lines begin that hold one of the words (None: not looked for), and what `find` gives."""
        if self._pause > 0:
            self._pause -= len(data)
            assert self._direct is not None
            return None, self._direct.find(data)
        shapes = self._mask(data).split(b"\n")
        found = list(map(self._shapes.get, shapes))
        if None in found:
            self._learn(shapes, found, len(data))
        starts: list[int] = []
        candidates: list[tuple[int, int]] = []
        start = done = 0
        for number in compress(range(len(found)), found):
            start += sum(map(len, shapes[done:number])) + number - done
            done = number
            for atom in found[number] or ():
                if atom == _WORD:
                    starts.append(start)
                else:
                    candidates.append((start, atom))
        return starts, candidates

    def may_match(self, shape: bytes) -> bool:
        """Whether some pattern can match a line of this shape."""
        atoms = self._judged([_kind(shape)])[0]
        return any(atom != _WORD for atom in self._left(atoms, shape))

    def _learn(self, shapes: list[bytes], found: list[Optional[tuple[int, ...]]], size: int) -> None:
        new = list(dict.fromkeys(shape for shape, known in zip(shapes, found) if known is None))
        count = sum(map(len, new))
        self._credit = min(self._credit + int(_NEW_SHARE * size) - count, _PATIENCE)
        if self._credit < 0:
            self._direct = self._direct or self._make_direct()
            self._pause, self._credit = _PAUSE, _PATIENCE
        if len(self._shapes) + len(new) > _MOST_SHAPES or self._bytes + count > _MOST_BYTES:
            self._shapes.clear()
            self._kinds.clear()
            self._bytes = 0
        self._bytes += count
        self._judge(new)
        for number, (shape, known) in enumerate(zip(shapes, found)):
            if known is None:
                found[number] = self._shapes[shape]

    def _judge(self, new: list[bytes]) -> None:
        """Learns new shapes. Of those of one kind, which differ in how many digits their numbers have, the patterns that
        can match none of them are told apart at once."""
        kinds = [_kind(shape) for shape in new]
        fresh = list(dict.fromkeys(kind for kind in kinds if kind not in self._kinds))
        self._kinds.update(zip(fresh, self._judged(fresh)))
        for shape, kind in zip(new, kinds):
            self._shapes[shape] = self._left(self._kinds[kind], shape)

    def _judged(self, kinds: list[bytes]) -> list[tuple[int, ...]]:
        """For each kind of lines the patterns that may match some of them."""
        starts = list(accumulate((len(kind) + 1 for kind in kinds), initial=0))
        maybe: dict[int, set[int]] = {}
        text = b"\n".join(kinds).lower()
        for literal, start, _ in self._automaton.find_matches_as_indexes(text, overlapping=True):
            maybe.setdefault(bisect_right(starts, start) - 1, set()).update(self._owners[literal])
        out: list[tuple[int, ...]] = [()] * len(kinds)
        for number, atoms in maybe.items():
            some, kind = sorted(atoms), kinds[number]
            # very long lines are matched in pieces, which end elsewhere in the lines themselves
            out[number] = self._fitting(self._shrunk, some, kind) if len(kind) <= PIECE else tuple(some)
        return out

    def _left(self, atoms: tuple[int, ...], shape: bytes) -> tuple[int, ...]:
        """Those of some patterns that can match a line of a shape."""
        return self._fitting(self._blind, atoms, shape) if atoms else ()

    def _fitting(self, views: _Views, atoms: Sequence[int], line: bytes) -> tuple[int, ...]:
        # The digits of a Chinese character of four bytes are no digits: such a line is looked at each time.
        sure = _is_utf8(line)
        parts = [(part, part.lower()) for part in pieces(line)]
        return tuple(
            atom
            for atom in atoms
            if (any(word in line for word in self._words) if atom == _WORD else not sure or views.fit(atom, parts))
        )


class _Views:
    """Patterns as they look on lines in which digits are not told apart: `make` makes an expression of one (None: it fits
    every line), `change` does to a text what was done to the lines."""

    def __init__(
        self,
        atoms: Sequence[Pattern],
        make: Callable[[str], Optional[re.Pattern[bytes]]],
        change: Callable[[bytes], bytes],
    ) -> None:
        self._atoms = atoms
        self._make = make
        self._change = change
        self._compiled: dict[int, Optional[re.Pattern[bytes]]] = {}
        self._texts: dict[int, tuple[tuple[bytes, ...], ...]] = {}

    def fit(self, atom: int, parts: list[tuple[bytes, bytes]]) -> bool:
        """Whether a pattern can match a line of which these are the parts, as they are and in lower case."""
        texts = self._texts.get(atom)
        if texts is None:
            # the literals last: by one of them the line was found
            first, *others = certain_texts(self._atoms[atom])
            texts = self._texts[atom] = tuple(tuple(map(self._change, words)) for words in (*others, first))
        left = [part for part, lower in parts if _holds(lower, texts)]
        if not left:
            return False
        if atom not in self._compiled:
            self._compiled[atom] = self._make(self._atoms[atom].regex)
        compiled = self._compiled[atom]
        return compiled is None or any(compiled.search(part) is not None for part in left)


def _masked(text: bytes) -> bytes:
    return text.translate(_MASK)


def _shortened(text: bytes) -> bytes:
    return _NUMBER.sub(b"0", text.translate(_MASK))


def _kind(shape: bytes) -> bytes:
    """A shape with one zero for each number; the thread counts as one."""
    return _NUMBER.sub(b"0", _THREAD.sub(rb"\1,0", shape, 1))


def _holds(line: bytes, texts: tuple[tuple[bytes, ...], ...]) -> bool:
    """Whether a line holds a text of each set. Loops, since generators take three times as long."""
    for words in texts:
        for word in words:
            if word in line:
                break
        else:
            return False
    return True


def _owners(atoms: Sequence[Pattern]) -> dict[bytes, list[int]]:
    """Literal in lower case, numbers as one zero -> the atoms that need it. A literal of digits only would be in every
    second line; where such an atom needs others as well, it is looked for by those."""
    found: dict[bytes, list[int]] = {}
    for literal, numbers in owners(atoms).items():
        shape = _shortened(literal)
        if shape != b"0":
            found.setdefault(shape, []).extend(numbers)
            continue
        for number in numbers:
            words = regex.required_words(atoms[number].regex)
            wordy = bool(words) and all(word.isascii() for word in words)
            for other in words if wordy else (shape,):
                owned = found.setdefault(_shortened(other), [])
                if number not in owned:
                    owned.append(number)
    return found


def _is_utf8(line: bytes) -> bool:
    if line.isascii():
        return True
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


class _Mask:
    """Bytes with their digits as zeros. numpy does it twice as fast, where someone else has imported it; its arrays are
    kept, since fresh memory of this size costs more than what is done in it."""

    def __init__(self) -> None:
        self._room: Any = None

    def __call__(self, data: bytes) -> bytes:
        numpy = sys.modules.get("numpy")
        size = len(data)
        if numpy is None or size < 1 << 14 or b"\r" in data:
            return data.translate(_MASK)
        if self._room is None or len(self._room) < size:
            self._room = numpy.empty(max(size, 1 << 20), dtype=numpy.uint8)
        text, room = numpy.frombuffer(data, dtype=numpy.uint8), self._room[:size]
        numpy.subtract(text, 48, out=room)
        numpy.less(room, 10, out=room.view(numpy.bool_))
        # of a digit its last four bits
        numpy.multiply(room, 15, out=room)
        numpy.bitwise_and(room, text, out=room)
        numpy.subtract(text, room, out=room)
        shapes: bytes = room.tobytes()
        return shapes
