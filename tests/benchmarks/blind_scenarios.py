"""What is planted in `blind_curves`, and what each should raise. Written before any of it was judged.

A healthy scenario should raise nothing at warning or above. A fault names the rules of which one should be raised, the columns
that the log must print for anybody to see it, and draws its severity from what an engineer would see in a plot.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.benchmarks.blind_curves import UNTRAINED, Column, Curves, descent, drawn, noise, rates
from tests.benchmarks.blind_logs import PRINTS, STYLES

Rng = np.random.Generator


@dataclass(frozen=True)
class Scenario:
    name: str
    make: Callable[[Rng], Curves]
    #: rules of which one names the fault; none for a healthy run
    rules: tuple[str, ...] = ()
    #: what the lines must hold besides step and loss
    needs: frozenset[str] = frozenset()


HEALTHY: dict[str, Scenario] = {}
FAULTS: dict[str, Scenario] = {}


def _healthy(name: str, *needs: str) -> Callable[[Callable[[Rng], Curves]], Callable[[Rng], Curves]]:
    def add(make: Callable[[Rng], Curves]) -> Callable[[Rng], Curves]:
        HEALTHY[name] = Scenario(name, make, (), frozenset(needs))
        return make

    return add


def _fault(name: str, *rules: str, needs: str = "") -> Callable[[Callable[[Rng], Curves]], Callable[[Rng], Curves]]:
    def add(make: Callable[[Rng], Curves]) -> Callable[[Rng], Curves]:
        FAULTS[name] = Scenario(name, make, rules, frozenset(needs.split()))
        return make

    return add


def make(scenario: Scenario, seed: int) -> Curves:
    """The run of a seed, in one of the styles that print what the scenario needs."""
    rng = np.random.default_rng([seed, *scenario.name.encode()])
    run = scenario.make(rng)
    able = [style for style in STYLES if scenario.needs <= PRINTS[style]]
    if run.ranks > 1:
        able = [style for style in able if style not in ("rate", "hf")]
    if run.steps_per_epoch or run.losses.min() < 0:
        able = [style for style in able if style in ("mf18", "mf21", "monitor")] or able
    run.style = str(rng.choice(able))
    if run.style in ("pynative", "monitor", "hf", "rate") and "scale" not in scenario.needs:
        run.overflow[:] = False
    return run


def _steps(rng: Rng) -> int:
    return int(rng.choice([80, 120, 200, 300, 400]))


def _any(rng: Rng, ranks: int = 1, own: bool = False, steps: int = 0, families: tuple[str, ...] = ()) -> Curves:
    family = str(rng.choice(families or ("huge", "middle", "small", "tiny", "tuned", "lora")))
    run = drawn(rng, family, steps or _steps(rng), ranks, own)
    if family in ("tuned", "lora"):
        run.before.append("Start load checkpoint from ./weights/base.ckpt")
    return run


def _untrained(rng: Rng, steps: int = 0, ranks: int = 1, own: bool = False) -> Curves:
    return _any(rng, ranks, own, steps, UNTRAINED)


def _onset(rng: Rng, run: Curves) -> int:
    run.onset = int(run.steps * rng.uniform(0.4, 0.6))
    return run.onset


def _raise(run: Curves, rows: Column) -> None:
    """Multiplies the losses of all ranks."""
    run.losses = run.losses * rows


# healthy


@_healthy("plain")
def _plain(rng: Rng) -> Curves:
    return _any(rng)


@_healthy("eight ranks, one loss")
def _eight(rng: Rng) -> Curves:
    return _any(rng, 8)


@_healthy("eight ranks, their own losses")
def _own(rng: Rng) -> Curves:
    return _any(rng, 8, True)


@_healthy("smoke run")
def _smoke(rng: Rng) -> Curves:
    return _any(rng, steps=int(rng.choice([12, 20, 32, 60])))


@_healthy("long")
def _long(rng: Rng) -> Curves:
    return _any(rng, steps=int(rng.choice([2000, 6000])))


@_healthy("evaluation pauses", "ms")
def _evaluates(rng: Rng) -> Curves:
    run = _any(rng)
    every = int(rng.choice([20, 25, 50]))
    for at in range(every - 1, run.steps, every):
        run.between[at] = ["Start evaluating ...", f"Eval result: {{'PerplexityMetric': {{'loss': {run.losses[0][at] + 0.2:.4f}, 'PPL': 9.1}}}}"]  # fmt: skip
        if at + 1 < run.steps and rng.random() < 0.7:
            run.ms[at + 1] *= rng.uniform(5, 60)
    return run


@_healthy("checkpoint pauses", "ms")
def _saves(rng: Rng) -> Curves:
    run = _any(rng)
    every = int(rng.choice([40, 50, 100]))
    for at in range(every - 1, run.steps, every):
        seconds = 0.05 * every * float(np.median(run.ms)) / 1000
        run.between[at] = [f"Finish saving ckpt of epoch 1 step {run.first + at} using {seconds:.3f} seconds"]
        if at + 1 < run.steps:
            run.ms[at + 1] += 1000 * seconds
    return run


@_healthy("resumed, steps repeat")
def _repeats(rng: Rng) -> Curves:
    run = _any(rng, int(rng.choice([1, 8])))
    at = int(run.steps * rng.uniform(0.4, 0.8))
    run.again[at] = int(at * rng.uniform(0.4, 0.95))
    if rng.random() < 0.5:  # other batches than the first time
        run.after_resume["loss"] = run.losses[0] * (1 + noise(rng, run.steps, 0.01))
    return run


@_healthy("log begins late")
def _late(rng: Rng) -> Curves:
    run = _any(rng)
    run.first = int(rng.integers(500, 90_000))
    run.total = run.first + run.steps
    run.lr = rates(run.steps, float(run.lr.max()), 0, "cosine", 0.1, 0.6)
    start = float(rng.uniform(1.8, 3.2))
    run.losses = np.tile(descent(run.steps, start, 0.97 * start, 100, 0.5) * (1 + noise(rng, run.steps, 0.015)), (len(run.losses), 1))  # fmt: skip
    run.before = ["Start load resume context from checkpoint", "resume training from ./checkpoint/step-x"]
    return run


@_healthy("fp16 rescales", "scale")
def _rescales(rng: Rng) -> Curves:
    run = _any(rng)
    run.fp16 = True
    window, value, calm = int(rng.choice([20, 50, 100])), float(2.0 ** rng.integers(13, 18)), 0
    ceiling = 2.0 ** rng.integers(15, 19)
    for at in range(run.steps):
        run.scale[at] = value
        calm += 1
        if value > ceiling or rng.random() < 0.004:
            run.overflow[at], value, calm = True, max(1.0, value / 2), 0
            run.norm[at] = math.inf if rng.random() < 0.5 else run.norm[at]
        elif calm >= window:
            value, calm = value * 2, 0
    return run


@_healthy("fp16 searches", "scale")
def _searches(rng: Rng) -> Curves:
    run = _any(rng)
    run.fp16 = True
    skipped = int(rng.integers(2, 18))
    top = 2.0 ** (15 + skipped)
    run.overflow[:skipped] = True
    run.scale[:] = top / 2.0 ** np.minimum(np.arange(run.steps), skipped)
    run.losses[:, :skipped] = run.losses[:, :1] * (1 + noise(rng, skipped, 0.003))
    run.norm[:skipped] = math.inf if rng.random() < 0.5 else run.norm[:skipped]
    return run


@_healthy("long warm-up", "lr")
def _warms(rng: Rng) -> Curves:
    steps = _steps(rng)
    run = drawn(rng, str(rng.choice(UNTRAINED)), steps, warmup=int(steps * rng.uniform(0.3, 0.9)), schedule="cosine")
    return run


@_healthy("decays to nothing", "lr")
def _decays(rng: Rng) -> Curves:
    run = drawn(rng, str(rng.choice(UNTRAINED)), _steps(rng), schedule=str(rng.choice(["linear", "cosine", "wsd"])))
    run.lr = np.maximum(run.lr, 0) * np.where(np.arange(run.steps) == run.steps - 1, 0.0, 1.0)
    return run


@_healthy("cosine with restarts", "lr")
def _restarts(rng: Rng) -> Curves:
    run = _untrained(rng)
    period = max(20, run.steps // int(rng.integers(2, 5)))
    at = np.arange(run.steps) % period
    run.lr = run.lr.max() * 0.5 * (1 + np.cos(np.pi * at / period)) + 1e-7
    _raise(run, 1 + 0.015 * np.exp(-at / 6) * (np.arange(run.steps) >= period))
    return run


@_healthy("curriculum, harder data by stages")
def _curriculum(rng: Rng) -> Curves:
    run = _any(rng, steps=int(rng.choice([200, 300, 400])), families=("middle", "small", "tiny"))
    for stage in range(1, 3):
        at = stage * run.steps // 3
        bump = np.where(np.arange(run.steps) >= at, rng.uniform(0.01, 0.04) * np.exp(-(np.arange(run.steps) - at).clip(0) / 25), 0)  # fmt: skip
        _raise(run, 1 + bump)
    return run


@_healthy("fine-tune of three epochs, stairs")
def _stairs(rng: Rng) -> Curves:
    run = _any(rng, families=("tuned", "lora"), steps=int(rng.choice([120, 180, 300])))
    run.steps_per_epoch = run.steps // 3
    epoch = np.arange(run.steps) // run.steps_per_epoch
    _raise(run, np.array([1.0, 0.62, 0.35, 0.35])[epoch])
    return run


@_healthy("toy data learnt by heart")
def _by_heart(rng: Rng) -> Curves:
    """A handful of samples on purpose: dozens of epochs, printed as such."""
    steps = int(rng.choice([100, 200, 300]))
    run = drawn(rng, str(rng.choice(["middle", "small", "tiny"])), steps)
    run.steps_per_epoch = int(rng.choice([2, 4, 8]))
    start = float(run.losses[0][0])
    path = start * np.exp(-np.arange(steps) / rng.uniform(12, 40)) + rng.uniform(0.002, 0.05)
    run.losses = np.tile(path * (1 + noise(rng, steps, 0.05)), (1, 1)).clip(1e-4)
    run.norm = run.norm * path / start + 1e-3
    return run


@_healthy("preference tuning")
def _preference(rng: Rng) -> Curves:
    """DPO: begins at ln 2 and stays there for long."""
    run = drawn(rng, "lora", _steps(rng))
    run.before.append("Start load checkpoint from ./weights/base.ckpt")
    path = 0.693 - 0.2 * np.clip((np.arange(run.steps) - 60) / run.steps, 0, 1)
    run.losses = (path * (1 + noise(rng, run.steps, 0.02))).reshape(1, -1)
    return run


@_healthy("policy gradient")
def _policy(rng: Rng) -> Curves:
    """GRPO: a loss round zero, of either sign."""
    run = drawn(rng, "lora", _steps(rng))
    run.before.append("Start load checkpoint from ./weights/base.ckpt")
    run.losses = rng.normal(0.0, 0.02, (1, run.steps)) + 0.003 * np.sin(np.arange(run.steps) / 9)
    return run


@_healthy("classifier")
def _classifier(rng: Rng) -> Curves:
    run = drawn(rng, "lora", _steps(rng))
    path = descent(run.steps, float(rng.choice([0.7, 1.4, 2.3])), 0.02, 15, 1.1)
    run.losses = (path * (1 + noise(rng, run.steps, 0.25))).clip(1e-3).reshape(1, -1)
    return run


@_healthy("diffusion")
def _diffusion(rng: Rng) -> Curves:
    run = drawn(rng, "lora", int(rng.choice([200, 400])))
    path = descent(run.steps, 1.0, float(rng.uniform(0.04, 0.15)), 8, 1.3)
    run.losses = (path * np.exp(rng.normal(0, 0.3, run.steps))).reshape(1, -1)
    return run


@_healthy("batch size grows", "rate")
def _grows(rng: Rng) -> Curves:
    run = _untrained(rng, steps=300)
    for stage, at in enumerate((100, 200), 1):
        run.ms[at:] *= 1.9
        run.work[at] = 2.0**stage
    return run


@_healthy("a pipeline's first stages")
def _stages(rng: Rng) -> Curves:
    run = _any(rng, 8)
    run.before.append("parallel config: {'data_parallel': 2, 'model_parallel': 1, 'pipeline_stage': 4}")
    run.losses[:6] = 0.0
    return run


@_healthy("hard batches that recover")
def _hard(rng: Rng) -> Curves:
    run = _untrained(rng, steps=int(rng.choice([200, 400])))
    for at in rng.choice(np.arange(40, run.steps), 3, replace=False):
        run.losses[:, at] *= 1 + rng.uniform(0.1, 0.4)
        run.norm[at] *= rng.uniform(2, 8)
    return run


@_healthy("printed every tenth step")
def _every_tenth(rng: Rng) -> Curves:
    run = _any(rng, steps=int(rng.choice([600, 1500])))
    run.log_every = 10
    return run


@_healthy("a busy machine", "ms")
def _busy(rng: Rng) -> Curves:
    run = _any(rng, int(rng.choice([1, 8])))
    run.ms *= np.exp(rng.normal(0, 0.2, run.steps))
    slow = rng.random(run.steps) < 0.05
    run.ms[slow] *= rng.uniform(2, 6, slow.sum())
    return run


@_healthy("continued pre-training, another domain")
def _continued(rng: Rng) -> Curves:
    """Begins at 2 to 3, falls hardly at all in the steps that the log shows."""
    run = drawn(rng, "tuned", _steps(rng))
    run.before.append("Start load checkpoint from ./weights/base.ckpt")
    start = float(rng.uniform(1.7, 3.0))
    path = descent(run.steps, start, 0.93 * start, 80, 0.5)
    run.losses = (path * (1 + noise(rng, run.steps, float(rng.uniform(0.005, 0.06)), 0.3))).reshape(1, -1)
    return run


# faults


@_fault("nan for good", "RUN-NAN-001", "RUN-NAN-003")
def _nan(rng: Rng) -> Curves:
    run = _any(rng, int(rng.choice([1, 8])))
    at = _onset(rng, run)
    run.losses[:, at:] = math.nan
    run.norm[at:] = math.nan
    return run


@_fault("inf, then nan", "RUN-NAN-001", "RUN-NAN-003")
def _inf(rng: Rng) -> Curves:
    run = _any(rng)
    at = _onset(rng, run)
    run.losses[:, at] = math.inf
    run.losses[:, at + 1 :] = math.nan
    return run


@_fault("norm not finite, loss is", "RUN-NAN-003", "RUN-NAN-001", "RUN-OVF-003", needs="norm")
def _norm_nan(rng: Rng) -> Curves:
    run = _any(rng)
    run.fp16 = False
    run.norm[_onset(rng, run) :] = math.nan
    return run


@_fault("spike that stays", "RUN-LOSS-001", "RUN-LOSS-002", "RUN-LOSS-003")
def _stays(rng: Rng) -> Curves:
    run = _any(rng, families=("huge", "middle", "small", "tiny", "tuned"))
    at = _onset(rng, run)
    up = np.ones(run.steps)
    up[at:] = 1 + rng.uniform(0.35, 2.0)
    _raise(run, up)
    return run


@_fault("spike that recovers", "RUN-LOSS-002", "RUN-LOSS-001")
def _recovers(rng: Rng) -> Curves:
    run = _untrained(rng)
    at = _onset(rng, run)
    after = np.arange(run.steps) - at
    _raise(run, 1 + np.where(after >= 0, rng.uniform(0.4, 1.5) * np.exp(-after.clip(0) / rng.uniform(6, 25)), 0))
    return run


@_fault("slow divergence", "RUN-LOSS-003", "RUN-LOSS-001", "RUN-LOSS-002")
def _slow(rng: Rng) -> Curves:
    run = _any(rng, families=("huge", "middle", "small", "tiny"), steps=int(rng.choice([200, 300, 400])))
    at = _onset(rng, run)
    after = (np.arange(run.steps) - at).clip(0) / (run.steps - at)
    _raise(run, 1 + rng.uniform(0.25, 1.0) * after ** rng.uniform(0.8, 2.0))
    return run


@_fault("loss zero", "RUN-LOSS-005")
def _zero(rng: Rng) -> Curves:
    run = _any(rng, families=("middle", "tuned", "lora"))
    run.losses[:, _onset(rng, run) :] = 0.0
    return run


@_fault("loss constant", "RUN-LOSS-006")
def _constant(rng: Rng) -> Curves:
    run = _any(rng)
    at = _onset(rng, run)
    run.losses[:, at:] = run.losses[:, at : at + 1]
    return run


@_fault("never learns", "RUN-LOSS-007")
def _never(rng: Rng) -> Curves:
    run = drawn(rng, str(rng.choice(["huge", "middle", "small"])), int(rng.choice([120, 200, 300])), schedule="constant", warmup=5)  # fmt: skip
    start = math.log(float(rng.choice([32000, 50304, 65024, 125696, 151936]))) + float(rng.uniform(0.0, 0.3))
    run.losses = (start * (1 + noise(rng, run.steps, float(rng.uniform(0.001, 0.006)), 0.1))).reshape(1, -1)
    return run


@_fault("plateau above the floor", "RUN-LOSS-010", "RUN-LOSS-007")
def _plateau(rng: Rng) -> Curves:
    """Stops at 6 to 7.5 nats, where a model knows how often each token comes and nothing else, for most of a long run."""
    run = drawn(rng, str(rng.choice(["huge", "middle"])), int(rng.choice([600, 1000, 1500])), schedule="constant", warmup=20)  # fmt: skip
    floor = float(rng.uniform(6.0, 7.5))
    path = descent(run.steps, float(run.losses[0][0]), floor, 10, 2.5, 10)
    run.losses = (path * (1 + noise(rng, run.steps, float(rng.uniform(0.004, 0.012))))).reshape(1, -1)
    return run


@_fault("oscillation", "RUN-LOSS-008", "RUN-LOSS-003", "RUN-LOSS-001", "RUN-LOSS-002")
def _swings(rng: Rng) -> Curves:
    run = _any(rng, families=("huge", "middle", "small", "tiny"), steps=int(rng.choice([200, 300, 400])))
    at = _onset(rng, run)
    period = int(rng.choice([2, 3, 4, 6, 8]))
    swing = rng.uniform(0.12, 0.4) * np.sin(2 * np.pi * (np.arange(run.steps) + 0.5) / period)
    _raise(run, 1 + np.where(np.arange(run.steps) >= at, swing, 0))
    return run


@_fault("labels not shifted", "RUN-LOSS-009")
def _copies(rng: Rng) -> Curves:
    run = _untrained(rng, steps=int(rng.choice([120, 200, 300])))
    start = float(run.losses[0][0])
    path = start * np.exp(-np.arange(run.steps) / rng.uniform(8, 25)) + rng.uniform(0.001, 0.03)
    run.losses = (path * (1 + noise(rng, run.steps, 0.04))).clip(1e-4).reshape(1, -1)
    run.norm = run.norm * path / start + 1e-3
    return run


@_fault("weights not loaded", "RUN-INIT-001")
def _not_loaded(rng: Rng) -> Curves:
    run = drawn(rng, str(rng.choice(["huge", "middle"])), _steps(rng))
    vocab = int(rng.choice([32000, 50257, 65024, 128256, 151936]))
    start = math.log(vocab) + float(rng.uniform(0.0, 0.12))
    run.losses = run.losses * (start / run.losses[0][0])
    run.before = ["Start load checkpoint from ./weights/base.ckpt", f"model config: {{'vocab_size': {vocab}, 'num_layers': 32}}"]  # fmt: skip
    return run


@_fault("loss jumps on resumption", "RUN-RES-001", "RUN-LOSS-001", "RUN-LOSS-002", "RUN-LOSS-003")
def _resumed_high(rng: Rng) -> Curves:
    run = _any(rng, families=("huge", "middle", "small", "tiny"))
    at = int(run.steps * rng.uniform(0.5, 0.7))
    run.again[at] = int(at * rng.uniform(0.6, 0.9))
    high = rng.uniform(0.2, 1.0) * np.exp(-(np.arange(run.steps) - run.again[at]).clip(0) / rng.uniform(15, 200))
    run.after_resume["loss"] = run.losses[0] * (1 + high)
    return run


@_fault("overflow streak", "RUN-OVF-001", "RUN-OVF-002", needs="scale")
def _streak(rng: Rng) -> Curves:
    run = _any(rng)
    run.fp16, at, count = True, _onset(rng, run), int(rng.integers(8, 15))
    run.scale[:] = 2.0**17
    run.overflow[at : at + count] = True
    run.scale[at:] = 2.0 ** (17 - np.minimum(np.arange(run.steps - at), count))
    return run


@_fault("scale collapses", "RUN-OVF-002", "RUN-OVF-001", needs="scale")
def _collapse(rng: Rng) -> Curves:
    run = _any(rng)
    run.fp16, at, value = True, _onset(rng, run), 2.0**16
    share = rng.uniform(0.55, 1.0)
    for index in range(at, run.steps):
        run.scale[index] = value
        if rng.random() < share:
            run.overflow[index], value = True, max(2.0**-14, value / 2)
    run.scale[:at] = 2.0**16
    return run


@_fault("every step overflows at a fixed scale", "RUN-OVF-003", needs="scale")
def _fixed(rng: Rng) -> Curves:
    run = _any(rng)
    run.fp16 = True
    run.scale[:] = 2.0 ** rng.integers(10, 28)
    at = int(rng.choice([0, _onset(rng, run)]))
    run.overflow[at:] = True
    run.losses[:, at:] = run.losses[:, at : at + 1] * (1 + noise(rng, run.steps - at, 0.01))
    return run


@_fault("gradient vanishes", "RUN-GRAD-001", needs="norm")
def _vanishes(rng: Rng) -> Curves:
    run = _untrained(rng)
    at = _onset(rng, run)
    run.norm[at:] *= 10 ** -rng.uniform(4, 9)
    run.losses[:, at:] = run.losses[:, at : at + 1] * (1 + noise(rng, run.steps - at, 0.01))
    return run


@_fault("gradient explodes", "RUN-GRAD-002", "RUN-GRAD-003", needs="norm")
def _explodes(rng: Rng) -> Curves:
    run = _any(rng)
    run.norm[_onset(rng, run) :] *= 10 ** rng.uniform(2, 5)
    return run


@_fault("gradient rises before a spike", "RUN-GRAD-003", "RUN-GRAD-002", needs="norm")
def _rises(rng: Rng) -> Curves:
    run = _untrained(rng)
    at = _onset(rng, run)
    for offset in range(6):
        run.norm[at + offset] = run.norm[at - 1] * rng.uniform(2.2, 4) ** (offset + 1)
    run.losses[:, at + 6 : at + 12] *= 1 + rng.uniform(0.3, 1)
    return run


@_fault("always clipped", "RUN-GRAD-004", needs="norm")
def _clipped(rng: Rng) -> Curves:
    run = _untrained(rng)
    limit = float(rng.choice([0.001, 0.01, 0.05]))
    run.norm = np.maximum(run.norm, 30 * limit)
    run.before.append(f"optimizer config: {{'learning_rate': {run.lr.max():g}, 'weight_decay': 0.1, 'max_grad_norm': {limit}}}")  # fmt: skip
    return run


@_fault("rate zero", "RUN-LR-001", needs="lr")
def _rate_zero(rng: Rng) -> Curves:
    run = _any(rng)
    run.lr = rates(run.steps, float(run.lr.max()), 5, "constant")
    run.lr[_onset(rng, run) :] = 0.0
    return run


@_fault("rate jumps", "RUN-LR-002", needs="lr")
def _rate_jumps(rng: Rng) -> Curves:
    run = _any(rng)
    run.lr = rates(run.steps, float(run.lr.max()), 5, str(rng.choice(["constant", "cosine"])), 0.1)
    run.lr[_onset(rng, run) :] *= rng.uniform(8, 100)
    return run


@_fault("rate not warmed up", "RUN-LR-003", needs="lr")
def _cold(rng: Rng) -> Curves:
    run = _untrained(rng)
    peak = float(run.lr.max())
    run.lr = rates(run.steps, peak, 0, "cosine")
    run.before.append(f"lr config: {{'learning_rate': {peak:g}, 'warmup_steps': {int(rng.choice([10, 50, 100]))}, 'lr_scheduler': 'cosine'}}")  # fmt: skip
    return run


@_fault("rate never comes up", "RUN-LR-006", needs="lr")
def _never_up(rng: Rng) -> Curves:
    run = _untrained(rng)
    peak = float(run.lr.max())
    run.before.append(f"lr config: {{'learning_rate': {peak:g}, 'warmup_steps': 10, 'lr_scheduler': 'cosine'}}")
    run.lr = rates(run.steps, peak * 10 ** -rng.uniform(2, 4), 10, "constant")
    return run


@_fault("rate started anew", "RUN-LR-004", needs="lr")
def _anew(rng: Rng) -> Curves:
    run = _untrained(rng, steps=int(rng.choice([200, 300])))
    peak, at = float(run.lr.max()), _onset(rng, run)
    run.lr = rates(run.steps, peak, 20, "cosine", 0.1)
    warmup = int(rng.choice([8, 15, 20]))
    run.lr[at:] = rates(run.steps - at, peak, warmup, "constant")
    return run


@_fault("rate runs away", "RUN-LR-005", "RUN-LR-002", needs="lr")
def _runs_away(rng: Rng) -> Curves:
    run = _any(rng, steps=300)
    at = _onset(rng, run)
    run.lr = rates(run.steps, float(run.lr.max()), 10, "constant")
    run.lr[at:] *= (1 + rng.uniform(0.03, 0.2)) ** np.arange(1, run.steps - at + 1).clip(0, 120)
    return run


def _paced(rng: Rng, ranks: int = 1) -> Curves:
    run = _any(rng, ranks, steps=int(rng.choice([200, 300, 400])))
    run.ms = float(rng.choice([900, 2400, 8000])) * np.exp(rng.normal(0, float(rng.choice([0.01, 0.05])), run.steps))
    run.ms[0] *= 20
    return run


@_fault("steps get slower", "RUN-TIME-001", "RUN-TIME-005", needs="ms")
def _slower(rng: Rng) -> Curves:
    run = _paced(rng)
    at = _onset(rng, run)
    run.ms[at:] *= np.minimum(rng.uniform(1.8, 4), 1 + np.arange(run.steps - at) / rng.choice([1, 20, 40]))
    return run


@_fault("throughput drops", "RUN-TIME-005", "RUN-TIME-001", needs="throughput")
def _throughput(rng: Rng) -> Curves:
    run = _paced(rng)
    run.ms[_onset(rng, run) :] *= rng.uniform(1.8, 4)
    return run


@_fault("data starvation", "RUN-TIME-002", needs="wait")
def _starves(rng: Rng) -> Curves:
    run = _paced(rng)
    at = int(rng.choice([0, _onset(rng, run)]))
    extra = rng.uniform(0.8, 4)
    run.wait[at:] = run.ms[at:] * extra
    run.ms[at:] *= 1 + extra
    return run


@_fault("saving takes too long", "RUN-TIME-003", needs="ms lines")
def _slow_saves(rng: Rng) -> Curves:
    run = _paced(rng)
    every = int(rng.choice([20, 40]))
    seconds = rng.uniform(0.4, 2) * every * float(np.median(run.ms)) / 1000
    for at in range(every - 1, run.steps, every):
        run.between[at] = [f"Finish saving ckpt of epoch 1 step {run.first + at} using {seconds * rng.uniform(0.9, 1.1):.3f} seconds"]  # fmt: skip
    return run


@_fault("one rank is slow", "RUN-TIME-004", "RUN-TIME-001", needs="ms")
def _straggler(rng: Rng) -> Curves:
    run = _paced(rng, 8)
    run.slow[int(rng.integers(8))] = (int(rng.choice([0, _onset(rng, run)])), float(rng.uniform(1.7, 4)))
    return run


@_fault("nan on one rank", "RUN-NAN-002", "RUN-NAN-001")
def _one_nan(rng: Rng) -> Curves:
    run = _any(rng, 8, bool(rng.random() < 0.5))
    run.losses[int(rng.integers(8)), _onset(rng, run) :] = math.nan
    return run


@_fault("one rank drifts away", "RUN-RANK-001", "RUN-LOSS-003", "RUN-LOSS-001")
def _drifts(rng: Rng) -> Curves:
    run = _untrained(rng, steps=int(rng.choice([200, 300])), ranks=8)
    rank, at = int(rng.integers(8)), _onset(rng, run)
    run.losses[rank, at:] *= 1 + rng.uniform(0.02, 0.3) * np.minimum(1, np.arange(run.steps - at) / 20) + noise(rng, run.steps - at, 0.01)  # fmt: skip
    return run


@_fault("one rank stops first", "RUN-HANG-002", "RUN-HANG-003", "RUN-END-001")
def _stops(rng: Rng) -> Curves:
    run = _any(rng, 8)
    run.finished = False
    guilty, last = int(rng.integers(8)), int(run.steps * rng.uniform(0.5, 0.8))
    for rank in range(8):
        run.ends[rank] = last + (0 if rank == guilty else int(rng.integers(4, 6)))
    return run


@_fault("ends early", "RUN-END-001", needs="total")
def _early(rng: Rng) -> Curves:
    run = _any(rng)
    run.finished = False
    run.ends[0] = int(run.steps * rng.uniform(0.3, 0.9))
    return run
