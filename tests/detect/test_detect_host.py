"""The machine beside the run: samples in, findings out."""

from __future__ import annotations

import os
from pathlib import Path

from doctor.detect.facts import RunFacts
from doctor.detect.host import WINDOW, Host, HostSample
from doctor.session.sampling import newest_checkpoint, sample

GB = 10**9


def said(host: Host, samples: list[HostSample]) -> list[tuple[str, str]]:
    return [(alarm.kind, alarm.rule) for item in samples for alarm in host.feed(item)]


def memory(start: float, pace: float, count: int = 2 * WINDOW, swing: float = 0.02) -> list[HostSample]:
    """Memory in use in GB of 64, growing by `pace` GB a minute, looked at each ten seconds."""
    return [HostSample(10.0 * i, int((start + pace * i / 6 + swing * (i * 7 % 5)) * GB), 64 * GB) for i in range(count)]


def test_memory_that_fills_up_is_forecast() -> None:
    host = Host(RunFacts())
    assert said(host, memory(45, 0.5)) == [("opened", "RUN-HOST-001")]
    values = dict(host.opened["RUN-HOST-001"].values)
    # 64 GB less 45 + 0.5 x 29/6 = 47.4 GB in use after 30 samples: 16.6 GB at 0.5 GB a minute last 33 minutes.
    assert getattr(values["left"], "en", "") == "33 minutes"


def test_memory_that_is_steady_or_small_is_silent() -> None:
    assert said(Host(RunFacts()), memory(60, 0.0)) == []
    assert said(Host(RunFacts()), memory(5, 0.5)) == []
    assert said(Host(RunFacts()), memory(40, 0.01)) == []


def test_a_disk_too_small_for_the_next_checkpoint() -> None:
    host = Host(RunFacts())
    small = HostSample(0, disk_path="/out", disk_free=13 * GB, checkpoint=14 * GB)
    assert said(host, [small, small]) == [("opened", "RUN-HOST-002")]
    assert said(host, [HostSample(1, disk_path="/out", disk_free=90 * GB, checkpoint=14 * GB)]) == [
        ("resolved", "RUN-HOST-002")
    ]


def test_more_workers_than_cores() -> None:
    assert said(Host(RunFacts(workers=32)), [HostSample(0, cores=16)] * 2) == [("opened", "RUN-HOST-003")]
    assert said(Host(RunFacts(workers=16)), [HostSample(0, cores=16)]) == []


def test_the_newest_save_is_measured(tmp_path: Path) -> None:
    assert newest_checkpoint(tmp_path) is None
    for name, size, age in (("step-100/a.ckpt", 700, 5000), ("step-200/a.ckpt", 300, 5), ("step-200/b.ckpt", 400, 0)):
        path = tmp_path / "checkpoints" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
        os.utime(path, (10**9 - age, 10**9 - age))
    assert newest_checkpoint(tmp_path) == 700
    looked = sample([tmp_path], 3.0)
    assert looked.checkpoint == 700
    assert looked.memory_total and looked.memory_used and looked.cores
    assert looked.disk_free
