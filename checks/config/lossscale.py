"""The loss scale: against the dtype, its values, its steps, and the guard that drops what overflows."""

from __future__ import annotations

import math
from collections.abc import Iterator

from doctor.check import Skip, check
from doctor.checks.config.judge import (
    GRAPH,
    RUNS,
    applies,
    change,
    seen,
    shown,
)
from doctor.checks.config.precision import uses
from doctor.finding import Finding, Severity, Text
from doctor.plan.plan import Dialect, Plan
from doctor.rule import Rule


@check(
    Rule(
        id="CFG-PRC-003",
        name="loss-scale-useless-with-bfloat16",
        severity=Severity.INFO,
        category="config",
        title=Text("A dynamic loss scale with bfloat16", "bfloat16 搭配了动态 loss scale"),
        why=Text(
            "bfloat16 has the range of float32: nothing underflows, the scale only costs a check a step.",
            "bfloat16 与 float32 动态范围相同，不会下溢，缩放只多一次检查。",
        ),
        fix=Text("Set scale_sense: 1.0.", "设置 scale_sense: 1.0。"),
    )
)
@applies(RUNS, training=True)
def scale_with_bfloat(plan: Plan) -> Iterator[Finding]:
    value, scale = uses(plan, "bfloat16"), plan.precision.loss_scale
    if value is not None and scale.is_mapping and scale.given:
        yield scale_with_bfloat.finding(
            evidence=seen(plan, scale, value, expected="1.0"), fixes=(change(plan, scale, 1.0),)
        )


@check(
    Rule(
        id="CFG-PRC-004",
        name="float16-without-loss-scale",
        severity=Severity.WARNING,
        category="nan-overflow",
        title=Text("float16 with a loss scale of {value}", "float16 训练的 loss scale 为 {value}"),
        why=Text(
            "Small gradients underflow to zero in float16: the loss flattens, or turns NaN after a spike.",
            "float16 下小梯度会下溢为零：损失变平，或在尖峰后变 NaN。",
        ),
        fix=Text(
            "Use DynamicLossScaleUpdateCell (or bfloat16 where the chip has it).",
            "使用 DynamicLossScaleUpdateCell（芯片支持时用 bfloat16）。",
        ),
    )
)
@applies(RUNS, training=True)
def float16_without_scale(plan: Plan) -> Iterator[Finding]:
    value, scale = uses(plan, "float16"), plan.precision.loss_scale
    if value is None:
        raise Skip(Text("float16 is not used", "未使用 float16"))
    number = scale.number
    if scale.given and number is not None and 0 < number < 128:
        dynamic = {
            "type": "DynamicLossScaleUpdateCell",
            "loss_scale_value": 65536,
            "scale_factor": 2,
            "scale_window": 1000,
        }
        yield float16_without_scale.finding(
            evidence=seen(plan, scale, value, expected="a dynamic scale from 65536"),
            fixes=(change(plan, scale, dynamic),),
            value=shown(scale),
        )


@check(
    Rule(
        id="CFG-PRC-005",
        name="loss-scale-invalid",
        severity=Severity.ERROR,
        category="nan-overflow",
        title=Text("{key} {value} is no usable loss scale", "{key} 为 {value}，不是可用的 loss scale"),
        why=Text(
            "The scale multiplies the loss: zero erases every gradient, a negative one reverses them, above 2^32 float16 overflows at once.",
            "loss scale 与损失相乘：零会抹掉所有梯度，负数会反向，超过 2^32 会立即溢出。",
        ),
        fix=Text("Start at 65536.", "从 65536 开始。"),
    )
)
@applies(RUNS, training=True)
def loss_scale(plan: Plan) -> Iterator[Finding]:
    scale = plan.precision.loss_scale
    for value in (scale, scale.get("loss_scale_value"), scale.get("init_loss_scale")):
        number = value.number
        if value.given and number is not None and not 0 < number <= 2.0**40:
            yield loss_scale.finding(
                evidence=seen(plan, value, expected="above 0, usually 65536"),
                fixes=(change(plan, value, 65536),),
                key=value.key,
                value=shown(value),
            )


@check(
    Rule(
        id="CFG-PRC-006",
        name="loss-scale-steps-invalid",
        severity=Severity.ERROR,
        category="nan-overflow",
        title=Text("{key} {value} lets the scale get stuck", "{key} 为 {value}，loss scale 无法正常调整"),
        why=Text(
            "On overflow the scale is divided by scale_factor, after scale_window good steps multiplied: the factor must be above 1, the window 1 or more.",
            "溢出时除以 scale_factor，连续 scale_window 步正常后乘以它：因子必须大于 1，窗口至少为 1。",
        ),
        fix=Text("Use factor 2, window 1000.", "使用因子 2、窗口 1000。"),
    )
)
@applies(RUNS, training=True)
def scale_steps(plan: Plan) -> Iterator[Finding]:
    scale = plan.precision.loss_scale
    factor, window = scale.get("scale_factor"), scale.get("scale_window")
    if factor.number is not None and factor.number <= 1:
        still = factor.number == 1
        fixed = Severity.WARNING if uses(plan, "float16") else Severity.INFO
        yield scale_steps.finding(
            evidence=seen(plan, factor, expected=2),
            fixes=(change(plan, factor, 2),),
            severity=fixed if still else None,
            key=factor.key,
            value=shown(factor),
        )
    if window.number is not None and window.number < 1:
        yield scale_steps.finding(
            evidence=seen(plan, window, expected=1000),
            fixes=(change(plan, window, 1000),),
            key=window.key,
            value=shown(window),
        )


@check(
    Rule(
        id="CFG-PRC-012",
        name="loss-scale-not-a-power-of-two",
        severity=Severity.INFO,
        category="nan-overflow",
        title=Text("loss scale {value} is no power of two", "loss scale {value} 不是 2 的幂"),
        why=Text(
            "Dividing by a power of two is exact; other scales round every gradient.",
            "除以 2 的幂没有误差，其他数会让每个梯度产生舍入。",
        ),
        fix=Text("Use {near}.", "使用 {near}。"),
    )
)
@applies(RUNS, training=True)
def power_of_two(plan: Plan) -> Iterator[Finding]:
    scale = plan.precision.loss_scale
    for value in (scale, scale.get("loss_scale_value")):
        number = value.number
        if value.given and number is not None and 1 < number <= 2.0**40 and not math.log2(number).is_integer():
            near = 2 ** round(math.log2(number))
            yield power_of_two.finding(
                evidence=seen(plan, value, expected=near),
                fixes=(change(plan, value, near),),
                value=shown(value),
                near=near,
            )


@check(
    Rule(
        id="CFG-PRC-014",
        name="overflow-not-guarded",
        severity=Severity.WARNING,
        category="nan-overflow",
        title=Text("An overflowing step still updates the weights", "溢出的步仍会更新权重"),
        why=Text(
            "Without the check a gradient of infinity goes into the weights: one overflow and everything is NaN.",
            "没有溢出检查，无穷大的梯度会写入权重：一次溢出就全部变成 NaN。",
        ),
        fix=Text("Let overflowing steps be skipped, and use a dynamic scale.", "跳过溢出的步，并使用动态 loss scale。"),
    )
)
@applies((*GRAPH, Dialect.TRAINER), training=True)
def overflow_guard(plan: Plan) -> Iterator[Finding]:
    scale = plan.precision.loss_scale
    half = uses(plan, "float16") is not None or (
        plan.dialect is Dialect.TRAINER and plan.precision.level.words.upper() in {"O1", "O2", "O3", "FP16", "FLOAT16"}
    )
    for value in (scale.get("drop_overflow_update"), plan.root.get("runner_wrapper", "enable_check_overflow")):
        if value.value is False and value.given and half:
            yield overflow_guard.finding(evidence=seen(plan, value, expected=True), fixes=(change(plan, value, True),))
