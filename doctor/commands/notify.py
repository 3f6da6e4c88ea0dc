"""``--notify CMD``: a command of the user's is run for each finding that is an error, never through a shell."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from typing import Any

from doctor.errors import UsageError
from doctor.escape import visible
from doctor.finding import Severity, Text
from doctor.session import Event

#: seconds that the command may take
TIMEOUT = 30.0
#: commands that run at the same time; what comes on top is dropped with a word
MOST = 4


class Notifier:
    """Runs the words of `command` with rule and title added, the finding as JSON on its standard input.

    Raises UsageError when the command is empty or its quotes do not match.
    """

    def __init__(self, command: str, lang: str) -> None:
        try:
            self.words = shlex.split(command)
        except ValueError as error:
            raise UsageError(Text(f"--notify: {error}.", f"--notify：{error}。")) from error
        if not self.words:
            raise UsageError(Text("--notify: the command is empty.", "--notify：命令为空。"))
        self.lang = lang
        self._running: list[tuple[subprocess.Popen[bytes], float]] = []
        self._told: set[str] = set()

    def event(self, event: Event) -> None:
        finding = event.finding
        if event.kind == "resolved" or not finding.severity.at_least(Severity.ERROR) or finding.rule in self._told:
            return
        self._told.add(finding.rule)
        self._reap()
        if len(self._running) >= MOST:
            _say(f"--notify: {MOST} commands still run; {finding.rule} was not told")
            return
        row = json.dumps(finding.to_dict(self.lang), ensure_ascii=False).encode()
        try:
            process = subprocess.Popen(
                [*self.words, finding.rule, finding.title.pick(self.lang)],
                stdin=subprocess.PIPE,
                stdout=sys.stderr.fileno() if _has_fileno() else subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            _say(f"--notify: {self.words[0]}: {error.strerror or error}")
            return
        try:
            assert process.stdin is not None
            process.stdin.write(row + b"\n")
            process.stdin.close()
        except OSError:
            pass  # a command need not read its input
        self._running.append((process, time.monotonic() + TIMEOUT))

    def look(self, session: Any) -> None:
        if self._running:
            self._reap()

    def close(self) -> None:
        """Waits for what still runs, each to its time-out."""
        for process, until in self._running:
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                _end(process)
        self._running.clear()

    def _reap(self) -> None:
        now = time.monotonic()
        still = []
        for process, until in self._running:
            if process.poll() is not None:
                continue
            if now >= until:
                _end(process)
                continue
            still.append((process, until))
        self._running = still


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    _say(f"--notify: the command took longer than {TIMEOUT:.0f} s and was ended")


def _has_fileno() -> bool:
    try:
        sys.stderr.fileno()
    except (OSError, ValueError, AttributeError):
        return False
    return True


def _say(line: str) -> None:
    sys.stderr.write(f"doctor: {visible(line)}\n")
