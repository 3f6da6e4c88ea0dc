"""An orderly end: signals are noted and heeded between steps."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Optional

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
        self._noted = 0

    @property
    def noted(self) -> int:
        """The number of the signal that came, or 0."""
        if not self._noted and self.parent is not None and os.getppid() != self.parent:
            self._noted = signal.SIGTERM
        return self._noted

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
