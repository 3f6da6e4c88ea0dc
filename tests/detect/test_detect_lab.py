"""Short real trainings with planted faults: what is found, and that nothing is on healthy ones."""

from __future__ import annotations

import numpy as np
import pytest
from curves import from_rows, opened
from training_lab import FAULTS, run, setting

from doctor.detect import RunFacts
from doctor.detect.stream import RankStream

#: planted before the first step
FROM_START = {
    "frozen",
    "labels-masked-from-start",
    "labels-random-from-start",
    "lr-too-high",
    "lr-zero-from-start",
}
#: these show in the numbers of every run, however short and noisy; the others depend on its length
CERTAIN = (
    "nan-weight",
    "lr-runaway",
    "lr-times-12",
    "lr-zero",
    "lr-zero-from-start",
    "lr-restarted",
    "labels-random-from-start",
    "labels-masked",
    "labels-masked-from-start",
    "frozen",
    "bad-segment",
    "scale-collapse",
    "overflow-at-fixed-scale",
    "gradient-vanishes",
    "gradient-explodes",
    "constant-loss",
    "data-starvation",
)


def judged(fault: str, seed: int) -> tuple[list[str], int, int]:
    """Rules opened on the run of that seed, the onset of the fault, and the step at which the first was said."""
    plain = setting(seed)
    onset = 0 if fault in FROM_START else int(np.random.default_rng(seed).uniform(0.4, 0.7) * plain.steps)
    more = {"fp16": True} if fault in ("scale-collapse", "overflow-at-fixed-scale") else {}
    rows = run(setting(seed, fault=fault, onset=onset, **more))
    stream = RankStream("lab", 0, RunFacts())
    names: list[str] = []
    said_at = -1
    for metric in from_rows(rows):
        found = opened(stream.feed(metric))
        if found and said_at < 0:
            said_at = metric.step or 0
        names.extend(found)
    names.extend(opened(stream.end()))
    return names, onset, said_at


@pytest.mark.parametrize("seed", range(20))
def test_healthy_trainings_are_silent(seed: int) -> None:
    assert judged("", 9000 + seed)[0] == []


@pytest.mark.parametrize("fault", CERTAIN)
def test_planted_faults_are_found_after_they_begin(fault: str) -> None:
    for seed in range(4):
        names, onset, said_at = judged(fault, 700 + seed)
        assert set(names) & set(FAULTS[fault]), (fault, seed, names)
        assert said_at > onset, (fault, seed)
