"""The curves of a run in bounded memory: every value of a short run, of a long one the least, the greatest and the mean
of as many steps each, so that neither a spike nor a gap is lost when millions of steps are drawn or compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from doctor.session.traces import family

if TYPE_CHECKING:
    from doctor.records.block import MetricBlock
    from doctor.records.record import Metric
    from doctor.session.incidents import Origin

#: fields of step records that have a curve
FIELDS = ("loss", "lr", "grad_norm", "loss_scale", "step_time_ms", "throughput", "memory_mb")
#: buckets of one curve at most, and of all curves of all ranks together
MOST, MOST_IN_ALL, LEAST = 1 << 15, 1 << 20, 256
#: single records that wait to be put into the curves together
_WAITING = 4096
#: pieces of a curve that a run left behind when it went back to a checkpoint
_MOST_LEFT = 8


@dataclass(frozen=True)
class Points:
    """A curve: for each bucket its first step, and of its values the first, the least, the greatest and the mean.
    `stride` is how many steps a bucket spans; with 1 all four are the value itself."""

    stride: int
    steps: Any
    first: Any
    low: Any
    high: Any
    mean: Any

    def __len__(self) -> int:
        return len(self.steps)


class Series:
    """One curve, fed in the order of the log. A run that goes back to an earlier step leaves a piece behind (`left`)."""

    def __init__(self, limit: int = MOST) -> None:
        self.limit = limit
        self.stride = 1
        self.left: list[Points] = []
        #: values that are no number, the step of the first, and whether the last value is one of them
        self.bad = 0
        self.bad_at: Optional[int] = None
        self.ends_bad = False
        self._last = 0
        self._keys = np.zeros(0, dtype=np.int64)
        #: rows: first step, count, first value, least, greatest, sum
        self._table = np.zeros((6, 0))

    def add(self, steps: Any, values: Any) -> None:
        """`steps` (int64) and `values` (float64) of as many records. What is not finite is counted, not kept."""
        good = np.isfinite(values)
        self.ends_bad = not good[-1] if len(good) else self.ends_bad
        if not good.all():
            self.bad += int((~good).sum())
            if self.bad_at is None:
                self.bad_at = int(steps[np.flatnonzero(~good)[0]])
            steps, values = steps[good], values[good]
        cuts: Any = np.flatnonzero(np.diff(steps) < 0) + 1 if len(steps) > 1 else []
        for part, numbers in zip(np.split(steps, cuts), np.split(values, cuts)):
            if len(part):
                self._rising(part, numbers)

    def _rising(self, steps: Any, values: Any) -> None:
        if len(self._keys) and steps[0] < self._last:
            self._back_to(int(steps[0]))
        self._last = int(steps[-1])
        table = np.vstack([steps, np.ones(len(steps)), values, values, values, values])
        keys = steps // self.stride
        if len(self._keys) and keys[0] == self._keys[-1]:
            keys = np.concatenate([self._keys[-1:], keys])
            table = np.hstack([self._table[:, -1:], table])
            self._keys, self._table = self._keys[:-1], self._table[:, :-1]
        keys, table = _merged(keys, table)
        self._keys = np.concatenate([self._keys, keys])
        self._table = np.hstack([self._table, table])
        self.shrink(self.limit)

    def _back_to(self, step: int) -> None:
        behind = self._table[0] >= step
        if behind.any() and len(self.left) < _MOST_LEFT:
            self.left.append(self._points(self._table[:, behind]))
        self._keys, self._table = self._keys[~behind], self._table[:, ~behind]

    def shrink(self, limit: int) -> None:
        """Puts neighbours together until there are at most `limit` buckets."""
        self.limit = limit
        while len(self._keys) > limit:
            self.stride *= 2
            self._keys, self._table = _merged(self._keys // 2, self._table)

    def points(self, most: Optional[int] = None) -> Points:
        """The curve, in at most `most` buckets."""
        stride, keys, table = self.stride, self._keys, self._table
        while most is not None and len(keys) > most:
            stride *= 2
            keys, table = _merged(keys // 2, table)
        return self._points(table, stride)

    def _points(self, table: Any, stride: Optional[int] = None) -> Points:
        return Points(
            stride or self.stride, table[0].astype(np.int64), table[2], table[3], table[4], table[5] / table[1]
        )

    def __len__(self) -> int:
        return len(self._keys)


def _merged(keys: Any, table: Any) -> tuple[Any, Any]:
    """Buckets of equal keys as one; keys rise."""
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    if len(starts) == len(keys):
        return keys, table
    return keys[starts], np.vstack(
        [
            table[0][starts],
            np.add.reduceat(table[1], starts),
            table[2][starts],
            np.minimum.reduceat(table[3], starts),
            np.maximum.reduceat(table[4], starts),
            np.add.reduceat(table[5], starts),
        ]
    )


@dataclass
class Track:
    """The step records of one rank in one log. `unit` is that of throughput as printed."""

    source: str
    rank: Optional[int]
    series: dict[str, Series] = field(default_factory=dict)
    unit: Optional[str] = None
    records: int = 0
    overflows: int = 0
    last_step: Optional[int] = None
    #: steps that the run announced, over all epochs
    announced: Optional[int] = None

    def points(self, name: str, most: Optional[int] = None) -> Optional[Points]:
        """The curve of a field; None when no record has it."""
        found = self.series.get(name)
        return found.points(most) if found is not None and len(found) else None

    def typical(self, name: str) -> Optional[float]:
        """The median of a field, of one value a bucket; the first records, that compile, are left out where there are more."""
        found = self.points(name)
        if found is None:
            return None
        values = found.first[min(3, len(found) // 4) :]
        return float(np.median(values))

    def last(self, name: str) -> Optional[float]:
        """The value of the last record that has it; not-a-number where that is none."""
        series, found = self.series.get(name), self.points(name)
        if series is not None and series.ends_bad:
            return float("nan")
        return float(found.mean[-1] if found.stride > 1 else found.first[-1]) if found is not None else None


class History:
    """Takes step records from a session (`on_metric`, `on_block`) and keeps their curves."""

    def __init__(self) -> None:
        self.tracks: dict[Origin, Track] = {}
        self._waiting: dict[Origin, list[tuple[int, tuple[Optional[float], ...]]]] = {}

    def metric(self, metric: Metric) -> None:
        """One record; evaluations and averages over a run are none of a step."""
        if metric.evaluation or metric.summary:
            return
        track = self._track(metric.source, metric.rank)
        step = metric.at if metric.at is not None else track.records + 1
        self._note(track, step, 1, metric)
        track.overflows += bool(metric.overflow)
        origin = (track.source, metric.rank)
        rows = self._waiting.setdefault(origin, [])
        rows.append((step, tuple(getattr(metric, name) for name in FIELDS)))
        if len(rows) >= _WAITING:
            self._flush(origin)

    def block(self, block: MetricBlock) -> None:
        """Records that were read together."""
        usual = np.ones(len(block), dtype=np.bool_)
        for name in ("evaluation", "summary"):
            flags = block.columns.get(name)
            if flags is not None:
                usual &= ~(flags.astype(np.bool_) & ~block.absent.get(name, np.zeros(len(block), dtype=np.bool_)))
        rows = np.flatnonzero(usual)
        if not len(rows):
            return
        track = self._track(block.source, block.rank)
        self._flush((track.source, block.rank))
        steps = _steps(block, track.records)[rows]
        self._note(track, int(steps[-1]), len(rows), block.metric(int(rows[-1])))
        overflow = block.columns.get("overflow")
        if overflow is not None:
            track.overflows += int(np.nansum(overflow[rows] * ~_absent(block, "overflow")[rows]))
        for name in FIELDS:
            column = block.columns.get(name)
            if column is not None:
                there = rows[~_absent(block, name)[rows]]
                if len(there):
                    self._series(track, name).add(steps[np.searchsorted(rows, there)], column[there])

    def ready(self) -> list[Track]:
        """The tracks that have records, in the order of ranks."""
        for origin in list(self._waiting):
            self._flush(origin)
        tracks = [track for track in self.tracks.values() if track.records]
        return sorted(tracks, key=lambda track: (-1 if track.rank is None else track.rank, track.source))

    def _track(self, source: str, rank: Optional[int]) -> Track:
        origin = (family(source), rank)
        track = self.tracks.get(origin)
        if track is None:
            track = self.tracks[origin] = Track(origin[0], rank)
            limit = self._limit()
            for other in self.tracks.values():
                for series in other.series.values():
                    series.shrink(min(limit, series.limit))
        return track

    def _limit(self) -> int:
        return max(LEAST, min(MOST, MOST_IN_ALL // (len(FIELDS) * max(1, len(self.tracks)))))

    def _series(self, track: Track, name: str) -> Series:
        series = track.series.get(name)
        if series is None:
            series = track.series[name] = Series(self._limit())
        return series

    def _note(self, track: Track, step: int, count: int, metric: Metric) -> None:
        track.records += count
        track.last_step = step
        track.unit = metric.throughput_unit or track.unit
        track.announced = metric.announced or track.announced

    def _flush(self, origin: Origin) -> None:
        rows = self._waiting.pop(origin, None)
        if not rows:
            return
        track = self.tracks[origin]
        steps = np.array([step for step, _ in rows], dtype=np.int64)
        for column, name in enumerate(FIELDS):
            values = [row[column] for _, row in rows]
            there = [index for index, value in enumerate(values) if value is not None]
            if there:
                self._series(track, name).add(steps[there], np.array([values[at] for at in there], dtype=np.float64))


def _absent(block: MetricBlock, name: str) -> Any:
    found = block.absent.get(name)
    return found if found is not None else np.zeros(len(block), dtype=np.bool_)


def _steps(block: MetricBlock, counted: int) -> Any:
    """The step of each record: global where known, as printed, or counted."""
    steps = np.arange(counted + 1, counted + 1 + len(block), dtype=np.float64)
    for name in ("step", "global_step"):
        column = block.columns.get(name)
        if column is not None:
            steps = np.where(_absent(block, name), steps, column)
    return steps.astype(np.int64)
