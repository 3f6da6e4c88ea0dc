"""The kinds of faults that are planted in short trainings.

A kind is a name, the rules that name its cause, and a function that changes the run where the fault would happen. A
severity is drawn from a range in which the fault is one: a slow divergence that nobody could see is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from doctor.selftest.network import Array, TextCorpus
from doctor.selftest.runs import Kind, Plant, Run, Step


def _risen(before: Array, after: Array) -> bool:
    """At its height the mean of eight losses is three sigmas of a single loss, and 3 %, above what it was."""
    if not np.isfinite(after).all():
        return True
    level, sigma = float(before[-16:].mean()), float(np.abs(np.diff(before[-32:])).mean()) / 1.128
    means = np.convolve(after, np.full(8, 1 / 8), "valid") if len(after) >= 8 else np.array([after.mean()])
    return bool(means.max() - level >= max(3 * sigma, 0.03 * level))


def _bumped(before: Array, after: Array) -> bool:
    """Three losses stand seven sigmas above the level."""
    level, sigma = float(before[-16:].mean()), float(np.abs(np.diff(before[-32:])).mean()) / 1.128
    return bool(after[:3].mean() - level >= max(7 * sigma, 0.06 * level))


def _risen_at_end(before: Array, after: Array) -> bool:
    return _risen(before, after[-max(8, len(after) // 4) :])


def _low(before: Array, after: Array) -> bool:
    """The last eight losses are below 18 % of the first."""
    return bool(after[-8:].mean() < 0.18 * after[0])


def _swings(before: Array, after: Array) -> bool:
    """Losses vary by two and a half times as much as before, and by 4 % of their level."""
    was = float(np.std(before[-24:] - np.linspace(before[-24:][:4].mean(), before[-4:].mean(), len(before[-24:]))))
    return bool(np.std(after) >= max(2.5 * was, 0.04 * after.mean()))


RISES = ("RUN-LOSS-001", "RUN-LOSS-002", "RUN-LOSS-003")
KINDS: dict[str, Kind] = {}


def _kind(name: str, *rules: str, **more: Any) -> Callable[[Plant], Plant]:
    def add(plant: Plant) -> Plant:
        KINDS[name] = Kind(name, rules, plant, **more)
        return plant

    return add


# the rate


def _untouched(run: Run) -> None:
    run.pretrained = 0
    run.warmup = min(run.warmup, run.steps // 5)


@_kind(
    "lr-too-high",
    *RISES,
    "RUN-LOSS-007",
    "RUN-LOSS-008",
    "RUN-GRAD-002",
    "RUN-NAN-001",
    from_start=True,
    changes=_untouched,
)
def _lr_too_high(step: Step) -> None:
    step.lr *= 80 * 10 ** (1.2 * step.run.severity)


@_kind("lr-jumps", "RUN-LR-002")
def _lr_jumps(step: Step) -> None:
    step.lr *= 6 + 20 * step.run.severity


def _steady(run: Run) -> None:
    run.schedule, run.pretrained = "constant", 0


@_kind("lr-runs-away", "RUN-LR-005", "RUN-LR-002", changes=_steady)
def _lr_runs_away(step: Step) -> None:
    step.lr = step.run.lr * (1.04 + 0.08 * step.run.severity) ** (step.age + 1)


@_kind("lr-zero", "RUN-LR-001", changes=_steady)
def _lr_zero(step: Step) -> None:
    step.lr = 0.0


@_kind("lr-zero-from-start", "RUN-LR-001", "RUN-LOSS-007", from_start=True, changes=_untouched)
def _lr_zero_from_start(step: Step) -> None:
    step.lr = 0.0


def _asks_warmup(run: Run) -> None:
    run.pretrained = 0
    run.warmup = max(10, run.steps // 8)
    run.echo = {"learning_rate": run.lr, "warmup_steps": run.warmup}


@_kind("lr-not-warmed-up", "RUN-LR-003", from_start=True, changes=_asks_warmup)
def _lr_not_warmed_up(step: Step) -> None:
    step.lr = step.run.lr


@_kind("lr-never-comes-up", "RUN-LR-006", "RUN-LOSS-007", from_start=True, changes=_asks_warmup)
def _lr_never_comes_up(step: Step) -> None:
    step.lr = step.run.lr * 10 ** (-3 - 3 * step.run.severity)


def _warms(run: Run) -> None:
    run.warmup, run.schedule = max(8, run.steps // 10), "cosine" if run.severity < 0.5 else "constant"


@_kind("lr-restarted", "RUN-LR-004", changes=_warms)
def _lr_restarted(step: Step) -> None:
    step.lr = step.run.lr * min(1.0, (step.age + 1) / step.run.warmup)


# the data


@_kind("labels-shuffled", *RISES, shows=_risen)
def _labels_shuffled(step: Step) -> None:
    shape = step.labels.shape
    step.labels = step.run.rng.permutation(step.labels.reshape(-1)).reshape(shape)


@_kind("labels-random", "RUN-LOSS-007", from_start=True, changes=_untouched)
def _labels_random(step: Step) -> None:
    step.labels = step.run.rng.integers(0, step.run.sizes.vocab, step.labels.shape).astype(np.int32)


def _plain_start(run: Run) -> None:
    run.pretrained = 0
    run.steps = max(run.steps, 100)
    run.lr = max(run.lr, 2e-3)


@_kind("labels-not-shifted", "RUN-LOSS-009", from_start=True, changes=_plain_start, shows=_low)
def _labels_not_shifted(step: Step) -> None:
    step.labels = step.ids
    step.lr *= step.run.strength


@_kind("mask-leaks", "RUN-LOSS-009", from_start=True, changes=_plain_start, shows=_low)
def _mask_leaks(step: Step) -> None:
    """The answer stands in the input: as if the mask let each position see the next one."""
    ids = step.labels.copy()
    keep = step.run.rng.random(ids.shape) < 0.02 * step.run.severity
    step.ids = np.where(keep, step.ids, ids)
    step.lr *= step.run.strength


def _few(run: Run) -> None:
    _plain_start(run)
    run.corpus = TextCorpus(run.sizes.vocab, 0.1 + 0.5 * run.severity, length=run.sizes.length + 2)
    run.steps, run.warmup = max(run.steps, 160), 5
    run.schedule = "constant"


@_kind("memorises", "RUN-LOSS-009", "RUN-LOSS-006", from_start=True, changes=_few)
def _memorises(step: Step) -> None:
    """Three sequences, over and over: the corpus holds no more."""


def _big(run: Run) -> None:
    run.pretrained = 0


@_kind("labels-masked", "RUN-LOSS-005", changes=_big)
def _labels_masked(step: Step) -> None:
    step.labels = np.full_like(step.labels, -100)


@_kind("bad-batch", *RISES, shows=_bumped)
def _bad_batch(step: Step) -> None:
    if step.age < 3:
        step.labels = step.run.rng.integers(0, step.run.sizes.vocab, step.labels.shape).astype(np.int32)
        step.lr *= 1 if step.run.severity < 0.5 else 5


@_kind("data-change", *RISES, shows=_risen)
def _data_change(step: Step) -> None:
    turn = 1 + int(step.run.severity * (step.run.sizes.vocab - 2))
    step.ids, step.labels = (step.ids + turn) % step.run.sizes.vocab, (step.labels * 3 + turn) % step.run.sizes.vocab


# weights, gradients, optimizer


@_kind("slow-divergence", *RISES, shows=_risen_at_end)
def _slow_divergence(step: Step) -> None:
    """Noise in the weights that grows with the steps, ascent, or a rate that grows behind the printed one."""
    run, left = step.run, step.run.steps - step.run.onset
    step.memory["shown_lr"] = step.lr
    if run.severity < 0.35:
        share = run.strength * (0.2 + run.severity) * 2 * (step.age + 1) / left**1.5
        for name, value in step.optimizer.weights.items():
            noise = run.rng.normal(0, share * float(np.abs(value).mean()), value.shape)
            step.optimizer.weights[name] = value + noise.astype(np.float32)
    elif run.severity < 0.65:
        step.factor = -1.0
        step.lr = run.lr * run.strength * (0.1 + run.severity) * min(1.0, 30 / left)
    else:
        step.lr = run.lr * (1 + run.strength * 0.1) ** (step.age * min(1.0, 60 / left))


@_kind("oscillation", "RUN-LOSS-008", *RISES, shows=_swings)
def _oscillation(step: Step) -> None:
    """The weights of the head over- and undershoot, with a period of two to eight steps."""
    period = 2 + 2 * int(4 * step.run.severity)
    swing = 1 + (0.5 + step.run.severity) * step.run.strength
    high = (step.age % period) < period // 2
    was = step.memory.get("high", False)
    if high != was:
        step.memory["high"] = high
        names = [name for name in step.optimizer.weights if name.endswith(("head", "lm_head.weight"))]
        for name in names or [next(iter(step.optimizer.weights))]:
            step.optimizer.weights[name] = step.optimizer.weights[name] * np.float32(swing if high else 1 / swing)


@_kind("frozen", "RUN-LOSS-007", "RUN-GRAD-001", from_start=True, changes=_untouched)
def _frozen(step: Step) -> None:
    step.still = ("",)


def _early(run: Run) -> None:
    run.pretrained = 0
    run.steps = max(run.steps, 120)
    run.warmup = 5
    run.schedule = "constant"
    run.onset = 22 + int(8 * run.severity)


@_kind("updates-dropped", "RUN-LOSS-007", changes=_early, out_of_reach=True)
def _updates_dropped(step: Step) -> None:
    """Updates are dropped from here on while the loss was still falling fast: to the eye a loss that has found its floor,
    which no detector can tell apart and stay silent on those that have."""
    step.still = ("",)


@_kind("loss-constant", "RUN-LOSS-006")
def _loss_constant(step: Step) -> None:
    step.shown = step.memory.setdefault("loss", 2.718281)


@_kind("nan", "RUN-NAN-001", "RUN-NAN-003")
def _nan(step: Step) -> None:
    if step.age == 0:
        name = sorted(step.optimizer.weights)[0]
        step.optimizer.weights[name] = step.optimizer.weights[name] * np.float32(math.nan)


@_kind("inf", "RUN-NAN-001", "RUN-NAN-003")
def _inf(step: Step) -> None:
    step.shown = math.inf if step.age % 3 < 2 else None


def _single(run: Run) -> None:
    run.scaler = None


@_kind("gradient-explodes", "RUN-GRAD-002", "RUN-GRAD-003", changes=_single)
def _gradient_explodes(step: Step) -> None:
    step.factor = (1.4 + step.run.severity) ** min(40, step.age)


@_kind("gradient-vanishes", "RUN-GRAD-001", changes=_big)
def _gradient_vanishes(step: Step) -> None:
    step.factor = 10 ** (-5 - 3 * step.run.severity)


def _clips(run: Run) -> None:
    run.clip = 10 ** (-2.5 - run.severity)
    run.echo = {"max_grad_norm": run.clip, "learning_rate": run.lr}
    run.steps = max(run.steps, 80)


@_kind("always-clipped", "RUN-GRAD-004", from_start=True, changes=_clips)
def _always_clipped(step: Step) -> None:
    """The limit is a hundredth of what gradients of such a model are."""


def _half(run: Run) -> None:
    run.scaler = 2.0**14
    run.style = "mf18" if run.style in ("pynative", "plain") else run.style


@_kind("overflow-streak", "RUN-OVF-001", "RUN-OVF-002", "RUN-OVF-003", changes=_half)
def _overflow_streak(step: Step) -> None:
    step.factor = 1e9 if step.age < 8 + 10 * step.run.severity else 1.0


@_kind("scale-collapse", "RUN-OVF-002", "RUN-OVF-001", changes=_half)
def _scale_collapse(step: Step) -> None:
    step.factor = (1.5 + step.run.severity) ** min(70, step.age)


# resumptions


def _resumes(run: Run) -> None:
    run.steps = max(run.steps, 100)
    run.onset = run.resume_at = int((0.5 + 0.2 * run.severity) * run.steps)
    run.resume_from = run.onset - int(run.rng.choice([0, 5, 10]))
    run.echo["resume_training"] = True


@_kind("optimizer-lost-at-resume", "RUN-RES-001", "RUN-LR-002", "RUN-LR-004", *RISES, changes=_resumes, shows=_risen)
def _optimizer_lost(step: Step) -> None:
    """Moments and schedule start anew; the rate is the peak one, without warm-up."""
    if step.age == 0:
        step.optimizer.forget()
        step.optimizer.beta2 = 0.999
    step.lr = step.run.lr * (3 + 4 * step.run.severity)


@_kind("weights-lost-at-resume", "RUN-RES-001", *RISES, changes=_resumes, shows=_risen)
def _weights_lost(step: Step) -> None:
    if step.age == 0:
        early = step.memory["early"]
        for name, value in early.items():
            step.optimizer.weights[name] = value.copy()
        step.optimizer.forget()


# ranks


@_kind("rank-drifts", "RUN-RANK-001", ranks=4, shows=_risen)
def _rank_drifts(step: Step) -> None:
    """The weights of one rank are no longer those of the others."""
    if step.rank == step.run.seed % 4:
        for name, value in step.optimizer.weights.items():
            noise = step.run.rng.normal(0, 0.05 * step.run.strength * float(np.abs(value).mean()), value.shape)
            step.optimizer.weights[name] = value + noise.astype(np.float32)


@_kind("rank-nan", "RUN-NAN-002", "RUN-NAN-001", ranks=4)
def _rank_nan(step: Step) -> None:
    if step.rank == step.run.seed % 4:
        step.shown = math.nan


@_kind("straggler", "RUN-TIME-004", ranks=4)
def _straggler(step: Step) -> None:
    if step.rank == step.run.seed % 4:
        step.slower = 1.8 + 2 * step.run.severity


# the clock


def _long_steps(run: Run) -> None:
    run.step_ms = max(run.step_ms, 350.0)
    run.jitter = min(run.jitter, 0.08)
    run.steps = max(run.steps, 80)
    run.evaluate_every = 0


@_kind("step-time-drifts", "RUN-TIME-001", "RUN-TIME-005", changes=_long_steps)
def _step_time_drifts(step: Step) -> None:
    step.slower = 1 + (1.0 + 2 * step.run.severity) * min(1.0, step.age / (0.6 * (step.run.steps - step.run.onset)))


@_kind("data-starvation", "RUN-TIME-002", "RUN-TIME-001", "RUN-TIME-005", changes=_long_steps)
def _data_starvation(step: Step) -> None:
    step.wait_ms = step.run.step_ms * (1.2 + 2 * step.run.severity) * float(np.exp(step.run.rng.normal(0, 0.2)))
