"""Weight files made by hand for the tests, whole or broken in one chosen way. No framework is needed."""

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
