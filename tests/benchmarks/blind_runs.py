"""``python -m tests.benchmarks.blind_runs``: runs drawn from formulas in six formats, of one rank and of eight, judged from their logs.

The expectations stand in `blind_scenarios`. The table tells for each scenario how many runs were found and how many steps
after the onset's line the evidence ends; of healthy runs every finding at warning or above. ``--keep DIR`` leaves the logs.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Optional

from tests.benchmarks.blind_logs import write
from tests.benchmarks.blind_scenarios import FAULTS, HEALTHY, Scenario, make
from tests.benchmarks.fault_runs import judge


class Judged(NamedTuple):
    scenario: Scenario
    seed: int
    style: str
    onset: int
    #: rule, severity and last step of the evidence
    said: tuple[tuple[str, str, int], ...]

    @property
    def rules(self) -> set[str]:
        return {rule for rule, _, _ in self.said}

    @property
    def alarms(self) -> list[tuple[str, str, int]]:
        return [item for item in self.said if item[1] != "info"]


def run(scenario: Scenario, seed: int, root: Path) -> Judged:
    folder = root / scenario.name.replace(" ", "-").replace(",", "").replace("'", "") / str(seed)
    curves = make(scenario, seed)
    write(curves, folder)
    return Judged(scenario, seed, curves.style, curves.first + curves.onset if curves.onset else 0, judge(folder))


def rows_of(judged: Sequence[Judged]) -> Iterator[str]:
    groups: dict[str, list[Judged]] = {}
    for item in judged:
        groups.setdefault(item.scenario.name, []).append(item)
    found_all = faults = loud_all = healthy = 0
    for name, rows in groups.items():
        rules = set(rows[0].scenario.rules)
        if rules:
            hits = [row for row in rows if rules & row.rules]
            missed = [f"{row.seed}/{row.style}" for row in rows if row not in hits]
            others = Counter(item[0] for row in rows for item in row.alarms if item[0] not in rules)
            faults, found_all = faults + len(rows), found_all + len(hits)
            delays = [min(at for rule, _, at in row.said if rule in rules) - row.onset for row in hits if row.onset]
            delay = f"{statistics.median(delays):4.0f}" if delays else "   -"
            more = " ".join(f"{rule}x{count}" for rule, count in others.most_common(4))
            yield f"{name:<38} {len(hits):4d}/{len(rows):<4d} delay {delay}  missed {missed[:6] or '-'}  others {more or '-'}"
        else:
            loud = [row for row in rows if row.alarms]
            healthy, loud_all = healthy + len(rows), loud_all + len(loud)
            yield f"{name:<38} {len(loud):4d} loud of {len(rows)}"
            for row in loud:
                yield f"    {row.seed}/{row.style}: " + ", ".join(
                    f"{rule} {sev} at {step}" for rule, sev, step in row.alarms
                )
    if faults:
        yield f"faults: {found_all} of {faults} found, {100 * found_all / faults:.1f} %   goal 99.5, {len([1 for g in groups.values() if g[0].scenario.rules])} kinds"
    if healthy:
        yield f"healthy: {loud_all} of {healthy} runs raise an alarm   goal 0"


def main(argv: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="runs of each scenario")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--only", nargs="*", help="scenarios whose names begin like this")
    parser.add_argument("--keep", metavar="DIR", help="leave the logs there")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(args.keep or scratch)
        chosen = [
            item
            for item in (*HEALTHY.values(), *FAULTS.values())
            if not args.only or item.name.startswith(tuple(args.only))
        ]
        judged = [run(item, seed, root) for item in chosen for seed in range(args.first, args.first + args.seeds)]
    for line in rows_of(judged):
        print(line)


if __name__ == "__main__":
    main()
