"""An orderly end: signals are noted and heeded between steps."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Optional

import psutil

#: a supervisor's "stop now, save nothing": what would be saved is what it wants to get rid of
DISCARD = signal.SIGUSR1
#: a supervisor's Ctrl-C. While a graph runs MindSpore takes SIGINT for itself and makes SIGTERM of it, so that a run
#: without a supervisor that is interrupted just then ends with 143; it saves all the same.
INTERRUPT = signal.SIGUSR2
_SIGNALS = (signal.SIGTERM, signal.SIGINT, DISCARD, INTERRUPT)


class Stopped(Exception):
    """A signal asked the run to end; the state is saved, except for `DISCARD`. `code` is 128 + its number."""

    def __init__(self, number: int) -> None:
        number = signal.SIGINT if number == INTERRUPT else number
        super().__init__(signal.Signals(number).name)
        self.code = 128 + number


class StopSignals:
    """Notes SIGTERM, SIGINT and `DISCARD`; a second signal ends the process at once. A run whose supervisor, the process
    `parent`, is gone is told to stop too: nobody watches it any more, and it may be resumed elsewhere."""

    def __init__(self, parent: Optional[int] = None) -> None:
        self.parent = parent
        #: a launcher stands between the supervisor and this process
        self.launched = False
        self._noted = 0

    @property
    def noted(self) -> int:
        """The number of the signal that came, or 0."""
        if not self._noted and self.parent is not None and self._orphaned(self.parent):
            self._noted = signal.SIGTERM
        return self._noted

    def _orphaned(self, parent: int) -> bool:
        return not psutil.pid_exists(parent) if self.launched else os.getppid() != parent

    def _note(self, number: int, _frame: Any) -> None:
        if self._noted:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self._noted = number

    @contextmanager
    def heard(self) -> Iterator[None]:
        try:
            before = {number: signal.signal(number, self._note) for number in _SIGNALS}
        except ValueError:
            # Not the main thread (a notebook's worker): signals stay the caller's.
            yield
            return
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class Follow(StopSignals):
    """Of a worker that is not the first of its cluster: it ends after the step that rank 0 has written into `path`, so that all
    end after the same. Signals of its own it leaves to rank 0."""

    def __init__(self, path: Path, step: Callable[[], int]) -> None:
        super().__init__()
        self.path, self.step = path, step

    @property
    def noted(self) -> int:
        try:
            last, number = self.path.read_text(encoding="ascii").split()
        except (OSError, ValueError):
            return 0
        return int(number) if self.step() >= int(last) else 0

    def _note(self, number: int, _frame: Any) -> None:
        pass


def announce(path: Path, last: int, number: int) -> None:
    """Tells the other workers which step is the last, and by which signal. Rank 0 does so before it makes that step, which
    the others cannot end without it: none can have gone further."""
    beside = path.with_name(f"{path.name}.tmp")
    beside.write_text(f"{last} {int(number)}", encoding="ascii")
    beside.replace(path)
