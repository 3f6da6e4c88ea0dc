"""Ranks compared with each other: one that drifts away, one that is slow, one that alone has no number.

The streams of ranks arrive in any order, so that each keeps what is compared: its losses step by step at the
beginning and in blocks later on, in bounded memory. `judge` compares what all of them have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Optional

from doctor.detect.alarm import Alarm, message, number
from doctor.detect.window import mean, median, noise
from doctor.finding import Evidence
from doctor.records.record import Metric

#: values kept of one rank; when they are full, neighbours are merged
POINTS = 1024
#: losses that agree this well are the same number, computed twice (sums in another order)
EQUAL = 2e-3
#: points that must agree before a drift can be said, and that must differ to say it
AGREED, APART = 12, 6
#: share of the points before that must have agreed: losses of their own batches, too, are equal now and then
MOSTLY = 0.9
#: share of the loss that two ranks must have gone down together before one can be said to have left the other
MOVED = 0.05
#: points before and after a rank leaves the others, when each prints the loss of its own batches; how far it must have
#: gone, in sigmas of its distance, as a share of the level and in standard errors; and ranks that are compared like this
OWN_BEFORE, OWN_AFTER = 12, 8
OWN_SIGMAS, OWN_SHARE, OWN_SURELY = 2.5, 0.05, 8.0
MOST_COMPARED = 64
#: a rank slower than the median of the others by this factor, over this many points
SLOW, SLOW_POINTS = 1.5, 12
#: the last points that are looked at
SLOW_LAST = 16
#: and by this many times the scatter of its own steps
APART_JITTER = 2.0


class RankCurve:
    """Losses and step times of one rank on a grid of steps that is the same for all ranks."""

    def __init__(self, source: str, rank: Optional[int], limit: int = POINTS) -> None:
        self.source = source
        self.rank = rank
        #: points kept at most; may be lowered later, with the same result as if it had always been lower
        self.limit = limit
        self.stride = 1
        #: grid position -> (step, loss, step time, line, offset)
        self.points: dict[int, tuple[int, Optional[float], Optional[float], int, int]] = {}
        self.bad: Optional[Evidence] = None

    def add(self, metric: Metric) -> None:
        step = metric.at
        if step is None or metric.evaluation:
            return
        loss = metric.loss
        if loss is not None and not math.isfinite(loss):
            if self.bad is None:
                self.bad = Evidence(
                    "metric",
                    metric.source,
                    line=metric.line,
                    offset=metric.offset,
                    key="loss",
                    text=message(metric.text),
                    rank=metric.rank,
                    step=step,
                    observed=loss,
                )
            loss = None
        if step % self.stride == 0:
            self.put(step, loss, metric.step_time_ms, metric.line, metric.offset)

    def put(self, step: int, loss: Optional[float], time: Optional[float], line: int, offset: int) -> None:
        """A point at a step that is on the grid."""
        self.points[step // self.stride] = (step, loss, time, line, offset)
        if len(self.points) > self.limit:
            self.shrink(self.limit)

    def shrink(self, limit: int) -> None:
        """Keeps every second point until at most `limit` are left."""
        self.limit = limit
        while len(self.points) > limit:
            self.stride *= 2
            self.points = {at // 2: point for at, point in self.points.items() if at % 2 == 0}

    def on_grid(self, stride: int) -> dict[int, tuple[int, Optional[float], Optional[float], int, int]]:
        """The points on a grid as coarse as the coarsest of the ranks."""
        factor = stride // self.stride
        return {at // factor: point for at, point in self.points.items() if at % factor == 0}

    def evidence(self, at: int, stride: int, key: str, expected: object) -> Evidence:
        step, loss, time, line, offset = self.on_grid(stride)[at]
        return Evidence(
            "metric",
            self.source,
            line=line,
            offset=offset,
            key=key,
            rank=self.rank,
            step=step,
            observed=loss if key == "loss" else time,
            expected=expected,
        )


def judge(curves: Sequence[RankCurve]) -> list[Alarm]:
    """What stands out when the ranks are compared. Pure: equal curves give equal alarms, in the order of ranks."""
    ranked = sorted((curve for curve in curves if curve.rank is not None), key=lambda curve: (curve.rank, curve.source))
    seen: dict[Optional[int], RankCurve] = {}
    for curve in ranked:
        best = seen.get(curve.rank)
        if best is None or len(curve.points) > len(best.points):
            seen[curve.rank] = curve
    unique = list(seen.values())
    if len(unique) < 2:
        return []
    return [*_alone(unique), *(_drift(unique) or _left(unique)), *_slow(unique)]


def _alone(curves: Sequence[RankCurve]) -> list[Alarm]:
    """One rank without a number while the others have one at the same step and later."""
    bad = [curve for curve in curves if curve.bad is not None]
    if not bad:
        return []
    first = min(bad, key=lambda curve: (curve.bad.step or 0, curve.rank) if curve.bad else (0, 0))
    line = first.bad
    assert line is not None and line.step is not None
    onset = line.step
    well = 0
    for curve in curves:
        if curve is first:
            continue
        if curve.bad is not None and (curve.bad.step or 0) <= onset + 1:
            return []
        if any(step >= onset and loss is not None for step, loss, *_ in curve.points.values()):
            well += 1
    if not well or (len(bad) > 1 and len(bad) > len(curves) // 2):
        return []
    values = (("rank", first.rank), ("step", onset), ("value", str(line.observed)), ("others", well))
    return [Alarm("opened", "RUN-NAN-002", onset, (line,), values)]


def _drift(curves: Sequence[RankCurve]) -> list[Alarm]:
    """Losses that agreed to the last digits and then no longer do.

    Ranks that print the loss of their own batch never agree; those of other pipeline stages print zero.
    """
    stride = max(curve.stride for curve in curves)
    grids = [(curve, curve.on_grid(stride)) for curve in curves]
    grids = [(curve, grid) for curve, grid in grids if any(point[1] for point in grid.values())]
    if len(grids) < 2:
        return []
    shared = sorted(set.intersection(*(set(grid) for _, grid in grids)))
    agreed, apart, onset, before = 0, 0, -1, 0
    moved = _Range()
    for at in shared:
        losses = [grid[at][1] for _, grid in grids]
        known = [loss for loss in losses if loss is not None]
        if len(known) < len(losses):
            continue
        middle = _centre(known)
        spread = max(abs(loss - middle) for loss in known)
        before += 1
        if spread <= EQUAL * max(abs(middle), 1e-6):
            agreed, apart = agreed + 1, 0
            moved.add(middle)
        elif not _most_agree(known, middle) or (len(known) == 2 and moved.share < MOVED):
            # Each for itself: ranks that print the loss of their own batch, all alike while the model only guesses.
            agreed, apart, before = 0, 0, 0
        elif agreed >= AGREED and agreed >= MOSTLY * (before - apart - 1):
            apart += 1
            onset = at if apart == 1 else onset
        if apart >= APART:
            return [_drifted(grids, at, onset, stride)]
    return []


def _middles_of_others(values: Sequence[float]) -> list[float]:
    """For each value the median of all but it; two values or more."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ordered = [values[index] for index in order]
    middle = (len(values) - 1) // 2
    out = [0.0] * len(values)
    for place, index in enumerate(order):
        high = ordered[middle + (place <= middle)]
        if len(values) % 2 == 0:
            out[index] = high
        else:
            low = ordered[middle - 1 + (place <= middle - 1)]
            out[index] = 0.5 * (low + high)
    return out


def _left(curves: Sequence[RankCurve]) -> list[Alarm]:
    """Ranks print the loss of their own batches, and that of one leaves the level of the others for good.

    Of each rank its distance from the median of the others is taken, step by step; a rank whose data are harder has
    one from the start. What is judged is how the distance at the end differs from what it was before.
    """
    stride = max(curve.stride for curve in curves)
    grids = [(curve, curve.on_grid(stride)) for curve in curves]
    grids = [(curve, grid) for curve, grid in grids if any(point[1] for point in grid.values())]
    if not 3 <= len(grids) <= MOST_COMPARED:
        return []
    shared = sorted(set.intersection(*(set(grid) for _, grid in grids)))
    shared = [at for at in shared if all(grid[at][1] is not None for _, grid in grids)]
    if len(shared) < OWN_BEFORE + OWN_AFTER:
        return []
    table = [[grid[at][1] or 0.0 for at in shared] for _, grid in grids]
    found: Optional[tuple[float, int, int, float]] = None
    others = list(zip(*(_middles_of_others(column) for column in zip(*table))))
    for index, own in enumerate(table):
        rest = others[index]
        gaps = [mine - theirs for mine, theirs in zip(own, rest)]
        for count in (OWN_AFTER, 2 * OWN_AFTER, 4 * OWN_AFTER):
            if len(gaps) < count + OWN_BEFORE:
                break
            before, after = gaps[:-count], gaps[-count:]
            sigma = max(noise(before), 1e-9)
            shift = mean(after) - mean(before)
            surely = shift / (sigma * (1 / count + 1 / len(before)) ** 0.5)
            large = OWN_SIGMAS * sigma < shift > OWN_SHARE * abs(mean(rest[-count:]))
            above = sum(gap > mean(before) for gap in after)
            if large and surely > OWN_SURELY and above > 0.9 * count and (found is None or surely > found[0]):
                found = (surely, index, len(gaps) - count, mean(rest[-count:]))
    if found is None:
        return []
    _, index, begin, usual = found
    curve, grid = grids[index]
    at, last = shared[begin], shared[-1]
    other = grids[0 if index else 1][0]
    step = grid[at][0]
    return [
        Alarm(
            "opened",
            "RUN-RANK-001",
            step,
            (
                curve.evidence(last, stride, "loss", f"about {number(usual)}"),
                other.evidence(last, stride, "loss", None),
            ),
            (
                ("rank", curve.rank),
                ("step", step),
                ("now", grid[last][0]),
                ("value", number(grid[last][1])),
                ("before", number(usual)),
            ),
            confidence=0.75,
        )
    ]


class _Range:
    """How far the loss moved while the ranks agreed, as a share of its highest value."""

    def __init__(self) -> None:
        self.low, self.high = float("inf"), 0.0

    def add(self, value: float) -> None:
        self.low, self.high = min(self.low, value), max(self.high, value)

    @property
    def share(self) -> float:
        return (self.high - self.low) / self.high if self.high > 0 else 0.0


def _most_agree(losses: Sequence[float], middle: float) -> bool:
    """Whether more than half of the ranks, where there are three or more, are still together."""
    near = sum(1 for loss in losses if abs(loss - middle) <= EQUAL * max(abs(middle), 1e-6))
    return len(losses) == 2 or 2 * near > len(losses)


def _centre(losses: Sequence[float]) -> float:
    """The value that most agree on: of two ranks the lower one's, else the median."""
    return losses[0] if len(losses) == 2 else median(losses)


def _drifted(
    grids: Sequence[tuple[RankCurve, dict[int, tuple[int, Optional[float], Optional[float], int, int]]]],
    at: int,
    onset: int,
    stride: int,
) -> Alarm:
    losses = [grid[at][1] or 0.0 for _, grid in grids]
    middle = _centre(losses)
    odd = max(range(len(grids)), key=lambda index: abs(losses[index] - middle))
    curve = grids[odd][0]
    other = grids[0][0] if odd else grids[1][0]
    step = grids[odd][1][onset][0]
    return Alarm(
        "opened",
        "RUN-RANK-001",
        step,
        (
            curve.evidence(onset, stride, "loss", number(grids[0 if odd else 1][1][onset][1])),
            other.evidence(onset, stride, "loss", None),
        ),
        (
            ("rank", curve.rank),
            ("step", step),
            ("now", grids[odd][1][at][0]),
            ("value", number(losses[odd])),
            ("before", number(middle)),
        ),
        confidence=0.8 if len(grids) > 2 else 0.7,
    )


def _slow(curves: Sequence[RankCurve]) -> list[Alarm]:
    """A rank whose own steps take longer than those of all others."""
    stride = max(curve.stride for curve in curves)
    grids = [(curve, curve.on_grid(stride)) for curve in curves]
    times = {
        index: [grid[at][2] for at in sorted(grid) if grid[at][2] is not None][3:]
        for index, (_, grid) in enumerate(grids)
    }
    usable = {index: values[-SLOW_LAST:] for index, values in times.items() if len(values) >= SLOW_POINTS}
    if len(usable) < 3:
        return []
    middles = {index: median([value for value in values if value is not None]) for index, values in usable.items()}
    worst = max(middles, key=lambda index: (middles[index], -index))
    rest = [value for index, value in middles.items() if index != worst]
    usual = median(rest)
    jitter = noise([value for value in usable[worst] if value is not None])
    if usual <= 0 or middles[worst] < SLOW * max(rest) or middles[worst] - usual < APART_JITTER * jitter:
        return []
    curve, grid = grids[worst]
    at = max(key for key, point in grid.items() if point[2] is not None)
    since = next(
        (grid[key][0] for key in sorted(grid) if (grid[key][2] or 0) > SLOW * usual and key > min(grid)), grid[at][0]
    )
    return [
        Alarm(
            "opened",
            "RUN-TIME-004",
            since,
            (curve.evidence(at, stride, "step_time_ms", f"about {number(usual)}"),),
            (("rank", curve.rank), ("value", number(middles[worst])), ("before", number(usual)), ("step", since)),
        )
    ]
