"""The files of a run that a diagnosis needs: its logs, and what is small beside them. Links that lead out are left."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

from doctor.bundled import MANIFEST
from doctor.errors import UsageError
from doctor.escape import visible
from doctor.finding import Text
from doctor.records.decode import SNIFF, sniff
from doctor.records.discover import LogFile, Refused, discover

#: bytes of a file beside the logs that is taken whole, such files, and levels of folders that are looked at
LARGEST, MOST, DEEPEST = 256 << 10, 64, 3
_SUFFIXES = (".yaml", ".yml", ".json", ".toml", ".cfg", ".ini", ".sh")
_NAMES = ("interventions.jsonl", "requirements.txt", "hostfile")
#: what is heavy or can be made again; nothing in there is looked at
_ASIDE = frozenset(
    ("checkpoints", "checkpoint", "ckpt", "dumps", "strategy", "kernel_meta", "summary", "profiler", "__pycache__")
)
#: ours, and made of the logs
_OURS = frozenset(("report.html", "findings.jsonl", MANIFEST))
_MOST_LISTED = 50


@dataclass(frozen=True)
class Wanted:
    """`name` is the path within the run. `log` is set for logs, of which lines may be left out."""

    path: Path
    name: str
    log: Optional[LogFile] = None
    rank: Optional[int] = None
    size: int = 0


@dataclass
class Gathered:
    """`left` are files that are not taken, with their sizes and why; `more` counts those that are not listed."""

    root: Path
    name: str
    wanted: list[Wanted] = field(default_factory=list)
    left: list[tuple[str, int, str]] = field(default_factory=list)
    more: int = 0

    def leave(self, name: str, size: int, why: str) -> None:
        if len(self.left) < _MOST_LISTED:
            self.left.append((name, size, why))
        else:
            self.more += 1


def gather(run: str, output: Optional[Path]) -> Gathered:
    """What of the run at `run` (a folder, or one log) is wanted. Raises UsageError when there is no log in it."""
    path = Path(run)
    if path.is_dir():
        root = path
    elif path.is_file():
        root = path.parent
    else:
        raise UsageError(
            Text(f"{visible(run, 200)}: no file and no folder.", f"{visible(run, 200)}：不是文件或目录。"),
            Text("Name a run folder or a log.", "请指定训练目录或日志文件。"),
        )
    found = Gathered(root, (path.resolve() if path.is_dir() else path.resolve().parent).name or "run")
    refused: Refused = []
    taken = set()
    for log in discover([path], refused):
        for part in log.parts or (log.path,):
            wanted = _wanted(found, root, part, log)
            if wanted is not None and str(part) not in taken:
                taken.add(str(part))
                found.wanted.append(wanted)
    if path.is_dir():
        for beside in _beside(root, found, taken, output):
            found.wanted.append(beside)
    for folder, error in refused:
        found.leave(_name(root, folder), 0, error.strerror or str(error))
    if not found.wanted:
        raise UsageError(
            Text(f"{visible(run, 200)}: no log in it can be taken.", f"{visible(run, 200)}：没有可打包的日志。"),
            Text(
                "Binary data and links that lead out of the folder are left.",
                "二进制数据和指向目录之外的链接不会打包。",
            ),
        )
    found.wanted.sort(key=lambda item: item.name)
    return found


def _name(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix()


def _wanted(found: Gathered, root: Path, path: Path, log: LogFile) -> Optional[Wanted]:
    name = _name(root, path)
    if not _inside(root, path):
        found.leave(name, 0, "a link that leads out of the run")
        return None
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(SNIFF)
    except OSError as error:
        found.leave(name, 0, error.strerror or str(error))
        return None
    if sniff(head) == "binary":
        found.leave(name, size, "binary data")
        return None
    return Wanted(path, name, log, log.rank, size)


def _inside(root: Path, path: Path) -> bool:
    try:
        return path.resolve(strict=True).is_relative_to(root.resolve(strict=True))
    except (OSError, RuntimeError):
        return False


def _beside(root: Path, found: Gathered, taken: set[str], output: Optional[Path]) -> Iterator[Wanted]:
    """Settings, ends and scripts beside the logs, and a note of what stays."""
    count = 0
    waiting = [(root, 0)]
    while waiting:
        folder, depth = waiting.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            path = Path(entry.path)
            name = _name(root, path)
            try:
                is_link, is_folder = entry.is_symlink(), entry.is_dir(follow_symlinks=False)
                size = 0 if is_folder else entry.stat(follow_symlinks=False).st_size
            except OSError:
                continue
            if is_folder:
                if entry.name in _ASIDE or entry.name.startswith("."):
                    found.leave(f"{name}/", 0, "weights, dumps or graphs")
                elif depth < DEEPEST:
                    waiting.append((path, depth + 1))
            elif str(path) in taken or entry.name in _OURS or _is_output(path, output) or entry.name.startswith("."):
                continue
            elif is_link:
                found.leave(name, 0, "a link")
            elif not entry.is_file(follow_symlinks=False):
                continue
            elif not (entry.name.endswith(_SUFFIXES) or entry.name in _NAMES):
                found.leave(name, size, "of a kind that is not needed")
            elif size > LARGEST or count >= MOST:
                found.leave(name, size, "too large")
            else:
                count += 1
                yield Wanted(path, name, size=size)


def _is_output(path: Path, output: Optional[Path]) -> bool:
    return path.name == "bundle.tar.gz" or (output is not None and os.path.abspath(path) == os.path.abspath(output))
