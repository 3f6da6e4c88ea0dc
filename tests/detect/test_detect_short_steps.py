"""Short steps share the machine with whatever else runs: they slow down for a while and that is no news."""

from __future__ import annotations

import pytest

from doctor.detect.pace import StepTime
from doctor.records.record import Metric


def opened(milliseconds: float, slow_steps: int) -> list[str]:
    detector, said = StepTime(), []
    for step in range(1, 100 + slow_steps):
        time = milliseconds * (1 + step % 5 / 50) * (2.2 if step > 60 and step <= 60 + slow_steps else 1)
        metric = Metric(source="x.log", line=step, offset=0, step=step, step_time_ms=time)
        said += [alarm.rule for alarm in detector.feed(metric) if alarm.kind == "opened"]
    return said


@pytest.mark.parametrize("slow_seconds, found", [(45, []), (120, ["RUN-TIME-001"])])
def test_steps_of_a_tenth_of_a_second_must_be_slow_for_longer(slow_seconds: int, found: list[str]) -> None:
    assert opened(100, int(slow_seconds / 0.23)) == found


def test_long_steps_are_told_as_before() -> None:
    assert opened(900, 40) == ["RUN-TIME-001"]
