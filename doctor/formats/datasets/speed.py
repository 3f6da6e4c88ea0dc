"""How fast samples can be read here, with one process and with several.

What is measured is this package's own reading and decoding: the disk, and work of the same kind as MindSpore's
per row. It is a lower bound for MindDataset, whose decoding is native; what it shows is whether more workers help.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from doctor.formats.datasets.find import open_dataset

#: Samples each worker reads, and the most seconds one measurement may take.
SAMPLES = 2000
LIMIT = 5.0


def counts() -> tuple[int, ...]:
    """Numbers of workers to try: 1, 2 and all cores that this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return tuple(sorted({1, min(2, cores), min(cores, 16)}))


def samples_per_second(path: Path) -> dict[int, float]:
    """Samples per second by the number of workers. Raises OSError when the data set cannot be read."""
    return {workers: round(_measure(path, workers), 1) for workers in counts()}


def _measure(path: Path, workers: int) -> float:
    if workers == 1:
        read, seconds = _read(str(path))
        return read / max(seconds, 1e-9)
    # Spawned, so that no lock of this process is inherited in mid-use.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        done = list(pool.map(_read, [str(path)] * workers))
    return sum(read / max(seconds, 1e-9) for read, seconds in done)


def _read(path: str) -> tuple[int, float]:
    """Samples read and the seconds it took; opening the data set is not counted."""
    found = open_dataset(Path(path))
    start = time.perf_counter()
    read = 0
    for _ in found.draw(SAMPLES):
        read += 1
        if read % 16 == 0 and time.perf_counter() - start > LIMIT:
            break
    return read, time.perf_counter() - start
