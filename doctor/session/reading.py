"""A run that is read to the end of its logs, once."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Optional

from doctor.errors import UsageError
from doctor.records.discover import LogFile, Refused, discover
from doctor.records.reader import STDIN, STDIN_SOURCE, read
from doctor.records.record import Notice
from doctor.session.diagnosis import DiagnosisSession
from doctor.session.incidents import Event
from doctor.session.parallel import read_parts, worth_it
from doctor.session.writers import written_now

#: a configuration larger than this is none
_LARGEST_CONFIG = 1 << 20


def read_run(
    session: DiagnosisSession, paths: Sequence[str], tell: Callable[[Event], None], parallel: bool = False
) -> list[LogFile]:
    """Feeds all logs behind `paths` to the session, in the order of ranks, and ends it. Gives the logs. With `parallel`
    several processes share large runs; step records are then not told one by one.

    Raises UsageError when a path is not there, or when none of the logs can be read.
    """
    closed: Refused = []
    logs = [log for log in discover(paths, closed) if not is_own_output(log.path)]
    note_refused(session, closed)
    for path in paths:
        settle(session, Path(path))
        if end_record(Path(path)) is not None:
            session.traces.all_finished = True
    if parallel and worth_it(logs):
        refused, done = None, 0
        for part in read_parts(session.pack, session.facts, logs):
            for event in session.absorb(part):
                tell(event)
            refused, done = refused or part.refused, done + part.read
    else:
        refused, done = read_logs(session, logs, tell)
    if refused is not None and not done:
        raise refused
    over = not written_now(log.path for log in logs)
    for event in session.end(over=over):
        tell(event)
    return logs


def note_refused(session: DiagnosisSession, closed: Refused) -> None:
    """Folders that could not be listed: whatever logs are in them were not read."""
    for folder, error in closed:
        session.feed(Notice("unreadable", f"{folder}/", detail=error.strerror or str(error)))


def read_logs(
    session: DiagnosisSession, logs: Sequence[LogFile], tell: Callable[[Event], None]
) -> tuple[Optional[UsageError], int]:
    """Feeds logs one after the other; what could not be read becomes a notice. Gives the first refusal and how many were read."""
    refused: Optional[UsageError] = None
    done = 0
    for log in logs:
        try:
            read_log(session, log, tell)
            done += 1
        except UsageError as error:
            refused = refused or error
            session.feed(Notice("unreadable", str(log.path), log.rank, detail=error.what.en))
    return refused, done


def read_log(session: DiagnosisSession, log: LogFile, tell: Callable[[Event], None]) -> None:
    """One log with its older parts. Raises UsageError when it cannot be opened."""

    def note(notice: Notice) -> None:
        session.feed(notice)

    for part in log.parts or (log.path,):
        for chunk in read(part, log.rank, on_notice=note):
            for event in session.feed(chunk):
                tell(event)
    for event in session.finish(STDIN_SOURCE if str(log.path) == STDIN else str(log.path)):
        tell(event)


def settle(session: DiagnosisSession, path: Path) -> None:
    """Takes the settings from the config.yaml of a run folder, when there is one."""
    if path.is_dir():
        configured(session, path / "config.yaml")


def configured(session: DiagnosisSession, config: Path) -> None:
    """Takes the settings of the run from its configuration, and links what is found with what the checks say of it."""
    try:
        if config.is_file() and config.stat().st_size <= _LARGEST_CONFIG:
            session.given(str(config), config.read_bytes())
            session.config = session.config or config
    except OSError:
        return


def end_record(path: Path) -> Optional[str]:
    """How a run folder says that its run ended: ended, failed or interrupted."""
    state = end_row(path).get("state")
    return state if isinstance(state, str) else None


def end_row(path: Path) -> dict[str, Any]:
    """What end.json of ``doctor train`` says in a run folder; nothing when there is none."""
    try:
        row = json.loads((path / "end.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return row if isinstance(row, dict) else {}


def is_own_output(path: Path) -> bool:
    """Whether we write to that file ourselves: reading it would never end."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    for stream in (sys.stdout, sys.stderr):
        try:
            own = os.fstat(stream.fileno())
        except (OSError, ValueError, AttributeError):
            continue
        if (own.st_dev, own.st_ino) == (status.st_dev, status.st_ino):
            return True
    return False
