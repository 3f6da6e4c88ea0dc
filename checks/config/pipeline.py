"""Pipelines: micro-batches, schedules, interleaving."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import Skip, check
from doctor.checks.config.following import splits_layers
from doctor.checks.config.judge import (
    GRAPH,
    MINDFORMERS,
    applies,
    because,
    change,
    changes,
    listed,
    need,
    seen,
    shown,
)
from doctor.finding import Finding, Severity, Text
from doctor.plan.arithmetic import automatic
from doctor.plan.plan import Dialect, Plan
from doctor.plan.value import Value
from doctor.rule import Rule

_NO_STAGES = Text("one stage: no pipeline", "只有一个阶段，没有流水线")


#: schedulers that MindSpore's pipeline_config knows
_SCHEDULERS = ("1f1b", "gpipe", "seqpipe", "seqvpp", "seqsmartvpp", "zero_bubble_v")


_PYNATIVE_SCHEDULES = ("1f1b", "interleaved_1f1b", "gpipe")


def stages_of(plan: Plan, at_least: int = 2) -> int:
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
    stages = stages_of(plan)
    (micro,) = need(plan.parallel.micro_batches)
    if micro < stages:
        value, fewer = plan.parallel.micro_batches, max(micro, 1)
        yield too_few_micro_batches.finding(
            because(
                too_few_micro_batches,
                f"micro_batch_num {micro} < pipeline_stage {stages}.",
                f"micro_batch_num {micro} < pipeline_stage {stages}。",
            ),
            evidence=seen(plan, value, plan.parallel.pipeline, expected=f">= {stages}"),
            fixes=[
                change(plan, value, stages),
                *([change(plan, plan.parallel.pipeline, fewer)] if splits_layers(plan, fewer) else []),
            ],
        )


def interleaved(plan: Plan) -> bool:
    """Whether stages hold several chunks: mcore and PyNative by the number, legacy by the pipeline_config too."""
    if (plan.parallel.interleave.count or 1) == 1:
        return False
    if plan.dialect is Dialect.PYNATIVE:
        return True
    switch = plan.parallel.context_section.get("pipeline_config", "pipeline_interleave")
    return switch.value is True


def settings_of(value: Value) -> tuple[Value, ...]:
    return (value,) if value.given else ()


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
    stages_of(plan)
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
    stages = stages_of(plan)
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
    stages_of(plan)
    schedule, chunks = plan.parallel.scheduler, plan.parallel.interleave
    (number,) = need(chunks)
    word = schedule.words.lower()
    if (word == "1f1b" and number > 1) or (word == "interleaved_1f1b" and number == 1):
        other = "interleaved_1f1b" if number > 1 else "1f1b"
        yield schedule_interleaving.finding(
            evidence=seen(plan, *settings_of(schedule), chunks, expected=other),
            fixes=(change(plan, schedule, other),),
            schedule=word,
            chunks=number,
        )
