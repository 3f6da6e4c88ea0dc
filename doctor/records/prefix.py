"""What stands before a line's own words: which rank wrote it, and when."""

from __future__ import annotations

import re
import time
from functools import lru_cache
from typing import Optional

# Launchers and collectors mark each line with its rank: torchrun `[rank3]:` and `[default7]:`, pdsh `worker-1:`,
# srun -l `3: `, Megatron `[Rank 18]`, and `grep` the file it found the line in.
_RANK = re.compile(
    r"""\s{0,8}(?:
      \[(?:rank|default|worker)[ _-]?(\d{1,6})\]
    | (?:rank|worker|node)[ _-]?(\d{1,6}):
    | (\d{1,5}):[ ](?![0-9])
    | [^\s:]{0,200}?(?:rank|worker|train_parallel|device|npu|parallel)[ _-]?(\d{1,6})(?:[._/-][^\s:]{0,80}?)?(?:-\d+-|:\d+:|:)
    )""",
    re.VERBOSE | re.IGNORECASE,
)
_TIME = re.compile(r"(\d{4})[-/](\d\d)[-/](\d\d)[ T_-](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?")


def rank_of_line(line: str) -> Optional[int]:
    """The rank that a prefix of the line names, or None."""
    found = _RANK.match(line)
    return int(next(group for group in found.groups() if group)) if found else None


def time_of_line(line: str) -> Optional[float]:
    """The line's time stamp as seconds since the epoch, read in this machine's time zone; None without one."""
    found = _TIME.search(line, 0, 160)
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction = found.groups()
    start = _minute(int(year), int(month), int(day), int(hour), int(minute))
    if start is None or int(second) > 60:
        return None
    return start + int(second) + (float(f"0.{fraction}") if fraction else 0.0)


@lru_cache(maxsize=256)
def _minute(year: int, month: int, day: int, hour: int, minute: int) -> Optional[float]:
    if not (1970 <= year <= 2100 and 1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60):
        return None
    try:
        return time.mktime((year, month, day, hour, minute, 0, 0, 0, -1))
    except (OverflowError, ValueError):
        return None
