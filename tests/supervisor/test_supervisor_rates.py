"""A rate that was measured: from the records of a run in which it rose, to the remedy that takes it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from doctor.finding import Finding, Severity, Text
from doctor.supervisor.cures.optimizer import with_rate
from doctor.supervisor.rates import FACTOR, HIGHEST, STEPS, TRIALS, climbed, of_rows
from doctor.supervisor.remedies import remedy_for
from doctor.trainer.config import RunConfig, load_config
from doctor.trainer.schedule import Schedule


def risen(bears: float, noise: float = 0.0, after: float = 2.0) -> list[dict[str, Any]]:
    """A loss that falls while the rate is below `bears`, in proportion to what was learnt, and rises beyond."""
    schedule = Schedule("range_test", HIGHEST, 0.0, 0, STEPS)
    rows, learnt = [], 0.0
    for update in range(STEPS):
        rate = schedule.at(update)
        learnt = learnt + rate if rate <= bears else learnt
        loss = 4.0 - 2.5 * (1 - math.exp(-learnt / bears)) + (after if rate > bears else 0.0)
        rows.append({"lr": rate, "loss": loss + noise * math.sin(7.0 * update)})
    return rows


def test_the_rate_of_a_range_test_rises_by_the_same_factor() -> None:
    schedule = Schedule("range_test", 0.3, 0.0, 0, 50)
    rates = [schedule.at(update) for update in range(50)]
    assert rates[-1] == pytest.approx(0.3)
    assert all(late / early == pytest.approx(1e5 ** (1 / 50)) for early, late in zip(rates, rates[1:]))


@pytest.mark.parametrize("bears", [3e-4, 3e-3, 3e-2])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_the_rate_is_about_a_tenth_of_the_one_that_breaks_the_run(bears: float, noise: float) -> None:
    found = of_rows(risen(bears, noise))
    assert found is not None
    assert bears / 40 < found < bears / 6


def test_a_loss_that_ends_is_read_up_to_there() -> None:
    rows = [row if row["lr"] <= 3e-3 else {**row, "loss": "nan"} for row in risen(3e-3)]
    found = of_rows(rows)
    assert found is not None
    assert 3e-3 / 20 < found < 3e-3 / 6


@pytest.mark.parametrize(
    "rows", [[], [{"lr": 1e-6, "loss": "nan"}], [{"lr": 1e-6 * 2**n, "loss": 4.0} for n in range(15)]]
)
def test_nothing_learnt_is_no_rate(rows: list[dict[str, Any]]) -> None:
    assert of_rows(rows) is None


def config(folder: Path, training: dict[str, Any]) -> RunConfig:
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump({"model": "llama", "training_args": training}))
    return load_config(str(path))


@pytest.mark.parametrize(
    ("rule", "training", "measured", "rate"),
    [
        ("CFG-OPT-007", {"learning_rate": 0.5}, 2e-3, 2e-3),
        # the model seems to bear what broke it: it is lowered all the same
        ("RUN-GRAD-002", {"learning_rate": 3e-3}, 2e-3, 1e-3),
        ("RUN-LR-001", {"learning_rate": 0.0}, 2e-3, 2e-3),
    ],
)
def test_a_measured_rate_takes_the_place_of_the_guess(
    rule: str, training: dict[str, Any], measured: float, rate: float, tmp_path: Path
) -> None:
    run = config(tmp_path, training)
    guess = remedy_for(Finding(rule, "x", Severity.ERROR, "config", Text("", ""), Text("", "")), run, 2)
    assert guess is not None
    assert guess.measurable
    remedy = with_rate(guess, run, measured)
    assert remedy.edits["training_args.learning_rate"] == pytest.approx(rate)
    assert (remedy.measurable, remedy.safe, remedy.back) == (False, False, guess.back)


def test_of_weights_that_are_loaded_the_loss_does_not_tell_the_rate(tmp_path: Path) -> None:
    run = config(tmp_path, {"learning_rate": 0.0})
    loaded = replace(run, load_checkpoint="weights")
    remedy = remedy_for(Finding("RUN-LR-001", "x", Severity.ERROR, "config", Text("", ""), Text("", "")), loaded, 2)
    assert remedy is not None
    assert not remedy.measurable
    assert remedy.edits["training_args.learning_rate"] == 2e-5


@pytest.mark.parametrize(("best", "start"), [(3e-3, 1e-3), (3e-3, 3e-3), (1e-3, 3e-3), (0.2, 1e-3)])
def test_the_rate_is_climbed_to_its_best_neighbour(best: float, start: float) -> None:
    """A loss that is lowest at one rate and rises by its distance from there, in factors."""
    tried: list[float] = []

    def end(rate: float) -> float:
        tried.append(rate)
        return 2.0 + abs(math.log(rate / best))

    found = climbed(start, end)
    assert len(tried) <= TRIALS
    reach = FACTOR ** (TRIALS - 1)
    nearest = min(max(best, start / reach), start * reach)
    assert nearest / FACTOR < found < nearest * FACTOR


def test_rates_that_break_the_run_are_not_climbed_to() -> None:
    assert climbed(1e-3, lambda rate: math.nan if rate > 1e-3 else 3.0 - 100 * rate) == pytest.approx(1e-3)
