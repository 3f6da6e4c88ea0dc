"""``python -m tests.benchmarks``: start-up cost of the commands and the scan rate of a generated log, as a table."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from tests.benchmarks.generate import write_log
from tests.benchmarks.measure import HEADER, alternating, doctor, once, row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--log-mb", type=int, default=300, help="size of the generated log")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        config = Path(__file__).with_name("llama2_7b.yaml")
        commands = {
            "doctor --help": (doctor("--help"), "0.12 cpu s"),
            "doctor explain TEXT": (
                doctor("explain", "RuntimeError: Call aclrtSetDevice failed, ret[107001]"),
                "0.20 cpu s",
            ),
            "doctor check CONFIG": (doctor("check", str(config)), "0.25 cpu s"),
            "doctor check": (doctor("check"), "0.35 cpu s with CONFIG, 60 MB"),
            "python -c pass": ([doctor()[0], "-c", "pass"], "(the floor)"),
        }
        print(HEADER)
        costs = alternating({key: value[0] for key, value in commands.items()}, args.runs, folder)
        for key, (_, goal) in commands.items():
            print(row(key, costs[key], goal))
        log = folder / "worker_0.log"
        size = write_log(log, args.log_mb << 20)
        print(f"\nscan of a generated log, {size / 1e6:.0f} MB, 45 % step lines, one problem in 10,000 lines")
        best = min(
            (once(doctor("watch", "--once", "--plain", str(log)), folder) for _ in range(3)), key=lambda c: c.cpu
        )
        print(
            f"doctor watch --once: {size / 1e6 / best.cpu:.0f} MB per CPU second, {best.wall:.2f} s wall, {best.rss_mb:.0f} MB   goal 200, 100 MB"
        )


if __name__ == "__main__":
    main()
