"""Two logs tell of one rank: the text log is read first, then the metrics log, which is the better one, takes over."""

from __future__ import annotations

import json

import pytest

from doctor.match.pack import load_pack
from doctor.records.record import Chunk
from doctor.session import DiagnosisSession, Event

TEXT, METRICS = "out/log/rank_0.log", "out/metrics/rank_0.jsonl"


def text(steps: range, losses: dict[int, str]) -> bytes:
    lines = [f"epoch: 1 step: {step}, loss is {losses.get(step, f'{4 - step / 50:.4f}')}\n" for step in steps]
    return "".join(lines).encode()


def metrics(steps: range, losses: dict[int, str]) -> bytes:
    rows = [
        {"event": "metric", "source": "log/rank_0.log", "line": step, "rank": 0, "step": step, "global_step": step,
         "loss": losses.get(step, round(4 - step / 50, 4))}
        for step in steps
    ]  # fmt: skip
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.mark.parametrize("cured", [True, False], ids=["a restart cured it", "it stays"])
def test_what_the_first_log_raised_does_not_outlive_the_better_one(cured: bool) -> None:
    session = DiagnosisSession(load_pack(), eager=True)
    events: list[Event] = []
    broken = dict.fromkeys(range(4, 8), "nan")
    events += session.feed(Chunk(TEXT, text(range(1, 8), broken), 0, 1, 0))
    assert [event.kind for event in events if event.finding.rule == "RUN-NAN-001"] == ["opened"]
    tail = metrics(range(1, 61), {}) if cured else b""
    events += session.feed(Chunk(METRICS, metrics(range(1, 8), broken) + tail, 0, 1, 0))
    events += session.end()
    kinds = [event.kind for event in events if event.finding.rule == "RUN-NAN-001"]
    assert kinds.count("opened") == 1, "one incident is told of once"
    open_now = {finding.rule for finding in session.findings() if finding.severity.value != "info"}
    assert ("RUN-NAN-001" in open_now) is not cured
    assert ("resolved" in kinds) is cured
