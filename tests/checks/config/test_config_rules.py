"""Each rule on configs fires on its bad fixture, at the changed key and its line, and is silent on healthy configs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Optional

import pytest
import yaml
from config_bases import BASES
from config_cases import BAD, GOOD, Case, Drop

from doctor import registry
from doctor.check import CheckOutcome
from doctor.checks.config.spelling import home
from doctor.finding import Severity
from doctor.plan.build import plan_of
from doctor.plan.plan import Dialect, Plan
from doctor.plan.reader import parse
from doctor.runner import run_checks

_OWN_TESTS = frozenset(("CFG-MEM-001",))


def text_of(case: Case) -> str:
    """The text of a case: the base with its changes, written anew."""
    if case.text is not None:
        return case.text
    data = yaml.safe_load(BASES[case.base][0])
    for key, value in case.changes.items():
        _put(data, key, value)
    return str(yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=1000))


def _steps(key: str) -> list[Any]:
    steps: list[Any] = []
    for part in key.split("."):
        name, *places = part.replace("]", "").split("[")
        steps.append(name)
        steps.extend(int(place) for place in places)
    return steps


def _put(data: Any, key: str, value: Any) -> None:
    *inner, last = _steps(key)
    for step in inner:
        data = data.setdefault(step, {}) if isinstance(data, dict) else data[step]
    if value is Drop:
        del data[last]
    else:
        data[last] = value


def plan_for(case: Case, text: str) -> Plan:
    _, devices, release = BASES.get(case.base, ("", 8, "1.3.2"))
    return plan_of(
        parse(text.encode(case.encoding), Path(case.name), forgiving=True),
        devices=case.devices or devices,
        device_memory=case.device_memory,
        mindformers=case.release or release,
    )


def judge(case: Case) -> tuple[CheckOutcome, str]:
    text = text_of(case)
    (item,) = [check for check in registry.checks("config") if check.rule.id == case.rule]
    (outcome,) = run_checks([item], plan_for(case, text))
    return outcome, text


def line_of(text: str, key: str) -> Optional[int]:
    """The line on which a key stands, by a walk of its own over PyYAML's nodes."""
    node: Any = yaml.compose(text)
    line = None
    for step in _steps(key):
        if isinstance(step, int):
            node = node.value[step]
            line = node.start_mark.line + 1
            continue
        for name, value in node.value:
            if name.value == step:
                node, line = value, name.start_mark.line + 1
                break
        else:
            return line
    return line


def _named(case: Case) -> str:
    return f"{case.rule}-{case.base or 'text'}"


@pytest.mark.parametrize("case", BAD, ids=_named)
def test_rule_finds_its_fault(case: Case) -> None:
    outcome, text = judge(case)
    assert outcome.state == "found", outcome.reason and outcome.reason.en
    key = case.key or next(iter(case.changes), None)
    evidence = [item for finding in outcome.findings for item in finding.evidence]
    assert evidence
    if key is not None:
        near = [item for item in evidence if item.key == key or (item.key or "").startswith((f"{key}.", f"{key}["))]
        assert near, [item.key for item in evidence]
        evidence = near
    for item in evidence[:1] if case.line else evidence:
        expected = case.line or line_of(text, str(item.key))
        assert expected in (item.line, None), (item.key, item.line, expected)


@pytest.mark.parametrize("case", BAD, ids=_named)
def test_findings_are_whole_in_both_languages(case: Case) -> None:
    outcome, _ = judge(case)
    for finding in outcome.findings:
        for lang in ("en", "zh"):
            row = finding.to_dict(lang)
            texts = [row["title"], row["message"], *(fix["summary"] for fix in row["fixes"])]
            assert all(texts)
            assert not any(
                "{" + name + "}" in text for text in texts for name in ("key", "value", "name", "kind", "what")
            )
        assert any("\u4e00" <= char <= "\u9fff" for char in finding.message.zh), finding.message.zh
        assert finding.fixes


#: a phrase, as names of settings and words of a file are none
_PHRASE = re.compile(r"\b(?:a|an|the|of|or|to|and|at|most|below|above|than|with|once|one|no)\b|[A-Za-z]+ [a-z]+ [a-z]+")


@pytest.mark.parametrize("case", BAD, ids=_named)
def test_what_should_stand_there_is_said_in_both_languages(case: Case) -> None:
    outcome, _ = judge(case)
    for item in (item for finding in outcome.findings for item in finding.evidence):
        chinese, english = item.to_dict("zh"), item.to_dict("en")
        for part in ("observed", "expected"):
            words = chinese.get(part)
            if isinstance(words, str) and part == "expected":
                assert not _PHRASE.search(words), words
            assert type(words) is type(english.get(part))


@pytest.mark.parametrize("case", GOOD, ids=_named)
def test_rule_is_silent_on_the_look_alike(case: Case) -> None:
    outcome, _ = judge(case)
    found = [finding for finding in outcome.findings if finding.severity.at_least(Severity.WARNING)]
    assert not found, found[0].message.en


@pytest.mark.parametrize("base", sorted(BASES))
def test_healthy_configs_have_no_finding(base: str) -> None:
    name = "config.json" if base == "huggingface" else "config.yaml"
    plan = plan_for(Case("", base, {}, name=name), BASES[base][0])
    outcomes = run_checks(registry.checks("config"), plan)
    assert {outcome.state for outcome in outcomes} <= {"passed", "skipped"}
    assert all(outcome.reason for outcome in outcomes if outcome.state == "skipped")


def test_every_rule_has_a_bad_fixture() -> None:
    ids = {item.rule.id for item in registry.checks("config")}
    assert ids - {case.rule for case in BAD} == _OWN_TESTS & ids
    assert len(ids) >= 150


def test_the_sources_of_mindformers_own_rules_are_all_there() -> None:
    """Every raise site of check_rules.py (1.0 to 2.1) has a rule that names it."""
    sites = {
        "_check_parallel",
        "_check_context_parallel_algo_valid",
        "_check_moe_parallel_valid",
        "_check_keyword_gen_dataset",
        "_check_predict_with_train_model",
        "_check_config_campacity",
        "_check_swap",
        "_rule_bs_divisible_by_dp",
        "_rule_pp_only_for_train",
        "_rule_recompute",
        "_rule_recompute_no_pp",
        "_rule_swap_no_pp",
        "check_yaml_depth_before_loading",
    }
    cited = " ".join(reference for item in registry.checks("config") for reference in item.rule.references)
    assert {site for site in sites if site not in cited} == set()


@pytest.mark.parametrize(
    ("name", "here", "place"),
    [
        ("micro_batch_interleave_num", "parallel_config", ""),
        ("data_parallel", "runner_config", "parallel_config"),
        ("num_layers", "parallel_config", "model.model_config"),
    ],
)
def test_a_setting_in_the_wrong_section_is_sent_to_the_one_that_is_about_it(name: str, here: str, place: str) -> None:
    assert home(Dialect.LEGACY, name, here) == place


def test_the_first_suggestion_is_the_nearest_legal_value() -> None:
    outcome, _ = judge(Case("CFG-MOD-001", "legacy", {"model.model_config.num_heads": 30}))
    (finding,) = outcome.findings
    assert [fix.edits[0].new for fix in finding.fixes] == [32, 16]
