"""What the screen keeps of a run: a curve a metric, the last step of every rank. Bounded, however long the run is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING, NamedTuple, Optional

from doctor.finding import Text
from doctor.tui.plot import Curve

if TYPE_CHECKING:
    from doctor.detect.facts import RunFacts
    from doctor.records.block import MetricBlock
    from doctor.records.record import Metric

METRICS = ("loss", "grad_norm", "lr", "loss_scale", "step_time_ms", "throughput", "memory_mb")
#: ranks whose curves are kept, and points of each; the first one's has more
MOST_RANKS, POINTS = 32, 192
#: parts of a block of records, each a point of the curves
PARTS = 8
#: a rank is odd when its step takes this much longer than the median rank's
SLOW = 1.5
#: steps that logs of healthy ranks may be apart: they are flushed at different moments
APART = 2


class Odd(NamedTuple):
    """A rank that differs from the others, and in what."""

    rank: int
    sign: str
    why: Text


class RunView:
    """`ranks` holds the last step record of each rank; of the first `MOST_RANKS` the curves are kept too. `lead` is the
    rank that was seen first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        #: of the session whose records these are
        self.facts: Optional[RunFacts] = None
        self._curves: dict[Optional[int], dict[str, Curve]] = {}
        self._none = {name: Curve() for name in METRICS}
        self.ranks: dict[Optional[int], Metric] = {}
        self.lead: Optional[int] = None
        #: when and at which step the watch began, for the pace where the log prints none
        self.started: Optional[tuple[float, int]] = None

    def add(self, metric: Metric) -> None:
        curves = self._meet(metric)
        if curves is None or metric.at is None:
            return
        for name in METRICS:
            value = getattr(metric, name)
            if value is not None:
                curves[name].add(metric.at, float(value))

    def add_block(self, block: MetricBlock) -> None:
        """Records that were read together, part by part: of each the spread of the values counts."""
        if len(block) < 2 * PARTS or "summary" in block.columns or "evaluation" in block.columns:
            for metric in block:
                self.add(metric)
            return
        begin = 0
        for part in range(1, PARTS + 1):
            end = len(block) * part // PARTS
            last = block.metric(end - 1)
            curves = self._meet(last)
            if curves is not None and last.at is not None:
                for name in METRICS:
                    column = block.column(name)
                    if column is not None:
                        curves[name].add_all(last.at, column[begin:end].tolist())
            begin = end

    def _meet(self, metric: Metric) -> Optional[dict[str, Curve]]:
        """Takes the record as the last one of its rank. Gives the curves that its values belong to."""
        if metric.summary or metric.evaluation:
            return None
        if not self.ranks:
            self.lead = metric.rank
        self.ranks[metric.rank] = metric
        if metric.at is None:
            return None
        if self.started is None and metric.rank == self.lead:
            self.started = (self.clock(), metric.at)
        curves = self._curves.get(metric.rank)
        if curves is None and len(self._curves) < MOST_RANKS:
            size = 512 if metric.rank == self.lead else POINTS
            curves = self._curves[metric.rank] = {name: Curve(size) for name in METRICS}
        return curves

    def curves_of(self, rank: Optional[int] = None) -> dict[str, Curve]:
        """The curves of a rank, by metric; of the first one when `rank` is None or its are not kept."""
        return self._curves.get(rank) or self._curves.get(self.lead) or self._none

    def next_rank(self, rank: Optional[int]) -> Optional[int]:
        """The rank to show after `rank` (None: the first one): those that differ from the others come first."""
        known = [item.rank for item in self.odd() if item.rank in self._curves]
        known += [other for other in sorted(r for r in dict(self._curves) if r is not None) if other not in known]
        if not known:
            return None
        return known[(known.index(rank) + 1) % len(known)] if rank in known else known[0]

    @property
    def last(self) -> Optional[Metric]:
        return self.ranks.get(self.lead)

    @property
    def total(self) -> Optional[int]:
        """Steps of the whole run, where the log tells."""
        last = self.last
        if last is None:
            return None
        return last.announced if self.facts is None else self.facts.announced(last)

    def seconds_left(self) -> Optional[float]:
        """By the median of the step times that the run prints, else by the pace since the watch began; None when the
        log does not say how many steps there are."""
        last, total = self.last, self.total
        if last is None or total is None or last.at is None or last.at >= total:
            return None
        times = [(low + high) / 2 for _, low, high in self.curves_of()["step_time_ms"].points[-32:]]
        if times:
            return (total - last.at) * median(times) / 1000
        if self.started is None or last.at <= self.started[1]:
            return None
        return (total - last.at) * (self.clock() - self.started[0]) / (last.at - self.started[1])

    def odd(self) -> list[Odd]:
        """Ranks that differ from the others: no finite loss where others have one, steps behind, slow steps."""
        # a copy: the worker that reads may meet a new rank meanwhile
        ranks = dict(self.ranks)
        known = {rank: metric for rank, metric in sorted(ranks.items(), key=_rank) if rank is not None}
        if len(known) < 2:
            return []
        ahead = max(metric.at or 0 for metric in known.values())
        usual = _usual([metric.step_time_ms for metric in known.values()])
        broken = {rank for rank, metric in known.items() if metric.loss is not None and not math.isfinite(metric.loss)}
        found = []
        for rank, metric in known.items():
            behind = ahead - (metric.at or 0)
            if rank in broken and len(broken) < len(known):
                found.append(Odd(rank, "x", Text(f"loss {metric.loss}", f"损失 {metric.loss}")))
            elif behind > APART:
                found.append(Odd(rank, "<", Text(f"{behind} steps behind", f"落后 {behind} 步")))
            elif usual and metric.step_time_ms and metric.step_time_ms > SLOW * usual:
                times = metric.step_time_ms / usual
                found.append(Odd(rank, "~", Text(f"{times:.1f}x slower", f"慢 {times:.1f} 倍")))
        return found


def _rank(item: tuple[Optional[int], object]) -> int:
    return -1 if item[0] is None else item[0]


def _usual(values: list[Optional[float]]) -> Optional[float]:
    known = [value for value in values if value]
    return median(known) if len(known) > 2 else None
