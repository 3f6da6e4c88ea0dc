"""Peak device memory of each pipeline stage, and whether it fits.

States follow Rajbhandari et al. 2020 (ZeRO): in mixed precision a parameter costs its copy in the compute type,
a gradient of that type, and FP32 master weight and two Adam moments, which optimizer sharding divides. In FP32
there is no second copy: both come to 16 bytes with AdamW.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Optional

from doctor.plan.memory import activations
from doctor.plan.memory.layout import Layout
from doctor.plan.memory.shape import ModelShape

#: one HCCL communicator's buffers, the default of HCCL_BUFFSIZE
COMMUNICATOR = 200 << 20
#: what driver and framework hold of a 64 GB card before the first tensor (about 3 to 4 GB in npu-smi)
RESERVE = 3584 << 20
#: of the two device measurements known (52 and 38 GB, LLaMA-2-7B on eight cards), the estimate is off by 4 % at
#: most; doubled, because two points are few. Activations alone, where they can be counted, agree to 0.2 %.
ERROR_BAR = 0.08

_MOMENTS = {"adamw": 2, "momentum": 1, "sgd": 0}


@dataclass(frozen=True)
class Stage:
    """Bytes on one rank of pipeline stage `stage`."""

    stage: int
    layers: int
    parameters: int
    weights: int
    gradients: int
    optimizer: int
    activations: int
    buffers: int

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.optimizer + self.activations + self.buffers

    def to_dict(self) -> dict[str, int]:
        return {
            "stage": self.stage,
            "layers": self.layers,
            "weights": self.weights,
            "gradients": self.gradients,
            "optimizer": self.optimizer,
            "activations": self.activations,
            "buffers": self.buffers,
            "total": self.total,
        }


@dataclass(frozen=True)
class Estimate:
    """All stages, the card they must fit on (bytes; None when unknown), and the verdict."""

    stages: tuple[Stage, ...]
    device: Optional[int]
    error_bar: float = ERROR_BAR

    @property
    def peak(self) -> int:
        return max(stage.total for stage in self.stages)

    @property
    def room(self) -> Optional[int]:
        """Bytes of the card left for the run: what driver and framework hold is gone."""
        return None if self.device is None else self.device - RESERVE

    @property
    def fits(self) -> Optional[bool]:
        """True or False; None when the card is unknown or the error bar does not allow to say."""
        if self.room is None:
            return None
        if self.peak * (1 + self.error_bar) <= self.room:
            return True
        return False if self.peak * (1 - self.error_bar) > self.room else None


def estimate(shape: ModelShape, layout: Layout, device: Optional[int] = None) -> Estimate:
    """Memory of `shape` trained as `layout` says, on cards of `device` bytes."""
    stages = []
    first = 0
    counts = layout.stage_layers(shape.layers)
    for index, count in enumerate(counts):
        stages.append(_stage(shape, layout, index, first, count))
        first += count
    return Estimate(tuple(stages), device)


def _stage(shape: ModelShape, layout: Layout, index: int, first: int, count: int) -> Stage:
    last = index == layout.pipeline_stages - 1
    parameters = stage_parameters(shape, layout, index, first, count)
    trained, routed = parameters, routed_parameters(shape, layout, first, count)
    if layout.trained_parameters is not None:
        trained = min(parameters, layout.trained_parameters // (layout.tensor_parallel * layout.pipeline_stages))
        routed = 0
    # what is spread over expert parallel ranks has copies on the others of data parallel only, and is split over these
    split = (trained - routed) / layout.shard + routed / max(1, layout.shard // layout.expert_parallel)
    c = layout.compute_bytes
    kept = split if layout.shard_gradients else trained
    gradients = int(kept * (c + 4 if layout.micro_batches > 1 or layout.accumulation > 1 else c))
    master = 4 if c < layout.parameter_bytes else 0
    states = int(split * (master + _MOMENTS[layout.optimizer] * layout.optimizer_bytes))
    return Stage(
        stage=index,
        layers=count,
        parameters=parameters,
        weights=parameters * c,
        gradients=gradients,
        optimizer=0 if layout.offload_optimizer else states,
        activations=_activations(shape, layout, index, first, count, last),
        buffers=_communicators(layout) * COMMUNICATOR,
    )


def stage_parameters(shape: ModelShape, layout: Layout, index: int, first: int, count: int) -> int:
    """Parameters that one rank of stage `index` holds, after tensor and expert parallel."""
    tensor = layout.tensor_parallel
    total = 0
    for layer in range(first, first + count):
        total += shape.norms_per_layer * shape.norm_parameters + shape.attention_parameters // tensor
        if shape.is_expert_layer(layer):
            total += shape.shared_parameters // tensor
        else:
            total += shape.mlp_parameters // tensor
    total += routed_parameters(shape, layout, first, count)
    if index == 0:
        total += shape.embedding_parameters // tensor
    if index == layout.pipeline_stages - 1:
        head = shape.head_parameters
        if shape.tied and layout.pipeline_stages > 1:
            head = shape.vocabulary * shape.hidden  # first and last stage each hold the shared table
        total += shape.norm_parameters + head // tensor
    return total


def routed_parameters(shape: ModelShape, layout: Layout, first: int, count: int) -> int:
    """Parameters of routed experts that one rank holds in `count` layers from `first` on."""
    layers = sum(1 for layer in range(first, first + count) if shape.is_expert_layer(layer))
    return layers * (shape.expert_parameters // layout.expert_parallel)


def _activations(shape: ModelShape, layout: Layout, index: int, first: int, count: int, last: bool) -> int:
    """Bytes that stage `index` keeps at its fullest moment."""
    tokens = layout.micro_batch * layout.sequence / layout.context_parallel
    kept = working = 0.0
    recomputed = count if layout.recomputed_layers is None else min(count, layout.recomputed_layers)
    for position in range(count):
        layer = first + position
        whole = activations.layer(shape, layout, layer).per_rank(layout)
        if layout.recompute == "none" or position >= recomputed:
            kept += whole
        elif layout.recompute == "select":
            chosen = activations.selected(shape, layout, layer).per_rank(layout)
            kept += chosen
            working = max(working, whole - chosen)
        else:
            kept += activations.layer_input(shape, layout).per_rank(layout)
            working = max(working, whole)
    if index == 0:
        kept += activations.embedding(shape, layout).per_rank(layout)
    held = tokens * kept * layout.in_flight(index) + tokens * working
    if last:
        held += tokens * activations.head(shape, layout).per_rank(layout)
    return int(held)


def _communicators(layout: Layout) -> int:
    sizes = (
        layout.data_parallel,
        layout.tensor_parallel,
        layout.pipeline_stages,
        layout.context_parallel,
        layout.expert_parallel,
    )
    used = sum(1 for size in sizes if size > 1)
    return used + 1 if used else 0


def largest_batch(shape: ModelShape, layout: Layout, device: int, limit: int = 4096) -> int:
    """The largest per-device batch that fits; 0 when not even one sequence does. Memory grows with the batch, so a
    bisection finds it."""

    def fits(batch: int) -> bool:
        return estimate(shape, replace(layout, micro_batch=batch), device).fits is True

    low, high = 0, 1
    while high <= limit and fits(high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
