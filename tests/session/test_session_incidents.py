"""A fault that comes and goes is one incident that is counted, not a page for each time."""

from __future__ import annotations

import argparse
import io

import pytest

from doctor.commands.watching import Printer
from doctor.detect.alarm import Alarm
from doctor.finding import Severity
from doctor.match.pack import load_pack
from doctor.session.incidents import Event, Incidents

ORIGIN = ("worker_0.log", 0)


def flapping(incidents: Incidents, times: int) -> list[Event]:
    told: list[Event] = []
    for number in range(times):
        values = (("step", number), ("value", "9"), ("before", "3"), ("steps", 4), ("peak", "9"))
        told += incidents.take(ORIGIN, Alarm("opened", "RUN-LOSS-002", number, (), values))
        told += incidents.take(ORIGIN, Alarm("resolved", "RUN-LOSS-002", number, (), values, Severity.INFO))
    return told


def test_every_time_is_an_event_with_its_number() -> None:
    told = flapping(Incidents(load_pack()), 4)
    assert [(event.kind, event.times) for event in told] == [
        (kind, times) for times in (1, 2, 3, 4) for kind in ("opened", "resolved")
    ]
    assert "times" not in told[0].to_dict("en")
    assert told[-1].to_dict("en")["times"] == 4


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_people_read_of_it_ever_more_seldom(lang: str) -> None:
    out = io.StringIO()
    args = argparse.Namespace(format="text", color="never", lang=lang, verbose=0)
    printer = Printer(args, out)
    for event in flapping(Incidents(load_pack()), 2500):
        printer.event(event)
    lines = out.getvalue().splitlines()
    again = [line for line in lines if line.startswith(("again", "再次出现"))]
    assert len(again) == len((2, 3, 5, 10, 20, 50, 100, 200, 500, 1000, 2000))
    assert len(lines) < 50


@pytest.mark.parametrize(
    ("times", "news"),
    [(1, True), (3, True), (4, False), (5, True), (12, False), (20, True), (1000, True), (1001, False)],
)
def test_which_times_are_news(times: int, news: bool) -> None:
    finding = next(iter(flapping(Incidents(load_pack()), 1))).finding
    assert Event("opened", finding, times).is_news is news


def test_the_report_says_how_often() -> None:
    incidents = Incidents(load_pack())
    flapping(incidents, 7)
    (closed,) = incidents.closed()
    assert "7 times" in closed.message.en and "7 次" in closed.message.zh
    once = Incidents(load_pack())
    flapping(once, 1)
    assert "times in all" not in once.closed()[0].message.en
