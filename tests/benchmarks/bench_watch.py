"""``python -m tests.benchmarks.bench_watch``: from a line written to the alert, 64 ranks live; memory over long logs.

One process writes the logs of all ranks, each line flushed at once; now and then a rank prints a loss that is not a
number. ``doctor watch --format jsonl`` follows the folder, and the time between the write and its event is taken.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import BinaryIO

import psutil

from tests.benchmarks.measure import doctor

_LINE = (
    "2026-03-01 10:00:00,000 - mindformers/log[mindformers/core/callback/callback.py:523] - INFO - {{ Epoch:[  1/  1], "
    "step:[{step:5d}/900000], loss: {loss}, per_step_time: {ms}ms, lr: 1.000000e-04, overflow cond: False, "
    "loss_scale: 65536.0, global_norm: [{norm:.4f}], train_throughput_per_npu: 155.000T\n"
)
#: losses that are not numbers in a row, and numbers until the next rank's turn
BAD, GOOD = 2, 4


class Writers:
    """The logs of many ranks, written line by line at a steady rate."""

    def __init__(self, folder: Path, ranks: int, rate: float) -> None:
        self.files: list[BinaryIO] = []
        for rank in range(ranks):
            place = folder / f"rank_{rank}"
            place.mkdir(parents=True)
            self.files.append((place / "info.log").open("ab", buffering=0))
        self.rate = rate
        self.steps = [0] * ranks
        self.rng = random.Random(3)
        #: (rank, step) -> when the first bad loss was written
        self.bad: dict[tuple[int, int], float] = {}
        self.left = [0] * ranks

    def run(self, seconds: float, warm: float) -> int:
        """Writes for so long and gives the number of lines; faults begin after `warm` seconds."""
        ranks = len(self.files)
        start = time.monotonic()
        written = 0
        turn = 0
        next_fault = start + warm
        while (now := time.monotonic()) - start < seconds:
            due = start + written / (self.rate * ranks)
            if due > now:
                time.sleep(min(due - now, 0.002))
                continue
            rank = written % ranks
            if now >= next_fault and not any(self.left):
                turn = (turn + 7) % ranks
                self.left[turn] = BAD + GOOD
                next_fault = now + 0.25
            self._write(rank)
            written += 1
        return written

    def _write(self, rank: int) -> None:
        self.steps[rank] += 1
        step = self.steps[rank]
        loss = f"{2 + 8 / (1 + step / 300) + self.rng.gauss(0, 0.01):.4f}"
        if self.left[rank]:
            if self.left[rank] > GOOD:
                loss = "nan"
            if self.left[rank] == BAD + GOOD:
                self.bad[(rank, step)] = time.time()
            self.left[rank] -= 1
        ms, norm = 1000 + self.rng.randrange(20), 1 + 0.1 * self.rng.random()
        self.files[rank].write(_LINE.format(step=step, loss=loss, ms=ms, norm=norm).encode())


def latency(ranks: int, rate: float, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "log"
        folder.mkdir()
        writers = Writers(folder, ranks, rate)
        watch = subprocess.Popen(
            doctor("watch", str(folder), "--format", "jsonl"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        heard: dict[tuple[int, int], float] = {}

        def listen() -> None:
            assert watch.stdout is not None
            for line in watch.stdout:
                now = time.time()
                row = json.loads(line)
                if row["event"] == "opened" and row["finding"]["rule"] == "RUN-NAN-001":
                    place = row["finding"]["evidence"][0]
                    heard.setdefault((place["rank"], place["step"]), now)

        listener = threading.Thread(target=listen)
        listener.start()
        time.sleep(1.5)
        process = psutil.Process(watch.pid)
        writers.run(8.0, warm=1000.0)  # loading, compiling and learning the format are over by then
        before, began = sum(process.cpu_times()[:2]), time.monotonic()
        lines = writers.run(seconds, warm=1.0)
        cpu = (sum(process.cpu_times()[:2]) - before) / (time.monotonic() - began)
        rss = process.memory_info().rss / 1e6
        time.sleep(1.0)
        watch.terminate()
        watch.wait(20)
        listener.join()
    delays = sorted(1000 * (heard[key] - at) for key, at in writers.bad.items() if key in heard)
    missed = len(writers.bad) - len(delays)
    print(
        f"{ranks} ranks x {rate:g} lines/s, {lines} lines: {len(delays)} alerts, {missed} missed; ms p50 {statistics.median(delays):.0f}"
        f" p95 {delays[int(0.95 * len(delays))]:.0f} p99 {delays[int(0.99 * len(delays))]:.0f} max {delays[-1]:.0f};"
        f" {100 * cpu:.1f} % of a core, {rss:.0f} MB   goal p99 100 ms, 5 %"
    )


def growth(millions: float) -> None:
    """Resident memory while a log of many millions of lines is replayed."""
    from doctor.match.pack import load_pack
    from doctor.records.cutter import Cutter
    from doctor.session import DiagnosisSession

    session = DiagnosisSession(load_pack())
    process = psutil.Process()
    cutter = Cutter("rank_0/info.log")
    rng = random.Random(1)
    lines, step = 0, 0
    sizes: list[str] = []
    block: list[str] = []
    while lines < millions * 1e6:
        step += 1
        loss = f"{2 + 8 / (1 + step / 30000) + rng.gauss(0, 0.01):.4f}"
        block.append(_LINE.format(step=step, loss=loss, ms=1000 + step % 17, norm=1 + step % 7 / 70))
        if len(block) == 8000:
            for chunk in cutter.feed("".join(block).encode()):
                session.feed(chunk)
            lines += len(block)
            block.clear()
            if lines % 1_000_000 < 8000:
                sizes.append(f"{process.memory_info().rss / 1e6:.0f}")
    print(f"{lines} lines replayed: MB after each million {' '.join(sizes)}; {len(session.findings())} findings")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--rate", type=float, default=10.0, help="lines a second of each rank")
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--millions", type=float, default=0.0, help="also replay so many million lines")
    args = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp()
    latency(args.ranks, args.rate, args.seconds)
    if args.millions:
        growth(args.millions)


if __name__ == "__main__":
    main()
