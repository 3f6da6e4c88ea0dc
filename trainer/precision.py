"""Which type each part of a step is computed in: the levels O0 to O3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mindspore as ms

from doctor.errors import UsageError
from doctor.finding import Text
from doctor.trainer.arguments import TrainingArguments

_TYPES = {"float32": ms.float32, "float16": ms.float16, "bfloat16": ms.bfloat16}


@dataclass(frozen=True)
class Precision:
    """Types of a step. O1 multiplies matrices in half and keeps the rest; O2 carries activations in half too and
    leaves norms, softmax and loss in FP32 over FP32 master weights; O3 stores the weights in half too and keeps FP32
    only for the statistics of norms (the slope of 1/sqrt(x) at 4e-4 is 6e4, the end of FP16) and for the loss.
    """

    level: str = "O0"
    matmul: Any = ms.float32
    stream: Any = ms.float32
    norm: Any = ms.float32
    softmax: Any = ms.float32
    weights: Any = ms.float32

    @classmethod
    def of(cls, args: TrainingArguments, device: str) -> Precision:
        """Raises UsageError for a type the device cannot multiply in."""
        if args.dtype == "bfloat16" and device == "CPU":
            raise UsageError(
                Text(
                    "bfloat16: MindSpore's CPU back end has no MatMul or Softmax for it.",
                    "bfloat16：MindSpore 的 CPU 后端没有对应的 MatMul、Softmax 算子。",
                ),
                Text(
                    "Use mixed_precision: O0 (FP32), or fp16 with a dynamic loss scale, on this machine.",
                    "本机请用 mixed_precision: O0（FP32），或 fp16 加动态 loss scale。",
                ),
                "CFG-PRC-002",
            )
        half = _TYPES[args.dtype]
        full = ms.float32
        level = args.mixed_precision
        if level == "O0":
            return cls(level, half, half, full, full, full)
        if level == "O1":
            return cls(level, matmul=half)
        if level == "O2":
            return cls(level, matmul=half, stream=half)
        return cls(level, half, half, full, half, half)
