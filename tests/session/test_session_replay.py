"""A watch that is stopped and started again knows the run as if it had never stopped."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from doctor.finding import Finding
from doctor.match.pack import load_pack
from doctor.records.follow import Follower
from doctor.session import DiagnosisSession, Event
from doctor.session.replay import replay

_STEP = (
    "2026-03-01 10:00:00,000 - INFO - {{ Epoch:[  1/  1], step:[{step:5d}/  200], loss: {loss:.4f}, per_step_time: 900ms, "
    "lr: 0.001, overflow cond: False, loss_scale: unavailable, global_norm: [1.5]\n"
)


def lines(first: int, last: int) -> str:
    """A curve that leaves its level at step 110: seen only by who knows what came before."""
    rng = random.Random(first)
    return "".join(
        _STEP.format(step=step, loss=2.4 + 2 / (1 + step / 6) + rng.gauss(0, 0.02) + (1.2 if step >= 110 else 0))
        for step in range(first, last)
    )


def follow(
    session: DiagnosisSession, log: Path, state: dict[str, object] | None
) -> tuple[list[Event], dict[str, object]]:
    events: list[Event] = []
    with Follower([log], state) as follower:
        for _ in range(3):
            for item in follower.poll(0.0):
                events.extend(session.feed(item))
        return events, follower.state()


def shown(findings: tuple[Finding, ...]) -> list[tuple[object, ...]]:
    return [(item.rule, item.evidence[0].line, item.evidence[0].step, item.message.en) for item in findings]


@pytest.mark.parametrize("most", [1 << 20, 6000])
def test_goes_on_as_if_it_had_never_stopped(tmp_path: Path, most: int) -> None:
    log = tmp_path / "info.log"
    log.write_text(lines(1, 105))
    first = DiagnosisSession(load_pack(), eager=True)
    _, state = follow(first, log, None)
    with log.open("a") as more:
        more.write(lines(105, 160))
    second = DiagnosisSession(load_pack(), eager=True)
    assert replay(second, state, [str(log)], most) > 0
    events, _ = follow(second, log, state)
    assert "RUN-LOSS-002" in [event.finding.rule for event in events]
    second.end(over=False)
    whole = DiagnosisSession(load_pack(), eager=True)
    follow(whole, log, None)
    whole.end(over=False)
    assert [item[:3] for item in shown(second.findings())] == [item[:3] for item in shown(whole.findings())]
    assert second.lines == whole.lines


def test_what_was_said_is_not_said_again(tmp_path: Path) -> None:
    log = tmp_path / "info.log"
    log.write_text(lines(1, 140))
    first = DiagnosisSession(load_pack(), eager=True)
    told, state = follow(first, log, None)
    assert told
    second = DiagnosisSession(load_pack(), eager=True)
    seen: list[object] = []
    second.on_metric = seen.append
    replay(second, state, [str(log)])
    assert seen == [] and second.on_metric is not None
    again, _ = follow(second, log, state)
    assert again == []
    assert [item.rule for item in second.findings()] == [item.rule for item in first.findings()]


def test_a_log_that_was_replaced_is_not_read_as_the_old_one(tmp_path: Path) -> None:
    log = tmp_path / "info.log"
    log.write_text(lines(1, 140))
    _, state = follow(DiagnosisSession(load_pack()), log, None)
    log.rename(tmp_path / "other.log")
    log.write_text(lines(1, 150))
    assert replay(DiagnosisSession(load_pack()), state, [str(log)]) == 0
