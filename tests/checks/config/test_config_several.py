"""Several configs in one call: one that cannot be read does not keep back what is found in the others."""

from __future__ import annotations

import json
from pathlib import Path

GOOD = "run_mode: trian\nrunner_config: {epochs: 1}\nparallel_config: {data_parallel: 1}\n"


def test_findings_of_the_readable_ones_are_shown(doctor, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "sound.yaml").write_text(GOOD)
    (tmp_path / "text.yaml").write_text("just some words\n")
    (tmp_path / "empty.yaml").write_text("")
    names = [str(tmp_path / name) for name in ("text.yaml", "sound.yaml", "empty.yaml", "absent.yaml")]
    done = doctor("check", *names, "--format", "json", "--lang", "en")
    assert done.returncode == 2
    report = json.loads(done.stdout)
    assert [item["rule"] for item in report["findings"] if item["severity"] == "error"] == ["CFG-RUN-002"]
    said = [line for line in done.stderr.splitlines() if line.startswith("doctor: ")]
    assert [any(name in line for line in said) for name in names] == [True, False, True, True]


def test_none_readable_is_one_line_and_no_report(doctor, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "text.yaml").write_text("just some words\n")
    done = doctor("check", str(tmp_path / "text.yaml"), "--lang", "zh")
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1


def test_a_release_may_be_written_as_the_tag(doctor, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "sound.yaml").write_text(GOOD)
    for word in ("v1.6.0", "r1.6.0"):
        done = doctor("check", str(tmp_path / "sound.yaml"), "--mindformers", word, "--format", "json")
        assert json.loads(done.stdout)["facts"]["release"]["candidates"] == ["1.6.0"]
