"""A run folder says in end.json how its run ended, however late it is written."""

from __future__ import annotations

from pathlib import Path

from doctor.match.pack import load_pack
from doctor.session import DiagnosisSession
from doctor.session.following import RunWatch


def stopped(folder: Path) -> RunWatch:
    """A run that was looked at while it stood at step 16 of 60."""
    (folder / "log").mkdir()
    lines = (
        f"2026-01-01 00:00:{step:02d},000 - mindformers[mindformers/core/callback/callback.py:563] - INFO - "
        f"{{ Epoch:[  1/  1], step:[{step:5d}/   60], loss: {6 - step / 10:.3f}, per_step_time: 50ms, lr: 0.001 }}\n"
        for step in range(1, 17)
    )
    (folder / "log" / "rank_0.log").write_text("".join(lines), encoding="utf-8")
    watch = RunWatch(DiagnosisSession(load_pack(), eager=True), [str(folder)])
    watch.step(0.0)
    return watch


def rules(watch: RunWatch) -> set[str]:
    watch.close()
    return {finding.rule for finding in watch.session.findings()}


def test_a_log_that_stops_without_an_end_ended_early(tmp_path: Path) -> None:
    assert "RUN-END-001" in rules(stopped(tmp_path))


def test_an_end_that_is_written_after_the_last_look_is_read(tmp_path: Path) -> None:
    watch = stopped(tmp_path)
    (tmp_path / "end.json").write_text('{"state": "interrupted", "exit_code": 143, "last_step": 16}', encoding="utf-8")
    assert "RUN-END-001" not in rules(watch)
