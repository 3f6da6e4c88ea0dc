"""Faults planted in rounds, each written with its expectation before `doctor check` saw it, and healthy look-alikes.

The figures of the first, blind run of each round stand beside it; after it what was missed was mended by kind.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import planting  # noqa: E402
import round_one_data  # noqa: E402
import round_one_weights  # noqa: E402
import round_three  # noqa: E402
import round_two  # noqa: E402

ROUNDS = {
    # blind: 217 of 253 faults right, 22 silent, 14 wrong; 66 of 67 healthy ones silent (both files together)
    "weights, one": round_one_weights.ROUND,
    "data, one": round_one_data.ROUND,
    # blind: 70 of 81 faults right, 8 silent, 3 wrong; 24 of 25 healthy ones silent (both together)
    "weights, two": round_two.WEIGHTS,
    "data, two": round_two.DATA,
    # blind: 33 of 39 faults right, 4 silent, 2 wrong; 8 of 8 healthy ones silent (both together)
    "weights, three": round_three.WEIGHTS,
    "data, three": round_three.DATA,
}


@pytest.mark.parametrize("name", ROUNDS)
def test_every_fault_is_named_and_nothing_healthy_is(tmp_path: Path, name: str) -> None:
    found = planting.run(ROUNDS[name].cases, tmp_path, seed=1)
    wrong = [f"{item.case.kind}: {item.verdict}, raised {item.raised}" for item in found if item.verdict != "right"]
    assert not wrong
    assert len(found) >= 14
