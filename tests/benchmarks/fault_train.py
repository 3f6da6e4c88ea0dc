"""Makes the runs of `fault_kinds` and writes their logs, in the forms in which real ones come."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Optional

import numpy as np

from tests.benchmarks.fault_kinds import KINDS, Run, Step
from tests.benchmarks.fault_lab import AdamW, Network, Sizes, Weights, norm_of, overflows

Row = dict[str, Any]
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
        total, gradients, step = 0.0, {}, None
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


# logs

_HEAD = "2026-03-01 {clock} - mindformers/output/log[mindformers/core/callback/callback.py:{line}] - INFO - "


def write(run: Run, ranks: list[list[Row]], folder: Path) -> None:
    """The logs of a run below `folder`, one of each rank."""
    for rank, rows in enumerate(ranks):
        if run.style == "jsonl":
            place = folder / "metrics" / f"rank_{rank}.jsonl"
            lines = [json.dumps(_event(run, row, rank)) for row in rows]
        else:
            place = folder / f"rank_{rank}" / "info.log"
            lines = [*_before(run), *_text(run, rows), _HEAD.format(clock="23:59:59,000", line=700) + "Training Over!"]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if run.style == "jsonl":
        (folder / "config.yaml").write_text("".join(f"{key}: {value!r}\n" for key, value in run.echo.items()))
        (folder / "end.json").write_text('{"state": "ended", "exit_code": 0}\n')


def _before(run: Run) -> Iterator[str]:
    head = _HEAD.format(clock="10:00:00,000", line=12)
    if run.echo:
        yield head + f"training config: {run.echo!r}"
    if run.pretrained:
        yield head + "Start load checkpoint from ./weights/base.ckpt"
    yield head + "Start training..."


def _text(run: Run, rows: list[Row]) -> Iterator[str]:
    at = 0.0
    form: Callable[[Run, Row], str] = {"mf18": _mf18, "mf21": _mf21, "pynative": _pynative, "plain": _plain}[run.style]
    for row in rows:
        at += row["ms"] / 1000
        clock = time.strftime("%H:%M:%S", time.gmtime(36000 + at)) + f",{int(at * 1000) % 1000:03d}"
        head = "" if run.style == "plain" else _HEAD.format(clock=clock, line=523)
        yield head + form(run, row)
        if run.style == "mf18":
            yield head + f"  {100 * row['step'] / run.steps:4.1f}% |█████     | 6.2 samples/s/p  0:01:02 }}"
        if run.evaluate_every and row["step"] % run.evaluate_every == 0:
            yield (
                _HEAD.format(clock=clock, line=801)
                + f"Eval result: {{'PerplexityMetric': {{'loss': {row['loss'] + 0.1:.4f}}}}}"
            )


def _mf18(run: Run, row: Row) -> str:
    scale = "unavailable" if row["loss_scale"] is None else row["loss_scale"]
    return (
        f"{{ Epoch:[  1/  1], step:[{row['step']:5d}/{run.steps:5d}], loss: {row['loss']:5.3f}, per_step_time: {int(row['ms'])}ms, "
        f"lr: {np.float32(row['lr'])}, overflow cond: {row['overflow']}, loss_scale: {scale}, "
        f"global_norm: [{np.float32(row['grad_norm'])}], train_throughput_per_npu: 155.000T"
    )


def _mf21(run: Run, row: Row) -> str:
    scale = "unavailable" if row["loss_scale"] is None else row["loss_scale"]
    return (
        f"{{ Epoch:[  1/  1], step:[{row['step']:5d}/{run.steps:5d}], loss: {row['loss']:10.6f}, per_step_time: {int(row['ms']):5d}ms, "
        f"lr: {np.float32(row['lr']):.6e}, overflow cond: {row['overflow']}, loss_scale: {scale}, "
        f"global_norm: [{row['grad_norm']:.6f}], train_throughput_per_npu: 155.000T }}"
    )


def _pynative(run: Run, row: Row) -> str:
    return (
        f"{{ step:[{row['step']:5d}/{run.steps:5d}], loss: {row['loss']:10.6f}, per_step_time: {int(row['ms']):6d}ms, "
        f"lr: {row['lr']:.6e}, grad_norm: {row['grad_norm']:10.6f}, throughput:  31.72T }}"
    )


def _plain(run: Run, row: Row) -> str:
    return f"step: {row['step']}/{run.steps}, loss: {row['loss']:.4f}, lr: {row['lr']:.3e}, grad_norm: {row['grad_norm']:.4f}, step_time: {row['ms']:.1f} ms"


def _event(run: Run, row: Row, rank: int) -> Row:
    from doctor.finding import plain

    event: Row = {
        "event": "metric",
        "rank": rank,
        "step": row["step"],
        "global_step": row["step"],
        "steps": run.steps,
        "loss": plain(float(row["loss"])),
        "lr": row["lr"],
        "grad_norm": plain(float(row["grad_norm"])),
        "step_time_ms": round(row["ms"], 3),
        "data_time_ms": round(row["wait"], 3),
    }
    if row["loss_scale"] is not None:
        event |= {"loss_scale": row["loss_scale"], "overflow": row["overflow"]}
    return event


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
