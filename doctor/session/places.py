"""Where a command will write its logs: from its words, from what it prints, and from habit."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Optional

from doctor.records.discover import logs_below

#: folders of MindFormers and msrun when nothing else is said
USUAL = ("output/log", "output/msrun_log", "msrun_log")
_OPTION = re.compile(r"--?(?:log_dir|log-dir|output_dir|output-dir|log_path)(?:=(?P<value>.+))?$")
_SETTING = re.compile(r"(?:output_dir|log_dir)=(?P<value>.+)$")
_SAID = (
    re.compile(rb"log file: ?(?P<path>/?[^\s,]+?worker_\d+\.log)"),
    re.compile(rb"set output path to ['\"`](?P<path>[^'\"`]+)"),
    re.compile(rb"check logs in directory: (?P<path>\S+?)\.?\s*$", re.M),
)
#: what a place is recognised by in a block of output, so that most blocks cost three searches
_HINTS = (b"log file:", b"set output path to", b"logs in directory")
_MOST_SAVED = 4 << 30


def of_command(command: Sequence[str], environ: Iterable[tuple[str, str]]) -> list[Path]:
    """Folders that the words of the command and the environment name, and the usual ones. They need not exist."""
    found = [Path(name) for name in USUAL]
    for index, word in enumerate(command):
        option = _OPTION.match(word)
        if option:
            value = option["value"] or (command[index + 1] if index + 1 < len(command) else "")
        else:
            setting = _SETTING.match(word)
            value = setting["value"] if setting else ""
        if value and not value.startswith("-"):
            found.append(Path(value))
    for name, value in environ:
        if name in ("LOG_MF_PATH", "MSRUN_LOG_DIR") and value:
            found.append(Path(value))
        elif name == "LOCAL_DEFAULT_PATH" and value:
            found.extend((Path(value) / "log", Path(value) / "msrun_log"))
    return _once(found)


def said(block: bytes) -> Iterator[Path]:
    """Places that a block of output names."""
    if not any(hint in block for hint in _HINTS):
        return
    for pattern in _SAID:
        for match in pattern.finditer(block):
            path = Path(os.fsdecode(match["path"]))
            if path.name.startswith("worker_"):
                yield path.parent
            elif b"output path" in match.group():
                yield path / "log"
                yield path / "msrun_log"
            else:
                yield path


def as_they_are(paths: Sequence[Path], untouched_since: Optional[float] = None) -> dict[str, Any]:
    """A state for `Follower` that begins behind what stands in the logs already: that was another run. With
    `untouched_since` (seconds since the epoch) only logs last written before then are passed over."""
    rows = []
    for log in logs_below(paths):
        try:
            with open(log.path, "rb") as file:
                status = os.fstat(file.fileno())
                newer = untouched_since is not None and status.st_mtime >= untouched_since
                if status.st_size > _MOST_SAVED or newer:
                    continue
                lines, before = 1, b""
                for block in iter(lambda: file.read(1 << 20), b""):
                    lines += block.count(b"\n")
                    before = (before + block)[-64:]
        except OSError:
            continue
        rows.append(
            {
                "path": str(log.path),
                "device": status.st_dev,
                "inode": status.st_ino,
                "offset": status.st_size,
                "line": lines,
                "before": base64.b64encode(before).decode("ascii"),
            }
        )
    return {"version": 1, "files": rows}


def _once(paths: Iterable[Path]) -> list[Path]:
    return list(dict.fromkeys(paths))
