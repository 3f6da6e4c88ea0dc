"""Curves in bounded memory: nothing that stands out may be lost, whatever the length and the cut of the log."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.match.pack import load_pack
from doctor.records.metrics import MetricReader
from doctor.records.record import Chunk, Metric
from doctor.session.history import History, Series
from doctor.session.recorded import recorded


def test_short_curves_are_kept_whole() -> None:
    series = Series()
    series.add(np.arange(1, 101), np.arange(100.0))
    points = series.points()
    assert points.stride == 1 and points.steps.tolist() == list(range(1, 101))
    assert points.mean.tolist() == points.low.tolist() == points.first.tolist() == list(range(100))


def test_a_spike_in_a_million_steps_is_still_there() -> None:
    series = Series(limit=1024)
    values = np.full(1_000_000, 2.0)
    values[654_321] = 99.0
    for part in np.split(np.arange(1_000_000), 20):
        series.add(part, values[part])
    points = series.points()
    assert len(points) <= 1024
    at = int(points.high.argmax())
    assert points.high[at] == 99.0 and points.steps[at] <= 654_321 < points.steps[at] + points.stride
    assert points.low.min() == 2.0 and len(series.points(100)) <= 100


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=300),
    st.integers(1, 60),
    st.integers(4, 64),
)
def test_how_the_log_was_cut_changes_nothing(values: list[float], size: int, limit: int) -> None:
    steps, numbers = np.arange(len(values), dtype=np.int64), np.array(values)
    whole, cut = Series(limit), Series(limit)
    whole.add(steps, numbers)
    for begin in range(0, len(values), size):
        cut.add(steps[begin : begin + size], numbers[begin : begin + size])
    one, other = whole.points(), cut.points()
    assert one.stride == other.stride and one.steps.tolist() == other.steps.tolist()
    assert one.low.tolist() == other.low.tolist() and one.high.tolist() == other.high.tolist()
    assert float(one.low.min()) == min(values) and float(one.high.max()) == max(values)
    assert np.allclose(one.mean, other.mean)


def test_what_is_no_number_is_counted_and_not_drawn() -> None:
    series = Series()
    series.add(np.array([1, 2, 3]), np.array([1.0, np.nan, np.inf]))
    assert (series.bad, series.bad_at, len(series)) == (2, 2, 1)


def test_a_run_that_goes_back_leaves_a_piece_behind() -> None:
    series = Series()
    series.add(np.array([1, 2, 3, 4]), np.array([5.0, 4.0, 9.0, 9.0]))
    series.add(np.array([3, 4, 5]), np.array([3.0, 2.0, 1.0]))
    assert series.points().mean.tolist() == [5.0, 4.0, 3.0, 2.0, 1.0]
    assert [piece.mean.tolist() for piece in series.left] == [[9.0, 9.0]]


def test_blocks_and_single_records_make_the_same_curves() -> None:
    rows = [
        {
            "event": "metric", "rank": 0, "epoch": 1, "step": n, "global_step": n, "loss": round(6 - n / 900, 6),
            "overflow": n % 7 == 0, "step_time_ms": 26.0 + n % 5, "memory_mb": 634.7,
        }
        for n in range(1, 2001)
    ]  # fmt: skip
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    reader, one, other = MetricReader(), History(), History()
    for begin in range(0, len(text), 1 << 16):
        end = begin + (1 << 16)
        begin, end = (text.rfind(b"\n", 0, begin) + 1 if begin else 0), (text.rfind(b"\n", 0, end) + 1)
        chunk = Chunk("metrics/rank_0.jsonl", text[begin:end], begin, text.count(b"\n", 0, begin) + 1, 0)
        for item in reader.read(chunk).records:
            if isinstance(item, Metric):
                one.metric(item)
                other.metric(item)
            else:
                one.block(item)
                for metric in item:
                    other.metric(metric)
    (left,), (right,) = one.ready(), other.ready()
    assert left.records == right.records == 2000 and left.overflows == right.overflows == 285
    assert left.last_step == 2000 and left.typical("step_time_ms") == right.typical("step_time_ms")
    for name in ("loss", "step_time_ms", "memory_mb"):
        a, b = left.points(name), right.points(name)
        assert a is not None and b is not None
        assert a.steps.tolist() == b.steps.tolist() and a.mean.tolist() == b.mean.tolist()


def test_a_run_that_ends_within_an_epoch_has_made_all_its_steps(tmp_path: Path) -> None:
    """40 steps of epochs that have 64, of which two are announced."""
    (tmp_path / "log").mkdir()
    lines = [
        f"2026-03-01 10:00:{step % 60:02d},000 - mindformers/log[mindformers/core/callback/callback.py:616] - INFO - "
        f"{{ Epoch:[  1/  2], step:[{step:5d}/   64], loss:[{3 - step / 50:.4f}/{3 - step / 50:.4f}], per_step_time: 120ms }}\n"
        for step in range(1, 41)
    ]
    (tmp_path / "log" / "rank_0.log").write_text("".join(lines))
    (tmp_path / "config.yaml").write_text("training_args:\n  max_steps: 40\n")
    ending = recorded(str(tmp_path), load_pack()).ending
    assert (ending.state, ending.step, ending.of) == ("complete", 40, 40)
