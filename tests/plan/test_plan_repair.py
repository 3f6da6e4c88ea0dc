"""Fixes are applied one after the other; one that makes things worse is taken back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from doctor.finding import Edit, Evidence, Finding, Fix, Severity, Text
from doctor.plan.repair import Judge, repair


def _finding(rule: str, key: str, edits: tuple[Edit, ...], applicability: str = "unsafe") -> Finding:
    words = Text(rule, rule)
    return Finding(
        rule=rule,
        name=rule.lower(),
        severity=Severity.ERROR,
        category="config",
        title=words,
        message=words,
        evidence=(Evidence("value", "run.yaml", key=key),),
        fixes=(Fix(words, edits=edits, applicability=applicability),),
    )


def _judge(path: Path) -> Judge:
    """Two rules: `size` has to be spelt so, and the two sizes have to multiply to eight."""

    def judge(text: str) -> Sequence[Finding]:
        data = yaml.safe_load(text)
        found = []
        if data["a"] * data.get("size", 1) != 8:
            found.append(_finding("PRODUCT", "a", (Edit(str(path), "a", data["a"], 8 // data.get("size", 1)),)))
        if "siez" in data:
            edits = (Edit(str(path), "siez", data["siez"], None), Edit(str(path), "size", None, data["siez"]))
            found.append(_finding("NAME", "siez", edits, "safe"))
        if data["a"] > 6:
            found.append(_finding("LARGE", "a", ()))
        return found

    return judge


def test_names_come_first_and_their_consequences_are_judged_anew(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("a: 4\nsiez: 2  # two\n", encoding="utf-8")
    judge = _judge(path)
    old, new = repair(path, judge(path.read_text()), {"safe", "unsafe"}, judge)
    assert old == path.read_text()
    assert new == "a: 4\nsize: 2  # two\n"


def test_a_fix_that_brings_another_error_is_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("a: 4\n", encoding="utf-8")
    judge = _judge(path)
    old, new = repair(path, judge(path.read_text()), {"safe", "unsafe"}, judge)
    assert new == old


def test_only_allowed_kinds_are_applied(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("a: 3\nsiez: 2\n", encoding="utf-8")
    judge = _judge(path)
    _, new = repair(path, judge(path.read_text()), {"safe"}, judge)
    assert new == "a: 3\nsize: 2\n"


def test_edits_of_lists_and_sections_are_fixes_like_others(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("a: [1]\n", encoding="utf-8")

    def judge(text: str) -> Sequence[Finding]:
        wrong = yaml.safe_load(text)["a"] != [1, 2]
        return [_finding("LIST", "a", (Edit(str(path), "a", [1], [1, 2]),))] if wrong else []

    assert repair(path, judge(path.read_text()), {"unsafe"}, judge)[1] == "a: [1, 2]\n"
