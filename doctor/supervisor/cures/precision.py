"""Cures of number types: the loss scale, the type of computing and that of the weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from doctor.finding import Finding, Text
from doctor.supervisor.cures.remedy import NEWEST, START, Remedy
from doctor.trainer.arguments import LossScale
from doctor.trainer.config import RunConfig

#: what says that gradients are too small for FP16
_LOST_GRADIENTS = ("CFG-PRC-004", "RUN-MON-001")


def adaptive_scale(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    """FP16 with a scale that is fixed, or whose overflow is not dropped."""
    scale = config.args.loss_scale
    if scale is None or config.args.dtype != "float16" or (scale.dynamic and scale.drop_overflow):
        return None
    where = f"training_args.{config.spelled('loss_scale')}"
    if isinstance(config.said("loss_scale"), Mapping):
        edits: dict[str, Any] = {f"{where}.type": "dynamic"}
        if not scale.drop_overflow:
            edits[f"{where}.drop_overflow_update"] = True
        if scale.value > LossScale.value or finding.rule in _LOST_GRADIENTS:
            # From where it overflowed it would take a dropped step for each halving, from where nothing is left of a
            # gradient many steps for each doubling.
            edits[_start_of_scale(config)] = int(LossScale.value)
    else:
        edits = {where: "dynamic"}
    return Remedy(
        Text(
            f"Let the loss scale adapt instead of keeping it at {scale.value:g}: an overflow then halves it and drops the step.",
            f"loss scale 不再固定为 {scale.value:g}，改为动态：溢出时减半并跳过该步。",
        ),
        edits,
        safe=True,
    )


def _start_of_scale(config: RunConfig) -> str:
    """The key of the loss scale's first value, where the loss scale is a mapping."""
    start = "init_loss_scale" if "init_loss_scale" in config.said("loss_scale") else "loss_scale_value"
    return f"training_args.{config.spelled('loss_scale')}.{start}"


def higher_start(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    """FP16 with a scale that adapts, but begins where gradients are lost below the type."""
    scale = config.args.loss_scale
    if scale is None or config.args.dtype != "float16" or not scale.dynamic or scale.value >= LossScale.value:
        return None
    return Remedy(
        Text(
            f"Begin with a loss scale of {LossScale.value:g} instead of {scale.value:g}: below it FP16 has lost gradients.",
            f"loss scale 初始值由 {scale.value:g} 改为 {LossScale.value:g}：现值下 FP16 梯度下溢为 0。",
        ),
        {_start_of_scale(config): int(LossScale.value)},
        safe=True,
    )


def full_precision(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    if config.args.dtype != "float16":
        return None
    return Remedy(
        Text(
            "Compute in FP32: FP16 overflows although the loss scale adapts.",
            "改用 FP32 计算：loss scale 已是动态，FP16 仍溢出。",
        ),
        {"training_args.mixed_precision": "O0", "training_args.loss_scale": None},
        safe=True,
    )


def master_weights(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    """Weights kept in half lose every update that is smaller than a step of the type."""
    if config.args.mixed_precision != "O3":
        return None
    return Remedy(
        Text(
            "Keep the weights in FP32 (O2): in half a small update is rounded away.",
            "权重改用 FP32 保存（O2）：半精度权重会把很小的更新舍掉。",
        ),
        {f"training_args.{config.spelled('mixed_precision')}": "O2"},
        safe=True,
        back=START,
    )


def no_bfloat16(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    """The device has none, as the trainer said."""
    if config.args.dtype != "bfloat16":
        return None
    edits: dict[str, Any] = {f"training_args.{config.spelled('mixed_precision')}": "O0"}
    if config.said("compute_dtype") is not None:
        edits["training_args.compute_dtype"] = "float32"
    return Remedy(
        Text(
            "Compute in FP32: this device has no bfloat16.",
            "改用 FP32 计算：该设备不支持 bfloat16。",
        ),
        edits,
        safe=True,
        back=NEWEST,
    )
