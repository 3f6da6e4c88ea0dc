"""Cures of what the machine cannot do: less memory for the same update, settings that need another device."""

from __future__ import annotations

from typing import Any, Optional

from doctor.finding import Finding, Text
from doctor.supervisor.cures.remedy import NEWEST, Cure, Remedy
from doctor.supervisor.edits import batch_key
from doctor.trainer.config import RunConfig


def smaller_batch(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    """Half the batch with twice the accumulation is the same update in half the activations."""
    args = config.args
    if args.per_device_train_batch_size % 2:
        return None
    half, twice = args.per_device_train_batch_size // 2, args.gradient_accumulation_steps * 2
    return Remedy(
        Text(
            f"Batch {half} with {twice} accumulation steps: the same global batch, half the activations.",
            f"batch {half}、累积 {twice} 步：全局 batch 不变，激活值减半。",
        ),
        {batch_key(config): half, "training_args.gradient_accumulation_steps": twice},
        safe=True,
        back=NEWEST,
    )


def recompute(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    if config.args.recompute is True:
        return None
    return Remedy(
        Text("Recompute the layers in the backward pass.", "在反向传播中重计算各层。"),
        {f"training_args.{config.spelled('recompute')}": True},
        safe=True,
        back=NEWEST,
    )


def turned_off(name: str, value: Any, en: str, zh: str) -> Cure:
    """A cure that takes back a setting which cannot be had here, and without which the training is the same."""

    def cure(config: RunConfig, finding: Finding) -> Optional[Remedy]:
        if getattr(config.args, name) == value:
            return None
        return Remedy(Text(en, zh), {f"training_args.{config.spelled(name)}": value}, safe=True, back=NEWEST)

    return cure
