"""What a weight file says about itself: its tensors, and what is wrong with the file.

The readers fill these values from headers alone. They never raise on what a file holds: what cannot be
read becomes a `Problem`, so that one torn shard does not hide the other fourteen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import NamedTuple, Optional

from doctor.finding import Text

#: Bits of one element, by the name numpy and MindSpore use.
DTYPE_BITS: Mapping[str, int] = {
    "float64": 64,
    "float32": 32,
    "float16": 16,
    "bfloat16": 16,
    "float8_e4m3": 8,
    "float8_e5m2": 8,
    "float8_e8m0": 8,
    "float6_e2m3": 6,
    "float6_e3m2": 6,
    "float4_e2m1": 4,
    "hifloat8": 8,
    "complex64": 64,
    "complex128": 128,
    "int64": 64,
    "int32": 32,
    "int16": 16,
    "int8": 8,
    "int4": 8,  # MindSpore keeps one int4 to a byte in its files
    "uint64": 64,
    "uint32": 32,
    "uint16": 16,
    "uint8": 8,
    "bool": 8,
}

FLOATS = frozenset(name for name in DTYPE_BITS if "float" in name)


class Tensor(NamedTuple):
    """One tensor of a file. `spans` are (offset, bytes) in the file, more than one only where a format cuts a
    large tensor into pieces; `strides` counts elements and is None for the usual row-major order."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]
    strides: Optional[tuple[int, ...]] = None

    @property
    def elements(self) -> int:
        return count(self.shape)

    @property
    def bytes(self) -> int:
        return sum(size for _, size in self.spans)


class Kind(str, Enum):
    """What can be wrong with a weight file by itself."""

    EMPTY = "empty"
    UNREADABLE = "unreadable"
    NOT_WEIGHTS = "not-weights"
    LFS_POINTER = "lfs-pointer"
    WEB_PAGE = "web-page"
    ZEROED = "zeroed"
    FOREIGN = "foreign"
    ENCRYPTED = "encrypted"
    TRUNCATED = "truncated"
    HEADER = "header"
    HOSTILE = "hostile"
    SIZE = "size"
    LAYOUT = "layout"
    SHAPE = "shape"
    DTYPE = "dtype"
    DUPLICATE = "duplicate"
    NAME = "name"
    TRAILING = "trailing"
    CRC = "crc"
    CODE = "code"
    CHANGED = "changed"
    COMPRESSED = "compressed"


@dataclass(frozen=True)
class Problem:
    """One fault of one file. `detail` says it in half a sentence."""

    kind: Kind
    path: Path
    detail: Text
    tensor: Optional[str] = None
    offset: Optional[int] = None
    observed: object = None
    expected: object = None


@dataclass(frozen=True)
class WeightFile:
    """One file: `format` is safetensors, ckpt, torch (zip) or torch-legacy, or unknown when nothing could be read."""

    path: Path
    format: str
    size: int
    tensors: tuple[Tensor, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    #: scalars and strings that stand beside the tensors (step counters, loss scale)
    scalars: Mapping[str, object] = field(default_factory=dict)

    @property
    def listed(self) -> bool:
        """Whether all names of its tensors are known: a file that is cut off behind its header still lists them."""
        kinds = {problem.kind for problem in self.problems}
        broken = {Kind.HEADER, Kind.HOSTILE} | ({Kind.TRUNCATED} if self.format == "ckpt" else set())
        return self.readable and not broken & kinds and (bool(self.tensors) or not self.problems)

    @property
    def readable(self) -> bool:
        return self.format != "unknown"


def count(shape: Sequence[int]) -> int:
    """Elements of a shape; 1 for a scalar."""
    total = 1
    for length in shape:
        total *= length
    return total


def size_in_bytes(dtype: str, shape: Sequence[int]) -> int:
    """Bytes of a dense tensor, rounded up to whole bytes for types below eight bits."""
    return (count(shape) * DTYPE_BITS[dtype] + 7) // 8
