"""Runs commands side by side, each with a time-out, all under one deadline: argument lists, never a shell.

One thread, one selector. A command that prints without end is read to `OUTPUT_LIMIT` and then stopped; one
that hangs is killed with everything it started; one that even a kill does not reach (a process stuck
in the driver) is left behind rather than waited for.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from doctor.checks.environment.sources.machine import Machine, text_of

#: An eight-card table is 6 KB; ten times the longest session file is plenty.
OUTPUT_LIMIT = 256 * 1024


@dataclass(frozen=True)
class Command:
    """What to run and how long it may take, in seconds."""

    argv: tuple[str, ...]
    timeout: float = 2.0


@dataclass(frozen=True)
class Output:
    """What came of a command. `state` is ok (exit code 0), failed, timeout, flood (endless output) or missing."""

    state: str
    text: str = ""
    errors: str = ""
    exit_code: Optional[int] = None
    message: Optional[str] = None


def which(machine: Machine, name: str, extra: Sequence[str] = ()) -> Optional[str]:
    """The first executable regular file of that name on PATH, then in the `extra` folders.

    An entry that is not absolute is passed over: what stands in the working folder is not run."""
    for folder in [*machine.environ.get("PATH", "").split(":"), *extra]:
        if not folder.startswith("/"):
            continue
        path = machine.real(folder.rstrip("/") + "/" + name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


@dataclass
class _Running:
    process: subprocess.Popen[bytes]
    deadline: float
    pieces: dict[str, list[bytes]]
    size: int = 0
    open_pipes: int = 2
    verdict: Optional[str] = None


def run_all(
    commands: Mapping[str, Command], environ: Mapping[str, str], budget: float = 12.0, plain: bool = True
) -> dict[str, Output]:
    """Runs every command at once and returns their outputs under the same keys; never raises, never
    takes much longer than `budget` seconds. `plain` asks tools for untranslated output."""
    start = time.monotonic()
    results: dict[str, Output] = {}
    running: dict[str, _Running] = {}
    selector = selectors.DefaultSelector()
    child_environ = {**environ, "LC_ALL": "C", "LANG": "C"} if plain else dict(environ)
    for key, command in commands.items():
        try:
            process = subprocess.Popen(
                list(command.argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=child_environ,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            results[key] = Output("missing", message=str(error))
            continue
        one = _Running(process, start + min(command.timeout, budget), {"out": [], "err": []})
        running[key] = one
        for name, pipe in (("out", process.stdout), ("err", process.stderr)):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_READ, (key, name))
    try:
        _read_until_done(selector, running)
    finally:
        for key, one in running.items():
            results[key] = _finish(one)
        selector.close()
    return {key: results[key] for key in commands}


def _read_until_done(selector: selectors.BaseSelector, running: dict[str, _Running]) -> None:
    while any(one.open_pipes and one.verdict is None for one in running.values()):
        now = time.monotonic()
        waits = []
        for one in running.values():
            if one.verdict is None and one.open_pipes:
                if now >= one.deadline:
                    one.verdict = "timeout"
                    _kill(one.process)
                else:
                    waits.append(one.deadline - now)
        if not waits:
            return
        events = selector.select(min(0.25, *waits))
        for ready, _ in events:
            key, name = ready.data
            _read(selector, ready.fileobj, running[key], name)
        if not events:
            # A command that has ended but left a child holding its pipes says nothing more.
            for one in running.values():
                if one.verdict is None and one.open_pipes and one.process.poll() is not None:
                    one.open_pipes = 0


def _read(selector: selectors.BaseSelector, pipe: Any, one: _Running, name: str) -> None:
    try:
        piece = os.read(pipe.fileno(), 65536)
    except BlockingIOError:
        return
    except OSError:
        piece = b""
    if not piece:
        selector.unregister(pipe)
        one.open_pipes -= 1
        return
    if one.size < OUTPUT_LIMIT:
        one.pieces[name].append(piece[: OUTPUT_LIMIT - one.size])
    one.size += len(piece)
    if one.size > 64 * OUTPUT_LIMIT and one.verdict is None:
        one.verdict = "flood"
        _kill(one.process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()


def _finish(one: _Running) -> Output:
    process = one.process
    try:
        # A command may close its pipes and go on: it gets what is left of its time, as one that prints does.
        left = 0.5 if one.verdict else max(0.05, one.deadline - time.monotonic())
        code: Optional[int] = process.wait(left)
    except subprocess.TimeoutExpired:
        _kill(process)
        one.verdict = one.verdict or "timeout"
        try:
            code = process.wait(0.5)
        except subprocess.TimeoutExpired:
            code = process.returncode = -int(signal.SIGKILL)  # stuck in the kernel: not ours to wait for
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    state = one.verdict or ("ok" if code == 0 else "failed")
    return Output(state, text_of(b"".join(one.pieces["out"])), text_of(b"".join(one.pieces["err"])), code)
