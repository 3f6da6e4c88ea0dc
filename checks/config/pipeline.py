"""Pipeline parallel: micro batches against stages, layers against stages, offsets, schedulers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from doctor.check import Skip, check
from doctor.checks.config.judge import (
    GRAPH,
    MINDFORMERS,
    RUNS,
    advice,
    applies,
    because,
    change,
    changes,
    divisors,
    listed,
    near,
    need,
    seen,
    shown,
)
from doctor.finding import Finding, Fix, Severity, Text
from doctor.plan.arithmetic import automatic, pipeline_layers, rows
from doctor.plan.plan import Dialect, Plan
from doctor.plan.value import Value
from doctor.rule import Rule

_NO_STAGES = Text("one stage: no pipeline", "只有一个阶段，没有流水线")
#: schedulers that MindSpore's pipeline_config knows
_SCHEDULERS = ("1f1b", "gpipe", "seqpipe", "seqvpp", "seqsmartvpp", "zero_bubble_v")
_PYNATIVE_SCHEDULES = ("1f1b", "interleaved_1f1b", "gpipe")


def _stages(plan: Plan, at_least: int = 2) -> int:
    """Stages of a pipeline that is in use. Raises Skip otherwise."""
    if plan.dialect.graph and not automatic(plan):
        raise Skip(Text("parallel_mode uses no pipeline", "该 parallel_mode 不使用流水线"))
    (stages,) = need(plan.parallel.pipeline)
    if stages < at_least:
        raise Skip(_NO_STAGES)
    return stages


@check(
    Rule(
        id="CFG-PIP-001",
        name="too-few-micro-batches",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text("Fewer micro batches than pipeline stages", "micro_batch_num 小于流水线阶段数"),
        why=Text(
            "Each stage needs a micro batch to work on; MindFormers does not check this and MindSpore fails after minutes of graph compilation.",
            "每个阶段都需要至少一个 micro batch；MindFormers 不做检查，MindSpore 要到图编译数分钟后才报错。",
        ),
        fix=Text("Set micro_batch_num to a multiple of the stages.", "把 micro_batch_num 设为阶段数的整数倍。"),
        references=("MindSpore pipeline split: micro batch number >= stage number",),
    )
)
@applies((*GRAPH, Dialect.TRAINER), training=True)
def too_few_micro_batches(plan: Plan) -> Iterator[Finding]:
    stages = _stages(plan)
    (micro,) = need(plan.parallel.micro_batches)
    if micro < stages:
        value = plan.parallel.micro_batches
        yield too_few_micro_batches.finding(
            because(
                too_few_micro_batches,
                f"micro_batch_num {micro} < pipeline_stage {stages}.",
                f"micro_batch_num {micro} < pipeline_stage {stages}。",
            ),
            evidence=seen(plan, value, plan.parallel.pipeline, expected=f">= {stages}"),
            fixes=[change(plan, value, stages), change(plan, plan.parallel.pipeline, max(micro, 1))],
        )


@check(
    Rule(
        id="CFG-PIP-002",
        name="more-stages-than-layers",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text("More pipeline stages than layers", "流水线阶段数多于层数"),
        why=Text(
            "Every stage (and every chunk of an interleaved stage) holds at least one layer.",
            "每个阶段（以及交错流水的每个分块）至少要有一层。",
        ),
        fix=Text("Lower pipeline_stage (or the interleaving).", "减小 pipeline_stage（或交错数）。"),
        references=("mindformers/tools/check_rules.py _check_parallel", "PreTrainedModel.check_pipeline_stage"),
    )
)
@applies(RUNS, training=True)
def more_stages_than_layers(plan: Plan) -> Iterator[Finding]:
    stages = _stages(plan)
    layers = pipeline_layers(plan)
    if layers is None:
        raise Skip(Text("the number of layers is not in the file", "文件中没有层数"))
    chunks = (plan.parallel.interleave.count or 1) if interleaved(plan) else 1
    if layers < stages * chunks:
        equation = f"{stages} x {chunks} = {stages * chunks}" if chunks > 1 else f"{stages}"
        legal = [size for size in divisors(layers) if size <= stages]
        yield more_stages_than_layers.finding(
            because(
                more_stages_than_layers,
                f"{layers} layers < {equation} stages.",
                f"层数 {layers} < 阶段数 {equation}。",
            ),
            evidence=seen(plan, plan.parallel.pipeline, plan.model.layers, expected=f"at most {layers}"),
            fixes=[change(plan, plan.parallel.pipeline, option) for option in near(legal, stages, 1)],
        )


def interleaved(plan: Plan) -> bool:
    """Whether stages hold several chunks: mcore and PyNative by the number, legacy by the pipeline_config too."""
    if (plan.parallel.interleave.count or 1) == 1:
        return False
    if plan.dialect is Dialect.PYNATIVE:
        return True
    switch = plan.parallel.context_section.get("pipeline_config", "pipeline_interleave")
    return switch.value is True


@check(
    Rule(
        id="CFG-PIP-003",
        name="layers-not-divisible-by-stages",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text(
            "The stages do not divide the layers and no offset says where the rest goes",
            "阶段数不能整除层数，且没有 offset 说明余下的层",
        ),
        why=Text(
            "From 1.3 MindFormers stops: the sum of `offset` must equal layers % stages. Earlier releases split unevenly, the last stage being the largest.",
            "1.3 起 MindFormers 会报错：offset 之和必须等于 层数 % 阶段数；更早的版本会不均匀切分，最后一段最大。",
        ),
        fix=Text(
            "Give an offset list, or choose stages that divide the layers.",
            "给出 offset 列表，或选择能整除层数的阶段数。",
        ),
        references=("mindformers/models/utils.py LayerSetting._check_inputs",),
    )
)
@applies(MINDFORMERS, training=True)
def layers_not_divisible(plan: Plan) -> Iterator[Finding]:
    stages = _stages(plan)
    layers = pipeline_layers(plan)
    if layers is None:
        raise Skip(Text("the number of layers is not in the file", "文件中没有层数"))
    offset = plan.parallel.offset
    if plan.dialect is Dialect.PYNATIVE:
        if offset.value not in (None, "auto"):
            return
    elif offset.whole is None or offset.whole != 0:
        return
    chunks = (plan.parallel.interleave.count or 1) if interleaved(plan) else 1
    parts = stages * chunks
    rest = layers % parts
    if not rest or layers < parts:
        return
    legal = [size for size in divisors(layers) if size <= 2 * stages]
    fixes: list[Fix] = []
    if plan.dialect.graph and chunks == 1:
        spread = [1] * rest + [0] * (stages - rest)
        fixes.append(change(plan, plan.parallel.offset, spread))
    fixes.extend(change(plan, plan.parallel.pipeline, option) for option in near(legal, stages, 1))
    extra = " (with its multi-token prediction layer)" if layers != plan.model.layers.count else ""
    yield layers_not_divisible.finding(
        because(
            layers_not_divisible,
            f"{layers} layers{extra} % {parts} stages = {rest}, and the offset adds up to 0.",
            f"层数 {layers} % 阶段数 {parts} = {rest}，而 offset 之和为 0。",
        ),
        evidence=seen(
            plan,
            *_given(offset),
            plan.model.layers,
            plan.parallel.pipeline,
            expected=f"an offset list whose sum is {rest}",
        ),
        fixes=fixes,
        severity=Severity.ERROR
        if plan.dialect is not Dialect.LEGACY or plan.release.since("1.3.0")
        else Severity.WARNING,
    )


def _given(value: Value) -> tuple[Value, ...]:
    return (value,) if value.given else ()


@check(
    Rule(
        id="CFG-PIP-004",
        name="offset-sum-mismatch",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text("The offsets do not add up to the layers that are left over", "offset 之和与余下的层数不一致"),
        why=Text(
            "Every stage gets layers // stages plus its offset; the offsets must add up to layers % stages.",
            "每个阶段得到 层数 // 阶段数 加上其 offset；offset 之和必须等于 层数 % 阶段数。",
        ),
        fix=Text("Change an entry so that the sum is right.", "调整某一项，使其和正确。"),
        references=("mindformers/models/utils.py LayerSetting._check_inputs",),
    )
)
@applies(GRAPH, training=True)
def offset_sum(plan: Plan) -> Iterator[Finding]:
    stages = _stages(plan, at_least=1)
    layers = pipeline_layers(plan)
    if layers is None:
        raise Skip(Text("the number of layers is not in the file", "文件中没有层数"))
    offset = plan.parallel.offset
    offsets = _offsets(plan, stages)
    if offsets is None:
        return
    parts = stages * ((plan.parallel.interleave.count or 1) if interleaved(plan) else 1)
    total, rest = sum(sum(row) for row in offsets), layers % parts
    if total == rest:
        return
    extra = (
        Text(" (its multi-token prediction layer counts)", "（含多 token 预测层）")
        if layers != plan.model.layers.count
        else Text("", "")
    )
    yield offset_sum.finding(
        because(
            offset_sum,
            f"The offsets add up to {total}, but {layers} layers{extra.en} % {parts} = {rest}.",
            f"offset 之和为 {total}，而 {layers} 层{extra.zh} % {parts} = {rest}。",
        ),
        evidence=seen(plan, offset, plan.model.layers, plan.parallel.pipeline, expected=f"sum {rest}"),
        fixes=_offset_fixes(plan, offsets, rest - total, layers // parts),
    )


def _offsets(plan: Plan, stages: int) -> Optional[list[list[int]]]:
    """The offset list when it has a legal shape; other shapes have rules of their own."""
    offset = plan.parallel.offset
    if offset.whole:
        return [[offset.whole]]
    found = rows(offset)
    return found if found is not None and all(len(row) == stages for row in found) else None


def _offset_fixes(plan: Plan, offsets: list[list[int]], missing: int, average: int) -> list[Fix]:
    """Spreads what is missing over the stages from the first (or takes it from the last)."""
    stages = plan.parallel.stages
    repaired = [list(row) for row in offsets] if len(offsets[0]) == stages else [[0] * stages]
    if len(offsets[0]) != stages:
        missing += offsets[0][0]
    flat = [(row, column) for row in range(len(repaired)) for column in range(len(repaired[0]))]
    order = flat if missing > 0 else list(reversed(flat))
    for step in range(abs(missing)):
        row, column = order[step % len(order)]
        repaired[row][column] += 1 if missing > 0 else -1
    if any(average + entry < 1 for row in repaired for entry in row):
        return [advice(plan, "Write the offsets anew.", "请重新编写 offset。")]
    new = repaired if len(repaired) > 1 else repaired[0]
    return [change(plan, plan.parallel.offset, new)]


@check(
    Rule(
        id="CFG-PIP-005",
        name="offset-shape-mismatch",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text("The offset list has the wrong shape", "offset 列表形状不对"),
        why=Text(
            "It needs one entry per stage; with interleaving one row per chunk (pp_interleave_num).",
            "每个阶段一项；交错流水时每个分块（pp_interleave_num）一行。",
        ),
        fix=Text("Write one entry for every stage.", "为每个阶段写一项。"),
        references=("mindformers/models/utils.py LayerSetting._check_inputs",),
    )
)
@applies(GRAPH, training=True)
def offset_shape(plan: Plan) -> Iterator[Finding]:
    stages = _stages(plan, at_least=1)
    offset = plan.parallel.offset
    if not offset.is_sequence:
        return
    found = rows(offset)
    chunks = (plan.parallel.interleave.count or 1) if interleaved(plan) else 1
    if found is None:
        text = Text("The offset list holds something that is not an integer.", "offset 列表中含有非整数项。")
    elif any(len(row) != stages for row in found):
        length = next(len(row) for row in found if len(row) != stages)
        text = Text(f"It has {length} entries for {stages} stages.", f"共 {length} 项，而阶段数为 {stages}。")
    elif len(found) not in (1, chunks):
        text = Text(
            f"It has {len(found)} rows, but pp_interleave_num is {chunks}.",
            f"共 {len(found)} 行，而 pp_interleave_num 为 {chunks}。",
        )
    else:
        return
    expected = f"{stages} entries" if chunks == 1 else f"{chunks} rows of {stages}"
    yield offset_shape.finding(
        because(offset_shape, text.en, text.zh),
        evidence=seen(plan, offset, plan.parallel.pipeline, expected=expected),
        fixes=(advice(plan, f"Write {expected}.", f"请写成 {expected}。"),),
    )


@check(
    Rule(
        id="CFG-PIP-006",
        name="stage-without-layers",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text("The offsets leave a stage without layers", "offset 使某个阶段没有层"),
        why=Text(
            "A stage holds layers // stages plus its offset: at least one layer must remain.",
            "每个阶段的层数为 层数 // 阶段数 + offset，至少要剩一层。",
        ),
        fix=Text("Raise that entry.", "增大该项。"),
    )
)
@applies(GRAPH, training=True)
def stage_without_layers(plan: Plan) -> Iterator[Finding]:
    stages = _stages(plan)
    layers = pipeline_layers(plan)
    offsets = rows(plan.parallel.offset)
    if layers is None or offsets is None or any(len(row) != stages for row in offsets):
        return
    average = layers // (stages * len(offsets))
    empty = [
        (row, column)
        for row, entries in enumerate(offsets)
        for column, entry in enumerate(entries)
        if average + entry < 1
    ]
    if empty and layers >= stages * len(offsets):
        row, column = empty[0]
        yield stage_without_layers.finding(
            because(
                stage_without_layers,
                f"Stage {column}: {layers} // {stages * len(offsets)} + {offsets[row][column]} = {average + offsets[row][column]} layers.",
                f"阶段 {column}：{layers} // {stages * len(offsets)} + {offsets[row][column]} = {average + offsets[row][column]} 层。",
            ),
            evidence=seen(plan, plan.parallel.offset, expected=f">= {1 - average} in every entry"),
        )


@check(
    Rule(
        id="CFG-PIP-007",
        name="micro-batches-without-pipeline",
        severity=Severity.INFO,
        category="config",
        title=Text(
            "micro_batch_num {micro} has no effect without pipeline stages",
            "没有流水线时 micro_batch_num {micro} 不生效",
        ),
        why=Text(
            "With pipeline_stage 1 MindFormers resets it to 1: the global batch is smaller than it looks.",
            "pipeline_stage 为 1 时会被重置为 1：实际全局批次比看上去小。",
        ),
        fix=Text("Set it to 1, or use gradient_accumulation_steps.", "设为 1，或改用 gradient_accumulation_steps。"),
        references=("mindformers/trainer/base_trainer.py _check_global_batch_size_for_auto_parallel",),
    )
)
@applies(GRAPH, training=True)
def micro_batches_without_pipeline(plan: Plan) -> Iterator[Finding]:
    value = plan.parallel.micro_batches
    if value.given and (value.count or 1) > 1 and plan.parallel.pipeline.count == 1:
        yield micro_batches_without_pipeline.finding(
            evidence=seen(plan, value, plan.parallel.pipeline, expected=1),
            fixes=(change(plan, value, 1, safe=True),),
            micro=value.count,
        )


@check(
    Rule(
        id="CFG-PIP-008",
        name="accumulation-ignored-with-pipeline",
        severity=Severity.WARNING,
        category="config",
        title=Text(
            "gradient_accumulation_steps is ignored with pipeline stages",
            "流水线并行时 gradient_accumulation_steps 不生效",
        ),
        why=Text(
            "MindFormers resets it to 1: micro_batch_num does the accumulating, so the global batch is smaller than planned.",
            "会被重置为 1，累积由 micro_batch_num 完成，实际全局批次比计划小。",
        ),
        fix=Text("Multiply micro_batch_num instead.", "改为调大 micro_batch_num。"),
        references=("mindformers/trainer/base_trainer.py _check_grad_accumulation_steps",),
    )
)
@applies(GRAPH, training=True)
def accumulation_with_pipeline(plan: Plan) -> Iterator[Finding]:
    _stages(plan)
    value, micro = plan.batch.accumulation, plan.parallel.micro_batches
    if (value.count or 1) > 1:
        pairs = [(micro, (micro.count or 1) * (value.count or 1)), (value, 1)]
        yield accumulation_with_pipeline.finding(
            evidence=seen(plan, value, micro, plan.parallel.pipeline, expected=1), fixes=(changes(plan, pairs),)
        )


@check(
    Rule(
        id="CFG-PIP-009",
        name="pipeline-scheduler-unknown",
        severity=Severity.ERROR,
        category="config",
        title=Text("Pipeline schedule {value} does not exist", "不存在的流水线调度：{value}"),
        why=Text(
            "MindSpore knows 1f1b, gpipe, seqpipe, seqvpp, seqsmartvpp and zero_bubble_v; PyNative 1f1b, interleaved_1f1b and gpipe.",
            "MindSpore 支持 1f1b、gpipe、seqpipe、seqvpp、seqsmartvpp、zero_bubble_v；PyNative 支持 1f1b、interleaved_1f1b、gpipe。",
        ),
        fix=Text("Use 1f1b.", "使用 1f1b。"),
    )
)
@applies(MINDFORMERS)
def scheduler_unknown(plan: Plan) -> Iterator[Finding]:
    value = plan.parallel.scheduler
    known = _PYNATIVE_SCHEDULES if plan.dialect is Dialect.PYNATIVE else _SCHEDULERS
    if value.given and value.value is not None and str(value.value).lower() not in known:
        yield scheduler_unknown.finding(
            evidence=seen(plan, value, expected=listed(known)), fixes=(change(plan, value, "1f1b"),), value=shown(value)
        )


@check(
    Rule(
        id="CFG-PIP-010",
        name="seqvpp-without-sequence-split",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text("pipeline_scheduler seqvpp needs seq_split_num above 1", "seqvpp 调度需要 seq_split_num 大于 1"),
        why=Text(
            "MindFormers refuses seqvpp with seq_split_num 1.", "seq_split_num 为 1 时 MindFormers 不支持 seqvpp。"
        ),
        fix=Text("Use seqpipe, or split the sequence.", "改用 seqpipe，或设置 seq_split_num。"),
        references=("mindformers/tools/check_rules.py _check_parallel",),
    )
)
@applies(GRAPH, training=True)
def seqvpp_without_split(plan: Plan) -> Iterator[Finding]:
    parallel = plan.parallel
    if parallel.scheduler.words == "seqvpp" and parallel.sequence_split.whole == 1:
        yield seqvpp_without_split.finding(
            evidence=seen(plan, parallel.scheduler, parallel.sequence_split, expected="seqpipe"),
            fixes=(change(plan, parallel.scheduler, "seqpipe"),),
        )


@check(
    Rule(
        id="CFG-PIP-011",
        name="sequence-split-in-mcore",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text("seq_split_num is not for mcore models", "mcore 模型不支持 seq_split_num"),
        why=Text(
            "With use_legacy: False MindFormers refuses seq_split_num above 1.",
            "use_legacy: False 时，MindFormers 不支持 seq_split_num 大于 1。",
        ),
        fix=Text("Set seq_split_num: 1.", "设置 seq_split_num: 1。"),
        references=("mindformers/trainer/base_trainer.py wrap_mcore_network",),
    )
)
@applies((Dialect.MCORE,), training=True)
def sequence_split_in_mcore(plan: Plan) -> Iterator[Finding]:
    value = plan.parallel.sequence_split
    if (value.count or 1) > 1 and plan.parallel.stages > 1:
        yield sequence_split_in_mcore.finding(evidence=seen(plan, value, expected=1), fixes=(change(plan, value, 1),))


@check(
    Rule(
        id="CFG-PIP-012",
        name="double-copy-in-mcore",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text("micro_batch_interleave_num is not for mcore models", "mcore 模型不支持 micro_batch_interleave_num"),
        why=Text(
            "With use_legacy: False MindFormers refuses micro_batch_interleave_num above 1.",
            "use_legacy: False 时，MindFormers 不支持 micro_batch_interleave_num 大于 1。",
        ),
        fix=Text("Set micro_batch_interleave_num: 1.", "设置 micro_batch_interleave_num: 1。"),
        references=("mindformers/trainer/base_trainer.py wrap_mcore_network",),
    )
)
@applies((Dialect.MCORE,), training=True)
def double_copy_in_mcore(plan: Plan) -> Iterator[Finding]:
    value = plan.batch.interleave
    if (value.count or 1) > 1:
        yield double_copy_in_mcore.finding(evidence=seen(plan, value, expected=1), fixes=(change(plan, value, 1),))


@check(
    Rule(
        id="CFG-PIP-013",
        name="zero-bubble-requirements",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text("zero_bubble_v does not get what it needs", "zero_bubble_v 的前提条件不满足"),
        why=Text(
            "It needs pp_interleave_num 2, two stages or more and micro_batch_num >= 2 x stages.",
            "它要求 pp_interleave_num 为 2、阶段数至少为 2、micro_batch_num ≥ 2 × 阶段数。",
        ),
        fix=Text("Meet the three conditions, or use 1f1b.", "满足这三个条件，或改用 1f1b。"),
        references=("mindformers/parallel_core/transformer_config.py __post_init__",),
    )
)
@applies(GRAPH, training=True)
def zero_bubble(plan: Plan) -> Iterator[Finding]:
    parallel = plan.parallel
    if parallel.scheduler.words != "zero_bubble_v":
        return
    stages, micro, chunks = parallel.pipeline.count, parallel.micro_batches.count, parallel.interleave.count
    broken = []
    if chunks is not None and chunks != 2:
        broken.append((parallel.interleave, 2, f"pp_interleave_num {chunks} != 2"))
    if stages is not None and stages < 2:
        broken.append((parallel.pipeline, 2, f"pipeline_stage {stages} < 2"))
    if stages and micro is not None and micro < 2 * stages:
        broken.append((parallel.micro_batches, 2 * stages, f"micro_batch_num {micro} < 2 x {stages} = {2 * stages}"))
    for value, new, text in broken:
        yield zero_bubble.finding(
            because(zero_bubble, f"{text}.", f"{text}。"),
            evidence=seen(plan, value, parallel.scheduler, expected=new),
            fixes=(change(plan, value, new),),
        )


@check(
    Rule(
        id="CFG-PIP-014",
        name="interleaving-switched-off",
        severity=Severity.WARNING,
        category="parallel-strategy",
        title=Text(
            "pp_interleave_num {chunks} without pipeline_interleave",
            "设置了 pp_interleave_num {chunks} 但未开启 pipeline_interleave",
        ),
        why=Text(
            "Chunks are interleaved only when parallel.pipeline_config.pipeline_interleave is True; otherwise the number is taken as 1.",
            "只有 parallel.pipeline_config.pipeline_interleave 为 True 时才会交错，否则按 1 处理。",
        ),
        fix=Text(
            "Set parallel.pipeline_config.pipeline_interleave: True.",
            "设置 parallel.pipeline_config.pipeline_interleave: True。",
        ),
        references=("mindformers/models/utils.py LayerSetting.__init__",),
    )
)
@applies(GRAPH, training=True)
def interleaving_off(plan: Plan) -> Iterator[Finding]:
    chunks = plan.parallel.interleave
    switch = plan.parallel.context_section.get("pipeline_config", "pipeline_interleave")
    if (chunks.count or 1) > 1 and switch.value is not True:
        yield interleaving_off.finding(
            evidence=seen(plan, chunks, switch), fixes=(change(plan, switch, True),), chunks=chunks.count
        )


@check(
    Rule(
        id="CFG-PIP-015",
        name="sequence-pipe-conflict",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text("The sequence pipe does not work with {what}", "序列流水（seqpipe）不支持 {what}"),
        why=Text(
            "With seq_split_num above 1 MindFormers refuses full recompute and per-token loss.",
            "seq_split_num 大于 1 时，MindFormers 不支持完全重计算和 calculate_per_token_loss。",
        ),
        fix=Text("Turn it off, or set seq_split_num: 1.", "关闭该选项，或设置 seq_split_num: 1。"),
        references=("mindformers/trainer/base_trainer.py wrap_network_with_tool_cells",),
    )
)
@applies((Dialect.LEGACY,), training=True)
def sequence_pipe_conflict(plan: Plan) -> Iterator[Finding]:
    parallel = plan.parallel
    if (parallel.sequence_split.count or 1) <= 1 or parallel.stages < 2:
        return
    loss = plan.root.get("calculate_per_token_loss")
    for value, what in ((plan.recompute.full, "recompute: True"), (loss, "calculate_per_token_loss: True")):
        if value.on:
            yield sequence_pipe_conflict.finding(
                evidence=seen(plan, value, parallel.sequence_split, expected=False),
                fixes=(change(plan, value, False),),
                what=what,
            )


@check(
    Rule(
        id="CFG-PIP-016",
        name="pipeline-outside-training",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text("Pipeline stages with run_mode {mode}", "run_mode {mode} 下使用了流水线并行"),
        why=Text(
            "Legacy models evaluate with one stage only; MindFormers stops.",
            "legacy 模型评测只支持单阶段，MindFormers 会报错退出。",
        ),
        fix=Text("Set pipeline_stage: 1.", "设置 pipeline_stage: 1。"),
        references=("mindformers/tools/check_rules.py _rule_pp_only_for_train",),
    )
)
@applies(GRAPH, training=False)
def pipeline_outside_training(plan: Plan) -> Iterator[Finding]:
    modes = {"eval", "export"} if plan.release.before("1.3.0") else {"eval"}
    if plan.run_mode.words in modes and plan.parallel.stages > 1 and plan.dialect is Dialect.LEGACY:
        yield pipeline_outside_training.finding(
            evidence=seen(plan, plan.parallel.pipeline, plan.run_mode, expected=1),
            fixes=(change(plan, plan.parallel.pipeline, 1),),
            mode=plan.run_mode.words,
        )


@check(
    Rule(
        id="CFG-PIP-017",
        name="pipeline-mostly-idle",
        severity=Severity.INFO,
        category="performance",
        title=Text("Stages wait {share:.0%} of the time", "流水线空泡占比约 {share:.0%}"),
        why=Text(
            "With 1F1B the share of a step that a stage waits is (stages - 1) / (micro batches + stages - 1).",
            "1F1B 调度的空泡占比为（阶段数 − 1）/（micro batch 数 + 阶段数 − 1）。",
        ),
        fix=Text("Use four micro batches a stage or more.", "让 micro_batch_num 至少为阶段数的四倍。"),
    )
)
@applies(GRAPH, training=True)
def pipeline_idle(plan: Plan) -> Iterator[Finding]:
    stages = _stages(plan)
    (micro,) = need(plan.parallel.micro_batches)
    chunks = (plan.parallel.interleave.count or 1) if interleaved(plan) else 1
    share = (stages - 1) / (micro * chunks + stages - 1)
    if micro >= stages and share > 0.45:
        yield pipeline_idle.finding(
            because(
                pipeline_idle,
                f"({stages} - 1) / ({micro * chunks} + {stages} - 1) = {share:.0%}.",
                f"（{stages} − 1）/（{micro * chunks} + {stages} − 1）= {share:.0%}。",
            ),
            evidence=seen(plan, plan.parallel.micro_batches, plan.parallel.pipeline, expected=f">= {4 * stages}"),
            fixes=(change(plan, plan.parallel.micro_batches, 4 * stages),),
            share=share,
        )


@check(
    Rule(
        id="CFG-PIP-018",
        name="schedule-interleaving-mismatch",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text(
            "Schedule {schedule} does not go with interleave number {chunks}",
            "调度 {schedule} 与交错数 {chunks} 不匹配",
        ),
        why=Text(
            "PyNative's 1f1b needs pipeline_parallel_interleave_num 1, interleaved_1f1b needs 2 or more.",
            "PyNative 的 1f1b 要求 pipeline_parallel_interleave_num 为 1，interleaved_1f1b 要求至少为 2。",
        ),
        fix=Text("Change the schedule.", "修改调度方式。"),
        references=("mindformers/pynative/distributed/pipeline_parallel.py",),
    )
)
@applies((Dialect.PYNATIVE,), training=True)
def schedule_interleaving(plan: Plan) -> Iterator[Finding]:
    _stages(plan)
    schedule, chunks = plan.parallel.scheduler, plan.parallel.interleave
    (number,) = need(chunks)
    word = schedule.words.lower()
    if (word == "1f1b" and number > 1) or (word == "interleaved_1f1b" and number == 1):
        other = "interleaved_1f1b" if number > 1 else "1f1b"
        yield schedule_interleaving.finding(
            evidence=seen(plan, *_given(schedule), chunks, expected=other),
            fixes=(change(plan, schedule, other),),
            schedule=word,
            chunks=number,
        )


@check(
    Rule(
        id="CFG-PIP-019",
        name="layers-per-stage-mismatch",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text(
            "pipeline_parallel_layers_per_stage does not fit the stages",
            "pipeline_parallel_layers_per_stage 与阶段数不匹配",
        ),
        why=Text(
            "PyNative wants one text per stage, such as '0-7', or one range per chunk, '0-3, 16-19', that cover every layer once.",
            "PyNative 要求每个阶段一个字符串，如 '0-7'；交错时每个分块一个区间，如 '0-3, 16-19'，且覆盖每一层恰好一次。",
        ),
        fix=Text("Write one entry for every stage, or auto.", "为每个阶段写一项，或写 auto。"),
        references=("mindformers/pynative/distributed/pipeline_parallel.py PipelineLayerSetting",),
    )
)
@applies((Dialect.PYNATIVE,), training=True)
def layers_per_stage(plan: Plan) -> Iterator[Finding]:
    stages = _stages(plan)
    value = plan.parallel.offset
    if not value.is_sequence:
        if value.given and value.value is not None and value.words != "auto":
            yield layers_per_stage.finding(
                evidence=seen(plan, value, expected="auto or a list"), fixes=(change(plan, value, "auto"),)
            )
        return
    if len(value.sequence) != stages:
        count = len(value.sequence)
        yield layers_per_stage.finding(
            because(layers_per_stage, f"{count} entries for {stages} stages.", f"{count} 项，而阶段数为 {stages}。"),
            evidence=seen(plan, value, plan.parallel.pipeline, expected=f"{stages} entries"),
            fixes=(change(plan, value, "auto"),),
        )
