"""Short measured runs of a config with one setting changed at a time, at equal global batch.

Each dimension is tried from the best so far; a change is kept when it gains more than `GAIN` in tokens/s, and does so
again when both are run a second time in turn. What changes the arithmetic (precision) is measured too, but kept only
when asked for. The fastest step counts, not the mean: on a machine with other work a step can only be slowed down.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Optional

import yaml

from doctor.supervisor.edits import batch_key, edited
from doctor.supervisor.trial import TrialFailed, trial
from doctor.trainer import runtime
from doctor.trainer.arguments import TrainingArguments
from doctor.trainer.config import RunConfig

#: less than this share is noise on a shared machine
GAIN = 0.03
#: steps at the start that hold compilation and warm-up
WARM = 2


@dataclass(frozen=True)
class Measured:
    """The runs of one config. Times and tokens/s are those of the fastest step after `WARM`, `data_time_ms` is a median;
    memory is the largest seen, of the device where it can be asked, else of the process (RSS). `error` is why there is
    nothing to show."""

    change: str
    config: RunConfig
    step_time_ms: Optional[float] = None
    data_time_ms: Optional[float] = None
    tokens_per_s: Optional[float] = None
    memory_mb: Optional[float] = None
    loss: Optional[float] = None
    error: Optional[str] = None
    #: kept as the start of the following changes
    kept: bool = False

    def faster_than(self, other: Measured) -> bool:
        return (self.tokens_per_s or 0.0) > (other.tokens_per_s or 0.0) * (1 + GAIN)

    def joined(self, again: Measured) -> Measured:
        """With a second run of the same config: the faster step, the larger memory."""
        if self.tokens_per_s is None or again.tokens_per_s is None:
            return again if self.tokens_per_s is not None else self
        faster = self if self.tokens_per_s >= again.tokens_per_s else again
        return replace(faster, kept=self.kept, memory_mb=max(self.memory_mb or 0.0, again.memory_mb or 0.0))

    def row(self, start: Optional[Measured]) -> dict[str, Any]:
        args = self.config.args
        row: dict[str, Any] = {
            "change": self.change,
            "per_device_train_batch_size": args.per_device_train_batch_size,
            "gradient_accumulation_steps": args.gradient_accumulation_steps,
            "recompute": args.recompute if not isinstance(args.recompute, tuple) else list(args.recompute),
            "mixed_precision": args.mixed_precision,
            "num_parallel_workers": self.config.dataset.num_parallel_workers,
            "memory_mb": self.memory_mb,
            "step_time_ms": self.step_time_ms,
            "data_time_ms": self.data_time_ms,
            "tokens_per_s": self.tokens_per_s,
            "kept": self.kept,
        }
        if start is not None and start.tokens_per_s and self.tokens_per_s:
            row["against_start"] = round(self.tokens_per_s / start.tokens_per_s - 1, 4)
        if self.error is not None:
            row["error"] = self.error
        return row


def tune(config: RunConfig, steps: int, precision: bool) -> Iterator[Measured]:
    """The start, then each variant as it is measured. The last one that is `kept` (or the start) is the best."""
    with tempfile.TemporaryDirectory(prefix="doctor-tune-") as name:
        root = Path(name)
        best = replace(_measure(config, "start", steps, root), kept=True)
        yield best
        if best.error is not None:
            return
        seen = [_key(best.config)]
        for change, settings, numeric in _dimensions(best.config):
            tried = _apply(best.config, settings)
            if tried is None or _key(tried) in seen:
                continue
            seen.append(_key(tried))
            found = _measure(tried, change, steps, root)
            if found.faster_than(best) and (precision or not numeric):
                best = best.joined(_measure(best.config, best.change, steps, root))
                found = found.joined(_measure(tried, change, steps, root))
                if found.faster_than(best):
                    found = replace(found, kept=True)
                    best = found
            yield found


def tuned_text(start: RunConfig, best: RunConfig) -> str:
    """The config that was given, comments and all, with the settings of the best one; one that is not ours is written anew."""
    if start.text is None:
        return yaml.safe_dump(best.effective(), sort_keys=False, allow_unicode=True)
    wanted = {
        batch_key(start): (
            start.args.per_device_train_batch_size,
            best.args.per_device_train_batch_size,
        ),
        "train_dataset.num_parallel_workers": (
            start.dataset.num_parallel_workers,
            best.dataset.num_parallel_workers,
        ),
    }
    for name in ("gradient_accumulation_steps", "recompute", "mixed_precision", "compute_dtype"):
        wanted[f"training_args.{start.spelled(name)}"] = (getattr(start.args, name), getattr(best.args, name))
    edits = {key: new for key, (old, new) in wanted.items() if old != new}
    if "mixed_precision" in {key.rsplit(".", 1)[-1] for key in edits} and start.said("loss_scale") is not None:
        edits[f"training_args.{start.spelled('loss_scale')}"] = None
    return edited(start, edits)[1]


def _key(config: RunConfig) -> dict[str, Any]:
    """What two configs that run alike have in common."""
    return config.effective()


def _dimensions(config: RunConfig) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """Name of a change, settings relative to whatever is best then, and whether it changes the arithmetic."""
    yield "larger batch", {"batch": 2}, False
    yield "larger batch again", {"batch": 2}, False
    yield "smaller batch", {"batch": -2}, False
    yield "recompute off" if config.args.recompute else "recompute on", {"recompute": not config.args.recompute}, False
    if config.dataset.data_loader.type == "MindDataset":
        yield f"workers {runtime.cores()}", {"workers": runtime.cores()}, False
    for level in ("O0", "O2"):
        if level != config.args.mixed_precision:
            yield f"precision {level}", {"mixed_precision": level}, True


def _apply(config: RunConfig, settings: Mapping[str, Any]) -> Optional[RunConfig]:
    """The config with a change, or None where there is nothing to change or the global batch would not stay the same."""
    args = config.args
    if "batch" in settings:
        changed = _rebatched(args, settings["batch"])
        if changed is None:
            return None
        dataset = replace(config.dataset, batch_size=None)
        return replace(config, args=changed, dataset=dataset)
    if "recompute" in settings:
        return replace(config, args=replace(args, recompute=settings["recompute"]))
    if "workers" in settings:
        if config.dataset.num_parallel_workers == settings["workers"]:
            return None
        return replace(config, dataset=replace(config.dataset, num_parallel_workers=settings["workers"]))
    level = settings["mixed_precision"]
    return replace(config, args=replace(args, mixed_precision=level, compute_dtype=None, loss_scale=None))


def _rebatched(args: TrainingArguments, factor: int) -> Optional[TrainingArguments]:
    batch, accumulation = args.per_device_train_batch_size, args.gradient_accumulation_steps
    if factor > 0:
        if accumulation % factor:
            return None
        batch, accumulation = batch * factor, accumulation // factor
    else:
        if batch % -factor:
            return None
        batch, accumulation = batch // -factor, accumulation * -factor
    return replace(args, per_device_train_batch_size=batch, gradient_accumulation_steps=accumulation)


def _measure(config: RunConfig, change: str, steps: int, root: Path) -> Measured:
    """Trains `steps` steps in a process of its own, without checkpoints, and reads its step records."""
    args = replace(config.args, max_steps=steps, warmup_steps=0, warmup_ratio=0.0)
    try:
        rows = trial(replace(config, args=args), root)[WARM:]
    except TrialFailed as failure:
        return Measured(change, config, error=str(failure))
    return Measured(
        change,
        config,
        step_time_ms=round(min(row["step_time_ms"] for row in rows), 1),
        data_time_ms=round(statistics.median(row["data_time_ms"] for row in rows), 2),
        tokens_per_s=round(max(row["tokens_per_s"] for row in rows), 1),
        memory_mb=round(max(row["memory_mb"] for row in rows), 1),
        loss=float(rows[-1]["loss"]),
    )
