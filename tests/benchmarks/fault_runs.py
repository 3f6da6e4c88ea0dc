"""``python -m tests.benchmarks.fault_runs``: real short trainings, healthy and with planted faults, judged from their logs.

Every kind of `doctor.selftest.faults` is planted in many reseeded runs; the table shows how many of each are found, by one of the
rules that name its cause, and which healthy runs raise anything at all. Seeds are split in halves: thresholds may be
looked at on the even ones, the odd ones are for the score. ``--keep DIR`` leaves the logs there and takes them
from there the next time, so that detectors can be tried without training anew.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

HEALTHY = "healthy"
#: in place of an onset: the fault does not show, however strong
NOT_SHOWN = -1


@dataclass(frozen=True)
class Task:
    kind: str
    seed: int
    folder: str
    #: sizes are those of this network for MindSpore, which compiles one cell for each
    mindspore: bool = False


@dataclass(frozen=True)
class Result:
    kind: str
    seed: int
    onset: int
    #: rule, severity and the last step of its evidence, of every finding that was opened
    said: tuple[tuple[str, str, int], ...]


_NETWORKS: list[object] = []
_PACK: list[tuple[Any, Any]] = []


def work(task: Task) -> Result:
    """Trains the run unless its logs are there, and judges them."""
    folder = Path(task.folder)
    note = folder / "planted.txt"
    if not note.exists():
        folder.mkdir(parents=True, exist_ok=True)
        note.write_text(str(_make(task, folder)))
    if int(note.read_text()) == NOT_SHOWN:
        return Result(task.kind, task.seed, NOT_SHOWN, ())
    return Result(task.kind, task.seed, int(note.read_text()), judge(folder))


def _make(task: Task, folder: Path) -> int:
    from doctor.selftest.faults import KINDS
    from doctor.selftest.network import NumpyNetwork
    from doctor.selftest.runs import Run, faulty, healthy
    from doctor.selftest.training import Networks, make
    from tests.benchmarks.fault_mindspore import MindSporeNetwork, for_mindspore

    if not _NETWORKS:
        _NETWORKS.append(Networks(MindSporeNetwork if task.mindspore else NumpyNetwork))
    networks = _NETWORKS[0]
    assert isinstance(networks, Networks)

    def fresh() -> Run:
        run = healthy(task.seed) if task.kind == HEALTHY else faulty(KINDS[task.kind], task.seed)
        return for_mindspore(run) if task.mindspore else run

    made = make(fresh, networks, folder)
    return NOT_SHOWN if made is None else made.onset


def judge(folder: Path) -> tuple[tuple[str, str, int], ...]:
    """What ``doctor watch --once`` opens on a run folder."""
    from doctor.match.pack import load_pack
    from doctor.selftest.pool import shared_finder
    from doctor.selftest.watch import judge, last_step

    if not _PACK:
        pack = load_pack()
        _PACK.append((pack, shared_finder(pack)))
    pack, finder = _PACK[0]
    return tuple((item.rule, item.severity.value, last_step(item)) for item in judge(folder, pack, finder))


def table(results: Sequence[Result]) -> Iterator[str]:
    """A line of each kind, and at the end one of all and the healthy runs."""
    from doctor.selftest.faults import KINDS

    groups: dict[str, list[Result]] = {}
    hidden = sum(result.onset == NOT_SHOWN for result in results)
    for result in results:
        if result.onset == NOT_SHOWN:
            continue
        groups.setdefault(result.kind, []).append(result)
    calm = groups.pop(HEALTHY, [])
    yield f"{'kind':<26} {'runs':>5} {'found':>6} {'%':>6} {'even %':>7} {'odd %':>7} {'delay':>6}  missed seeds; other rules"
    found_all, count_all = 0, 0
    for name in sorted(groups):
        rules = set(KINDS[name].rules)
        rows = groups[name]
        hits = [row for row in rows if rules & {said[0] for said in row.said}]
        delays = [min(said[2] for said in row.said if said[0] in rules) - row.onset for row in hits]
        missed = [row.seed for row in rows if row not in hits]
        others = Counter(said[0] for row in rows for said in row.said if said[0] not in rules)
        halves = [
            100 * sum(row.seed % 2 == half for row in hits) / max(1, sum(row.seed % 2 == half for row in rows))
            for half in (0, 1)
        ]
        yield (
            f"{name:<26} {len(rows):5d} {len(hits):6d} {100 * len(hits) / len(rows):6.1f} {halves[0]:7.1f} {halves[1]:7.1f}"
            f" {statistics.median(delays) if delays else float('nan'):6.0f}  {missed[:8] or ''} "
            + " ".join(f"{rule}x{count}" for rule, count in others.most_common(4))
        )
        found_all, count_all = found_all + len(hits), count_all + len(rows)
    if count_all:
        yield f"(left out, since nothing is to be seen of the fault: {hidden})"
        yield f"{'all':<26} {count_all:5d} {found_all:6d} {100 * found_all / count_all:6.2f}   goal 99.5"
    if calm:
        loud = [row for row in calm if row.said]
        yield f"{'healthy':<26} {len(calm):5d} {len(loud):6d} alarms   goal 0"
        for row in loud:
            yield f"  seed {row.seed}: " + ", ".join(
                f"{rule} {severity} at step {step}" for rule, severity, step in row.said
            )


def main(argv: Optional[Sequence[str]] = None) -> None:
    from doctor.selftest.faults import KINDS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=34, help="runs of each kind")
    parser.add_argument("--healthy", type=int, default=240, help="healthy runs")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--kinds", nargs="*", help="only these kinds")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument("--keep", metavar="DIR", help="leave the logs there, and take them from there")
    parser.add_argument("--mindspore", action="store_true", help="train the decoder of doctor.trainer instead")
    parser.add_argument("--json", metavar="FILE", help="also write what each run raised")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(args.keep or scratch)
        names = args.kinds if args.kinds is not None else sorted(KINDS)
        tasks = [(name, seed) for name in names for seed in range(args.first, args.first + args.seeds)]
        tasks += [(HEALTHY, seed) for seed in range(args.first, args.first + args.healthy)]
        work_list = [Task(kind, seed, str(root / kind / str(seed)), args.mindspore) for kind, seed in tasks]
        if args.jobs > 1:
            with ProcessPoolExecutor(args.jobs) as pool:
                results = list(pool.map(work, work_list, chunksize=4))
        else:
            results = [work(task) for task in work_list]
    for line in table(results):
        print(line)
    if args.json:
        rows = [[row.kind, row.seed, row.onset, row.said] for row in results]
        Path(args.json).write_text(json.dumps(rows) + "\n")


if __name__ == "__main__":
    main()
