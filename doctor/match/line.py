"""What stands round the message of a log line: colours, encodings, carriage returns, and who wrote it when."""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from typing import Optional

_ANSI = re.compile(rb"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b\n]{0,256}(?:\x07|\x1b\\)|[@-Z\\^_])")
_RANK = re.compile(
    rb"^\W{0,3}(?:rank|Rank|RANK|default|worker|Worker)[ _-]?(\d{1,5})\b"  # [rank3]: [default7]: worker_3:
    rb"|\[(?:Rank|rank|RANK)[ _:]?(\d{1,5})\]"
    rb"|\bRankID[:=] ?(\d{1,5})\b"
    rb"|^\S{0,200}?rank_(\d{1,5})[/.:_-]"  # grep's prefix: rank_3/worker.log:12:
    rb"|^\S{0,200}?worker_(\d{1,5})\.log"
    rb"|^\[\d{1,6},(\d{1,5})\]<std(?:out|err)>:"  # mpirun --tag-output
    rb"|^ {0,4}(\d{1,5}): (?=\[?(?:20\d\d-\d\d-\d\d|ERROR|WARNING|CRITICAL|INFO)|Traceback |  File |\w{1,40}(?:Error|Exception): )"  # srun -l
)
_LEVEL = re.compile(
    rb"(?:^|[\s\[|(>])(TRACE|DEBUG|INFO|EVENT|NOTICE|WARNING|WARN|ERROR|CRITICAL|FATAL|EXCEPTION)(?:[\]\s|:)(]|$)"
    rb"|^(?:\[rank\d+\]: ?)?\[?([IWEF])\d{3,4} \d\d:\d\d:\d\d"
)
#: how Python and torch mark a warning: ``x.py:66: UserWarning: ...``, ``[W compiler_depend.ts:51] Warning: ...``
#: also behind a progress bar, whose line has not ended: ``0/465 [00:00<?, ?it/s][W compiler_depend.ts:51] Warning: ...``
_WARNS = re.compile(
    rb"\.py:\d{1,5}: [A-Z]\w{0,40}Warning: |^(?:\[rank\d+\]:)?\[W[ \d]|^[A-Z]\w{0,40}Warning: "
    rb"|\](?:\[rank\d{1,5}\]:)?\[W[ \d][^\]]{0,80}\] Warning: "
)
#: what launchers put before each line of a rank: torchrun, mpirun, srun
_LAUNCHER = re.compile(
    rb"^(?:\[(?:rank|default)\d{1,5}\]:? ?|\[\d{1,6},\d{1,5}\]<std(?:out|err)>: ?| {0,4}\d{1,5}: (?=\S))"
)
_TIME = re.compile(rb"(20\d\d)[-/](\d\d)[-/](\d\d)[-T :](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?")
_FRAME = re.compile(rb'^.{0,40}?File "[^"\n]+", line \d+(?:, in .*)?$')
_QUIET = {"I": "INFO", "W": "WARNING", "E": "ERROR", "F": "FATAL"}
#: a line longer than this is looked at in overlapping pieces of this size, so that no expression is slow on it
PIECE = 8192
OVERLAP = 2048
#: lines above a line that are asked for its time, level and rank
_LOOK_BACK = 40


def normal(data: bytes) -> bytes:
    """The block without colours and NULs. The number of lines stays; the very same object comes back when there is
    nothing to do, which is the usual case and costs next to nothing."""
    if b"\x1b" in data:
        data = _ANSI.sub(b"", data)
    if b"\x00" in data:
        data = data.replace(b"\x00", b"")
    return data


def utf8(line: bytes) -> bytes:
    """A line of a Chinese locale (GBK) as UTF-8; any other stays as it is."""
    if line.isascii():
        return line
    for encoding in ("utf-8", "gb18030"):
        try:
            return line.decode(encoding).encode("utf-8")
        except UnicodeDecodeError:
            continue
    return line


def bare(line: bytes) -> bytes:
    """The line without what a launcher put before it; the very same object where there is nothing."""
    prefix = _LAUNCHER.match(line)
    return line if prefix is None else line[prefix.end() :]


def pieces(line: bytes) -> list[bytes]:
    """The parts of a line to match on: between carriage returns, once more without what a launcher put before the line,
    and overlapping cuts of a very long one."""
    parts = line.split(b"\r") if b"\r" in line else [line]
    if bare(line) is not line:
        parts.append(bare(parts[0]))
    if len(line) <= PIECE:
        return parts
    cut: list[bytes] = []
    for part in parts:
        if len(part) <= PIECE:
            cut.append(part)
        else:
            cut.extend(part[start : start + PIECE] for start in range(0, len(part) - OVERLAP, PIECE - OVERLAP))
    return cut


@dataclass(frozen=True)
class Setting:
    """Where a line stands. `level` and `time` (seconds, in the log's own zone) come from the line or the nearest one
    above that has them. `code` says that the line is source code that a traceback quotes."""

    level: Optional[str] = None
    own_level: bool = False
    time: Optional[float] = None
    rank: Optional[int] = None
    code: bool = False


#: the setting of a line of which nothing is known
NOWHERE = Setting()


def setting_of(line: bytes, above: bytes, rank: Optional[int] = None) -> Setting:
    """The setting of `line` (one plain line), where `above` are the bytes before it, newest last."""
    head = line[:400]
    own_level = level_of(head)
    level, time = own_level, time_of(head)
    own_rank = _own_rank(head)
    before = above.rstrip(b"\n").rsplit(b"\n", _LOOK_BACK)[-_LOOK_BACK:][::-1]
    code = bool(before) and _FRAME.match(before[0].rstrip(b"\r")) is not None and not _FRAME.match(head)
    code = code and line[:1] in b" \t[("
    for other in before:
        if level is not None and time is not None and (own_rank is not None or rank is not None):
            break
        other_head = other[:400]
        if level is None and own_rank in (None, _own_rank(other_head)):
            level = level_of(other_head)
        if time is None:
            time = time_of(other_head)
        if own_rank is None and rank is None and line[:1] in b" \t":
            own_rank = _own_rank(other_head)
    return Setting(level, own_level is not None, time, own_rank if own_rank is not None else rank, code)


def rank_of(line: bytes, default: Optional[int] = None) -> Optional[int]:
    """The rank that a line says it comes from, else `default`."""
    own = _own_rank(line[:400])
    return default if own is None else own


def _own_rank(head: bytes) -> Optional[int]:
    found = _RANK.search(head)
    return None if found is None else int(next(group for group in found.groups() if group is not None))


def level_of(head: bytes) -> Optional[str]:
    """The level that stands in the first part of a line."""
    head = bare(head)
    found = _LEVEL.search(head[:160])
    if found is None:
        return "WARNING" if _WARNS.search(head) else None
    word = found.group(1)
    if word is not None:
        return {"WARN": "WARNING"}.get(word.decode(), word.decode())
    return _QUIET[found.group(2).decode()]


def time_of(head: bytes) -> Optional[float]:
    """Seconds of the first full time stamp in the line, taken as UTC."""
    found = _TIME.search(head)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 62):
        return None
    fraction = found.group(7)
    whole = calendar.timegm((year, month, day, hour, minute, second))
    return whole + (int(fraction) / 10 ** len(fraction) if fraction else 0.0)
