"""The state of a run to and from checkpoints."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Optional

from mindspore import Parameter, Tensor

from doctor.errors import UsageError
from doctor.finding import Text
from doctor.trainer import checkpoint as checkpoints
from doctor.trainer.checkpoint import Checkpoint
from doctor.trainer.config import RunConfig
from doctor.trainer.models.decoder import CausalLM
from doctor.trainer.runfolder import Journal, RunFolder
from doctor.trainer.step import AdamW

#: of a model's config what does not change what its weights are
_FREE = ("initializer_range", "max_position_embeddings")


class Saver:
    """Saves and restores weights and optimizer; the rest of the state comes and goes as a dict."""

    def __init__(
        self, config: RunConfig, network: CausalLM, optimizer: AdamW, folder: RunFolder, journal: Journal
    ) -> None:
        self.config, self.network, self.optimizer = config, network, optimizer
        self.folder, self.journal = folder, journal

    def save(self, step: int, epoch: int, state: dict[str, Any], best: Optional[int]) -> Checkpoint:
        """Writes checkpoint `step` and removes those that are not kept. Raises UsageError when the disk refuses."""
        begun = time.perf_counter()
        args = self.config.args
        self.journal.say("......Saving ckpt......")
        weights = _values(self.network.trainable_params())
        states = _values((*self.optimizer.m, *self.optimizer.v))
        row = {**state, "model": self.config.model.effective()}
        try:
            saved = checkpoints.save(self.folder.checkpoints, step, weights, states, row, args.save_format)
            checkpoints.prune(self.folder.checkpoints, args.save_total_limit, best)
        except OSError as error:
            why = error.strerror or str(error)
            raise UsageError(
                Text(
                    f"{self.folder.checkpoints}: step {step} cannot be saved: {why}.",
                    f"{self.folder.checkpoints}：第 {step} 步无法保存：{why}。",
                ),
                Text(
                    "Free space, then: doctor train CONFIG --output-dir DIR --resume",
                    "请清理磁盘后执行：doctor train CONFIG --output-dir DIR --resume",
                ),
                "LOG-SYS-002",
            ) from None
        seconds = time.perf_counter() - begun
        self.journal.say(f"global_step: {step}")
        self.journal.say(f"Finish saving ckpt of epoch {epoch} step {step} using {seconds:.3f} seconds")
        if not saved.sound:
            self.journal.say(f"checkpoint step-{step}: weights or optimizer states are not finite", "WARNING")
        return saved

    def restore(self, item: Checkpoint) -> dict[str, Any]:
        """Fills network and optimizer; gives back the rest of the state. Raises UsageError for another model's."""
        self._same_model(item)
        weights, states = checkpoints.read_arrays(item)
        _fill(self.network.trainable_params(), weights, item)
        _fill((*self.optimizer.m, *self.optimizer.v), states, item)
        self.journal.say(f"Start load resume context from checkpoint {item.path}")
        return dict(item.state)

    def _same_model(self, item: Checkpoint) -> None:
        theirs, ours = dict(item.state.get("model", {})), self.config.model.effective()
        free = _FREE if ours["position"] != "learned" else _FREE[:1]
        differ = [key for key in ours if key not in free and theirs.get(key, ours[key]) != ours[key]]
        if differ:
            listed = ", ".join(f"{key} {theirs[key]} (config: {ours[key]})" for key in differ)
            raise UsageError(
                Text(
                    f"{item.path}: a checkpoint of another model: {listed}.",
                    f"{item.path}：检查点属于另一模型：{listed}。",
                ),
                Text("Use the config it was trained with.", "请使用训练该检查点时的配置。"),
                "WGT-SHP-001",
            )


def _values(parameters: Sequence[Parameter]) -> dict[str, Any]:
    return {item.name: item.asnumpy() for item in parameters}


def _fill(parameters: Sequence[Parameter], arrays: dict[str, Any], item: Checkpoint) -> None:
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
                "WGT-SHP-001",
            )
        parameter.set_data(Tensor(values, parameter.dtype))
