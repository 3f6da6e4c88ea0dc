"""Weight files made by hand for the tests, whole or broken in one chosen way: what `doctor.selftest.weightfiles` writes, and
torch's and MindSpore's further forms."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

from doctor.selftest.weightfiles import (
    BITS,
    MS_TYPES,
    Spec,
    ckpt_value,
    field,
    header_of,
    number_of,
    safetensors_bytes,
    varint,
    write_ckpt,
    write_safetensors,
    write_sharded,
)

__all__ = [
    "BITS",
    "MS_TYPES",
    "Spec",
    "ckpt_value",
    "field",
    "header_of",
    "number_of",
    "safetensors_bytes",
    "strategy_bytes",
    "torch_pickle",
    "varint",
    "with_crc",
    "write_ckpt",
    "write_safetensors",
    "write_sharded",
    "write_torch",
]


def with_crc(raw: bytes) -> bytes:
    import zlib

    return raw + b"crc_num" + zlib.crc32(raw).to_bytes(10, "big")


def strategy_bytes(stage: int, cuts: Mapping[str, Sequence[Any]]) -> bytes:
    """Of {parameter: (device matrix, tensor map, optimizer shards, their step)}, as node_strategy.proto has it."""
    raw = b"\x08" + varint(stage)
    for name, (devices, axes, shards, *rest) in cuts.items():
        layout = field(1, b"".join(b"\x08" + varint(number) for number in devices))
        layout += field(2, b"".join(b"\x08" + varint(number) for number in axes))
        layout += field(3, b"") + field(4, b"")  # MindSpore reads the first of each
        layout += b"\x28\x00\x30" + varint(rest[0] if rest else -1) + b"\x38" + varint(shards)
        raw += field(3, field(1, name.encode()) + field(2, layout))
    return raw


# torch.save's zip form, with a pickle assembled from opcodes ---------------------------------------------


def torch_pickle(spec: Spec, extra: bytes = b"") -> bytes:
    """A dict of tensors, each with a storage of its own called by its number. `extra` is a pickle fragment that
    leaves one object on the stack, stored under the key "extra"."""
    classes = {"F32": "FloatStorage", "F16": "HalfStorage", "BF16": "BFloat16Storage", "I64": "LongStorage"}

    def text(word: str) -> bytes:
        raw = word.encode()
        return b"X" + struct.pack("<I", len(raw)) + raw

    def whole(number: int) -> bytes:
        return b"\x8a" + bytes([8]) + struct.pack("<q", number)

    out = b"\x80\x02}("
    for key, (name, (dtype, shape)) in enumerate(spec.items()):
        elements = number_of(shape)
        strides, step = [], 1
        for length in reversed(shape):
            strides.insert(0, step)
            step *= length
        out += text(name) + b"ctorch._utils\n_rebuild_tensor_v2\n("
        out += b"(" + text("storage") + b"ctorch\n" + classes[dtype].encode() + b"\n" + text(str(key)) + text("cpu")
        out += whole(elements) + b"tQ" + whole(0)
        for sizes in (shape, strides):
            out += b"(" + b"".join(map(whole, sizes)) + b"t"
        out += b"\x89ccollections\nOrderedDict\n)RtR"
    if extra:
        out += text("extra") + extra
    return out + b"u."


def write_torch(path: Path, spec: Spec, pickle: Optional[bytes] = None, compress: bool = False) -> Path:
    import zipfile

    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", torch_pickle(spec) if pickle is None else pickle)
        archive.writestr("archive/byteorder", "little")
        for key, (dtype, shape) in enumerate(spec.values()):
            archive.writestr(f"archive/data/{key}", bytes(number_of(shape) * BITS[dtype] // 8))
        archive.writestr("archive/version", "3\n")
    return path
