"""What the ends of long logs say, at once: who opens a log of gigabytes wants to know how the run stands now.

The whole is read by another watch meanwhile; what that one finds takes the place of what is found here.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

from doctor.finding import Finding
from doctor.records.decode import SNIFF, sniff
from doctor.records.discover import logs_below

#: bytes in all from which the ends are read first; what they are read of, in all and of one log at least
WORTH, MOST, LEAST = 32 << 20, 256 << 10, 8 << 10
#: how far behind a place a line may end
LINE = 8 << 10


def ends_of(paths: Sequence[str]) -> Optional[dict[str, Any]]:
    """Places near the ends of the logs behind `paths`, as a state of `Follower`; None when they are soon read whole. Of
    more logs than `MOST` allows, the ends of those written last are read, and of the others what comes."""
    sizes: dict[Path, os.stat_result] = {}
    for log in logs_below([Path(path) for path in paths]):
        try:
            sizes[log.path] = os.stat(log.path)
        except OSError:
            continue
    if sum(status.st_size for status in sizes.values()) < WORTH:
        return None
    newest = sorted(sizes, key=lambda path: (-sizes[path].st_mtime, str(path)))[: MOST // LEAST]
    share = MOST // len(newest)
    rows = [_place(path, status, share if path in newest else 0) for path, status in sizes.items()]
    return {"version": 1, "files": [row for row in rows if row is not None]}


def size_of(paths: Iterable[Path]) -> int:
    """Bytes in all."""
    total = 0
    for path in paths:
        try:
            total += os.stat(path).st_size
        except OSError:
            continue
    return total


def without_lines(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Findings of a watch that began at such places: it knows offsets, and counts lines from where it began."""
    return tuple(
        finding.with_(evidence=tuple(replace(item, line=None, column=None) for item in finding.evidence))
        for finding in findings
    )


def _place(path: Path, status: os.stat_result, share: int) -> Optional[dict[str, Any]]:
    """Where the last `share` bytes begin, at the beginning of a line."""
    size = status.st_size
    try:
        with path.open("rb", buffering=0) as file:
            # offsets within compressed or transcoded logs are not those of the file
            begin = size if sniff(file.read(SNIFF)) is not None else max(0, size - share)
            if 0 < begin < size:
                file.seek(begin)
                begin += file.read(min(LINE, size - begin)).find(b"\n") + 1
            before = os.pread(file.fileno(), min(begin, 64), max(0, begin - 64))
    except OSError:
        return None
    return {
        "path": str(path),
        "device": status.st_dev,
        "inode": status.st_ino,
        "offset": begin,
        "line": 1,
        "before": base64.b64encode(before).decode("ascii"),
    }
