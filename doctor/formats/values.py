"""Looks at the values of tensors: what is not finite, zero, too small or too large, and how large on the whole.

Streams a file through one buffer; floats are judged by their bits, since for positive numbers the order of
the bits is the order of the values. numpy only.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Optional

import numpy as np

from doctor.formats.tensor import DTYPE_BITS, Tensor

#: Bytes read at a time, and elements judged at a time (what stays in a core's cache).
READ = 1 << 22
BLOCK = 1 << 17

_Array = Any


@dataclass(frozen=True)
class Format:
    """A float type by its bits: where infinity and the smallest normal number stand, and 65504, the largest float16."""

    bits: Any
    magnitude: int
    infinity: int
    normal: int
    half_limit: Optional[int]


FORMATS = {
    "float64": Format(np.uint64, 0x7FFFFFFFFFFFFFFF, 0x7FF0000000000000, 0x0010000000000000, 0x40EFFC0000000000),
    "float32": Format(np.uint32, 0x7FFFFFFF, 0x7F800000, 0x00800000, 0x477FE000),
    "bfloat16": Format(np.uint16, 0x7FFF, 0x7F80, 0x0080, 0x477F),
    "float16": Format(np.uint16, 0x7FFF, 0x7C00, 0x0400, None),
    "float8_e5m2": Format(np.uint8, 0x7F, 0x7C, 0x04, None),
    "float8_e4m3": Format(np.uint8, 0x7F, 0x7F, 0x08, None),
}


@dataclass
class Statistics:
    """Of one tensor. `rms` counts finite values only when all are finite; `dead_rows` lists at most 1000 of them."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    elements: int = 0
    nan: int = 0
    infinite: int = 0
    zeros: int = 0
    denormal: int = 0
    beyond_half: int = 0
    largest: float = 0.0
    total: float = 0.0
    squares: float = 0.0
    #: flat index of the first value that is not finite
    first_bad: Optional[int] = None
    dead_rows: tuple[int, ...] = ()
    dead_row_count: int = 0
    #: of the bytes: the CRC-32 of the first block and the sum of all; equal for equal tensors
    fingerprint: tuple[int, int] = (0, 0)
    complete: bool = True

    @property
    def mean(self) -> float:
        return self.total / self.elements if self.elements else 0.0

    @property
    def rms(self) -> float:
        return math.sqrt(self.squares / self.elements) if self.elements else 0.0

    @property
    def finite(self) -> bool:
        return not self.nan and not self.infinite


def scan(path: Path, tensors: tuple[Tensor, ...]) -> Iterator[Statistics]:
    """Statistics of the tensors of one file, in the order they stand in it. Raises OSError when it cannot be read."""
    with path.open("rb", buffering=0) as file:
        for tensor in sorted(tensors, key=lambda item: item.spans[0]):
            yield scan_tensor(file, tensor)


def scan_tensor(file: BinaryIO, tensor: Tensor) -> Statistics:
    """Reads one tensor's bytes and sums them up."""
    found = Statistics(tensor.name, tensor.dtype, tensor.shape)
    form = FORMATS.get(tensor.dtype)
    row = tensor.shape[-1] if len(tensor.shape) == 2 and tensor.strides is None and len(tensor.spans) == 1 else 0
    width = DTYPE_BITS.get(tensor.dtype, 8) // 8 or 1
    crc = 0
    added = 0
    at = 0
    for raw in _blocks(file, tensor, width * (row or 1)):
        if not at:
            crc = zlib.crc32(raw)
        whole = len(raw) // 8 * 8
        added += int(np.frombuffer(raw[:whole], np.uint64).sum()) if whole else 0
        if form is not None:
            bits = np.frombuffer(raw[: len(raw) // width * width], form.bits)
            zeros = found.zeros
            for start in range(0, bits.size, BLOCK):
                _judge(found, form, bits[start : start + BLOCK], at + start)
            if row and found.zeros - zeros >= row:
                _rows(found, form, bits, row, at // row)
            at += bits.size
        else:
            at += len(raw) // width
            found.zeros += (len(raw) - int(np.count_nonzero(np.frombuffer(raw, np.uint8)))) // width
    found.elements = at
    found.complete = at == tensor.elements
    found.fingerprint = (crc, added & 0xFFFFFFFFFFFFFFFF)
    return found


def _blocks(file: BinaryIO, tensor: Tensor, unit: int) -> Iterator[memoryview]:
    """The bytes of a tensor in pieces of whole rows (or elements), at most READ long unless one row is longer."""
    step = max(READ // unit, 1) * unit
    for start, length in tensor.spans:
        buffer = memoryview(bytearray(min(step, length)))
        file.seek(start)
        left = length
        while left:
            want = min(step, left)
            got = _fill(file, buffer[:want])
            if got < want:
                got = got // unit * unit
                if got:
                    yield buffer[:got]
                return
            yield buffer[:want]
            left -= want


def _fill(file: BinaryIO, buffer: memoryview) -> int:
    done = 0
    while done < len(buffer):
        got = file.readinto(buffer[done:])  # type: ignore[attr-defined]
        if not got:
            break
        done += got
    return done


def _judge(found: Statistics, form: Format, bits: _Array, offset: int) -> None:
    size = bits & form.bits(form.magnitude)
    top = int(size.max())
    if int(size.min()) < form.normal:
        zeros = int(np.count_nonzero(size == 0))
        found.zeros += zeros
        found.denormal += int(np.count_nonzero(size < form.bits(form.normal))) - zeros
    if top >= form.infinity:
        _not_finite(found, form, size, offset)
    if form.half_limit is not None and top > form.half_limit:
        found.beyond_half += int(np.count_nonzero((size > form.half_limit) & (size < form.infinity)))
    if found.finite:
        magnitude = as_float(size, found.dtype)
        found.largest = max(found.largest, float(magnitude[int(size.argmax())]) if top else 0.0)
        found.squares += float(np.dot(magnitude, magnitude))
        if len(found.shape) < 2:
            found.total += float(as_float(bits, found.dtype).sum(dtype=np.float64))


def _not_finite(found: Statistics, form: Format, size: _Array, offset: int) -> None:
    is_e4m3 = found.dtype == "float8_e4m3"
    bad = size >= form.infinity
    infinite = 0 if is_e4m3 else int(np.count_nonzero(size == form.infinity))
    found.infinite += infinite
    found.nan += int(np.count_nonzero(bad)) - infinite
    if found.first_bad is None:
        found.first_bad = offset + int(bad.argmax())


def _rows(found: Statistics, form: Format, bits: _Array, row: int, first: int) -> None:
    """Rows whose values are all zero."""
    table = bits[: bits.size // row * row].reshape(-1, row)
    dead = np.flatnonzero((table & form.bits(form.magnitude)).max(axis=1) == 0)
    found.dead_row_count += int(dead.size)
    room = 1000 - len(found.dead_rows)
    found.dead_rows += tuple(int(index) + first for index in dead[:room])


def as_float(bits: _Array, dtype: str) -> _Array:
    """Raw bits of finite values as floats: float32, and float64 for float64. Exact, and faster than numpy's own way
    from float16."""
    if dtype == "bfloat16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if dtype == "float16":
        wide = bits.astype(np.uint32)
        moved = ((wide & np.uint32(0x8000)) << np.uint32(16)) | ((wide & np.uint32(0x7FFF)) << np.uint32(13))
        return moved.view(np.float32) * np.float32(2.0**112)
    if dtype == "float32":
        return bits.view(np.float32)
    if dtype == "float64":
        return bits.view(np.float64)
    return float8_table(dtype)[bits]


_TABLES: dict[str, _Array] = {}


def float8_table(dtype: str) -> _Array:
    """The 256 values of a float8 type. e4m3 has no infinity and one not-a-number; e5m2 is like float16 cut short."""
    if dtype not in _TABLES:
        codes = np.arange(256, dtype=np.uint16)
        if dtype == "float8_e5m2":
            _TABLES[dtype] = (codes << 8).astype(np.uint16).view(np.float16).astype(np.float32)
        else:
            sign = np.where(codes & 0x80, -1.0, 1.0)
            exponent, fraction = (codes >> 3) & 0xF, codes & 7
            value = np.where(
                exponent == 0,
                fraction * 2.0**-9,
                (1 + fraction / 8.0) * np.exp2(exponent.astype(np.float64) - 7),
            )
            value[(codes & 0x7F) == 0x7F] = np.nan
            _TABLES[dtype] = (sign * value).astype(np.float32)
    return _TABLES[dtype]
