"""Monitors: what a step shows against what it should have done; sound steps say nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doctor.trainer.arguments import TrainingArguments
from doctor.trainer.data.batches import Batch
from doctor.trainer.monitors import STORED, Monitors, Seen, Shadow
from doctor.trainer.schedule import Schedule

NAMES = ("embed.weight", "norm.weight", "head.weight")


def adamw(args: TrainingArguments, weights: Any, moments: Any, gradients: Any, rate: float, count: int) -> Any:
    """torch's AdamW, written as its documentation has it: decay first, then the step."""
    first, second = moments
    first = args.adam_beta1 * first + (1 - args.adam_beta1) * gradients
    second = args.adam_beta2 * second + (1 - args.adam_beta2) * gradients * gradients
    decay = np.array([args.weight_decay, 0.0, args.weight_decay])
    weights = weights - rate * decay * weights
    step = first / (1 - args.adam_beta1**count)
    return weights - rate * step / (np.sqrt(second / (1 - args.adam_beta2**count)) + args.adam_epsilon), (first, second)


class Run:
    """Steps of an optimizer that can be made to do wrong, with the monitors that watch them."""

    def __init__(self, **settings: Any) -> None:
        self.args = TrainingArguments(**{"learning_rate": 0.01, **settings})
        self.schedule = Schedule("linear", 0.01, 0.0, 2, 20)
        self.said: list[tuple[str, str]] = []
        self.weights = np.array([0.5, 1.0, -0.2])
        self.moments = (np.zeros(3), np.zeros(3))
        shadow = Shadow(NAMES, np.array([True, False, True]), self.weights, np.zeros(3), np.zeros(3))
        self.monitors = Monitors(self.args, self.schedule, shadow, lambda kind, words: self.said.append((kind, words)))
        self.random = np.random.default_rng(0)
        self.count = 0

    def step(self, scale: float = 1.0, rate: float = 1.0, squares: Any = None, moves: Any = True, **seen: Any) -> None:
        gradients = self.random.normal(size=3)
        squares = gradients**2 * 7 if squares is None else np.asarray(squares, float)
        norm = float(np.sqrt(squares.sum()))
        clipped = gradients / max(norm, 1.0)
        asked = self.schedule.at(self.count)
        new, self.moments = adamw(self.args, self.weights, self.moments, clipped, asked * rate, self.count + 1)
        self.weights = np.where(moves, new, self.weights)
        shown = Seen(squares * scale**2, gradients * scale, self.weights.astype(np.float32), **seen)
        self.monitors.step(shown, seen.get("said", asked), scale, self.count, True, norm)
        self.count += 1

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.said]


@pytest.mark.parametrize("settings", [{}, {"weight_decay": 5.0}, {"adam_beta1": 0.0}, {"adam_epsilon": 1e-3}])
@pytest.mark.parametrize("scale", [1.0, 65536.0])
def test_sound_steps_say_nothing(settings: dict[str, Any], scale: float) -> None:
    run = Run(**settings)
    for _ in range(12):
        run.step(scale)
    assert run.said == []


@pytest.mark.parametrize("bad", [1.02, 0.5, 10.0])
def test_a_rate_that_is_not_the_scheduled_one_shows_in_the_weights(bad: float) -> None:
    run = Run()
    for _ in range(4):
        run.step()
    run.step(rate=bad)
    assert run.kinds == ["update"]
    assert "embed.weight" in run.said[0][1]


def test_a_weight_that_stands_still_is_named() -> None:
    run = Run()
    for _ in range(3):
        run.step()
    run.step(moves=np.array([True, False, True]))
    assert run.said[0] == ("not-updated", "norm.weight did not move in this update, although the gradient is not zero")


def test_a_gradient_of_zero_is_named_once() -> None:
    run = Run()
    for _ in range(3):
        run.step(squares=[1.0, 0.0, 1.0])
    assert run.kinds.count("no-gradient") == 1
    assert "norm.weight" in dict(run.said)["no-gradient"]


def test_a_dropped_overflow_leaves_the_weights_alone_and_one_that_does_not_is_seen() -> None:
    for applied, expected in ((False, []), (True, ["update"])):
        run = Run(mixed_precision="O2")
        for _ in range(3):
            run.step()
        after = run.weights + (0.01 if applied else 0.0)
        run.monitors.step(
            Seen(np.full(3, np.inf), np.full(3, np.inf), after.astype(np.float32)), 0.01, 1.0, 2, False, np.inf
        )
        assert [kind for kind in run.kinds if kind != "rate"] == expected


def test_after_an_overflow_that_was_applied_updates_are_judged_no_more() -> None:
    """What infinite gradients have made of the moments is not known; the fault itself is told by the loss and the norm."""
    run = Run(
        mixed_precision="O2", loss_scale={"type": "fixed", "loss_scale_value": 65536.0, "drop_overflow_update": False}
    )
    for _ in range(3):
        run.step(65536.0)
    first, second = run.moments
    run.moments = (0.9 * first, 0.95 * second)  # the kernel went on with gradients clipped to nothing
    run.monitors.step(
        Seen(np.full(3, np.inf), np.full(3, np.inf), run.weights.astype(np.float32)),
        run.schedule.at(run.count),
        65536.0,
        run.count,
        True,
        np.inf,
    )
    run.count += 1
    for _ in range(3):
        run.step(65536.0)
    assert run.said == []


def test_fp16_weights_are_expected_to_move_by_what_their_kernel_makes_of_a_gradient() -> None:
    """At level O3 gradients are rounded to FP16 once unscaled: of 3e-8 nothing is left, and 9e-8 becomes 1.2e-7."""
    run = Run(mixed_precision="O3")
    run.monitors.stored = STORED["float16"]
    for gradient in (np.array([3e-8, 9e-8, 0.02]), np.array([2e-8, 1e-3, -0.02]), np.array([2.9e-8, 1e-7, 0.01])) * 4:
        rounded = gradient.astype(np.float16).astype(float)
        new, run.moments = adamw(run.args, run.weights, run.moments, rounded, run.schedule.at(run.count), run.count + 1)
        run.weights = new.astype(np.float16).astype(float)
        norm = float(np.linalg.norm(gradient))
        shown = Seen(gradient**2 * 2.0**32, gradient * 65536, run.weights.astype(np.float32))
        run.monitors.step(shown, run.schedule.at(run.count), 65536.0, run.count, True, norm)
        run.count += 1
    assert run.said == []


@pytest.mark.parametrize(
    ("name", "length", "precision", "steps", "said"),
    [
        ("layers.0.attention.k_proj.bias", 8, "O0", 9, False),
        ("layers.0.attention.q_proj.weight", 1, "O0", 9, False),
        ("layers.0.attention.q_proj.weight", 8, "O0", 1, True),
        ("layers.0.attention.q_proj.weight", 8, "O2", 3, False),
        ("layers.0.attention.q_proj.weight", 8, "O2", 9, True),
    ],
)
def test_a_gradient_that_is_zero_by_itself_is_no_fault(
    name: str, length: int, precision: str, steps: int, said: bool
) -> None:
    run = Run(mixed_precision=precision)
    run.monitors.shadow.names = ("embed.weight", name, "head.weight")
    ids = np.arange(2 * length).reshape(2, length).astype(np.int32)
    run.monitors.batches([Batch(ids, np.full_like(ids, 1), 0, 0)], per_epoch=9)
    run.said.clear()
    for _ in range(steps):
        run.step(squares=[1.0, 0.0, 1.0])
    assert ("no-gradient" in run.kinds) == said


def test_data_that_repeat_themselves_are_no_stuck_loader() -> None:
    run = Run()
    alike = np.tile(np.arange(6, dtype=np.int32), (2, 1))
    for number in range(3):
        run.monitors.batches([batch(number, alike)], per_epoch=9)
    assert run.said == []


def batch(number: int, ids: Any = None, labels: Any = None) -> Batch:
    ids = np.random.default_rng(number).integers(0, 50, (2, 6)).astype(np.int32) if ids is None else ids
    return Batch(ids[:, :5], ids[:, 1:] if labels is None else labels, 0, number)


@pytest.mark.parametrize(
    ("second", "kinds"),
    [
        (batch(1), []),
        (Batch(batch(0).ids, batch(0).labels, 0, 1), ["batch-repeated"]),
        (Batch(batch(1).ids, batch(1).labels, 0, 0), ["batch-order"]),
        (Batch(batch(1).ids, np.roll(batch(1).labels, -1, 1), 0, 1), ["labels"]),
        (Batch(batch(1).ids, np.full((2, 5), -100, np.int32), 0, 1), []),
    ],
)
def test_batches(second: Batch, kinds: list[str]) -> None:
    run = Run()
    run.monitors.batches([batch(0)], per_epoch=9)
    run.monitors.batches([second], per_epoch=9)
    assert run.kinds == kinds


def test_one_sample_without_labels_may_be_and_no_labels_any_more_may_not() -> None:
    run = Run()
    blank = [Batch(batch(number).ids, np.full((2, 5), -100, np.int32), 0, number) for number in range(9)]
    run.monitors.batches([blank[0]], per_epoch=9)
    run.step(squares=[0.0, 0.0, 0.0])
    run.monitors.batches([batch(1)], per_epoch=9)
    run.monitors.batches([blank[2]], per_epoch=9)
    assert "labels" not in run.kinds
    assert "no-gradient" not in run.kinds
    run.monitors.batches([blank[3]], per_epoch=9)
    assert "labels" in run.kinds


def test_four_samples_without_a_label_are_no_chance() -> None:
    run = Run()
    run.monitors.batches([batch(0)], per_epoch=9)
    ids = np.random.default_rng(7).integers(0, 50, (4, 5)).astype(np.int32)
    run.monitors.batches([Batch(ids, np.full_like(ids, -100), 0, 1)], per_epoch=9)
    assert run.kinds == ["labels"]


@pytest.mark.parametrize("precision", ["O0", "O2"])
def test_when_all_gradients_are_lost_it_is_said_in_the_same_step(precision: str) -> None:
    run = Run(mixed_precision=precision)
    run.monitors.batches([batch(0)], per_epoch=9)
    run.step()
    run.monitors.batches([batch(1)], per_epoch=9)
    run.step(squares=[0.0, 0.0, 0.0])
    assert "no-gradient" in run.kinds


def test_micro_batches_are_summed() -> None:
    parts = [np.array([1.0, 2.0, 3.0]), np.array([0.5, -2.0, 1.0])]
    whole = [parts[0], parts[0] + parts[1]]
    for added, said in (
        (tuple(zip(parts, whole)), []),
        (((parts[0], parts[0]),), ["accumulation"]),
        (tuple(zip(parts, parts)), ["accumulation"]),
    ):
        run = Run(gradient_accumulation_steps=2)
        run.step(added=added)
        assert run.kinds == said


@pytest.mark.heavy
@pytest.mark.mindspore
@pytest.mark.parametrize("name", ["moments are lost", "the mask hides nothing", "a micro batch is left out"])
def test_errors_planted_into_real_steps_are_caught_in_the_same_step(name: str) -> None:
    pytest.importorskip("mindspore")
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.benchmarks.silent_errors", "--only", name]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300, check=False)
    assert "caught within one step 1 of 1" in done.stdout, done.stdout + done.stderr
