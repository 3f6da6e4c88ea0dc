"""Tensors of weight files as numpy arrays, and their conversion from type to type.

numpy has no bfloat16 and no float8: such arrays hold the raw bits (uint16, uint8) and travel with the name of
their type. Moving rows about does not care; `cast` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from doctor.formats.tensor import DTYPE_BITS, Tensor, count
from doctor.formats.values import float8_table

_RAW = {"bfloat16": "uint16", "float8_e4m3": "uint8", "float8_e5m2": "uint8", "float8_e8m0": "uint8"}


class Array(NamedTuple):
    """Raw values and the type that they mean."""

    values: Any
    dtype: str


class ShortRead(OSError):
    """The file ends before the tensor does."""


def storage(dtype: str) -> Any:
    """The numpy type that holds a type's bits. Raises KeyError for types below eight bits."""
    if DTYPE_BITS[dtype] < 8:
        raise KeyError(dtype)
    return np.dtype(_RAW.get(dtype, dtype))


def read_array(file: BinaryIO, tensor: Tensor) -> Array:
    """One tensor, whole. Raises ShortRead, or KeyError for a type that numpy cannot hold."""
    kind = storage(tensor.dtype)
    buffer = bytearray(tensor.bytes)
    view, at = memoryview(buffer), 0
    for start, length in tensor.spans:
        file.seek(start)
        end = at + length
        while at < end:
            got = file.readinto(view[at:end])  # type: ignore[attr-defined]
            if not got:
                raise ShortRead(f"{tensor.name}: the file ends inside it")
            at += got
    flat = np.frombuffer(buffer, kind)
    if tensor.strides is None:
        return Array(flat[: count(tensor.shape)].reshape(tensor.shape), tensor.dtype)
    steps = tuple(stride * kind.itemsize for stride in tensor.strides)
    return Array(np.lib.stride_tricks.as_strided(flat, tensor.shape, steps, writeable=False), tensor.dtype)


def to_float32(array: Array) -> Any:
    """As float32 (float64 is narrowed)."""
    values = array.values
    if array.dtype == "bfloat16":
        return (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if array.dtype in {"float8_e4m3", "float8_e5m2"}:
        return float8_table(array.dtype)[values]
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def cast(array: Array, dtype: str) -> Array:
    """To another float type, rounding to the nearest, ties to even. Other types stay as they are. Works block by
    block: memory holds the result and little more. Raises KeyError for a type that is not written."""
    if array.dtype == dtype or "float" not in array.dtype or "float" not in dtype:
        return array
    if dtype not in {"bfloat16", "float16", "float32", "float64"}:
        raise KeyError(dtype)
    out = np.empty(array.values.shape, storage(dtype))
    flat = out.reshape(-1)
    for start, block in _blocks(array):
        flat[start : start + block.values.size] = _cast(block, dtype)
    return Array(out, dtype)


#: Elements that are turned at once.
BLOCK = 1 << 20


def _blocks(array: Array) -> Iterator[tuple[int, Array]]:
    """Pieces of the flat array with their first element; an array that is not contiguous is copied."""
    flat = np.ascontiguousarray(array.values).reshape(-1)
    for start in range(0, flat.size, BLOCK):
        yield start, Array(flat[start : start + BLOCK], array.dtype)


def _cast(array: Array, dtype: str) -> Any:
    if dtype == "float64" and array.dtype != "bfloat16" and not array.dtype.startswith("float8"):
        return array.values
    wide = to_float32(array)
    if dtype == "bfloat16":
        return _to_bfloat16(wide)
    with np.errstate(over="ignore"):
        return wide.astype(dtype)


def _to_bfloat16(wide: Any) -> Any:
    """Round to nearest even on the upper half of the bits; not-a-number stays one."""
    bits = wide.view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    out = (rounded >> np.uint32(16)).astype(np.uint16)
    is_nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    if is_nan.any():
        out[is_nan] = ((bits[is_nan] >> np.uint32(16)) | np.uint32(0x40)).astype(np.uint16)
    return out


def overflows(array: Array, dtype: str) -> int:
    """Finite values that `cast` would make infinite."""
    if dtype != "float16" or array.dtype in {"float16", "float8_e5m2", "float8_e4m3"} or "float" not in array.dtype:
        return 0
    lost = 0
    for _, block in _blocks(array):
        size = np.abs(to_float32(block))
        lost += int(np.count_nonzero((size >= 65520.0) & np.isfinite(size)))
    return lost


def unscale(array: Array, scale: Array, block: int = 128) -> Array:
    """DeepSeek's FP8: each block of 128 x 128 has one factor. Gives float32."""
    wide = to_float32(array)
    factors = to_float32(scale)
    rows, columns = wide.shape
    full = np.repeat(np.repeat(factors, block, axis=0), block, axis=1)[:rows, :columns]
    return Array(wide * full, "float32")
