"""The machine beside the run: samples in, findings out."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from threading import Event
from typing import Optional

import pytest

from doctor.detect.facts import RunFacts
from doctor.detect.host import WINDOW, Card, Host, HostSample
from doctor.session.cards import CardWatch, ask
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


def cards(*healths: str) -> tuple[Card, ...]:
    """NPU 0, 1, ... with these healths; an empty word is a card that is not listed."""
    return tuple(Card(number, 0, health, 3000, 65536) for number, health in enumerate(healths) if health)


def looked(*tables: Optional[tuple[Card, ...]]) -> list[HostSample]:
    return [HostSample(30.0 * number, cards=table) for number, table in enumerate(tables)]


OK8 = cards(*["OK"] * 8)


def test_a_card_that_turns_ill_is_told_at_the_second_look_and_resolved() -> None:
    ill = cards("OK", "OK", "Alarm", *["OK"] * 5)
    host = Host(RunFacts())
    assert said(host, looked(OK8, None, ill)) == []
    assert said(host, looked(None, ill)) == [("opened", "RUN-HOST-004")]
    assert host.opened["RUN-HOST-004"].evidence[0].text == "NPU 2: Alarm"
    assert said(host, looked(ill, OK8)) == [("resolved", "RUN-HOST-004")]


def test_a_card_that_is_lost_is_told_at_the_second_look() -> None:
    seven = cards(*["OK"] * 7)
    host = Host(RunFacts())
    assert said(host, looked(OK8, seven)) == []
    assert said(host, looked(seven)) == [("opened", "RUN-HOST-005")]
    assert dict(host.opened["RUN-HOST-005"].values)["card"] == "NPU 7"


@pytest.mark.parametrize(
    "tables",
    [
        [cards("Alarm", "OK")] * 4,  # ill before the run
        [OK8, cards(*["OK"] * 7), OK8, cards(*["OK"] * 7), OK8],  # a torn table now and then
        [OK8, cards("Warning", *["OK"] * 7), cards("Warning", *["OK"] * 7)],
        [OK8, None, None, OK8],  # no answer
        [cards("OK", "NA"), cards("OK"), cards("OK")],  # never seen healthy
    ],
    ids=["ill-before", "torn-tables", "warning", "no-answer", "health-unknown"],
)
def test_cards_that_are_no_news_of_this_run(tables: list[Optional[tuple[Card, ...]]]) -> None:
    assert said(Host(RunFacts()), looked(*tables)) == []


def test_npu_smi_is_asked_beside_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that answers, one that fails and none at all; what is asked never keeps the caller waiting."""
    tool = tmp_path / "npu-smi"
    tool.write_text(f"#!{sys.executable}\nprint('''{TABLE}''')\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert [card.label for card in ask() or ()] == ["NPU 0", "NPU 1"]
    assert {card.health for card in ask() or ()} == {"OK"}
    tool.write_text(f"#!{sys.executable}\nraise SystemExit(1)\n")
    assert ask() is None
    tool.unlink()
    assert ask() is None
    asked = Event()
    watch = CardWatch(lambda: (asked.wait(10), OK8)[1], every=5.0)
    assert watch.take(0.0) is None and watch.take(1.0) is None
    asked.set()
    assert watch._thread is not None
    watch._thread.join(10)
    assert watch.take(2.0) == OK8
    assert watch.take(3.0) is None


TABLE = """
+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.rc2                 Version: 24.1.rc2                                             |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B4               | OK            | 90.2        40                0    / 0             |
| 0                         | 0000:C1:00.0  | 3           0    / 0          2812 / 32768         |
+===========================+===============+====================================================+
| 1     910B4               | OK            | 88.0        41                0    / 0             |
| 0                         | 0000:01:00.0  | 0           0    / 0          2811 / 32768         |
+===========================+===============+====================================================+
"""
