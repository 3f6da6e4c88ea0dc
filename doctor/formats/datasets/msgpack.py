"""Decodes msgpack, the form in which MindRecord keeps the plain fields of a row."""

from __future__ import annotations

import struct
from typing import Any

MAX_DEPTH = 16
_NUMBERS = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
_LENGTHS = {
    0xC4: (">B", bytes), 0xC5: (">H", bytes), 0xC6: (">I", bytes), 0xD9: (">B", str), 0xDA: (">H", str), 0xDB: (">I", str),
    0xDC: (">H", list), 0xDD: (">I", list), 0xDE: (">H", dict), 0xDF: (">I", dict),
}  # fmt: skip


def decode(raw: bytes) -> Any:
    """The one value in `raw`. Raises ValueError when it is none."""
    try:
        value, at = _value(raw, 0, 0)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from error
    if at != len(raw):
        raise ValueError("bytes after the value")
    return value


def _value(raw: bytes, at: int, depth: int) -> tuple[Any, int]:
    if depth > MAX_DEPTH:
        raise ValueError("nested too deep")
    code = raw[at]
    at += 1
    if code < 0x80:
        return code, at
    if code >= 0xE0:
        return code - 256, at
    if code < 0x90:
        return _container(dict, code & 0x0F, raw, at, depth)
    if code < 0xA0:
        return _container(list, code & 0x0F, raw, at, depth)
    if code < 0xC0:
        return _container(str, code & 0x1F, raw, at, depth)
    if code in {0xC0, 0xC2, 0xC3}:
        return {0xC0: None, 0xC2: False, 0xC3: True}[code], at
    if code in _NUMBERS:
        form = _NUMBERS[code]
        size = struct.calcsize(form)
        return struct.unpack(form, raw[at : at + size])[0], at + size
    if code in _LENGTHS:
        form, kind = _LENGTHS[code]
        size = struct.calcsize(form)
        (length,) = struct.unpack(form, raw[at : at + size])
        return _container(kind, length, raw, at + size, depth)
    raise ValueError(f"code {code:#x}")


def _container(kind: type, length: int, raw: bytes, at: int, depth: int) -> tuple[Any, int]:
    if kind in {str, bytes}:
        part = raw[at : at + length]
        if len(part) < length:
            raise ValueError("cut off")
        return (part.decode("utf-8") if kind is str else part), at + length
    if length > len(raw) - at:  # each item takes at least a byte
        raise ValueError("cut off")
    if kind is list:
        items = []
        for _ in range(length):
            item, at = _value(raw, at, depth + 1)
            items.append(item)
        return items, at
    table = {}
    for _ in range(length):
        key, at = _value(raw, at, depth + 1)
        value, at = _value(raw, at, depth + 1)
        table[str(key)] = value
    return table, at
