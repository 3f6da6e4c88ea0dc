"""One process a core gives what one process gives."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from doctor.match.pack import load_pack
from doctor.session import DiagnosisSession, Event, parallel
from doctor.session.reading import read_run

_STEP = (
    "2026-03-01 10:00:00,000 - mindformers/log[mindformers/core/callback/callback.py:523] - INFO - {{ Epoch:[  1/  1], "
    "step:[{step:5d}/  200], loss: {loss:.6f}, per_step_time: 1000ms, lr: 1.000000e-04, overflow cond: False, "
    "loss_scale: 65536.0, global_norm: [1.02]\n"
)


def write_run(folder: Path, ranks: int) -> None:
    """A run of which rank 2 drifts away and then has no number any more, and rank 4 stops first."""
    for rank in range(ranks):
        place = folder / f"rank_{rank}"
        place.mkdir()
        with (place / "info.log").open("w") as out:
            for step in range(1, 121 if rank != 4 else 100):
                loss = 2 + 8 / (1 + step / 15) + random.Random(step).gauss(0, 0.01)
                if rank == 2 and step > 60:
                    loss = loss + 0.2 if step < 110 else float("nan")
                out.write(_STEP.format(step=step, loss=loss))
                if step % 50 == 0:
                    out.write(f"INFO - Finish saving ckpt of epoch 1 step {step} using 1.0 seconds\n")
            if rank == 4:
                out.write("RuntimeError: Memory not enough: Device(id:4) memory isn't enough and alloc failed.\n")


def judged(folder: Path, several: bool) -> tuple[list[str], list[object], int]:
    session = DiagnosisSession(load_pack())
    events: list[Event] = []
    read_run(session, [str(folder)], events.append, parallel=several)
    kinds = sorted(f"{event.kind} {event.finding.rule}" for event in events)
    return kinds, [finding.to_dict("en") for finding in session.findings()], session.lines


def test_the_same_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path, 6)
    alone = judged(tmp_path, several=False)
    monkeypatch.setattr(parallel, "WORTH", 1)
    monkeypatch.setattr(parallel, "cores", lambda: 2)
    together = judged(tmp_path, several=True)
    assert together == alone
    assert any("RUN-NAN" in kind for kind in alone[0])


def test_all_logs_of_a_rank_go_together(tmp_path: Path) -> None:
    from doctor.records.discover import discover

    for name in ("log/rank_0/info.log", "log/rank_1/info.log", "msrun_log/worker_0.log", "msrun_log/worker_1.log"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x\n")
    tasks = parallel._tasks(discover([tmp_path]), 8)
    assert [{log.rank for log in task} for task in tasks] == [{0}, {1}]
    assert [len(task) for task in tasks] == [2, 2]


def test_small_runs_are_not_worth_it(tmp_path: Path) -> None:
    from doctor.records.discover import discover

    write_run(tmp_path, 3)
    assert not parallel.worth_it(discover([tmp_path]))
