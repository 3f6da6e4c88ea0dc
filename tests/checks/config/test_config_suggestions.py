"""Every suggestion fed back: with its edits the finding is gone and no error is new; and `--fix` on real files."""

from __future__ import annotations

import os
import pty
import select
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from config_bases import BASES
from config_cases import BAD, Case
from config_slips import KINDS, Page
from conftest import Run
from test_config_official import Official, _slips_of, officials
from test_config_rules import plan_for, text_of

from doctor import registry
from doctor.errors import UsageError
from doctor.finding import Edit, Finding, Severity
from doctor.plan.build import plan_of
from doctor.plan.edit import edit_text
from doctor.plan.plan import Plan
from doctor.plan.reader import parse
from doctor.plan.repair import repair
from doctor.report.model import in_order
from doctor.runner import run_checks

__all__ = ["officials"]

#: suggestions whose text an edit cannot reach: a tag keeps the value what it is
UNREACHED = {("CFG-YML-005", "CFG-CTX-001")}


def _findings(plan: Plan) -> list[Finding]:
    return [finding for outcome in run_checks(registry.checks("config"), plan) for finding in outcome.findings]


def _told(finding: Finding) -> tuple[str, str]:
    return finding.rule, str(finding.place.key if finding.place else "")


def _errors(findings: list[Finding]) -> set[tuple[str, str]]:
    return {_told(finding) for finding in findings if finding.severity.at_least(Severity.ERROR)}


def _faults(text: str, plan_of_text: Callable[[str], Plan], tried: set[str], place: str) -> list[str]:
    """What is wrong with the suggestions for a text; those that were `tried` at the same `place` are passed over."""
    try:
        findings = _findings(plan_of_text(text))
    except UsageError:
        return []
    before, wrong = _errors(findings), []
    for finding in findings:
        for fix in finding.fixes:
            if not fix.edits:
                continue
            label = f"{finding.rule} {[(edit.key, edit.old, edit.new) for edit in fix.edits]}"
            if f"{place} {label}" in tried:
                continue
            tried.add(f"{place} {label}")
            new = edit_text(text, fix.edits)
            if new == text:
                wrong.append(f"{label}: changes nothing")
                continue
            after = _findings(plan_of_text(new))
            if _told(finding) in {_told(item) for item in after}:
                wrong.append(f"{label}: the finding stays")
            fresh = {item for item in _errors(after) - before if item[1] not in _uncovered(finding, fix.edits)}
            if fresh:
                wrong.append(f"{label}: brings {sorted(fresh)}")
    return wrong


def _uncovered(finding: Finding, edits: tuple[Edit, ...]) -> set[str]:
    """Keys whose value is judged for the first time: a number that was a text or the other way round, a setting under
    its right name."""
    moved = len(edits) == 2 and edits[0].new is None and edits[1].new == edits[0].old
    return {edit.key for edit in edits} if moved or finding.rule in {"CFG-TYP-001", "CFG-TYP-008"} else set()


@pytest.mark.heavy
def test_suggestions_of_every_rule_cure_and_break_nothing() -> None:
    wrong, tried = [], set[str]()
    for case in BAD:

        def plan(text: str, case: Case = case) -> Plan:
            return plan_for(case, text)

        wrong += [
            f"{case.rule} on {case.base}: {line}"
            for line in _faults(text_of(case), plan, tried, case.base)
            if (case.rule, line.split()[0]) not in UNREACHED
        ]
    assert not wrong, wrong


@pytest.mark.heavy
def test_suggestions_for_slips_in_official_configs_cure_and_break_nothing(officials: tuple[Official, ...]) -> None:
    pages = [
        (item, Page(item.text, tuple(map(int, item.release.split(".")))))
        for item in officials
        if "base_config" not in item.text
    ]
    wrong, seen, tried = [], 0, set[str]()
    # two lines with one name: which of them an edit meets is no matter of the rule
    for name in sorted(set(KINDS) - {"duplicate_setting", "duplicate_section"})[::2]:
        for item, slip in _slips_of(name, pages, each=1):

            def plan(text: str, item: Official = item) -> Plan:
                document = parse(text.encode("utf-8"), item.path, forgiving=True)
                return plan_of(document, devices=item.devices, mindformers=item.release)

            seen += 1
            wrong += [
                f"{item.release}/{item.name} {slip.note}: {line}" for line in _faults(slip.text, plan, tried, item.name)
            ]
    assert seen >= 40
    assert not wrong, wrong


@pytest.mark.heavy
@pytest.mark.parametrize("allowed", [{"safe"}, {"safe", "unsafe"}], ids=["safe", "unsafe"])
def test_a_second_repair_changes_nothing_and_no_repair_adds_errors(tmp_path: Path, allowed: set[str]) -> None:
    for case in BAD[::8]:
        # sixty keys are named at a time, and so repaired
        if case.rule == "CFG-KEY-017" or case.encoding != "utf-8":
            continue
        path = tmp_path / case.name
        text = text_of(case)
        path.write_bytes(text.encode("utf-8"))

        def judge(text: str, case: Case = case, path: Path = path) -> list[Finding]:
            _, devices, release = BASES.get(case.base, ("", 8, "1.3.2"))
            plan = plan_of(
                parse(text.encode("utf-8"), path, forgiving=True),
                devices=case.devices or devices,
                device_memory=case.device_memory,
                mindformers=case.release or release,
            )
            return list(in_order(_findings(plan)))

        before = judge(text)
        _, once = repair(path, before, allowed, judge)
        after = judge(once)
        assert len(_errors(after)) <= len(_errors(before)), case
        path.write_bytes(once.encode("utf-8"))
        _, twice = repair(path, after, allowed, judge)
        assert twice == once, case


# ---- on real files ----

_TEXT = BASES["legacy"][0].replace("max_device_memory", "max_device_memroy", 1)
_DEVICES = str(BASES["legacy"][1])


def _fixed(doctor: Run, path: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return doctor("check", str(path), "--devices", _DEVICES, "--fix", "--unsafe-fixes", "--yes", *more)


@pytest.mark.parametrize(
    ("ends", "last", "mark"), [("\n", False, b""), ("\r\n", True, b""), ("\r\n", False, b"\xef\xbb\xbf")]
)
def test_bytes_outside_the_edit_stay(tmp_path: Path, doctor: Run, ends: str, last: bool, mark: bytes) -> None:
    text = "# 我的配置\n" + _TEXT.rstrip("\n") + "\n\n# the end" + ("\n" if last else "")
    raw = mark + text.replace("\n", ends).encode("utf-8")
    path = tmp_path / "run.yaml"
    path.write_bytes(raw)
    done = _fixed(doctor, path)
    assert done.returncode in (0, 1), done.stderr
    assert path.read_bytes() == raw.replace(b"max_device_memroy", b"max_device_memory")
    again = _fixed(doctor, path)
    assert "nothing to fix" in again.stderr
    assert path.read_bytes() == raw.replace(b"max_device_memroy", b"max_device_memory")


def test_a_linked_config_is_fixed_where_it_lies(tmp_path: Path, doctor: Run) -> None:
    (tmp_path / "store").mkdir()
    real, link = tmp_path / "store" / "real.yaml", tmp_path / "run.yaml"
    real.write_text(_TEXT, encoding="utf-8")
    link.symlink_to(real)
    assert _fixed(doctor, link).returncode in (0, 1)
    assert link.is_symlink()
    assert "max_device_memroy" not in real.read_text(encoding="utf-8")
    assert sorted(item.name for item in (tmp_path / "store").iterdir()) == ["real.yaml"]


def test_a_read_only_config_is_left_alone(tmp_path: Path, doctor: Run) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(_TEXT, encoding="utf-8")
    path.chmod(0o444)
    done = _fixed(doctor, path)
    assert done.returncode == 2
    assert "write-protected" in done.stderr and "Traceback" not in done.stderr
    assert path.read_text(encoding="utf-8") == _TEXT
    assert stat.S_IMODE(path.stat().st_mode) == 0o444


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        # the anchor is the fault: its text changes, and what refers to it follows
        (
            "  data_parallel: &dp 3 # of 8\n  model_parallel: 2\n  pipeline_stage: 2\n  micro_batch_num: *dp\n",
            "  data_parallel: &dp 2 # of 8\n",
        ),
        # the use is the fault: the anchor keeps what it is
        (
            "  model_parallel: &two 2\n  pipeline_stage: *two\n  micro_batch_num: 4\n  data_parallel: *two4\n",
            None,
        ),
    ],
)
def test_an_anchor_is_edited_where_its_text_stands(
    tmp_path: Path, doctor: Run, rows: str, expected: str | None
) -> None:
    path = tmp_path / "run.yaml"
    head = "run_mode: train\nuse_parallel: True\nparallel:\n  parallel_mode: 1\ncommon: &two4 4\nparallel_config:\n"
    path.write_text(head + rows + "trainer:\n  type: CausalLanguageModelingTrainer\n", encoding="utf-8")
    done = doctor("check", str(path), "--devices", "8", "--only", "CFG-PAR-001", "--fix", "--unsafe-fixes", "--yes")
    after = path.read_text(encoding="utf-8")
    if expected is not None:
        assert expected in after, done.stderr
        assert after.count("*dp") == 1
    else:
        assert "common: &two4 4\n" in after and "&two 2" in after
        assert "  data_parallel: 2\n" in after, done.stderr


def test_a_config_that_changes_while_the_question_stands_is_left_alone(tmp_path: Path) -> None:
    """Another process saves the file between the diff and the yes."""
    path = tmp_path / "run.yaml"
    path.write_text(_TEXT, encoding="utf-8")
    other = _TEXT + "# saved by an editor\n"
    words = [sys.executable, "-m", "doctor", "check", str(path), "--devices", _DEVICES, "--fix", "--unsafe-fixes"]
    leader, follower = pty.openpty()
    with subprocess.Popen(
        words, stdin=follower, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, env=_environment(tmp_path)
    ) as process:
        os.close(follower)
        said = _read_until(process, b"[y/N]")
        assert b"max_device_memory" in said
        code = f"import pathlib; pathlib.Path({str(path)!r}).write_text({other!r}, encoding='utf-8')"
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
        os.write(leader, b"y\n")
        _, error = process.communicate(timeout=60)
    os.close(leader)
    assert process.returncode == 2
    assert b"changed in the meantime" in error and b"Traceback" not in error
    assert path.read_text(encoding="utf-8") == other
    assert [item.name for item in tmp_path.iterdir() if item.name.startswith(".run")] == []


def _environment(home: Path) -> dict[str, str]:
    root = str(Path(__file__).parents[3])
    return {**os.environ, "PYTHONPATH": root, "HOME": str(home), "LC_ALL": "C.UTF-8", "LANG": "C.UTF-8"}


def _read_until(process: subprocess.Popen[Any], words: bytes) -> bytes:
    assert process.stderr is not None
    said, end = b"", time.monotonic() + 60
    while words not in said and time.monotonic() < end:
        if select.select([process.stderr], [], [], 1.0)[0]:
            chunk = os.read(process.stderr.fileno(), 4096)
            if not chunk:
                break
            said += chunk
    assert words in said, said
    return said
