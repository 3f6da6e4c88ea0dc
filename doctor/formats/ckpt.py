"""Reads the structure of a MindSpore ``.ckpt``: a protobuf message whose tensor bytes are stepped over.

    Checkpoint { repeated Value value = 1 }
    Value { string tag = 1; TensorProto tensor = 2; MapTensorProto maptensor = 3 }
    TensorProto { repeated int64 dims = 1; string tensor_type = 2; bytes tensor_content = 3 }

MindSpore cuts a parameter of more than 512 MiB into several values with the same tag and the full dims;
their contents are to be joined in order. With crc_check the file ends with ``crc_num`` and ten bytes.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from typing import Any, BinaryIO, Optional

from doctor.finding import Text
from doctor.formats.tensor import DTYPE_BITS, Kind, Problem, Tensor, WeightFile, size_in_bytes
from doctor.formats.wire import BYTES, VARINT, Field, Window, WireError, fields, signed, text

MAX_NAME = 4096
MAX_RANK = 64
MAX_VALUES = 1_000_000
CRC_TAG = b"crc_num"
CRC_TAIL = len(CRC_TAG) + 10

DTYPES = {
    "Float64": "float64",
    "Float32": "float32",
    "Float16": "float16",
    "BFloat16": "bfloat16",
    "Float8E4M3FN": "float8_e4m3",
    "Float8E5M2": "float8_e5m2",
    "HiFloat8": "hifloat8",
    "Int64": "int64",
    "Int32": "int32",
    "Int16": "int16",
    "Int8": "int8",
    "Int4": "int4",
    "UInt64": "uint64",
    "UInt32": "uint32",
    "UInt16": "uint16",
    "UInt8": "uint8",
    "Bool": "bool",
    "Complex64": "complex64",
    "Complex128": "complex128",
}


def read(path: Path) -> WeightFile:
    """Walks the file; what is wrong stands in the result's problems. Raises OSError when it cannot be opened."""
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        return _Reader(path, size, file).read()


class _Record:
    """The values seen under one tag."""

    __slots__ = ("dims", "dtype", "spans")

    def __init__(self, dtype: str, dims: tuple[int, ...]) -> None:
        self.dtype = dtype
        self.dims = dims
        self.spans: list[tuple[int, int]] = []


class _Reader:
    def __init__(self, path: Path, size: int, file: BinaryIO) -> None:
        self.path = path
        self.size = size
        self.window = Window(file, size)
        self.problems: list[Problem] = []
        self.records: dict[str, _Record] = {}
        self.last = ""

    def say(self, kind: Kind, detail: Text, **more: Any) -> None:
        self.problems.append(Problem(kind, self.path, detail, **more))

    def read(self) -> WeightFile:
        end, has_crc = self.size, False
        tail = self.window.bytes(max(0, self.size - CRC_TAIL), CRC_TAIL)
        if tail.startswith(CRC_TAG):
            end, has_crc = self.size - CRC_TAIL, True
        try:
            for seen, field in enumerate(fields(self.window, 0, end)):
                if seen >= MAX_VALUES:
                    self.say(
                        Kind.HOSTILE, Text("more values than any model has", "参数个数超过任何模型"), observed=seen
                    )
                    break
                if field.number != 1 or field.wire != BYTES:
                    raise WireError(
                        field.start,
                        Text(
                            f"field {field.number} where a parameter should begin",
                            f"应是参数起始处却出现字段 {field.number}",
                        ),
                    )
                self.value(field)
        except WireError as error:
            # A checksum that is itself cut off looks like a field of its own.
            torn_tail = self.window.bytes(max(0, self.size - CRC_TAIL), CRC_TAIL).find(CRC_TAG) >= 0
            kind = Kind.TRUNCATED if error.truncated or torn_tail else Kind.HEADER
            self.say(
                kind,
                _where(error.what, self.last),
                offset=error.offset,
                observed=self.size,
                expected=error.needed,
            )
        metadata = {"crc": "yes"} if has_crc else {}
        return WeightFile(self.path, "ckpt", self.size, self.tensors(), metadata, tuple(self.problems), self.scalars())

    def value(self, value: Field) -> None:
        name: Optional[str] = None
        tensor: Optional[Field] = None
        for field in fields(self.window, value.start, value.end):
            if field.number == 1:
                name = text(self.window, field, MAX_NAME)
                if name is None:
                    raise WireError(field.start, Text("a parameter name that is no text", "参数名不是文本"))
            elif field.number == 2 and field.wire == BYTES:
                tensor = field
        if name is None:
            raise WireError(value.start, Text("a value without a name", "参数缺少名称"))
        if tensor is not None:
            self.tensor(name, tensor)
        self.last = name

    def tensor(self, name: str, message: Field) -> None:
        dims: list[int] = []
        dtype = ""
        content: Optional[Field] = None
        for field in fields(self.window, message.start, message.end):
            if field.number == 1 and field.wire == VARINT:
                dims.append(signed(field.value))
            elif field.number == 1 and field.wire == BYTES:
                dims.extend(self.packed(field))
            elif field.number == 2:
                dtype = text(self.window, field, 64) or ""
            elif field.number == 3 and field.wire == BYTES:
                content = field
            if len(dims) > MAX_RANK:
                raise WireError(
                    field.start, Text(f"{name} has more than {MAX_RANK} dimensions", f"{name} 超过 {MAX_RANK} 维")
                )
        known = self.records.get(name)
        if known is None:
            known = self.records[name] = _Record(dtype, tuple(dims))
        elif known.dims != tuple(dims) or known.dtype != dtype:
            self.say(
                Kind.DUPLICATE,
                Text("the name stands twice with different shapes or types", "同名参数的形状或类型不同"),
                tensor=name,
                offset=message.start,
                observed=f"{dtype} {tuple(dims)}",
                expected=f"{known.dtype} {known.dims}",
            )
            return
        if content is not None:
            known.spans.append((content.start, content.length))

    def packed(self, field: Field) -> list[int]:
        values: list[int] = []
        at = field.start
        while at < field.end and len(values) <= MAX_RANK:
            value, at = self.window.varint(at, field.end)
            values.append(signed(value))
        return values

    def tensors(self) -> tuple[Tensor, ...]:
        found = []
        for name, record in self.records.items():
            if record.dtype.startswith("str"):
                continue
            dims, spans = record.dims, tuple(record.spans) or ((0, 0),)
            dtype = DTYPES.get(record.dtype)
            if any(length < 0 for length in dims):
                self.say(
                    Kind.SHAPE, Text("a negative size", "尺寸为负数"), tensor=name, offset=spans[0][0], observed=dims
                )
                continue
            if dtype is None:
                self.say(
                    Kind.DTYPE,
                    Text("a type MindSpore does not have", "MindSpore 中没有的数据类型"),
                    tensor=name,
                    observed=record.dtype,
                )
                found.append(Tensor(name, record.dtype, dims, spans))
                continue
            stored = sum(length for _, length in spans)
            if dims == (0,) and stored == DTYPE_BITS[dtype] // 8:
                dims = ()  # an older way to write a scalar
            wanted = size_in_bytes(dtype, dims)
            if stored != wanted:
                if len(spans) > 1 and all(length == wanted for _, length in spans):
                    self.say(
                        Kind.DUPLICATE,
                        Text("the name stands more than once", "参数名重复"),
                        tensor=name,
                        offset=spans[1][0],
                    )
                    spans = spans[:1]
                else:
                    self.say(
                        Kind.SIZE,
                        Text(f"{dtype} {dims}", f"{dtype} {dims}"),
                        tensor=name,
                        offset=spans[0][0],
                        observed=stored,
                        expected=wanted,
                    )
            found.append(Tensor(name, dtype, dims, spans))
        return tuple(found)

    def scalars(self) -> dict[str, object]:
        """Small values that are no parameters: step counters, loss scale, strings of append_dict."""
        found: dict[str, object] = {}
        for name, record in self.records.items():
            if len(record.spans) != 1 or record.spans[0][1] > 4096:
                continue
            raw = self.window.bytes(*record.spans[0])
            if record.dtype.startswith("str"):
                found[name] = raw.decode("utf-32-le" if len(raw) % 4 == 0 else "utf-8", "replace")
            elif record.dims in {(), (0,), (1,)} and record.dtype in _SCALAR:
                code = _SCALAR[record.dtype]
                if len(raw) == struct.calcsize(code):
                    found[name] = struct.unpack("<" + code, raw)[0]
        return found


def _where(what: Text, last: str) -> Text:
    """The fault, and the last parameter that was read whole: that is how far the writer came."""
    return what + Text(f", after {last}", f"，位于 {last} 之后") if last else what


_SCALAR = {"Int64": "q", "Int32": "i", "Float32": "f", "Float64": "d", "Bool": "?", "Float16": "e"}


def crc_problem(path: Path) -> Optional[Problem]:
    """Reads the whole file and compares its CRC-32 with the one it ends with; None when right or when it has none."""
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if size < CRC_TAIL:
            return None
        file.seek(size - CRC_TAIL)
        tail = file.read(CRC_TAIL)
        if not tail.startswith(CRC_TAG):
            return None
        file.seek(0)
        left, crc = size - CRC_TAIL, 0
        while left:
            part = file.read(min(left, 1 << 22))
            if not part:
                break
            crc = zlib.crc32(part, crc)
            left -= len(part)
    stored = int.from_bytes(tail[len(CRC_TAG) :], "big")
    if crc == stored:
        return None
    return Problem(
        Kind.CRC,
        path,
        Text("the content does not match its checksum", "内容与校验和不符"),
        observed=f"{crc:08x}",
        expected=f"{stored:08x}",
    )
