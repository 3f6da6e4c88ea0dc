"""Short real trainings of a small language model, healthy and with a planted fault, from a seed.

A two-token context, one hidden layer, Adam, clipping, warm-up and a decay: small enough for a thousand runs a
minute, real enough that noise, descent and the answer to a fault are those of training rather than of a formula.
Each fault is planted where it happens in the field (in the data, the rate, the weights, the scaler), never in the
numbers that come out. `run` returns the step records that a log would hold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Optional

import numpy as np

Row = dict[str, object]


@dataclass(frozen=True)
class Setting:
    """One run. Sizes and schedule vary with the seed in `setting`, so that nothing is tuned to one curve."""

    seed: int = 0
    steps: int = 300
    vocab: int = 64
    batch: int = 64
    hidden: int = 48
    width: int = 24
    lr: float = 3e-3
    warmup: int = 20
    schedule: str = "cosine"
    clip: Optional[float] = 1.0
    fp16: bool = False
    scale: float = 65536.0
    fault: str = ""
    onset: int = 0
    #: milliseconds of a step, and its relative noise
    step_ms: float = 120.0
    jitter: float = 0.05


def setting(seed: int, **changes: object) -> Setting:
    """A healthy run whose sizes, rate, schedule and length come from the seed."""
    rng = np.random.default_rng(seed * 7919 + 13)
    steps = int(rng.choice([64, 96, 128, 200, 300, 500]))
    base = Setting(
        seed=seed,
        steps=steps,
        vocab=int(rng.choice([48, 64, 128, 256])),
        batch=int(rng.choice([32, 64, 128, 256])),
        hidden=int(rng.choice([32, 48, 64])),
        lr=float(rng.choice([5e-3, 1e-2, 2e-2])),
        warmup=int(rng.choice([0, 5, 10, max(5, steps // 20), max(5, steps // 10)])),
        schedule=str(rng.choice(["cosine", "linear", "constant", "wsd", "steps"])),
        clip=None if rng.random() < 0.2 else 1.0,
        fp16=bool(rng.random() < 0.35),
        scale=float(2.0 ** rng.integers(12, 20)),
        step_ms=float(rng.choice([90.0, 350.0, 1800.0, 3500.0])),
        jitter=float(rng.choice([0.01, 0.05, 0.15])),
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def rate(cfg: Setting, step: int) -> float:
    """The scheduled rate of a step that counts from 0."""
    if step < cfg.warmup:
        return cfg.lr * (step + 1) / cfg.warmup
    done = (step - cfg.warmup) / max(1, cfg.steps - cfg.warmup)
    if cfg.schedule == "cosine":
        return cfg.lr * (0.1 + 0.45 * (1 + math.cos(math.pi * done)))
    if cfg.schedule == "linear":
        return cfg.lr * max(0.0, 1 - done)
    if cfg.schedule == "wsd":
        return cfg.lr if done < 0.8 else cfg.lr * max(0.02, 1 - (done - 0.8) / 0.2)
    if cfg.schedule == "steps":
        return cfg.lr * (1.0 if done < 0.5 else 0.3 if done < 0.8 else 0.1)
    return cfg.lr


class Text:
    """A stream of tokens from a sparse Markov chain: learnable, with an entropy floor well above zero."""

    def __init__(self, vocab: int, seed: int) -> None:
        self.vocab = vocab
        rng = np.random.default_rng(seed)
        common = 1.0 / np.arange(1, vocab + 1) ** 1.1
        table = rng.dirichlet(6 * common[rng.permutation(vocab)] / common.sum() + 0.004, size=vocab)
        table = 0.95 * table + 0.05 / vocab
        self.cumulative = np.cumsum(table, axis=1)
        self.cumulative[:, -1] = 1.0

    def sample(self, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of context tokens, shape (count, 2), and the token that follows, shape (count,)."""
        first = rng.integers(0, self.vocab, count)
        second = self.follow(rng, first)
        return np.stack([first, second], axis=1), self.follow(rng, second)

    def follow(self, rng: np.random.Generator, tokens: np.ndarray) -> np.ndarray:
        draws = rng.random(len(tokens))[:, None]
        return np.argmax(self.cumulative[tokens] >= draws, axis=1)


@dataclass
class Model:
    """Embedding, one hidden layer, output; with its Adam moments."""

    cfg: Setting
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    first: dict[str, np.ndarray] = field(default_factory=dict)
    second: dict[str, np.ndarray] = field(default_factory=dict)
    updates: int = 0

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.cfg.seed + 1)
        c = self.cfg
        self.weights = {
            "embed": rng.normal(0, 0.3, (c.vocab, c.width)).astype(np.float32),
            "in": rng.normal(0, 1 / math.sqrt(2 * c.width), (2 * c.width, c.hidden)).astype(np.float32),
            "out": rng.normal(0, 0.1 / math.sqrt(c.hidden), (c.hidden, c.vocab)).astype(np.float32),
        }
        self.first = {name: np.zeros_like(value) for name, value in self.weights.items()}
        self.second = {name: np.zeros_like(value) for name, value in self.weights.items()}

    def loss(self, x: np.ndarray, y: np.ndarray, mask: float = 1.0) -> tuple[float, dict[str, np.ndarray]]:
        """Mean cross entropy in nats and its gradients; `mask` 0 drops every label."""
        w = self.weights
        hidden_in = w["embed"][x].reshape(len(x), -1)
        hidden = np.tanh(hidden_in @ w["in"])
        logits = hidden @ w["out"]
        logits = logits - logits.max(axis=1, keepdims=True)
        probability = np.exp(logits)
        probability /= probability.sum(axis=1, keepdims=True)
        rows = np.arange(len(y))
        loss = float(-np.log(np.maximum(probability[rows, y], 1e-30)).mean()) * mask
        if not np.isfinite(logits).all():
            loss = math.nan
        delta = probability
        delta[rows, y] -= 1
        delta *= mask / len(y)
        gradients = {"out": hidden.T @ delta}
        back = (delta @ w["out"].T) * (1 - hidden**2)
        gradients["in"] = hidden_in.T @ back
        embed = np.zeros_like(w["embed"])
        np.add.at(embed, x.reshape(-1), (back @ w["in"].T).reshape(-1, self.cfg.width))
        gradients["embed"] = embed
        return loss, gradients

    def step(self, gradients: dict[str, np.ndarray], lr: float, beta2: float = 0.95) -> None:
        self.updates += 1
        for name, gradient in gradients.items():
            self.first[name] = 0.9 * self.first[name] + 0.1 * gradient
            self.second[name] = beta2 * self.second[name] + (1 - beta2) * gradient**2
            mean = self.first[name] / (1 - 0.9**self.updates)
            spread = self.second[name] / (1 - beta2**self.updates)
            self.weights[name] = self.weights[name] - lr * mean / (np.sqrt(spread) + 1e-8)


#: fault -> (what is done, the rules that may say it)
FAULTS: dict[str, tuple[str, ...]] = {
    "nan-weight": ("RUN-NAN-001",),
    "lr-runaway": ("RUN-LR-002", "RUN-LR-005", "RUN-LOSS-001", "RUN-LOSS-003"),
    "lr-times-12": ("RUN-LR-002",),
    "lr-zero": ("RUN-LR-001",),
    "lr-zero-from-start": ("RUN-LR-001", "RUN-LOSS-007"),
    "lr-restarted": ("RUN-LR-004",),
    "lr-too-high": ("RUN-LOSS-001", "RUN-LOSS-002", "RUN-LOSS-003", "RUN-LOSS-007", "RUN-LOSS-008", "RUN-GRAD-002"),
    "labels-shuffled": ("RUN-LOSS-001", "RUN-LOSS-002", "RUN-LOSS-003"),
    "labels-random-from-start": ("RUN-LOSS-007",),
    "labels-not-shifted": ("RUN-LOSS-009",),
    "labels-masked": ("RUN-LOSS-005",),
    "labels-masked-from-start": ("RUN-LOSS-005",),
    "frozen": ("RUN-LOSS-007", "RUN-GRAD-001"),
    "same-batch": ("RUN-LOSS-009", "RUN-LOSS-006"),
    "memorise": ("RUN-LOSS-009",),
    "bad-batch": ("RUN-LOSS-002", "RUN-LOSS-001"),
    "bad-segment": ("RUN-LOSS-001", "RUN-LOSS-002", "RUN-LOSS-003"),
    "scale-collapse": ("RUN-OVF-001", "RUN-OVF-002"),
    "overflow-at-fixed-scale": ("RUN-OVF-001", "RUN-OVF-003"),
    "old-checkpoint": ("RUN-LOSS-001", "RUN-LOSS-002", "RUN-LOSS-003", "RUN-RES-001"),
    "lost-optimizer": ("RUN-LOSS-001", "RUN-LOSS-002", "RUN-LOSS-003", "RUN-RES-001", "RUN-GRAD-002"),
    "gradient-vanishes": ("RUN-GRAD-001",),
    "gradient-explodes": ("RUN-GRAD-002", "RUN-GRAD-003", "RUN-LOSS-001"),
    "clip-too-tight": ("RUN-GRAD-004",),
    "slow-divergence": ("RUN-LOSS-003", "RUN-LOSS-001", "RUN-LOSS-002"),
    "oscillation": ("RUN-LOSS-008", "RUN-LOSS-001", "RUN-LOSS-002", "RUN-LOSS-003"),
    "constant-loss": ("RUN-LOSS-006",),
    "step-time-drift": ("RUN-TIME-001",),
    "data-starvation": ("RUN-TIME-002", "RUN-TIME-001"),
}


def run(cfg: Setting) -> list[Row]:
    """The step records of one run: step, loss, lr, grad_norm, loss_scale, overflow, step_time_ms."""
    with np.errstate(over="ignore", invalid="ignore"):  # some faults are about exactly that
        return _run(cfg)


def _run(cfg: Setting) -> list[Row]:
    rng = np.random.default_rng(cfg.seed + 2)
    clock = np.random.default_rng(cfg.seed + 3)
    text, other = Text(cfg.vocab, cfg.seed + 4), Text(cfg.vocab, cfg.seed + 5)
    model, kept = Model(cfg), {}
    scale, calm = (cfg.scale, 0) if cfg.fp16 else (1.0, 0)
    onset, fault = cfg.onset, cfg.fault
    few = text.sample(rng, 40)
    same = text.sample(rng, cfg.batch)
    rows: list[Row] = []
    frozen_loss: Optional[float] = None
    for step in range(cfg.steps):
        on = bool(fault) and step >= onset
        lr = rate(cfg, step)
        x, y = text.sample(rng, cfg.batch)
        mask, factor, beta2 = 1.0, 1.0, 0.95
        if fault == "memorise":
            pick = rng.integers(0, len(few[1]), cfg.batch)
            x, y = few[0][pick], np.arange(len(few[1]))[pick] % cfg.vocab
        if on:
            if fault == "lr-runaway":
                lr = cfg.lr * 1.06 ** (step - onset)
            elif fault == "lr-times-12":
                lr *= 12
            elif fault in ("lr-zero", "lr-zero-from-start"):
                lr = 0.0
            elif fault == "lr-restarted":
                lr = rate(cfg, step - onset) if cfg.warmup else cfg.lr * min(1.0, (step - onset + 1) / 20)
            elif fault == "lr-too-high":
                lr *= 60
            elif fault in ("labels-shuffled", "labels-random-from-start"):
                y = rng.permutation(y) if fault == "labels-shuffled" else rng.integers(0, cfg.vocab, len(y))
            elif fault == "labels-not-shifted":
                y = x[:, 1]
            elif fault in ("labels-masked", "labels-masked-from-start"):
                mask = 0.0
            elif fault == "same-batch":
                x, y = same
            elif fault == "bad-batch" and step < onset + 3:
                y = (y + 17) % cfg.vocab
                lr *= 8
            elif fault == "bad-segment" and step < onset + 30:
                x, y = other.sample(rng, cfg.batch)
            elif fault == "nan-weight" and step == onset:
                model.weights["out"][0, 0] = math.nan
            elif fault == "old-checkpoint" and step == onset:
                model.weights = {name: value.copy() for name, value in kept.items()}
            elif fault == "lost-optimizer" and step < onset + 30:
                if step == onset:
                    for name in model.weights:
                        model.first[name][:], model.second[name][:] = 0, 0
                lr = cfg.lr * 12
            elif fault == "gradient-vanishes":
                factor = 1e-7
            elif fault == "gradient-explodes":
                factor = 1.6 ** (step - onset)
                model.weights = {name: value * 1.02 for name, value in model.weights.items()}
            elif fault == "slow-divergence":
                model.weights = {
                    name: value
                    + rng.normal(0, 0.02 * (step - onset) ** 0.5 * float(np.abs(value).mean()), value.shape).astype(
                        np.float32
                    )
                    for name, value in model.weights.items()
                }
            elif fault == "oscillation":
                flip = 1 if (step - onset) % 2 else -1
                model.weights["out"] = model.weights["out"] * (4.0 if flip > 0 else 0.25)
        if fault == "old-checkpoint" and step == max(1, onset // 6):
            kept = {name: value.copy() for name, value in model.weights.items()}
        loss, gradients = model.loss(x, y, mask)
        if on and fault in ("scale-collapse", "overflow-at-fixed-scale"):
            factor = 1.5 ** min(80, step - onset) if fault == "scale-collapse" else 1e9
        norm = math.sqrt(sum(float((g.astype(np.float64) ** 2).sum()) for g in gradients.values())) * factor
        largest = max(float(np.abs(g).max()) for g in gradients.values()) * factor
        overflow = (cfg.fp16 and largest * scale > 65504 / 4) or not math.isfinite(norm)
        used = scale
        if cfg.fp16:
            if overflow:
                if not (on and fault == "overflow-at-fixed-scale"):
                    scale, calm = scale / 2, 0
            else:
                calm += 1
                if calm >= 1000:
                    scale, calm = scale * 2, 0
        shown = math.inf if overflow and math.isfinite(norm) else norm
        if not overflow:
            limit = 1e-3 if fault == "clip-too-tight" else cfg.clip
            shrink = min(1.0, limit / (norm + 1e-6)) if limit else 1.0
            if fault != "frozen" and mask:
                scaled = {name: g * (factor * shrink) for name, g in gradients.items()}
                if fault == "gradient-vanishes" and on:
                    scaled = {name: g * 0 for name, g in scaled.items()}
                model.step(scaled, lr, beta2)
        if fault == "constant-loss" and on:
            frozen_loss = loss if frozen_loss is None else frozen_loss
            loss = frozen_loss
        ms = cfg.step_ms * float(np.exp(clock.normal(0, cfg.jitter)))
        data_ms = 0.02 * ms
        if step == 0:
            ms *= 60
        if on and fault == "step-time-drift":
            ms *= 1 + 0.06 * (step - onset)
        if on and fault == "data-starvation":
            data_ms = 1.6 * ms
            ms += data_ms
        rows.append(
            {
                "step": step + 1,
                "loss": loss,
                "lr": lr,
                "grad_norm": shown,
                "loss_scale": used,
                "overflow": overflow,
                "step_time_ms": ms,
                "data_time_ms": data_ms if fault == "data-starvation" else None,
            }
        )
    return rows
