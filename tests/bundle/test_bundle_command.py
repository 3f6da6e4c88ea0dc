"""`doctor bundle RUN`: what it writes gives the same diagnosis, as an archive and unpacked, and is safe to read."""

from __future__ import annotations

import io
import json
import os
import random
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from doctor.bundle.cut import Level, Seen, extract, ranges
from doctor.bundled import MANIFEST
from doctor.cli import main
from doctor.records import packed as unpacking
from doctor.records.cutter import Cutter
from doctor.records.record import Chunk

_PREFIX = "2026-03-01 10:{m:02d}:{s:02d},000 - mindformers/data/proj/alice/output/log[mindformers/core/callback.py:616] - INFO - "
_STEP = (
    _PREFIX
    + "{{ Epoch:[  1/  1], step:[{step:5d}/{total:5d}], loss:[{loss}/{loss}], per_step_time: {ms}ms, lr: 0.001, "
    "overflow cond: False, loss_scale: 1.0, global_norm: [0.7], train_throughput_per_npu: 0.020T\n"
)


def make_run(folder: Path, steps: int = 120, bad: int = 60, noise: int = 0) -> Path:
    """A run of MindFormers that goes wrong at step `bad`, with names and secrets in its logs."""
    log = folder / "log" / "rank_0" / "info.log"
    log.parent.mkdir(parents=True)
    draw = random.Random(steps)
    with log.open("w") as file:
        file.write(_PREFIX.format(m=0, s=0) + "host_name: trainbox-q7, host_ip: 10.11.12.13\n")
        file.write(
            _PREFIX.format(m=0, s=0) + "set output path to '/data/proj/alice/output' HF_TOKEN=hf_abcdefghijklmnopqrst\n"
        )
        for step in range(1, steps + 1):
            value = "nan" if bad and step >= bad else f"{2 + 4 / (1 + step / 12) + step * 37 % 11 / 100:.6f}"
            file.write(
                _STEP.format(m=step // 60 % 60, s=step % 60, step=step, total=steps, loss=value, ms=95 + step * 7 % 9)
            )
            for _ in range(noise):
                file.write(" ".join(f"{draw.random():.8f}" for _ in range(5)) + "\n")
    (folder / "launch.sh").write_text("export WANDB_API_KEY=0123456789abcdef\npython /data/proj/alice/train.py\n")
    return folder


def bundle(run: Path, *words: str, code: int = 0) -> Path:
    assert main(["bundle", "-q", "--lang", "en", str(run), *words]) == code
    return run / "bundle.tar.gz"


def members(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as file:
        return {item.name: file.extractfile(item).read() for item in file}  # type: ignore[union-attr]


def findings(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    capsys.readouterr()
    main(["watch", "--once", "--format", "jsonl", "--lang", "en", *map(str, words)])
    return "".join(line for line in capsys.readouterr().out.splitlines(keepends=True) if '"finding"' in line)


def test_the_archive_and_its_folder_give_the_same_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run")
    archive = bundle(run)
    assert "the diagnosis is the same" in " ".join(capsys.readouterr().out.split())
    with tarfile.open(archive) as file:
        file.extractall(tmp_path / "there", filter="data")
    monkeypatch.chdir(tmp_path / "there")
    from_archive = findings(capsys, archive)
    assert "RUN-NAN-001" in from_archive
    assert from_archive == findings(capsys, *os.listdir("."))
    assert os.getcwd() == str(tmp_path / "there")
    original = json.loads(findings(capsys, run).splitlines()[0])["finding"]
    packed = json.loads(from_archive.splitlines()[0])["finding"]
    for name in ("rule", "severity", "title", "confidence"):
        assert original[name] == packed[name]
    for one, other in zip(original["evidence"], packed["evidence"]):
        assert (one["line"], one["offset"], one["step"]) == (other["line"], other["offset"], other["step"])


def test_nothing_private_is_in_it(tmp_path: Path) -> None:
    archive = bundle(make_run(tmp_path / "run"))
    raw = b"".join(name.encode() + content for name, content in members(archive).items())
    for word in (
        b"alice",
        b"trainbox",
        b"10.11.12.13",
        b"hf_abc",
        b"0123456789abcdef",
        b"proj/",
        str(tmp_path).encode(),
    ):
        assert word not in raw


def test_equal_runs_give_equal_bytes(tmp_path: Path) -> None:
    one = bundle(make_run(tmp_path / "a" / "run")).read_bytes()
    other = bundle(make_run(tmp_path / "b" / "run")).read_bytes()
    assert one == other
    with tarfile.open(fileobj=io.BytesIO(one)) as file:
        assert {(item.mtime, item.uid, item.uname) for item in file} == {(0, 0, "")}


def test_a_long_log_is_cut_and_lines_keep_their_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run", steps=400, bad=390, noise=12)
    archive = bundle(run, "--max-size", "60KB")
    assert archive.stat().st_size <= 60 << 10
    manifest = json.loads(next(raw for name, raw in members(archive).items() if name.endswith(MANIFEST)))
    row = next(row for row in manifest["files"] if row["path"].endswith("info.log"))
    assert row["lines"] == 5202 and "pieces" in row
    log = (run / "log" / "rank_0" / "info.log").read_bytes()
    kept = next(raw for name, raw in members(archive).items() if name.endswith("info.log"))
    for line, offset, begin, size in row["pieces"]:
        assert log.count(b"\n", 0, offset) == line - 1
        assert kept[begin : begin + size].count(b"\n") == log[offset : offset + size].count(b"\n")
    assert b"[doctor bundle: lines " in kept
    shown = json.loads(findings(capsys, archive).splitlines()[0])["finding"]
    assert shown["rule"] == "RUN-NAN-001" and shown["evidence"][0]["step"] == 390
    assert shown["evidence"][0]["line"] == 2 + 389 * 13 + 1


@pytest.mark.heavy
def test_what_cannot_be_kept_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run", steps=400, bad=390, noise=12)
    code = main(["bundle", "--lang", "en", "--format", "json", str(run), "--max-size", "2KB"])
    facts = json.loads(capsys.readouterr().out)["facts"]["bundle"]
    assert code == (0 if facts["replays"] else 1)
    assert facts["replays"] or facts["lost"] or facts["added"] or facts["kept"] > 0


def test_links_that_lead_out_are_left(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (tmp_path / "other.log").write_text("not yours\n")
    (tmp_path / "secret.yaml").write_text("not: yours\n")
    (run / "log" / "linked.log").symlink_to(tmp_path / "other.log")
    (run / "linked.yaml").symlink_to(tmp_path / "secret.yaml")
    bundle(run)
    raw = b"".join(members(bundle(run)).values())  # the first archive is no part of the next
    assert b"bundle.tar.gz" not in raw
    assert b"not yours" not in raw and b"not: yours" not in raw
    manifest = next(raw for name, raw in members(run / "bundle.tar.gz").items() if name.endswith(MANIFEST))
    assert {row["why"] for row in json.loads(manifest)["left_out"]} == {"a link", "a link that leads out of the run"}


def test_dry_run_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run")
    assert main(["bundle", "--lang", "en", "--dry-run", str(run)]) == 0
    out = capsys.readouterr().out
    assert "info.log" in out and "would be" in out and "secret 2" in out
    assert not (run / "bundle.tar.gz").exists()


def test_reports_comparisons_and_explanations_take_a_bundle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("doctor.report.page.plots.can_draw", lambda: False)
    bad, good = bundle(make_run(tmp_path / "bad")), bundle(make_run(tmp_path / "good", bad=0))
    assert main(["report", "--lang", "en", str(bad), "-o", str(tmp_path / "page.html")]) == 1
    assert "RUN-NAN-001" in (tmp_path / "page.html").read_text()
    assert main(["explain", "--lang", "en", str(bad)]) == 0
    assert main(["compare", "--lang", "en", "--format", "json", str(good), str(bad)]) == 1
    assert "RUN-NAN-001" in capsys.readouterr().out
    assert main(["bundle", "--lang", "en", str(bad)]) == 2
    assert main(["watch", "--once", "--lang", "en", str(bad), str(good)]) == 2


@pytest.mark.parametrize("output", ["mine.tar.gz", "nowhere/x.tar.gz", "/dev/full", "."])
def test_a_place_that_refuses_is_one_clear_line(tmp_path: Path, capfd: pytest.CaptureFixture[str], output: str) -> None:
    run = make_run(tmp_path / "run")
    (tmp_path / "mine.tar.gz").write_bytes(b"my own file")
    target = output if output.startswith("/") else str(tmp_path / output)
    assert main(["bundle", "-q", "--lang", "en", str(run), "-o", target]) == 2
    assert capfd.readouterr().err.count("\n") == 1
    assert (tmp_path / "mine.tar.gz").read_bytes() == b"my own file"


@pytest.mark.parametrize("what", ["missing", "empty", "file", "binary"])
def test_bad_input_is_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str) -> None:
    path = tmp_path / what
    if what == "empty":
        path.mkdir()
    elif what == "file":
        path.write_text("loss: 1\n")
    elif what == "binary":
        path.mkdir()
        (path / "core.log").write_bytes(bytes(range(256)) * 40)
    assert main(["bundle", "--lang", "en", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


# reading what others packed


def _tar(path: Path, *items: tuple[str, bytes, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as file:
        for name, content, kind in items:
            info = tarfile.TarInfo(name)
            info.type, info.size = kind, len(content)
            info.linkname = "/etc/passwd" if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
            file.addfile(info, io.BytesIO(content))
    return path


@pytest.mark.parametrize("name", ["../out.log", "/abs/out.log", "a/../../out.log", "C:/out.log", "a" * 300])
def test_a_name_that_leads_out_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    archive = _tar(tmp_path / "x.tar.gz", (name, b"loss: 1\n", tarfile.REGTYPE))
    assert main(["watch", "--once", "--lang", "en", str(archive)]) == 2
    captured = capsys.readouterr()
    assert "leads out of the archive" in captured.err and captured.err.count("\n") == 1
    assert not (tmp_path / "out.log").exists() and not (tmp_path.parent / "out.log").exists()


def test_links_and_devices_in_an_archive_are_passed_over(tmp_path: Path) -> None:
    log = _STEP.format(m=0, s=1, step=1, total=1, loss="2.0", ms=9).encode()
    archive = _tar(
        tmp_path / "x.tar.gz",
        ("run/info.log", log, tarfile.REGTYPE),
        ("run/link.log", b"", tarfile.SYMTYPE),
        ("run/hard.log", b"", tarfile.LNKTYPE),
        ("run/pipe.log", b"", tarfile.FIFOTYPE),
    )
    with unpacking.unpacked(archive) as folder:
        assert folder == "run" and os.listdir(folder) == ["info.log"]
    assert not Path(folder).exists()


def test_a_bomb_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "MOST", 1 << 20)
    archive = _tar(tmp_path / "x.tar.gz", ("run/a.log", bytes(3 << 20), tarfile.REGTYPE))
    assert main(["watch", "--once", "--lang", "en", str(archive)]) == 2
    assert "unpacks to more than 1 MB" in capsys.readouterr().err
    monkeypatch.setattr(unpacking, "MOST_FILES", 5)
    many = _tar(tmp_path / "y.tar.gz", *((f"run/{n}.log", b"x\n", tarfile.REGTYPE) for n in range(9)))
    assert main(["watch", "--once", "--lang", "en", str(many)]) == 2


def test_a_zip_is_read_too_and_a_torn_archive_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = make_run(tmp_path / "run") / "log" / "rank_0" / "info.log"
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as file:
        file.write(log, "run/log/rank_0/info.log")
    assert main(["watch", "--once", "--lang", "en", str(tmp_path / "x.zip")]) == 1
    whole = bundle(tmp_path / "run").read_bytes()
    (tmp_path / "torn.tar.gz").write_bytes(whole[: len(whole) * 2 // 3])
    capsys.readouterr()
    assert main(["watch", "--once", "--lang", "en", str(tmp_path / "torn.tar.gz")]) == 2
    assert "cannot be unpacked" in capsys.readouterr().err


@pytest.mark.parametrize(
    "pieces", ["x", [[1, 2, 3]], [[1, 0, 0, -1]], [[1, 0, 10**9, 5]], [[10**30, 10**30, 0, 4]], [[1, 0, 0, 10**12]]]
)
def test_a_manifest_that_lies_is_no_crash(tmp_path: Path, capsys: pytest.CaptureFixture[str], pieces: Any) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "a.log").write_text("loss: 2.5, step 1\n")
    row = {"schema": "doctor.bundle/1", "files": [{"path": "a.log", "pieces": pieces}]}
    (folder / MANIFEST).write_text(json.dumps(row))
    assert main(["watch", "--once", "--lang", "en", str(folder)]) in (0, 1, 2)
    assert "Traceback" not in capsys.readouterr().err


# which lines are kept


def test_pieces_are_cut_at_lines_whatever_the_chunks() -> None:
    text = b"".join(b"line %d\n" % number for number in range(1, 101)) + b"no end"
    for size in (7, 64, 10_000):
        cutter = Cutter("a.log")
        chunks: list[Chunk] = []
        for begin in range(0, len(text), size):
            chunks += cutter.feed(text[begin : begin + size])
        last = cutter.flush()
        chunks += [last] if last is not None else []
        raw, pieces = extract(chunks, [(1, 3), (50, 52), (100, 101)], lambda data: data)
        assert pieces is not None and [(piece.line, text[piece.offset :][: piece.size]) for piece in pieces] == [
            (1, b"line 1\nline 2\nline 3\n"),
            (50, b"line 50\nline 51\nline 52\n"),
            (100, b"line 100\nno end"),
        ]
        assert all(raw[piece.begin :][: piece.size] == text[piece.offset :][: piece.size] for piece in pieces)
        assert extract(chunks, [(1, 101)], lambda data: data) == (text, None)


def test_what_findings_and_rules_point_to_is_kept() -> None:
    seen = Seen(lines=10_000, hits={"LOG-X-001": [5000, 5001, 9000]}, pointed=[7000])
    assert ranges(seen, Level(10, 5, 2, 100)) == [(1, 10), (4998, 5003), (6995, 7005), (8998, 9002), (9991, 10_000)]


@pytest.mark.heavy
def test_real_logs_keep_their_diagnosis(shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = shared / "logs" / "mindformers-on-cpu"
    for log in sorted(logs.iterdir()):
        archive = tmp_path / f"{log.name}.tar.gz"
        assert main(["bundle", "-q", "--lang", "en", str(log), "-o", str(archive)]) == 0, log.name
        text = b"".join(members(archive).values())
        assert b"/data/run/mfrun" not in text and archive.stat().st_size < 30_000
    capsys.readouterr()
