"""The loop: batches in, updates, one step record each, checkpoints, and an orderly end on a signal."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
import psutil
from mindspore import Tensor, nn

from doctor.errors import UsageError
from doctor.finding import Text, plain
from doctor.trainer import checkpoint as checkpoints
from doctor.trainer.config import RunConfig
from doctor.trainer.data.batches import Batch, Batches
from doctor.trainer.models.decoder import IGNORED, CausalLM, LanguageModelLoss
from doctor.trainer.runfolder import Journal, RunFolder
from doctor.trainer.scaler import LossScaler
from doctor.trainer.schedule import Schedule
from doctor.trainer.step import Stepper
from doctor.trainer.stepline import StepRecord

#: a supervisor's "stop now, save nothing": what would be saved is what it wants to get rid of
DISCARD = signal.SIGUSR1
_SIGNALS = (signal.SIGTERM, signal.SIGINT, DISCARD)


class Stopped(Exception):
    """A signal asked the run to end; the state is saved, except for `DISCARD`. `code` is 128 + its number."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.code = 128 + number


@dataclass
class Progress:
    """Where the run stands. `step` counts batches taken, `updates` those applied (an overflow step is not)."""

    step: int = 0
    updates: int = 0
    epoch: int = 0
    batch: int = 0
    best_loss: Optional[float] = None
    best_step: Optional[int] = None


class Loop:
    """One run from its present `Progress` to its last step."""

    def __init__(
        self, config: RunConfig, network: CausalLM, batches: Batches, folder: RunFolder, journal: Journal
    ) -> None:
        self.config, self.args = config, config.args
        self.network, self.batches = network, batches
        self.folder, self.journal = folder, journal
        self.steps_per_epoch = batches.per_epoch // self.args.gradient_accumulation_steps
        if self.steps_per_epoch == 0:
            raise UsageError(
                Text(
                    f"training_args.gradient_accumulation_steps: {self.args.gradient_accumulation_steps} batches do not "
                    f"fit into an epoch of {batches.per_epoch}.",
                    f"training_args.gradient_accumulation_steps：一个 epoch 只有 {batches.per_epoch} 个 batch，"
                    f"不足 {self.args.gradient_accumulation_steps} 次累积。",
                ),
                Text("Give more data, or accumulate less.", "请增加数据，或减少累积步数。"),
            )
        self.total = self._total_steps()
        warmup = self.args.warmup_steps or int(self.args.warmup_ratio * self.total)
        self.schedule = Schedule(
            self.args.lr_scheduler,
            self.args.learning_rate,
            min(self.args.lr_end, self.args.learning_rate),
            warmup,
            self.total,
        )
        self.scaler = LossScaler(self.args.loss_scale)
        self.stepper = Stepper(
            network, LanguageModelLoss(network), self.args, self.schedule, self.scaler.drops_overflow
        )
        self.progress = Progress()
        self._loss_sum, self._loss_count = 0.0, 0
        self._step_times: list[float] = []
        self._process = psutil.Process()
        self.peak_memory_mb = 0.0
        self._signal = 0
        #: process id of the supervisor, when there is one
        self.parent: Optional[int] = None

    def _total_steps(self) -> int:
        if self.args.max_steps is not None and self.args.max_steps > 0:
            return self.args.max_steps
        return max(1, round(self.args.num_train_epochs * self.steps_per_epoch))

    def run(self) -> None:
        """Trains to the last step. Raises Stopped after saving when SIGTERM or SIGINT came."""
        with self._signals():
            stream = self.batches.start(self.progress.epoch, self.progress.batch)
            while self.progress.step < self.total:
                self._one(stream)
                step = self.progress.step
                self._heed_parent()
                if self._signal:
                    if self._signal != DISCARD:
                        self.save()
                    raise Stopped(self._signal)
                if self.args.save_steps and (step % self.args.save_steps == 0 or step == self.total):
                    self.save()

    def _one(self, stream: Iterator[Batch]) -> None:
        begun = time.perf_counter()
        if self.progress.step + 1 in self.args.skip_steps:
            left_out = [next(stream) for _ in range(self.args.gradient_accumulation_steps)]
            self.journal.say(
                f"skip_steps: the data of step {self.progress.step + 1} are left out "
                f"(epoch {left_out[0].epoch + 1}, batches {left_out[0].index + 1} to {left_out[-1].index + 1})"
            )
        taken = [next(stream) for _ in range(self.args.gradient_accumulation_steps)]
        learned = sum(int(np.count_nonzero(batch.labels != IGNORED)) for batch in taken)
        got = time.perf_counter()
        scale = self.scaler.value
        rate = self.schedule.at(self.progress.updates)
        outcome = self.stepper.run(
            [(batch.ids, batch.labels) for batch in taken], 1.0 / max(1, learned), scale, self.progress.updates
        )
        self.scaler.update(outcome.overflow)
        done = time.perf_counter()
        last = taken[-1]
        self.progress.step += 1
        self.progress.updates += int(outcome.applied)
        self.progress.epoch, self.progress.batch = last.epoch, last.index + 1
        if self.batches.per_epoch - self.progress.batch < self.args.gradient_accumulation_steps:
            # What is left of the epoch does not fill an update: the next one starts with the next epoch.
            self._drain(stream)
        self._record(last.epoch, outcome, rate, (done - begun) * 1000, (got - begun) * 1000, taken)

    def _drain(self, stream: Iterator[Batch]) -> None:
        while self.progress.batch < self.batches.per_epoch:
            next(stream)
            self.progress.batch += 1

    def _record(
        self, epoch: int, outcome: Any, rate: float, step_ms: float, data_ms: float, taken: list[Batch]
    ) -> None:
        step_in_epoch = (self.progress.step - 1) % self.steps_per_epoch + 1
        if step_in_epoch == 1:
            self._loss_sum, self._loss_count = 0.0, 0
        self._loss_sum += outcome.loss
        self._loss_count += 1
        self._step_times.append(step_ms)
        if (self.progress.step % self.args.logging_steps) and self.progress.step != self.total:
            return
        samples = sum(len(batch.ids) for batch in taken)
        tokens = samples * self.network.length
        memory = self._process.memory_info().rss / 1e6
        self.peak_memory_mb = max(self.peak_memory_mb, memory)
        recent = self._step_times[1:][-20:] or self._step_times
        self.journal.step(
            StepRecord(
                time=time.time(),
                epoch=epoch + 1,
                epochs=max(1, -(-self.total // self.steps_per_epoch)),
                step=step_in_epoch,
                steps=min(self.steps_per_epoch, self.total),
                global_step=self.progress.step,
                total_steps=self.total,
                loss=outcome.loss,
                mean_loss=self._loss_sum / self._loss_count,
                lr=rate,
                grad_norm=outcome.grad_norm,
                overflow=outcome.overflow,
                step_time_ms=step_ms,
                data_time_ms=data_ms,
                samples=samples,
                tokens=tokens,
                flops=tokens * flops_per_token(self.network),
                memory_mb=memory,
                eta_s=(self.total - self.progress.step) * float(np.mean(recent)) / 1000,
                loss_scale=self.scaler.value if self.args.loss_scale is not None else None,
            )
        )

    # ---- checkpoints

    def save(self) -> None:
        """Writes a checkpoint of now. Raises UsageError when the disk refuses."""
        begun = time.perf_counter()
        step = self.progress.step
        self.journal.say("......Saving ckpt......")
        weights = {item.name: item.asnumpy() for item in self.network.trainable_params()}
        optimizer = self.stepper.optimizer
        states = {item.name: item.asnumpy() for item in (*optimizer.m, *optimizer.v)}
        try:
            checkpoints.save(self.folder.checkpoints, step, weights, states, self._state(), self.args.save_format)
            checkpoints.prune(self.folder.checkpoints, self.args.save_total_limit, self.progress.best_step)
        except OSError as error:
            raise UsageError(
                Text(
                    f"{self.folder.checkpoints}: step {step} cannot be saved: {error.strerror or error}.",
                    f"{self.folder.checkpoints}：第 {step} 步无法保存：{error.strerror or error}。",
                ),
                Text(
                    "Free space, then: doctor train CONFIG --resume", "请清理磁盘后执行：doctor train CONFIG --resume"
                ),
            ) from None
        seconds = time.perf_counter() - begun
        epoch = (step - 1) // self.steps_per_epoch + 1
        self.journal.say(f"global_step: {step}")
        self.journal.say(f"Finish saving ckpt of epoch {epoch} step {step} using {seconds:.3f} seconds")

    def _state(self) -> dict[str, Any]:
        return {
            "progress": dict(vars(self.progress)),
            "scaler": self.scaler.state(),
            "schedule": {"total": self.total, "warmup": self.schedule.warmup, "kind": self.schedule.kind},
            "random": {"seed": self.args.seed, "epoch": self.progress.epoch},
            "model": self.config.model.effective(),
            "epoch_loss": {"sum": plain(self._loss_sum), "count": self._loss_count},
            "global_batch": self.batches.batch_size * self.args.gradient_accumulation_steps,
        }

    def resume(self, item: checkpoints.Checkpoint) -> None:
        """Goes on from a checkpoint. Raises UsageError when it is of another model."""
        theirs, ours = dict(item.state.get("model", {})), self.config.model.effective()
        shaping = [key for key in ours if key not in {"initializer_range"} and theirs.get(key, ours[key]) != ours[key]]
        if shaping:
            listed = ", ".join(f"{key} {theirs[key]} (config: {ours[key]})" for key in shaping)
            raise UsageError(
                Text(
                    f"{item.path}: a checkpoint of another model: {listed}.",
                    f"{item.path}：检查点属于另一模型：{listed}。",
                ),
                Text("Use the config it was trained with.", "请使用训练该检查点时的配置。"),
            )
        weights, states = checkpoints.read_arrays(item)
        optimizer = self.stepper.optimizer
        _fill(self.network, weights, item)
        _fill_parameters((*optimizer.m, *optimizer.v), states, item)
        saved = dict(item.state["progress"])
        self.progress = Progress(**{key: saved[key] for key in vars(Progress())})
        self.scaler.load(item.state["scaler"])
        mean = item.state["epoch_loss"]
        self._loss_sum, self._loss_count = float(mean["sum"]), int(mean["count"])
        self.journal.say(f"Start load resume context from checkpoint {item.path}")
        self.journal.say(f"initial epoch: {self.progress.epoch}")
        self.journal.say(f"initial step: {self.progress.step}")

    def _heed_parent(self) -> None:
        """A child whose supervisor is gone saves and ends: nobody watches it any more, and the run may be resumed."""
        if self.parent is not None and os.getppid() != self.parent:
            self._signal = self._signal or signal.SIGTERM

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT end the run after the step in hand; a second one ends it at once."""

        def note(number: int, _frame: Any) -> None:
            if self._signal:
                signal.signal(number, signal.SIG_DFL)
                signal.raise_signal(number)
            self._signal = number

        try:
            before = {number: signal.signal(number, note) for number in _SIGNALS}
        except ValueError:
            # Not the main thread (a notebook's worker): signals stay the caller's.
            yield
            return
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def flops_per_token(network: CausalLM) -> float:
    """6 a trained parameter, and 12 x layers x width x length for attention (Narayanan et al. 2021, without the causal half)."""
    config = network.config
    width = config.num_attention_heads * config.head
    return 6.0 * config.parameters + 12.0 * config.num_hidden_layers * width * network.length


def _fill(network: nn.Cell, arrays: dict[str, Any], item: checkpoints.Checkpoint) -> None:
    _fill_parameters(network.trainable_params(), arrays, item)


def _fill_parameters(parameters: Any, arrays: dict[str, Any], item: checkpoints.Checkpoint) -> None:
    for parameter in parameters:
        values = arrays.get(parameter.name)
        if values is None or tuple(values.shape) != tuple(parameter.shape):
            shape = "missing" if values is None else f"of shape {tuple(values.shape)}"
            raise UsageError(
                Text(
                    f"{item.path}: {parameter.name} is {shape}, the model has {tuple(parameter.shape)}.",
                    f"{item.path}：{parameter.name} 与模型不符（{shape}，模型为 {tuple(parameter.shape)}）。",
                ),
                Text("Use the config it was trained with.", "请使用训练该检查点时的配置。"),
            )
        parameter.set_data(Tensor(values, parameter.dtype))
