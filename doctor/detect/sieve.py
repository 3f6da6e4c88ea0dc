"""Which records of a long run the detectors are shown.

The first ones are all shown. Later on records come in groups, and of a group in which nothing stands out only the last
one is shown: a run of a million steps is then judged at the cost of some thousand. A group in which something stands out
is shown part by part: of its quiet parts the last record, of the others all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Optional, Union

from doctor.detect.alarm import Alarm
from doctor.detect.pace import STARVED
from doctor.detect.usual import SLOW_AMONG, SLOW_STEPS, Bounds, Usual, move, news
from doctor.records.record import Metric

if TYPE_CHECKING:
    from doctor.records.block import MetricBlock

#: records that are all shown
WHOLE = 2048
#: records of which one is shown when nothing stands out, and those of the parts of a group
GROUP, PART = 64, 16
#: records judged by the same bounds
TILE = 1024
#: from so many records on groups and tiles are larger by this
LONG_RUN, LARGER = 1 << 15, 4
#: a loss this far above its level stands out, in sigmas, and one below this share of it
ABOVE, BELOW = 5.0, 0.5
#: so does a gradient norm outside these multiples of its median, or above the third when the one before it was above the
#: fourth: single norms of healthy runs are up to ten times the median
NORM_LOW, NORM_HIGH, NORM_RISEN, NORM_RISES = 0.1, 10.0, 5.0, 2.0
#: when more than this share of a tile was shown and nothing said of it, what is in it has become usual
MUCH = 0.125
#: behind the group of an alarm so many records are all shown; one that stands longer is no news
NEWS = 1024


def group_at(count: int) -> int:
    """How many records the group holds that record number `count` belongs to."""
    return GROUP if count < LONG_RUN else GROUP * LARGER


def tile_at(count: int) -> int:
    """How many records the tile holds that record number `count` belongs to."""
    return TILE if count < LONG_RUN else TILE * LARGER


class Sieve:
    """`show` gives a record to the detectors, `make_bounds` says what they hold for quiet after the record before."""

    def __init__(
        self, show: Callable[[Metric, list[Alarm]], None], make_bounds: Callable[[Optional[Metric]], Bounds]
    ) -> None:
        self._give = show
        self._make_bounds = make_bounds
        #: records so far, and the last of them
        self.count = 0
        self.before: Optional[Metric] = None
        self.bounds: Optional[Bounds] = None
        #: what the records of the present tile were like, how many of them were shown, and whether something was said
        self.usual = Usual()
        self._shown, self._spoke = 0, False
        #: where the tile began, and whether its bounds are those of what is usual
        self._tile, self._habit = -1, False
        #: records of the group, of the part once the group is loud, that were not shown, behind the number of the first
        self._held: list[tuple[int, Union[Metric, MetricBlock]]] = []
        self._loud = self._part_loud = False
        #: the last records that have the loss of the one before them, and slow ones among the last `SLOW_AMONG`
        self.same = self.slow = 0
        self._news = 0

    def take(self, metric: Metric, stride: int, said: list[Alarm]) -> None:
        """One record; what the detectors say is added to `said`."""
        if self.count < WHOLE:
            self._show(metric, said)
        else:
            self._sift(metric, stride, said)
        self.count += 1
        self.before = metric

    def heard(self) -> None:
        """The detectors have just said something."""
        self._spoke = True
        self._news = (self.count - 1) // (GROUP * LARGER) * GROUP * LARGER + NEWS

    def end(self, said: list[Alarm]) -> None:
        """No more records come."""
        if self._held and self.before is not None:
            self._show(self.before, said)
            self._held = []

    @property
    def shows_all(self) -> bool:
        """Whether the next record is shown whatever it is."""
        return self.count < WHOLE or self.count < self._news or self._in_loud_part

    @property
    def _in_loud_part(self) -> bool:
        return self._part_loud and self.count % PART != 0

    @property
    def begins_group(self) -> bool:
        """Whether the next record is the first of a group that may be passed over."""
        return self.count >= WHOLE and self.count % group_at(self.count) == 0 and self.count >= self._news

    @property
    def open_end(self) -> int:
        """The number behind the last record that can be held together with the next one."""
        group = group_at(self.count)
        unit = PART if self._loud and self.count % group else group
        return (self.count // unit + 1) * unit

    def skip(self, last: Metric, same: int, said: list[Alarm]) -> None:
        """A whole group in which nothing stands out, of which `last` is the last, and `same` the number of those at its
        end that have the loss of the one before."""
        self._begin_group()
        self._show(last, said)
        self.count += group_at(self.count)
        self.before = last
        self.same = same

    def hold(self, records: MetricBlock, last: Metric, same: int, slow: int, said: list[Alarm]) -> None:
        """Records up to `open_end` at most that are quiet; behind them `same` and `slow` are these. They are made one by
        one only if something that follows in their group stands out."""
        self._begin()
        self.same = same
        self.slow = slow
        group = group_at(self.count)
        self._held.append((self.count, records))
        self.count += len(records)
        self.before = last
        if self.count % (PART if self._loud else group) == 0:
            self._show(last, said)
            self._held = []

    def detach(self) -> None:
        """Lets go of the chunk that held records are in."""
        self._held = [
            (first, item if isinstance(item, Metric) else item.copied(0, len(item))) for first, item in self._held
        ]

    def bounds_now(self) -> Bounds:
        """The bounds of the present tile; where one begins, made from what the detectors know there."""
        tile = tile_at(self.count)
        begin = self.count // tile * tile
        if self.bounds is None or begin != self._tile:
            self._habit = (self._habit or self._shown > MUCH * tile) and not self._spoke
            bounds = self._make_bounds(self.before)
            slow = self.bounds is not None and self.bounds.slow
            self.bounds = self.usual.widen(bounds, slow) if self._habit else bounds
            self.usual, self._shown, self._spoke, self._tile = Usual(), 0, False, begin
        return self.bounds

    def _show(self, metric: Metric, said: list[Alarm]) -> None:
        self._shown += 1
        self._give(metric, said)

    def _begin(self) -> None:
        """Begins a group or a part where the next record is the first of one."""
        if self.count % group_at(self.count) == 0:
            self._begin_group()
        elif self.count % PART == 0:
            self._part_loud = False

    def _begin_group(self) -> None:
        self.bounds_now()
        self._held, self._loud, self._part_loud = [], False, False

    def _sift(self, metric: Metric, stride: int, said: list[Alarm]) -> None:
        self._begin()
        counted = self._counted(metric)
        self._note(metric)
        if self._part_loud:
            self._show(metric, said)
            return
        self._held.append((self.count, metric))
        if not counted or self.count < self._news or not self._is_quiet(metric, stride):
            self._loud = self._part_loud = True
            self._show_held(said)
        elif (self.count + 1) % (PART if self._loud else group_at(self.count)) == 0:
            self._show(metric, said)
            self._held = []

    def _show_held(self, said: list[Alarm]) -> None:
        """Of the parts that are over the last records, and all of the present one."""
        begin = self.count // PART * PART
        held, self._held = self._held, []
        for first, item in held:
            if isinstance(item, Metric):
                if first >= begin or first % PART == PART - 1:
                    self._show(item, said)
                continue
            for at in range(first | (PART - 1), min(first + len(item), begin), PART):
                self._show(item.metric(at - first), said)
            if first + len(item) > begin:
                for metric in item.metrics(max(0, begin - first), len(item)):
                    self._show(metric, said)

    def _counted(self, metric: Metric) -> bool:
        """Counts equal losses and slow steps; False when the record is one too many of them."""
        bounds, before = self.bounds, self.before
        # a difference, since no two losses are equal that are not finite
        former = before.loss if before is not None else None
        is_same = former is not None and metric.loss is not None and metric.loss - former == 0
        self.same = self.same + 1 if is_same else 0
        if self.count % SLOW_AMONG == 0:
            self.slow = 0
        if bounds is None:
            return True
        good = not news(self.same, bounds)
        if metric.step_time_ms is not None and metric.step_time_ms > bounds.longest:
            self.slow += 1
            good &= self.slow < SLOW_STEPS
        return good

    def _note(self, metric: Metric) -> None:
        """Takes down what the record is like. `bulk` does the same with columns."""
        usual, before = self.usual, self.before
        loss, norm, scale = metric.loss, metric.grad_norm, metric.loss_scale
        if loss is not None and math.isfinite(loss):
            usual.losses(loss, loss)
        else:
            usual.broken = True
        if norm is not None and math.isfinite(norm):
            usual.norms(norm, norm)
        elif norm is not None:
            usual.broken = True
        if scale is not None:
            usual.scales(scale, scale)
        if before is not None and metric.at is not None and before.at is not None:
            usual.gaps(metric.at - before.at, metric.at - before.at)
        moved = move(metric.lr, before.lr if before is not None else None)
        usual.times(metric.step_time_ms or 0.0, self.slow)
        usual.rest(moved, self.same, _starved(metric), (bool(metric.overflow),))

    def _is_quiet(self, metric: Metric, stride: int) -> bool:
        """Whether nothing else about a record stands out. `bulk` says the same of columns."""
        bounds, before = self.bounds, self.before
        if bounds is None or before is None or metric.evaluation or bool(metric.overflow) not in bounds.overflow:
            return False
        loss, norm, scale = metric.loss, metric.grad_norm, metric.loss_scale
        if loss is None or not (bounds.loss_low <= loss <= bounds.loss_high or (bounds.broken and _broken(loss))):
            return False
        if scale is None or bounds.scale_low is None or bounds.scale_high is None:
            if scale is not None or bounds.scale_low is not None:
                return False
        elif not bounds.scale_low <= scale <= bounds.scale_high:
            return False
        if not move(metric.lr, before.lr) <= bounds.moves:
            return False
        if norm is not None and not (bounds.norm_low <= norm <= bounds.norm_high or (bounds.broken and _broken(norm))):
            return False
        if norm is not None and norm > bounds.norm_risen and (before.grad_norm or 0.0) > bounds.norm_rises:
            return False
        if _starved(metric) and not bounds.starved:
            return False
        if metric.at is None or before.at is None:
            return False
        gap = metric.at - before.at
        return gap == stride > 0 if bounds.gaps is None else bounds.gaps[0] <= gap <= bounds.gaps[1]


def _broken(value: float) -> bool:
    return not math.isfinite(value)


def _starved(metric: Metric) -> bool:
    wait, time = metric.data_time_ms, metric.step_time_ms
    return wait is not None and (time is None or wait > STARVED * time)
