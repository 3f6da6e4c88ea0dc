"""Checkpoints that each device wrote for itself: ``rank_N`` folders, and the strategy files beside them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, Optional

from doctor.formats import locate, strategy
from doctor.formats.read import read_file
from doctor.formats.sniff import list_folder
from doctor.formats.strategy import Strategy
from doctor.formats.tensor import WeightFile

RANK = re.compile(r"rank_(\d{1,6})")
_STRATEGY = re.compile(r".*strategy.*?(?:rank_?|_)(\d{1,6})(?:_rank_\d+)?\.(ckpt|json)")
#: Where strategy files stand in relation to the folder of the ranks.
_STRATEGY_FOLDERS = (".", "strategy", "../strategy", "../ckpt_strategy")
MAX_RANKS = 20_000


@dataclass(frozen=True)
class Rank:
    """One rank's folder and the newest checkpoint in it."""

    number: int
    folder: Path
    file: Optional[WeightFile]
    #: (epoch, step) by the name of the newest file
    step: Optional[tuple[int, int]]
    #: what stands between the rank and the step in the name: MindSpore counts reruns into one folder so
    prefix: str
    #: (epoch, step) of every checkpoint in the folder
    steps: tuple[tuple[int, int], ...]
    #: meta.json's own words, and what is wrong with them
    meta: Optional[dict[str, Any]] = None
    meta_error: Optional[str] = None


@dataclass(frozen=True)
class RankSet:
    """All rank folders of a checkpoint."""

    ranks: tuple[Rank, ...]
    strategies: tuple[Strategy, ...] = ()
    #: weight files beside the rank folders: MindFormers takes the folders and leaves these
    beside: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[int, ...]:
        """Rank numbers that are not there though a higher one is."""
        there = {rank.number for rank in self.ranks}
        top = min(max(there, default=-1), MAX_RANKS)
        return tuple(number for number in range(top + 1) if number not in there)

    @property
    def unsaved(self) -> tuple[int, ...]:
        """Rank numbers beyond the highest folder for which there are strategy files of their own."""
        numbers = {number for item in self.strategies if (number := strategy_rank(item.path)) is not None}
        top = max((rank.number for rank in self.ranks), default=-1)
        return tuple(sorted(number for number in numbers if number > top)) if len(numbers) > 1 else ()

    @cached_property
    def stage_devices(self) -> int:
        """Devices of a stage, by the strategy files; 0 when they do not say."""
        return next((prod(cut.devices) for item in self.strategies for cut in item.cuts.values() if cut.devices), 0)

    @property
    def counted(self) -> bool:
        """Whether the devices of the strategy files and the rank folders can be of one run."""
        ranks = max((rank.number for rank in self.ranks), default=-1) + 1 + len(self.unsaved)
        return not self.stage_devices or len(self.strategies) < 2 or ranks % self.stage_devices == 0

    def strategy_of(self, rank: int) -> Optional[Strategy]:
        """The strategy file of a rank; one file for all when only one is there."""
        by_rank = {number: item for item in self.strategies if (number := strategy_rank(item.path)) is not None}
        if rank in by_rank:
            return by_rank[rank]
        return self.strategies[0] if len(self.strategies) == 1 else None


def strategy_rank(path: Path) -> Optional[int]:
    """The rank in a strategy file's name."""
    match = _STRATEGY.fullmatch(path.name)
    return int(match[1]) if match else None


def rank_folders(folder: Path) -> list[tuple[int, Path]]:
    """Numbers and folders, in order."""
    found = []
    for entry in list_folder(folder):
        match = RANK.fullmatch(entry.name)
        if match and _is_folder(Path(entry.path)):
            found.append((int(match[1]), Path(entry.path)))
    return sorted(found)[:MAX_RANKS]


def read_ranks(folder: Path, beside: tuple[str, ...] = ()) -> RankSet:
    """Reads the newest checkpoint of each rank folder, and the strategy files."""
    ranks = tuple(_rank(number, path) for number, path in rank_folders(folder))
    return RankSet(ranks, _strategies(folder), beside)


def _rank(number: int, folder: Path) -> Rank:
    names = [
        entry.name
        for entry in list_folder(folder)
        if entry.name.endswith((".ckpt", ".safetensors")) and not locate.BESIDE.fullmatch(entry.name)
    ]
    stepped = {name: step for name in names if (step := locate.step_of(name)) is not None}
    newest = max(stepped, key=lambda name: (stepped[name], _modified(folder / name), name), default=None)
    if newest is None and names:
        newest = names[-1]
    meta, error = _meta(folder / "meta.json")
    return Rank(
        number,
        folder,
        read_file(folder / newest) if newest is not None else None,
        stepped.get(newest) if newest is not None else None,
        _prefix(newest),
        tuple(sorted(set(stepped.values()))),
        meta,
        error,
    )


def _prefix(name: Optional[str]) -> str:
    match = locate.STEP.fullmatch(name) if name else None
    return f"{match['prefix']}#{match['rerun'] or ''}" if match else ""


def _modified(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _meta(path: Path) -> tuple[Optional[dict[str, Any]], Optional[str]]:
    try:
        if not path.is_file():
            return None, None
        data = json.loads(path.read_bytes()[:1_000_000])
    except OSError as error:
        return None, error.strerror or "unreadable"
    except (ValueError, RecursionError):
        return None, "not JSON"
    return (data, None) if isinstance(data, dict) else (None, "not a JSON object")


def _strategies(folder: Path) -> tuple[Strategy, ...]:
    for place in _STRATEGY_FOLDERS:
        where = folder / place
        found = [Path(entry.path) for entry in list_folder(where) if _STRATEGY.fullmatch(entry.name)]
        if found:
            return tuple(strategy.read(path) for path in sorted(found)[:MAX_RANKS])
    return ()


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False
