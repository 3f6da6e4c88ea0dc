"""Writes weight files as a stream: tensor after tensor, to a temporary file beside the target, renamed when whole.

Readers of the target see either the old file or the new one, never a part; a crash leaves only a temporary
file, which is removed when the writer is.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, Optional

from doctor.formats import ckpt, safetensors
from doctor.formats.tensor import size_in_bytes

_SAFETENSORS = {name: code for code, name in safetensors.DTYPES.items()}
_MINDSPORE = {name: code for code, name in ckpt.DTYPES.items()}
#: MindSpore cuts larger parameters into several records (train/serialization.py, SLICE_SIZE).
SLICE = 512 * 1024 * 1024


class Entry(NamedTuple):
    """A tensor that will be written."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return size_in_bytes(self.dtype, self.shape)


class Atomic:
    """A file that appears under its name only when `commit` is called. A context manager: leaving it without a
    commit removes what was written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        self.file: BinaryIO = self.temporary.open("wb")

    def __enter__(self) -> Atomic:
        return self

    def commit(self) -> None:
        """Writes through to the disk and puts the file in its place."""
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        self.temporary.replace(self.path)
        sync_folder(self.path.parent)

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.file.close()
        self.temporary.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Makes a rename in a folder last, where the system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)


class SafetensorsWriter:
    """Writes the header at once, then the tensors in the order of the entries."""

    def __init__(self, file: BinaryIO, entries: Sequence[Entry], metadata: Mapping[str, str]) -> None:
        self.file = file
        self.expected = [entry.name for entry in entries]
        header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
        at = 0
        for entry in entries:
            header[entry.name] = {
                "dtype": _SAFETENSORS[entry.dtype],
                "shape": list(entry.shape),
                "data_offsets": [at, at + entry.bytes],
            }
            at += entry.bytes
        raw = json.dumps(header, separators=(",", ":")).encode()
        raw += b" " * (-len(raw) % 8)
        file.write(struct.pack("<Q", len(raw)))
        file.write(raw)

    def add(self, entry: Entry, values: Any) -> None:
        """Writes the next tensor: a contiguous array of its bytes."""
        assert self.expected.pop(0) == entry.name
        self.file.write(memoryview(values).cast("B") if values.size else b"")


class CkptWriter:
    """Writes MindSpore's protobuf, one record a tensor (several for a very large one)."""

    def __init__(self, file: BinaryIO, entries: Sequence[Entry], metadata: Mapping[str, str]) -> None:
        self.file = file

    def add(self, entry: Entry, values: Any) -> None:
        """Writes one tensor: a contiguous array of its bytes."""
        raw = memoryview(values).cast("B") if values.size else memoryview(b"")
        head = b"".join(b"\x08" + varint(length) for length in entry.shape)
        head += _field(2, _MINDSPORE[entry.dtype].encode())
        for start in range(0, max(len(raw), 1), SLICE):
            piece = raw[start : start + SLICE]
            content = b"\x1a" + varint(len(piece))
            tag = _field(1, entry.name.encode())
            tensor = b"\x12" + varint(len(head) + len(content) + len(piece)) + head + content
            self.file.write(b"\x0a" + varint(len(tag) + len(tensor) + len(piece)) + tag + tensor)
            self.file.write(piece)


def writable(dtype: str, form: str) -> bool:
    """Whether a file of this form (safetensors, ckpt) can hold the type."""
    return dtype in (_SAFETENSORS if form == "safetensors" else _MINDSPORE)


def varint(number: int) -> bytes:
    """A protobuf number."""
    out = bytearray()
    while number > 0x7F:
        out.append((number & 0x7F) | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content
