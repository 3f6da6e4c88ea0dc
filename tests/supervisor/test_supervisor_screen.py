"""What is shown of the steps: each once, though two files tell of it."""

from __future__ import annotations

import io
from typing import Any

from doctor.records.record import Metric
from doctor.supervisor.screen import Screen


def shown(*metrics: Metric) -> list[str]:
    out = io.StringIO()
    screen = Screen("text", "en", "never", verbose=False, quiet=False, out=out)
    for metric in metrics:
        screen.metric(metric)
    return out.getvalue().splitlines()


def step(source: str, number: int, loss: float, **more: Any) -> Metric:
    return Metric(source, number, 0, step=number, global_step=number, loss=loss, **more)


def test_a_step_is_shown_once_whichever_file_is_read_first() -> None:
    log = [step("log/rank_0.log", number, round(5 - number / 7, 6)) for number in (1, 2, 3)]
    rows = [step("metrics/rank_0.jsonl", number, 5 - number / 7) for number in (1, 2, 3)]
    whole = [f"step {number}  loss {5 - number / 7:.4f}" for number in (1, 2, 3)]
    assert shown(*log, *rows) == whole
    assert shown(log[0], rows[0], rows[1], rows[2], log[1], log[2]) == whole


def test_an_evaluation_is_a_line_of_its_own() -> None:
    assert shown(step("a", 6, 5.5), step("a", 6, 5.7, evaluation=True)) == [
        "step 6  loss 5.5000",
        "step 6  evaluation loss 5.7000",
    ]


def test_of_a_resumed_run_what_was_shown_before_is_not_shown_again() -> None:
    out = io.StringIO()
    screen = Screen("text", "en", "never", verbose=False, quiet=False, out=out)
    screen.after = 2
    for number in (1, 2, 3):
        screen.metric(step("log/rank_0.log", number, 5.0))
    assert out.getvalue() == "step 3  loss 5.0000\n"
