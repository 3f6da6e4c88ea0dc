"""From what the user names (a run folder, files, a glob) to the logs of the run, each with its rank and parts.

Known places: MindFormers' ``output/log/rank_N/{info,error}.log`` and ``output/msrun_log/{worker_N,scheduler}.log``, the run
folder of ``doctor train`` (``log/rank_N.log``, ``metrics/rank_N.jsonl``), CANN's ``plog`` folders. In any other folder
everything that is named like a log. Folders of a thousand ranks are listed, never opened.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Union

from doctor.errors import UsageError
from doctor.escape import visible
from doctor.finding import Text
from doctor.records.ranks import rank_of_path
from doctor.records.reader import STDIN, unreadable

#: how many files and levels of folders are looked at below a folder that the user names
MOST_FILES = 100_000
DEEPEST = 6

#: kinds of logs, best first as a source of step records when several files of one rank hold the same ones
KINDS = ("metrics", "steps", "worker", "log", "scheduler", "device", "error")

# weights, caches and sources lie beside logs; nothing in there is one
_NOT_LOGS = re.compile(
    r"checkpoint.*|ckpt.*|strategy|transformed_checkpoint|kernel_meta.*|summary|profiler.*|graphs?|\..*|__pycache__"
    r"|node_modules|site-packages|dataset.*|mindrecord|om|node_dump|exec_order|extra-info",
    re.IGNORECASE,
)
_LOG = re.compile(
    r".+\.(?:log|out|err)|nohup\.out|(?:std)?(?:out|err)|.*(?:log|stdout|stderr|output|console|train|rank|worker|nohup).*\.txt|messages"
    r"|(?:metrics|rank|train).*\.jsonl",
    re.IGNORECASE,
)
# Where a rotated part ends its name: `.1`, `.2.gz`, `.2024-05-06`, `-20240506.gz`, `.old`; and packed ones alone
_PART = re.compile(
    r"(?P<base>.+?)(?:[.-](?P<date>\d{4}-?\d\d-?\d\d(?:[_T-]?\d\d[-:]?\d\d(?:[-:]?\d\d)?)?)|\.(?P<number>\d{1,4})|\.(?P<old>old|bak|prev))?"
    r"(?P<packed>\.(?:gz|bz2|xz))?"
)
_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True)
class LogFile:
    """One log: `path` is the file that is written now, `parts` all of it, oldest first, `path` last. `kind` is one
    of KINDS."""

    path: Path
    kind: str
    rank: Optional[int] = None
    parts: tuple[Path, ...] = ()

    @property
    def holds_steps(self) -> bool:
        """Whether step records are to be looked for in it. error.log repeats lines of info.log."""
        return self.kind not in ("error", "scheduler", "device")


#: folders that could not be listed, and why
Refused = list[tuple[Path, OSError]]


def discover(paths: Sequence[Union[str, Path]], refused: Optional[Refused] = None) -> list[LogFile]:
    """The logs behind `paths`, ordered by rank, kind and name; equal files once. Folders below them that cannot be listed
    are added to `refused`.

    Raises UsageError when one of `paths` is not there, cannot be listed, or is a folder without logs.
    """
    found: dict[Path, LogFile] = {}
    for path in paths:
        logs = list(_of_path(path, refused))
        if not logs:
            raise _no_logs(path)
        for log in logs:
            found.setdefault(log.path, log)
    return sorted(found.values(), key=_order)


def logs_below(paths: Sequence[Union[str, Path]], refused: Optional[Refused] = None) -> list[LogFile]:
    """As `discover`, but what is not there (yet) is left out: for following a run that is still starting."""
    found: dict[Path, LogFile] = {}
    for path in paths:
        try:
            for log in _of_path(path, refused):
                found.setdefault(log.path, log)
        except UsageError:
            continue
    return sorted(found.values(), key=_order)


def _of_path(path: Union[str, Path], refused: Optional[Refused] = None) -> Iterator[LogFile]:
    name = str(path)
    if name == STDIN:
        yield LogFile(Path(STDIN), "log", None, (Path(STDIN),))
        return
    target = Path(path)
    try:
        is_folder = target.is_dir()
        exists = is_folder or target.exists()
    except (OSError, ValueError) as error:
        raise unreadable(path, error if isinstance(error, OSError) else OSError(str(error))) from error
    if is_folder:
        yield from _group(_walk(target, refused))
    elif exists:
        # a file that is named is read, whatever its name; its older parts only when it is the one written now
        yield from _named(target)
    elif glob.has_magic(name):
        yield from _group(sorted(Path(item) for item in glob.glob(name, recursive=True) if not Path(item).is_dir()))
    else:
        raise unreadable(path, FileNotFoundError())


def _named(path: Path) -> Iterator[LogFile]:
    match = _PART.fullmatch(path.name)
    if match is None or match["date"] or match["number"] or match["old"] or match["packed"]:
        yield LogFile(path, kind_of(path), rank_of_path(path), (path,))
        return
    try:
        beside = [Path(entry.path) for entry in os.scandir(path.parent) if entry.name.startswith(path.name)]
    except OSError:
        beside = []
    family = [item for item in beside if item.name == path.name or _base(item) == path.name]
    yield from _group(family or [path])


def _base(path: Path) -> str:
    match = _PART.fullmatch(path.name)
    return match["base"] if match else path.name


def _walk(folder: Path, refused: Optional[Refused] = None) -> Iterator[Path]:
    """Files below `folder` that are named like logs or parts of logs. A folder below that cannot be listed is
    passed over, and added to `refused`."""
    waiting, seen = [(folder, 0)], 0
    while waiting:
        here, depth = waiting.pop()
        try:
            entries = sorted(os.scandir(here), key=lambda entry: entry.name)
        except OSError as error:
            if depth == 0:
                raise unreadable(folder, error) from error
            if refused is not None and not isinstance(error, FileNotFoundError):
                refused.append((here, error))
            continue
        for entry in entries:
            seen += 1
            if seen > MOST_FILES:
                return
            try:
                if entry.is_dir(follow_symlinks=depth == 0):
                    if depth < DEEPEST and not _NOT_LOGS.fullmatch(entry.name):
                        waiting.append((Path(entry.path), depth + 1))
                elif _LOG.fullmatch(_base(Path(entry.name))) and entry.is_file():
                    yield Path(entry.path)
            except OSError:
                continue


def _group(paths: Iterable[Path]) -> Iterator[LogFile]:
    """Rotated parts together with the file they were cut from."""
    families: dict[Path, list[Path]] = {}
    for path in paths:
        families.setdefault(path.with_name(_base(path)), []).append(path)
    for base, parts in families.items():
        ordered = sorted(parts, key=_age)
        yield LogFile(ordered[-1], kind_of(base), rank_of_path(base), tuple(ordered))


def _age(path: Path) -> tuple[int, str, int]:
    """Oldest first: dated parts by date, then numbered ones from the highest number down, then the file itself."""
    match = _PART.fullmatch(path.name)
    if match is None:
        return (3, "", 0)
    if match["date"]:
        return (0, match["date"], 0)
    if match["number"]:
        return (1, "", -int(match["number"]))
    return (2 if match["old"] else 3, "", 0)


def kind_of(path: Path) -> str:
    """One of KINDS, from the name."""
    name = _base(path).lower()
    if name.endswith(".jsonl"):
        return "metrics"
    if name.startswith("scheduler"):
        return "scheduler"
    if name in ("error.log", "err.log"):
        return "error"
    if name.startswith(("plog", "device-")) or "plog" in path.parts[:-1]:
        return "device"
    if name == "info.log" or (name.startswith("rank") and path.parent.name == "log"):
        return "steps"
    return "worker" if name.startswith("worker") else "log"


def _order(log: LogFile) -> tuple[int, int, list[tuple[int, str]]]:
    """Rank, kind, then the name with its numbers as numbers."""
    pieces = _DIGITS.split(str(log.path))
    natural = [(int(piece), "") if index % 2 else (0, piece) for index, piece in enumerate(pieces)]
    return (-1 if log.rank is None else log.rank, KINDS.index(log.kind), natural)


def _no_logs(path: Union[str, Path]) -> UsageError:
    name = visible(str(path), 200)
    return UsageError(
        Text(f"{name}: there are no log files in it.", f"{name}：其中没有日志文件。"),
        Text(
            "Name the run's output folder (with log/ or msrun_log/ in it) or the log file itself.",
            "请指定训练输出目录（其中有 log/ 或 msrun_log/），或直接指定日志文件。",
        ),
    )
