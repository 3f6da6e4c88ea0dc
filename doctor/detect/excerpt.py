"""A handful of step lines that somebody shows: too few for the detectors, but shown because something is wrong with them.

Only what a person would see at a glance is said, with low confidence: numbers that are not finite, gradients that are
zero, a loss that multiplies or never moves, steps that take longer and longer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Optional

from doctor.detect.alarm import Alarm, number, seen
from doctor.finding import Text
from doctor.records.record import Metric

#: more lines than this are a log, and the detectors' business
MOST = 40
CONFIDENCE = 0.6
#: the loss is this many times its smallest value before, and this much above it
MULTIPLIED = 4.0
ABOVE = 2.0
#: a step takes this many times as long as the first that is shown, rising each time
SLOWER = 2.5
_SECONDS_PER_STEP = re.compile(r"(\d+(?:\.\d+)?) ?(ms|s)/(?:step|it|iter)\b")


def judge_excerpt(metrics: Sequence[Metric]) -> list[Alarm]:
    """Alarms for a few step lines of one stream, in the order in which they stand."""
    rows = [metric for metric in metrics if not metric.evaluation]
    if not 2 <= len(rows) <= MOST:
        return []
    found = [*_norms(rows), *_losses(rows), *_times(rows)]
    return found[:2]


def _norms(rows: Sequence[Metric]) -> Iterator[Alarm]:
    with_norm = [(row, row.grad_norm) for row in rows if row.grad_norm is not None]
    bad = [row for row, norm in with_norm if not math.isfinite(norm)]
    if len(bad) >= 2 and len(bad) == len(with_norm):
        yield _alarm(
            "RUN-NAN-003",
            bad[0],
            "grad_norm",
            Text(
                f"The gradient norm is {bad[0].grad_norm} in all {len(bad)} steps that are shown: no update can be right.",
                f"所示 {len(bad)} 步的梯度范数均为 {bad[0].grad_norm}，参数更新已无意义。",
            ),
        )
    zero = [row for row, norm in with_norm if norm == 0.0]
    if len(zero) >= 2 and len(zero) == len(with_norm):
        yield _alarm(
            "RUN-GRAD-001",
            zero[0],
            "grad_norm",
            Text(
                f"The gradient norm is 0 in all {len(zero)} steps that are shown: nothing is learned.",
                f"所示 {len(zero)} 步的梯度范数均为 0，模型没有在学习。",
            ),
        )


def _losses(rows: Sequence[Metric]) -> Iterator[Alarm]:
    losses = [(row, row.loss) for row in rows if row.loss is not None and math.isfinite(row.loss)]
    if len(losses) < 2:
        return
    best = losses[0][1]
    for row, loss in losses[1:]:
        if loss > MULTIPLIED * abs(best) and loss - best > ABOVE:
            last = losses[-1][1]
            stays = last > MULTIPLIED / 2 * abs(best)
            yield _alarm(
                "RUN-LOSS-001" if stays else "RUN-LOSS-002",
                row,
                "loss",
                Text(
                    f"The loss goes from {number(best)} to {number(loss)}.",
                    f"损失从 {number(best)} 升到 {number(loss)}。",
                ),
                ("before", number(best)),
                ("value", number(loss)),
            )
            return
        best = min(best, loss)
    moved = {loss for _, loss in losses}
    rates = {row.lr for row in rows if row.lr is not None}
    if len(losses) >= 3 and len(moved) == 1 and len(rates) > 1:
        yield _alarm(
            "RUN-LOSS-006",
            losses[0][0],
            "loss",
            Text(
                f"The loss is {number(losses[0][1])} in each of the {len(losses)} steps that are shown.",
                f"所示 {len(losses)} 步的损失始终为 {number(losses[0][1])}。",
            ),
            ("value", number(losses[0][1])),
        )


def _times(rows: Sequence[Metric]) -> Iterator[Alarm]:
    times = [(row, _milliseconds(row)) for row in rows]
    known = [(row, time) for row, time in times if time is not None and time > 0]
    if len(known) < 3 or len(known) < len(rows):
        return
    rising = all(later > earlier for (_, earlier), (_, later) in zip(known, known[1:]))
    if rising and known[-1][1] > SLOWER * known[0][1]:
        yield _alarm(
            "RUN-TIME-001",
            known[-1][0],
            "step_time_ms",
            Text(
                f"A step took {number(known[0][1])} ms at first and takes {number(known[-1][1])} ms now.",
                f"单步耗时从 {number(known[0][1])} ms 增加到 {number(known[-1][1])} ms。",
            ),
        )


def _milliseconds(row: Metric) -> Optional[float]:
    if row.step_time_ms is not None:
        return row.step_time_ms
    found = _SECONDS_PER_STEP.search(row.text)
    if found is None:
        return None
    return float(found.group(1)) * (1.0 if found.group(2) == "ms" else 1000.0)


def _alarm(rule: str, row: Metric, key: str, message: Text, *values: tuple[str, object]) -> Alarm:
    step = row.at if row.at is not None else "?"
    return Alarm(
        "opened", rule, row.at, (seen(row, key),), (("step", step), *values), confidence=CONFIDENCE, message=message
    )
