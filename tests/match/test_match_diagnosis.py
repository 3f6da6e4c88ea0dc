"""Logs as a whole: the cause is found at any place, in packed and rotated files and in folders of ranks."""

from __future__ import annotations

import gzip
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.commands.explain import of_explanation
from doctor.diagnosis import diagnose_paths, diagnose_text
from doctor.match.pack import Pack, load_pack

STEP = (
    "2026-03-01 10:00:{second:02d},000 - mindformers[callback.py:523] - INFO - {{ Epoch:[  1/  1], step:[{step:5d}/90000], "
    "loss: {loss:.3f}, per_step_time: 1001ms, lr: 1.000000e-04, overflow cond: False, loss_scale: 1.0, global_norm: [1.02]\n"
)
FAULT = "RuntimeError: Device(id:5) memory isn't enough and alloc failed, kernel name: Default/Add-op12, alloc size: 2147483648B.\n"


@lru_cache(maxsize=1)
def rules() -> Pack:
    """The pack, read once for all tests."""
    return load_pack()


def healthy(steps: int, first: int = 1) -> str:
    return "".join(
        STEP.format(second=step % 60, step=step, loss=2 + 8 / (1 + step / 300) + (step * 7919 % 13) / 900)
        for step in range(first, first + steps)
    )


def test_a_healthy_log_is_quiet() -> None:
    found = diagnose_text(healthy(3000))
    assert not found.findings and found.quiet


@pytest.mark.parametrize("place", [0, 1, 777, 12_000, 23_999, 24_000])
def test_the_cause_is_found_at_any_place(place: int, tmp_path: Path) -> None:
    log = tmp_path / "worker_5.log"
    before = healthy(place)
    log.write_text(before + FAULT + healthy(24_000 - place, place + 1), encoding="utf-8")
    found = diagnose_paths([log]).findings
    assert found[0].category == "oom-device"
    assert found[0].place is not None
    assert (found[0].place.line, found[0].place.offset, found[0].place.rank) == (place + 1, len(before.encode()), 5)


def test_packed_rotated_and_many_ranks(tmp_path: Path) -> None:
    for rank in range(8):
        folder = tmp_path / "log" / f"rank_{rank}"
        folder.mkdir(parents=True)
        text = healthy(200)
        if rank == 6:
            (folder / "info.log.1").write_text(text + FAULT, encoding="utf-8")
            text = healthy(5, 201)
        if rank == 3:
            with gzip.open(folder / "info.log.2.gz", "wt", encoding="utf-8") as out:
                out.write(text)
            text = "[ERROR] HCCL(5103,python):2026-03-01-10:31:14.000.000 EI0006: Getting socket times out. Reason: 1. The remote\n"
        (folder / "info.log").write_text(text, encoding="utf-8")
    found = diagnose_paths([tmp_path / "log"]).findings
    assert [item.category for item in found[:2]] == ["oom-device", "hccl-timeout"]
    assert found[0].place is not None and found[0].place.source.endswith("rank_6/info.log.1")
    assert found[0].place.rank == 6 and not found[1].root_cause


def test_numbers_are_judged_too() -> None:
    text = healthy(50) + healthy(3, 51).replace("loss: ", "loss: nan, was: ")
    found = diagnose_text(text).findings
    assert found[0].rule == "RUN-NAN-001" and found[0].place is not None and found[0].place.line == 51


@pytest.mark.parametrize(
    ("lines", "category"),
    [
        ("{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 0.05, 'epoch': 0.01}\n" * 2, "nan-overflow"),
        (
            "{'loss': 0.7, 'grad_norm': 0.0, 'learning_rate': 1e-05, 'epoch': 0.1}\n"
            "{'loss': 0.7, 'grad_norm': 0.0, 'learning_rate': 9e-06, 'epoch': 0.2}\n",
            "loss-not-converging",
        ),
        ("Epoch 3/9, Step 10/99, loss: 3.1\nEpoch 3/9, Step 20/99, loss: 44.0\n", "loss-not-converging"),
        ("step 10 loss 3.10 2.0 s/step\nstep 90 loss 2.9 5.0 s/step\nstep 200 loss 2.7 9.0 s/step\n", "performance"),
        ("Epoch 3/9, Step 10/99, loss: 3.1\nEpoch 3/9, Step 20/99, loss: 3.0\n", None),
        ("step 10 loss 3.10 2.0 s/step\nstep 90 loss 2.9 2.1 s/step\nstep 200 loss 2.7 2.0 s/step\n", None),
        ("Epoch 3/9, Step 10/99, loss: 0.000\nEpoch 3/9, Step 20/99, loss: 0.000\n", None),
    ],
)
def test_a_few_lines_that_somebody_shows(lines: str, category: str) -> None:
    found = diagnose_text(lines, pack=rules()).findings
    assert (found[0].category if found else None) == category
    assert all(item.confidence <= 0.7 for item in found)


@given(st.binary(max_size=400), st.sampled_from(["", FAULT, healthy(3), "EZ9999: Inner Error!\n", "训练启动就OOM"]))
@settings(max_examples=60, deadline=None)
def test_no_bytes_make_it_fail(noise: bytes, text: str) -> None:
    raw = text.encode()
    for mixed in (noise + raw, raw + noise, raw[: len(raw) // 2] + noise + raw[len(raw) // 2 :]):
        of_explanation(diagnose_text(mixed, pack=rules())).to_dict("zh")
