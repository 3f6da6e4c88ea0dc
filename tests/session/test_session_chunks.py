"""However the bytes of a log are cut, the session says the same."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.match.pack import load_pack
from doctor.records.cutter import Cutter
from doctor.records.record import Chunk
from doctor.session import DiagnosisSession

PACK = load_pack()


def long_log(seed: int, steps: int, faults: bool, wild: bool = False) -> bytes:
    """A MindFormers log: noise round a falling curve, and from place to place something that stands out. `wild`: norms and
    times of steps vary as they do on a busy machine, and saving takes long."""
    rng = random.Random(seed)
    lines = []
    loss, rate, scale = 10.8, 1e-4, 65536.0
    shift, slow = 0.0, 1.0
    for step in range(1, steps + 1):
        base = 2 + 8.8 / (1 + step / 150)
        overflow, norm = False, rng.lognormvariate(0, 0.8 if wild else 0.2)
        time = int(1000 * slow * (rng.lognormvariate(0, 0.25) if wild else 1) + rng.gauss(0, 9))
        if faults:
            event = rng.random()
            if event < 0.0008:
                shift = rng.choice([0.0, 0.8, 2.5])
            elif event < 0.0012:
                rate *= rng.choice([0.5, 3.0])
            elif event < 0.0016:
                slow = rng.choice([1.0, 1.0, 3.0])
            overflow = rng.random() < 0.002
            norm *= 30 if rng.random() < 0.002 else 1
        loss = base + shift + rng.gauss(0, 0.03)
        value = "nan" if faults and rng.random() < 0.0003 else f"{loss:.6f}"
        lines.append(
            f"2026-03-01 10:00:00,{step % 1000:03d} - mindformers/log[mindformers/core/callback/callback.py:523] - INFO - "
            f"{{ Epoch:[  1/  1], step:[{step:5d}/{steps}], loss: {value}, per_step_time: {time}ms, "
            f"lr: {rate:.6e}, overflow cond: {overflow}, loss_scale: {scale:.1f}, global_norm: [{norm:.5f}]"
        )
        if step % 500 == 0:
            lines.append(f"INFO - Finish saving ckpt of epoch 1 step {step} using {300 if wild else 3}.0 seconds")
        if rng.random() < 0.1:
            lines.append("[INFO] DEVICE(1,fffe,python):2026-03-01-10:00:00.000.100 [mindspore/x.cc:1] Run] stream 1")
    lines.append("INFO - .........Training Over!.............")
    return "\n".join(lines).encode() + b"\n"


def cut(data: bytes, sizes: Iterator[int]) -> Iterator[Chunk]:
    cutter = Cutter("run.log")
    at = 0
    while at < len(data):
        size = next(sizes)
        yield from cutter.feed(data[at : at + size])
        at += size
    last = cutter.flush()
    if last is not None:
        yield last


def said(data: bytes, sizes: Iterator[int]) -> tuple[list[object], list[object]]:
    session = DiagnosisSession(PACK)
    events = [event.to_dict("en") for chunk in cut(data, sizes) for event in session.feed(chunk)]
    events += [event.to_dict("en") for event in session.end()]
    return events, [finding.to_dict("zh") for finding in session.findings()]


def forever(size: int) -> Iterator[int]:
    while True:
        yield size


@pytest.mark.parametrize("seed", range(3))
def test_columns_and_single_records_say_the_same(seed: int) -> None:
    data = long_log(seed, 6000, faults=True)
    assert said(data, forever(1 << 20)) == said(data, forever(3000))


@pytest.mark.parametrize("seed", range(2))
def test_columns_and_single_records_say_the_same_of_a_busy_machine(seed: int) -> None:
    data = long_log(seed, 6000, faults=seed == 1, wild=True)
    events, findings = said(data, forever(1 << 20))
    assert (events, findings) == said(data, forever(3000))
    assert any(event["finding"]["rule"] == "RUN-TIME-003" for event in events)  # type: ignore[index]


def ranks_log(seed: int, steps: int) -> bytes:
    """Four ranks of a host that write into one log; now and then one of them has no number for its loss."""
    rng = random.Random(seed)
    lines = []
    for step in range(1, steps + 1):
        for rank in rng.sample(range(4), 4):
            loss = "nan" if rng.random() < 0.0004 else f"{2 + 8 / (1 + step / 150) + rng.gauss(0, 0.03):.4f}"
            lines.append(f"[rank{rank}]: step {step} | loss {loss} | lr 3.00e-04 | norm: {rng.uniform(0.8, 1.2):.2f}")
    return "\n".join(lines).encode() + b"\n"


@pytest.mark.parametrize("seed", range(2))
def test_ranks_in_one_log_are_told_of_in_the_order_of_lines(seed: int) -> None:
    data = ranks_log(seed, 3000)
    events, findings = said(data, forever(1 << 20))
    assert (events, findings) == said(data, forever(3000))
    assert events


def test_a_long_healthy_run_is_silent() -> None:
    events, findings = said(long_log(11, 9000, faults=False), forever(1 << 19))
    assert events == []
    assert findings == []


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 20_000), min_size=1, max_size=20), st.integers(0, 5))
def test_any_cut_says_the_same(sizes: list[int], seed: int) -> None:
    data = long_log(seed, 400, faults=True)

    def given_sizes() -> Iterator[int]:
        yield from sizes
        yield from forever(50_000)

    assert said(data, given_sizes()) == said(data, forever(1 << 20))
