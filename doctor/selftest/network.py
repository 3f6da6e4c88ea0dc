"""What a small real training is made of: the text, a network of one layer (about a millisecond a step), the optimizer.

All of it is numpy, so that a fault can be planted where it happens in the field: in the data, the rate, the weights,
the moments, the scale, the clock. What comes out is what training made of it.
"""

from __future__ import annotations

import math
import re
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Optional, Protocol

import numpy as np

Array = Any
Weights = dict[str, Array]
#: gradients that do not fit into FP16 after scaling
_FP16 = 65504.0


@dataclass(frozen=True)
class Sizes:
    vocab: int = 128
    width: int = 32
    length: int = 24
    batch: int = 8


class Network(Protocol):
    sizes: Sizes

    def initial(self, seed: int) -> Weights: ...

    def gradients(self, weights: Weights, ids: Array, labels: Array) -> tuple[float, Weights]:
        """Mean cross entropy in nats over the labels that are not negative, and its gradients. `ids` and `labels` are
        int32 (batch, length); labels are the next tokens."""


class NumpyNetwork:
    """Embedding and positions, causal attention of one head, a GELU layer, both added to their input, and the head."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.mask = np.triu(np.full((sizes.length, sizes.length), -1e9, np.float32), 1)

    def initial(self, seed: int) -> Weights:
        rng = np.random.default_rng([seed, 11])
        v, d, s = self.sizes.vocab, self.sizes.width, self.sizes.length

        def normal(deviation: float, *shape: int) -> Array:
            return rng.normal(0, deviation, shape).astype(np.float32)

        return {
            "embed": normal(0.3, v, d),
            "place": normal(0.1, s, d),
            "query": normal(d**-0.5, d, d),
            "key": normal(d**-0.5, d, d),
            "value": normal(0.5 * d**-0.5, d, d),
            "up": normal(d**-0.5, d, 4 * d),
            "down": normal(0.25 * d**-0.5, 4 * d, d),
            "head": normal(0.1 * d**-0.5, d, v),
        }

    def gradients(self, weights: Weights, ids: Array, labels: Array) -> tuple[float, Weights]:
        w = weights
        x = w["embed"][ids] + w["place"]
        q, k, v = x @ w["query"], x @ w["key"], x @ w["value"]
        scale = x.shape[-1] ** -0.5
        attended = _softmax(q @ k.transpose(0, 2, 1) * scale + self.mask)
        h = x + attended @ v
        u = h @ w["up"]
        gate = 1 / (1 + np.exp(-1.702 * u))
        y = h + (u * gate) @ w["down"]
        p = _softmax(y @ w["head"])
        learned = (labels >= 0).astype(np.float32)
        count = max(1.0, float(learned.sum()))
        at = np.maximum(labels, 0)[..., None]
        picked = np.take_along_axis(p, at, -1)[..., 0]
        loss = float((-np.log(np.maximum(picked, 1e-30)) * learned).sum() / count)
        if np.isnan(p).any():
            loss = math.nan
        dz = p
        np.put_along_axis(dz, at, picked[..., None] - 1, -1)
        dz *= (learned / count)[..., None]
        g: Weights = {"head": _outer(y, dz)}
        dy = dz @ w["head"].T
        g["down"] = _outer(u * gate, dy)
        da = dy @ w["down"].T
        du = da * (gate + 1.702 * u * gate * (1 - gate))
        g["up"] = _outer(h, du)
        dh = dy + du @ w["up"].T
        dv = attended.transpose(0, 2, 1) @ dh
        dp = dh @ v.transpose(0, 2, 1)
        ds = attended * (dp - (dp * attended).sum(-1, keepdims=True)) * scale
        dq, dk = ds @ k, ds.transpose(0, 2, 1) @ q
        g["query"], g["key"], g["value"] = _outer(x, dq), _outer(x, dk), _outer(x, dv)
        dx = dh + dq @ w["query"].T + dk @ w["key"].T + dv @ w["value"].T
        embed = np.zeros_like(w["embed"])
        np.add.at(embed, ids.reshape(-1), dx.reshape(-1, dx.shape[-1]))
        g["embed"], g["place"] = embed, dx.sum(0)
        return loss, g


def _softmax(z: Array) -> Array:
    z = np.exp(z - z.max(-1, keepdims=True))
    return z / z.sum(-1, keepdims=True)


def _outer(rows: Array, gradients: Array) -> Array:
    return rows.reshape(-1, rows.shape[-1]).T @ gradients.reshape(-1, gradients.shape[-1])


@dataclass
class AdamW:
    """Loshchilov & Hutter's, with global clipping. `weights` may be changed from outside at any time."""

    weights: Weights
    beta1: float = 0.9
    beta2: float = 0.95
    decay: float = 0.1
    updates: int = 0
    first: Weights = field(default_factory=dict)
    second: Weights = field(default_factory=dict)

    def forget(self) -> None:
        """Loses its state, as a resumption without optimizer does."""
        self.updates, self.first, self.second = 0, {}, {}

    def step(self, gradients: Weights, lr: float, shrink: float, still: tuple[str, ...] = ()) -> None:
        self.updates += 1
        one, two = 1 - self.beta1**self.updates, 1 - self.beta2**self.updates
        for name, gradient in gradients.items():
            if any(name.endswith(end) for end in still):
                continue
            g = gradient * np.float32(shrink)
            m = self.first[name] = self.beta1 * self.first.get(name, 0.0) + (1 - self.beta1) * g
            v = self.second[name] = self.beta2 * self.second.get(name, 0.0) + (1 - self.beta2) * g * g
            w = self.weights[name]
            decay = self.decay if w.ndim > 1 else 0.0
            self.weights[name] = w - np.float32(lr) * ((m / one) / (np.sqrt(v / two) + 1e-8) + decay * w)


def norm_of(gradients: Weights) -> float:
    with np.errstate(over="ignore"):
        return math.sqrt(sum(float((g.astype(np.float64) ** 2).sum()) for g in gradients.values()))


def overflows(gradients: Weights, scale: float) -> bool:
    """Whether a scaled gradient leaves the range of FP16."""
    largest = max(float(np.abs(g).max()) for g in gradients.values())
    return not largest * scale <= _FP16


class Corpus(Protocol):
    def batches(self, sizes: Sizes, seed: int) -> Iterator[tuple[Array, Array]]: ...


@dataclass(frozen=True)
class TextCorpus:
    """Source text of Python's own library: characters, or words, as `vocab` tokens; the rarest share the last one.
    `first` and `share` say which part of it is read; `length` tokens are all there is when given."""

    vocab: int
    first: float = 0.0
    share: float = 1.0
    length: Optional[int] = None

    def tokens(self) -> Array:
        everything = _tokens(self.vocab)
        begin = int(self.first * len(everything))
        count = self.length or int(self.share * len(everything))
        return everything[begin : begin + count]

    def batches(self, sizes: Sizes, seed: int) -> Iterator[tuple[Array, Array]]:
        tokens, rng = self.tokens(), np.random.default_rng([seed, 23])
        while True:
            at = rng.integers(0, len(tokens) - sizes.length - 1, sizes.batch)[:, None] + np.arange(sizes.length + 1)
            rows = tokens[at]
            yield rows[:, :-1], rows[:, 1:]


def _text(folder: Path) -> str:
    """Python sources of a folder and its parts; an interpreter may come without those of its library."""
    files = sorted(folder.glob("*.py"))[:160] or sorted(folder.glob("*/*.py"))[:160]
    return "".join(path.read_text(encoding="utf-8", errors="replace") for path in files)


@lru_cache(maxsize=4)
def _tokens(vocab: int) -> Array:
    text = _text(Path(sysconfig.get_paths()["stdlib"])) or _text(Path(__file__).parents[1])
    parts: Any = text if vocab <= 256 else re.findall(r"\w+|[^\w\s]|\s+", text)
    counts: dict[str, int] = {}
    for part in parts:
        counts[part] = counts.get(part, 0) + 1
    ranked = sorted(counts, key=lambda part: (-counts[part], part))[: vocab - 1]
    numbers = {part: number for number, part in enumerate(ranked)}
    return np.array([numbers.get(part, vocab - 1) for part in parts], np.int32)


@dataclass(frozen=True)
class ChainCorpus:
    """Tokens of a random Markov chain of `vocab` states, as people make them up for a smoke test."""

    vocab: int
    seed: int
    sharpness: float = 1.0

    def batches(self, sizes: Sizes, seed: int) -> Iterator[tuple[Array, Array]]:
        rng = np.random.default_rng([self.seed, 31])
        table = np.cumsum(rng.dirichlet(np.full(self.vocab, 0.08 * self.sharpness), self.vocab), 1)
        draws = np.random.default_rng([seed, 37])
        while True:
            rows = np.empty((sizes.batch, sizes.length + 1), np.int32)
            rows[:, 0] = draws.integers(0, self.vocab, sizes.batch)
            for at in range(sizes.length):
                wanted = draws.random(sizes.batch)[:, None]
                rows[:, at + 1] = np.minimum((table[rows[:, at]] < wanted).sum(1), self.vocab - 1)
            yield rows[:, :-1], rows[:, 1:]
