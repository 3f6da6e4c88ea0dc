"""No number that a log can hold ends the watch: zeros, signs, infinities, the smallest and the largest."""

from __future__ import annotations

import math
from typing import Any, Optional

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.detect.facts import RunFacts
from doctor.detect.stream import RankStream
from doctor.records.record import Metric

NUMBERS = st.one_of(
    st.none(),
    st.sampled_from([0.0, -0.0, 1.0, 65536.0, math.inf, -math.inf, math.nan, 5e-324, 1e308, -1e308]),
    st.floats(0, 1e-2).map(lambda value: round(value, 3)),
    st.floats(allow_nan=True, allow_infinity=True),
)
#: some steps with the same numbers, then others: as runs are that break
REGIMES = st.lists(
    st.tuples(st.integers(1, 40), NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.sampled_from([None, False, True])),
    min_size=1,
    max_size=8,
)


def metric(step: int, loss: Optional[float], **values: object) -> Metric:
    return Metric(source="x.log", line=step, offset=0, rank=0, step=step, loss=loss, **values)  # type: ignore[arg-type]


@settings(max_examples=150, deadline=None)
@given(REGIMES)
def test_any_numbers_are_taken(regimes: list[Any]) -> None:
    stream = RankStream("x.log", 0, RunFacts())
    step = 0
    for count, loss, rate, norm, scale, time, overflow in regimes:
        for _ in range(count):
            step += 1
            values = {"lr": rate, "grad_norm": norm, "loss_scale": scale, "step_time_ms": time, "overflow": overflow}
            for alarm in stream.feed(metric(step, loss, **values)):
                assert alarm.kind in ("opened", "updated", "resolved")
        stream.tick(float(step))
    stream.end()


@pytest.mark.parametrize("zeros", [20, 60, 130])
def test_a_loss_that_begins_at_nothing_and_grows_is_no_fault(zeros: int) -> None:
    """GRPO with a penalty on the distance from the reference: 0.0000 at first, then what the distance costs."""
    stream = RankStream("x.log", 0, RunFacts())
    said = [
        alarm.rule
        for step in range(1, 300)
        for alarm in stream.feed(metric(step, round(max(0, step - zeros) * 2e-5, 4), grad_norm=0.2 + step % 7 / 50))
    ]
    assert "RUN-LOSS-001" not in said and "RUN-LOSS-002" not in said
