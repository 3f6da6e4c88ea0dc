"""Puts what was made where it was asked for: whole or not at all, and never over a file that is none of ours."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from doctor.errors import UsageError
from doctor.escape import visible
from doctor.finding import Text


def check_target(path: Path, example: str, is_ours: Callable[[Path], bool]) -> None:
    """Raises UsageError before anything is read when a file could not be put there. `is_ours` says whether a file that is
    there may be written over; `example` is a name for the hint."""
    name = visible(str(path), 200)
    if path.is_dir():
        raise UsageError(
            Text(f"{name} is a folder.", f"{name} 是目录。"),
            Text(f"Name a file: -o {name}/{example}", f"请指定文件：-o {name}/{example}"),
        )
    if path.is_file() and path.stat().st_size and not is_ours(path):
        raise UsageError(
            Text(f"{name} is there already and was not made by the doctor.", f"{name} 已存在，且不是 doctor 生成的。"),
            Text("Name another file with -o.", "请用 -o 指定其他文件。"),
        )
    if not path.parent.is_dir():
        folder = visible(str(path.parent), 200)
        raise UsageError(
            Text(f"{folder}: there is no such folder.", f"{folder}：目录不存在。"),
            Text("Make it first, or name another place with -o.", "请先创建，或用 -o 指定其他位置。"),
        )


def deliver(raw: bytes, path: Path) -> int:
    """Writes the file (``-``: standard output); gives its size. Raises UsageError when the place refuses it."""
    try:
        if str(path) == "-":
            sys.stdout.buffer.write(raw)
            sys.stdout.buffer.flush()
        elif path.exists() and not path.is_file():  # a device or a pipe
            with path.open("wb") as file:
                file.write(raw)
        else:
            _replace(raw, path)
    except BrokenPipeError:
        raise
    except OSError as error:
        why, name = error.strerror or str(error), visible(str(path), 200)
        raise UsageError(
            Text(f"{name} could not be written: {why}.", f"{name} 无法写出：{why}。"),
            Text("Name another place with -o.", "请用 -o 指定其他位置。"),
        ) from error
    return len(raw)


def _replace(raw: bytes, path: Path) -> None:
    handle, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(beside, 0o666 & ~mask)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise
