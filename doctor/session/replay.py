"""Goes on with a watch that was stopped: what had been read is read again, in silence, so that detectors know the run.

The state of a watch holds places in files and nothing else, so that a state file can neither grow with the run nor be
of another version than the detectors. Of very long logs only the last part is read again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

from doctor.errors import UsageError
from doctor.records.cutter import Cutter
from doctor.records.discover import discover
from doctor.records.followed import SavedPlace
from doctor.session.diagnosis import DiagnosisSession

#: bytes of one log that are read again at most, and at a time
MOST, BLOCK = 64 << 20, 1 << 20


def replay(session: DiagnosisSession, state: Mapping[str, Any], paths: Sequence[str], most: int = MOST) -> int:
    """Feeds the session what `state` (of `Follower.state`) says was read; its events were told then and are dropped. Gives
    the number of bytes. A log that was replaced meanwhile is left out: its successor will be read from its beginning."""
    ranks = _ranks(paths)
    told, session.on_metric = session.on_metric, None
    done = 0
    try:
        for row in state.get("files", ()):
            place = SavedPlace.of(row) if isinstance(row, dict) else None
            if place is not None:
                done += _again(session, Path(str(row.get("path"))), place, ranks, most)
    finally:
        session.on_metric = told
    return done


def _ranks(paths: Sequence[str]) -> dict[str, Optional[int]]:
    try:
        return {str(log.path): log.rank for log in discover(paths)}
    except UsageError:  # nothing there yet
        return {}


def _again(
    session: DiagnosisSession, path: Path, place: SavedPlace, ranks: Mapping[str, Optional[int]], most: int
) -> int:
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if (status.st_dev, status.st_ino) != place.identity or status.st_size < place.offset:
                return 0
            begin = max(0, place.offset - most)
            line = 1
            if begin:
                file.seek(begin)
                begin += len(file.readline())
                line = place.line - _lines(file, place.offset - begin)
            file.seek(begin)
            cutter = Cutter(str(path), ranks.get(str(path)), begin, line)
            left = place.offset - begin
            while left > 0:
                block = file.read(min(BLOCK, left))
                if not block:
                    break
                left -= len(block)
                for chunk in cutter.feed(block):
                    session.feed(chunk)
            return place.offset - begin
    except OSError:
        return 0


def _lines(file: Any, count: int) -> int:
    """Line ends in the next `count` bytes."""
    found = 0
    while count > 0:
        block = file.read(min(BLOCK, count))
        if not block:
            break
        count -= len(block)
        found += block.count(b"\n")
    return found
