"""A report in its four forms: the schema holds, the text is escaped and fits, the last line is the verdict."""

from __future__ import annotations

import json
import subprocess
import sys

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.check import CheckOutcome
from doctor.finding import Edit, Evidence, Finding, Fix, Severity, Text, fill, plain
from doctor.report.github import to_github
from doctor.report.model import Collect, Report, exit_code, in_order
from doctor.report.sarif import to_sarif
from doctor.report.schema import load
from doctor.report.text import finding_lines, render
from doctor.report.width import cell_width, wrap


def finding(severity: Severity = Severity.ERROR, text: str = "2 x 4 = 8, not 16", **more: object) -> Finding:
    values: dict[str, object] = {
        "rule": "CFG-PAR-001",
        "name": "parallel-product-mismatch",
        "severity": severity,
        "category": "parallel-strategy",
        "title": Text("the parallel sizes do not multiply to the devices", "并行度乘积与卡数不符"),
        "message": Text(text, text),
        "confidence": 0.9,
        "evidence": (
            Evidence("value", "a.yaml", line=3, column=5, offset=40, key="parallel_config.data_parallel", observed=2),
        ),
        "fixes": (
            Fix(
                Text("set data_parallel to 4", "把 data_parallel 改为 4"),
                edits=(Edit("a.yaml", "parallel_config.data_parallel", 2, 4),),
                applicability="unsafe",
                verify="doctor check a.yaml --devices 16",
            ),
        ),
    }
    values.update(more)
    return Finding(**values)  # type: ignore[arg-type]


FULL = Report(
    command="check",
    findings=(finding(), finding(Severity.INFO, "x", root_cause=False)),
    outcomes=(
        CheckOutcome("CFG-PAR-001", "found"),
        CheckOutcome("ENV-CANN-001", "skipped", Text("no CANN here", "本机没有 CANN")),
    ),
    facts={"ratio": float("nan"), "big": float("-inf"), "shape": (1, 2)},
    collect=(Collect(Text("the first error of rank 0", "rank 0 的第一条报错"), "head -50 worker_0.log"),),
)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_json_form_meets_the_schema_that_is_shipped(lang: str) -> None:
    row = json.loads(json.dumps(FULL.to_dict(lang), allow_nan=False))
    jsonschema.Draft202012Validator(load("report-1")).validate(row)
    assert row["facts"] == {"ratio": "nan", "big": "-inf", "shape": [1, 2]}
    assert list(row)[:6] == ["schema", "command", "verdict", "findings", "outcomes", "facts"]


def test_the_schema_refuses_a_skip_without_a_reason_and_an_unknown_category() -> None:
    validator = jsonschema.Draft202012Validator(load("report-1"))
    row = FULL.to_dict("en")
    del row["outcomes"][1]["reason"]
    assert not validator.is_valid(row)
    row = FULL.to_dict("en")
    row["findings"][0]["category"] = "gremlins"
    assert not validator.is_valid(row)


@pytest.mark.parametrize(
    ("findings", "states", "fail_on", "verdict", "code"),
    [
        ((), ("passed",), "error", "ok", 0),
        ((), ("skipped",), "error", "unknown", 2),
        ((), ("skipped", "passed"), "error", "ok", 0),
        ((), ("crashed", "passed"), "error", "ok", 3),
        ((Severity.INFO,), ("found",), "error", "ok", 0),
        ((Severity.WARNING,), ("found",), "error", "warning", 0),
        ((Severity.WARNING,), ("found",), "warning", "warning", 1),
        ((Severity.ERROR,), ("found",), "error", "error", 1),
        ((Severity.FATAL,), ("found",), "never", "error", 0),
        ((Severity.FATAL,), ("found", "crashed"), "error", "error", 3),
    ],
)
def test_verdict_and_exit_code(
    findings: tuple[Severity, ...], states: tuple[str, ...], fail_on: str, verdict: str, code: int
) -> None:
    reason = Text("because", "因为")
    report = Report(
        command="check",
        findings=tuple(finding(severity) for severity in findings),
        outcomes=tuple(CheckOutcome("CFG-PAR-001", state, reason) for state in states),
    )
    assert (report.verdict, exit_code(report, fail_on)) == (verdict, code)


def test_the_text_form_shows_place_fix_and_verify_and_ends_with_the_verdict() -> None:
    lines = list(render(FULL, "en"))
    text = "\n".join(lines)
    assert "a.yaml:3:5 parallel_config.data_parallel" in text
    assert "parallel_config.data_parallel: 2 -> 4" in text
    assert "verify: doctor check a.yaml --devices 16" in text
    assert lines[-1].startswith("Problems found: 1 error, 1 note, 1 skipped.")
    assert all(cell_width(line) <= 80 for line in lines)


def test_what_a_log_holds_reaches_the_terminal_harmless() -> None:
    nasty = "\x1b[31mred\x07 [bold]x[/bold] \u202eevil {rank}"
    lines = "\n".join(render(Report("check", findings=(finding(text=nasty),)), "en", colour=False))
    assert "\x1b" not in lines and "\x07" not in lines and "\u202e" not in lines
    assert "\\e[31mred\\x07 [bold]x[/bold]" in lines and "{rank}" in lines


def test_colour_is_the_only_difference_that_colour_makes() -> None:
    import re

    coloured = list(render(FULL, "zh", colour=True))
    assert any("\x1b[31m" in line for line in coloured)
    assert [re.sub("\x1b\\[[0-9;]*m", "", line) for line in coloured] == list(render(FULL, "zh"))


def test_worst_first_then_by_place() -> None:
    later = finding(evidence=(Evidence("value", "a.yaml", line=9),))
    early = finding(evidence=(Evidence("value", "a.yaml", line=2),))
    fatal = finding(Severity.FATAL, evidence=(Evidence("value", "z.yaml", line=99),))
    assert in_order([later, early, fatal]) == (fatal, early, later)


def test_sarif_names_file_line_and_level() -> None:
    run = to_sarif(FULL, "en", "1.0")["runs"][0]
    first = run["results"][0]
    assert (first["ruleId"], first["level"]) == ("CFG-PAR-001", "error")
    assert first["locations"][0]["physicalLocation"]["region"] == {"startLine": 3, "startColumn": 5}
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["CFG-PAR-001"]


def test_github_annotations_cannot_be_broken_out_of() -> None:
    line = next(iter(to_github(Report("check", findings=(finding(text="a\n::error::b%"),)), "en")))
    assert line.startswith("::error file=a.yaml,line=3,col=5,title=CFG-PAR-001 ")
    assert "\n" not in line and "a%0A::error::b%25" in line


@given(st.text(max_size=300), st.integers(20, 100))
def test_wrapping_loses_nothing_but_blanks(text: str, width: int) -> None:
    from doctor.escape import visible

    shown = visible(text)
    joined = "".join(wrap(shown, width, "  ", "  "))
    assert joined.replace(" ", "") == shown.replace(" ", "").replace("\n", "")


def test_wrapping_counts_chinese_as_two_cells() -> None:
    lines = list(wrap("显存不足，需要的显存大于单卡容量，请开启重计算或减小批大小。" * 3, 40))
    assert len(lines) > 3 and all(cell_width(line) <= 40 for line in lines)
    assert not any(line[0] in "，。" for line in lines)


def test_a_chinese_title_is_as_narrow_as_its_message() -> None:
    """Its characters are few and wide."""
    title = Text("x", "CANN 8.5.0 安装在 /usr/local/Ascend/cann，但当前 shell 没有加载它的环境变量")
    first, second, *_ = finding_lines(finding(title=title), "zh")
    assert (first + second.strip()).endswith(title.zh) and cell_width(first) <= 80


@given(st.text(), st.dictionaries(st.text(max_size=5), st.one_of(st.text(), st.floats(), st.none()), max_size=4))
def test_filling_a_template_never_raises(template: str, values: dict[str, object]) -> None:
    fill(template, values)


def test_a_template_keeps_the_braces_that_came_with_a_users_text() -> None:
    assert fill("{a} and {'k': 1} {missing} {b:.2f}", {"a": "{b}", "b": 1.234}) == "{b} and {'k': 1} {missing} 1.23"


@given(st.recursive(st.one_of(st.none(), st.floats(), st.text(), st.integers()), st.lists, max_leaves=10))
def test_every_value_becomes_json(value: object) -> None:
    json.dumps(plain(value), allow_nan=False)


def test_a_closed_pipe_is_no_error() -> None:
    line = f"{sys.executable} -m doctor --help"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line} | head -1"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and done.stderr == ""
