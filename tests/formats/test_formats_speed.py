"""Reading speed is measured on request, and left out of the facts otherwise so that they stay equal."""

from __future__ import annotations

from pathlib import Path

from doctor.check import Options
from doctor.formats.datasets.speed import counts, samples_per_second
from doctor.runner import judge_path
from doctor.selftest.datafiles import LM, lm_rows, write_mindrecord


def test_every_number_of_workers_reads(tmp_path: Path) -> None:
    rates = samples_per_second(write_mindrecord(tmp_path / "a.mindrecord", LM, lm_rows(100)))
    assert tuple(rates) == counts() and counts()[0] == 1 and all(rate > 0 for rate in rates.values())


def test_only_on_request(tmp_path: Path) -> None:
    path = write_mindrecord(tmp_path / "a.mindrecord", LM, lm_rows(20))
    assert "samples_per_second" not in judge_path(path, Options()).facts["data"]
    deep = judge_path(path, Options(deep=True))
    assert set(deep.facts["data"]["samples_per_second"]) == {str(workers) for workers in counts()}
    assert any("samples/s" in line.en for line in deep.headline)
