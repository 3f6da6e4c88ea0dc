"""The doctor in a real terminal: tmux is sent keys, and its pane is read."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.heavy, pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")]

CONFIG = Path(__file__).parents[1] / "benchmarks" / "llama2_7b.yaml"
DOCTOR = f"{shlex.quote(sys.executable)} -m doctor"


class Terminal:
    """A tmux server of its own with one pane that runs a plain shell in `folder`."""

    def __init__(self, folder: Path, columns: int = 80, lines: int = 24, **environ: str) -> None:
        self.socket = str(folder / "tmux.sock")
        self.folder = folder
        env = {
            k: v for k, v in os.environ.items() if k not in ("TMUX", "NO_COLOR", "LC_ALL", "LC_CTYPE", "DOCTOR_LANG")
        }
        env.update({"LANG": "en_US.UTF-8", "XDG_CACHE_HOME": str(folder / "cache"), **environ})
        self.env = env
        self._run("-f", "/dev/null", "-u", "new-session", "-d", "-x", str(columns), "-y", str(lines), "sh")
        self.start("PS1='rea''dy$ '; clear")
        self.until("ready$")

    def _run(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", self.socket, *words],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
            env=self.env,
            cwd=self.folder,
        )
        return done.stdout

    def start(self, command: str) -> None:
        self.text(command)
        self.keys("Enter")

    def keys(self, *names: str) -> None:
        self._run("send-keys", *names)

    def text(self, words: str) -> None:
        self._run("send-keys", "-l", words)

    @property
    def pane(self) -> str:
        return self._run("capture-pane", "-p")

    @property
    def alternate(self) -> bool:
        return self._run("display-message", "-p", "#{alternate_on}").strip() == "1"

    def until(self, words: str, seconds: float = 40) -> str:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pane = self.pane
            if words in pane:
                return pane
            time.sleep(0.1)
        raise AssertionError(f"{words!r} did not come:\n{self.pane}")

    def close(self) -> None:
        self._run("kill-server")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(tmp_path)
    yield made
    made.close()


def test_check_and_fix_with_consent_then_quit(terminal: Terminal, tmp_path: Path) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(CONFIG.read_text().replace("num_heads: 32", "num_heads: 30"))
    terminal.start(DOCTOR)
    terminal.until("This machine")
    terminal.keys("c", "/")
    time.sleep(0.5)
    terminal.text("run.yaml")
    terminal.keys("Enter")
    pane = terminal.until("CFG-MOD-001")
    assert all(len(line) <= 80 for line in pane.splitlines())
    terminal.keys("Enter")
    pane = terminal.until(">114")  # the line of the file is marked
    assert "num_heads: 30" in pane
    terminal.keys("Escape")
    time.sleep(0.5)
    terminal.keys("f")
    terminal.until("Apply these edits?")
    assert "num_heads: 30" in config.read_text()
    terminal.keys("y")
    deadline = time.monotonic() + 30
    while "num_heads: 30" in config.read_text() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert "num_heads: 30" not in config.read_text()
    assert "num_layers: 32" in config.read_text(), "nothing else has changed"
    terminal.keys("q")
    terminal.until("ready$")
    assert not terminal.alternate, "the screen of before is back"


def test_a_growing_log_is_watched_until_its_loss_is_not_finite(terminal: Terminal, tmp_path: Path) -> None:
    log = tmp_path / "worker_0.log"
    log.write_text("epoch: 1 step: 1, loss is 5.1\n")
    terminal.start(f"{DOCTOR} watch worker_0.log")
    terminal.until("step 1")
    with log.open("a") as out:
        for step, loss in enumerate(("5.0", "4.9", "4.8", "4.7"), 2):
            out.write(f"epoch: 1 step: {step}, loss is {loss}\n")
            out.flush()
            terminal.until(f"step {step}")
        assert "RUN-NAN-001" not in terminal.pane
        for step in (6, 7, 8):
            out.write(f"epoch: 1 step: {step}, loss is nan\n")
            out.flush()
    terminal.until("RUN-NAN-001")
    terminal.keys("v")
    assert "step: 6" in next(line for line in terminal.until(">6").splitlines() if ">6" in line)
    terminal.keys("Escape")
    time.sleep(0.5)
    terminal.keys("l")
    terminal.until("[监控]")
    log.unlink()
    terminal.keys("q")
    terminal.until("ready$")
    assert not terminal.alternate


def test_a_terminal_of_the_c_locale_is_sent_no_box_characters(tmp_path: Path) -> None:
    log = tmp_path / "worker_0.log"
    log.write_text("".join(f"epoch: 1 step: {n}, loss is {5 / n}\n" for n in range(1, 40)))
    terminal = Terminal(tmp_path, LC_ALL="C", TERM="xterm")
    try:
        terminal.start(f"{DOCTOR} watch --lang en worker_0.log")
        pane = terminal.until("step 39")
        terminal.until("*")
        assert terminal.pane.replace("中文", "").isascii(), pane
        terminal.keys("q")
        terminal.until("ready$")
    finally:
        terminal.close()


def test_a_tiny_terminal_says_so(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, 20, 5)
    try:
        terminal.start(DOCTOR)
        terminal.until("terminal is too")
        terminal.keys("q")
        terminal.until("ready$")
    finally:
        terminal.close()
