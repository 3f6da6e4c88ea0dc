"""Whole reports of our own making are explained rightly: category first, the line of the cause, silence where nothing is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from doctor.diagnosis import diagnose_text
from doctor.finding import Severity
from doctor.match.pack import Pack, load_pack

REPORTS = [
    row
    for file in sorted((Path(__file__).parents[1] / "fixtures" / "reports").glob("*.yaml"))
    for row in yaml.safe_load(file.read_text(encoding="utf-8"))
]


@pytest.fixture(scope="module")
def pack() -> Pack:
    return load_pack()


def _named(expect: str) -> Any:
    rows = [row for row in REPORTS if row["expect"] == expect]
    return pytest.mark.parametrize("row", rows, ids=[row["id"] for row in rows])


@_named("problem")
def test_report_is_explained(row: dict[str, Any], pack: Pack) -> None:
    findings = diagnose_text(row["error"], pack=pack).findings
    assert findings, "nothing was found"
    assert findings[0].category in (row["category"], *row.get("also", ())), findings[0].rule
    if row.get("cause_line"):
        place = findings[0].place
        assert place is not None and place.line == row["cause_line"], findings[0].rule


@_named("no-problem")
def test_healthy_text_raises_nothing(row: dict[str, Any], pack: Pack) -> None:
    findings = diagnose_text(row["error"], pack=pack).findings
    assert not [finding.rule for finding in findings if finding.severity.at_least(Severity.WARNING)]
