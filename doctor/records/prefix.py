"""What stands before a line's own words: which rank wrote it, and when."""

from __future__ import annotations

import re
import time
from functools import lru_cache
from typing import Optional

# Launchers and collectors mark each line with its rank: torchrun `[rank3]:` and `[default7]:`, Megatron `[Rank 18]`, pdsh
# `worker-1:`, srun -l `3: `, mpirun `[1,3]<stdout>:`; and `grep` with the file it found the line in, `worker_3.log-58-`.
_RANK = re.compile(
    r"""\s{0,8}(?:
      \[(?:rank|default|worker)[ _-]?(\d{1,6})\]
    | (?:rank|worker|node)[ _-]?(\d{1,6}):
    | (\d{1,5}):[ ](?=[^0-9]|\d{4}-\d\d-\d\d[ T])
    | \[\d{1,6},(\d{1,6})\]<std(?:out|err)>:
    | [^\s:]{0,200}?(?:rank|worker|train_parallel|device|npu|parallel)[ _-]?(\d{1,6})(?:[._/-][^\s:]{0,80}?)?(?:-\d+-|:\d+:|:)
    )""",
    re.VERBOSE | re.IGNORECASE,
)
_TIME = re.compile(r"(\d{4})[-/](\d\d)[-/](\d\d)[ T_-](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?")
#: how far into a line its time stamp is looked for, in characters
_TIME_WITHIN = 160

CharSpan = tuple[int, int]


def rank_span(line: str) -> Optional[CharSpan]:
    """Where a prefix of the line names a rank, or None."""
    found = _RANK.match(line)
    return found.span(found.lastindex or 0) if found else None


def time_span(line: str) -> Optional[CharSpan]:
    """Where the line's time stamp stands, or None."""
    found = _TIME.search(line, 0, _TIME_WITHIN)
    return found.span() if found else None


def seconds(stamp: str) -> Optional[float]:
    """A time stamp as seconds since the epoch, taken as this machine's local time; None when it is none."""
    found = _TIME.fullmatch(stamp)
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction = found.groups()
    start = minute_start(int(year), int(month), int(day), int(hour), int(minute))
    if start is None or int(second) > 60:
        return None
    return start + int(second) + (int(fraction) / 10 ** len(fraction) if fraction else 0.0)


@lru_cache(maxsize=256)
def minute_start(year: int, month: int, day: int, hour: int, minute: int) -> Optional[float]:
    """Seconds since the epoch at which a minute of local time begins; None when there is no such minute."""
    if not (1970 <= year <= 2100 and 1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60):
        return None
    try:
        return time.mktime((year, month, day, hour, minute, 0, 0, 0, -1))
    except (OverflowError, ValueError):
        return None
