"""Performs trials in two processes, so that a self-test takes a minute and leaves a login node usable."""

from __future__ import annotations

import errno
import importlib
import multiprocessing
import os
import shutil
import signal
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from doctor.selftest.trial import Result, Room, Trial, anywhere

if TYPE_CHECKING:
    from doctor.match.finder import Finder
    from doctor.match.pack import Pack

#: processes, at most
PROCESSES = 2
#: parts that read logs
READERS = ("watch", "explain")
#: trials that a process is given at a time
CHUNK = 8
#: errors of a folder in which nothing (more) can be written
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM}
_ROOM: list[Room] = []


class NoRoom(Exception):
    """Nothing can be written into the temporary folder (any more): why."""


def shared_finder(pack: Pack) -> Finder:
    """A finder for all sessions of a process: what it learns about lines is learnt once."""
    from doctor.match.finder import make_finder
    from doctor.records.metrics import WORDS
    from doctor.session.lifecycle import with_marks

    finder = make_finder(with_marks(pack), words=WORDS)
    for _ in finder.find(b"\n" * 40_000):  # past the size at which it begins to remember
        pass
    return finder


def perform_all(trials: Sequence[Trial], room: Room, done: Callable[[int], None]) -> Iterator[Result]:
    """The results in the order of the trials; `done` is called with how many trials are over.

    Raises NoRoom, and what the interrupt raises; trials that have not begun are then dropped."""
    pool = _pool(room) if len(trials) > CHUNK else None
    if pool is None:
        _prepare(room, False)
        for number, trial in enumerate(trials, 1):
            yield from perform(trial)
            done(number)
        return
    try:
        for number, results in enumerate(pool.map(perform, trials, chunksize=CHUNK), 1):
            yield from results
            done(number)
    except BaseException:
        # Whoever gives up need not wait for the trainings in hand.
        for child in multiprocessing.active_children():
            child.kill()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _pool(room: Room) -> Optional[Any]:
    """None where there is one core, and where processes cannot be started or share nothing (no /dev/shm)."""
    from concurrent.futures import ProcessPoolExecutor

    from doctor.session.parallel import cores

    count = min(PROCESSES, cores())
    if count < 2:
        return None
    try:
        return ProcessPoolExecutor(count, initializer=_prepare, initargs=(room, True))
    except (OSError, ImportError):
        return None


def _prepare(room: Room, apart: bool) -> None:
    if apart:
        # Ctrl-C reaches all processes of the terminal: only the first one decides what becomes of it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
    _ROOM[:] = [room]


def perform(trial: Trial) -> list[Result]:
    """One trial in a folder of its own, which is removed. What raises is a crash of this trial alone."""
    room = _ROOM[0]
    module = importlib.import_module(f"doctor.selftest.{trial.part}")
    folder: Optional[Path] = None
    try:
        if trial.part != "explain":  # it reads from memory
            folder = Path(tempfile.mkdtemp(dir=room.folder))
        if room.finder is None and trial.part in READERS:
            _ROOM[0] = room = replace(room, finder=shared_finder(room.pack))
        found: list[Result] = module.perform(trial, replace(room, folder=folder or room.folder))
        return [anywhere(result, folder) for result in found] if folder is not None else found
    except ImportError:  # a package is missing: nothing of this part can be tried
        raise
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise NoRoom(error.strerror or str(error)) from None
        return [Result(trial, found=False, crash=_words(error))]
    except Exception as error:  # noqa: BLE001 - the boundary that keeps one trial's bug from the others
        return [Result(trial, found=False, crash=_words(error))]
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _words(error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
