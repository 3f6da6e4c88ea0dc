"""The smoke test: a config made small goes the whole way, from data to a resumed run, and each stage is a row."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import yaml

from doctor.finding import Text
from doctor.trainer.config import RunConfig
from doctor.trainer.runfolder import RunFolder
from doctor.trainer.shrink import shrink

STEPS, SAVED = 6, 3
#: seconds for one of the two runs
PATIENCE = 180.0


@dataclass(frozen=True)
class Row:
    """One stage: passed, failed or not tried, and what was seen."""

    stage: str
    state: str
    detail: Text

    def to_dict(self, lang: str) -> dict[str, Any]:
        return {"stage": self.stage, "state": self.state, "detail": self.detail.pick(lang)}


@dataclass(frozen=True)
class _Run:
    code: int
    error: str
    rows: list[dict[str, Any]]
    folder: RunFolder


def smoke(config: RunConfig) -> Iterator[Row]:
    """The rows, one after the other as they are known. A failed one is the last. Leaves nothing behind."""
    shrunk = shrink(config, STEPS, SAVED)
    small = shrunk.config
    model = small.model
    yield Row(
        "shrink",
        "passed",
        Text(
            f"{model.family}: {model.num_hidden_layers} layers, width {model.hidden_size}, heads "
            f"{model.num_attention_heads}/{model.kv_heads}, vocabulary {model.vocab_size}, length {small.length}, batch "
            f"{small.args.per_device_train_batch_size} x {small.args.gradient_accumulation_steps}",
            f"{model.family}：{model.num_hidden_layers} 层，宽 {model.hidden_size}，头 "
            f"{model.num_attention_heads}/{model.kv_heads}，词表 {model.vocab_size}，长度 {small.length}，batch "
            f"{small.args.per_device_train_batch_size} x {small.args.gradient_accumulation_steps}",
        ),
    )
    for note in shrunk.untried:
        yield Row("not tried", "skipped", note)
    with tempfile.TemporaryDirectory(prefix="doctor-smoke-") as root:
        yield from _stages(small, Path(root))


def _stages(small: RunConfig, root: Path) -> Iterator[Row]:
    path = root / "smoke.yaml"
    path.write_text(yaml.safe_dump(small.effective(), sort_keys=False, allow_unicode=True), encoding="utf-8")
    begun = time.perf_counter()
    whole = _train(path, root / "whole", None)
    failed = _failure(whole, STEPS)
    if failed is not None:
        yield Row("train", "failed", failed)
        return
    seconds = time.perf_counter() - begun
    losses = [float(row["loss"]) for row in whole.rows]
    yield Row("train", "passed", _trained(losses, seconds))
    saved = whole.folder.checkpoints / f"step-{SAVED}"
    if not (saved / "state.json").exists():
        yield Row("save", "failed", Text(f"no checkpoint of step {SAVED}", f"没有第 {SAVED} 步的检查点"))
        return
    size = sum(item.stat().st_size for item in saved.iterdir())
    yield Row("save", "passed", Text(f"step {SAVED}, {size / 1e6:.1f} MB", f"第 {SAVED} 步，{size / 1e6:.1f} MB"))
    again = _train(path, root / "again", saved)
    failed = _failure(again, STEPS - SAVED)
    if failed is not None:
        yield Row("resume", "failed", failed)
        return
    resumed = [float(row["loss"]) for row in again.rows]
    if resumed != losses[SAVED:]:
        words = f"{resumed} instead of {losses[SAVED:]}"
        yield Row("resume", "failed", Text(f"other losses: {words}", f"损失不一致：{words}"))
        return
    yield Row(
        "resume",
        "passed",
        Text(
            f"steps {SAVED + 1} to {STEPS} give the very losses of the unbroken run",
            f"第 {SAVED + 1} 到 {STEPS} 步的损失与未中断的训练完全一致",
        ),
    )


def _trained(losses: list[float], seconds: float) -> Text:
    return Text(
        f"{len(losses)} steps in {seconds:.0f} s, loss {losses[0]:.3f} -> {losses[-1]:.3f}",
        f"{len(losses)} 步用时 {seconds:.0f} 秒，损失 {losses[0]:.3f} -> {losses[-1]:.3f}",
    )


def _train(config: Path, root: Path, resume: Optional[Path]) -> _Run:
    command = [sys.executable, "-m", "doctor.trainer", str(config), "--output-dir", str(root)]
    if resume is not None:
        command += ["--resume", str(resume)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return _Run(1, f"no end after {PATIENCE:.0f} s", [], RunFolder(root))
    folder = RunFolder(root)
    rows: list[dict[str, Any]] = []
    if folder.metrics().exists():
        lines = folder.metrics().read_text(encoding="utf-8").splitlines()
        rows = [row for line in lines if not (row := json.loads(line)).get("evaluation")]
    return _Run(done.returncode, done.stderr.strip().removeprefix("doctor: "), rows, folder)


def _failure(run: _Run, steps: int) -> Optional[Text]:
    """What went wrong, or None."""
    if run.code:
        words = run.error.splitlines()[-1] if run.error else f"exit code {run.code}"
        return Text(words, words)
    if len(run.rows) != steps:
        return Text(f"{len(run.rows)} of {steps} steps", f"只完成 {len(run.rows)}/{steps} 步")
    bad = [row for row in run.rows if isinstance(row["loss"], str) or not math.isfinite(row["loss"])]
    if bad:
        step, loss = bad[0]["global_step"], bad[0]["loss"]
        return Text(f"the loss is {loss} at step {step}", f"第 {step} 步损失为 {loss}")
    if all(row["overflow"] for row in run.rows):
        return Text("every step overflows: nothing is learned", "每一步都溢出：没有学到任何东西")
    return None
