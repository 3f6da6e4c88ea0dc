"""Curves of runs as they look in the field, drawn from formulas rather than trained: the second material for the detectors.

`fault_lab` trains small networks for real; its runs are short, small and of one rank mostly. Here a run is a set of columns
(loss, rate, norm, scale, times) for one rank or eight, of any size and of every kind that users have: pre-training
from 4 to 12 nats, fine-tunes that begin low, rewards that swing round zero, curricula, resumptions. Nothing here knows a
detector; what each scenario should raise is written beside it in `blind_scenarios`, before it was ever judged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.float64]


@dataclass
class Curves:
    """A run: columns of `steps` values; `losses` has a row for each rank. Times in ms, rates per step.

    `first` is the number of the first step, `log_every` prints each so-manieth step, `before` and `between` hold lines that are
    printed before the first step and behind a step."""

    rng: np.random.Generator
    steps: int
    losses: Column
    lr: Column
    norm: Column
    scale: Column
    overflow: NDArray[np.bool_]
    ms: Column
    wait: Column
    first: int = 1
    total: int = 0
    steps_per_epoch: int = 0
    log_every: int = 1
    style: str = "mf18"
    before: list[str] = field(default_factory=list)
    between: dict[int, list[str]] = field(default_factory=dict)
    #: step indices at which printing goes back: index -> index from which steps are printed a second time
    again: dict[int, int] = field(default_factory=dict)
    #: values printed on the second time round, where they differ
    after_resume: dict[str, Column] = field(default_factory=dict)
    #: rank -> index of its last step
    ends: dict[int, int] = field(default_factory=dict)
    #: rank -> index from which its steps take so many times as long
    slow: dict[int, tuple[int, float]] = field(default_factory=dict)
    #: index from which a step holds so many times the work
    work: dict[int, float] = field(default_factory=dict)
    onset: int = 0
    finished: bool = True
    fp16: bool = False
    last_lines: dict[int, list[str]] = field(default_factory=dict)

    @property
    def ranks(self) -> int:
        return len(self.losses)


def noise(rng: np.random.Generator, steps: int, sigma: float, memory: float = 0.2, tails: float = 0.003) -> Column:
    """Relative noise with some memory and a hard batch now and then."""
    white = rng.normal(0, sigma, steps)
    out = np.empty(steps)
    last = 0.0
    for at in range(steps):
        last = memory * last + math.sqrt(1 - memory**2) * white[at]
        out[at] = last
    hard = rng.random(steps) < tails
    out[hard] += sigma * rng.uniform(3, 7, hard.sum())
    return out


def descent(steps: int, start: float, floor: float, half: float, power: float, flat: int = 0) -> Column:
    """From `start` to `floor`: after `flat` steps of next to nothing (a warm-up) a power law with its half-way at `half`."""
    at = np.maximum(0.0, np.arange(steps) - flat)
    return floor + (start - floor) * (1 + at / half) ** -power


def rates(steps: int, peak: float, warmup: int, schedule: str, end: float = 0.0, done: float = 0.0) -> Column:
    """`done` is the share of the schedule that was over before the first step."""
    at = np.arange(steps) + done * steps / max(1e-9, 1 - done)
    whole = steps / (1 - done)
    up = np.minimum(1.0, (at + (0 if schedule == "cosine" else 1)) / max(1, warmup)) if warmup else np.ones(steps)
    share = np.clip((at - warmup) / max(1.0, whole - warmup), 0, 1)
    down = {
        "cosine": end + (1 - end) * 0.5 * (1 + np.cos(np.pi * share)),
        "linear": end + (1 - end) * (1 - share),
        "constant": np.ones(steps),
        "wsd": np.where(share < 0.8, 1.0, end + (1 - end) * (1 - (share - 0.8) / 0.2)),
        "polynomial": end + (1 - end) * (1 - share) ** 2,
        "sqrt": 1 / np.sqrt(np.maximum(1, at / max(1, warmup))),
    }[schedule]
    return np.asarray(peak * up * down)


def norms(rng: np.random.Generator, steps: int, start: float, end: float, sigma: float) -> Column:
    path = end + (start - end) * np.exp(-np.arange(steps) / max(5.0, steps / 8))
    out = path * np.exp(rng.normal(0, sigma, steps))
    odd = rng.random(steps) < 0.004
    out[odd] *= rng.uniform(2, 6, odd.sum())
    return np.asarray(out)


def times(rng: np.random.Generator, steps: int, usual: float, jitter: float) -> Column:
    out = usual * np.exp(rng.normal(0, jitter, steps))
    odd = rng.random(steps) < 0.01
    out[odd] *= rng.uniform(1.5, 4, odd.sum())
    out[0] += min(600_000.0, usual * rng.uniform(3, 60))  # compiling
    return np.asarray(out)


#: name -> (first loss, floor, half-way in steps, power, noise) as ranges
FAMILIES: dict[str, tuple[tuple[float, float], ...]] = {
    "huge": ((11.6, 12.4), (1.9, 2.6), (60, 300), (0.55, 0.9), (0.003, 0.008)),
    "middle": ((10.2, 11.2), (2.2, 3.2), (30, 150), (0.6, 1.0), (0.006, 0.015)),
    "small": ((9.0, 10.6), (3.0, 4.5), (20, 80), (0.6, 1.2), (0.01, 0.03)),
    "tiny": ((4.1, 6.3), (1.4, 2.5), (10, 50), (0.5, 1.0), (0.02, 0.05)),
    "tuned": ((1.3, 2.4), (0.7, 1.2), (10, 60), (0.3, 0.8), (0.03, 0.12)),
    "lora": ((0.9, 1.8), (0.6, 1.0), (10, 40), (0.3, 0.8), (0.05, 0.2)),
}
UNTRAINED = ("huge", "middle", "small", "tiny")


def drawn(
    rng: np.random.Generator, family: str, steps: int, ranks: int = 1, own: bool = False, **settings: Any
) -> Curves:
    """A healthy run of a family. With `own` each rank prints the loss of its own batches, else all the same."""
    start, floor, half, power, sigma = (float(rng.uniform(*bounds)) for bounds in FAMILIES[family])
    untrained = family in UNTRAINED
    schedule = str(settings.get("schedule", rng.choice(["cosine", "linear", "constant", "wsd", "polynomial"])))
    warmup = int(settings.get("warmup", rng.choice([0, 5, 10, steps // 20, steps // 10])))
    peak = float(rng.choice([1e-4, 3e-4, 6e-4] if untrained else [1e-5, 2e-5, 5e-5, 2e-4]))
    mean = descent(steps, start, floor, half, power, warmup // 2)
    if own:
        one = np.stack(
            [mean * (1 + noise(rng, steps, sigma * 2)) * (1 + rng.normal(0, 0.3 * sigma)) for _ in range(ranks)]
        )
    else:
        shared = mean * (1 + noise(rng, steps, sigma))
        one = np.stack([shared * (1 + rng.normal(0, 1e-5, steps)) for _ in range(ranks)])
    usual = float(rng.choice([180, 650, 1400, 3300, 8200, 21000]))
    fp16 = bool(settings.get("fp16", rng.random() < 0.3))
    scale = np.full(steps, float(2.0 ** rng.integers(12, 18)) if fp16 else 1.0)
    return Curves(
        rng,
        steps,
        one,
        rates(steps, peak, warmup, schedule, float(rng.choice([0.0, 0.0, 0.1]))),
        norms(rng, steps, float(rng.uniform(2, 30)) if untrained else float(rng.uniform(0.5, 4)), float(rng.uniform(0.2, 1.5)), float(rng.uniform(0.05, 0.3))),
        scale,
        np.zeros(steps, bool),
        times(rng, steps, usual, float(rng.choice([0.004, 0.02, 0.06, 0.12]))),
        usual * rng.uniform(0.001, 0.05) * np.exp(rng.normal(0, 0.3, steps)),
        total=steps,
        fp16=fp16,
    )  # fmt: skip
