"""Makes the runs of `doctor.selftest.runs`: trains the network and plants the fault."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Optional

import numpy as np

from doctor.selftest.faults import KINDS
from doctor.selftest.network import AdamW, Network, Sizes, Weights, norm_of, overflows
from doctor.selftest.runs import Run, Step
from doctor.selftest.steplog import Row, write

#: milliseconds of the first step relative to the others: it compiles
_COMPILE = 40.0


def rate(run: Run, step: int) -> float:
    """The scheduled rate of a step that counts from 0."""
    if step < run.warmup:
        return run.lr * (step + 1) / run.warmup
    done = (step - run.warmup) / max(1, run.steps - run.warmup)
    if run.schedule == "cosine":
        return run.lr * (0.05 + 0.475 * (1 + math.cos(math.pi * done)))
    if run.schedule == "linear":
        return run.lr * max(0.0, 1 - done)
    if run.schedule == "wsd":
        return run.lr if done < 0.8 else run.lr * max(0.02, 1 - (done - 0.8) / 0.2)
    if run.schedule == "steps":
        return run.lr * (1.0 if done < 0.5 else 0.3 if done < 0.8 else 0.1)
    if run.schedule == "restarts":
        return run.lr * (0.02 + 0.49 * (1 + math.cos(math.pi * (2 * done % 1))))
    return run.lr


def train(run: Run, network: Network) -> list[list[Row]]:
    """The step records of each rank, in the order in which they are printed."""
    with np.errstate(all="ignore"):  # some faults are about exactly that
        return _Training(run, network).rows()


class _Training:
    def __init__(self, run: Run, network: Network) -> None:
        self.run, self.network = run, network
        self.kind = KINDS.get(run.fault)
        start = network.initial(run.seed)
        self.optimizers = [AdamW({name: item.copy() for name, item in start.items()}) for _ in range(run.ranks)]
        self.batches = [run.corpus.batches(run.sizes, run.seed * 8 + rank) for rank in range(run.ranks)]
        self.clock = np.random.default_rng([run.seed, 41])
        self.scale, self.calm = run.scaler, 0
        #: all ranks print the loss over the whole batch, or each that of its own
        self.shared_loss = bool(run.seed % 2)
        self.memory: list[Row] = [{} for _ in range(run.ranks)]
        self.resumed = False
        self.kept: dict[int, tuple[Weights, Weights, Weights, int]] = {}
        for _ in range(run.pretrained):
            self._learn()

    def _learn(self) -> None:
        """An update before the run begins."""
        ids, labels = next(self.batches[0])
        _, gradients = self.network.gradients(self.optimizers[0].weights, ids, labels)
        self.optimizers[0].step(gradients, 3e-3, min(1.0, 1 / norm_of(gradients)))
        for other in self.optimizers[1:]:
            other.weights = {name: item.copy() for name, item in self.optimizers[0].weights.items()}

    def rows(self) -> list[list[Row]]:
        run = self.run
        found: list[list[Row]] = [[] for _ in range(run.ranks)]
        if run.pretrained:
            for optimizer in self.optimizers:
                optimizer.forget()
        for number in self._numbers():
            for rank, row in enumerate(self._step(number)):
                if (number + 1) % run.log_every == 0:
                    found[rank].append(row)
        return found

    def _numbers(self) -> Iterator[int]:
        run = self.run
        for number in range(run.steps):
            if number == run.resume_at:
                self.resumed = True
                if run.fault == "":
                    self._restore(run.resume_from)
                yield from range(run.resume_from, run.resume_at)
            if number == run.resume_from:
                self._keep(number)
            yield number

    def _keep(self, number: int) -> None:
        one = self.optimizers[0]
        copies = tuple(
            {name: np.copy(item) for name, item in part.items()} for part in (one.weights, one.first, one.second)
        )
        self.kept[number] = (*copies, one.updates)  # type: ignore[assignment]

    def _restore(self, number: int) -> None:
        one = self.optimizers[0]
        one.weights, one.first, one.second, one.updates = self.kept[number]

    def _step(self, number: int) -> list[Row]:
        run = self.run
        parts = [self._forward(number, rank) for rank in range(run.ranks)]
        losses = [loss for loss, _, _ in parts]
        mean = (
            {name: sum(part[1][name] for part in parts) / len(parts) for name in parts[0][1]}
            if run.ranks > 1
            else parts[0][1]
        )
        ms = run.step_ms * float(np.exp(self.clock.normal(0, run.jitter)))
        if self.clock.random() < 0.01:
            ms *= 2.5
        if number == 0:
            ms += run.step_ms * _COMPILE
        if run.evaluate_every and number and number % run.evaluate_every == 0:
            ms += 6 * run.step_ms
        rows = []
        used, overflow = self.scale, False
        for rank, (_, _, step) in enumerate(parts):
            gradients = (
                {name: item * np.float32(step.factor) for name, item in mean.items()} if step.factor != 1 else mean
            )
            norm = norm_of(gradients)
            overflow = overflows(gradients, self.scale) if self.scale is not None else False
            if not overflow:
                shrink = min(1.0, step.clip / (norm + 1e-6)) if step.clip else 1.0
                self.optimizers[rank].step(gradients, step.lr, shrink, step.still)
            shown = losses[rank] if not self.shared_loss or run.fault == "rank-drifts" else sum(losses) / len(losses)
            wait = step.wait_ms if step.wait_ms is not None else 0.02 * ms
            rows.append(
                {
                    "step": number + 1,
                    "loss": step.shown if step.shown is not None else shown,
                    "lr": step.memory.get("shown_lr", step.lr),
                    "grad_norm": math.inf if overflow else norm,
                    "loss_scale": used,
                    "overflow": overflow,
                    "ms": ms * step.slower * (1 + 0.01 * rank) + (step.wait_ms or 0.0),
                    "wait": wait,
                }
            )
        self._scale(overflow)
        return rows

    def _scale(self, overflow: bool) -> None:
        if self.scale is None:
            return
        if overflow:
            self.scale, self.calm = max(1.0, self.scale / 2), 0
            return
        self.calm += 1
        if self.calm >= 200:
            self.scale, self.calm = self.scale * 2, 0

    def _age(self, number: int) -> int:
        """Steps since the fault began, which is with the first step after a resumption where it belongs to one."""
        run = self.run
        return number - (run.onset if run.resume_at is None else run.resume_from)

    def _forward(self, number: int, rank: int) -> tuple[float, Weights, Step]:
        run = self.run
        optimizer, memory = self.optimizers[rank], self.memory[rank]
        if self.kind is not None and number == max(4, run.onset // 8) and "early" not in memory:
            memory["early"] = {name: item.copy() for name, item in optimizer.weights.items()}
        total, step = 0.0, None
        gradients: Weights = {}
        for _ in range(run.accumulate):
            ids, labels = next(self.batches[rank])
            step = Step(
                run, number, rank, ids, labels, rate(run, number), optimizer, self._age(number), memory, run.clip
            )
            begun = number >= run.onset if run.resume_at is None else self.resumed
            if self.kind is not None and begun:
                self.kind.plant(step)
            loss, found = self.network.gradients(optimizer.weights, step.ids, step.labels)
            total += loss / run.accumulate
            gradients = {name: gradients.get(name, 0.0) + item / run.accumulate for name, item in found.items()}
        assert step is not None
        return total, gradients, step


class Networks:
    """One network for each size, made when it is first asked for."""

    def __init__(self, make: Callable[[Sizes], Network]) -> None:
        self._make = make
        self._known: dict[Sizes, Network] = {}

    def of(self, sizes: Sizes) -> Network:
        if sizes not in self._known:
            self._known[sizes] = self._make(sizes)
        return self._known[sizes]


def make(fresh: Callable[[], Run], networks: Networks, folder: Path) -> Optional[Run]:
    """Trains a run and writes its logs; None when its fault does not show however strong it is made."""
    for attempt in range(5):
        run = fresh()
        run.strength = 2.0**attempt
        ranks = train(run, networks.of(run.sizes))
        if _shows(run, ranks):
            write(run, ranks, folder)
            return run
    return None


def _shows(run: Run, ranks: list[list[Row]]) -> bool:
    kind = KINDS.get(run.fault)
    if kind is None or kind.shows is None:
        return True
    rank = run.seed % 4 if run.fault == "rank-drifts" else 0
    losses = np.array([row["loss"] for row in ranks[rank]])
    return kind.shows(losses[: run.onset], losses[run.onset :])
