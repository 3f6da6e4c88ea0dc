"""Puts what was made where it was asked for: whole or not at all, and never over a file that is none of ours."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Optional

from doctor.errors import UsageError
from doctor.escape import visible
from doctor.finding import Text
from doctor.whole import write_whole


def target_of(run: str, output: Optional[str], name: str, what: Text) -> Path:
    """Where it goes: `output`, else `name` in the folder of the run; `what` is the word for it, with its article. Raises
    UsageError when the run is no folder."""
    if output is not None:
        return Path(output)
    if Path(run).is_dir():
        return Path(run) / name
    if not os.path.lexists(run):
        raise UsageError(
            Text(f"{run}: there is no such file or folder.", f"{run}：文件或目录不存在。"),
            Text("Name a run folder or a log.", "请指定训练目录或日志文件。"),
        )
    command = f"doctor {name.partition('.')[0]} {shlex.quote(run)} -o {name}"
    raise UsageError(
        Text(f"{run} is no folder to put {what.en} into.", f"{run} 不是目录，无法在其中写入{what.zh}。"),
        Text(f"Say where it goes: {command}", f"请指定位置：{command}"),
    )


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
            write_whole(path, raw, _mode())
    except BrokenPipeError:
        raise
    except OSError as error:
        why, name = error.strerror or str(error), visible(str(path), 200)
        raise UsageError(
            Text(f"{name} could not be written: {why}.", f"{name} 无法写出：{why}。"),
            Text("Name another place with -o.", "请用 -o 指定其他位置。"),
        ) from error
    return len(raw)


def _mode() -> int:
    """The permissions of a new file: all that the user has not masked."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
