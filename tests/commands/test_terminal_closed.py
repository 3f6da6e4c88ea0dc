"""The terminal goes away (a lost ssh connection, a closed window): watching ends cleanly, and `run` says its last word."""

from __future__ import annotations

import os
import pty
import select
import sys
import time
from pathlib import Path

import pytest

STEPS = """
import sys, time
for step in range(1, 2000):
    loss = "nan" if step > 30 else f"{6 - step / 20:.4f}"
    print(f"epoch: 1 step: {step}, loss is {loss}", flush=True)
    time.sleep(0 if step < 60 else 0.05)
"""


def on_a_terminal(words: list[str], until: bytes, env: dict[str, str]) -> int:
    """Starts the program on a terminal of its own, closes that when `until` was printed, and gives the exit code. It leads
    its session, as under `ssh -t` or in a container."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(env)
        os.execv(sys.executable, [sys.executable, "-m", "doctor", *words])
    seen = b""
    end = time.monotonic() + 60
    while until not in seen and time.monotonic() < end:
        if select.select([terminal], [], [], 0.5)[0]:
            seen += os.read(terminal, 1 << 16)
    assert until in seen
    os.close(terminal)
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    raise AssertionError("it went on without a terminal")


def test_run_takes_the_command_along_and_keeps_the_diagnosis(tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path), "NO_COLOR": "1", "TERM": "xterm"}
    words = ["run", "--lang", "en", "--", sys.executable, "-c", STEPS]
    code = on_a_terminal(words, b"step: 61,", env)
    assert code == 128 + 1
    kept = (tmp_path / "mindspore-doctor" / "run-diagnosis.txt").read_text()
    assert "RUN-NAN-001 The loss is nan from step 31 on" in kept


def test_events_of_a_run_are_kept_as_well(tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path), "NO_COLOR": "1", "TERM": "xterm"}
    words = ["run", "--format", "jsonl", "--", sys.executable, "-c", STEPS]
    assert on_a_terminal(words, b"step: 61,", env) == 128 + 1
    kept = (tmp_path / "mindspore-doctor" / "run-diagnosis.jsonl").read_text()
    assert kept.splitlines()[-1].startswith('{"event": "end", "verdict": "error"')


@pytest.mark.parametrize("form", [["--plain"], ["--format", "jsonl", "--metrics"], []])
def test_watch_ends_without_a_crash(form: list[str], tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("".join(f"epoch: 1 step: {i}, loss is {'nan' if i > 30 else 6 - i / 20}\n" for i in range(1, 61)))
    env = {"XDG_CACHE_HOME": str(tmp_path), "TERM": "xterm", "DOCTOR_DEBUG": "1"}
    with log.open("a"):  # someone still writes: this test
        until = b"RUN-NAN-001"
        code = on_a_terminal(["watch", "--lang", "en", *form, str(log)], until, env)
    assert code == 130
