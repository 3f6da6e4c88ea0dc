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
            self._say(
                Text(
                    f"--notify: {MOST} commands still run; {finding.rule} was not told",
                    f"--notify：仍有 {MOST} 个命令在运行，未通知 {finding.rule}",
                )
            )
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
            why = error.strerror or error
            self._say(Text(f"--notify: {self.words[0]}: {why}", f"--notify：{self.words[0]}：{why}"))
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
                self._end(process)
        self._running.clear()

    def _reap(self) -> None:
        now = time.monotonic()
        still = []
        for process, until in self._running:
            if process.poll() is not None:
                continue
            if now >= until:
                self._end(process)
                continue
            still.append((process, until))
        self._running = still

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()
        self._say(
            Text(
                f"--notify: the command took longer than {TIMEOUT:.0f} s and was ended",
                f"--notify：命令运行超过 {TIMEOUT:.0f} 秒，已终止",
            )
        )

    def _say(self, text: Text) -> None:
        sys.stderr.write(Text("doctor: ", "doctor：").pick(self.lang) + visible(text.pick(self.lang)) + "\n")


def _has_fileno() -> bool:
    try:
        sys.stderr.fileno()
    except (OSError, ValueError, AttributeError):
        return False
    return True
