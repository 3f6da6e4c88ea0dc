"""``python -m tests.benchmarks.bench_scan``: how fast the rules are scanned for, by each finder, alone and with metrics.

Prints MB per CPU second and the largest resident size of one process each. ``--rules 1800`` adds made-up rules up to
that number, to see that the cost stays flat. Where ripgrep is installed it searches the same log for the same patterns.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from doctor.finding import Severity, Text
from doctor.match.finder import makers
from doctor.match.pack import Pack, load_pack
from doctor.match.regex import required
from doctor.match.scan import Scanner
from doctor.match.textrule import Match, Pattern, TextRule
from doctor.records.metrics import MetricReader
from doctor.records.reader import read
from doctor.rule import Rule
from tests.benchmarks.generate import write_log
from tests.benchmarks.measure import once


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log-mb", type=int, default=120)
    parser.add_argument("--rules", type=int, default=0, help="make up rules to reach this number")
    parser.add_argument("--log", type=Path, help="scan this log instead of a generated one")
    parser.add_argument("--child", nargs=2, metavar=("FINDER", "WHAT"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        _measure(args.log, *args.child, args.rules)
        return
    with tempfile.TemporaryDirectory() as name:
        os.environ.setdefault("XDG_CACHE_HOME", str(Path(name) / "cache"))
        log = args.log or Path(name) / "worker_0.log"
        if args.log is None:
            write_log(log, args.log_mb << 20)
        pack = grown(load_pack(), args.rules)
        print(f"{log.stat().st_size / 1e6:.0f} MB, {len(pack.rules)} rules, {len(pack.atoms)} patterns")
        print(f"{'finder':<18} {'what':<10} {'MB per CPU s':>12} {'RSS MB':>8}")
        for finder in (*makers(), "shapes"):
            for what in ("scan", "both"):
                words = ["-m", __spec__.name, "--log", str(log), "--rules", str(args.rules), "--child", finder, what]
                done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
                print(done.stdout.strip() or f"{finder:<18} not installed")
        _ripgrep(log, pack, Path(name))


def grown(pack: Pack, wanted: int) -> Pack:
    """The pack with made-up rules, each on words of its own."""
    more = []
    for number in range(len(pack.rules), wanted):
        regex = rf"frobnicator {number} of unit (?P<unit>\w+) refused operation {number * 7919 % 10007}"
        text = Text("x", "文")
        rule = Rule(f"LOG-BENCH-{number % 1000:03d}", f"bench-{number}", Severity.ERROR, "other", text, text, text)
        match = Match((Pattern(regex, required(regex)),))
        more.append(TextRule(rule, "bench", match=match))
    return Pack([*pack.rules, *more], f"{pack.key}-{wanted}" if pack.key else "")


def _measure(log: Path, finder: str, what: str, rules: int) -> None:
    try:
        scanner = Scanner(grown(load_pack(), rules), finder=finder)
    except ImportError:
        return
    reader = MetricReader()
    hits = metrics = 0
    began = time.process_time()
    for chunk in read(log):
        hits += len(scanner.scan(chunk))
        if what == "both":
            metrics += len(reader.feed(chunk))
    hits += len(scanner.finish())
    spent = time.process_time() - began
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rate = log.stat().st_size / 1e6 / spent
    found = sum(tally.count for tally in scanner.tallies.values())
    print(f"{finder:<18} {what:<10} {rate:>12.0f} {size:>8.0f}   {found} hits, {metrics} step records")


def _for_ripgrep(pattern: bytes) -> bytes:
    """Without names of groups, and without escapes of characters that need none and that it refuses."""
    return re.sub(rb"\\([^\w.+*?()|\[\]{}^$\\#&~-])", rb"\1", re.sub(rb"\(\?P<\w+>", b"(?:", pattern))


def _ripgrep(log: Path, pack: Pack, folder: Path) -> None:
    """The same patterns, without the Chinese ones: in byte mode it takes none in a class of characters."""
    if shutil.which("rg") is None:
        print("ripgrep            not installed")
        return
    patterns = folder / "patterns"
    rows = [_for_ripgrep(atom.regex.encode()) for atom in pack.atoms if atom.literals and atom.regex.isascii()]
    patterns.write_bytes(b"\n".join(rows) + b"\n")
    words = [
        "rg",
        "--no-unicode",
        "--dfa-size-limit",
        "1G",
        "--regex-size-limit",
        "1G",
        "-c",
        "-f",
        str(patterns),
        str(log),
    ]
    cost = once(words)
    if cost.code > 1:  # 1: no line matches
        print("ripgrep            refuses the patterns")
        return
    print(f"{'ripgrep':<18} {'scan':<10} {log.stat().st_size / 1e6 / cost.cpu:>12.0f} {cost.rss_mb:>8.0f}")


if __name__ == "__main__":
    main()
