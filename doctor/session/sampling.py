"""Looks at the machine for `doctor.detect.host`: memory, disk, cores, the size of the newest checkpoint."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Optional

from doctor.detect.host import HostSample

#: folders in which checkpoints lie below a run's output
_NAMES = ("checkpoint", "checkpoints", "checkpoint_network", "ckpt")
_SUFFIXES = (".ckpt", ".safetensors", ".npz", ".bin")
#: files written within this time of the newest belong to the same save, in seconds
_ONE_SAVE = 120.0
_MOST_FILES = 5000


def sample(paths: Sequence[Path], now: float) -> HostSample:
    """The machine now; `paths` are the run's folders or logs. What cannot be read is left out."""
    import psutil

    memory = psutil.virtual_memory()
    folder = next((path if path.is_dir() else path.parent for path in paths if path.exists()), None)
    free: Optional[int] = None
    if folder is not None:
        try:
            free = shutil.disk_usage(folder).free
        except OSError:
            free = None
    return HostSample(
        now,
        memory.total - memory.available,
        memory.total,
        _cores(),
        str(folder) if folder is not None else None,
        free,
        newest_checkpoint(folder) if folder is not None else None,
    )


def newest_checkpoint(folder: Path) -> Optional[int]:
    """Bytes of the files that were written together with the newest weight file; None when there is none."""
    found = sorted(_weights(folder), reverse=True)
    if not found:
        return None
    newest = found[0][0]
    return sum(size for written, size in found if newest - written <= _ONE_SAVE)


def _weights(folder: Path) -> Iterator[tuple[float, int]]:
    seen = 0
    for name in _NAMES:
        for base, _, files in os.walk(folder / name):
            for file in files:
                seen += 1
                if seen > _MOST_FILES:
                    return
                if file.endswith(_SUFFIXES):
                    try:
                        status = os.stat(os.path.join(base, file))
                    except OSError:
                        continue
                    yield status.st_mtime, status.st_size


def _cores() -> Optional[int]:
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return os.cpu_count()
