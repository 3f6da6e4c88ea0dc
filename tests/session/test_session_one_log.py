"""Many ranks in one log, as launchers write it; and logs that end in an error that no rule knows."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from doctor.finding import Finding
from doctor.match.pack import load_pack
from doctor.session import DiagnosisSession
from doctor.session.reading import read_run

LAUNCHERS: dict[str, Callable[[int], str]] = {
    "torchrun": lambda rank: f"[rank{rank}]: ",
    "mpirun --tag-output": lambda rank: f"[1,{rank}]<stdout>:",
    "srun -l": lambda rank: f"{rank:2d}: ",
}
RANKS, HUNG = 64, 17
FRAMES = 'Traceback (most recent call last):\n  File "train.py", line 10, in <module>\n    main()\n'


def told(path: Path) -> list[Finding]:
    session = DiagnosisSession(load_pack())
    read_run(session, [str(path)], lambda event: None)
    return list(session.findings())


@pytest.mark.parametrize("launcher", sorted(LAUNCHERS))
@pytest.mark.parametrize("said", ["HcclAllReduce failed, ret: 9", "Ring ReduceScatter wait receiving [1,13] failed."])
def test_the_one_of_many_that_is_silent_is_named(launcher: str, said: str, tmp_path: Path) -> None:
    mark, rng = LAUNCHERS[launcher], random.Random(7)
    lines = []
    for step in range(1, 41):
        for rank in rng.sample(range(RANKS), RANKS):
            if (rank, step) != (HUNG, 40):
                lines.append(
                    f"{mark(rank)}2026-11-30 02:00:{step:02d},100 - INFO - step: {step}/900, loss: {8 - step / 20:.4f}"
                )
    for rank in range(RANKS):
        if rank != HUNG:
            lines += [mark(rank) + line for line in f"{FRAMES}RuntimeError: {said}".split("\n")]
    log = tmp_path / "train.out"
    log.write_text("\n".join(lines) + "\n")
    first = told(log)[0]
    assert (first.rule, first.evidence[0].rank) == ("RUN-HANG-003", HUNG)


STEPS = "".join(f"epoch: 1 step: {step}, loss is {5 - step / 50}\n" for step in range(1, 60))


@pytest.mark.parametrize(
    "end", ["mylib.Overrun: zorkmid overrun\n", "acme.FooError\n", "FooError: first\nand a second line\n\n"]
)
def test_an_unknown_exception_at_the_end_is_no_good_end(end: str, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(STEPS + FRAMES + end)
    found = told(log)
    assert [(item.rule, item.severity.value) for item in found] == [("RUN-END-007", "error")]
    assert end.split("\n")[0] in found[0].title.en and end.split("\n")[0] in found[0].title.zh
    assert found[0].evidence[0].line == 63


@pytest.mark.parametrize(
    "text",
    [
        STEPS + FRAMES + "KeyboardInterrupt\n",
        STEPS + "Exception ignored in: <function Queue.__del__ at 0x7f>\n" + FRAMES + "TypeError: 'NoneType' object\n",
        FRAMES + "ImportError: No module named apex, falls back\n" + STEPS,
        "\n".join(STEPS.split("\n")[:20]) + "\n" + FRAMES + "OddError: tried again\n" + STEPS,
    ],
)
def test_other_tracebacks_are_not_the_end_of_a_run(text: str, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(text)
    assert "RUN-END-007" not in [item.rule for item in told(log)]
