"""Joins the slices of a parameter that the devices of a stage saved, by their strategy files.

Devices of a stage are numbered in row-major order of the device matrix; ``tensor_map`` says for each dimension
of a parameter which axis of the matrix, counted from the right, cuts it. Devices that differ along other axes
hold copies. With a sharded optimizer the slice is cut once more along its first dimension, over devices that
hold copies otherwise: device r has piece (r // step) mod size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

from doctor.formats.strategy import Cut


def coordinates(rank: int, devices: Sequence[int]) -> tuple[int, ...]:
    """Where a device of a stage stands in the matrix. `rank` counts from the first device of all."""
    place = []
    total = 1
    for length in devices:
        total *= length
    rest = rank % total
    for length in devices:
        total //= length
        place.append(rest // total)
        rest %= total
    return tuple(place)


def piece_of(rank: int, cut: Cut) -> tuple[int, ...]:
    """Which piece a device holds, by dimension; the first number counts optimizer shards too."""
    place = coordinates(rank, cut.devices)
    index = [place[len(place) - 1 - axis] if axis >= 0 else 0 for axis in cut.axes]
    if cut.optimizer_shards > 0 and index:
        step = max(cut.optimizer_step, 1)
        index[0] = index[0] * cut.optimizer_shards + (rank // step) % cut.optimizer_shards
    return tuple(index)


def join(pieces: Mapping[tuple[int, ...], Any], whole: Sequence[int]) -> Optional[Any]:
    """The whole array from pieces by their index; None when one is missing or does not fit."""
    import numpy as np

    first = next(iter(pieces.values()))
    counts = tuple(full // part for full, part in zip(whole, first.shape))
    out = np.empty(tuple(whole), first.dtype)
    needed = 1
    for count in counts:
        needed *= count
    if len(pieces) < needed:
        return None
    for index, part in pieces.items():
        if part.shape != first.shape or any(at >= count for at, count in zip(index, counts)):
            return None
        places = tuple(slice(at * length, (at + 1) * length) for at, length in zip(index, part.shape))
        out[places] = part
    return out
