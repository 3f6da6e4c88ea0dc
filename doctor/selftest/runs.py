"""The runs that faults are planted in, each drawn from a seed, and what a kind of fault is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Optional

import numpy as np

from doctor.selftest.network import AdamW, Array, ChainCorpus, Corpus, Sizes, TextCorpus


@dataclass
class Run:
    """Settings of one run and, while it is made, its state; a fault changes either. Rates are per update, times in ms."""

    seed: int
    rng: np.random.Generator
    sizes: Sizes
    corpus: Corpus
    steps: int
    lr: float
    warmup: int
    schedule: str
    clip: float
    accumulate: int
    scaler: Optional[float]
    step_ms: float
    jitter: float
    style: str
    ranks: int = 1
    fault: str = ""
    onset: int = 0
    severity: float = 0.0
    #: doubled until the fault shows in the losses (`Kind.shows`)
    strength: float = 1.0
    #: settings that the run echoes into its log before the first step
    echo: dict[str, object] = field(default_factory=dict)
    #: updates done before the first step, so that the run begins as a fine-tune does
    pretrained: int = 0
    evaluate_every: int = 0
    log_every: int = 1
    resume_at: Optional[int] = None
    #: step to which a resumption goes back
    resume_from: int = 0
    tags: tuple[str, ...] = ()


@dataclass
class Step:
    """One step as it is about to be made, of one rank; a fault's function changes it."""

    run: Run
    number: int
    rank: int
    ids: Array
    labels: Array
    lr: float
    optimizer: AdamW
    #: steps since the onset
    age: int
    memory: dict[str, Any]
    clip: float = 0.0
    factor: float = 1.0
    still: tuple[str, ...] = ()
    shown: Optional[float] = None
    shown_norm: Optional[float] = None
    slower: float = 1.0
    wait_ms: Optional[float] = None
    other: Optional[Callable[[], tuple[Array, Array]]] = None
    causal: bool = True


Plant = Callable[[Step], None]


@dataclass(frozen=True)
class Kind:
    name: str
    rules: tuple[str, ...]
    plant: Plant
    #: planted before the first step rather than within the run
    from_start: bool = False
    ranks: int = 1
    changes: Callable[[Run], None] = lambda run: None
    #: from the losses before and after the onset: whether there is anything to be seen
    shows: Optional[Callable[[Array, Array], bool]] = None
    #: known to be out of reach: nothing in the log tells it from a healthy run
    out_of_reach: bool = False


def healthy(seed: int) -> Run:
    """A run without a fault; sizes, data, schedule, precision and everything that may look odd come from the seed."""
    rng = np.random.default_rng([seed, 5])
    steps = int(rng.choice([50, 60, 80, 100, 120, 160, 200, 300]))
    vocab = int(rng.choice([64, 96, 96, 256]))
    sizes = Sizes(vocab, int(rng.choice([24, 32, 48])), int(rng.choice([16, 24, 32])), int(rng.choice([4, 8, 12])))
    corpus: Corpus = (
        ChainCorpus(vocab, seed, float(rng.choice([1.0, 3.0])))
        if rng.random() < 0.2 and vocab <= 96  # larger ones cannot be learnt in so few steps
        else TextCorpus(vocab, float(rng.uniform(0, 0.5)), float(rng.choice([0.05, 0.3, 0.5])))
    )
    run = Run(
        seed,
        rng,
        sizes,
        corpus,
        steps,
        lr=float(rng.choice([1e-3, 2e-3, 3e-3, 5e-3])),
        warmup=int(rng.choice([0, 5, 10, max(5, steps // 10)])),
        schedule=str(rng.choice(["cosine", "linear", "constant", "wsd", "steps", "restarts"])),
        clip=float(rng.choice([1.0, 1.0, 1.0, 0.5, 0.0])),
        accumulate=int(rng.choice([1, 1, 1, 1, 2])),
        scaler=float(2.0 ** rng.integers(10, 24)) if rng.random() < 0.35 else None,
        step_ms=float(rng.choice([45.0, 120.0, 350.0, 1800.0, 5200.0])),
        jitter=float(rng.choice([0.01, 0.03, 0.08, 0.15])),
        style=str(rng.choice(["mf18", "mf21", "pynative", "jsonl", "plain"])),
    )
    if rng.random() < 0.2 and isinstance(corpus, TextCorpus):
        run.pretrained = 200
    if rng.random() < 0.25:
        run.evaluate_every = max(10, steps // 5)
    if rng.random() < 0.15 and steps >= 100:
        run.resume_at, run.resume_from = int(0.6 * steps), int(0.5 * steps)
    if rng.random() < 0.1 and steps >= 300:
        run.log_every = 5
    run.echo = {"learning_rate": run.lr, "warmup_steps": run.warmup, "vocab_size": vocab}
    if run.clip:
        run.echo["max_grad_norm"] = run.clip
    if rng.random() < 0.3:
        run.echo = {}
    return run


def faulty(kind: Kind, seed: int) -> Run:
    """A run of the same sort with a fault, whose onset and severity come from the seed."""
    run = healthy(seed * 31 + 7)
    rng = np.random.default_rng([seed, 17])
    run.fault, run.severity = kind.name, float(rng.random())
    run.onset = 0 if kind.from_start else int(rng.uniform(0.35, 0.6) * run.steps)
    run.resume_at, run.log_every = None, 1
    run.ranks = kind.ranks
    if kind.ranks > 1:
        run.accumulate = 1
    if not kind.from_start and run.schedule in ("linear", "cosine", "restarts"):
        # By the end of a decay a fault of the weights has no time to show.
        run.schedule = "constant"
    kind.changes(run)
    return run
