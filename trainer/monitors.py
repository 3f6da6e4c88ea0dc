"""Invariants of training, looked at in every step: what goes wrong without a word is said where it begins.

A loss can fall while a layer stands still, a rate is not the scheduled one or a batch comes twice. Each step shows one
element of every gradient and weight (`probes`); AdamW is computed again for these alone, in FP64, from the settings of
the run and not from those of the step. What differs is said once, with the names. TrainCheck (OSDI 2025) finds such
errors by invariants learnt from sound runs; these are the ones that hold by definition.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

import numpy as np

from doctor.trainer.arguments import TrainingArguments
from doctor.trainer.data.batches import Batch
from doctor.trainer.schedule import Schedule

IGNORED = -100


@dataclass(frozen=True)
class Stored:
    """How exact a step can be that keeps the weights in a type: the relative step of the type, the share of an expected
    change and of the rate that may be amiss. The kernel takes gradients in that type too (`rounds` gives them): in FP16
    most of them lie where the type has only a few bits left, and Adam makes whole updates of what remains."""

    grain: float
    of_change: float
    of_rate: float
    rounds: Optional[Callable[[Any], Any]] = None


STORED = {
    "float32": Stored(1.2e-7, 2e-3, 1e-5),
    "float16": Stored(1e-3, 0.5, 0.02, lambda values: values.astype(np.float32).astype(np.float16).astype(np.float64)),
    "bfloat16": Stored(8e-3, 0.5, 0.02),
}
#: steps for which a gradient of FP16 is to be zero before that is said: a low loss scale loses small ones now and then
_FLAT_STEPS = 5
#: samples of an update that do not all lack labels by chance
_MANY = 4
#: names that are listed before the rest is only counted
_LISTED = 3


@dataclass(frozen=True)
class Seen:
    """What a step showed: squared norms of whole gradients, elements of gradients (both as they are, times the loss scale)
    and of the weights after the step. Vectors of as many as there are weights."""

    squares: Any
    gradients: Any
    weights: Any
    #: of each micro batch that was accumulated: elements of its gradients, and of the sum with them
    added: tuple[Any, ...] = ()


@dataclass
class Shadow:
    """AdamW (Loshchilov & Hutter 2019) of single elements, in FP64. `names`, `decayed` and the arrays go together."""

    names: tuple[str, ...]
    decayed: Any
    weights: Any
    first: Any
    second: Any

    def step(self, args: TrainingArguments, gradients: Any, rate: float, updates: int) -> Any:
        """The weights that ought to be there after update number `updates`, counted from 1."""
        self.first = args.adam_beta1 * self.first + (1 - args.adam_beta1) * gradients
        self.second = args.adam_beta2 * self.second + (1 - args.adam_beta2) * gradients**2
        mean = self.first / (1 - args.adam_beta1**updates)
        spread = np.sqrt(self.second / (1 - args.adam_beta2**updates)) + args.adam_epsilon
        decay = np.where(self.decayed, args.weight_decay, 0.0)
        return self.weights - rate * (mean / spread + decay * self.weights)


@dataclass
class Monitors:
    """Watches the steps of one run; `say` gets a kind and a sentence, each kind once."""

    args: TrainingArguments
    schedule: Schedule
    shadow: Shadow
    say: Callable[[str, str], None]
    stored: Stored = STORED["float32"]
    labels_are_next: bool = True
    _said: set[str] = field(default_factory=set)
    _last: tuple[int, int, int] = (-1, -1, 0)
    #: positions of a sample, and for how many steps each gradient has been zero
    _length: int = 0
    #: updates in a row whose data have no label anywhere
    _unlabelled: int = 0
    #: gradients that are not finite were applied: what they have made of the moments is not known
    _adrift: bool = False
    _zero: Any = 0

    def batches(self, taken: Sequence[Batch], per_epoch: int) -> None:
        """Before a step: the micro batches it is made of."""
        if len(taken) != self.args.gradient_accumulation_steps:
            self._tell(
                "accumulation",
                f"{len(taken)} micro batches instead of {self.args.gradient_accumulation_steps} make this update",
            )
        for batch in taken:
            self._length = batch.ids.shape[1]
            if self.labels_are_next:
                learned = batch.labels[:, :-1] != IGNORED
                if not np.array_equal(batch.labels[:, :-1][learned], batch.ids[:, 1:][learned]):
                    self._tell("labels", "labels of this batch are not the next tokens")
            epoch, index, digest = self._last
            now = zlib.crc32(batch.ids.tobytes())
            if digest == now and per_epoch > 1 and _distinct(batch.ids):
                self._tell("batch-repeated", "this batch holds the very tokens of the one before")
            elif (batch.epoch, batch.index) <= (epoch, index):
                self._tell("batch-order", f"batch {batch.index + 1} of epoch {batch.epoch + 1} comes a second time")
            self._last = (batch.epoch, batch.index, now)
        learned = any((batch.labels != IGNORED).any() for batch in taken)
        self._unlabelled = 0 if learned else self._unlabelled + 1
        if self._unlabelled > 1 or (not learned and sum(len(batch.ids) for batch in taken) >= _MANY):
            # Of a few samples all may be of prompt alone, once.
            self._tell("labels", "no position of the data of this update has a label: it learns nothing")

    def step(self, seen: Seen, rate: float, scale: float, updates: int, applied: bool, norm: float) -> None:
        """After a step; `updates` were done before it, `rate` and `norm` are those it reports."""
        expected_rate = self.schedule.at(updates)
        if rate != expected_rate:
            self._tell("rate", f"the rate is {rate:.6g}, the schedule has {expected_rate:.6g} for update {updates + 1}")
        self._accumulated(seen)
        total = float(np.sqrt(np.sum(seen.squares, dtype=np.float64))) / scale
        if np.isfinite(total):
            self._norm(total, norm)
            self._flat(seen.squares)
        before = self.shadow.weights
        gradients = seen.gradients.astype(np.float64) / scale
        expected = before
        finite = np.isfinite(total)
        # What the run is to do with gradients that are not finite is its setting; what it did shows in the weights.
        drops = self.args.loss_scale is not None and self.args.loss_scale.drop_overflow
        if finite:
            clip = self.args.max_grad_norm
            factor = clip / max(total, clip) if clip > 0 else 1.0
            clipped = gradients * factor
            rounded = self.stored.rounds(clipped) if self.stored.rounds is not None else clipped
            expected = self.shadow.step(self.args, rounded, expected_rate, updates + 1)
        after = seen.weights.astype(np.float64)
        self._adrift |= not finite and not drops
        if not self._adrift:
            self._moved(before, expected, after, expected_rate)
        self.shadow.weights = after

    def _accumulated(self, seen: Seen) -> None:
        """The gradient of the update is the sum of those of its micro batches, no fewer and no more."""
        wanted = self.args.gradient_accumulation_steps
        if wanted == 1:
            return
        if len(seen.added) != wanted:
            self._tell("accumulation", f"{len(seen.added)} micro batches were accumulated instead of {wanted}")
        total = np.zeros(len(self.shadow.names))
        size = np.zeros_like(total)
        for gradients, sums in seen.added:
            total, size = total + gradients, size + np.abs(gradients)
            wrong = np.flatnonzero(np.abs(sums - total) > 1e-4 * size + 1e-12)
            if len(wrong):
                self._tell(
                    "accumulation",
                    f"the gradients of {self._names(wrong)} are not the sum of those of the micro batches",
                )
                return

    def _norm(self, total: float, norm: float) -> None:
        if abs(total - norm) > 1e-3 * max(total, 1e-12):
            self._tell("norm", f"the gradient norm is given as {norm:.6g}; its parts come to {total:.6g}")

    def _flat(self, squares: Any) -> None:
        self._zero = np.where(squares == 0, self._zero + 1, 0)
        # All of them at once is no underflow of the small ones; without labels it is told as that.
        long = 1
        if squares.any():
            long = _FLAT_STEPS if self.args.dtype == "float16" else 1
        elif self._unlabelled:
            long = 2
        still = np.flatnonzero(self._zero >= long)
        still = still[[not self._idle(self.shadow.names[number]) for number in still]] if len(still) else still
        if len(still):
            self._tell("no-gradient", f"the gradient of {self._names(still)} is zero throughout: nothing trains it")

    def _idle(self, name: str) -> bool:
        """Whether softmax takes the gradient away by itself: it does not see what all keys have in common, nor queries
        and keys where there is one position."""
        return name.endswith("k_proj.bias") or (self._length == 1 and ("q_proj" in name or "k_proj" in name))

    def _moved(self, before: Any, expected: Any, after: Any, rate: float) -> None:
        change = np.abs(expected - before)
        size = np.maximum(np.abs(before), np.abs(expected))
        tolerance = self.stored.of_change * change + 4 * self.stored.grain * size + self.stored.of_rate * rate + 1e-12
        wrong = np.flatnonzero(~(np.abs(after - expected) <= tolerance))
        if not len(wrong):
            return
        still = wrong[after[wrong] == before[wrong]]
        if len(still):
            self._tell(
                "not-updated", f"{self._names(still)} did not move in this update, although the gradient is not zero"
            )
            return
        one = int(wrong[0])
        self._tell(
            "update",
            f"the update of {self._names(wrong)} is not what AdamW makes of its gradient with the settings of this run: "
            f"{self.shadow.names[one]} went from {before[one]:.6g} to {after[one]:.6g} instead of {expected[one]:.6g}",
        )

    def _names(self, numbers: Any) -> str:
        listed = ", ".join(self.shadow.names[int(number)] for number in numbers[:_LISTED])
        return listed if len(numbers) <= _LISTED else f"{listed} and {len(numbers) - _LISTED} more"

    def _tell(self, kind: str, words: str) -> None:
        if kind not in self._said:
            self._said.add(kind)
            self.say(kind, words)


def _distinct(ids: Any) -> bool:
    """Whether no two samples of a batch are alike: where some are, data repeat themselves, and batches may do so as well."""
    return bool(len(np.unique(ids, axis=0)) == len(ids) > 1)


def structure(network: Any, tell: Callable[[str, str], None]) -> None:
    """Before the first step: every weight is trained, there are as many as the config says, and the mask hides the future
    and nothing else."""
    everything = list(network.get_parameters())
    trained = {item.name for item in network.trainable_params()}
    frozen = [item.name for item in everything if item.name not in trained]
    if frozen:
        tell("frozen", f"{', '.join(frozen[:_LISTED])} ({len(frozen)} of {len(everything)} weights) are not trained")
    count = sum(int(item.size) for item in everything)
    if count != network.config.parameters:
        tied = network.config.tie_word_embeddings
        hint = (
            "; the output layer is to be the embedding itself"
            if tied and any("lm_head" in name for name in trained)
            else ""
        )
        tell("parameters", f"the model has {count} weights, its config asks for {network.config.parameters}{hint}")
    wrong = _mask(network)
    if wrong is not None:
        tell("mask", wrong)
    if _alike(network):
        tell("positions", "every position of the model is the same: the order of the tokens is lost")


def _alike(network: Any) -> bool:
    """Whether rotary angles, or the numbers of learnt positions, are those of one position throughout."""
    model, length = network.model, network.length
    if length == 1 or network.config.position == "alibi":
        return False
    table = model.positions if network.config.position == "learned" else model.k_sin
    rows = table.asnumpy().reshape(-1, length, 1 if network.config.position == "learned" else table.shape[-1])
    return bool((rows[:, :1] == rows).all())


def _mask(network: Any) -> Optional[str]:
    """What is wrong with what is added to the scores, or None. The fused kernel takes a fixed triangle instead."""
    mask = network.model.mask
    length = network.length
    values = mask.asnumpy()
    if values.dtype.kind != "f":
        return None
    values = values.astype(np.float32).reshape(-1, length, length)
    future = np.triu(np.ones((length, length), bool), 1)
    if length > 1 and values[:, future].max() > -1e4:
        return "the attention mask lets a position see what comes after it"
    if values[:, ~future].min() < -1e4:
        return "the attention mask hides what comes before a position"
    return None
