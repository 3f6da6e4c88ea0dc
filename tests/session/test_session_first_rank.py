"""Which rank failed first, told from logs alone: each rank in a file of its own, and all in one file with prefixes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from doctor.finding import Finding
from doctor.match.pack import load_pack
from doctor.session import DiagnosisSession
from doctor.session.reading import read_run

_STEP = "step: {step}/900, loss: {loss:.4f}, lr: 1e-4, per_step_time: 2100ms"
_TRACE = ["Traceback (most recent call last):", '  File "/home/user/train.py", line 9, in <module>', "    main()"]
_WAITS = [
    *_TRACE,
    "RuntimeError: Call rt api rtStreamSynchronize failed, ret: 507048",
    "EI0002: The wait execution of the Notify register times out. Reason: no Notify record from remote rank.",
]
GUILTY, RANKS, STEPS = 2, 6, 30


def told(folder: Path, own: list[str], shared: bool, waits: bool = True, seed: int = 0) -> list[Finding]:
    rng = random.Random(seed)
    texts = {}
    for rank in range(RANKS):
        steps = STEPS - 1 if rank == GUILTY and not own else STEPS
        lines = [_STEP.format(step=step, loss=3 + 6 / step + rng.gauss(0, 0.01)) for step in range(1, steps + 1)]
        texts[rank] = lines + (own if rank == GUILTY else _WAITS if waits else [])
    if shared:
        first = [f"[rank{rank}]: {texts[rank][at]}" for at in range(STEPS) for rank in texts if at < len(texts[rank])]
        order = [GUILTY, *(rank for rank in texts if rank != GUILTY)]
        rest = [f"[rank{rank}]: {line}" for rank in order for line in texts[rank][STEPS:]]
        (folder / "train.out").write_text("\n".join([*first, *rest]) + "\n")
    else:
        for rank, lines in texts.items():
            (folder / f"worker_{rank}.log").write_text("\n".join(lines) + "\n")
    session = DiagnosisSession(load_pack())
    read_run(session, [str(folder)], lambda event: None)
    return list(session.findings())


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("error", ["ZeroDivisionError: division by zero", "AssertionError: sample 8812 is empty"])
def test_an_error_that_rules_know_little_of_comes_before_the_waiting(tmp_path: Path, error: str, shared: bool) -> None:
    first = told(tmp_path, [*_TRACE, error], shared)[0]
    assert (first.rule, first.evidence[0].rank) == ("RUN-END-006", GUILTY)
    assert "LOG-HCCL-003" in first.explains


@pytest.mark.parametrize("shared", [False, True])
def test_one_that_is_silent_while_the_others_wait(tmp_path: Path, shared: bool) -> None:
    first = told(tmp_path, [], shared)[0]
    assert (first.rule, first.evidence[0].rank) == ("RUN-HANG-003", GUILTY)
    assert "killed" in first.title.en and "杀" in first.title.zh  # no scheduler says that it is alive


@pytest.mark.parametrize("seed", range(6))
def test_losses_of_their_own_batches_are_equal_now_and_then(tmp_path: Path, seed: int) -> None:
    """Noise of a third of a percent: two ranks agree within rounding every third step, which is no drift later."""
    rng = random.Random(seed)
    for rank in range(2):
        lines = [f"step: {step}/200, loss: {3 + 6 / step + rng.gauss(0, 0.01):.3f}" for step in range(1, 201)]
        (tmp_path / f"worker_{rank}.log").write_text("\n".join(lines) + "\n")
    session = DiagnosisSession(load_pack())
    read_run(session, [str(tmp_path)], lambda event: None)
    assert [finding.rule for finding in session.findings()] == []
