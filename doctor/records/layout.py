"""Step lines that differ in their digits only: all of them as one table of bytes, checked and read column by column.

Lines of one make fall into a few layouts: where each digit stands. Within a layout a number has the same place in every
line, so that eight of its digits are eight bytes to be loaded at once (`_eight_digits`).
"""

from __future__ import annotations

from typing import NamedTuple, Optional

import numpy as np

from doctor.records.columns import EXACT, POWERS, Bools, Bytes, Floats, Ints, Text, Words
from doctor.records.template import Template

#: bytes in front of each line in the table, so that eight bytes can be loaded that end at its first digit
FRONT = 8
#: a longer line is read in another way
LONGEST = 1024
_DIGITS = frozenset(b"0123456789")


class _Number(NamedTuple):
    """Where in the line a number stands: its runs of digits (start, end), how many of the digits follow the point, and its
    exponent."""

    field: str
    factor: float
    start: int
    end: int
    runs: tuple[tuple[int, int], ...]
    places: int
    negative: bool
    exponent: Optional[tuple[int, int]]
    exponent_negative: bool


class Layout:
    """One layout of a make, learnt from `line`. `low` and `span` say which bytes each place may hold."""

    def __init__(self, template: Template, line: bytes, numbers: list[_Number], passes: bool) -> None:
        self.template = template
        self.numbers = numbers
        #: no pattern of any rule can match such a line
        self.passes = passes
        self.width = FRONT + -(-len(line) // 8) * 8
        shape = np.frombuffer(line, dtype=np.uint8)
        digit = (shape >= 48) & (shape < 58)
        self.low = np.zeros(self.width, dtype=np.uint8)
        self.span = np.full(self.width, 255, dtype=np.uint8)
        self.low[FRONT : FRONT + len(line)] = np.where(digit, 48, shape)
        self.span[FRONT : FRONT + len(line)] = np.where(digit, 9, 0)

    def read(self, text: Text, starts: Ints) -> tuple[Bools, dict[str, Floats]]:
        """Which of the lines that begin at `starts` are of this layout, and the values of those that are."""
        table = text.rows(starts, FRONT, self.width)
        off = np.subtract(table, self.low)
        np.greater(off, self.span, out=off.view(np.bool_))
        good = np.ones(len(starts), dtype=np.bool_)
        if off.any():
            good = ~np.bitwise_or.reduce(off.view(np.uint64), axis=1).astype(np.bool_)
            table = table[good]
        return good, {number.field: _values(table, number) for number in self.numbers} if len(table) else {}


def learn_layout(template: Template, line: bytes, passes: bool) -> Optional[Layout]:
    """The layout of a line; None when it is not of the make, or holds numbers that are not digits."""
    match = template.pattern.fullmatch(line)
    if match is None or len(line) > LONGEST:
        return None
    numbers = []
    for group, (name, factor) in enumerate(template.groups, 1):
        if name == "time":
            continue
        number = _number(line, name, factor, match.start(group), match.end(group))
        if number is None:
            return None
        numbers.append(number)
    return Layout(template, line, numbers, passes)


def _number(line: bytes, field: str, factor: float, start: int, end: int) -> Optional[_Number]:
    """As ``-12.5e-07``; None for any other form."""
    at = start + (line[start : start + 1] in (b"-", b"+"))
    negative = line[start : start + 1] == b"-"
    runs: list[tuple[int, int]] = []
    places = 0
    first = _behind_digits(line, at, end)
    if first > at:
        runs.append((at, first))
    at = first
    if line[at : at + 1] == b"." and at < end:
        last = _behind_digits(line, at + 1, end)
        places = last - at - 1
        if places:
            runs.append((at + 1, last))
        at = last
    if not runs:
        return None
    exponent, exponent_negative = None, False
    if at < end and line[at : at + 1] in (b"e", b"E"):
        at += 1
        exponent_negative = line[at : at + 1] == b"-"
        at += line[at : at + 1] in (b"-", b"+")
        last = _behind_digits(line, at, end)
        if last == at or last - at > 3:
            return None
        exponent, at = (at, last), last
    if at != end:
        return None
    return _Number(field, factor, start, end, tuple(runs), places, negative, exponent, exponent_negative)


def _behind_digits(line: bytes, at: int, end: int) -> int:
    while at < end and line[at] in _DIGITS:
        at += 1
    return at


def _values(table: Bytes, number: _Number) -> Floats:
    digits = sum(end - start for start, end in number.runs)
    if digits > 18:
        return _one_by_one(table, number)
    mantissa = _mantissa(table, number)
    values = mantissa.astype(np.float64)
    exact: Optional[Bools] = None if digits <= 15 else mantissa < EXACT
    power: Ints | int = -number.places
    if number.exponent is not None:
        start, end = number.exponent
        exponents = _eight_digits(_words(table, end) & _mask(end - start)).astype(np.int64)
        if len(exponents) and (exponents == exponents[0]).all():
            power += -int(exponents[0]) if number.exponent_negative else int(exponents[0])
        else:
            power = power - exponents if number.exponent_negative else power + exponents
    if isinstance(power, int):
        if abs(power) > 22:
            return _one_by_one(table, number)
        if power:
            values = values / POWERS[-power] if power < 0 else values * POWERS[power]
    else:
        small = np.abs(power) <= 22
        size = POWERS[np.where(small, np.abs(power), 0)]
        values = np.where(power < 0, values / size, values * size)
        exact = small if exact is None else exact & small
    if number.negative:
        values = -values
    if exact is not None and not exact.all():
        rows = np.flatnonzero(~exact)
        values[rows] = _one_by_one(table[rows], number, scaled=False)
    return values if number.factor == 1.0 else values * number.factor


def _mantissa(table: Bytes, number: _Number) -> Words:
    """The digits of the numbers, with no regard to the point."""
    if len(number.runs) == 2 and number.runs[1][1] - number.runs[0][0] <= 8:
        words = _words(table, number.runs[1][1])
        before, behind = (end - start for start, end in number.runs)
        # over the point, next to the digits behind it
        front = words & (_mask(before) >> np.uint64(8 * (behind + 1)))
        front <<= _U8
        words &= _mask(behind)
        words |= front
        return _eight_digits(words)
    mantissa: Optional[Words] = None
    for start, end in number.runs:
        for at in range(start, end, 8):
            last = min(at + 8, end)
            words = _words(table, last)
            words &= _mask(last - at)
            part = _eight_digits(words)
            if mantissa is not None:
                mantissa *= np.uint64(10 ** (last - at))
                mantissa += part
            else:
                mantissa = part
    assert mantissa is not None
    return mantissa


def _one_by_one(table: Bytes, number: _Number, scaled: bool = True) -> Floats:
    """Numbers of so many digits that the nearest float64 is not found by a division."""
    start, end = FRONT + number.start, FRONT + number.end
    words = np.ascontiguousarray(table[:, start:end]).view(f"S{end - start}").ravel().tolist()
    values = np.array(list(map(float, words)), dtype=np.float64)
    return values * number.factor if scaled and number.factor != 1.0 else values


def _words(table: Bytes, end: int) -> Words:
    """The eight bytes of each line that end at place `end`."""
    return np.ndarray(
        (len(table),), dtype="<u8", buffer=table.data, offset=FRONT + end - 8, strides=(table.strides[0],)
    ).copy()


def _eight_digits(words: Words) -> Words:
    """The numbers that are eight digits each, the first in the lowest byte and each in the low half of its byte. Neighbouring
    digits, pairs and fours are put together within the word (Lemire, "Number parsing at a gigabyte per second", 2021)."""
    if len(words) and (words == words[0]).all():
        digits = (int(words[0]) | 0x3030303030303030).to_bytes(8, "little")
        return np.full(len(words), int(digits), dtype=np.uint64)
    more = words >> _U8
    words *= _TEN
    words += more
    words &= _PAIRS
    np.right_shift(words, _U16, out=more)
    words *= _HUNDRED
    words += more
    words &= _FOURS
    np.right_shift(words, _U32, out=more)
    words *= _TEN_THOUSAND
    words += more
    words &= _EIGHTS
    return words


_U8, _U16, _U32 = np.uint64(8), np.uint64(16), np.uint64(32)
_TEN, _HUNDRED, _TEN_THOUSAND = np.uint64(10), np.uint64(100), np.uint64(10_000)
_PAIRS, _FOURS, _EIGHTS = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF), np.uint64(0xFFFFFFFF)


def _mask(digits: int) -> np.uint64:
    """The low four bits of the last `digits` bytes of a word."""
    return np.uint64(int.from_bytes(b"\0" * (8 - digits) + b"\x0f" * digits, "little"))
