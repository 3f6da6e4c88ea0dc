"""Every place where MindFormers' check_rules.py (1.0 to 2.1; 0.3 and 0.8 have none) raises, and the rule that says so first.

The table holds, for each site, the function and words of its message, a config that runs into it, and the rule. The last
test reads the code of the wheels and fails on a site that is not in the table.
"""

from __future__ import annotations

import ast
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from config_cases import Case, Drop
from test_config_official import RELEASES, _wheel
from test_config_rules import judge

from doctor.finding import Severity

_M, _P, _D = "model.model_config", "parallel_config", "train_dataset"
_SWAP = {"swap": True, "default_prefetch": 1, "layer_swap": [{"backward_prefetch": 1, "layers": [0]}]}


@dataclass(frozen=True)
class Site:
    function: str
    #: words of the message that tell it from the other sites of the function
    words: str
    case: Case
    severity: Severity = Severity.ERROR


def _mcore(rule: str, changes: dict[str, Any], key: str) -> Case:
    return Case(rule, "mcore", changes, key=key)


def _swapped(rule: str, key: str, changes: dict[str, Any]) -> Case:
    return _mcore(rule, {"swap_config": _SWAP, **changes}, key)


SITES = (
    Site("_check_mode", "mode should be in", Case("CFG-RUN-002", "legacy", {"run_mode": "trian"})),
    Site(
        "_check_parallel",
        "data_parallel * model_parallel",
        Case("CFG-PAR-001", "legacy", {f"{_P}.data_parallel": 3}),
    ),
    Site("_check_parallel", "num_layers of model", Case("CFG-PIP-002", "legacy", {f"{_P}.pipeline_stage": 64})),
    Site(
        "_check_parallel",
        "only available for flash attention",
        Case("CFG-SEQ-004", "legacy", {f"{_P}.context_parallel": 2, f"{_M}.use_flash_attention": False}),
    ),
    Site(
        "_check_parallel",
        "pipeline_scheduler is seqvpp",
        _mcore(
            "CFG-PIP-010",
            {"parallel.pipeline_config.pipeline_scheduler": "seqvpp"},
            "parallel.pipeline_config.pipeline_scheduler",
        ),
    ),
    Site(
        "_check_context_parallel_algo_valid",
        "it need cp * mp <= attention head",
        Case("CFG-SEQ-006", "legacy", {f"{_P}.context_parallel": 8, f"{_P}.context_parallel_algo": "ulysses_cp"}),
    ),
    Site(
        "_check_moe_parallel_valid",
        "MoE and tensor parallelism",
        _mcore("CFG-SEQ-009", {f"{_P}.use_seq_parallel": False}, f"{_P}.use_seq_parallel"),
    ),
    Site(
        "_check_keyword_gen_dataset",
        "max_source_length + max_target_length + 1",
        Case("CFG-DAT-009", "glm", {f"{_D}.max_target_length": 128, "metric": {"type": "ADGENMetric"}}),
        Severity.WARNING,
    ),
    Site(
        "_check_keyword_gen_dataset",
        "make sure `seq_length = max_source_length`",
        Case(
            "CFG-DAT-009",
            "glm",
            {
                "do_eval": True,
                "metric": {"type": "ADGENMetric"},
                "eval_dataset": {
                    "data_loader": {"type": "ADGenDataLoader", "dataset_dir": "/d", "phase": "eval"},
                    "max_source_length": 100,
                    "max_target_length": 100,
                },
            },
            key="eval_dataset.max_source_length",
        ),
        Severity.INFO,
    ),
    Site(
        "_check_predict_with_train_model",
        "",
        _mcore(
            "CFG-RUN-006", {f"{_P}.data_parallel": 4, "run_mode": "predict_with_train_model"}, f"{_P}.data_parallel"
        ),
    ),
    Site(
        "_check_predict_with_train_model",
        "",
        _mcore(
            "CFG-RUN-006",
            {
                "run_mode": "predict_with_train_model",
                f"{_P}.data_parallel": 1,
                "parallel.full_batch": False,
                "parallel.dataset_strategy": Drop,
            },
            "parallel.full_batch",
        ),
    ),
    Site(
        "_check_config_campacity",
        "fine_grain_interleave without context_parallel",
        Case("CFG-SEQ-010", "legacy", {f"{_M}.fine_grain_interleave": 2, f"{_P}.use_seq_parallel": False}),
    ),
    Site(
        "_rule_bs_divisible_by_dp",
        "batch_size should be divisible by dp",
        Case("CFG-BAT-007", "predict", {f"{_M}.batch_size": 3, f"{_P}.data_parallel": 2}, devices=4),
        Severity.WARNING,
    ),
    Site(
        "_rule_pp_only_for_train",
        "only support training process",
        Case("CFG-PIP-016", "legacy", {"run_mode": "eval"}, key=f"{_P}.pipeline_stage"),
    ),
    Site(
        "_rule_recompute",
        "equal or less than pipeline_stage number",
        Case("CFG-REC-001", "legacy", {"recompute_config.select_recompute": [8, 8, 8]}),
    ),
    Site(
        "_rule_recompute_no_pp",
        "the type of element of it must be int",
        _swapped("CFG-REC-003", "recompute_config.recompute", {"recompute_config.recompute": ["all"]}),
    ),
    Site(
        "_rule_recompute_no_pp",
        "Layer info of",
        _swapped("CFG-REC-003", "recompute_config.select_recompute", {"recompute_config.select_recompute": {"mul": 2}}),
    ),
    Site(
        "_rule_recompute_no_pp",
        "Op_name of",
        _swapped("CFG-REC-003", "recompute_config.select_recompute", {"recompute_config.select_recompute": {7: [0]}}),
    ),
    Site(
        "_check_swap",
        "Type of swap must be bool",
        _mcore("CFG-SWP-001", {"swap_config.swap": "on"}, "swap_config.swap"),
    ),
    Site(
        "_check_swap",
        "Type of default_prefetch",
        _swapped("CFG-SWP-002", "swap_config.default_prefetch", {"swap_config": {**_SWAP, "default_prefetch": 0}}),
    ),
    Site(
        "_check_swap",
        "Type of op_swap",
        _swapped("CFG-SWP-003", "swap_config.op_swap", {"swap_config": {**_SWAP, "op_swap": [1]}}),
    ),
    Site(
        "_rule_swap_no_pp",
        "Type of layer_swap must be list",
        _swapped("CFG-SWP-003", "swap_config.layer_swap", {"swap_config": {**_SWAP, "layer_swap": {"layers": [0]}}}),
    ),
    Site(
        "_rule_swap_no_pp",
        "Type of element in layer_swap",
        _swapped("CFG-SWP-003", "swap_config.layer_swap", {"swap_config": {**_SWAP, "layer_swap": [3]}}),
    ),
    Site(
        "_rule_swap_no_pp",
        ".backward_prefetch must be int",
        _swapped(
            "CFG-SWP-002",
            "swap_config.layer_swap[0].backward_prefetch",
            {"swap_config": {**_SWAP, "layer_swap": [{"backward_prefetch": 0, "layers": [0]}]}},
        ),
    ),
    Site(
        "check_yaml_depth_before_loading",
        "nesting depth",
        Case(
            "CFG-YML-008",
            "",
            {},
            text="run_mode: train\ncontext:\n"
            + "".join(f"{'  ' * depth}a{depth}:\n" for depth in range(1, 12))
            + f"{'  ' * 12}a: 1\n",
            release="1.8.0",
        ),
    ),
    Site(
        "check_yaml_depth_before_loading",
        "YAML parse error",
        Case("CFG-YML-010", "", {}, text="run_mode: train\nrunner_config:\n  epochs:2\n  batch_size: 1\n"),
    ),
)
#: functions inside others: their messages are those of the function around them
_INNER = {"raise_error_msg": "_check_keyword_gen_dataset"}


@pytest.mark.parametrize("site", SITES, ids=lambda site: f"{site.function}-{site.case.rule}")
def test_a_rule_judges_the_site(site: Site) -> None:
    outcome, _ = judge(site.case)
    assert outcome.state == "found", outcome.reason and outcome.reason.en
    found = [finding for finding in outcome.findings if finding.severity.at_least(site.severity)]
    assert found
    key = site.case.key or next(iter(site.case.changes), None)
    if key is not None:
        keys = {item.key or "" for finding in found for item in finding.evidence}
        assert any(item.startswith(key) for item in keys), keys


def _raises(code: str) -> Iterator[tuple[str, str]]:
    """Function and message of every raise of a module."""
    for function in ast.walk(ast.parse(code)):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Raise):
                    words = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
                    yield function.name, " ".join(word for word in words if isinstance(word, str))


@pytest.mark.heavy
def test_no_site_of_any_release_is_left_out() -> None:
    missing, seen = set(), 0
    for release in RELEASES:
        with zipfile.ZipFile(_wheel(release)) as archive:
            if "mindformers/tools/check_rules.py" not in archive.namelist():
                continue
            code = archive.read("mindformers/tools/check_rules.py").decode("utf-8")
        for function, message in _raises(code):
            seen += 1
            owner = _INNER.get(function, function)
            known = [site for site in SITES if site.function == owner and (not message or site.words in message)]
            if not known:
                missing.add((release, function, message[:100]))
    assert not missing
    assert seen >= 150


@pytest.mark.heavy
@pytest.mark.parametrize("release", ["2.0.0", "2.1.0"])
def test_pynative_scales_every_gradient_by_a_limit_of_zero(release: str) -> None:
    """The proof behind CFG-OPT-011: the limit is divided by the norm and compared with 1, never with 0, in a function
    that each step calls. The comment in the config (`if value > 0`) is not what the code does."""
    with zipfile.ZipFile(_wheel(release)) as archive:
        helper = archive.read("mindformers/pynative/trainer/utils.py").decode("utf-8")
        trainer = archive.read("mindformers/pynative/trainer/trainer.py").decode("utf-8")
    (function,) = [
        node
        for node in ast.walk(ast.parse(helper))
        if isinstance(node, ast.FunctionDef) and node.name == "_calculate_global_grad_norm"
    ]
    code = ast.unparse(function)
    assert "clip_coef = max_norm / (global_norm + eps)" in code
    tests = [ast.unparse(node.test) for node in ast.walk(function) if isinstance(node, ast.If)]
    assert "clip_coef < 1" in tests and not any("max_norm" in test for test in tests)
    calls = [
        node
        for node in ast.walk(ast.parse(trainer))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "_calculate_global_grad_norm"
    ]
    assert calls and all("max_norm" in {word.arg for word in call.keywords} for call in calls)
    assert "max_norm > 0" not in trainer
