"""Learning-rate schedule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from doctor.check import Skip, check
from doctor.checks.config.judge import MINDFORMERS, RUNS, applies, because, change, remove, seen, shown
from doctor.checks.config.rates import learning_rate
from doctor.finding import Finding, Severity, Text
from doctor.plan.plan import Dialect, Plan
from doctor.rule import Rule

_LR = "mindformers/core/lr/lr_schedule.py"
#: schedules that refuse an end at or above the start
_MUST_FALL = frozenset(("PolynomialWithWarmUpLR", "polynomial", "WarmUpStableDecayLR"))


@check(
    Rule(
        id="CFG-LRS-001",
        name="end-rate-above-start",
        severity=Severity.ERROR,
        category="config",
        title=Text("The learning rate ends higher than it starts", "学习率的终值高于初值"),
        why=Text(
            "A decay that rises is a slip; polynomial and warm-up-stable-decay schedules refuse it.",
            "衰减反而上升通常是笔误；多项式和 WSD 调度会报错。",
        ),
        fix=Text("Use 0 or a tenth of the start.", "使用 0 或初值的十分之一。"),
        references=(_LR,),
        false_positives=Text(
            "An end equal to the start is a constant rate for cosine and constant schedules.",
            "余弦和常数调度中终值等于初值即为常数学习率。",
        ),
    )
)
@applies(RUNS, training=True)
def end_above_start(plan: Plan) -> Iterator[Finding]:
    end, start = plan.schedule.end, learning_rate(plan)
    first, last = start.number, end.number
    # A start that is no rate at all is CFG-OPT-006.
    if not end.given or first is None or last is None or first <= 0:
        return
    refused = plan.schedule.type.words in _MUST_FALL and last >= first and plan.dialect.graph
    if last > first or (refused and last == first and first > 0):
        yield end_above_start.finding(
            because(
                end_above_start, f"{end.name} {last:g} against {first:g}.", f"{end.name} {last:g}，初值 {first:g}。"
            ),
            evidence=seen(plan, end, start, expected=f"below {first:g}"),
            fixes=(change(plan, end, float(f"{first / 10:.6g}")),),
        )


@check(
    Rule(
        id="CFG-LRS-002",
        name="warm-up-longer-than-run",
        severity=Severity.ERROR,
        category="config",
        title=Text(
            "The warm-up of {warmup} steps is longer than the run of {total}", "预热 {warmup} 步超过总步数 {total}"
        ),
        why=Text(
            "The full rate is never reached and the decay never starts.", "学习率永远到不了设定值，也不会开始衰减。"
        ),
        fix=Text("Warm up for 1 to 10 % of the run.", "预热步数取总步数的 1% 到 10%。"),
    )
)
@applies(RUNS, training=True)
def warmup_beyond(plan: Plan) -> Iterator[Finding]:
    steps, total = plan.schedule.warmup_steps, total_steps(plan)
    if steps.whole is None or total is None or not steps.given:
        raise Skip(Text("warm-up or total steps are not in the file", "文件中没有预热步数或总步数"))
    value = plan.schedule.total_steps if plan.schedule.total_steps.count else plan.schedule.steps
    if steps.whole > total:
        yield warmup_beyond.finding(
            evidence=seen(plan, steps, *([value] if value.given else []), expected=f"at most {total // 10 or 1}"),
            fixes=(change(plan, steps, max(total // 100, 1)),),
            warmup=steps.whole,
            total=total,
        )


def total_steps(plan: Plan) -> Optional[int]:
    """Steps of the schedule or of the run, when the file fixes them."""
    return plan.schedule.total_steps.count or (plan.schedule.steps.count if plan.schedule.steps.given else None)


@check(
    Rule(
        id="CFG-LRS-003",
        name="warm-up-ratio-out-of-range",
        severity=Severity.ERROR,
        category="config",
        title=Text("warmup_ratio {value} is not in [0, 1]", "warmup_ratio {value} 不在 [0, 1] 内"),
        why=Text(
            "It is the share of all steps: `The warmup_ratio's value range must be in [0,1]`.",
            "它是总步数的比例：`The warmup_ratio's value range must be in [0,1]`。",
        ),
        fix=Text("Use 0.01 to 0.1.", "使用 0.01 到 0.1。"),
        references=(f"{_LR} _get_lr_steps",),
    )
)
@applies(RUNS, training=True)
def warmup_ratio(plan: Plan) -> Iterator[Finding]:
    value = plan.schedule.warmup_ratio
    if value.given and value.number is not None and not 0 <= value.number <= 1:
        yield warmup_ratio.finding(
            evidence=seen(plan, value, expected="0 to 1"), fixes=(change(plan, value, 0.03),), value=shown(value)
        )


@check(
    Rule(
        id="CFG-LRS-004",
        name="warm-up-too-long",
        severity=Severity.WARNING,
        category="loss-not-converging",
        title=Text("{share:.0%} of the run is warm-up", "预热占总步数的 {share:.0%}"),
        why=Text(
            "Usual are 1 to 10 %: a longer warm-up wastes the run at a low rate.",
            "常用 1% 到 10%：过长会在低学习率上浪费训练。",
        ),
        fix=Text("Use 0.03.", "使用 0.03。"),
    )
)
@applies(RUNS, training=True)
def warmup_long(plan: Plan) -> Iterator[Finding]:
    value = plan.schedule.warmup_ratio
    number = value.number
    if value.given and number is not None and 0.3 < number <= 1:
        yield warmup_long.finding(
            evidence=seen(plan, value, expected="0.01 to 0.1"), fixes=(change(plan, value, 0.03),), share=number
        )


@check(
    Rule(
        id="CFG-LRS-005",
        name="warm-up-given-twice",
        severity=Severity.WARNING,
        category="config",
        title=Text("warmup_ratio takes the place of warmup_steps", "warmup_ratio 会覆盖 warmup_steps"),
        why=Text("When both are given the ratio wins.", "两者同时给出时以比例为准。"),
        fix=Text("Keep one of the two.", "只保留其中一个。"),
        references=(f"{_LR} _get_lr_steps",),
    )
)
@applies(RUNS, training=True)
def warmup_twice(plan: Plan) -> Iterator[Finding]:
    ratio, steps = plan.schedule.warmup_ratio, plan.schedule.warmup_steps
    # A ratio of 0 takes no place in our own trainer; in MindFormers it does.
    if ratio.given and steps.given and steps.whole and (ratio.number or (ratio.number == 0 and plan.dialect.graph)):
        yield warmup_twice.finding(
            evidence=seen(plan, steps, ratio),
            fixes=(remove(plan, steps),),
            severity=Severity.ERROR if plan.dialect is Dialect.TRAINER and ratio.number else None,
        )


@check(
    Rule(
        id="CFG-LRS-006",
        name="warm-up-steps-negative",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} is {value}", "{key} 为 {value}"),
        why=Text(
            "Steps and epochs of warm-up are whole numbers from 0: `must be >= 0`.",
            "预热的步数与轮数为不小于 0 的整数：`must be >= 0`。",
        ),
        fix=Text("Use 0 or more.", "使用 0 或更大的整数。"),
        references=(f"{_LR} _get_lr_steps", "mindformers/trainer/base_trainer.py create_lr_scheduler"),
    )
)
@applies(RUNS, training=True)
def warmup_negative(plan: Plan) -> Iterator[Finding]:
    for value in (plan.schedule.warmup_steps, plan.schedule.warmup_epochs):
        if value.given and value.number is not None and (value.number < 0 or value.whole is None):
            yield warmup_negative.finding(
                evidence=seen(plan, value, expected=">= 0"),
                fixes=(change(plan, value, 0),),
                key=value.key,
                value=shown(value),
            )


@check(
    Rule(
        id="CFG-LRS-007",
        name="total-steps-invalid",
        severity=Severity.ERROR,
        category="config",
        title=Text("total_steps {value} is neither -1 nor above zero", "total_steps {value} 既不是 -1 也不大于 0"),
        why=Text(
            "-1 takes the steps of the data set; 0 or another negative number decays to the end at once.",
            "-1 表示取数据集的步数；0 或其他负数会立即衰减到终值。",
        ),
        fix=Text("Use -1.", "使用 -1。"),
    )
)
@applies(MINDFORMERS, training=True)
def total_invalid(plan: Plan) -> Iterator[Finding]:
    value = plan.schedule.total_steps
    if value.given and value.number is not None and value.whole != -1 and (value.number < 1 or value.whole is None):
        yield total_invalid.finding(
            evidence=seen(plan, value, expected="-1, or >= 1"), fixes=(change(plan, value, -1),), value=shown(value)
        )


@check(
    Rule(
        id="CFG-LRS-008",
        name="warm-up-starts-above-rate",
        severity=Severity.WARNING,
        category="config",
        title=Text("The warm-up starts at {value}, above the learning rate", "预热起点 {value} 高于学习率"),
        why=Text("A warm-up rises from a low rate; this one falls.", "预热应从低学习率上升，此处却是下降。"),
        fix=Text("Use 0.", "使用 0。"),
    )
)
@applies(RUNS, training=True)
def warmup_start(plan: Plan) -> Iterator[Finding]:
    value, rate = plan.schedule.warmup_start, learning_rate(plan)
    start, top = value.number, rate.number
    if value.given and start is not None and top is not None and (start > top or start < 0) and top > 0:
        yield warmup_start.finding(
            evidence=seen(plan, value, rate, expected=f"0 to {top:g}"),
            fixes=(change(plan, value, 0.0),),
            severity=Severity.ERROR if start < 0 else None,
            value=shown(value),
        )


@check(
    Rule(
        id="CFG-LRS-009",
        name="schedule-shorter-than-run",
        severity=Severity.WARNING,
        category="loss-not-converging",
        title=Text(
            "The schedule ends at step {total}, the run at {steps}", "学习率在第 {total} 步结束，而训练到第 {steps} 步"
        ),
        why=Text(
            "After its end the rate stays at its lowest value: the rest of the run learns little.",
            "结束后学习率一直停在最低值，后面的训练收效甚微。",
        ),
        fix=Text("Use -1, or the steps of the run.", "使用 -1，或训练总步数。"),
    )
)
@applies((Dialect.PYNATIVE,), training=True)
def schedule_short(plan: Plan) -> Iterator[Finding]:
    total, steps = plan.schedule.total_steps, plan.schedule.steps
    if total.count and steps.count and total.count < steps.count:
        yield schedule_short.finding(
            evidence=seen(plan, total, *([steps] if steps.given else []), expected="-1"),
            fixes=(change(plan, total, -1),),
            total=total.count,
            steps=steps.count,
        )


@check(
    Rule(
        id="CFG-LRS-010",
        name="negative-end-rate",
        severity=Severity.ERROR,
        category="config",
        title=Text("The learning rate ends at {value}", "学习率终值为 {value}"),
        why=Text("A negative rate climbs the loss.", "负学习率会使损失上升。"),
        fix=Text("Use 0.", "使用 0。"),
    )
)
@applies(RUNS, training=True)
def end_negative(plan: Plan) -> Iterator[Finding]:
    value = plan.schedule.end
    if value.given and value.number is not None and value.number < 0:
        yield end_negative.finding(
            evidence=seen(plan, value, expected=">= 0"), fixes=(change(plan, value, 0.0),), value=shown(value)
        )
