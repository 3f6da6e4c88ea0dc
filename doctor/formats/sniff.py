"""Tells what a file is from its first bytes, whatever it is called."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Optional

#: Extensions under which people keep weights. ``.bin`` is shared with Megatron data; see `looks_like_weights`.
EXTENSIONS = (".safetensors", ".ckpt", ".bin", ".pth", ".pt")
INDEX_SUFFIX = ".index.json"

_LEGACY_TORCH = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"
_FOREIGN = (
    (b"GGUF", "GGUF"),
    (b"\x89HDF\r\n\x1a\n", "HDF5"),
    (b"\x93NUMPY", "NumPy array"),
    (b"\x1f\x8b", "gzip archive"),
    (b"BZh", "bzip2 archive"),
    (b"\xfd7zXZ\x00", "xz archive"),
    (b"\x28\xb5\x2f\xfd", "zstd archive"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip archive"),
    (b"Rar!", "RAR archive"),
    (b"SQLite format 3\x00", "SQLite data base"),
    (b"PAR1", "Parquet table"),
    (b"ARROW1", "Arrow table"),
    (b"\x7fELF", "program"),
    (b"%PDF", "PDF document"),
)
_WEB = (b"<!doctype", b"<html", b"<?xml", b"<error", b'{"error', b'{"message', b"{'error", b"access denied")
HEAD = 512


def head_of(path: Path, length: int = HEAD) -> Optional[bytes]:
    """The first bytes of a regular file, or None when it cannot be opened or is no regular file."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return None
        with path.open("rb", buffering=0) as file:
            return file.read(length)
    except OSError:
        return None


def sniff(head: bytes, size: int) -> str:
    """One of: safetensors, ckpt, strategy, zip, torch-legacy, pickle, tar, empty, encrypted, lfs-pointer,
    web-page, zeroed, foreign:NAME, unknown. `head` is at least the first 512 bytes (or the whole file)."""
    if not size or not head:
        return "empty"
    if head[1:4] == b"\x5e\x3a\x7f" and head[0] in {0xD8, 0xD9, 0xDA}:
        return "encrypted"  # MindSpore's enc_key: AES-GCM, AES-CBC, SM4-CBC
    if head.startswith(b"version https://git-lfs.github.com/spec/"):
        return "lfs-pointer"
    if _is_safetensors(head):
        return "safetensors"
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    if head.startswith(_LEGACY_TORCH):
        return "torch-legacy"
    if head[0] == 0x80 and len(head) > 1 and 2 <= head[1] <= 5:
        return "pickle"
    if head[257:262] == b"ustar":
        return "tar"
    for magic, name in _FOREIGN:
        if head.startswith(magic):
            return f"foreign:{name}"
    if head[:64].lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(_WEB):
        return "web-page"
    if _is_ckpt(head):
        return "ckpt"
    if _is_strategy(head):
        return "strategy"
    if not head.strip(b"\x00"):
        return "zeroed"
    return "unknown"


def sniff_path(path: Path) -> str:
    """`sniff` of a file on disk; "unreadable" when it cannot be opened."""
    head = head_of(path)
    return "unreadable" if head is None else sniff(head, len(head))


def looks_like_weights(path: Path) -> bool:
    """Whether a file is weights by its content, or by its name when the content is broken or only a pointer."""
    name = path.name.lower()
    if name.endswith(INDEX_SUFFIX):
        head = head_of(path, 4096)
        return head is not None and (b'"weight_map"' in head or b'"metadata"' in head or "safetensors" in name)
    suffix = path.suffix.lower()
    if suffix not in EXTENSIONS:
        kind = sniff_path(path)
        # Without the extension a header that no file could have is text that begins alike.
        short = int.from_bytes((head_of(path) or b"")[4:8], "little") == 0
        return kind == "torch-legacy" or (kind == "safetensors" and short)
    if suffix in {".safetensors", ".pth", ".ckpt"}:
        return path.is_file() or path.is_symlink()  # a link that leads nowhere is weights that are lost
    kind = sniff_path(path)
    if kind in {"safetensors", "ckpt", "zip", "torch-legacy", "pickle"}:
        return True
    # A .bin that is not readable as weights: believe the name only if it is a name weights have.
    if (path.with_suffix(".idx")).exists():
        return False
    return suffix == ".pt" or name.startswith(("pytorch_model", "model", "adapter_model", "consolidated"))


def list_folder(folder: Path, limit: int = 100_000) -> list[os.DirEntry[str]]:
    """The entries of a folder by name, at most `limit`; an empty list when it cannot be read."""
    entries: list[os.DirEntry[str]] = []
    try:
        with os.scandir(folder) as found:
            for entry in found:
                entries.append(entry)
                if len(entries) >= limit:
                    break
    except OSError:
        return []
    return sorted(entries, key=lambda entry: entry.name)


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder; a link in a loop is none."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def is_file(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a regular file or leads to one."""
    try:
        return entry.is_file()
    except OSError:
        return False


def _is_safetensors(head: bytes) -> bool:
    if len(head) < 9:
        return False
    length = int.from_bytes(head[:8], "little")
    if b'"header_size"' in head[8:64] or b'"shard_addresses"' in head:
        return False  # a MindRecord data file begins alike
    # Claims beyond any real header are still safetensors when the JSON is there: the reader says what is wrong.
    return length > 1 and head[8:9] == b"{" and head[8:].lstrip(b"{ \t\r\n")[:1] in {b'"', b"}"}


def _is_ckpt(head: bytes) -> bool:
    """A MindSpore checkpoint begins with field 1, a message that begins with field 1, the name."""
    if head[0] != 0x0A:
        return False
    at = 1
    while at < len(head) and head[at] & 0x80:
        at += 1
    at += 1
    if at + 1 >= len(head) or head[at] != 0x0A:
        return False
    length = head[at + 1]
    name = head[at + 2 : at + 2 + (length & 0x7F)]
    return length > 0 and bool(name) and not any(byte < 0x09 for byte in name[:1])


def _is_strategy(head: bytes) -> bool:
    """A MindSpore strategy file begins with field 1 as a varint (the stage), then messages of field 2 or 3."""
    if head[0] == 0x08:
        return len(head) > 2 and head[1] < 0x80 and head[2] in {0x12, 0x1A}
    return head[0] in {0x12, 0x1A} and len(head) > 3 and 0x0A in head[2:4]
