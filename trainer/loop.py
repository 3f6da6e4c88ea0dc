"""The loop: batches in, updates, one step record each, checkpoints, and an orderly end on a signal."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Optional

import numpy as np
import psutil

from doctor.errors import UsageError
from doctor.finding import Text
from doctor.trainer.callbacks import Callback
from doctor.trainer.checkpoint import Checkpoint
from doctor.trainer.cluster import ALONE, Cluster
from doctor.trainer.config import RunConfig
from doctor.trainer.data.batches import Batch, Batches
from doctor.trainer.evaluation import Evaluation
from doctor.trainer.models.decoder import IGNORED, CausalLM, LanguageModelLoss
from doctor.trainer.monitors import STORED, Monitors, structure
from doctor.trainer.progress import Mean, Progress
from doctor.trainer.runfolder import Journal, RunFolder
from doctor.trainer.saving import Saver
from doctor.trainer.scaler import LossScaler
from doctor.trainer.schedule import Schedule
from doctor.trainer.step import Stepper
from doctor.trainer.stepline import StepRecord
from doctor.trainer.stopping import DISCARD, Follow, Stopped, StopSignals, announce


class Loop:
    """One run from its present `Progress` to its last step."""

    def __init__(
        self,
        config: RunConfig,
        network: CausalLM,
        batches: Batches,
        folder: RunFolder,
        journal: Journal,
        cluster: Cluster = ALONE,
    ) -> None:
        self.config, self.args = config, config.args
        #: `batches` are those of all its workers
        self.cluster = cluster
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
                "DAT-ROW-001",
            )
        self.total = self._total_steps()
        warmup = self.args.warmup_steps or int(self.args.warmup_ratio * self.total)
        if warmup > self.total:
            raise UsageError(
                Text(
                    f"training_args.warmup_steps: {warmup} of a run of {self.total} steps: the rate never comes up.",
                    f"training_args.warmup_steps：{warmup} 步，而训练共 {self.total} 步：学习率升不到设定值。",
                ),
                Text("Warm up for a few per cent of the run.", "预热取总步数的百分之几。"),
                "CFG-LRS-002",
            )
        self.schedule = Schedule(
            self.args.lr_scheduler,
            self.args.learning_rate,
            min(self.args.lr_end, self.args.learning_rate),
            warmup,
            self.total,
        )
        self.scaler = LossScaler(self.args.loss_scale)
        self.stepper = Stepper(
            network, LanguageModelLoss(network), self.args, self.schedule, self.scaler.drops_overflow, cluster.shared
        )
        self.progress = Progress()
        self.saver = Saver(config, network, self.stepper.optimizer, folder, journal)
        self.evaluation: Optional[Evaluation] = None
        self.callbacks: tuple[Callback, ...] = ()
        self.monitors: Optional[Monitors] = None
        self._epoch, self._interval = Mean(), Mean()
        self._eval_loss: Optional[float] = None
        self._step_times: list[float] = []
        self._process = psutil.Process()
        self.peak_memory_mb = 0.0
        self.stop: StopSignals = Follow(folder.stop, lambda: self.progress.step) if not cluster.leads else StopSignals()

    def _total_steps(self) -> int:
        if self.args.max_steps is not None and self.args.max_steps > 0:
            return self.args.max_steps
        return max(1, round(self.args.num_train_epochs * self.steps_per_epoch))

    def run(self) -> None:
        """Trains to the last step. Raises Stopped, after saving, when SIGTERM or SIGINT came."""
        for callback in self.callbacks:
            callback.begin(self.total)
        self._watch()
        try:
            with self.stop.heard():
                stream = self.batches.start(self.progress.epoch, self.progress.batch)
                while self.progress.step < self.total:
                    announced = self._announced()
                    self._one(stream)
                    noted = self.stop.noted if announced is None else announced
                    if noted:
                        if noted != DISCARD:
                            self.save()
                        raise Stopped(noted)
                    self._after(self.progress.step)
        finally:
            for callback in self.callbacks:
                callback.end(self.progress.step)

    def _announced(self) -> Optional[int]:
        """Of rank 0 of several workers, before a step: the signal after which it is the last one, or 0. Else None."""
        if not (self.cluster.shared and self.cluster.leads):
            return None
        noted = self.stop.noted
        if noted:
            announce(self.folder.stop, self.progress.step + 1, noted)
        return noted

    def _watch(self) -> None:
        """Monitors of the steps from here on, with the weights and moments as they are now."""
        if not self.args.monitors:
            return
        structure(self.network, self._alarm)
        shadow = self.stepper.shadow()
        # Its own schedule: that of the stepper is one of the things watched.
        schedule = replace(self.schedule)
        known = self.config.dataset.shift_labels != "never"
        stored = STORED[self.args.dtype if self.args.mixed_precision == "O3" else "float32"]
        self.monitors = Monitors(self.args, schedule, shadow, self._alarm, stored, known)

    def _alarm(self, kind: str, words: str) -> None:
        self.journal.say(f"monitor {kind}: step {self.progress.step + 1}: {words}", "ERROR")

    def _one(self, stream: Iterator[Batch]) -> None:
        begun = time.perf_counter()
        if self.progress.step + 1 in self.args.skip_steps:
            left_out = self._take(stream)
            self.journal.say(
                f"skip_steps: the data of step {self.progress.step + 1} are left out "
                f"(epoch {left_out[0].epoch + 1}, batches {left_out[0].index + 1} to {left_out[-1].index + 1})"
            )
        taken = self._take(stream)
        learned = sum(int(np.count_nonzero(batch.labels != IGNORED)) for batch in taken)
        got = time.perf_counter()
        rate = self.schedule.at(self.progress.updates)
        outcome = self.stepper.run(
            [(self.cluster.share(batch.ids), self.cluster.share(batch.labels)) for batch in taken],
            1.0 / max(1, learned),
            self.scaler.value,
            self.progress.updates,
        )
        scale = self.scaler.value
        self.scaler.update(outcome.overflow)
        if self.monitors is not None and outcome.seen is not None:
            self.monitors.batches(taken, self.batches.per_epoch)
            updates = self.progress.updates
            self.monitors.step(outcome.seen, outcome.rate, scale, updates, outcome.applied, outcome.grad_norm)
        done = time.perf_counter()
        self.progress.step += 1
        self.progress.updates += int(outcome.applied)
        self._record(taken[-1].epoch, outcome, rate, (done - begun) * 1000, (got - begun) * 1000, taken)

    def _take(self, stream: Iterator[Batch]) -> list[Batch]:
        """The micro batches of one update. What is left of an epoch and does not fill an update is passed over, so that
        the next update starts with the next epoch."""
        taken = [next(stream) for _ in range(self.args.gradient_accumulation_steps)]
        self.progress.epoch, self.progress.batch = taken[-1].epoch, taken[-1].index + 1
        if self.batches.per_epoch - self.progress.batch < self.args.gradient_accumulation_steps:
            for _ in range(self.batches.per_epoch - self.progress.batch):
                next(stream)
            self.progress.batch = self.batches.per_epoch
        return taken

    def _record(
        self, epoch: int, outcome: Any, rate: float, step_ms: float, data_ms: float, taken: list[Batch]
    ) -> None:
        step_in_epoch = (self.progress.step - 1) % self.steps_per_epoch + 1
        if step_in_epoch == 1:
            self._epoch = Mean()
        self._epoch.add(outcome.loss)
        self._interval.add(outcome.loss)
        self._step_times.append(step_ms)
        if (self.progress.step % self.args.logging_steps) and self.progress.step != self.total:
            return
        samples = sum(len(batch.ids) for batch in taken)
        tokens = samples * self.network.length
        memory = self._process.memory_info().rss / 1e6
        self.peak_memory_mb = max(self.peak_memory_mb, memory)
        recent = self._step_times[1:][-20:] or self._step_times
        record = StepRecord(
            time=time.time(),
            epoch=epoch + 1,
            epochs=max(1, -(-self.total // self.steps_per_epoch)),
            step=step_in_epoch,
            steps=min(self.steps_per_epoch, self.total),
            global_step=self.progress.step,
            total_steps=self.total,
            loss=outcome.loss,
            mean_loss=self._epoch.mean,
            lr=rate,
            grad_norm=outcome.grad_norm,
            overflow=outcome.overflow,
            step_time_ms=step_ms,
            data_time_ms=data_ms,
            samples=samples,
            tokens=tokens,
            flops=tokens * flops_per_token(self.network) / self.cluster.size,
            memory_mb=memory,
            eta_s=(self.total - self.progress.step) * float(np.mean(recent)) / 1000,
            loss_scale=self.scaler.value if self.args.loss_scale is not None else None,
            rank=self.cluster.rank,
        )
        self.journal.step(record)
        for callback in self.callbacks:
            callback.step(record)

    # ---- evaluation and checkpoints

    def _after(self, step: int) -> None:
        """What is due after a step: evaluation, then a checkpoint."""
        last = step == self.total
        if self.evaluation is not None and (last or (self.args.eval_steps and step % self.args.eval_steps == 0)):
            self._evaluate(step)
        if self.args.save_steps and (step % self.args.save_steps == 0 or last):
            self.save()

    def _evaluate(self, step: int) -> None:
        assert self.evaluation is not None
        begun = time.perf_counter()
        loss = self.evaluation.loss()
        self._eval_loss = loss
        seconds = time.perf_counter() - begun
        self.journal.evaluation(step, loss, seconds)
        for callback in self.callbacks:
            callback.evaluated(step, loss)

    def save(self) -> None:
        """Writes a checkpoint of now. Raises UsageError when the disk refuses."""
        step = self.progress.step
        self._note_best(step)
        best = self.progress.best_step if self.args.save_best else None
        if not self.cluster.leads:
            return  # rank 0 holds the same
        saved = self.saver.save(step, (step - 1) // self.steps_per_epoch + 1, self._state(), best)
        for callback in self.callbacks:
            callback.saved(step, saved.path)

    def _note_best(self, step: int) -> None:
        """The best checkpoint has the least loss: of the last evaluation, else the mean since the last checkpoint."""
        loss = self._eval_loss if self._eval_loss is not None else self._interval.mean
        self._interval = Mean()
        if math.isfinite(loss) and (self.progress.best_loss is None or loss < self.progress.best_loss):
            self.progress.best_loss, self.progress.best_step = loss, step

    def _state(self) -> dict[str, Any]:
        return {
            "progress": dict(vars(self.progress)),
            "scaler": self.scaler.state(),
            "schedule": {"total": self.total, "warmup": self.schedule.warmup, "kind": self.schedule.kind},
            "random": {"seed": self.args.seed, "epoch": self.progress.epoch},
            "epoch_loss": self._epoch.state(),
            "interval_loss": self._interval.state(),
            "global_batch": self.batches.batch_size * self.args.gradient_accumulation_steps,
            "batch": self.batches.batch_size,
        }

    def resume(self, item: Checkpoint) -> None:
        """Goes on from a checkpoint. Raises UsageError when it is of another model."""
        state = self.saver.restore(item)
        self.progress = Progress.of(state["progress"])
        self.scaler.load(state["scaler"])
        self._epoch, self._interval = Mean.of(state["epoch_loss"]), Mean.of(state["interval_loss"])
        before = state.get("batch", self.batches.batch_size)
        if before != self.batches.batch_size:
            # The position counts batches of the old size; samples seen stay seen.
            self.progress.batch = min(self.batches.per_epoch, self.progress.batch * before // self.batches.batch_size)
        self.journal.say(f"initial epoch: {self.progress.epoch}")
        self.journal.say(f"initial step: {self.progress.step}")


def flops_per_token(network: CausalLM) -> float:
    """6 a trained parameter, and 12 x layers x width x length for attention (Narayanan et al. 2021, without the causal half)."""
    config = network.config
    width = config.num_attention_heads * config.head
    return 6.0 * config.parameters + 12.0 * config.num_hidden_layers * width * network.length
