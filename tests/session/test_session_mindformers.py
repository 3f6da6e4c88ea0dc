"""Real logs of MindFormers 1.8.0 on a CPU: silent on the healthy ones, right on the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from doctor.finding import Finding
from doctor.match.pack import load_pack
from doctor.session import DiagnosisSession, Event
from doctor.session.reading import read_run

LOGS = Path(__file__).resolve().parents[2].parent / "shared" / "logs" / "mindformers-on-cpu"
pytestmark = [pytest.mark.shared, pytest.mark.skipif(not LOGS.exists(), reason="no shared logs here")]


def diagnose(name: str) -> tuple[list[Event], tuple[Finding, ...], str]:
    session = DiagnosisSession(load_pack())
    events: list[Event] = []
    read_run(session, [str(LOGS / name)], events.append)
    return events, session.findings(), session.verdict


@pytest.mark.parametrize("name", ["mf18_healthy.log", "mf18_load_ok.log"])
def test_healthy_runs_are_silent(name: str) -> None:
    events, findings, verdict = diagnose(name)
    assert [(event.kind, event.finding.rule) for event in events] == []
    assert findings == ()
    assert verdict == "ok"


def test_nan_is_the_cause_and_its_overflows_are_consequences() -> None:
    _, findings, verdict = diagnose("mf18_lr1e6_nan.log")
    assert verdict == "error"
    first = findings[0]
    assert (first.rule, first.root_cause) == ("RUN-NAN-001", True)
    assert first.evidence[0].step == 5
    assert first.evidence[0].line == 396
    assert "8e+05" in first.message.en
    assert all(not finding.root_cause for finding in findings[1:])
    # Steps 30 and 60 were saved with weights that are nan already.
    assert any("Every checkpoint" in fix.summary.en for fix in first.fixes)


def test_overflows_while_the_scale_is_searched_for_are_information_and_end() -> None:
    events, findings, verdict = diagnose("mf18_fp16_overflow.log")
    assert [(event.kind, event.finding.rule) for event in events] == [
        ("opened", "RUN-OVF-001"),
        ("resolved", "RUN-OVF-001"),
    ]
    assert [finding.severity.value for finding in findings] == ["info"]
    assert verdict == "ok"


def test_a_killed_run_ended_early() -> None:
    _, findings, verdict = diagnose("mf18_killed9.log")
    assert [finding.rule for finding in findings] == ["RUN-END-001"]
    assert "20 of 1280" in findings[0].title.en
    assert verdict == "warning"


def test_a_killed_rank_is_told_from_a_hung_one() -> None:
    _, dead, _ = diagnose("msrun_dead")
    assert dead[0].rule == "RUN-END-002"
    assert dead[0].evidence[0].rank == 1
    _, hung, _ = diagnose("msrun_hang")
    assert hung[0].rule == "RUN-HANG-003"
    assert hung[0].evidence[0].rank == 1
