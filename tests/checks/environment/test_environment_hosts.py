"""Recorded hosts: each must give exactly the findings written into it, and none beside."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from doctor import registry, runner
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
        for item in finding.evidence:
            # a sentence of ours is in both languages; what was quoted stands as it is
            assert (
                item.note is None
                or item.note.zh != item.note.en
                or not re.search(r"[a-z]{3,} [a-z]{3,} ", item.note.en)
            )
        assert finding.fixes and finding.fixes[0].verify, finding.rule


def test_a_consequence_is_told_as_one() -> None:
    path = next(path for path in HOSTS if path.stem == "user_outside_the_device_group")
    judged = runner.judge_path(path, Options())
    roots = {f.rule: f.root_cause for outcome in judged.outcomes for f in outcome.findings}
    assert roots == {"ENV-DEV-002": True, "ENV-NPU-001": False}


def test_the_solution_is_the_first_fix() -> None:
    path = next(path for path in HOSTS if path.stem == "strict_2_7_2_on_8_2")
    outcomes = runner.judge_path(path, Options()).outcomes
    [finding] = [finding for outcome in outcomes for finding in outcome.findings]
    assert "8.2.RC1" in finding.message.en and "8.5.0" in finding.message.en
    commands = [fix.command or "" for fix in finding.fixes]
    assert any("pip install mindspore==" in command and "mindformers==" in command for command in commands)
    assert any(
        "Ascend-cann-toolkit_8.5.0" in command and "Ascend-cann-910b-ops_8.5.0" in command for command in commands
    )
    assert all("Source:" in fix.summary.en and "(high)" in fix.summary.en for fix in finding.fixes)


def test_free_cards_are_named_by_their_logical_ids() -> None:
    path = next(path for path in HOSTS if path.stem == "memory_taken_by_a_stale_process")
    outcomes = runner.judge_path(path, Options()).outcomes
    [finding] = [finding for outcome in outcomes for finding in outcome.findings]
    assert finding.fixes[0].command == "export ASCEND_RT_VISIBLE_DEVICES=0,1,2,4,5,6,7"
    assert "pid 80123" in finding.title.en


@pytest.mark.parametrize(("wanted", "found"), [(7, "warning"), (8, "error")])
def test_too_few_free_cards_for_the_job_is_an_error(wanted: int, found: str) -> None:
    path = next(path for path in HOSTS if path.stem == "memory_taken_by_a_stale_process")
    outcomes = runner.judge_path(path, Options(devices=wanted)).outcomes
    assert [f.severity.value for outcome in outcomes for f in outcome.findings if f.rule == "ENV-NPU-010"] == [found]


def test_more_devices_are_wanted_than_there_are() -> None:
    path = next(path for path in HOSTS if path.stem == "container_with_one_card_of_number_5")
    outcomes = runner.judge_path(path, Options(devices=4)).outcomes
    found = {f.rule: f.title.en for outcome in outcomes for f in outcome.findings}
    assert found["ENV-NPU-017"] == "The job wants 4 devices, this machine shows 1"
    # the variable shows one card too: both are true, and nothing else is said
    assert set(found) == {"ENV-NPU-017", "ENV-VIS-001"}


def test_every_rule_has_a_host_or_a_test() -> None:
    told = {rule for path in HOSTS for rule in json.loads(path.read_text(encoding="utf-8"))["expect"]}
    for path in Path(__file__).parent.glob("test_environment_*.py"):
        told |= set(re.findall(r"ENV-[A-Z]+-\d{3}", path.read_text(encoding="utf-8")))
    assert {check.rule.id for check in registry.checks("environment")} <= told


@pytest.mark.parametrize("check", registry.checks("environment"), ids=lambda check: check.rule.id)
def test_rule_texts_are_complete_in_both_languages(check: object) -> None:
    rule = check.rule  # type: ignore[attr-defined]
    assert rule.verify
    for text in (rule.title, rule.why, rule.fix):
        assert re.search(r"[\u4e00-\u9fff]", text.zh) or text.zh == text.en == rule.title.zh
        assert not re.search(r"[\u4e00-\u9fff]", text.en)
        assert set(re.findall(r"\{(\w+)", text.en)) == set(re.findall(r"\{(\w+)", text.zh))
