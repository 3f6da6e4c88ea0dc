"""What the run is to do: mode, length, evaluation, prediction, seed."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import check
from doctor.checks.config.following import splits_model
from doctor.checks.config.judge import GRAPH, MINDFORMERS, RUNS, applies, change, changes, seen, shown
from doctor.finding import Finding, Severity, Text
from doctor.plan.plan import Plan
from doctor.rule import Rule


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
                fixes=(change(plan, value, 1 if value is plan.schedule.epochs else _steps_beyond_warm_up(plan)),),
                key=value.key,
                value=shown(value),
            )


def _steps_beyond_warm_up(plan: Plan) -> int:
    return 10 * (plan.schedule.warmup_steps.count or 0) or 1


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
        tensor = plan.parallel.tensor
        wider = (tensor.count or 1) * (data.count or 1)
        pairs = [(data, 1), *([(tensor, wider)] if splits_model(plan, wider, devices=False) else [])]
        yield predict_with_train_model.finding(
            evidence=seen(plan, data, plan.run_mode, expected=1), fixes=(changes(plan, pairs),)
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
