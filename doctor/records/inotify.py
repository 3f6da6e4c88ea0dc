"""Linux inotify through ctypes: told at once which files of a folder were written, without asking each one.

It does not see what other hosts write to a shared disk. `sees_all_writes` says where it can be relied on; elsewhere
`doctor.records.follow` asks every file in turn.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import errno
import os
import select
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Optional

IN_MODIFY, IN_MOVED_FROM, IN_MOVED_TO = 0x2, 0x40, 0x80
IN_CREATE, IN_DELETE, IN_DELETE_SELF, IN_MOVE_SELF = 0x100, 0x200, 0x400, 0x800
IN_Q_OVERFLOW, IN_IGNORED, IN_ISDIR = 0x4000, 0x8000, 0x40000000
_MASK = IN_MODIFY | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF
_EVENT = struct.Struct("iIII")

# file systems on which other hosts (or the host outside a container) write unseen by inotify
_SHARED = frozenset(
    [
        "nfs",
        "nfs4",
        "lustre",
        "cifs",
        "smb3",
        "smbfs",
        "gpfs",
        "ceph",
        "beegfs",
        "glusterfs",
        "9p",
        "afs",
        "ocfs2",
        "dpc",
        "virtiofs",
    ]
)


class Change(NamedTuple):
    """What happened in `folder`: to `name` ("" for the folder itself). `lost`: events were dropped, look at all."""

    folder: str
    name: str
    appeared: bool
    lost: bool = False


class Watch:
    """Folders under watch. Raises OSError where the kernel has no inotify, or none left."""

    def __init__(self) -> None:
        libc = ctypes.CDLL(ctypes.util.find_library("c") or None, use_errno=True)
        self._add = libc.inotify_add_watch
        self._add.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32)
        try:
            self.fd = int(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        except AttributeError as error:  # a C library without it
            raise OSError(errno.ENOSYS, "no inotify") from error
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self._folders: dict[int, str] = {}
        self._watched: set[str] = set()

    def add(self, folder: str) -> bool:
        """Whether `folder` is under watch now."""
        if folder in self._watched:
            return True
        number = self._add(self.fd, os.fsencode(folder), _MASK)
        if number < 0:
            return False
        self._folders[number] = folder
        self._watched.add(folder)
        return True

    def wait(self, timeout: float) -> bool:
        """Whether something happened within `timeout` seconds."""
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        return bool(poll.poll(max(timeout, 0.0) * 1000))

    def changes(self) -> Iterator[Change]:
        """What happened since the last call; returns at once."""
        while True:
            try:
                data = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                return
            at = 0
            while at + _EVENT.size <= len(data):
                number, mask, _, length = _EVENT.unpack_from(data, at)
                name = data[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0")
                at += _EVENT.size + length
                change = self._change(number, mask, os.fsdecode(name))
                if change is not None:
                    yield change

    def _change(self, number: int, mask: int, name: str) -> Optional[Change]:
        if mask & IN_Q_OVERFLOW:
            return Change("", "", True, lost=True)
        folder = self._folders.get(number)
        if folder is None:
            return None
        if mask & IN_IGNORED:
            del self._folders[number]
            self._watched.discard(folder)
        return Change(folder, name, appeared=not mask & IN_MODIFY)

    def close(self) -> None:
        os.close(self.fd)


def sees_all_writes(folder: str, mounts: Path = Path("/proc/self/mounts")) -> bool:
    """Whether the file system of `folder` is a local one; False when that cannot be told."""
    try:
        real = os.path.realpath(folder)
        text = mounts.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return False
    best, kind = "", ""
    for line in text.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = fields[1].replace("\\040", " ")
        if (real == point or real.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
            best, kind = point, fields[2]
    return bool(kind) and kind not in _SHARED and not kind.startswith("fuse")
