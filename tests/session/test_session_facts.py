"""What a run's lines say of its settings, and what only looks like it."""

from __future__ import annotations

import pytest

from doctor.detect.facts import RunFacts
from doctor.match.pack import load_pack
from doctor.records.record import Chunk
from doctor.session import DiagnosisSession


def facts(*lines: str) -> RunFacts:
    session = DiagnosisSession(load_pack())
    session.feed(Chunk("worker_0.log", "".join(f"{line}\n" for line in lines).encode(), 0, 1))
    session.end()
    return session.facts


@pytest.mark.parametrize(
    "line",
    [
        "  learning_rate: 2.e-5  # peak",
        '    "learning_rate": 2e-05,',
        "2026-03-01 10:00:00,000 - INFO - lr_schedule: {'type': 'CosineWithWarmUpLR', 'learning_rate': 2e-05, 'warmup_steps': 9}",
        "optimizer: {'type': 'AdamW', 'weight_decay': 0.1, 'learning_rate': 2e-05}",
        "TrainingArguments(learning_rate=2e-05, max_grad_norm=1.0, weight_decay=0.1)",
    ],
)
def test_the_rate_that_was_set(line: str) -> None:
    assert facts(line).learning_rate == pytest.approx(2e-5)


def test_the_rate_of_a_step_line_is_no_setting() -> None:
    step = "{'loss': 2.1, 'grad_norm': 1.0, 'learning_rate': 4.9e-08, 'epoch': 0.01}"
    assert facts(step).learning_rate is None
    assert facts(step, "  learning_rate: 3.0e-4").learning_rate == pytest.approx(3e-4)
