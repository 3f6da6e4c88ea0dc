"""Records in blocks, however they are cut, are judged as the same records one by one."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from doctor.detect import sieve
from doctor.detect.bulk import feed_block
from doctor.detect.facts import RunFacts
from doctor.detect.stream import RankStream
from doctor.records.block import MetricBlock
from doctor.records.columns import Floats
from doctor.records.record import Metric

RECORDS = 4000


def _columns(rng: random.Random) -> dict[str, Floats]:
    """A run with some spikes, slow steps, equal losses, and perhaps a restart, a gap or a second epoch."""
    noise = np.random.default_rng(rng.randrange(1 << 30))
    step = np.arange(1.0, RECORDS + 1)
    columns = {
        "loss": 2 + 8 / (1 + step / 500) + noise.normal(0, rng.choice([0.02, 0.1]), RECORDS),
        "grad_norm": noise.lognormal(0, 0.3, RECORDS),
        "step_time_ms": noise.lognormal(6.9, 0.1, RECORDS),
        "lr": 1e-4 * (1 - step / (2 * RECORDS)),
        "loss_scale": np.full(RECORDS, 65536.0),
    }
    columns["data_time_ms"] = columns["step_time_ms"] * 0.01
    for name, factors in (
        ("loss", (0.0, 1.5, 3.0, np.nan)),
        ("grad_norm", (6.0, 20.0)),
        ("step_time_ms", (2.0, 4.0)),
        ("data_time_ms", (70.0,)),
        ("loss_scale", (0.5,)),
    ):
        for _ in range(rng.randrange(4)):
            first, length = rng.randrange(RECORDS), rng.choice([1, 3, 7, 20, 80])
            columns[name][first : first + length] *= rng.choice(factors)
    first = rng.randrange(RECORDS)
    columns["loss"][first : first + rng.choice([1, 5, 9])] = columns["loss"][first]
    if rng.random() < 0.5:
        step[rng.randrange(RECORDS) :] += rng.choice([-900, -50, -3, 1, 5])
    columns["step"] = step
    if rng.random() < 0.5:
        columns["global_step"] = step
    else:
        columns["epoch"] = 1 + np.floor(np.arange(RECORDS) / 1500)
        columns["epoch"][rng.randrange(RECORDS) :] -= rng.choice([0, 1])
    return columns


def _odd(rng: random.Random, columns: dict[str, Floats]) -> None:
    """Makes something of the run stand out nearly always, at least in a part of it."""
    noise = np.random.default_rng(rng.randrange(1 << 30))
    first = rng.choice([0, 0, 1500])
    part = slice(first, rng.choice([RECORDS, RECORDS, 3000]))
    for kind in rng.sample(("loss", "same", "norm", "rate", "scale", "gaps", "nan", "overflow", "wait", "slow"), 2):
        size = len(columns["loss"][part])
        if kind == "loss":
            columns["loss"][part] = noise.uniform(0.5, 6, size)
        elif kind == "same":
            columns["loss"][part] = np.round(columns["loss"][part], 1)
        elif kind == "norm":
            columns["grad_norm"][part] = rng.choice([np.nan, noise.lognormal(0, 1.5, size)])
        elif kind == "rate":
            columns["lr"][part] = rng.choice([0.0, noise.uniform(0, 1, size)])
        elif kind == "scale":
            columns["loss_scale"][part] = 2.0 ** noise.integers(8, 12, size)
        elif kind == "gaps":
            columns["step"][part] += np.cumsum(noise.integers(0, 3, size))
        elif kind == "nan":
            columns["loss"][part] = np.nan
        elif kind == "overflow":
            columns["overflow"] = noise.integers(0, rng.choice([1, 2]) + 1, RECORDS).clip(0, 1).astype(float)
        elif kind == "wait":
            columns["data_time_ms"][part] = columns["step_time_ms"][part] * noise.uniform(0.3, 0.6, size)
        else:
            columns["step_time_ms"][part] *= noise.choice([1.0, 3.0], size)


def _block(columns: dict[str, Floats]) -> MetricBlock:
    data = b"".join(b"line %06d\n" % number for number in range(RECORDS))
    starts = np.arange(RECORDS) * 12
    return MetricBlock("log", 0, data, 1000, starts, starts + 11, np.arange(RECORDS) * 2 + 1, columns, {}, {})


def _state(stream: RankStream) -> str:
    return repr((stream.count, stream.stride, stream.restarts, stream.last, stream.lines, stream.curve.points))


@pytest.mark.parametrize("seed", range(40))
def test_blocks_are_judged_as_records(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    if seed >= 12:  # as if the run were long already
        monkeypatch.setattr(sieve, "LONG_RUN", rng.choice([2048, 1 << 15]))
    columns = _columns(rng)
    if seed >= 16:
        monkeypatch.setattr(sieve, "WHOLE", 1024)
        _odd(rng, columns)
    block = _block(columns)
    records: list[Metric] = list(block)
    singly, cut = RankStream("log", 0, RunFacts()), RankStream("log", 0, RunFacts())
    expected: list[Any] = []
    found: list[Any] = []
    size, done = rng.choice([100, 700, 2000]), 0
    while done < RECORDS:
        end = min(RECORDS, done + rng.randrange(1, size))
        for record in records[done:end]:
            expected += singly.feed(record)
        if rng.random() < 0.9:
            found += feed_block(cut, block.part(done, end))
        else:
            for record in records[done:end]:
                found += cut.feed(record)
        assert _state(cut) == _state(singly)
        done = end
    assert repr([*found, *cut.end()]) == repr([*expected, *singly.end()])


def test_a_loss_comes_back_from_zeros_without_being_a_jump() -> None:
    stream = RankStream("log", 0, RunFacts())
    losses = (
        [3.0 + 0.01 * (step % 5) for step in range(60)] + [0.0] * 40 + [2.9 + 0.01 * (step % 5) for step in range(60)]
    )
    said = [
        alarm
        for step, loss in enumerate(losses)
        for alarm in stream.feed(Metric("log", step + 1, 0, step=step + 1, loss=loss))
    ]
    rules = {alarm.rule for alarm in said}
    assert "RUN-LOSS-005" in rules
    assert not rules & {"RUN-LOSS-001", "RUN-LOSS-002"}


def test_a_stage_that_begins_to_print_its_loss_after_zeros_is_judged() -> None:
    stream = RankStream("log", 0, RunFacts())
    for step, loss in enumerate([0.0] * 200 + [2.5] * 3):
        stream.feed(Metric("log", step + 1, 0, step=step + 1, loss=loss, grad_norm=1.0))
    assert stream.count == 203


def test_a_loss_that_moves_again_after_it_stood_still_is_judged() -> None:
    stream = RankStream("log", 0, RunFacts())
    noise = np.random.default_rng(1)
    falling = (2 + 8 / (1 + np.arange(400) / 50) + noise.normal(0, 0.02, 400)).tolist()
    again = (2.2 + noise.normal(0, 0.2, 200)).tolist()
    for step, loss in enumerate([*falling, *[2.25] * 64, *again]):
        stream.feed(Metric("log", step + 1, 0, step=step + 1, loss=loss))
    assert stream.count == 664
