"""Opens a weight file of any format: sniffs it, reads its header, notices when it changes meanwhile."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Callable, Optional

from doctor.finding import Text
from doctor.formats import ckpt, safetensors, torchfile
from doctor.formats.sniff import HEAD, sniff
from doctor.formats.tensor import Kind, Problem, WeightFile

_READERS: dict[str, Callable[[Path], WeightFile]] = {
    "safetensors": safetensors.read,
    "ckpt": ckpt.read,
    "zip": torchfile.read_zip,
    "torch-legacy": torchfile.read_legacy,
    "pickle": torchfile.read_pickle,
}
_KINDS = {
    "empty": Kind.EMPTY,
    "lfs-pointer": Kind.LFS_POINTER,
    "web-page": Kind.WEB_PAGE,
    "zeroed": Kind.ZEROED,
    "encrypted": Kind.ENCRYPTED,
    "unknown": Kind.NOT_WEIGHTS,
    "strategy": Kind.NOT_WEIGHTS,
}


def read_file(path: Path) -> WeightFile:
    """The header of one weight file. Never raises on what the file is or holds."""
    try:
        before = path.stat()
        if not stat.S_ISREG(before.st_mode):
            return _nothing(path, 0, Kind.UNREADABLE, Text("not a regular file", "不是普通文件"))
        with path.open("rb", buffering=0) as file:
            head = file.read(HEAD)
        what = sniff(head, before.st_size)
        reader = _READERS.get(what)
        found = reader(path) if reader else _not_weights(path, before, what, head)
        after = path.stat()
    except OSError as error:
        return _nothing(path, 0, Kind.UNREADABLE, _system(error))
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        changed = Problem(
            Kind.CHANGED,
            path,
            Text("it is being written", "正在被写入"),
            observed=after.st_size,
            expected=before.st_size,
        )
        return WeightFile(path, found.format, after.st_size, found.tensors, found.metadata, (changed,), found.scalars)
    return found


def _not_weights(path: Path, before: os.stat_result, what: str, head: bytes) -> WeightFile:
    size = before.st_size
    if what == "lfs-pointer":
        return _nothing(path, size, Kind.LFS_POINTER, _same(what), expected=_lfs_size(head))
    if what.startswith("foreign:"):
        return _nothing(path, size, Kind.FOREIGN, _same(what.partition(":")[2]))
    if what == "tar":
        return _nothing(path, size, Kind.FOREIGN, _same("tar archive"))
    return _nothing(path, size, _KINDS[what], _same(what))


def _nothing(path: Path, size: int, kind: Kind, detail: Text, expected: Optional[object] = None) -> WeightFile:
    problem = Problem(kind, path, detail, observed=size, expected=expected)
    return WeightFile(path, "unknown", size, problems=(problem,))


def _same(word: str) -> Text:
    return Text(word, word)


def _system(error: OSError) -> Text:
    word = os.strerror(error.errno) if error.errno else str(error)
    chinese = {
        errno.EACCES: "没有读取权限",
        errno.ELOOP: "软链接成环",
        errno.ENOENT: "文件不存在（或软链接指向不存在的文件）",
    }
    return Text(word, chinese.get(error.errno or 0, word))


def _lfs_size(head: bytes) -> Optional[int]:
    for line in head.splitlines():
        if line.startswith(b"size ") and line[5:].strip().isdigit():
            return int(line[5:])
    return None
