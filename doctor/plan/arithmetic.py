"""The arithmetic of a plan: global batch, tokens per step, layers per stage.

Global batch as MindFormers' base_trainer computes it: batch x data parallel x double copy, times micro batches with a
pipeline and times accumulation without one; in data-parallel mode every device is a data-parallel one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Optional

from doctor.plan.plan import Dialect, ParallelMode, Plan
from doctor.plan.value import Value


@dataclass(frozen=True)
class GlobalBatch:
    """Sequences of one update and where they come from; None where the file does not say."""

    per_device: Optional[int]
    data_parallel: Optional[int]
    accumulation: Optional[int]
    interleave: Optional[int]
    total: Optional[int]
    tokens: Optional[int]

    @property
    def equation(self) -> str:
        """For people: 4 x 8 x 2 = 64."""
        factors = [self.per_device, self.data_parallel, self.accumulation]
        if self.interleave not in (None, 1):
            factors.append(self.interleave)
        return " x ".join("?" if item is None else str(item) for item in factors) + f" = {self.total or '?'}"

    def at(self, per_device: int, sequence: int, *, fixed: bool = False) -> GlobalBatch:
        """The same run with other sizes. `fixed`: the global batch stays, the accumulation follows."""
        rest = (self.data_parallel, self.accumulation, self.interleave)
        total, accumulation = self.total, self.accumulation
        if fixed:
            step = per_device * (self.data_parallel or 1)
            known = total and self.data_parallel and total % step == 0
            accumulation = total // step if total and known else None
        else:
            total = per_device * math.prod(item for item in rest if item) if None not in rest else None
        return GlobalBatch(
            per_device, self.data_parallel, accumulation, self.interleave, total, total * sequence if total else None
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "per_device": self.per_device,
            "data_parallel": self.data_parallel,
            "accumulation": self.accumulation,
            "global": self.total,
            "tokens_per_step": self.tokens,
        }


def global_batch(plan: Plan) -> GlobalBatch:
    """What one update of the weights sees."""
    batch = plan.batch
    data = data_parallel(plan)
    per_device, interleave = batch.per_device.count, batch.interleave.count
    if plan.dialect is Dialect.PYNATIVE:
        total = batch.global_size.count
        accumulation = None
        if total and per_device and data and total % (per_device * data) == 0:
            accumulation = total // (per_device * data)
        return GlobalBatch(per_device, data, accumulation, 1, total, _tokens(plan, total))
    if plan.dialect not in (Dialect.LEGACY, Dialect.MCORE, Dialect.TRAINER):
        return GlobalBatch(None, None, None, None, None, None)
    accumulation = batch.accumulation.count
    if plan.dialect.graph and automatic(plan) and (plan.parallel.pipeline.count or 1) > 1:
        accumulation = plan.parallel.micro_batches.count
    if plan.dialect.graph and not automatic(plan):
        interleave = 1
    factors = (per_device, data, accumulation, interleave)
    total = math.prod(item for item in factors if item) if None not in factors else None
    return GlobalBatch(per_device, data, accumulation, interleave, total, _tokens(plan, total))


def automatic(plan: Plan) -> bool:
    """Whether MindSpore shards the graph by the sizes of the file (semi-automatic or automatic parallel)."""
    return plan.parallel.mode in (ParallelMode.SEMI_AUTO, ParallelMode.AUTO)


def data_parallel(plan: Plan) -> Optional[int]:
    """Copies of the model that see different data; None when it depends on a device count that is not known."""
    parallel = plan.parallel
    if plan.dialect is Dialect.PYNATIVE:
        others = [parallel.tensor.count, parallel.pipeline.count, parallel.context.count]
        if plan.devices is None or None in others:
            return None
        rest = math.prod(item for item in others if item)
        return plan.devices // rest if plan.devices % rest == 0 else None
    if plan.dialect is Dialect.TRAINER:
        return (
            plan.devices
            or parallel.section.get("device_num").count
            or (parallel.data.count if parallel.data.given else 1)
        )
    if automatic(plan):
        return parallel.data.count
    return plan.devices or (parallel.product if parallel.enabled.on else 1)


def _tokens(plan: Plan, total: Optional[int]) -> Optional[int]:
    sequence = plan.model.sequence.count or plan.data.sequence.count
    return total * sequence if total and sequence else None


def pipeline_layers(plan: Plan) -> Optional[int]:
    """Layers that a graph-mode pipeline shares out. Legacy DeepSeek and mcore of 1.6 count the multi-token prediction
    layers too; mcore of 1.7 and later does not (LayerSetting of each)."""
    layers = plan.model.layers.count
    if layers is None:
        return None
    extra = plan.model.field("mtp_num_layers")
    counted = plan.dialect is Dialect.LEGACY or (plan.dialect is Dialect.MCORE and plan.release.before("1.7.0"))
    if counted and extra.whole:
        return layers + max(extra.whole, 0)
    return layers


def rows(offset: Value) -> Optional[list[list[int]]]:
    """The offset list as rows of integers, one a chunk of layers; None when it is not such a list."""
    items = offset.sequence
    if not items:
        return None
    nested = all(item.is_sequence for item in items)
    found: list[list[int]] = []
    for row in items if nested else (offset,):
        numbers = [item.whole for item in row.sequence]
        if None in numbers:
            return None
        found.append([number for number in numbers if number is not None])
    return found
