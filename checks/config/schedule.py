"""Learning-rate schedule and length of the run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from doctor.check import Skip, check
from doctor.checks.config.judge import GRAPH, MINDFORMERS, RUNS, applies, because, change, remove, seen, shown
from doctor.checks.config.optimizer import learning_rate
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
            fixes=(change(plan, end, first / 10),),
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
    if ratio.given and steps.given and ratio.number is not None and steps.whole:
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


@check(
    Rule(
        id="CFG-RUN-001",
        name="epochs-not-positive",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} {value} trains nothing", "{key} 为 {value}，不会训练"),
        why=Text("A run has one epoch or step at least.", "训练至少要有一轮或一步。"),
        fix=Text("Use 1 or more.", "使用 1 或更大的数。"),
    )
)
@applies(RUNS, training=True)
def epochs_positive(plan: Plan) -> Iterator[Finding]:
    for value in (plan.schedule.epochs, plan.schedule.steps):
        number = value.number
        unlimited = value.name in {"max_steps", "total_steps"} and number in (-1, 0)
        if value.given and number is not None and number <= 0 and not unlimited:
            yield epochs_positive.finding(
                evidence=seen(plan, value, expected=">= 1"),
                fixes=(change(plan, value, 1),),
                key=value.key,
                value=shown(value),
            )


@check(
    Rule(
        id="CFG-RUN-002",
        name="run-mode-unknown",
        severity=Severity.ERROR,
        category="config",
        title=Text("run_mode {value} does not exist", "不存在的 run_mode：{value}"),
        why=Text(
            "MindFormers knows train, finetune, eval and predict (0.x also export, 1.8 and later predict_with_train_model).",
            "MindFormers 支持 train、finetune、eval、predict（0.x 还有 export，1.8 起还有 predict_with_train_model）。",
        ),
        fix=Text("Correct the word.", "改正拼写。"),
        references=("mindformers/core/context/validators.py validate_mf_ctx_run_mode", "run_mindformer.py"),
    )
)
@applies(MINDFORMERS)
def run_mode(plan: Plan) -> Iterator[Finding]:
    from doctor.plan.names import nearest

    value = plan.run_mode
    known = ("train", "finetune", "eval", "predict", "export", "predict_with_train_model")
    if value.given and value.value is not None and value.value not in known:
        hint = nearest(str(value.value), known, 0.5)
        yield run_mode.finding(
            evidence=seen(plan, value, expected=hint or "train"),
            fixes=(change(plan, value, hint),) if hint else None,
            value=shown(value),
        )


@check(
    Rule(
        id="CFG-RUN-003",
        name="evaluation-without-metric",
        severity=Severity.ERROR,
        category="config",
        title=Text("do_eval is on without a metric", "打开了 do_eval 但没有 metric"),
        why=Text(
            "Evaluation during training needs a metric: MindFormers stops.",
            "边训边评需要 metric，否则 MindFormers 会报错。",
        ),
        fix=Text(
            "Add metric: {type: PerplexityMetric}, or set do_eval: False.",
            "添加 metric: {type: PerplexityMetric}，或设置 do_eval: False。",
        ),
        references=("mindformers/trainer/base_trainer.py create_metrics",),
    )
)
@applies(GRAPH, training=True, complete=True)
def eval_metric(plan: Plan) -> Iterator[Finding]:
    value, metric = plan.root.get("do_eval"), plan.root.get("metric")
    if value.on and not metric.given:
        severity = Severity.WARNING if plan.release.since("1.6.0") else None
        yield eval_metric.finding(evidence=seen(plan, value), fixes=(change(plan, value, False),), severity=severity)


@check(
    Rule(
        id="CFG-RUN-004",
        name="evaluation-without-data",
        severity=Severity.ERROR,
        category="dataset",
        title=Text("do_eval is on without eval_dataset", "打开了 do_eval 但没有 eval_dataset"),
        why=Text("There is nothing to evaluate on.", "没有可评测的数据。"),
        fix=Text(
            "Add eval_dataset and eval_dataset_task, or set do_eval: False.",
            "添加 eval_dataset 与 eval_dataset_task，或设置 do_eval: False。",
        ),
    )
)
@applies(GRAPH, training=True, complete=True)
def eval_data(plan: Plan) -> Iterator[Finding]:
    value, data = plan.root.get("do_eval"), plan.root.get("eval_dataset")
    if value.on and not data.mapping and not plan.root.get("eval_dataset_task").mapping:
        yield eval_data.finding(evidence=seen(plan, value), fixes=(change(plan, value, False),))


@check(
    Rule(
        id="CFG-RUN-005",
        name="flash-attention-without-cache",
        severity=Severity.ERROR,
        category="config",
        title=Text("Prediction with flash attention needs use_past", "推理使用 flash attention 时需要 use_past"),
        why=Text(
            "MindFormers 1.5 and later stop: `Flash Attention is incompatible when use_past=False`.",
            "MindFormers 1.5 起会报错：`Flash Attention is incompatible when use_past=False`。",
        ),
        fix=Text("Set use_past: True.", "设置 use_past: True。"),
        references=("mindformers/core/context/validators.py validate_invalid_predict_mode",),
    )
)
@applies(GRAPH, training=False, since="1.6.0")
def flash_without_cache(plan: Plan) -> Iterator[Finding]:
    past, flash = plan.model.section.get("use_past"), plan.model.flash_attention
    if plan.run_mode.words == "predict" and past.value is False and past.given and flash.on:
        yield flash_without_cache.finding(
            evidence=seen(plan, past, flash, expected=True), fixes=(change(plan, past, True),)
        )


@check(
    Rule(
        id="CFG-RUN-006",
        name="train-model-prediction-sizes",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text(
            "predict_with_train_model needs data_parallel 1 and full_batch True",
            "predict_with_train_model 要求 data_parallel 为 1 且 full_batch 为 True",
        ),
        why=Text("MindFormers stops otherwise.", "否则 MindFormers 会报错退出。"),
        fix=Text("Set both.", "同时设置这两项。"),
        references=("mindformers/tools/check_rules.py _check_predict_with_train_model",),
    )
)
@applies(GRAPH)
def predict_with_train_model(plan: Plan) -> Iterator[Finding]:
    if plan.run_mode.words != "predict_with_train_model":
        return
    data, full = plan.parallel.data, plan.parallel.full_batch
    if (data.count or 1) > 1:
        yield predict_with_train_model.finding(
            evidence=seen(plan, data, plan.run_mode, expected=1), fixes=(change(plan, data, 1),)
        )
    if full.value is False and full.given:
        yield predict_with_train_model.finding(
            evidence=seen(plan, full, plan.run_mode, expected=True), fixes=(change(plan, full, True),)
        )


@check(
    Rule(
        id="CFG-RUN-007",
        name="run-mode-missing",
        severity=Severity.INFO,
        category="config",
        title=Text("No run_mode is given", "没有 run_mode"),
        why=Text(
            "The launcher must pass --run_mode, or MindFormers applies the general sections only.",
            "需由启动命令传 --run_mode，否则 MindFormers 只应用通用配置段。",
        ),
        fix=Text("Set run_mode: train.", "设置 run_mode: train。"),
    )
)
@applies(GRAPH, complete=True)
def run_mode_missing(plan: Plan) -> Iterator[Finding]:
    if not plan.run_mode.given:
        yield run_mode_missing.finding(
            evidence=seen(plan, plan.run_mode, expected="train"), fixes=(change(plan, plan.run_mode, "train"),)
        )


@check(
    Rule(
        id="CFG-RUN-008",
        name="run-mode-against-file-name",
        severity=Severity.WARNING,
        category="config",
        title=Text("run_mode is {mode} in a file called {name}", "文件名为 {name}，run_mode 却是 {mode}"),
        why=Text(
            "A prediction file that trains (or the reverse) is usually a copy.",
            "推理文件却在训练（或相反）通常是复制所致。",
        ),
        fix=Text("Set the run_mode that the name says.", "按文件名设置 run_mode。"),
    )
)
@applies(MINDFORMERS)
def run_mode_name(plan: Plan) -> Iterator[Finding]:
    name, mode = plan.document.path.name.lower(), plan.run_mode.words
    predicts = name.startswith("predict") and mode in {"train", "finetune"}
    trains = name.startswith(("pretrain", "finetune")) and mode in {"predict", "eval"}
    if (predicts or trains) and plan.run_mode.given:
        new = "predict" if predicts else "train" if name.startswith("pretrain") else "finetune"
        yield run_mode_name.finding(
            evidence=seen(plan, plan.run_mode, expected=new),
            fixes=(change(plan, plan.run_mode, new),),
            mode=mode,
            name=plan.document.path.name,
        )


@check(
    Rule(
        id="CFG-RUN-009",
        name="seed-missing",
        severity=Severity.ERROR,
        category="config",
        title=Text("seed is null", "seed 为空"),
        why=Text(
            "MindFormers stops: `seed is not set in config, it is None`.",
            "MindFormers 会报错：`seed is not set in config, it is None`。",
        ),
        fix=Text("Set seed: 42.", "设置 seed: 42。"),
        references=("mindformers/trainer/base_trainer.py set_seed",),
    )
)
@applies(GRAPH, training=True)
def seed_missing(plan: Plan) -> Iterator[Finding]:
    value = plan.root.get("seed")
    if value.given and value.value is None:
        yield seed_missing.finding(evidence=seen(plan, value, expected=42), fixes=(change(plan, value, 42),))
