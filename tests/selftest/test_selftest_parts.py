"""What the self-test is made of: the record of installed files, the criterion for noisy trainings, the line about the disk."""

from __future__ import annotations

import base64
import hashlib
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from doctor.check import Skip
from doctor.finding import Evidence, Severity, Text
from doctor.report.width import cell_width
from doctor.selftest.faults import KINDS
from doctor.selftest.installation import damaged
from doctor.selftest.live import told_at_once
from doctor.selftest.measure import Measured
from doctor.selftest.rows import Part, Row, quantile
from doctor.selftest.text import lines
from doctor.selftest.trial import Raised, Result, Trial, anywhere
from doctor.selftest.verdict import findings, tolerated


def installed(folder: Path, *names: str) -> PathDistribution:
    """A distribution as pip leaves it: files, and their hashes in RECORD."""
    rows = []
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n")
        digest = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{path.stat().st_size}")
    record = folder / "mindspore_doctor-0.1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Name: mindspore-doctor\nVersion: 0.1.0\n")
    (record / "RECORD").write_text("\n".join([*rows, f"{record.name}/RECORD,,"]) + "\n")
    return PathDistribution(record)


def test_missing_and_changed_files_are_named(tmp_path: Path) -> None:
    package = installed(tmp_path, "doctor/__init__.py", "doctor/rules/hccl/a.yaml", "doctor/cli.py")
    assert damaged(package) == ()
    (tmp_path / "doctor/cli.py").write_text("# of another release\n")
    (tmp_path / "doctor/rules/hccl/a.yaml").unlink()
    assert damaged(package) == ("doctor/cli.py", "doctor/rules/hccl/a.yaml")


def test_without_a_record_of_the_sources_nothing_is_said_to_be_whole(tmp_path: Path) -> None:
    with pytest.raises(Skip):
        damaged(installed(tmp_path, "doctor/checks/__init__.py"))


def trainings(found: int, missed: int, kind: str = "nan") -> list[Result]:
    return [
        Result(Trial("watch", kind, str(number)), ("RUN-NAN-001",), number < found) for number in range(found + missed)
    ]


@pytest.mark.parametrize(
    ("found", "missed", "noise"),
    [(40, 0, True), (39, 1, True), (10, 1, True), (10, 2, False), (95, 5, True), (94, 6, False)],
)
def test_of_trainings_one_in_twenty_may_be_missed(found: int, missed: int, noise: bool) -> None:
    part = Part("watch", tuple(trainings(found, missed)))
    assert tolerated(part) is noise
    severities = [item.severity for item in findings([part], "/tmp", {})]
    assert severities == ([] if not missed else [Severity.INFO if noise else Severity.ERROR])


def test_a_kind_that_is_missed_in_all_its_trainings_is_no_noise() -> None:
    part = Part("watch", (*trainings(100, 0), *trainings(0, 3, "inf")))
    assert not tolerated(part)


def test_of_all_other_parts_nothing_may_be_missed() -> None:
    results = tuple(Result(Trial("config", "heads", str(n)), ("CFG-MOD-001",), n > 0) for n in range(100))
    (found,) = findings([Part("config", results)], "/tmp", {})
    assert (found.rule, found.severity) == ("ENV-SELF-001", Severity.ERROR)


def test_late_alerts_are_told_with_the_folder() -> None:
    slow = [Result(Trial("live", "line", str(n)), ("LOG-HCCL-001",), True, delays_ms=(5000.0,)) for n in range(10)]
    (found,) = findings([Part("live", tuple(slow))], "/mnt/shared", {})
    assert found.rule == "ENV-SELF-006" and "/mnt/shared" in found.message.en and "5.0 s" in found.title.en


def test_alarms_name_their_place_and_the_row_counts_inputs() -> None:
    alarm = Raised("LOG-HCCL-001", "error", Evidence("log", "rank_0.log", line=7, text="x"))
    part = Part("explain", (Result(Trial("explain", "healthy", "graph-0"), alarms=(alarm, alarm)),))
    row = part.rows[0].to_dict(timed=False)
    assert (row["healthy"], row["false_alarms"], row["alarms"][0]["line"]) == (1, 1, 7)
    (found,) = findings([part], "/tmp", {})
    assert found.rule == "ENV-SELF-002" and found.place == alarm.place


def test_hidden_faults_count_neither_as_planted_nor_as_healthy() -> None:
    row = Row("watch", "updates-dropped", (Result(Trial("watch", "updates-dropped", "0"), hidden=True, found=False),))
    assert (row.planted, row.healthy, row.hidden, row.to_dict(False)["missed"]) == (0, 0, 1, [])


def test_where_no_inotify_tells_the_text_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(self: object) -> None:
        raise OSError(38, "no inotify")

    monkeypatch.setattr("doctor.records.inotify.Watch.__init__", none)
    assert told_at_once(tmp_path) is False
    done = Part("live", (Result(Trial("live", "line", "0"), ("LOG-HCCL-001",), True, delays_ms=(80.0,)),))
    shown = list(lines(Measured((done,), {}, (), tmp_path, inotify=False), verbose=True))
    assert any("no inotify" in text.en for text in shown)
    assert all(cell_width(text.pick(lang)) <= 80 for text in shown[:-1] for lang in ("en", "zh"))


def test_what_was_skipped_says_why() -> None:
    skipped = Part("live", skipped=Text("no room.", "没有空间。"))
    (_, line) = lines(Measured((skipped,), {}, (), None), verbose=False)
    assert line == Text("live     skipped: no room.", "live     跳过：没有空间。")


def test_quantiles_are_values_that_were_measured() -> None:
    assert [quantile([1.0, 2.0, 3.0, 4.0], share) for share in (0.0, 0.5, 0.75, 0.99, 1.0)] == [1.0, 2.0, 3.0, 4.0, 4.0]


def test_every_training_rule_that_a_kind_names_is_there() -> None:
    from doctor.match.pack import load_pack

    pack = load_pack()
    assert not [rule for kind in KINDS.values() for rule in kind.rules if pack.get(rule) is None]


def test_a_result_names_no_folder_that_is_another_one_each_time(tmp_path: Path) -> None:
    place = Evidence("log", str(tmp_path / "rank_0" / "info.log"), line=3)
    made = Result(Trial("watch", "healthy", "0"), alarms=(Raised("RUN-LOSS-002", "warning", place),))
    (alarm,) = anywhere(made, tmp_path).alarms
    assert alarm.place.source == "rank_0/info.log"
