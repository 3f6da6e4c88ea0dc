"""The trainer's process: started in a session of its own, so that signals reach it through us alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Optional

#: how long a child may take to end by itself before it is killed, in seconds
PATIENCE = 60.0


class Child:
    """``python -m doctor.trainer`` on one config and folder."""

    def __init__(self, config: str, folder: Path, resume: Optional[str], lang: str) -> None:
        command = [sys.executable, "-m", "doctor.trainer", config, "--output-dir", str(folder)]
        command += ["--parent", str(os.getpid())]
        if resume is not None:
            command += ["--resume", resume]
        # Its steps are read from its log; what it has to say itself (bad input) goes to our own stderr.
        self._process = subprocess.Popen(
            command,
            env={**os.environ, "DOCTOR_LANG": lang},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def code(self) -> int:
        """Exit code as a shell gives it: 128 + signal when it was killed."""
        code = self._process.wait()
        return code if code >= 0 else 128 - code

    def signal(self, number: int) -> None:
        if self.running:
            self._process.send_signal(number)

    def interrupt(self) -> None:
        """Ctrl-C: save, then end with 130. As SIGUSR2, because MindSpore turns SIGINT into SIGTERM while a graph runs."""
        self.signal(signal.SIGUSR2)

    def discard(self) -> None:
        """Ends it after the step in hand without saving; kills it when that takes too long."""
        self.signal(signal.SIGUSR1)
        end = time.monotonic() + PATIENCE
        while self.running and time.monotonic() < end:
            time.sleep(0.02)
        if self.running:
            self._process.kill()
        self._process.wait()
