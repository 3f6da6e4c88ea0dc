"""Walks protobuf bytes in a file without a schema and without reading what it does not need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, Optional

from doctor.finding import Text

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class WireError(Exception):
    """The bytes are not protobuf, or end too early; `offset` is where."""

    def __init__(self, offset: int, what: Text, truncated: bool = False, needed: Optional[int] = None) -> None:
        super().__init__(what.en)
        #: where the file would have to end at least
        self.needed = needed
        self.what = what
        self.offset = offset
        self.truncated = truncated


class Field(NamedTuple):
    """One field: for bytes `start` and `length` say where the content stands, for numbers `value` holds it."""

    number: int
    wire: int
    start: int
    length: int
    value: int

    @property
    def end(self) -> int:
        return self.start + self.length


class Window:
    """A file seen through one buffer that moves forward; reads between fields cost no system call."""

    def __init__(self, file: BinaryIO, size: int, buffer: int = 1 << 12) -> None:
        self._file = file
        self.size = size
        self._buffer_size = buffer
        self._start = 0
        self._data = b""

    def bytes(self, offset: int, length: int) -> bytes:
        """`length` bytes at `offset`; fewer at the end of the file."""
        at = offset - self._start
        if at < 0 or at + length > len(self._data):
            self._file.seek(offset)
            self._data = self._file.read(max(length, self._buffer_size)) or b""
            self._start, at = offset, 0
        return self._data[at : at + length]

    def varint(self, offset: int, end: int) -> tuple[int, int]:
        """The number at `offset` and the offset behind it."""
        raw = self.bytes(offset, min(10, end - offset))
        value = 0
        for at, byte in enumerate(raw):
            value |= (byte & 0x7F) << (7 * at)
            if byte < 0x80:
                return value & 0xFFFFFFFFFFFFFFFF, offset + at + 1
        if len(raw) < 10:
            raise WireError(offset, Text("a number is cut off", "整数被截断"), truncated=True)
        raise WireError(offset, Text("a number is longer than ten bytes", "整数超过十字节"))


def fields(window: Window, start: int, end: int) -> Iterator[Field]:
    """The fields of one message in [start, end). Raises WireError where the bytes stop making sense."""
    at = start
    while at < end:
        key, at = window.varint(at, end)
        number, wire = key >> 3, key & 7
        if number == 0:
            raise WireError(at, Text("field number 0", "字段号为 0"))
        if wire == VARINT:
            begin = at
            value, at = window.varint(at, end)
            yield Field(number, wire, begin, at - begin, value)
        elif wire == BYTES:
            length, at = window.varint(at, end)
            if at + length > end:
                raise _short(at, number, length, end - at)
            yield Field(number, wire, at, length, 0)
            at += length
        elif wire in {FIXED32, FIXED64}:
            length = 8 if wire == FIXED64 else 4
            if at + length > end:
                raise _short(at, number, length, end - at)
            yield Field(number, wire, at, length, int.from_bytes(window.bytes(at, length), "little"))
            at += length
        else:
            raise WireError(at, Text(f"wire type {wire}", f"线型 {wire} 无效"))


def _short(offset: int, number: int, wanted: int, there: int) -> WireError:
    return WireError(
        offset,
        Text(
            f"field {number} claims {wanted} bytes, {there} are there",
            f"字段 {number} 声明 {wanted} 字节，实际只有 {there} 字节",
        ),
        truncated=True,
        needed=offset + wanted,
    )


def signed(value: int) -> int:
    """A varint as int64: protobuf writes negative numbers as ten bytes."""
    return value - (1 << 64) if value >= 1 << 63 else value


def text(window: Window, field: Field, limit: int = 4096) -> Optional[str]:
    """A string field, or None when it is longer than `limit` bytes or not UTF-8."""
    if field.wire != BYTES or field.length > limit:
        return None
    try:
        return window.bytes(field.start, field.length).decode("utf-8")
    except UnicodeDecodeError:
        return None
