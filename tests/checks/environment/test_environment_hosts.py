"""Recorded hosts: each must give exactly the findings written into it, and none beside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from doctor import runner
from doctor.check import Options

HOSTS = sorted((Path(__file__).resolve().parents[2] / "fixtures" / "hosts").glob("*.json"))


def test_there_are_enough() -> None:
    assert len(HOSTS) >= 40


@pytest.mark.parametrize("path", HOSTS, ids=lambda path: path.stem)
def test_exact_findings(path: Path) -> None:
    expected = json.loads(path.read_text(encoding="utf-8"))["expect"]
    judged = runner.judge_host(Options(hosts=(str(path),)))
    crashed = [outcome for outcome in judged.outcomes if outcome.state == "crashed"]
    assert not crashed, [outcome.reason for outcome in crashed]
    found = {finding.rule: finding for outcome in judged.outcomes for finding in outcome.findings}
    assert {rule: finding.severity.value for rule, finding in found.items()} == expected
    for finding in found.values():
        assert "{" not in finding.title.en + finding.message.en.replace("{{", ""), finding
        assert finding.title.zh != finding.title.en and finding.message.zh != finding.message.en
        assert finding.evidence, finding.rule
        assert finding.fixes and finding.fixes[0].verify, finding.rule
