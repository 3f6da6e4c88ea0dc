"""Weight files written by hand, so that they can be broken in one chosen way. No framework is needed, and not the program's
own writers either: what both get wrong would not be seen."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

Spec = Mapping[str, tuple[str, Sequence[int]]]

BITS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16, "I64": 64, "I32": 32, "U8": 8, "BOOL": 8, "F8_E4M3": 8}


def number_of(shape: Iterable[int]) -> int:
    total = 1
    for length in shape:
        total *= length
    return total


def header_of(spec: Spec, metadata: Optional[Mapping[str, str]] = None) -> dict[str, Any]:
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata is not None else {}
    at = 0
    for name, (dtype, shape) in spec.items():
        size = number_of(shape) * BITS[dtype] // 8
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    return header


def safetensors_bytes(header: Mapping[str, Any], body: Optional[bytes] = None) -> bytes:
    raw = json.dumps(header).encode()
    raw += b" " * (-len(raw) % 8)
    if body is None:
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        body = bytes(max(ends, default=0))
    return struct.pack("<Q", len(raw)) + raw + body


def write_safetensors(path: Path, spec: Spec, metadata: Optional[Mapping[str, str]] = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(safetensors_bytes(header_of(spec, metadata)))
    return path


def write_sharded(
    folder: Path, spec: Spec, shards: int, stem: str = "model", total_size: Optional[int] = None
) -> list[Path]:
    """Splits in the order of the names as save_pretrained does, and writes the index."""
    names = list(spec)
    per = -(-len(names) // shards)
    paths = []
    weight_map = {}
    size = 0
    for number in range(shards):
        mine = names[number * per : (number + 1) * per]
        file = f"{stem}-{number + 1:05d}-of-{shards:05d}.safetensors"
        paths.append(write_safetensors(folder / file, {name: spec[name] for name in mine}, {"format": "pt"}))
        weight_map.update(dict.fromkeys(mine, file))
        size += sum(number_of(spec[name][1]) * BITS[spec[name][0]] // 8 for name in mine)
    index = {"metadata": {"total_size": size if total_size is None else total_size}, "weight_map": weight_map}
    (folder / f"{stem}.safetensors.index.json").write_text(json.dumps(index))
    return paths


# MindSpore's checkpoint: protobuf written by hand -------------------------------------------------------


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def ckpt_value(name: str, dtype: str, dims: Sequence[int], content: bytes) -> bytes:
    tensor = b"".join(b"\x08" + varint(length) for length in dims)
    tensor += field(2, dtype.encode()) + field(3, content)
    return field(1, field(1, name.encode()) + field(2, tensor))


MS_TYPES = {"F32": "Float32", "F16": "Float16", "BF16": "BFloat16", "I64": "Int64", "I32": "Int32", "BOOL": "Bool"}


def write_ckpt(path: Path, spec: Spec, tail: bytes = b"") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    values = [
        ckpt_value(name, MS_TYPES[dtype], shape, bytes(number_of(shape) * BITS[dtype] // 8))
        for name, (dtype, shape) in spec.items()
    ]
    path.write_bytes(b"".join(values) + tail)
    return path
