"""Which rank a file or a process belongs to, from its name or its environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import PurePath
from typing import Optional

# `rank_3`, `rank-3.txt`, `worker_12.log`, `device3`, `train_parallel1`, `npu_0`, `log_7.txt`; the surest first
_NAMES = (
    re.compile(r"(?<![a-z])(?:global_?)?rank[ _.-]?(\d{1,6})(?!\d)", re.IGNORECASE),
    re.compile(r"(?<![a-z])worker[ _.-]?(\d{1,6})(?!\d)", re.IGNORECASE),
    re.compile(
        r"(?<![a-z])(?:device|npu|card|train_parallel|train|log|proc)[_.-]?(\d{1,6})(?=$|[._-]|$)", re.IGNORECASE
    ),
)
#: of launchers, in the order in which the more special one wins: msrun, torchrun, mpirun, Slurm, ranktable
_VARIABLES = ("RANK_ID", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


def rank_of_path(path: PurePath) -> Optional[int]:
    """The rank that the file name says, else the nearest folder; None when no name does."""
    for name in reversed(path.parts[-4:]):
        rank = _rank_of_name(name)
        if rank is not None:
            return rank
    return None


@lru_cache(maxsize=4096)
def _rank_of_name(name: str) -> Optional[int]:
    for pattern in _NAMES:
        found = pattern.search(name)
        if found:
            return int(found.group(1))
    return None


def rank_of_environment(environ: Mapping[str, str]) -> Optional[int]:
    """The rank that a launcher gave to a process, or None."""
    for name in _VARIABLES:
        value = environ.get(name, "")
        if value.isdecimal() and len(value) <= 6:
            return int(value)
    return None
