"""Reads the header of a safetensors file: eight bytes of length, JSON, then the tensors without a gap.

The rules are those of the format's own reader: offsets count from the end of the header, each tensor is
dense and row-major, the tensors fill the file without holes or overlaps.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, BinaryIO, Optional

from doctor.finding import Text
from doctor.formats.tensor import DTYPE_BITS, Kind, Problem, Tensor, WeightFile, size_in_bytes

#: The format's own limit on the header.
MAX_HEADER = 100_000_000
#: More entries than any model has; a header made of empty entries would cost gigabytes to parse.
MAX_TENSORS = 1_000_000

DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0",
    "F6_E2M3": "float6_e2m3",
    "F6_E3M2": "float6_e3m2",
    "F4": "float4_e2m1",
    "C64": "complex64",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
}


def read(path: Path) -> WeightFile:
    """Reads the header; what is wrong stands in the result's problems. Raises OSError when it cannot be opened."""
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        return _Reader(path, size).read(file)


class _Reader:
    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.size = size
        self.problems: list[Problem] = []

    def say(self, kind: Kind, detail: Text, **more: Any) -> None:
        self.problems.append(Problem(kind, self.path, detail, **more))

    def read(self, file: BinaryIO) -> WeightFile:
        length = int.from_bytes(file.read(8), "little")
        if length > MAX_HEADER:
            self.say(
                Kind.HOSTILE,
                Text("the header claims more than the format allows", "文件头声明的长度超出格式上限"),
                observed=length,
                expected=MAX_HEADER,
            )
            return self.result((), {})
        if length > self.size - 8:
            self.say(
                Kind.TRUNCATED,
                Text("the file ends inside its header", "文件在文件头内就结束"),
                observed=self.size,
                expected=length + 8,
                offset=self.size,
            )
            return self.result((), {})
        raw = _read_exactly(file, length)
        if len(raw) < length:
            self.say(
                Kind.TRUNCATED,
                Text("the file ends inside its header", "文件在文件头内就结束"),
                observed=len(raw) + 8,
                expected=length + 8,
            )
            return self.result((), {})
        header = self.parse(raw)
        if header is None:
            return self.result((), {})
        metadata = self.metadata(header.pop("__metadata__", None))
        return self.result(self.tensors(header, 8 + length), metadata)

    def result(self, tensors: tuple[Tensor, ...], metadata: dict[str, str]) -> WeightFile:
        return WeightFile(self.path, "safetensors", self.size, tensors, metadata, tuple(self.problems))

    def parse(self, raw: bytes) -> Optional[dict[str, Any]]:
        entries = raw.count(b'"data_offsets"')
        if entries > MAX_TENSORS:
            self.say(
                Kind.HOSTILE,
                Text("the header lists more tensors than any model has", "文件头列出的张量数超过任何模型"),
                observed=entries,
            )
            return None
        # Interpreters without a limit on the digits of an integer would take minutes over a hostile number.
        more: dict[str, Any] = {} if hasattr(sys, "get_int_max_str_digits") else {"parse_int": _bounded_int}
        try:
            header = json.loads(raw, **more)
        except (ValueError, RecursionError) as error:
            word = "nested too deep" if isinstance(error, RecursionError) else str(error)
            text = Text(f"the header is not JSON: {word}", f"文件头不是 JSON：{word}")
            self.say(Kind.HEADER, text, offset=8 + getattr(error, "pos", 0))
            return None
        if not isinstance(header, dict):
            self.say(Kind.HEADER, Text("the header is not a JSON object", "文件头不是 JSON 对象"), offset=8)
            return None
        if entries != len(header) - ("__metadata__" in header):
            self.duplicates(raw)
        return header

    def duplicates(self, raw: bytes) -> None:
        seen: set[str] = set()

        def pairs(items: list[tuple[str, Any]]) -> None:
            # Called for inner objects too; only tensor entries (dicts turned to None) count as names.
            names = [key for key, value in items if value is None]
            for name in names:
                if name in seen:
                    self.say(Kind.DUPLICATE, Text("the header names it twice", "文件头中重名"), tensor=name)
                seen.add(name)

        json.loads(raw, object_pairs_hook=pairs)

    def metadata(self, given: object) -> dict[str, str]:
        if given is None:
            return {}
        if not isinstance(given, dict):
            self.say(Kind.HEADER, Text("__metadata__ is not an object", "__metadata__ 不是对象"), offset=8)
            return {}
        return {str(key): value if isinstance(value, str) else json.dumps(value) for key, value in given.items()}

    def tensors(self, header: dict[str, Any], start: int) -> tuple[Tensor, ...]:
        tensors = []
        room = self.size - start
        beyond = 0
        first_beyond = None
        end = 0
        for name, entry in header.items():
            tensor = self.tensor(name, entry, start)
            if tensor is None:
                continue
            tensors.append(tensor)
            stop = entry["data_offsets"][1]
            if stop > room:
                beyond += 1
                if first_beyond is None or tensor.spans[0][0] < first_beyond.spans[0][0]:
                    first_beyond = tensor
            end = max(end, stop)
        if first_beyond is not None:
            self.say(
                Kind.TRUNCATED,
                Text(
                    f"{beyond} of {len(tensors)} tensors lie beyond the end",
                    f"{len(tensors)} 个张量中有 {beyond} 个超出文件末尾",
                ),
                tensor=first_beyond.name,
                offset=self.size,
                observed=self.size,
                expected=start + end,
            )
        elif end < room and tensors:
            self.say(
                Kind.TRAILING,
                Text("bytes after the last tensor", "最后一个张量之后还有字节"),
                offset=start + end,
                observed=room - end,
                expected=0,
            )
        self.holes(tensors, start)
        return tuple(tensors)

    def tensor(self, name: str, entry: object, start: int) -> Optional[Tensor]:
        if not isinstance(entry, dict):
            self.say(Kind.HEADER, Text("its entry is not an object", "该条目不是对象"), tensor=name)
            return None
        dtype = DTYPES.get(str(entry.get("dtype")))
        shape = _counts(entry.get("shape"))
        offsets = _counts(entry.get("data_offsets"))
        if offsets is None or len(offsets) != 2 or offsets[0] > offsets[1]:
            self.say(
                Kind.LAYOUT,
                Text("data_offsets are not two rising numbers", "data_offsets 不是两个递增的数"),
                tensor=name,
                observed=entry.get("data_offsets"),
            )
            return None
        if shape is None:
            self.say(
                Kind.SHAPE,
                Text("the shape is not a list of sizes", "shape 不是尺寸列表"),
                tensor=name,
                observed=entry.get("shape"),
            )
            return None
        begin, stop = offsets
        spans = ((start + begin, stop - begin),)
        if dtype is None:
            self.say(
                Kind.DTYPE,
                Text("a type the format does not know", "格式中没有的数据类型"),
                tensor=name,
                observed=entry.get("dtype"),
            )
            return Tensor(name, str(entry.get("dtype")), tuple(shape), spans)
        if stop - begin != size_in_bytes(dtype, shape):
            self.say(
                Kind.SIZE,
                Text(f"{dtype} {tuple(shape)}", f"{dtype} {tuple(shape)}"),
                tensor=name,
                observed=stop - begin,
                expected=size_in_bytes(dtype, shape),
            )
        return Tensor(name, dtype, tuple(shape), spans)

    def holes(self, tensors: list[Tensor], start: int) -> None:
        """Overlaps and gaps between neighbours. Empty tensors take no room and may stand anywhere."""
        at = start
        previous = None
        for tensor in sorted((item for item in tensors if item.spans[0][1]), key=lambda item: item.spans[0]):
            begin, length = tensor.spans[0]
            if begin < at:
                self.say(
                    Kind.LAYOUT,
                    Text(f"overlaps {previous}", f"与 {previous} 重叠"),
                    tensor=tensor.name,
                    offset=begin,
                    observed=begin,
                    expected=at,
                )
            elif begin > at:
                self.say(
                    Kind.LAYOUT,
                    Text("a gap before it", "其前面有空洞"),
                    tensor=tensor.name,
                    offset=at,
                    observed=begin,
                    expected=at,
                )
            at = max(at, begin + length)
            previous = tensor.name


def _counts(value: object) -> Optional[list[int]]:
    """A JSON list of sizes as it is, anything else as None (a bool is no size)."""
    good = isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)
    return value if good else None  # type: ignore[return-value]


def _bounded_int(text: str) -> int:
    if len(text) > 40:
        raise ValueError("a number of more than 40 digits")
    return int(text)


def _read_exactly(file: BinaryIO, length: int) -> bytes:
    parts = []
    while length:
        part = file.read(min(length, 1 << 24))
        if not part:
            break
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


assert set(DTYPES.values()) <= set(DTYPE_BITS)
