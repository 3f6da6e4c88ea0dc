"""``python -m tests.benchmarks.bench_records``: how fast logs are read, parsed and followed, as a table.

Rates are MB per CPU second, the best of several rounds; the yardstick (one tight expression over the same chunks, nothing
done with its groups) runs in the same rounds, since the rate of a shared machine changes from minute to minute.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from doctor.records.discover import discover
from doctor.records.follow import Follower
from doctor.records.metrics import MetricReader
from doctor.records.reader import read
from doctor.records.record import Chunk
from tests.benchmarks.generate import write_log

_TIGHT = re.compile(
    rb"Epoch:\[ *(\d+)/ *(\d+)\], step:\[ *(\d+)/ *(\d+)\], loss: *([^,]+), per_step_time: (\d+)ms, lr: ([^,]+), overflow"
    rb" cond: (\w+), loss_scale: ([^,]+), global_norm: \[([^\]]+)\], train_throughput_per_npu: ([\d.]+)T"
)
# Each process appends a step line to its share of the files, so many times a second, with the time of writing at its end.
_WRITER = """
import sys, time
files = [open(name, "ab", buffering=0) for name in sys.argv[3:]]
rate, end, step = float(sys.argv[1]), time.monotonic() + float(sys.argv[2]), 0
while time.monotonic() < end:
    step += 1
    for out in files:
        out.write(b"epoch: 1 step: %d, loss is 2.5 at %.6f\\n" % (step, time.monotonic()))
        time.sleep(1 / rate / len(files))
"""


def rounds(work: dict[str, Callable[[], object]], count: int) -> dict[str, float]:
    """The least CPU seconds of each, all in turn."""
    best = dict.fromkeys(work, float("inf"))
    for _ in range(count):
        for name, run in work.items():
            start = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - start)
    return best


def parsing(folder: Path, megabytes: int, count: int) -> None:
    log = folder / "worker_0.log"
    size = write_log(log, megabytes << 20)
    steps = sum(len(MetricReader().feed(chunk)) for chunk in read(log))

    def columns() -> None:
        reader = MetricReader()
        for chunk in read(log):
            reader.blocks(chunk)

    def metrics() -> None:
        reader = MetricReader()
        for chunk in read(log):
            reader.feed(chunk)

    def yardstick() -> None:
        for chunk in read(log):
            _TIGHT.findall(chunk.data)

    work: dict[str, Callable[[], object]] = {
        "read in chunks": lambda: [None for _ in read(log)],
        "yardstick: findall": yardstick,
        "step records in columns": columns,
        "step records one by one": metrics,
    }
    print(f"{size / 1e6:.0f} MB, {steps} step lines")
    for name, seconds in rounds(work, count).items():
        print(f"  {name:<28} {size / 1e6 / seconds:7.0f} MB/CPU-s {seconds / steps * 1e6:7.2f} us a step")
    print(f"  peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


def listing(folder: Path, ranks: int) -> None:
    for rank in range(ranks):
        place = folder / "log" / f"rank_{rank}"
        place.mkdir(parents=True)
        (place / "info.log").touch()
        (place / "error.log").touch()
    start = time.process_time()
    found = discover([folder])
    print(f"\nlogs of {ranks} ranks found in {time.process_time() - start:.3f} CPU s: {len(found)}")


def following(folder: Path, files: int, rate: float, seconds: float, use_inotify: bool) -> None:
    """Files that other processes append to: the time from writing a line to having it, and what that costs."""
    logs = [folder / f"worker_{number}.log" for number in range(files)]
    for log in logs:
        log.write_bytes(b"")
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITER, str(rate), str(seconds), *map(str, logs[part::2])])
        for part in range(2)
    ]
    delays = []
    reader = MetricReader()
    cpu = time.process_time()
    begin = time.monotonic()
    with Follower([folder], use_inotify=use_inotify) as follower:
        while any(writer.poll() is None for writer in writers):
            for item in follower.poll(0.2):
                if isinstance(item, Chunk):
                    now = time.monotonic()
                    for metric in reader.feed(item):
                        delays.append(now - float(metric.text.rsplit(" ", 1)[1]))
    cpu, wall = time.process_time() - cpu, time.monotonic() - begin
    delays.sort()
    at = [1000 * delays[int(part * (len(delays) - 1))] for part in (0.5, 0.95, 0.99, 1.0)]
    how = "inotify" if use_inotify else "polling"
    print(
        f"  {how:<8} {files:5d} files x {rate:5.1f} lines/s: {len(delays):6d} lines, delay ms p50 {at[0]:6.1f} p95 {at[1]:6.1f}"
        f" p99 {at[2]:6.1f} max {at[3]:6.1f}, {100 * cpu / wall:5.1f} % of a core"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log-mb", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8.0, help="how long each way of following is measured")
    parser.add_argument("--only", choices=("parsing", "listing", "following"))
    args = parser.parse_args()
    os.environ.setdefault("PYTHONHASHSEED", "0")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if args.only in (None, "parsing"):
            parsing(folder, args.log_mb, args.rounds)
        if args.only in (None, "listing"):
            listing(folder / "run", 1024)
        if args.only in (None, "following"):
            print("\nlines followed from writing to step record")
            for number, (files, rate) in enumerate([(64, 1.0), (64, 10.0), (1024, 1.0)]):
                for use_inotify in (True, False):
                    place = folder / f"follow-{number}-{use_inotify}"
                    place.mkdir()
                    following(place, files, rate, args.seconds, use_inotify)


if __name__ == "__main__":
    main()
