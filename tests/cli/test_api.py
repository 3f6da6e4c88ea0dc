"""The Python face returns what the commands print, as objects."""

from __future__ import annotations

from pathlib import Path

import pytest

import doctor
from doctor.errors import UsageError
from doctor.finding import Finding

CONFIG = Path(__file__).parents[1] / "benchmarks" / "llama2_7b.yaml"


def test_check_gives_findings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    report = doctor.check(CONFIG, devices=16)
    assert all(isinstance(finding, Finding) for finding in report.findings)
    assert "CFG-PAR-001" in [finding.rule for finding in report.findings]
    assert doctor.check(CONFIG, devices=8, ignore=("CFG",)).outcomes == ()


def test_explain_gives_the_cause_or_says_unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    known = doctor.explain("OSError: [Errno 28] No space left on device")
    assert known.findings[0].category == "disk-io" and not known.unknown
    assert doctor.explain("the quick brown fox").unknown


def test_watch_reads_to_the_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    log = tmp_path / "worker_0.log"
    losses = ["5.1", "5.0", "4.9", "nan", "nan", "nan"]
    log.write_text("".join(f"epoch: 1 step: {step}, loss is {loss}\n" for step, loss in enumerate(losses, 1)))
    report = doctor.watch(log)
    assert [finding.rule for finding in report.findings][:1] == ["RUN-NAN-001"] and report.verdict == "error"
    assert report.findings[0].evidence[0].line == 4


def test_a_path_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        doctor.check(tmp_path / "absent.yaml")
    with pytest.raises(UsageError):
        doctor.watch(tmp_path / "absent.log")
