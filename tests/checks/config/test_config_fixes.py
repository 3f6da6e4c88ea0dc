"""The first fix of each finding, applied to the text, makes the rule silent there and leaves everything else as it was."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import yaml
from config_bases import BASES
from config_cases import BAD, Case
from conftest import Run
from test_config_rules import judge, plan_for

from doctor import registry
from doctor.check import CheckOutcome
from doctor.plan.edit import edit_text
from doctor.runner import run_checks
from doctor.trainer.arguments import TrainingArguments


def _named(case: Case) -> str:
    return f"{case.rule}-{case.base or 'text'}"


def _judged(case: Case, text: str) -> CheckOutcome:
    (item,) = [check for check in registry.checks("config") if check.rule.id == case.rule]
    (outcome,) = run_checks([item], plan_for(case, text))
    return outcome


@pytest.mark.parametrize("case", BAD, ids=_named)
def test_first_fix_silences_the_rule(case: Case) -> None:
    outcome, text = judge(case)
    for finding in outcome.findings:
        first = finding.fixes[0]
        if first.applicability == "manual" or not first.edits:
            continue
        fixed = edit_text(text, first.edits)
        assert fixed != text
        places = {item.key for item in finding.evidence[:1]}
        left = [item for item in _judged(case, fixed).findings if {each.key for each in item.evidence[:1]} & places]
        assert not left, (first.edits, left[0].message.en)


def test_comments_and_layout_outlive_the_fixes(tmp_path: Path, doctor: Run) -> None:
    text = (
        BASES["legacy"][0]
        .replace("max_device_memory", "max_device_memroy", 1)
        .replace("pipeline_stage: ", "pipeline_stages: ", 1)
    )
    text = "# my run\n" + text.rstrip("\n") + "\n\n# the end\n"
    path = tmp_path / "run.yaml"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o640)
    before = doctor("check", str(path), "--devices", str(BASES["legacy"][1]), "--fix", "--unsafe-fixes", "--yes")
    assert before.returncode in (0, 1), before.stderr
    after = path.read_text(encoding="utf-8")
    changed = [(old, new) for old, new in zip(text.split("\n"), after.split("\n")) if old != new]
    assert after.count("\n") == text.count("\n")
    assert 1 <= len(changed) <= 2, changed
    assert all(old.partition(":")[2] == new.partition(":")[2] for old, new in changed)
    assert path.stat().st_mode & 0o777 == 0o640
    assert [item.name for item in tmp_path.glob("*run*")] == ["run.yaml"]


def test_unsafe_edits_wait_for_their_flag(tmp_path: Path, doctor: Run) -> None:
    text = BASES["legacy"][0]
    data = yaml.safe_load(text)
    data["parallel_config"]["data_parallel"] = data["parallel_config"]["data_parallel"] * 3
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    kept = tmp_path / "kept.yaml"
    shutil.copy(path, kept)
    doctor("check", str(path), "--devices", str(BASES["legacy"][1]), "--fix", "--yes")
    assert path.read_bytes() == kept.read_bytes()
    done = doctor("check", str(path), "--devices", str(BASES["legacy"][1]), "--fix", "--unsafe-fixes", "--yes")
    assert path.read_bytes() != kept.read_bytes(), done.stderr
    again = doctor("check", str(path), "--devices", str(BASES["legacy"][1]), "--only", "CFG-PAR-001")
    assert again.returncode == 0, again.stdout


def test_a_number_is_shown_as_yaml_takes_it(doctor, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    text = BASES["legacy"][0]
    (tmp_path / "a.yaml").write_text(re.sub(r"\n  eps: .*", "\n  eps: 1e-8", text, count=1), encoding="utf-8")
    done = doctor("check", "a.yaml", "--only", "CFG-TYP-001")
    assert "eps: 1.0e-8" in done.stdout and "1e-8 -> 1.0e-8" in done.stdout and "1e-08" not in done.stdout


def test_a_batch_of_none_becomes_what_the_trainer_takes_unasked() -> None:
    (case,) = [item for item in BAD if item.rule == "CFG-BAT-001" and item.base == "trainer"]
    outcome, _ = judge(case)
    (finding,) = outcome.findings
    assert [edit.new for edit in finding.fixes[0].edits] == [TrainingArguments().per_device_train_batch_size]
