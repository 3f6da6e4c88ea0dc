"""Where two curves part: on curves drawn from formulas, whose difference is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.compare.parting import Parting, parting
from doctor.session.history import Points, Series


def curve(values: np.ndarray, first: int = 1, every: int = 1) -> Points:
    series = Series()
    series.add(np.arange(first, first + len(values) * every, every, dtype=np.int64), values.astype(np.float64))
    return series.points()


def falling(count: int, noise: float = 0.05, seed: int = 0) -> np.ndarray:
    steps = np.arange(count)
    return 2 + 4 * np.exp(-steps / 150) + np.random.default_rng(seed).normal(0, noise, count)


def parted(a: Points, b: Points, tokens: tuple[int, int] | None = None) -> Parting:
    found = parting(a, b, tokens)
    assert found is not None
    return found


def test_the_same_numbers_are_identical() -> None:
    values = falling(300)
    found = parted(curve(values), curve(values))
    assert found.identical and found.at is None and not found.apart and found.up_to == 300


def test_runs_that_are_equal_until_something_differs_part_there() -> None:
    values = falling(400)
    other = values.copy()
    other[200:] += np.linspace(0.0, 1.5, 200)
    found = parted(curve(values), curve(other))
    assert found.same_until is not None and 199 <= found.same_until <= 202
    assert found.at is not None and 200 <= found.at <= 230
    assert found.apart and found.b > found.a


@pytest.mark.parametrize("seed", range(12))
def test_other_data_of_the_same_run_is_no_parting(seed: int) -> None:
    found = parted(curve(falling(500, seed=seed)), curve(falling(500, seed=seed + 100)))
    assert found.at is None and not found.apart and found.first_difference == 1


@pytest.mark.parametrize(("begin", "by"), [(100, 0.3), (300, 0.4), (0, 0.5)])
def test_a_lasting_shift_is_found_near_where_it_begins(begin: int, by: float) -> None:
    other = falling(500, seed=7)
    other[begin:] += by
    found = parted(curve(falling(500, seed=3)), curve(other))
    assert found.at is not None and abs(found.at - begin) <= 30
    assert found.apart and found.b - found.a == pytest.approx(by, abs=0.08)


def test_a_passing_spike_is_no_parting() -> None:
    other = falling(500, seed=7)
    other[200:206] += 6
    found = parted(curve(falling(500, seed=3)), curve(other))
    assert found.at is None and not found.apart


def test_equal_tokens_are_compared_where_batches_differ() -> None:
    """The same loss as a function of tokens: a batch of half the size takes twice the steps."""
    tokens_a, tokens_b = np.arange(1, 201) * 512, np.arange(1, 401) * 256
    a, b = (2 + 4 * np.exp(-tokens / 30_000) for tokens in (tokens_a, tokens_b))
    assert parted(curve(a), curve(b), (512, 256)).apart is False
    at_equal_steps = parted(curve(a), curve(b))
    assert at_equal_steps.apart and at_equal_steps.b > at_equal_steps.a


def test_a_log_of_each_tenth_step_is_compared_with_one_of_every_step() -> None:
    values = falling(400, noise=0.0)
    assert parted(curve(values), curve(values[9::10], first=10, every=10)).apart is False


def test_too_little_in_common_says_nothing() -> None:
    assert parting(curve(falling(50)), curve(falling(50), first=1000)) is None


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-1e6, 1e6, allow_nan=False), min_size=3, max_size=60),
    st.lists(st.floats(-1e6, 1e6, allow_nan=False), min_size=3, max_size=60),
)
def test_any_curves_give_an_answer_that_is_the_same_the_other_way_round(one: list[float], other: list[float]) -> None:
    there = parted(curve(np.array(one)), curve(np.array(other)))
    back = parted(curve(np.array(other)), curve(np.array(one)))
    assert (there.at, there.apart, there.first_difference) == (back.at, back.apart, back.first_difference)
    assert (there.a, there.b) == (back.b, back.a)
