"""Learning rates: none, too high, too low, two of them."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import Skip, check
from doctor.checks.config.judge import (
    GRAPH,
    MINDFORMERS,
    RUNS,
    applies,
    change,
    seen,
    shown,
    worded,
)
from doctor.checks.config.optimizer import language_model
from doctor.finding import Finding, Severity, Text
from doctor.plan.plan import Dialect, Plan
from doctor.plan.value import Value
from doctor.rule import Rule

_BASE = "mindformers/trainer/base_trainer.py"


def adapted(plan: Plan) -> bool:
    """Whether only an adapter is trained, or the name of the file's model says so."""
    words = f"{plan.model.name.words} {plan.model.architecture.words}".lower()
    return plan.model.adapter.given or any(word in words for word in ("lora", "ptuning", "prefix", "adapter"))


def learning_rate(plan: Plan) -> Value:
    """The rate that is used: the schedule's, else the optimizer's."""
    return plan.schedule.learning_rate if plan.schedule.learning_rate.given else plan.optimizer.learning_rate


@check(
    Rule(
        id="CFG-OPT-006",
        name="learning-rate-not-positive",
        severity=Severity.ERROR,
        category="config",
        title=Text("The learning rate is {value}", "学习率为 {value}"),
        why=Text("Zero learns nothing, a negative rate climbs the loss.", "为零则学不到，为负则使损失上升。"),
        fix=Text(
            "Pre-training 3e-4, fine-tuning 1e-5 (written 3.e-4, 1.e-5).",
            "预训练 3e-4，微调 1e-5（写作 3.e-4、1.e-5）。",
        ),
    )
)
@applies(RUNS, training=True)
def rate_positive(plan: Plan) -> Iterator[Finding]:
    for value in (plan.schedule.learning_rate, plan.optimizer.learning_rate):
        if value.given and value.number is not None and value.number <= 0:
            used = value.key == learning_rate(plan).key
            yield rate_positive.finding(
                evidence=seen(plan, value, expected="> 0"),
                fixes=(change(plan, value, 3e-4 if plan.pretrains else 1e-5),),
                severity=None if used and value.number < 0 else Severity.WARNING,
                value=shown(value),
            )
        if plan.dialect is Dialect.TRAINER:
            return


@check(
    Rule(
        id="CFG-OPT-007",
        name="learning-rate-too-high",
        severity=Severity.WARNING,
        category="loss-not-converging",
        title=Text("Learning rate {value} is high for {kind}", "学习率 {value} 对{kind}偏高"),
        why=Text(
            "Pre-training uses 3e-4 to 6e-4, fine-tuning 1e-5 to 5e-5, adapters up to 1e-3; far above it the loss spikes or turns NaN.",
            "预训练常用 3e-4 到 6e-4，微调 1e-5 到 5e-5，适配器可到 1e-3；过高会出现损失尖峰或 NaN。",
        ),
        fix=Text("Lower it.", "降低学习率。"),
        false_positives=Text("Adapters (LoRA, p-tuning) take up to 5e-3.", "适配器（LoRA、p-tuning）可到 5e-3。"),
    )
)
@applies(RUNS, training=True)
def rate_high(plan: Plan) -> Iterator[Finding]:
    value = learning_rate(plan)
    number = value.number
    if not value.given or number is None or (not language_model(plan) and number < 0.1):
        raise Skip(Text("no learning rate of a language model", "不是语言模型的学习率"))
    if adapted(plan):
        limit, kind, usual = 1e-2, Text("an adapter", "适配器微调"), 1e-4
    elif plan.pretrains or plan.dialect is Dialect.TRAINER:
        # Small models learn at ten times the rate of large ones.
        small = (plan.model.hidden.count or 4096) < 1024
        limit, kind, usual = 2e-2 if small else 2e-3, Text("pre-training", "预训练"), 3e-4
    else:
        limit, kind, usual = 5e-4, Text("fine-tuning", "微调"), 1e-5
    if number > limit:
        found = rate_high.finding(
            evidence=seen(plan, value, expected=f"about {usual:g}"),
            fixes=(change(plan, value, usual),),
            severity=Severity.ERROR if number >= 0.1 else None,
            value=f"{number:g}",
        )
        yield worded(found, kind=kind)


@check(
    Rule(
        id="CFG-OPT-008",
        name="learning-rate-too-low",
        severity=Severity.INFO,
        category="loss-not-converging",
        title=Text("Learning rate {value} is low for {kind}", "学习率 {value} 对{kind}偏低"),
        why=Text(
            "Pre-training uses 3e-4 to 6e-4, fine-tuning 1e-5 to 5e-5; far below it the loss hardly moves.",
            "预训练常用 3e-4 到 6e-4，微调 1e-5 到 5e-5；过低则损失几乎不动。",
        ),
        fix=Text("Raise it, unless the schedule means it.", "适当提高，除非有意为之。"),
    )
)
@applies(RUNS, training=True)
def rate_low(plan: Plan) -> Iterator[Finding]:
    value = learning_rate(plan)
    number = value.number
    if not value.given or number is None or number <= 0 or not language_model(plan):
        raise Skip(Text("no learning rate of a language model", "不是语言模型的学习率"))
    limit, kind = (1e-6, Text("pre-training", "预训练")) if plan.pretrains else (1e-7, Text("fine-tuning", "微调"))
    if number < limit:
        found = rate_low.finding(
            evidence=seen(plan, value, expected="3e-4 or 1e-5"),
            severity=Severity.WARNING if number < 1e-9 else None,
            value=f"{number:g}",
        )
        yield worded(found, kind=kind)


@check(
    Rule(
        id="CFG-OPT-009",
        name="two-learning-rates",
        severity=Severity.INFO,
        category="config",
        title=Text("optimizer.learning_rate {ours} is not used", "optimizer.learning_rate {ours} 不会被使用"),
        why=Text("lr_schedule.learning_rate wins without a word.", "lr_schedule.learning_rate 优先，且不会提示。"),
        fix=Text("Remove it from the optimizer.", "从 optimizer 中删除。"),
        references=(f"{_BASE} create_optimizer_scheduler",),
    )
)
@applies(GRAPH, training=True)
def two_rates(plan: Plan) -> Iterator[Finding]:
    ours, theirs = plan.optimizer.learning_rate, plan.schedule.learning_rate
    if ours.given and theirs.given and ours.number is not None and ours.number != theirs.number:
        yield two_rates.finding(evidence=seen(plan, ours, theirs, expected=theirs.number), ours=shown(ours))


@check(
    Rule(
        id="CFG-OPT-010",
        name="learning-rate-missing",
        severity=Severity.ERROR,
        category="config",
        title=Text("No learning rate is given", "没有给出学习率"),
        why=Text(
            "Without a schedule MindFormers needs optimizer.learning_rate; a schedule needs its own: `No learning rate specified`.",
            "没有调度策略时需要 optimizer.learning_rate，调度策略自身也需要学习率：`No learning rate specified`。",
        ),
        fix=Text("Set lr_schedule.learning_rate.", "设置 lr_schedule.learning_rate。"),
        references=(f"{_BASE} create_optimizer_scheduler",),
    )
)
@applies(MINDFORMERS, training=True, complete=True)
def rate_missing(plan: Plan) -> Iterator[Finding]:
    schedule, optimizer = plan.schedule, plan.optimizer
    if plan.dialect is Dialect.PYNATIVE:
        if schedule.section.mapping and not schedule.learning_rate.given:
            yield rate_missing.finding(
                Text("PyNative then takes its default, 1e-5.", "PyNative 会使用默认值 1e-5。"),
                evidence=seen(plan, schedule.learning_rate, expected="a number"),
                severity=Severity.WARNING,
            )
        return
    if schedule.grouped.given or not optimizer.section.mapping:
        raise Skip(Text("grouped schedules, or no optimizer", "使用分组学习率，或没有优化器"))
    fields = ("learning_rate", "base_lr")
    has_schedule = bool(schedule.section.mapping)
    if (
        has_schedule
        and not any(schedule.section.get(name).given for name in fields)
        and not optimizer.learning_rate.given
    ):
        yield rate_missing.finding(
            evidence=seen(plan, schedule.learning_rate, expected="a number"),
            fixes=(change(plan, schedule.learning_rate, 3e-4 if plan.pretrains else 1e-5),),
            severity=None if "Warm" in schedule.type.words else Severity.WARNING,
        )
    elif not has_schedule and not optimizer.learning_rate.given:
        default = plan.release.since("1.6.0") and not schedule.section.given
        yield rate_missing.finding(
            evidence=seen(plan, optimizer.learning_rate, expected="a number"),
            fixes=(change(plan, optimizer.learning_rate, 3e-4 if plan.pretrains else 1e-5),),
            severity=Severity.WARNING if default else None,
        )
