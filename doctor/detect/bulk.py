"""Thousands of step records at once: whole tiles in which nothing stands out are passed over in columns.

Gives exactly what feeding the records one by one to `RankStream.feed` gives; a test holds the two together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Optional

import numpy as np

from doctor.detect.alarm import Alarm
from doctor.detect.pace import STARVED
from doctor.detect.stream import GROUP, LINES, RATE_MOVES, SAME, SLOW_STEPS, TILE, Bounds, RankStream
from doctor.records.block import MetricBlock
from doctor.records.columns import Bools, Floats

#: columns that the bounds are about; when some records lack one of them, they go one by one
_NAMES = ("loss", "lr", "grad_norm", "loss_scale", "overflow", "step_time_ms", "data_time_ms", "step", "global_step")
_MUST_BE_ABSENT = ("rank", "evaluation", "summary")
#: fewer records than this are cheaper one by one
_FEW = 8


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
        groups = min(TILE - stream.count % TILE, size - done) // GROUP if stream.may_skip else 0
        if groups:
            yield from _pass(stream, block, done, _quiet_groups(stream, block, done, groups))
            done += groups * GROUP
            continue
        # Up to where the next group begins.
        end = min(size, done + GROUP - stream.count % GROUP)
        held = _held(stream, block, done, end)
        if held is not None:
            yield from held
            done = end
            continue
        for metric in block.metrics(done, end):
            yield from stream.feed(metric, point=False)
        done = end


def _is_whole(block: MetricBlock) -> bool:
    """Whether each record has what each other has, and all are of one rank."""
    names = block.columns
    return (
        "loss" in names
        and ("step" in names or "global_step" in names)
        and not any(name in block.absent for name in _NAMES)
        and not any(name in names for name in _MUST_BE_ABSENT)
    )


def _pass(stream: RankStream, block: MetricBlock, first: int, quiet: Bools) -> Iterator[Alarm]:
    """Groups of one tile: of a quiet one only the last record, of the others all."""
    ends = first + (np.arange(len(quiet)) + 1) * GROUP
    lasts = iter(block.at(ends[quiet] - 1))
    for end, still in zip(ends.tolist(), quiet.tolist()):
        last = next(lasts) if still else None
        if last is not None and stream.may_skip:
            yield from stream.skip(last, GROUP, block.lines[end - LINES : end].tolist())
        else:
            for metric in block.metrics(end - GROUP, end):
                yield from stream.feed(metric, point=False)


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


def _held(stream: RankStream, block: MetricBlock, first: int, end: int) -> Optional[Sequence[Alarm]]:
    """Part of a group in which nothing stands out is passed over, as far as it goes; None when something does."""
    if end - first < _FEW or not stream.may_hold(0, 0):
        return None
    good, same, slow = _looked(stream, block, first, end)
    counts = int(np.count_nonzero(same)), int(np.count_nonzero(slow))
    if not good.all() or not stream.may_hold(*counts):
        return None
    return stream.hold(block.copied(first, end), block.metric(end - 1), block.lines[first:end].tolist(), *counts)


def _quiet_groups(stream: RankStream, block: MetricBlock, first: int, groups: int) -> Bools:
    """Which of the groups that begin at record `first` hold nothing that stands out."""
    good, same, slow = _looked(stream, block, first, first + groups * GROUP)
    rows: Bools = good.reshape(-1, GROUP).all(axis=1)
    rows &= same.reshape(-1, GROUP).sum(axis=1) < SAME
    rows &= slow.reshape(-1, GROUP).sum(axis=1) < SLOW_STEPS
    return rows if stream.stride > 0 else np.zeros_like(rows)


def _looked(stream: RankStream, block: MetricBlock, first: int, end: int) -> tuple[Bools, Bools, Bools]:
    """Which of some records of a tile are quiet each by itself, which have the loss of the one before, and which are slow."""
    bounds = stream.bounds_now()
    before = stream.before
    none = np.zeros(end - first, dtype=np.bool_)
    if before is None:
        return none, none, none

    def column(name: str) -> Optional[Floats]:
        values = block.columns.get(name)
        return None if values is None else values[first:end]

    loss = column("loss")
    assert loss is not None
    good = _within(bounds, loss, column("grad_norm"), before.grad_norm)
    good &= _settings(bounds, column("overflow"), column("loss_scale"), len(loss))
    good &= _moves(column("lr"), before.lr, len(loss))
    wait, time = column("data_time_ms"), column("step_time_ms")
    if wait is not None:
        good &= (wait <= STARVED * time) if time is not None else False
    step = column("global_step")
    if step is None:
        step, epoch = column("step"), column("epoch")
        if epoch is not None:
            good &= np.diff(epoch, prepend=stream.epoch) >= 0
    assert step is not None
    last = before.at if before.at is not None else -1
    good &= np.diff(step, prepend=last) == stream.stride
    same = np.diff(loss, prepend=before.loss if before.loss is not None else np.nan) == 0
    return good, same, time > bounds.longest if time is not None else none


def _within(bounds: Bounds, loss: Floats, norm: Optional[Floats], norm_before: Optional[float]) -> Bools:
    good = (loss >= bounds.loss_low) & (loss <= bounds.loss_high)
    if norm is not None:
        good &= (norm >= bounds.norm_low) & (norm <= bounds.norm_high)
        risen = norm > bounds.norm_risen
        if risen.any():
            former = np.concatenate(([norm_before or 0.0], norm[:-1]))
            good &= ~(risen & (former > bounds.norm_rises))
    return good


def _settings(bounds: Bounds, overflow: Optional[Floats], scale: Optional[Floats], size: int) -> Bools:
    good = np.ones(size, dtype=np.bool_)
    if overflow is not None:
        good &= overflow == 0
    if scale is not None:
        good &= scale == (bounds.scale if bounds.scale is not None else np.nan)
    elif bounds.scale is not None:
        good[:] = False
    return good


def _moves(rate: Optional[Floats], before: Optional[float], size: int) -> Bools:
    good = np.ones(size, dtype=np.bool_)
    if (rate is None) != (before is None):
        good[:] = False
    elif rate is not None and before is not None:
        if before <= 0 or rate.min() <= 0:
            good[:] = False
            return good
        former = np.concatenate(([before], rate[:-1]))
        good = np.abs(rate / former - 1) <= RATE_MOVES
    return good
