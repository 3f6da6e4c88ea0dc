"""The ends of long logs, told before the whole was read."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from doctor.match.pack import load_pack
from doctor.session import DiagnosisSession, tail
from doctor.session.following import RunWatch
from doctor.tui.excerpt import excerpt


def steps(first: int, last: int, loss: str = "") -> bytes:
    """Step lines with that loss, or with one that scatters as that of a healthy run."""
    values = (loss or f"{2.5 + step * 37 % 101 / 200:.3f}" for step in range(first, last + 1))
    return "".join(f"epoch: 1 step: {step}, loss is {value}\n" for step, value in enumerate(values, first)).encode()


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "WORTH", 1 << 16)
    monkeypatch.setattr(tail, "MOST", 1 << 14)


def ends(*paths: Path) -> RunWatch:
    words = [str(path) for path in paths]
    state = tail.ends_of(words)
    assert state is not None
    return RunWatch(DiagnosisSession(load_pack(), eager=True), words, state)


def read(run: RunWatch) -> RunWatch:
    run.step(0.0)
    while run.behind:
        run.step(0.0)
    return run


def test_a_short_log_is_read_whole_at_once(tmp_path: Path) -> None:
    (tmp_path / "worker_0.log").write_bytes(steps(1, 20))
    assert tail.ends_of([str(tmp_path)]) is None
    assert tail.ends_of([str(tmp_path / "nothing")]) is None


@pytest.mark.usefixtures("short")
def test_the_end_tells_what_stands_at_the_end_and_where(tmp_path: Path) -> None:
    log = tmp_path / "worker_0.log"
    log.write_bytes(steps(1, 9000) + steps(9001, 9040, "nan"))
    run = read(ends(log))
    assert run.session.bytes < 1 << 15, "no more than the end was read"
    (found,) = [item for item in tail.without_lines(run.session.findings()) if item.rule == "RUN-NAN-001"]
    place = found.evidence[0]
    assert place.line is None, "lines were not counted from the beginning"
    (marked,) = [row for row in excerpt(place, 2, 2) if row.marked]
    assert "step: 9001" in marked.text and marked.number is None


@pytest.mark.usefixtures("short")
def test_what_is_written_after_the_end_was_read_is_read_too(tmp_path: Path) -> None:
    log = tmp_path / "worker_0.log"
    log.write_bytes(steps(1, 9000))
    run = read(ends(log))
    assert not run.session.findings()
    with log.open("ab") as out:
        out.write(steps(9001, 9010, "nan"))
    for _ in range(100):
        run.step(0.1)
        if run.session.findings():
            break
    assert run.session.findings()[0].rule == "RUN-NAN-001"


@pytest.mark.usefixtures("short")
def test_of_packed_logs_nothing_is_read_at_the_end(tmp_path: Path) -> None:
    """Their offsets are those of the packed bytes."""
    (tmp_path / "worker_0.log").write_bytes(steps(1, 9000))
    (tmp_path / "worker_1.log.gz").write_bytes(gzip.compress(steps(1, 3000, "nan")))
    assert not read(ends(tmp_path)).session.findings()


@pytest.mark.usefixtures("short")
def test_many_logs_share_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "LEAST", 1 << 12)
    for rank in range(8):
        (tmp_path / f"worker_{rank}.log").write_bytes(steps(1, 1500) + steps(1501, 1510, "nan" if rank == 7 else ""))
    run = read(ends(tmp_path))
    assert run.session.bytes <= 1 << 15
    assert len(run.session.sources) <= 4
