"""The make of a line, learnt from one that the generic reader has read, so that the next ones cost less.

A template is the line with its numbers taken out. Two lines of one template mean the same things in the same order,
and only the numbers differ: a tight expression with a group for each number that is wanted reads them. Words that are
values (True, nan, None) belong to the template, so that a line with another word is of another template.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Optional

from doctor.records.prefix import rank_span, seconds, time_span
from doctor.records.reading import COUNTS, Fields, Place, Reading, whole
from doctor.records.tokens import NUMBER, clean

_DIGITS = re.compile(rb"\d[\d.]*(?:[eE][-+]?\d+)?")
_SIGNED = b"[-+]?" + NUMBER.encode()
_FLOAT = re.compile(_SIGNED)
# from a letter on, up to the number, with no other number and no bracket of a record between
_LABEL = re.compile(rb"[A-Za-z\x80-\xff][^\d{}|;\t]*\Z")
_LONGEST_LABEL = 24
# a line with more numbers is a table or a dump
_MOST_NUMBERS = 80


class Hole(NamedTuple):
    """A number of the line: the field it is for (None: for none) and its factor; the text behind it up to the next
    number, without the blanks that pad that one, and the byte behind it."""

    field: Optional[str]
    factor: float
    literal: bytes
    follower: int


@dataclass(frozen=True)
class Columns:
    """The line in two parts: a prefix of fixed length, and the text from `label` on, the words before the first number
    that is wanted."""

    label: bytes
    holes: tuple[Hole, ...]
    prefix: bytes
    #: bytes of the prefix that must be as they are: (position, byte)
    marks: tuple[tuple[int, int], ...]
    #: where the rank and the time stand in the prefix
    rank_at: Optional[int]
    time_at: Optional[tuple[int, int]]
    #: the line it was learnt from
    example: bytes


@dataclass(frozen=True, eq=False)
class Template:
    """`pattern` matches whole lines. Group n + 1 is the number of ``groups[n]``: (field, factor)."""

    pattern: re.Pattern[bytes]
    groups: tuple[tuple[str, float], ...]
    #: fields that are not numbers of the line, the same in every line of this make
    constants: Fields
    #: for reading many lines at once (`doctor.records.bulk`); None where that cannot be done
    columns: Optional[Columns]

    def fields(self, line: bytes) -> Optional[Fields]:
        """What the line says, or None when it is of another make."""
        match = self.pattern.fullmatch(line)
        if match is None:
            return None
        found = dict(self.constants)
        for (name, factor), text in zip(self.groups, match.groups()):
            if name == "time":
                value = seconds(text.decode("ascii"))
                if value is None:
                    return None
                found[name] = value
            elif name in COUNTS or name == "rank":
                found[name] = int(text) if text.isdigit() else whole(float(text))
            elif name == "overflow":
                found[name] = bool(float(text))
            else:
                found[name] = float(text) if factor == 1.0 else float(text) * factor
        return found


class _Piece(NamedTuple):
    """A number of the line, with the field it is for."""

    start: int
    end: int
    name: Optional[str] = None
    factor: float = 1.0


def learn(line: bytes, reading: Reading) -> Optional[Template]:
    """The template of `line`, of which `reading` is the one record (with its rank and time, when the line has them).
    None when the line's make cannot be told from its bytes alone: colours, tensors, letters outside UTF-8.
    """
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if len(clean(text)) != len(text) or not reading.places:
        return None
    pieces = _pieces(line, _in_bytes(text, reading))
    if pieces is None or len(pieces) > _MOST_NUMBERS:
        return None
    groups = tuple((piece.name, piece.factor) for piece in pieces if piece.name is not None)
    template = Template(
        pattern=_pattern(line, pieces),
        groups=groups,
        constants={name: value for name, value in reading.fields.items() if name not in dict(groups)},
        columns=_columns(line, pieces),
    )
    return template if template.fields(line) == reading.fields else None


def _in_bytes(text: str, reading: Reading) -> list[tuple[str, Place]]:
    """The places as offsets of bytes and in order, with those of rank and time."""
    places = dict(reading.places)
    for name, span in (("rank", rank_span(text)), ("time", time_span(text))):
        if name in reading.fields and name not in places and span is not None:
            places[name] = Place(*span, 1.0)
    if not text.isascii():
        for name, place in places.items():
            places[name] = Place(len(text[: place.start].encode()), len(text[: place.end].encode()), place.factor)
    return sorted(places.items(), key=lambda item: item[1].start)


def _pieces(line: bytes, wanted: Sequence[tuple[str, Place]]) -> Optional[list[_Piece]]:
    """All numbers of the line in order, the wanted ones among them; None when a wanted one is no plain number (`2,345`)
    or two overlap."""
    pieces: list[_Piece] = []
    at = 0
    for name, place in wanted:
        if place.start < at or (name != "time" and not _FLOAT.fullmatch(line, place.start, place.end)):
            return None
        pieces += [_Piece(*found.span()) for found in _DIGITS.finditer(line, at, place.start)]
        pieces.append(_Piece(place.start, place.end, name, place.factor))
        at = place.end
    return pieces + [_Piece(*found.span()) for found in _DIGITS.finditer(line, at)]


def _ends(pieces: Sequence[_Piece], line: bytes) -> list[int]:
    """Where the text behind each piece ends."""
    return [*(piece.start for piece in pieces[1:]), len(line)]


def _pattern(line: bytes, pieces: Sequence[_Piece]) -> re.Pattern[bytes]:
    parts = [_literal(line[: pieces[0].start])]
    for piece, end in zip(pieces, _ends(pieces, line)):
        parts.append(_group(line, piece) + _literal(line[piece.end : end]))
    return re.compile(b"".join(parts))


def _literal(text: bytes) -> bytes:
    """Exact, but for the number of blanks at its end: they pad the number behind."""
    stripped = text.rstrip(b" ")
    return re.escape(stripped) + (b" *" if len(stripped) < len(text) else b"")


def _group(line: bytes, piece: _Piece) -> bytes:
    text = line[piece.start : piece.end]
    if piece.name is None:
        return rb"[\d.]+(?:[eE][-+]?\d+)?"
    if piece.name == "time":
        return b"(" + re.sub(rb"\d", rb"\\d", re.escape(text)) + b")"
    if piece.name in COUNTS or piece.name == "rank":
        return rb"(\d+)" if text.isdigit() else b"(" + _SIGNED + b")"
    return b"(" + _SIGNED + b")"


def _columns(line: bytes, pieces: Sequence[_Piece]) -> Optional[Columns]:
    """How the lines are read in bulk. That needs rank and time in front, and a label that is not met before."""
    first = next((piece.start for piece in pieces if piece.name not in (None, "rank", "time")), 0)
    front = {piece.name: (piece.start, piece.end) for piece in pieces if piece.start < first and piece.name}
    found = _LABEL.search(line, max(0, first - _LONGEST_LABEL), first)
    if found is None or any(piece.name in ("rank", "time") for piece in pieces if piece.start >= first):
        return None
    at = found.start()
    label = line[at:first].rstrip(b" ")
    if line.find(label) != at or any(end > at for _, end in front.values()):
        return None
    tail = [piece for piece in pieces if piece.start >= first]
    holes = []
    for piece, end in zip(tail, _ends(tail, line)):
        text = line[piece.end : end]
        literal = text if end == len(line) else text.rstrip(b" ")
        holes.append(Hole(piece.name, piece.factor, literal, text[0] if text else ord("\n")))
    return Columns(
        label=label,
        holes=tuple(holes),
        prefix=line[:at],
        marks=_marks(line[:at], [edge for start, end in front.values() for edge in (start - 1, end)]),
        rank_at=front["rank"][0] if "rank" in front else None,
        time_at=front.get("time"),
        example=line,
    )


def _marks(prefix: bytes, edges: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """A few bytes of the prefix that are no digits, spread over it, and those at `edges`."""
    fixed = [at for at, byte in enumerate(prefix) if not 48 <= byte <= 57]
    chosen = {*fixed[:: max(1, len(fixed) // 6)], *fixed[-1:], *(at for at in edges if 0 <= at < len(prefix))}
    return tuple((at, prefix[at]) for at in sorted(chosen))
