"""Writes the logs of a training, in the forms in which real ones come."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from doctor.finding import plain
from doctor.selftest.runs import Run

Row = dict[str, Any]

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
