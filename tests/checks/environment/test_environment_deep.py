"""`--deep`: a real computation in a child process, and what is said when it fails, hangs, or lands on another device."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from doctor import registry, runner
from doctor.check import CheckOutcome
from doctor.checks.environment import deep, deep_probe
from doctor.checks.environment.host import from_document
from doctor.checks.environment.sources.commands import Output
from doctor.checks.environment.sources.machine import Machine
from doctor.checks.environment.subject import Inspection, headline
from doctor.finding import Finding


def line(stage: str, **more: Any) -> str:
    return deep_probe.MARK + json.dumps({**more, "stage": stage}) + "\n"


def judge(facts: dict[str, Any]) -> list[Finding]:
    host = from_document({"python": {"executable": "/opt/ms/bin/python"}, "deep": facts}, "")
    assert host is not None
    checks = [item for item in registry.checks("environment") if item.rule.id.startswith("ENV-DEEP")]
    outcomes: tuple[CheckOutcome, ...] = runner.run_checks(checks, Inspection((host,), ({},)))
    assert not [outcome for outcome in outcomes if outcome.state == "crashed"], outcomes
    return [finding for outcome in outcomes for finding in outcome.findings]


DONE = (
    line("import", seconds=3.2, version="2.7.2")
    + line("matmul", seconds=9.1, device="Ascend")
    + line("gradient", seconds=0.2, device="Ascend")
    + line("done")
)


def test_a_computation_that_ends_well() -> None:
    facts = deep.facts(Output("ok", "noise\n" + DONE, "[WARNING] x\n", 0), "Ascend")
    assert facts["finished"] and facts["device"] == "Ascend" and facts["seconds"]["matmul"] == 9.1
    assert facts["lines"] == []
    assert judge(facts) == []


def test_a_computation_on_another_device() -> None:
    facts = deep.facts(Output("ok", DONE.replace('"Ascend"', '"CPU"'), "", 0), "Ascend")
    [finding] = judge(facts)
    assert finding.rule == "ENV-DEEP-002" and "CPU" in finding.title.en


CARD_TAKEN = (
    "[ERROR] DEVICE(4711,ffffa1b2c3d0,python):2026-03-02-10:00:00.123.456 [mindspore/ccsrc/plugin/device/ascend/hal/device/ascend_memory_adapter.cc:165] "
    "Initialize] Malloc device memory failed, size[32212254720], ret[207001], Device 6 may be other processes occupying this card, check as: ps -ef|grep python\n"
    'Traceback (most recent call last):\n  File "<string>", line 40, in compute\nRuntimeError: Ascend error occurred\n'
)


def test_the_error_is_explained_by_the_log_rules() -> None:
    facts = deep.facts(Output("failed", line("import", seconds=3.2) + line("failed"), CARD_TAKEN, 1), "Ascend")
    assert facts["reached"] == ["import"] and not facts["finished"]
    [finding] = judge(facts)
    assert finding.rule == "ENV-DEEP-001" and "matrix product" in finding.title.en
    assert finding.category in {"device-unavailable", "oom-device"}
    assert finding.evidence[0].text is not None and "Malloc device memory failed" in finding.evidence[0].text


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (Output("timeout", line("import", seconds=1.0), "", -9), "did not end within 300 s"),
        (Output("failed", line("import", seconds=1.0), "", -11), "killed by signal 11"),
        (Output("missing", "", "", None, "No such file"), "could not be started"),
        (Output("failed", "", "ModuleNotFoundError: No module named 'mindspore'\n", 1), "exit code 1"),
        (Output("flood", "x\n" * 1000, "", -9), "printed without end"),
        (Output("failed", "", "", -9), "out-of-memory killer"),
    ],
)
def test_other_ends(output: Output, said: str) -> None:
    [finding] = judge(deep.facts(output, "CPU"))
    assert said in finding.message.en
    assert finding.message.zh != finding.message.en


def test_what_ended_it_is_quoted_before_the_frames() -> None:
    errors = 'Traceback (most recent call last):\n  File "<string>", line 66, in main\n  File "a.py", line 1\nSystemExit: 0\n'
    [finding] = judge(deep.facts(Output("failed", "", errors, 1), "CPU"))
    assert [item.text for item in finding.evidence] == ["SystemExit: 0"]


def test_device_and_seconds_are_told() -> None:
    host = from_document({"host": {}, "deep": deep.facts(Output("ok", DONE, "", 0), "Ascend")}, "")
    assert host is not None
    [line] = headline(Inspection((host,), ({},)))
    assert line.en == "computed on Ascend: import 3.2 s, matmul 9.1 s, gradient 0.2 s"
    assert line.zh == "已在 Ascend 上计算：import 3.2 秒，matmul 9.1 秒，gradient 0.2 秒"


def test_words_of_an_error_are_kept_from_a_long_output() -> None:
    errors = "".join(f"line {number}\n" for number in range(5000)) + "\x1b[31mRuntimeError: at the end\n"
    text = "[ERROR] first\n" + line("import", seconds=1.0)
    lines = deep.facts(Output("failed", text, errors, 1), "CPU")["lines"]
    assert lines[0] == "[ERROR] first"
    assert lines[-1].endswith("RuntimeError: at the end") and "\x1b" not in lines[-1]
    assert len(lines) <= deep.LINES


def test_an_interpreter_without_the_framework(tmp_path: Path) -> None:
    """A real child process: an isolated copy of nothing, so that the import must fail."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
    python.chmod(0o755)
    facts = deep.run(Machine({"PATH": "/usr/bin:/bin"}, str(tmp_path)), str(python), "CPU", False)
    assert not facts["finished"]
    assert any("No module named 'mindspore'" in text for text in facts["lines"])
    [finding] = judge(facts)
    assert finding.rule == "ENV-DEEP-001" and "import mindspore fails" in finding.title.en


@pytest.mark.mindspore
@pytest.mark.skipif(importlib.util.find_spec("mindspore") is None, reason="MindSpore is not installed")
def test_a_real_matrix_product_and_gradient(tmp_path: Path) -> None:
    import os

    machine = Machine({**os.environ, "OMP_NUM_THREADS": "1"}, str(tmp_path))
    facts = deep.run(machine, sys.executable, "CPU", False)
    assert facts["finished"], facts["lines"]
    assert facts["device"] == "CPU" and facts["reached"] == ["import", "matmul", "gradient"]
    assert judge(facts) == []
