"""What must change along with a suggested change, so that curing one fault makes no other: devices that a size frees go
to data parallel, the data set's strategy follows data parallel, the data's rows follow the model's sequence."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from doctor.plan.arithmetic import pipeline_layers
from doctor.plan.names import arguments
from doctor.plan.plan import Dialect, ParallelMode, Plan
from doctor.plan.value import Value

Pairs = list[tuple[Value, Any]]


def followed(plan: Plan, pairs: Iterable[tuple[Value, Any]]) -> Pairs:
    """The changes, and those that they make necessary."""
    found = list(pairs)
    if plan.dialect.graph:
        _fill_devices(plan, found)
        _follow_data_parallel(plan, found)
        _follow_optimizer(plan, found)
        _follow_tensor(plan, found)
    if plan.trains:
        _follow_stages(plan, found)
        _follow_sequence(plan, found)
    return found


def _new(pairs: Pairs, value: Value) -> Any:
    """What a setting will hold."""
    return next((new for other, new in pairs if other.key == value.key), value.value)


def _named(pairs: Pairs, *values: Value) -> bool:
    keys = {value.key for value in values}
    return any(value.key in keys for value, _ in pairs)


def _fill_devices(plan: Plan, pairs: Pairs) -> None:
    """Data parallel takes the devices that the other sizes leave, where the product was right or is first asked for."""
    parallel, devices = plan.parallel, plan.devices
    asked = _new(pairs, parallel.mode_value) in (1, "semi_auto_parallel", "SEMI_AUTO_PARALLEL")
    first = _named(pairs, parallel.mode_value) and asked
    if devices is None or _named(pairs, parallel.data) or not (first or _named(pairs, *parallel.sizes)):
        return
    if parallel.mode is not ParallelMode.SEMI_AUTO and not first:
        return
    others = [_new(pairs, size) for size in parallel.sizes[1:]]
    if not all(isinstance(size, int) and size > 0 for size in others):
        return
    rest = math.prod(others)
    right = parallel.product in (devices, None) or first
    if right and devices % rest == 0 and devices // rest != parallel.data.value:
        pairs.append((parallel.data, devices // rest))


def _follow_data_parallel(plan: Plan, pairs: Pairs) -> None:
    """Each column of dataset_strategy is cut in as many pieces as data parallel says."""
    rows = [row.sequence[0] for row in plan.parallel.dataset_strategy.sequence if row.sequence]
    pieces = [new for value, new in pairs if value.key in {row.key for row in rows} or value is plan.parallel.data]
    if pieces:
        pairs += [(row, pieces[0]) for row in rows if row.value != pieces[0] and not _named(pairs, row)]


def _follow_tensor(plan: Plan, pairs: Pairs) -> None:
    """mcore refuses sequence parallel without tensor parallel."""
    parallel = plan.parallel
    alone = _named(pairs, parallel.tensor) and _new(pairs, parallel.tensor) == 1
    if alone and plan.dialect is Dialect.MCORE and parallel.sequence.on and not _named(pairs, parallel.sequence):
        pairs.append((parallel.sequence, False))


def _follow_stages(plan: Plan, pairs: Pairs) -> None:
    """More stages want more micro batches; fewer want an offset of their own."""
    parallel = plan.parallel
    if not _named(pairs, parallel.pipeline):
        return
    stages = _new(pairs, parallel.pipeline)
    micro = parallel.micro_batches
    if plan.dialect.graph and not _named(pairs, micro) and stages > 1 and (micro.count or stages) < stages:
        pairs.append((micro, stages))
    for listed in (plan.recompute.full, plan.recompute.select):
        counts = [item.whole for item in listed.sequence]
        if len(counts) > stages and all(count is not None for count in counts) and not _named(pairs, listed):
            pairs.append((listed, [max(count or 0 for count in counts)] * stages))
    offset = parallel.offset
    if offset.sequence and not _named(pairs, offset):
        pairs.append((offset, "auto" if plan.dialect is Dialect.PYNATIVE else 0))


def _follow_sequence(plan: Plan, pairs: Pairs) -> None:
    model, data = plan.model.sequence, plan.data.sequence
    if _named(pairs, model) and data.given and not _named(pairs, data) and data.value == model.value:
        pairs.append((data, _new(pairs, model)))


def _follow_optimizer(plan: Plan, pairs: Pairs) -> None:
    """beta1 and beta2 become betas where the other optimizer takes these, and the other way round."""
    optimizer = plan.optimizer
    if not _named(pairs, optimizer.type):
        return
    taken = arguments("optimizer", str(_new(pairs, optimizer.type)))
    if taken is None or taken[1]:
        return
    names, section = taken[0], optimizer.section
    lone = [section.get(name) for name in ("beta1", "beta2")]
    pair = section.get("betas")
    if "betas" in names and "beta1" not in names and all(value.given for value in lone):
        pairs += [(lone[0], None), (lone[1], None), (pair, [value.value for value in lone])]
    elif "beta1" in names and "betas" not in names and len(pair.sequence) == 2:
        pairs += [(pair, None), *((value, item.value) for value, item in zip(lone, pair.sequence))]


def splits_model(plan: Plan, size: int, *, devices: bool = True) -> bool:
    """Whether a tensor-parallel size divides what it must: heads, hidden and feed-forward size, and the devices."""
    model, parallel = plan.model, plan.parallel
    amounts = [value.count for value in (model.heads, model.hidden, model.ffn) if value.count]
    kv_heads = model.kv_heads.count
    if kv_heads and kv_heads % size and (plan.dialect is Dialect.LEGACY or size % kv_heads):
        return False
    if any(amount % size for amount in amounts):
        return False
    return not devices or leaves_devices(plan, parallel.tensor, size)


def splits_layers(plan: Plan, stages: int, *, devices: bool = True) -> bool:
    """Whether so many stages divide the layers, with no offset, and the devices."""
    layers = pipeline_layers(plan)
    if layers is not None and (layers < stages or layers % stages):
        return False
    return not devices or leaves_devices(plan, plan.parallel.pipeline, stages)


def leaves_devices(plan: Plan, size: Value, new: int) -> bool:
    """Whether the device count can still be reached with another value of one parallel size."""
    parallel = plan.parallel
    if plan.devices is None or parallel.mode is not ParallelMode.SEMI_AUTO:
        return True
    fixed = parallel.sizes if size is parallel.data else parallel.sizes[1:]
    others = [value.count or 1 for value in fixed if value is not size]
    if size is parallel.data:
        return plan.devices == math.prod(others) * new
    return plan.devices % (math.prod(others) * new) == 0


def best(legal: Iterable[int], *tests: Any) -> list[int]:
    """The options that pass every test; all of them when none does."""
    options = list(legal)
    return [option for option in options if all(test(option) for test in tests)] or options
