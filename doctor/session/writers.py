"""Whether some process still has a log open for writing. Known on Linux, for processes that we may look at."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

#: the flags of open(2) that allow writing
_WRITES = os.O_WRONLY | os.O_RDWR


def written_now(paths: Iterable[Path]) -> bool:
    """True when another process of this machine has one of the files open for writing. False says nothing
    about other machines, nor about processes of other users."""
    wanted = set()
    for path in paths:
        try:
            status = os.stat(path)
        except OSError:
            continue
        wanted.add((status.st_dev, status.st_ino))
    if not wanted:
        return False
    own = str(os.getpid())
    try:
        pids = [name for name in os.listdir("/proc") if name.isdigit() and name != own]
    except OSError:
        return False
    return any(_writes(pid, wanted) for pid in pids)


def _writes(pid: str, wanted: set[tuple[int, int]]) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    for name in names:
        try:
            status = os.stat(f"{folder}/{name}")
            if (status.st_dev, status.st_ino) in wanted and _flags(pid, name) & _WRITES:
                return True
        except OSError:
            continue
    return False


def _flags(pid: str, fd: str) -> int:
    with open(f"/proc/{pid}/fdinfo/{fd}", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("flags:"):
                return int(line.split()[1], 8)
    return 0
