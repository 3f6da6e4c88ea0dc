"""The measure of `explain` on the public reports beside the project: right first, nothing misleading, nothing raised in vain."""

from __future__ import annotations

from pathlib import Path

import yaml

from doctor.match.pack import load_pack
from tests.score_corpus import score


def test_public_reports(shared: Path) -> None:
    rows = yaml.safe_load((shared / "corpus" / "errors.yaml").read_text(encoding="utf-8"))
    pack = load_pack()
    scores = [score(row, pack) for row in rows]
    problems = [item for item in scores if item.is_problem]
    assert not [item.report["id"] for item in problems if item.misleading]
    assert not [item.report["id"] for item in scores if not item.is_problem and item.raised]
    wrong = [item.report["id"] for item in problems if not item.right_first]
    assert len(wrong) <= 0.05 * len(problems), wrong
