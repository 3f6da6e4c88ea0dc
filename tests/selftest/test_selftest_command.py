"""`doctor selftest` as a user runs it: own rules, seeds, folders, interruptions. The whole of it is marked heavy."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from doctor.cli import main
from doctor.match.validate import check_pack

ROOT = Path(__file__).parents[2]
RULE = """\
id: {id}
name: {name}
severity: error
category: other
title: {{en: "A part that only we have failed", zh: "自有部件失败"}}
why: {{en: "It failed.", zh: "部件失败。"}}
fix: {{en: "Mend it.", zh: "请修复。"}}
match:
  line: ["{line}"]
examples:
  match: ["{example}"]
  no_match: ["frobnicator is ready"]
"""


def own(
    folder: Path, name: str, rule: str = "LOG-OWN-001", line: str = "frobnicator exploded", example: str = ""
) -> Path:
    """A rule of the user's own below ./own, which doctor.toml names."""
    path = folder / "own" / f"{name}.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(RULE.format(id=rule, name=name, line=line, example=example or line), encoding="utf-8")
    (folder / "doctor.toml").write_text('rules = ["own"]\n')
    return path


@pytest.fixture
def selftest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """``doctor selftest`` in an empty folder and in this process: of few trials, which need no others."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LANG", "en_US.UTF-8")
    monkeypatch.setattr("doctor.selftest.pool.PROCESSES", 1)

    def run(*words: str) -> Any:
        try:
            code = main(["selftest", *words])
        except SystemExit as end:  # argparse
            code = int(str(end.code))
        out, err = capsys.readouterr()
        return subprocess.CompletedProcess(words, code, out, err)

    return run


def told(done: Any) -> dict[str, Any]:
    assert done.stderr == "", done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def finding(report: dict[str, Any], rule: str) -> dict[str, Any]:
    (found,) = [item for item in report["findings"] if item["rule"] == rule]
    return dict(found)


@pytest.mark.heavy
def test_equal_seeds_give_equal_bytes_and_another_seed_other_trials(selftest: Any) -> None:
    words = ("--only", "nan", "--only", "labels-shifted-twice", "--only", "heads", "--format", "json")
    first, again, other = selftest(*words), selftest(*words), selftest(*words, "--seed", "3")
    assert first.returncode == 0 and first.stdout == again.stdout != other.stdout
    rows = {row["kind"]: row for row in told(first)["facts"]["rows"]}
    assert {name: (row["part"], row["planted"], row["found"]) for name, row in rows.items()} == {
        "nan": ("watch", 1, 1),
        "heads": ("config", 2, 2),
        "labels-shifted-twice": ("data", 2, 2),
    }
    assert rows["nan"]["unit"] == "steps" and rows["nan"]["delay"] <= 3 and "delay_ms" not in rows["nan"]


def test_the_report_is_one_of_the_schema(selftest: Any) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((ROOT / "doctor" / "report" / "schema" / "report-1.json").read_text())
    jsonschema.validate(told(selftest("--only", "LOG-HCCL-001", "--format", "json")), schema)


def test_a_rule_of_ones_own_that_works_is_tried_with_the_others(selftest: Any, tmp_path: Path) -> None:
    own(tmp_path, "frobnicator-failed")
    done = selftest("--only", "own-rules", "--format", "json")
    (row,) = told(done)["facts"]["rows"]
    assert done.returncode == 0
    assert (row["kind"], row["rules"], row["planted"], row["found"], row["delay"]) == (
        "own-rules",
        ["LOG-OWN-001"],
        1,
        1,
        0,
    )


def test_a_rule_file_that_cannot_be_read_is_named_and_the_others_are_tried(selftest: Any, tmp_path: Path) -> None:
    own(tmp_path, "frobnicator-failed")
    broken = own(tmp_path, "broken", "LOG-OWN-002")
    broken.write_text("id: LOG-OWN-002\nname: [\n")
    done = selftest("--only", "own-rules", "--only", "live", "--format", "json")
    report = told(done)
    assert done.returncode == 1
    named = finding(report, "ENV-SELF-003")
    assert named["evidence"][0]["source"] == str(broken) and "broken.yaml" in named["title"]
    (row,) = report["facts"]["rows"]
    assert (row["planted"], row["found"], row["missed"]) == (2, 1, ["broken.yaml"])
    assert [item["state"] for item in report["outcomes"] if item.get("target") == "live"] == ["skipped"]


def test_a_rule_of_ones_own_that_misses_its_examples_in_a_log_is_shown(selftest: Any, tmp_path: Path) -> None:
    """An INFO line shows no fault unless the rule says so: `doctor rules check` does not see that, a log does."""
    path = own(tmp_path, "frobnicator-failed", example="INFO frobnicator exploded")
    assert not check_pack(path)[1]
    done = selftest("--only", "LOG-OWN-001", "--format", "json")
    assert done.returncode == 1
    assert "misses its own examples" in finding(told(done), "ENV-SELF-003")["title"]


def test_a_rule_of_ones_own_that_is_raised_on_healthy_lines_is_a_false_alarm(selftest: Any, tmp_path: Path) -> None:
    path = own(tmp_path, "too-loud", line="Graph kernel fusion merges")
    path.write_text(path.read_text().replace("match:\n", "match:\n  level: info\n", 1))
    done = selftest("--only", "explain/healthy", "--format", "json")
    report = told(done)
    assert done.returncode == 1
    named = finding(report, "ENV-SELF-003")
    assert "is raised on" in named["title"] and "kernel fusion" in named["evidence"][0]["text"]
    (row,) = report["facts"]["rows"]
    assert row["false_alarms"] >= 1 and {alarm["rule"] for alarm in row["alarms"]} == {"LOG-OWN-001"}


def test_a_rule_of_ones_own_is_tried_on_ones_own_healthy_run(selftest: Any, tmp_path: Path) -> None:
    own(tmp_path, "too-loud", line="frobnicator exploded")
    (tmp_path / "good.log").write_text("frobnicator exploded, as it always does\nstep 1\n")
    words = ("--only", "heads", "--format", "json", "--healthy")
    done = selftest(*words, "good.log")
    assert done.returncode == 1 and "is raised on 1 healthy lines" in finding(told(done), "ENV-SELF-003")["title"]
    (tmp_path / "better.log").write_text("frobnicator is ready\n")
    assert selftest(*words, "better.log").returncode == 0
    assert selftest(*words, "nowhere.log").returncode == 2


def test_a_rule_that_takes_the_id_of_another_is_told_with_what_is_lost(selftest: Any, tmp_path: Path) -> None:
    own(tmp_path, "peer-zapped", "LOG-HCCL-001", "peer zapped away")
    done = selftest("--only", "LOG-HCCL-001", "--format", "json")
    report = told(done)
    assert done.returncode == 0, "it may be meant"
    assert finding(report, "ENV-SELF-004")["severity"] == "warning"
    assert selftest("--only", "LOG-HCCL-001", "--fail-on", "warning").returncode == 1


def test_text_is_a_screen_and_ends_with_the_verdict(selftest: Any) -> None:
    for lang, last in (("en", "OK: "), ("zh", "正常：")):
        done = selftest("--only", "config/heads", "--only", "LOG-HCCL-001", "-v", "--lang", lang)
        lines = done.stdout.splitlines()
        assert done.returncode == 0 and lines[-1].startswith(last) and "doctor check" in lines[-1]
        assert len(lines) < 24 and any(line.startswith("config") for line in lines)


def test_where_nothing_can_be_written_parts_are_skipped_not_passed() -> None:
    code = (
        "import sys, tempfile, errno\n"
        "def refuse(*a, **k): raise OSError(errno.EROFS, 'Read-only file system')\n"
        "tempfile.mkdtemp = refuse\n"
        "from doctor.cli import main\n"
        "sys.exit(main(['selftest', '--only', 'config', '--only', 'nan', '--only', 'LOG-HCCL-001', '--format', 'json']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    report = told(done)
    states = {item["target"]: item["state"] for item in report["outcomes"]}
    assert (states["watch"], states["config"], states["explain"]) == ("skipped", "skipped", "passed")
    reasons = [
        item["reason"] for item in report["outcomes"] if item["state"] == "skipped" and item["target"] == "watch"
    ]
    assert "TMPDIR" in reasons[0]


def test_without_numpy_what_needs_it_is_skipped_with_the_reason() -> None:
    code = (
        "import sys\n"
        "sys.modules['numpy'] = None\n"
        "from doctor.cli import main\n"
        "sys.exit(main(['selftest', '--only', 'nan', '--only', 'heads', '--format', 'json']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    states = {item["target"]: (item["state"], item.get("reason", "")) for item in told(done)["outcomes"]}
    assert states["config"][0] == "passed" and states["watch"][0] == "skipped" and "numpy" in states["watch"][1]


def test_a_folder_that_is_not_there_or_a_part_that_is_none_is_misuse(selftest: Any) -> None:
    for words in (("--folder", "nowhere"), ("--only", "nothing"), ("--runs", "0"), ("--seed", "-1")):
        done = selftest(*words)
        assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1, words


def test_ctrl_c_ends_it_with_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "LANG": "en_US.UTF-8"}
    process = subprocess.Popen(
        [sys.executable, "-m", "doctor", "selftest", "--only", "watch", "--runs", "20"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    end = time.monotonic() + 30
    while not list(tmp_path.glob("doctor-selftest-*/*")) and time.monotonic() < end:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "doctor: interrupted\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.heavy
def test_the_whole_finds_all_that_is_planted_and_raises_nothing_else(doctor: Any) -> None:
    done = doctor("selftest", "--format", "json", "-v", timeout=400)
    report = told(done)
    assert done.returncode == 0, report["findings"]
    rows = report["facts"]["rows"]
    assert {row["part"] for row in rows} == {"watch", "explain", "config", "weights", "data", "live"}
    assert len([row for row in rows if row["part"] == "config"]) > 50
    assert sum(row["planted"] for row in rows) > 1500
    (line,) = [row for row in rows if (row["part"], row["kind"]) == ("live", "line")]
    assert 0 < line["delay_ms"]["p50"] <= line["delay_ms"]["p99"]
