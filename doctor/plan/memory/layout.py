"""How a run spreads a model over devices, and in which types it computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

#: bytes of one element
BYTES = {
    "float32": 4, "fp32": 4, "float16": 2, "fp16": 2, "bfloat16": 2, "bf16": 2, "int8": 1, "float8": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """Parallel sizes, batch and precision of a run.

    `micro_batch` sequences of `sequence` tokens are in one forward pass; `micro_batches` of them flow through the
    pipeline (or are accumulated) before one update."""

    sequence: int
    micro_batch: int = 1
    micro_batches: int = 1
    accumulation: int = 1
    data_parallel: int = 1
    tensor_parallel: int = 1
    pipeline_stages: int = 1
    context_parallel: int = 1
    expert_parallel: int = 1
    sequence_parallel: bool = False
    #: chunks of layers a stage holds (1: not interleaved)
    interleave: int = 1
    #: extra layers of each stage over an even split, as MindFormers' offset
    offset: tuple[int, ...] = ()
    compute_bytes: int = 2
    parameter_bytes: int = 4
    #: "adamw": two moments; "sgd": none; "momentum": one
    optimizer: str = "adamw"
    optimizer_bytes: int = 4
    #: optimizer states (and, in MindFormers, FP32 parameters) are split over data parallel ranks
    shard_optimizer: bool = False
    #: most ranks one shard group has; None: all of data parallel
    shard_limit: Optional[int] = None
    shard_gradients: bool = False
    offload_optimizer: bool = False
    #: share of all parameters that is trained (1: full, less with LoRA)
    trained_parameters: Optional[int] = None
    flash_attention: bool = True
    #: none, full or select
    recompute: str = "none"
    #: layers that are recomputed when not all are
    recomputed_layers: Optional[int] = None
    #: fused (Ascend's operators) or unfused (each step of the formula keeps its tensors)
    profile: str = "fused"

    @property
    def devices(self) -> int:
        return self.data_parallel * self.tensor_parallel * self.pipeline_stages * self.context_parallel

    @property
    def global_batch(self) -> int:
        """Sequences per update: per-device batch x data-parallel ranks x accumulation (or micro batches)."""
        return self.micro_batch * self.data_parallel * max(self.accumulation, self.micro_batches)

    @property
    def shard(self) -> int:
        """Ranks over which optimizer states are split."""
        if not self.shard_optimizer:
            return 1
        return min(self.data_parallel, self.shard_limit or self.data_parallel)

    def stage_layers(self, layers: int) -> list[int]:
        """Layers of each stage: an even split, the remainder by `offset`, else to the first stages."""
        stages = self.pipeline_stages
        even, rest = divmod(layers, stages)
        if len(self.offset) == stages and sum(self.offset) == layers - even * stages:
            return [even + extra for extra in self.offset]
        return [even + (1 if stage < rest else 0) for stage in range(stages)]

    def in_flight(self, stage: int) -> float:
        """Micro batches whose activations `stage` (from 0) holds at its fullest under 1F1B; interleaving adds
        a share of (p - 1) / (p v) (Narayanan et al. 2021)."""
        stages = self.pipeline_stages
        if stages == 1:
            return 1.0
        held = float(min(stages - stage, self.micro_batches))
        if self.interleave > 1:
            held *= 1 + (stages - 1) / (stages * self.interleave)
        return held
