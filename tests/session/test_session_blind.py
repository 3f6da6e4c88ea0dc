"""Time in which nobody could look at the logs counts for no stall: a run held on purpose, a doctor that was stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from doctor.match.pack import load_pack
from doctor.session import DiagnosisSession, following
from doctor.session.following import RunWatch


class Clock:
    """Stands in for the module `time`: it goes on only when it is told to, and a little with every question."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        self.now += 0.001
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(following, "time", made)
    return made


def watched(tmp_path: Path) -> tuple[RunWatch, Path]:
    log = tmp_path / "worker_0.log"
    log.write_text("")
    return RunWatch(DiagnosisSession(load_pack(), eager=True), [str(log)]), log


def run_steps(run: RunWatch, log: Path, clock: Clock, first: int, count: int) -> None:
    """Steps of a second each, each seen when it was written."""
    for step in range(first, first + count):
        with log.open("a") as out:
            out.write(f"epoch: 1 step: {step}, loss is {5 / step + step % 7 / 50:.3f}, per step time: 1000.0 ms\n")
        run.follower._asked_all = 0.0
        for _ in range(4):
            clock.now += 0.25
            run.step(0.0)


def rules(run: RunWatch) -> list[str]:
    return [finding.rule for finding in run.session.open_findings()]


def wait(run: RunWatch, clock: Clock, seconds: float, every: float = 15.0) -> None:
    for _ in range(int(seconds / every)):
        clock.now += every
        run.step(0.0)


def test_a_run_that_stands_still_is_said_but_not_while_it_is_held(tmp_path: Path, clock: Clock) -> None:
    run, log = watched(tmp_path)
    run_steps(run, log, clock, 1, 40)
    run.held = True
    wait(run, clock, 4000)
    assert "RUN-HANG-001" not in rules(run)
    run.held = False
    run_steps(run, log, clock, 41, 5)
    assert "RUN-HANG-001" not in rules(run)
    wait(run, clock, 4000)
    assert "RUN-HANG-001" in rules(run), "a stall of its own is still told"


def test_a_doctor_that_was_stopped_blames_nobody(tmp_path: Path, clock: Clock) -> None:
    run, log = watched(tmp_path)
    run_steps(run, log, clock, 1, 40)
    clock.now += 5000  # Ctrl-Z, and fg after lunch
    events: list[Any] = run.step(0.0)
    run_steps(run, log, clock, 41, 5)
    assert "RUN-HANG-001" not in [event.finding.rule for event in events] + rules(run)
