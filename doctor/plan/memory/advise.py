"""What to change so that a run fits, cheapest first, and a strategy for a model on so many cards."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby, product
from typing import Optional

from doctor.finding import Text
from doctor.plan.memory.estimate import estimate, largest_batch
from doctor.plan.memory.layout import Layout
from doctor.plan.memory.shape import ModelShape, human

#: sequences shorter than this are not proposed
_SHORTEST = 512


@dataclass(frozen=True)
class Step:
    """One change (a halving may count several times), the layout after it, and its peak in bytes."""

    change: Text
    layout: Layout
    peak: int
    fits: Optional[bool]


@dataclass(frozen=True)
class Keys:
    """What the settings that a change touches are called in the file at hand."""

    recompute: str = "recompute_config.recompute: True"
    batch: str = "batch_size"
    #: None where the global batch is a setting of its own, from which the accumulation follows
    accumulation: Optional[str] = "accumulation"
    micro_batches: str = "parallel_config.micro_batch_num"
    sequence: str = "seq_length"
    shard: str = "parallel.enable_parallel_optimizer: True"


def steps_to_fit(shape: ModelShape, layout: Layout, device: int, keys: Keys = Keys()) -> tuple[Step, ...]:
    """The cheapest list of changes that makes the run fit: empty when it does, and all changes when even they
    are not enough.

    The price list has the field's order of cure: recompute, halve the batch (accumulation keeps the global
    batch), shorten the sequence, shard the optimizer states, and as the last resort offload them."""
    if _fits(shape, layout, device):
        return ()
    plans = [[change for change, times in zip(_CHANGES, counts) for _ in range(times)] for counts in _counts(layout)]
    plans.sort(key=lambda plan: (sum(change.price for change in plan), len(plan)))
    chosen = next((plan for plan in plans if _fits(shape, _apply(layout, plan), device)), plans[-1])
    return tuple(_steps(shape, layout, device, chosen, keys))


@dataclass(frozen=True)
class _Change:
    """A way to need less memory; `make` gives None where it is not possible (any more)."""

    price: float
    make: Callable[[Layout], Optional[Layout]]
    describe: Callable[[Layout, Keys], Text]


def _counts(layout: Layout) -> Iterator[tuple[int, ...]]:
    """How often each change can be made, in every combination."""
    ranges = []
    for change in _CHANGES:
        most, current = 0, layout
        while (following := change.make(current)) is not None:
            most, current = most + 1, following
        ranges.append(range(most + 1))
    return product(*ranges)


def _fits(shape: ModelShape, layout: Layout, device: int) -> bool:
    return estimate(shape, layout, device).fits is True


def _apply(layout: Layout, changes: list[_Change]) -> Layout:
    for change in changes:
        layout = change.make(layout) or layout
    return layout


def _steps(shape: ModelShape, layout: Layout, device: int, changes: list[_Change], keys: Keys) -> Iterator[Step]:
    for change, times in groupby(changes):
        for _ in times:
            layout = change.make(layout) or layout
        verdict = estimate(shape, layout, device)
        yield Step(change.describe(layout, keys), layout, verdict.peak, verdict.fits)


def _recompute(layout: Layout) -> Optional[Layout]:
    if layout.recompute == "full" and layout.recomputed_layers is None:
        return None
    return replace(layout, recompute="full", recomputed_layers=None)


def _halve_batch(layout: Layout) -> Optional[Layout]:
    """Half the batch with twice the accumulation; an odd batch is divided by its smallest factor, so that the global
    batch stays what it is."""
    batch = layout.micro_batch
    if batch < 2:
        return None
    factor = next((number for number in range(2, math.isqrt(batch) + 1) if batch % number == 0), batch)
    smaller = replace(layout, micro_batch=batch // factor)
    if layout.pipeline_stages > 1:  # there the micro batches are the accumulation
        return replace(smaller, micro_batches=layout.micro_batches * factor)
    return replace(smaller, accumulation=layout.accumulation * factor)


def _batch_words(after: Layout, keys: Keys) -> Text:
    size = f"{keys.batch}: {after.micro_batch}"
    if keys.accumulation is None:
        return Text(f"{size} (the global batch stays)", f"{size}（全局 batch 不变）")
    more = (
        f"{keys.micro_batches}: {after.micro_batches}"
        if after.pipeline_stages > 1
        else f"{keys.accumulation} {after.accumulation}"
        if keys.accumulation == "accumulation"
        else f"{keys.accumulation}: {after.accumulation}"
    )
    return Text(f"{size}, with {more} to keep the global batch", f"{size}，并设 {more} 以保持全局 batch")


def _halve_sequence(layout: Layout) -> Optional[Layout]:
    return replace(layout, sequence=layout.sequence // 2) if layout.sequence // 2 >= _SHORTEST else None


def _shard(layout: Layout) -> Optional[Layout]:
    return replace(layout, shard_optimizer=True) if layout.data_parallel > 1 and not layout.shard_optimizer else None


def _offload(layout: Layout) -> Optional[Layout]:
    return None if layout.offload_optimizer else replace(layout, offload_optimizer=True)


_CHANGES = (
    _Change(
        1,
        _recompute,
        lambda _, keys: Text(keys.recompute, f"开启重计算：{keys.recompute}"),
    ),
    _Change(
        2,
        _halve_batch,
        _batch_words,
    ),
    _Change(
        4,
        _halve_sequence,
        lambda after, keys: Text(f"{keys.sequence}: {after.sequence}", f"缩短序列：{keys.sequence}: {after.sequence}"),
    ),
    _Change(
        5,
        _shard,
        lambda _, keys: Text(keys.shard, f"优化器并行：{keys.shard}"),
    ),
    _Change(20, _offload, lambda _, keys: Text("optimizer states on the host (offload)", "优化器状态卸载到主机内存")),
)


@dataclass(frozen=True)
class Strategy:
    """A way to spread the model over the cards."""

    layout: Layout
    reason: Text


def strategy(shape: ModelShape, layout: Layout, devices: int, device: int) -> Optional[Strategy]:
    """The cheapest split of `devices` cards that fits, or None when none does. Splits that are usual for the size of
    the model come first (`usual`).

    Cost is lost throughput: tensor parallel talks in every layer (about 6 % for each doubling inside a node),
    experts exchange tokens twice in every layer (about 4 % for each doubling), pipelines idle for (p - 1) of
    (m + p - 1) slots, full recompute costs 8 to 12 % on a 910B."""
    best: Optional[tuple[tuple[bool, float], Strategy]] = None
    for candidate in _candidates(shape, layout, devices):
        batch = largest_batch(shape, candidate, device, limit=64)
        if batch == 0:
            continue
        cost = (not usual(shape, candidate), _cost(candidate))
        if best is None or cost < best[0]:
            chosen = replace(candidate, micro_batch=min(batch, max(layout.micro_batch, 1)))
            best = (cost, Strategy(chosen, _reason(shape, chosen, device)))
    return best[1] if best else None


#: parameters from which a model is split by tensor parallel, and by all three kinds
_MIDDLE, _LARGE = 10e9, 60e9


def usual(shape: ModelShape, layout: Layout) -> bool:
    """Whether a split is the field's for a model of this size: data parallel alone up to some 10 billion parameters,
    tensor parallel of 2 or 4 beside it up to some 60, all three from 70 billion on. Experts have rules of their own."""
    tensor, stages = layout.tensor_parallel, layout.pipeline_stages
    if shape.experts is not None:
        return True
    if shape.parameters < _MIDDLE:
        return tensor == 1 and stages == 1
    if shape.parameters < _LARGE:
        return tensor in (2, 4) and stages == 1
    return tensor > 1 and stages > 1


def _size_class(shape: ModelShape, layout: Layout) -> Text:
    if shape.experts is not None or not usual(shape, layout):
        return Text("", "")
    if shape.parameters < _MIDDLE:
        return Text("; usual below 10B: data parallel alone", "；10B 以下通常只用数据并行")
    if shape.parameters < _LARGE:
        return Text("; usual at 10-60B: data and tensor parallel", "；10-60B 通常数据并行加张量并行")
    return Text("; usual from 70B on: data, tensor and pipeline parallel", "；70B 及以上通常数据、张量、流水线三者并用")


def _candidates(shape: ModelShape, layout: Layout, devices: int) -> Iterator[Layout]:
    tensors = [t for t in (1, 2, 4, 8) if shape.heads % t == 0 and shape.groups % t == 0 and shape.ffn % t == 0]
    stages = [p for p in (1, 2, 4, 8, 16) if p <= shape.layers and shape.layers % p == 0]
    for tensor in tensors:
        for stage in stages:
            if devices % (tensor * stage):
                continue
            data = devices // (tensor * stage)
            micro = max(layout.micro_batches, 4 * stage) if stage > 1 else 1
            for experts, recompute in product(_expert_parallels(shape, data), ("none", "select", "full")):
                yield replace(
                    layout,
                    data_parallel=data,
                    tensor_parallel=tensor,
                    pipeline_stages=stage,
                    context_parallel=1,
                    expert_parallel=experts,
                    micro_batches=micro,
                    accumulation=1,
                    sequence_parallel=tensor > 1,
                    shard_optimizer=data > 1,
                    recompute=recompute,
                    recomputed_layers=None,
                    offset=(),
                    interleave=1,
                )


def _expert_parallels(shape: ModelShape, data_parallel: int) -> list[int]:
    """Sizes over which the experts can be spread: they divide the experts and data parallel, of whose ranks they are."""
    if shape.experts is None:
        return [1]
    total = shape.experts.total
    return [size for size in (1, 2, 4, 8, 16, 32, 64) if total % size == 0 and data_parallel % size == 0]


def _cost(layout: Layout) -> float:
    tensor, experts = layout.tensor_parallel, layout.expert_parallel
    bubble = (layout.pipeline_stages - 1) / (layout.micro_batches + layout.pipeline_stages - 1)
    recompute = {"none": 0.0, "select": 0.03, "full": 0.10}[layout.recompute]
    return (tensor.bit_length() - 1) * 0.06 + (experts.bit_length() - 1) * 0.04 + bubble + recompute


def _reason(shape: ModelShape, layout: Layout, device: int) -> Text:
    peak = estimate(shape, layout, device).peak / 2**30
    sizes = (
        f"data_parallel {layout.data_parallel} x model_parallel {layout.tensor_parallel} x "
        f"pipeline_stage {layout.pipeline_stages}"
        + (f", expert_parallel {layout.expert_parallel} within data_parallel" if layout.expert_parallel > 1 else "")
    )
    beside = [Text(f"batch {layout.micro_batch} a device", f"单卡 batch {layout.micro_batch}")]
    if layout.pipeline_stages > 1:
        beside.append(Text(f"micro_batch_num {layout.micro_batches}", f"micro_batch_num {layout.micro_batches}"))
    if layout.sequence_parallel:
        beside.append(Text("sequence parallel on", "开启序列并行"))
    beside.append(_RECOMPUTE[layout.recompute])
    return Text(
        f"{human(shape.parameters)} parameters: {sizes}, {', '.join(item.en for item in beside)}, needs {peak:.1f} of "
        f"{device / 2**30:.0f} GB and costs the least throughput of what fits",
        f"{human(shape.parameters)} 参数：{sizes}，{'，'.join(item.zh for item in beside)}，需 {peak:.1f} / "
        f"{device / 2**30:.0f} GB，在放得下的切分中吞吐损失最小",
    ) + _size_class(shape, layout)


_RECOMPUTE = {
    "none": Text("no recompute", "不重计算"),
    "select": Text("selective recompute", "选择性重计算"),
    "full": Text("full recompute", "全部重计算"),
}
