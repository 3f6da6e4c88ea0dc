"""Thousands of step records at once: whole tiles in which nothing stands out are passed over in columns.

Gives exactly what feeding the records one by one to `RankStream.feed` gives; a test holds the two together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple, Optional, Union

import numpy as np

from doctor.detect.alarm import Alarm
from doctor.detect.pace import STARVED
from doctor.detect.sieve import group_at, tile_at
from doctor.detect.stream import LINES, RankStream
from doctor.detect.usual import INF, SAME_SEEN, SLOW_AMONG, SLOW_STEPS, Bounds, Usual
from doctor.records.block import MetricBlock
from doctor.records.columns import Bools, Floats, Ints, differences

#: columns that the bounds are about; when some records lack one of them, they go one by one
_NAMES = ("loss", "lr", "grad_norm", "loss_scale", "overflow", "step_time_ms", "data_time_ms", "step", "global_step")
_MUST_BE_ABSENT = ("rank", "evaluation", "summary")
#: fewer records than this are cheaper looked at one by one, and fewer than this are cheaper held one by one
_FEW, _HELD = 8, 4


def feed_block(stream: RankStream, block: MetricBlock) -> Iterator[Alarm]:
    """The alarms of a block of step records of one rank, in order."""
    # What lines say about the time of day is not looked at, and costs more than all the rest to read.
    block = replace(block, stamps=None)
    if not _is_whole(block):
        for metric in block:
            yield from stream.feed(metric)
        return
    _add_points(stream, block)
    done, size = 0, len(block)
    while done < size:
        sieve = stream.sieve
        group = group_at(sieve.count)
        tile = tile_at(sieve.count)
        groups = min(tile - sieve.count % tile, size - done) // group if sieve.begins_group else 0
        if groups:
            yield from _pass(stream, block, done, groups, group)
            done += groups * group
            continue
        # Up to where the next group begins.
        end = min(size, done + group - sieve.count % group)
        if sieve.shows_all or end - done < _FEW or stream.before is None:
            yield from _one_by_one(stream, block, done, end)
        else:
            yield from _sifted(stream, block, done, end, _looked(stream, block, done, end))
        done = end
    stream.sieve.detach()


def _is_whole(block: MetricBlock) -> bool:
    """Whether each record has what each other has, and all are of one rank."""
    names = block.columns
    return (
        "loss" in names
        and ("step" in names or "global_step" in names)
        and not any(name in block.absent for name in _NAMES)
        and not any(name in names for name in _MUST_BE_ABSENT)
    )


class _Looked(NamedTuple):
    """Of some records: which are quiet, and how many up to each of them have the loss of the one before and are slow,
    as `Sieve` counts them."""

    good: Bools
    same: Ints
    slow: Ints


def _one_by_one(stream: RankStream, block: MetricBlock, first: int, end: int) -> Iterator[Alarm]:
    for metric in block.metrics(first, end):
        yield from stream.feed(metric, point=False)


def _pass(stream: RankStream, block: MetricBlock, first: int, groups: int, group: int) -> Iterator[Alarm]:
    """Groups of one tile: of a quiet one only the last record."""
    end = first + groups * group
    looked = _looked(stream, block, first, end)
    quiet: Bools = looked.good.reshape(-1, group).all(axis=1)
    ends = first + (np.arange(groups) + 1) * group
    lasts = iter(block.at(ends[quiet] - 1))
    same = looked.same[group - 1 :: group].tolist()
    for number, (end, still) in enumerate(zip(ends.tolist(), quiet.tolist())):
        begin = end - group
        last = next(lasts) if still else None
        if not stream.sieve.begins_group:
            yield from _one_by_one(stream, block, begin, end)
        elif last is not None:
            yield from stream.skip(last, block.lines[end - LINES : end].tolist(), same[number])
        else:
            here = slice(number * group, (number + 1) * group)
            part = _Looked(looked.good[here], looked.same[here], looked.slow[here])
            yield from _sifted(stream, block, begin, end, part)


def _sifted(stream: RankStream, block: MetricBlock, first: int, end: int, looked: _Looked) -> Iterator[Alarm]:
    """Records of one group: those that are quiet are held together, up to what stands out."""
    loud = [*(np.flatnonzero(~looked.good) + first).tolist(), end]
    at, next_loud = first, 0
    while at < end:
        restarts, sieve = stream.restarts, stream.sieve
        while loud[next_loud] < at:
            next_loud += 1
        unit = at + sieve.open_end - sieve.count
        stop = min(end if sieve.shows_all else loud[next_loud], unit)
        if sieve.shows_all or stop - at < _HELD:
            # what is shown anyway, or too little to be held together
            stop = max(stop, at + 1)
            yield from _one_by_one(stream, block, at, stop)
            if stream.restarts != restarts:
                yield from _one_by_one(stream, block, stop, end)
                return
        else:
            same, slow = int(looked.same[stop - 1 - first]), int(looked.slow[stop - 1 - first])
            yield from stream.hold(block.part(at, stop), block.metric(stop - 1), same, slow)
        at = stop


def _add_points(stream: RankStream, block: MetricBlock) -> None:
    """The records that the curve of the rank keeps."""
    steps = block.columns.get("global_step")
    steps = (steps if steps is not None else block.columns["step"]).astype(np.int64)
    loss, time = block.columns["loss"], block.columns.get("step_time_ms")
    finite = np.isfinite(loss)
    done = 0
    while done < len(steps):
        stride = stream.curve.stride
        rows = np.flatnonzero((steps[done:] % stride == 0) | ~finite[done:]) + done
        done = len(steps)
        losses: list[float] = loss[rows].tolist()
        times: list[Optional[float]] = time[rows].tolist() if time is not None else [None] * len(rows)
        lines, offsets = block.lines[rows].tolist(), (block.starts[rows] + block.offset).tolist()
        for row, step, value, took, line, offset in zip(
            rows.tolist(), steps[rows].tolist(), losses, times, lines, offsets
        ):
            if math.isfinite(value):
                stream.curve.put(step, value, took, line, offset)
            else:
                stream.curve.add(block.metric(row))
            if stream.curve.stride != stride:
                done = row + 1
                break


def _looked(stream: RankStream, block: MetricBlock, first: int, end: int) -> _Looked:
    """What some records of a tile are each by itself; takes down what they are like."""
    sieve, before = stream.sieve, stream.before
    bounds, usual = sieve.bounds_now(), sieve.usual
    assert before is not None

    def column(name: str) -> Optional[Floats]:
        values = block.columns.get(name)
        return None if values is None else values[first:end]

    loss, norm, time = column("loss"), column("grad_norm"), column("step_time_ms")
    assert loss is not None
    good = _finite_within(loss, bounds.loss_low, bounds.loss_high, bounds.broken, usual, usual.losses)
    if norm is not None:
        good &= _finite_within(norm, bounds.norm_low, bounds.norm_high, bounds.broken, usual, usual.norms)
        risen = norm > bounds.norm_risen
        if risen.any():
            former = np.concatenate(([before.grad_norm or 0.0], norm[:-1]))
            good &= ~(risen & (former > bounds.norm_rises))
    good &= _scales(bounds, column("loss_scale"), usual)
    good &= _steps(stream, bounds, usual, column("global_step"), column("step"), column("epoch"))
    moved = _moved(column("lr"), before.lr, len(loss))
    good &= moved <= bounds.moves
    overflow, flags = column("overflow"), np.zeros(len(loss), dtype=np.bool_)
    if overflow is not None:
        flags = overflow != 0
    good &= np.isin(flags, bounds.overflow) if len(bounds.overflow) > 1 else flags == bounds.overflow[0]
    wait, starved = column("data_time_ms"), np.zeros(len(loss), dtype=np.bool_)
    if wait is not None:
        starved = wait > STARVED * time if time is not None else np.ones(len(loss), dtype=np.bool_)
        if not bounds.starved:
            good &= ~starved
    same = _in_a_row(differences(loss, before.loss if before.loss is not None else np.nan) == 0, sieve.same)
    good &= (same < bounds.same) | (same >= bounds.same + SAME_SEEN)
    slow = np.zeros(len(loss), dtype=np.int64)
    if time is not None:
        slow = _among(time > bounds.longest, sieve.slow, sieve.count % SLOW_AMONG)
        good &= (slow < SLOW_STEPS) | (time <= bounds.longest)
    seen_flags = [flag for flag in (False, True) if (flags == flag).any()]
    usual.times(0.0 if time is None else float(np.fmax.reduce(time)), int(slow.max()))
    usual.rest(float(moved.max()), int(same.max()), bool(starved.any()), seen_flags)
    return _Looked(good, same, slow)


def _finite_within(
    values: Floats, low: float, high: float, broken: bool, usual: Usual, note: Callable[[float, float], None]
) -> Bools:
    """Which values are within bounds, or not finite where that is usual; the extremes of the finite ones are noted."""
    least, most = float(np.minimum.reduce(values)), float(np.maximum.reduce(values))
    if low <= least and most <= high:
        note(least, most)
        return np.ones(len(values), dtype=np.bool_)
    good: Bools = (values >= low) & (values <= high)
    finite = np.isfinite(values)
    if finite.all():
        note(least, most)
        return good
    usual.broken = True
    if finite.any():
        note(float(values[finite].min()), float(values[finite].max()))
    return good | ~finite if broken else good & finite


def _scales(bounds: Bounds, scale: Optional[Floats], usual: Usual) -> Union[bool, Bools]:
    if scale is None:
        return bounds.scale_low is None
    usual.scales(float(scale.min()), float(scale.max()))
    if bounds.scale_low is None or bounds.scale_high is None:
        return False
    return (scale >= bounds.scale_low) & (scale <= bounds.scale_high)


def _steps(
    stream: RankStream,
    bounds: Bounds,
    usual: Usual,
    at: Optional[Floats],
    step: Optional[Floats],
    epoch: Optional[Floats],
) -> Bools:
    """Which records are as far from the one before as they should be."""
    before, values = stream.before, at if at is not None else step
    assert values is not None and before is not None
    gaps = differences(values, before.at if before.at is not None else -1)
    usual.gaps(float(gaps.min()), float(gaps.max()))
    low, high = bounds.gaps if bounds.gaps is not None else (max(stream.stride, 1), stream.stride)
    good: Bools = (gaps >= low) & (gaps <= high)
    if at is None and epoch is not None:
        good &= differences(epoch, stream.epoch) >= 0
    return good


def _moved(rate: Optional[Floats], before: Optional[float], size: int) -> Floats:
    """As `usual.move`."""
    if rate is None:
        return np.full(size, 0.0 if before is None else INF)
    former = np.concatenate(([before if before is not None else np.nan], rate[:-1]))
    moved: Floats
    if former.min() > 0 and rate.min() > 0 and rate.max() < INF and former[0] < INF:
        moved = np.abs(rate / former - 1)
        return moved
    fine = (former > 0) & (rate > 0) & (rate < INF) & (former < INF)
    moved = np.full(size, INF)
    moved[fine] = np.abs(rate[fine] / former[fine] - 1)
    return moved


def _in_a_row(flags: Bools, before: int) -> Ints:
    """How many of the last up to each are set; `before` of those before the first are."""
    places = np.arange(1, len(flags) + 1)
    others: Ints = np.maximum.accumulate(np.where(flags, -before, places))
    return places - others


def _among(flags: Bools, before: int, place: int) -> Ints:
    """How many up to each are set since the last multiple of `SLOW_AMONG`, where the first is at that place behind one and
    `before` of those in between are set."""
    size = place + len(flags)
    counts = np.zeros(size + -size % SLOW_AMONG, dtype=np.int64)
    counts[place:size] = flags
    if place:
        counts[place - 1] = before
    sums: Ints = counts.reshape(-1, SLOW_AMONG).cumsum(axis=1).ravel()[place:size]
    return sums
