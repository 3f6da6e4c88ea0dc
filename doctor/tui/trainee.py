"""A training started from the screen: its process, held and let go on, and the last lines of what it writes. It lives in
a session of its own and writes to a file, so that it can outlive the screen."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from doctor.escape import decode, visible

if TYPE_CHECKING:
    import psutil

#: lines of output that are kept, and cells of each
LINES, WIDTH = 500, 400
#: the file in the run folder that the output goes to; its name is none of a log, or a watch would read it
SCREEN = "screen.txt"
#: bytes of it that are read at a time
BLOCK = 1 << 16
#: how psutil calls a process that runs no more
ENDED = ("zombie", "dead")


class Trainee:
    """`command` runs until it ends or is told to; in place of it `pid` may be that of a process which trains there
    already. Raises OSError when it cannot be started."""

    def __init__(self, command: tuple[str, ...], folder: Path, pid: Optional[int] = None) -> None:
        self.folder = folder
        self.lines: deque[str] = deque(maxlen=LINES)
        self.paused = False
        self._screen = folder / SCREEN
        self._started: Optional[subprocess.Popen[bytes]] = None
        self._process: Optional[psutil.Process] = None
        if pid is None:
            folder.mkdir(parents=True, exist_ok=True)
            with self._screen.open("ab") as out:
                self._read = out.tell()
                self._started = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
                )
            pid = self._started.pid
        else:
            # what it wrote last; one that was started elsewhere writes to its own terminal
            self._read = max(0, self._screen.stat().st_size - BLOCK // 4) if self._screen.exists() else 0
        self.pid = pid
        self._process = _process(pid)
        if self._started is None and self._process is not None:
            self.paused = _status(self._process) == "stopped"

    @property
    def running(self) -> bool:
        if self._started is not None:
            return self._started.poll() is None
        return self._process is not None and self._process.is_running() and _status(self._process) not in ENDED

    @property
    def code(self) -> Optional[int]:
        """None while it runs, and of a process that is not our child."""
        return self._started.poll() if self._started is not None else None

    def look(self) -> None:
        """Takes in what was written since the last look."""
        try:
            with self._screen.open("rb") as file:
                file.seek(self._read)
                block = file.read(BLOCK)
        except OSError:
            return
        whole = block.rfind(b"\n") + 1 or (len(block) if len(block) == BLOCK else 0)
        self._read += whole
        for raw in block[:whole].splitlines():
            self.lines.append(visible(decode(raw), WIDTH))

    def pause(self) -> None:
        """Stops all its processes where they are, the watching one first: it must not take the silence for a stall."""
        self._signal(signal.SIGSTOP, self._tree())
        self.paused = True

    def resume(self) -> None:
        self._signal(signal.SIGCONT, self._tree()[::-1])
        self.paused = False

    def stop(self) -> None:
        """As Ctrl-C does: the trainer saves a checkpoint and ends."""
        if self.paused:
            self.resume()
        if self.running:
            # one that was started elsewhere may share its group with what has nothing to do with it
            (os.killpg if self._started is not None else os.kill)(self.pid, signal.SIGINT)

    def wait(self) -> None:
        while self.running:
            time.sleep(0.1)

    def _tree(self) -> list[psutil.Process]:
        """The process and all below it, parents first."""
        import psutil

        if self._process is None:
            return []
        try:
            return [self._process, *self._process.children(recursive=True)]
        except psutil.Error:
            return []

    @staticmethod
    def _signal(number: int, processes: list[psutil.Process]) -> None:
        import psutil

        for process in processes:
            try:
                process.send_signal(number)
            except psutil.Error:  # it has just ended
                continue


def _process(pid: int) -> Optional[psutil.Process]:
    import psutil

    try:
        return psutil.Process(pid)
    except psutil.Error:  # it has just ended
        return None


def _status(process: psutil.Process) -> str:
    import psutil

    try:
        return str(process.status())
    except psutil.Error:
        return "dead"
