"""How layers are divided among pipeline stages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from doctor.check import Skip, check
from doctor.checks.config.following import best, leaves_devices
from doctor.checks.config.judge import (
    GRAPH,
    MINDFORMERS,
    RUNS,
    advice,
    applies,
    because,
    change,
    divisors,
    near,
    seen,
)
from doctor.checks.config.pipeline import interleaved, settings_of, stages_of
from doctor.finding import Finding, Fix, Severity, Text
from doctor.plan.arithmetic import pipeline_layers, rows
from doctor.plan.plan import Dialect, Plan
from doctor.rule import Rule


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
    stages = stages_of(plan)
    layers = pipeline_layers(plan)
    if layers is None:
        raise Skip(Text("the number of layers is not in the file", "文件中没有层数"))
    chunks = (plan.parallel.interleave.count or 1) if interleaved(plan) else 1
    if layers < stages * chunks:
        equation = f"{stages} x {chunks} = {stages * chunks}" if chunks > 1 else f"{stages}"
        legal = best(
            [size for size in divisors(layers) if size <= stages],
            lambda option: leaves_devices(plan, plan.parallel.pipeline, option),
        )
        yield more_stages_than_layers.finding(
            because(
                more_stages_than_layers,
                f"{layers} layers < {equation} stages.",
                f"层数 {layers} < 阶段数 {equation}。",
            ),
            evidence=seen(plan, plan.parallel.pipeline, plan.model.layers, expected=f"at most {layers}"),
            fixes=[change(plan, plan.parallel.pipeline, option) for option in near(legal, stages, 1)],
        )


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
    stages = stages_of(plan)
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
    legal = best(
        [size for size in divisors(layers) if size <= 2 * stages],
        lambda option: leaves_devices(plan, plan.parallel.pipeline, option),
    )
    fixes: list[Fix] = []
    if plan.dialect.graph and chunks == 1:
        spread = [1] * rest + [0] * (stages - rest)
        fixes.append(change(plan, plan.parallel.offset, spread))
    fixes.extend(
        change(plan, plan.parallel.pipeline, option)
        for option in near(legal, stages, 1)
        if leaves_devices(plan, plan.parallel.pipeline, option)
    )
    extra = " (with its multi-token prediction layer)" if layers != plan.model.layers.count else ""
    yield layers_not_divisible.finding(
        because(
            layers_not_divisible,
            f"{layers} layers{extra} % {parts} stages = {rest}, and the offset adds up to 0.",
            f"层数 {layers} % 阶段数 {parts} = {rest}，而 offset 之和为 0。",
        ),
        evidence=seen(
            plan,
            *settings_of(offset),
            plan.model.layers,
            plan.parallel.pipeline,
            expected=f"an offset list whose sum is {rest}",
        ),
        fixes=fixes,
        severity=Severity.ERROR
        if plan.dialect is not Dialect.LEGACY or plan.release.since("1.3.0")
        else Severity.WARNING,
    )


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
    stages = stages_of(plan, at_least=1)
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
    if average < 1:  # fewer layers than stages: no list of offsets helps
        return [advice(plan, "Write the offsets anew.", "请重新编写 offset。")]
    repaired = [list(row) for row in offsets] if len(offsets[0]) == stages else [[0] * stages]
    if len(offsets[0]) != stages:
        missing += offsets[0][0]
    flat = [(row, column) for row in range(len(repaired)) for column in range(len(repaired[0]))]
    order = flat if missing > 0 else list(reversed(flat))
    each, rest = divmod(abs(missing), len(order))
    for step, (row, column) in enumerate(order):
        repaired[row][column] += (each + (step < rest)) * (1 if missing > 0 else -1)
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
    stages = stages_of(plan, at_least=1)
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
    stages = stages_of(plan)
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
    stages = stages_of(plan)
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
