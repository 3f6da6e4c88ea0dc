"""Device memory: whether what the plan asks for fits the card, before anything is launched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from doctor.check import Skip, check
from doctor.checks.config.judge import RUNS, applies, changes
from doctor.finding import Edit, Evidence, Finding, Severity, Text
from doctor.plan.plan import Dialect, Plan
from doctor.plan.value import Value
from doctor.rule import Rule

if TYPE_CHECKING:
    from doctor.plan.memory.advise import Step
    from doctor.plan.memory.estimate import Estimate
    from doctor.plan.memory.layout import Layout

GB = 2**30

_RULE = Rule(
    id="CFG-MEM-001",
    name="memory-exceeds-device",
    severity=Severity.ERROR,
    category="oom-device",
    title=Text(
        "The run needs {peak:.1f} GB a card of {card:.0f} GB", "单卡需要 {peak:.1f} GB 显存，超过 {card:.0f} GB"
    ),
    why=Text(
        "Stage {stage}: weights {weights:.1f} + gradients {gradients:.1f} + optimizer {optimizer:.1f} + activations "
        "{activations:.1f} + buffers {buffers:.1f} GB, and driver and framework hold {reserve:.1f} GB. It would end "
        "with an out-of-memory error in the first steps.",
        "stage {stage}：权重 {weights:.1f} + 梯度 {gradients:.1f} + 优化器状态 {optimizer:.1f} + 激活 {activations:.1f} "
        "+ 缓冲 {buffers:.1f} GB，另有驱动与框架占用 {reserve:.1f} GB，前几步就会显存不足。",
    ),
    fix=Text("In this order: {steps}.", "按顺序：{steps}。"),
    verify="doctor estimate {path} --device-memory {card:.0f}GB",
    confidence=0.9,
)


@check(_RULE)
@applies(RUNS, training=True, complete=True)
def memory_exceeds_device(plan: Plan) -> Iterator[Finding]:
    if plan.device_memory is None:
        raise Skip(
            Text(
                "the size of a card is not known: give --device-memory 64GB",
                "未知单卡显存：请指定 --device-memory 64GB",
            )
        )
    # The estimate is imported where there is something to estimate: most configs are checked without a card's size.
    from doctor.plan.memory.advise import steps_to_fit
    from doctor.plan.memory.estimate import estimate
    from doctor.plan.memory.reading import NotKnown, keys_of, layout_of, shape_of

    try:
        shape = shape_of(plan)
        layout = layout_of(plan, shape)
    except NotKnown as missing:
        raise Skip(missing.reason) from None
    result = estimate(shape, layout, plan.device_memory)
    if result.fits is False:
        steps = steps_to_fit(shape, layout, plan.device_memory, keys_of(plan))
        yield exceeds(result, steps, str(plan.document.path), plan)


def exceeds(result: Estimate, steps: Sequence[Step], path: str, plan: Plan) -> Finding:
    """The finding for an estimate that does not fit, with the figures of its fullest stage and the cure."""
    from doctor.plan.memory.estimate import RESERVE

    worst = max(result.stages, key=lambda stage: stage.total)
    listed = Text("; ".join(step.change.en for step in steps), "；".join(step.change.zh for step in steps))
    figures = {
        name: getattr(worst, name) / GB for name in ("weights", "gradients", "optimizer", "activations", "buffers")
    }
    finding = _RULE.finding(
        evidence=[
            Evidence.at(
                plan.batch.per_device.location,
                observed=round(worst.total / GB, 1),
                expected=round(((result.device or 0) - RESERVE) / GB, 1),
            )
        ],
        peak=worst.total / GB,
        card=(result.device or 0) / GB,
        stage=worst.stage,
        reserve=RESERVE / GB,
        path=path,
        **figures,
    )
    if steps and steps[-1].fits is True:
        summary = Text(_RULE.fix.en.replace("{steps}", listed.en), _RULE.fix.zh.replace("{steps}", listed.zh))
    else:
        done = f" ({listed.en})" if steps else "", f"（{listed.zh}）" if steps else ""
        summary = Text(
            f"No cheap change{done[0]} makes it certain to fit: spread the model over more cards (model_parallel, "
            "pipeline_stage), or use larger ones.",
            f"仅靠低成本改动{done[1]}不能保证放得下：请用更多卡切分模型（model_parallel、pipeline_stage），或换更大显存的卡。",
        )
    edits = _edits(plan, steps[-1].layout) if steps and steps[-1].fits is True else ()
    return replace(
        finding,
        fixes=(replace(finding.fixes[0], summary=summary, edits=edits, applicability="unsafe" if edits else "manual"),),
    )


def _edits(plan: Plan, after: Layout) -> tuple[Edit, ...]:
    """The settings of the layout that fits; none where one of them is no setting of the file (states on the host)."""
    from doctor.plan.memory.reading import layout_of, shape_of

    if not plan.dialect.graph and plan.dialect is not Dialect.PYNATIVE:
        return ()
    before = layout_of(plan, shape_of(plan))
    if after.offload_optimizer != before.offload_optimizer:
        return ()
    batch, pynative = plan.batch, plan.dialect is Dialect.PYNATIVE
    pairs: list[tuple[Value, Any]] = []
    if (after.recompute, after.recomputed_layers) != (before.recompute, before.recomputed_layers):
        pairs.append((plan.recompute.full, "full" if pynative else True))
    if after.micro_batch != before.micro_batch:
        pairs.append((batch.per_device, after.micro_batch))
    if after.accumulation != before.accumulation and not pynative:
        pairs.append((batch.accumulation, after.accumulation))
    if after.micro_batches != before.micro_batches and not pynative:
        pairs.append((plan.parallel.micro_batches, after.micro_batches))
    if after.sequence != before.sequence:
        known = plan.model.sequence if plan.model.sequence.given or not plan.data.sequence.given else plan.data.sequence
        pairs.append((known, after.sequence))
    if after.shard_optimizer != before.shard_optimizer:
        pairs.append((plan.parallel.optimizer, True))
    return changes(plan, pairs).edits
