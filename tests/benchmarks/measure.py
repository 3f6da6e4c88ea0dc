"""Runs a command as a whole process and reads what the operating system says it cost."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Optional


@dataclass(frozen=True)
class Cost:
    """CPU seconds (user + system), wall seconds and the largest resident size in MB of one process tree's root."""

    cpu: float
    wall: float
    rss_mb: float
    code: int


def once(command: Sequence[str], cwd: Optional[Path] = None) -> Cost:
    """One run with its output thrown away."""
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=cwd) as child:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    return Cost(
        cpu=usage.ru_utime + usage.ru_stime,
        wall=time.perf_counter() - start,
        rss_mb=usage.ru_maxrss / 1024,
        code=child.returncode,
    )


def alternating(commands: dict[str, Sequence[str]], runs: int = 7, cwd: Optional[Path] = None) -> dict[str, list[Cost]]:
    """Each command once uncounted, then all in turn: a slow moment of the machine hits every one alike."""
    for command in commands.values():
        once(command, cwd)
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for _ in range(runs):
        for name, command in commands.items():
            costs[name].append(once(command, cwd))
    return costs


def row(name: str, costs: Sequence[Cost], goal: str = "") -> str:
    """A line of the table: median, minimum and maximum of CPU seconds, median of the rest."""
    cpu = [cost.cpu for cost in costs]
    rss = statistics.median(cost.rss_mb for cost in costs)
    return (
        f"{name:<34} {statistics.median(cpu):7.3f} {min(cpu):7.3f} {max(cpu):7.3f}"
        f" {statistics.median(c.wall for c in costs):7.3f} {rss:7.1f}   {goal}"
    )


HEADER = f"{'command':<34} {'cpu s':>7} {'min':>7} {'max':>7} {'wall s':>7} {'MB':>7}   goal"


def doctor(*words: str) -> list[str]:
    """The doctor under the interpreter that runs the benchmark."""
    return [sys.executable, "-m", "doctor", *words]
