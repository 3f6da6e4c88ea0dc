"""``python -m tests.benchmarks``: start-up cost of the commands and the scan rate of generated logs, as tables."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Optional

from doctor.selftest.logs import KINDS
from tests.benchmarks.generate import write_log
from tests.benchmarks.measure import HEADER, Cost, alternating, doctor, once, row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--log-mb", type=int, default=300, help="size of the generated logs")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS), help="kinds of generated logs")
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
        scans(folder, args.log_mb, args.kinds)


def scans(folder: Path, megabytes: int, kinds: Sequence[str]) -> None:
    """Generated logs of each kind through ``doctor watch --once``, as a whole process; also as the base install does it."""
    absent = folder / "absent"
    absent.mkdir()
    (absent / "hyperscan.py").write_text("raise ImportError\n", encoding="utf-8")
    print(f"\ndoctor watch --once on logs of {megabytes} MB, 45 % step lines, one problem in 10,000 lines")
    print(f"{'kind':<16} {'MB per CPU s':>12} {'without hyperscan':>18} {'MB resident':>12}   goal 200, 100 MB")
    for kind in kinds:
        log = folder / "worker_0.log"
        size = write_log(log, megabytes << 20, kind=kind) / 1e6
        command = doctor("watch", "--once", "--plain", str(log))
        best: dict[bool, Cost] = {}
        for _ in range(3):
            for base in (False, True):
                with looking_first_into(absent if base else None):
                    cost = once(command, folder)
                best[base] = min(best.get(base, cost), cost, key=lambda item: item.cpu)
        rss = max(cost.rss_mb for cost in best.values())
        print(f"{kind:<16} {size / best[False].cpu:>12.0f} {size / best[True].cpu:>18.0f} {rss:>12.0f}")


@contextmanager
def looking_first_into(first: Optional[Path]) -> Iterator[None]:
    """Python looks into the folder `first` before all others, in processes started meanwhile."""
    before = os.environ.get("PYTHONPATH")
    if first is not None:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(first), before)))
    try:
        yield
    finally:
        if before is not None:
            os.environ["PYTHONPATH"] = before
        else:
            os.environ.pop("PYTHONPATH", None)


if __name__ == "__main__":
    main()
