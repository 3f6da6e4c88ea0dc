"""`SummaryCollector`: scalars of a run as TensorBoard event files."""

from __future__ import annotations

from typing import Any, Optional

from doctor.errors import UsageError
from doctor.finding import Text
from doctor.trainer.callbacks import Callback
from doctor.trainer.stepline import StepRecord


class SummaryCollector(Callback):
    """Writes loss, learning rate, gradient norm, loss scale, times, tokens/s and memory every `collect_freq` steps to
    `summary_dir`, for ``tensorboard --logdir``. `collect_graph` is accepted for scripts that pass it; a graph of
    MindSpore is not something TensorBoard can show, so none is written.

    Raises UsageError when tensorboardX is not installed or `collect_freq` is below 1.
    """

    def __init__(self, summary_dir: str, collect_freq: int = 1, collect_graph: bool = False) -> None:
        if collect_freq < 1:
            raise UsageError(
                Text(f"collect_freq {collect_freq}: must be 1 or more.", f"collect_freq {collect_freq}：应不小于 1。")
            )
        try:
            import tensorboardX
        except ImportError:
            raise UsageError(
                Text("SummaryCollector needs tensorboardX.", "SummaryCollector 需要 tensorboardX。"),
                Text("pip install tensorboardX", "pip install tensorboardX"),
            ) from None
        self.summary_dir, self.collect_freq = summary_dir, collect_freq
        self._module: Any = tensorboardX
        self._writer: Optional[Any] = None

    def begin(self, total_steps: int) -> None:
        self._writer = self._module.SummaryWriter(self.summary_dir)

    def step(self, record: StepRecord) -> None:
        if record.global_step % self.collect_freq:
            return
        scalars = {
            "train/loss": record.loss,
            "train/learning_rate": record.lr,
            "train/grad_norm": record.grad_norm,
            "train/loss_scale": record.loss_scale,
            "speed/step_time_ms": record.step_time_ms,
            "speed/data_time_ms": record.data_time_ms,
            "speed/tokens_per_s": record.tokens_per_s,
            "memory/mb": record.memory_mb,
        }
        for name, value in scalars.items():
            if value is not None:
                self._add(name, value, record.global_step)

    def evaluated(self, step: int, loss: float) -> None:
        self._add("eval/loss", loss, step)

    def end(self, step: int) -> None:
        if self._writer is not None:
            self._writer.close()

    def _add(self, name: str, value: float, step: int) -> None:
        if self._writer is not None:
            self._writer.add_scalar(name, value, step)
