"""The trainer's process, or msrun with several: started in a session of its own, so that signals reach it through us alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Optional

import psutil

from doctor.trainer.cluster import command, free_port
from doctor.trainer.runfolder import RunFolder

#: how long a child may take to end by itself before it is killed, in seconds
PATIENCE = 60.0


#: seconds between two looks at whether the workers of msrun are still there
_LOOK = 1.0


class Child:
    """``python -m doctor.trainer`` on one config and folder."""

    def __init__(self, config: str, folder: Path, resume: Optional[str], lang: str) -> None:
        # Its steps are read from its log; what it has to say itself (bad input) goes to our own stderr.
        self._process = subprocess.Popen(
            self._command(_words(config, folder, resume)),
            env={**os.environ, "DOCTOR_LANG": lang, **self._environment()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._stderr(),
            start_new_session=True,
        )

    def _command(self, words: list[str]) -> list[str]:
        return [sys.executable, "-m", "doctor.trainer", *words]

    def _environment(self) -> dict[str, str]:
        return {}

    def _stderr(self) -> Optional[int]:
        return None

    @property
    def last_words(self) -> str:
        """What it said to a person and could not say on our stderr."""
        return ""

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


class Workers(Child):
    """msrun with several workers. Signals are for rank 0, which stops the others with it; what they say to a person
    msrun keeps in files, and their exit codes it keeps to itself."""

    def __init__(self, config: str, folder: Path, resume: Optional[str], lang: str, workers: int) -> None:
        self._folder, self._workers = RunFolder(folder), workers
        self._looked, self._met = time.monotonic(), False
        super().__init__(config, folder, resume, lang)

    def _command(self, words: list[str]) -> list[str]:
        self._folder.launcher.mkdir(exist_ok=True)
        return command(self._workers, free_port(), str(self._folder.launcher), words)

    def _environment(self) -> dict[str, str]:
        # msrun starts `python`, whichever stands first on PATH.
        return {"PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))}

    def _stderr(self) -> Optional[int]:
        return subprocess.DEVNULL

    @property
    def running(self) -> bool:
        """False too when the workers have ended and msrun waits for its scheduler, which takes half a minute to miss them."""
        if self._process.poll() is not None:
            return False
        now = time.monotonic()
        if now - self._looked >= _LOOK:
            self._looked = now
            there = [role for role, _, _ in self._parts() if role == "MS_WORKER"]
            self._met = self._met or bool(there)
            if self._met and not there:
                self._end()
                return False
        return True

    @property
    def code(self) -> int:
        """That of rank 0, as it wrote it; that of msrun where it could not write."""
        code = super().code
        try:
            return int(json.loads(self._folder.end.read_text(encoding="utf-8"))["exit_code"])
        except (OSError, ValueError, KeyError, TypeError):
            return code

    @property
    def last_words(self) -> str:
        try:
            said = (self._folder.launcher / "worker_0.log").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        return next((line for line in reversed(said.splitlines()) if line.startswith("doctor: ")), "")

    def signal(self, number: int) -> None:
        if not self.running:
            return
        first = next((process for role, rank, process in self._parts() if (role, rank) == ("MS_WORKER", "0")), None)
        try:
            if first is not None:
                first.send_signal(number)
            else:
                self._end()
        except psutil.NoSuchProcess:
            pass  # it has just ended by itself

    def discard(self) -> None:
        super().discard()
        self._end()

    def _end(self) -> None:
        """Ends what is left of msrun and all it has started."""
        for _, _, process in self._parts():
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self._process.kill()
        self._process.wait()

    def _parts(self) -> list[tuple[str, str, psutil.Process]]:
        """Role, rank and process of what msrun has started."""
        found = []
        try:
            for process in psutil.Process(self._process.pid).children(recursive=True):
                try:
                    if process.status() != psutil.STATUS_ZOMBIE:
                        said = process.environ()
                        found.append((said.get("MS_ROLE", ""), said.get("RANK_ID", ""), process))
                except psutil.Error:
                    continue  # it has just ended
        except psutil.NoSuchProcess:
            pass
        return found


def _words(config: str, folder: Path, resume: Optional[str]) -> list[str]:
    words = [config, "--output-dir", str(folder), "--parent", str(os.getpid())]
    return words if resume is None else [*words, "--resume", resume]
