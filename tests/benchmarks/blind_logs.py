"""Writes `blind_curves` as the logs of six programs: MindFormers in graph and PyNative mode, MindSpore's monitors, Hugging
Face dicts with a progress bar, Megatron's lines and the metric records of ``doctor train``."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.benchmarks.blind_curves import Curves

#: style -> what it prints besides step and loss
PRINTS: dict[str, frozenset[str]] = {
    "mf18": frozenset(("lr", "norm", "scale", "ms", "total", "lines", "rate")),
    "mf21": frozenset(("lr", "norm", "scale", "ms", "total", "lines", "rate")),
    "pynative": frozenset(("lr", "norm", "ms", "total", "lines", "rate")),
    "monitor": frozenset(("lines",)),
    "hf": frozenset(("lr", "norm", "total", "lines")),
    "megatron": frozenset(("lr", "norm", "scale", "ms", "total", "lines")),
    "jsonl": frozenset(("lr", "norm", "scale", "ms", "wait", "total")),
    "rate": frozenset(("lr", "throughput", "lines")),
}
STYLES = tuple(PRINTS)


class Step(NamedTuple):
    number: int
    loss: float
    lr: float
    norm: float
    scale: float
    overflow: bool
    ms: float
    wait: float
    work: float


def write(run: Curves, folder: Path) -> None:
    """One file for a single rank, a folder of ``worker_N.log`` (or metric files) for more."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(run.ranks):
        if run.style == "jsonl":
            place = folder / "metrics" / f"rank_{rank}.jsonl"
        elif run.ranks > 1:
            place = folder / "msrun_log" / f"worker_{rank}.log"
        else:
            place = folder / "train.log"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("\n".join(_lines(run, rank)) + "\n", encoding="utf-8")
    if run.style == "jsonl":
        (folder / "config.yaml").write_text("\n".join(run.before) + "\n")
        if run.finished:
            (folder / "end.json").write_text('{"state": "ended", "exit_code": 0}\n')


def _lines(run: Curves, rank: int) -> Iterator[str]:
    jsonl = run.style == "jsonl"
    at = 36000.0 + 0.01 * rank
    if not jsonl:
        for line in run.before:
            yield _head(at) + line
    form = FORMS[run.style]
    for index, second in _order(run, rank):
        step = _step(run, rank, index, second)
        at += step.ms / 1000
        if (index + 1) % run.log_every == 0:
            text = form(run, step, rank)
            yield text if run.style in ("jsonl", "monitor", "hf", "megatron") else _head(at) + text
        if not jsonl:
            for line in run.between.get(index, ()):
                yield _head(at) + line
    for line in run.last_lines.get(rank, ()):
        yield line
    if run.finished and not jsonl and rank not in run.ends:
        yield _head(at) + "Training Over!"


def _order(run: Curves, rank: int) -> Iterator[tuple[int, bool]]:
    end = run.ends.get(rank, run.steps - 1)
    for index in range(end + 1):
        if index in run.again:
            for earlier in range(run.again[index], index):
                yield earlier, True
        yield index, bool(run.again) and index >= min(run.again)


def _step(run: Curves, rank: int, index: int, second: bool) -> Step:
    def value(name: str, usual: float) -> float:
        return float(run.after_resume[name][index]) if second and name in run.after_resume else usual

    since, factor = run.slow.get(rank, (0, 1.0))
    slower = factor if index >= since else 1.0
    return Step(
        run.first + index,
        value("loss", float(run.losses[rank][index])),
        value("lr", float(run.lr[index])),
        value("norm", float(run.norm[index])),
        float(run.scale[index]),
        bool(run.overflow[index]),
        float(run.ms[index]) * (1 + 0.002 * rank) * slower,
        float(run.wait[index]),
        run.work.get(max((at for at in run.work if at <= index), default=-1), 1.0),
    )


def _head(at: float) -> str:
    clock = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(1_780_000_000 + at))
    return f"{clock},{int(at * 1000) % 1000:03d} - mindformers/output/log[mindformers/core/callback/callback.py:616] - INFO - "


def _mf(run: Curves, step: Step, digits: str) -> str:
    scale = f"{step.scale:.1f}" if run.fp16 or digits else "unavailable"
    per = run.steps_per_epoch or run.total
    epochs = max(1, math.ceil(run.total / per))
    epoch, within = 1 + (step.number - 1) // per, 1 + (step.number - 1) % per
    loss = f"{step.loss:10.6f}" if digits else f"{step.loss:5.3f}"
    norm = f"[{np.float32(step.norm)}]"
    return (
        f"{{ Epoch:[{epoch:3d}/{epochs:3d}], step:[{within:5d}/{per:5d}], loss: {loss}, per_step_time: {int(step.ms)}ms, "
        f"lr: {np.float32(step.lr)}, overflow cond: {step.overflow}, loss_scale: {scale}, global_norm: {norm}, "
        f"train_throughput_per_npu: {step.work * 2e5 / max(step.ms, 1):.3f}T"
    )


def _mf18(run: Curves, step: Step, rank: int) -> str:
    return _mf(run, step, "")


def _mf21(run: Curves, step: Step, rank: int) -> str:
    return _mf(run, step, "6")


def _pynative(run: Curves, step: Step, rank: int) -> str:
    return (
        f"{{ step:[{step.number:5d}/{run.total:5d}], consumed_samples: {step.number * 64}, global_batch_size: 64, "
        f"loss: {step.loss:10.6f}, per_step_time: {int(step.ms):6d}ms, lr: {step.lr:10.6e}, grad_norm: {step.norm:10.6f}, "
        f"throughput: {step.work * 2e5 / max(step.ms, 1):6.2f}T }}"
    )


def _monitor(run: Curves, step: Step, rank: int) -> str:
    per = run.steps_per_epoch or run.total
    epoch, within = 1 + (step.number - 1) // per, 1 + (step.number - 1) % per
    line = f"epoch: {epoch} step: {within}, loss is {np.float32(step.loss)}"
    if within == per:
        line += f"\nTrain epoch time: {step.ms * per:.3f} ms, per step time: {step.ms:.3f} ms"
    return line


def _hf(run: Curves, step: Step, rank: int) -> str:
    done = step.number - run.first + 1
    bar = f"{100 * done // run.total:3d}%|{'█' * (10 * done // run.total):10s}| {step.number}/{run.total} [{done // 60:02d}:{done % 60:02d}<10:00,  1.20s/it]"
    loss = "nan" if math.isnan(step.loss) else f"{step.loss:.4f}".rstrip("0")
    return f"\r{bar}\n{{'loss': {loss}, 'grad_norm': {step.norm!r}, 'learning_rate': {step.lr!r}, 'epoch': {done / run.total:.2f}}}"


def _megatron(run: Curves, step: Step, rank: int) -> str:
    skipped = int(step.overflow)
    return (
        f" [2026-05-28 20:26:{step.number % 60:02d}] iteration {step.number:8d}/{run.total:8d} | consumed samples: {step.number * 64:12d} |"
        f" elapsed time per iteration (ms): {step.ms:.1f} | learning rate: {step.lr:.6E} | global batch size: {64:5d} |"
        f" lm loss: {step.loss:.6E} | loss scale: {step.scale:.1f} | grad norm: {step.norm:.3f} |"
        f" number of skipped iterations: {skipped:3d} | number of nan iterations: {int(math.isnan(step.loss)):3d} |"
    )


def _rate(run: Curves, step: Step, rank: int) -> str:
    return f"step {step.number} | loss {step.loss:.4f} | lr {step.lr:.3e} | tokens/s {4096e3 / max(step.ms, 1):.1f}"


def _jsonl(run: Curves, step: Step, rank: int) -> str:
    from doctor.finding import plain

    row: dict[str, object] = {
        "event": "metric",
        "rank": rank,
        "step": step.number,
        "steps": run.total,
        "loss": plain(step.loss),
        "lr": step.lr,
        "grad_norm": plain(step.norm),
        "step_time_ms": round(step.ms, 2),
        "data_time_ms": round(step.wait, 2),
    }
    if run.fp16:
        row |= {"loss_scale": step.scale, "overflow": step.overflow}
    return json.dumps(row)


FORMS: dict[str, Callable[[Curves, Step, int], str]] = {
    "mf18": _mf18,
    "mf21": _mf21,
    "pynative": _pynative,
    "monitor": _monitor,
    "hf": _hf,
    "megatron": _megatron,
    "jsonl": _jsonl,
    "rate": _rate,
}
