"""Many step lines of one make at once: numbers out of bytes with numpy, a column for each field.

Numbers are read side by side, one decimal place of all lines at a time, and each must be followed by the text that the
template has there.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Optional

import numpy as np
import numpy.typing as npt

from doctor.records.prefix import minute_start
from doctor.records.template import Hole

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
#: eight bytes from each place of a text on
Words = npt.NDArray[np.uint64]

# bytes before the text, and those that follow it, so that a line that is not as expected does not lead outside
_FRONT = 16
_PADDING = 1 << 14
# a number has no more digits, and no more blanks in front, than this
_LONGEST = 48

# A decimal of at most 15 digits and a power of ten up to 22 are exact as float64, and so their quotient or product is
# the nearest float64 (Clinger 1990, "How to read floating point numbers accurately"); others are read one by one.
EXACT = 10**15
POWERS = 10.0 ** np.arange(23)
_SPACE, _MINUS, _DOT, _ZERO, _E = 32, 45, 46, 48, 101


class Text:
    """A chunk of a log, padded with line ends: its bytes, and the eight bytes from each place on. One object serves all
    chunks in turn, since fresh memory of this size costs more than what is done in it."""

    def __init__(self) -> None:
        self.size = 0
        self._make_room(1 << 20)

    def _make_room(self, size: int) -> None:
        self._all: Bytes = np.zeros(_FRONT + size + _PADDING, dtype=np.uint8)
        self.bytes: Bytes = self._all[_FRONT:]
        self.words: Words = np.ndarray((size + _PADDING - 7,), dtype="<u8", buffer=self.bytes.data, strides=(1,))
        self._flags: Bools = np.zeros(size, dtype=np.bool_)
        self._others: Bools = np.zeros(size, dtype=np.bool_)

    def hold(self, data: bytes) -> None:
        """Makes `data` the text."""
        self.size = len(data)
        if self.size + _PADDING > len(self.bytes):
            self._make_room(self.size)
        self.bytes[: self.size] = np.frombuffer(data, dtype=np.uint8)
        self.bytes[self.size : self.size + _PADDING] = 10

    def equal(self, at: Ints, literal: bytes) -> Bools:
        """At which of these places `literal` stands."""
        good: Optional[Bools] = None
        for place in range(0, len(literal), 8):
            part = literal[place : place + 8]
            column = self.words[at + place] if place else self.words[at]
            if len(part) < 8:
                column = column & np.uint64((1 << 8 * len(part)) - 1)
            same = column == np.uint64(int.from_bytes(part, "little"))
            good = same if good is None else good & same
        return np.ones(len(at), dtype=np.bool_) if good is None else good

    def rows(self, starts: Ints, front: int, width: int) -> Bytes:
        """A table with `width` bytes of each line in a row, beginning `front` bytes (at most 16) before it."""
        size = len(self._all) - width + 1
        places: npt.NDArray[np.void] = np.ndarray((size,), dtype=f"V{width}", buffer=self._all.data, strides=(1,))
        rows: Bytes = places[starts + (_FRONT - front)].view(np.uint8).reshape(len(starts), width)
        return rows

    def find(self, literal: bytes, pick: int, pair: bool = False) -> Ints:
        """Where `literal` stands, looked for by the byte at its place `pick`, which should be a rare one, or, for words of
        letters that are all frequent, by that one and the next."""
        size = self.size - len(literal) + 1
        if size <= 0:
            return np.zeros(0, dtype=np.int64)
        flags = np.equal(self.bytes[pick : size + pick], literal[pick], out=self._flags[:size])
        if pair:
            flags &= np.equal(self.bytes[pick + 1 : size + pick + 1], literal[pick + 1], out=self._others[:size])
        at = np.flatnonzero(flags)
        return at[self.equal(at, literal)]


def differences(values: Floats, before: float) -> Floats:
    """Of each value from the one before it; `before` is before the first. np.diff takes four times as long on short ones."""
    out = np.empty(len(values))
    out[:1] = values[:1] - before
    np.subtract(values[1:], values[:-1], out=out[1:])
    return out


def read_holes(text: Text, at: Ints, holes: Sequence[Hole]) -> tuple[dict[str, Floats], Bools]:
    """The wanted numbers of lines whose first number begins at `at`, and which lines are as the holes say."""
    columns: dict[str, Floats] = {}
    good = np.ones(len(at), dtype=np.bool_)
    for hole in holes:
        at = _behind_blanks(text.bytes, at)
        same = _same(text, at, hole.follower)
        if same is not None:
            values, length = same
            at = at + length
        else:
            values, at, found = _numbers(text.bytes, at, hole.field is not None)
            good &= found
        good &= text.equal(at, hole.literal) if hole.literal else text.bytes[at] == hole.follower
        at = at + len(hole.literal)
        if hole.field is not None:
            columns[hole.field] = values if hole.factor == 1.0 else values * hole.factor
    return columns, good


def numbers(text: Text, start: Ints) -> tuple[Floats, Bools]:
    """The numbers at `start` (after blanks), and whether there was one."""
    values, _, found = _numbers(text.bytes, _behind_blanks(text.bytes, start))
    return values, found


def _behind_blanks(text: Bytes, at: Ints) -> Ints:
    for _ in range(_LONGEST):
        blank = text[at] == _SPACE
        if not np.count_nonzero(blank):
            break
        at = at + blank
    return at


def _same(text: Text, at: Ints, follower: int) -> Optional[tuple[Floats, int]]:
    """The number at `at` and its length when it is the same in all lines, as lengths of epochs and loss scales are; else,
    or when it is longer than 15 bytes, None."""
    begin = int(at[0])
    word = text.bytes[begin : begin + 16].tobytes()
    length = word.find(follower)
    if length <= 0 or not text.equal(at, word[: length + 1]).all():
        return None
    try:
        value = float(word[:length])
    except ValueError:
        return None
    return np.full(len(at), value), length


def _numbers(text: Bytes, first: Ints, wanted: bool = True) -> tuple[Floats, Ints, Bools]:
    """As `numbers`, without blanks in front. The values are only made when they are `wanted`."""
    at = first
    char = text[at]
    minus = char == _MINUS
    negative = np.count_nonzero(minus) > 0
    if negative:
        at = at + minus
        char = text[at]
    mantissa = np.zeros(len(at), dtype=np.int64)
    begin = at
    at, char = _digits(text, at, char, mantissa)
    digits = at - begin
    power: Optional[Ints] = None
    dot = char == _DOT
    if np.count_nonzero(dot):
        begin = at + dot
        at, char = _digits(text, begin, text[begin], mantissa)
        power = begin - at
        digits -= power
    exponent = (char | 32) == _E
    if np.count_nonzero(exponent):
        exponents, at = _exponents(text, at, exponent)
        power = exponents if power is None else power + exponents
    found = digits > 0
    if not wanted:
        return _NOTHING, at, found
    return _values(text, first, at, mantissa, digits, power, minus if negative else None), at, found


_NOTHING: Floats = np.zeros(0)


def _digits(text: Bytes, at: Ints, char: Bytes, mantissa: Ints) -> tuple[Ints, Bytes]:
    """Reads the digits at `at` into `mantissa`; gives the places behind them and the characters there."""
    digit = char - np.uint8(_ZERO)
    more = digit < 10
    count = np.count_nonzero(more)
    for _ in range(_LONGEST):
        if not count:
            break
        if count == len(more):
            mantissa *= 10
            mantissa += digit
            at = at + 1
        else:
            mantissa *= more * np.uint8(9) + np.uint8(1)  # twice as fast as `where=more`
            mantissa += digit * more
            at = at + more
        char = text[at]
        digit = char - np.uint8(_ZERO)
        more = digit < 10
        count = np.count_nonzero(more)
    return at, char


def _exponents(text: Bytes, at: Ints, there: Bools) -> tuple[Ints, Ints]:
    """The exponents at `at` where `there` (elsewhere 0), and the places behind them. `1e` has none."""
    behind = at + there
    char = text[behind]
    minus = there & (char == _MINUS)
    behind += there & ((char == _MINUS) | (char == 43))
    begin = behind.copy()
    char = np.where(there, text[behind], np.uint8(0))
    digit = char - np.uint8(_ZERO)
    more = digit < 10
    value = np.zeros(len(at), dtype=np.int64)
    while more.any():
        value = np.where(more, value * 10 + digit, value)
        behind += more
        digit = np.where(more, text[behind], np.uint8(0)) - np.uint8(_ZERO)
        more = digit < 10
    complete = behind > begin
    value = np.where(minus, -value, value)
    return np.where(complete, value, 0), np.where(complete, behind, at)


def _values(
    text: Bytes, first: Ints, behind: Ints, mantissa: Ints, digits: Ints, power: Optional[Ints], minus: Optional[Bools]
) -> Floats:
    values = mantissa.astype(np.float64)
    exact = (digits <= 15) | ((digits <= 18) & (mantissa < EXACT))
    if power is not None:
        small = np.abs(power) <= 22
        size = POWERS[np.where(small, np.abs(power), 0)]
        values = np.where(power < 0, values / size, values * size)
        exact &= small
    if minus is not None:
        values = np.where(minus, -values, values)
    if not exact.all():
        for row in np.flatnonzero(~exact):
            word = text[first[row] : behind[row]].tobytes()
            values[row] = float(word) if word else 0.0
    return values


# `2026-03-14 09:27:06` and where its digits stand
_STAMP_LENGTH = 19
_STAMP_DIGITS = np.array([0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18])
# what each digit counts in year, month, day and seconds of the day
_STAMP_WEIGHTS = np.zeros((14, 4))
_STAMP_WEIGHTS[0:4, 0] = 1000, 100, 10, 1
_STAMP_WEIGHTS[4:6, 1] = _STAMP_WEIGHTS[6:8, 2] = 10, 1
_STAMP_WEIGHTS[8:, 3] = 36000, 3600, 600, 60, 10, 1


def stamps(data: Bytes, at: Ints, length: int) -> tuple[Floats, Bools]:
    """Time stamps of `length` characters that begin at `at`, as seconds since the epoch, and which of them are such."""
    size = max(length - _STAMP_LENGTH - 1, 0)
    places = np.concatenate([_STAMP_DIGITS, np.arange(_STAMP_LENGTH + 1, _STAMP_LENGTH + 1 + size)])
    digits = data[at[:, None] + places] - np.uint8(_ZERO)
    good = (digits < 10).all(axis=1)
    year, month, day, second = (digits[:, :14].astype(np.float64) @ _STAMP_WEIGHTS).T
    # digits of an hour above 23 or a minute above 59 add up to what another time would: those are no times
    hour, minute = digits[:, 8] * 10 + digits[:, 9], digits[:, 10] * 10 + digits[:, 11]
    good &= (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31) & (hour < 24) & (minute < 60)
    good &= (digits[:, 12] <= 6) & (year >= 1970) & (year <= 2100)
    values = _days(year, month, day) * 86400.0 + second
    values += _zone(values, good)
    if size:
        values += digits[:, 14:].astype(np.float64) @ (10.0 ** np.arange(size - 1, -1, -1)) / 10**size
    return values, good


def _days(year: Floats, month: Floats, day: Floats) -> Floats:
    """Days from 1970-01-01 in the Gregorian calendar (Fliegel and Van Flandern 1968, with years from March)."""
    late = month > 2
    year = np.where(late, year, year - 1)
    month = np.where(late, month - 3, month + 9)
    leaps = np.floor(year / 4) - np.floor(year / 100) + np.floor(year / 400)
    days: Floats = year * 365 + leaps + np.floor((153 * month + 2) / 5) + day - 719469
    return days


def _zone(values: Floats, good: Bools) -> Floats:
    """What is to be added to times read as UTC: this machine's time zone, which may change within the times."""
    if not good.any():
        return np.zeros(len(values))
    known = values[good]
    first, last = _offset(known.min()), _offset(known.max())
    if first == last:
        return np.full(len(values), first)
    return np.array([_offset(value) if fine else 0.0 for value, fine in zip(values, good)])


def _offset(utc: float) -> float:
    time = datetime.fromtimestamp(utc, timezone.utc)
    start = minute_start(time.year, time.month, time.day, time.hour, time.minute)
    return (start if start is not None else utc) - utc + time.second
