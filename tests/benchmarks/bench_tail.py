"""How soon a long log is judged on screen: `python -m tests.benchmarks.bench_tail [GIGABYTES]` (default 10).

Writes a log of that size whose loss is not a number in its last lines, opens it with `doctor watch` in a terminal of 120x36
and prints, in seconds of the clock and of a processor, when something was painted and when that finding was on the
screen; then the most memory within the next seconds, while the whole is read.   goal 0.6 s, 120 MB
"""

from __future__ import annotations

import fcntl
import math
import os
import pty
import random
import select
import signal
import struct
import sys
import tempfile
import termios
import time
from pathlib import Path

import psutil

#: seconds that memory is looked at after the finding was seen
AFTER = 20.0
WANTED = b"RUN-NAN-001"


def write(path: Path, size: int) -> None:
    """A healthy run of `size` bytes (the same part again and again, its steps counted on), and a broken end."""
    dice = random.Random(5)
    step = done = 0
    with path.open("wb") as out:
        while done < size:
            rows = []
            for _ in range(100_000):
                step += 1
                loss = 2.2 + 2 * math.exp(-step / 90_000) + dice.gauss(0, 0.03)
                rows.append(_line(step, f"{loss:.3f}", dice))
            block = "".join(rows).encode()
            done += out.write(block)
        out.write("".join(_line(step + n, "nan", dice) for n in range(1, 31)).encode())


def _line(step: int, loss: str, dice: random.Random) -> str:
    return (
        f"2026-05-04 {step // 1800 % 24:02d}:{step // 30 % 60:02d}:{step * 2 % 60:02d},123 - mindformers[mindformers/core/callback/"
        f"callback.py:553] - INFO - {{ Epoch:[  1/  1], step:[{step:>9}/900000000], loss: {loss}, per_step_time: "
        f"{2000 + dice.randrange(40)}ms, lr: 3.0000e-04, overflow cond: False, loss_scale: 1.0, global_norm: 0.7, "
        f"train_throughput_per_npu: {151 + dice.random():.3f}T\n"
    )


def watch(path: Path) -> None:
    began = time.monotonic()
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", LANG="en_US.UTF-8")
        os.execv(sys.executable, [sys.executable, "-m", "doctor", "watch", str(path)])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 36, 120, 0, 0))
    process = psutil.Process(pid)
    seen, most, end = b"", 0, began + 120
    painted = found = ""
    while time.monotonic() < end:
        if select.select([terminal], [], [], 0.02)[0]:
            seen = (seen + os.read(terminal, 1 << 16))[-(1 << 19) :]
        used = f"{time.monotonic() - began:.2f} s ({sum(process.cpu_times()[:2]):.2f} CPU s)"
        most = max(most, process.memory_info().rss)
        painted = painted or (used if len(seen) > 1000 else "")
        if not found and WANTED in seen:
            found, end = used, time.monotonic() + AFTER
    print(f"painted after {painted}, judged after {found or 'never'}, at most {most / 2**20:.0f} MB")
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(terminal)


def main() -> None:
    size = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "worker_0.log"
        write(path, int(size * 2**30))
        for _ in range(3):
            watch(path)


if __name__ == "__main__":
    main()
