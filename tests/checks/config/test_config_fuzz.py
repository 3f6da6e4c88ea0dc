"""Whatever stands in a config, checks answer with findings or say why they cannot judge; none crashes."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from config_bases import BASES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from doctor import registry
from doctor.check import Options
from doctor.checks.config.subject import facts, headline, silenced
from doctor.errors import UsageError
from doctor.finding import Edit
from doctor.plan.build import plan_of
from doctor.plan.edit import edit_text
from doctor.plan.plan import Plan
from doctor.plan.reader import parse
from doctor.runner import run_checks

YAMLS = sorted(set(BASES) - {"huggingface"})
DATA = {name: yaml.safe_load(BASES[name][0]) for name in sorted(BASES)}

#: values of every kind, and numbers at the edges of what arithmetic takes
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from((0, -1, 1, 3, 2**31, 2**63, -(2**63), 10**400, 1e308, 1e-308, -0.0)),
    st.sampled_from((float("nan"), float("inf"), float("-inf"))),
    st.integers(),
    st.floats(),
    st.sampled_from(("", " ", "1e-5", "true", "None", "64GB", "-1GB", "float16", "{", "%s {0} {key}", "\u4e2d\u6587")),
    st.text(max_size=12),
    st.just([]),
    st.just({}),
    st.lists(st.one_of(st.none(), st.integers(-3, 3), st.text(max_size=3), st.floats()), max_size=4),
    st.lists(st.lists(st.integers(-2, 9), max_size=3), max_size=3),
    st.dictionaries(st.text(max_size=5), st.one_of(st.none(), st.integers(), st.text(max_size=3)), max_size=3),
    st.dictionaries(st.sampled_from(("type", "swap", "lr_end", "path", "default")), st.integers(), max_size=3),
)


def _places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for step, value in items:
        found += _places(value, (*path, step))
    return found


PLACES = {name: _places(data) for name, data in DATA.items()}


def _with(data: Any, path: tuple[Any, ...], value: Any) -> None:
    """Sets the value at a path, where earlier changes left something to set it in."""
    *inner, last = path
    for step in inner:
        if not _has(data, step):
            return
        data = data[step]
    if isinstance(data, dict) or _has(data, last):
        data[last] = value


def _has(data: Any, step: Any) -> bool:
    if isinstance(data, dict):
        return step in data
    return isinstance(data, list) and isinstance(step, int) and step < len(data)


@st.composite
def spoilt(draw: st.DrawFn) -> tuple[str, str]:
    """A base and its text with some values exchanged for others of any type."""
    base = draw(st.sampled_from(YAMLS))
    data = copy.deepcopy(DATA[base])
    for path in draw(st.lists(st.sampled_from(PLACES[base]), min_size=1, max_size=6)):
        _with(data, path, draw(ODD))
    return base, yaml.safe_dump(data, sort_keys=False, allow_unicode=True)


def judge(text: str, devices: int = 8, release: str = "1.3.2", name: str = "run.yaml") -> Plan:
    """Runs every check and renders all that a report holds."""
    plan = plan_of(parse(text.encode("utf-8"), Path(name)), devices=devices, mindformers=release)
    outcomes = run_checks(registry.checks("config"), plan)
    for outcome in outcomes:
        assert outcome.state != "crashed", (outcome.rule, outcome.reason)
        assert outcome.state != "skipped" or outcome.reason
        silenced(plan, outcome)
        for finding in outcome.findings:
            assert finding.to_dict("en")
            assert finding.to_dict("zh")
            for fix in finding.fixes:
                assert all(isinstance(edit, Edit) for edit in fix.edits)
    facts(plan)
    headline(plan)
    return plan


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(spoilt(), st.sampled_from((1, 8, 7, 1024)))
def test_values_of_any_type_crash_no_check(case: tuple[str, str], devices: int) -> None:
    base, text = case
    judge(text, devices, BASES[base][2])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(spoilt())
def test_fixes_of_spoilt_configs_leave_yaml(case: tuple[str, str]) -> None:
    base, text = case
    plan = plan_of(parse(text.encode("utf-8"), Path("run.yaml")), devices=8, mindformers=BASES[base][2])
    for outcome in run_checks(registry.checks("config"), plan):
        for finding in outcome.findings:
            for fix in finding.fixes:
                if fix.edits:
                    yaml.compose(edit_text(text, fix.edits))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(YAMLS), st.integers(0, 10_000), st.sampled_from("\t\n :-{}[]&*!|>'\"#%@\x00\u4e2d"), st.booleans()
)
def test_a_typing_slip_anywhere_is_a_finding_or_a_usage_error(base: str, at: int, mark: str, replace: bool) -> None:
    text = BASES[base][0]
    at %= len(text)
    try:
        judge(text[:at] + mark + text[at + replace :], BASES[base][1], BASES[base][2])
    except UsageError as error:
        assert "\n" not in error.line("en")


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=200))
def test_bytes_of_any_kind(raw: bytes) -> None:
    try:
        parse(raw, Path("run.yaml"))
    except UsageError as error:
        assert "\n" not in error.line("zh")


@pytest.mark.parametrize("base", YAMLS)
@pytest.mark.parametrize("value", [None, "x", -1, 10**400, [], {}, [[None]], {"a": {"b": []}}, True, float("nan")])
def test_every_section_of_a_wrong_type(base: str, value: Any) -> None:
    for section in DATA[base]:
        data = {**copy.deepcopy(DATA[base]), section: value}
        judge(yaml.safe_dump(data, sort_keys=False), BASES[base][1], BASES[base][2])


def test_an_empty_model_and_a_file_of_another_task() -> None:
    for model in ("", " {}", "\n  model_config:", "\n  model_config:\n    type:"):
        judge(f"run_mode: train\ntrainer:\n  type: CausalLanguageModelingTrainer\nmodel:{model}\nparallel_config:\n")
    judge("services:\n  web:\n    image: nginx\n    ports: [80]\n")


def test_options_of_the_command_reach_the_plan() -> None:
    options = Options(devices=16, mindformers="1.8.0")
    plan = judge(BASES["mcore"][0], options.devices or 1, options.mindformers or "")
    assert plan.devices == 16
    assert plan.release.version == "1.8.0"
