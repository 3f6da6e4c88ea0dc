"""Checkpoints that are saved, and the callbacks that save them."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import check
from doctor.checks.config.judge import (
    GRAPH,
    MINDFORMERS,
    RUNS,
    applies,
    because,
    change,
    remove,
    seen,
    shown,
)
from doctor.finding import Finding, Severity, Text
from doctor.plan.plan import Dialect, Plan
from doctor.rule import Rule

TRAINER = "mindformers/trainer/trainer.py"


BASE_TRAINER = "mindformers/trainer/base_trainer.py"


@check(
    Rule(
        id="CFG-CKP-004",
        name="save-interval-not-positive",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} is {value}", "{key} 为 {value}"),
        why=Text(
            "It counts steps between two checkpoints: a whole number from 1.",
            "它表示两次保存之间的步数：从 1 开始的整数。",
        ),
        fix=Text("Use 500.", "使用 500。"),
    )
)
@applies(RUNS, training=True)
def interval_positive(plan: Plan) -> Iterator[Finding]:
    value = plan.checkpoint.save_steps
    low = 0 if plan.dialect is Dialect.TRAINER or plan.checkpoint.saver.get("save_checkpoint_seconds").count else 1
    if value.given and value.number is not None and (value.number < low or value.whole is None):
        yield interval_positive.finding(
            evidence=seen(plan, value, expected=f">= {low}"),
            fixes=(change(plan, value, 500),),
            key=value.key,
            value=shown(value),
        )


@check(
    Rule(
        id="CFG-CKP-005",
        name="checkpoint-every-step",
        severity=Severity.WARNING,
        category="disk-io",
        title=Text("A checkpoint is saved every {steps} steps", "每 {steps} 步就保存一次权重"),
        why=Text(
            "Saving a large model takes minutes: training waits for the disk and the disk fills. CheckpointMonitor saves every step when the interval is left out.",
            "保存大模型需数分钟：训练会等待磁盘，磁盘也会写满。不写间隔时 CheckpointMonitor 每步都保存。",
        ),
        fix=Text("Save every 500 steps or more.", "每 500 步或更久保存一次。"),
    )
)
@applies(RUNS, training=True)
def every_step(plan: Plan) -> Iterator[Finding]:
    saver, value = plan.checkpoint.saver, plan.checkpoint.save_steps
    if (
        not saver.given
        or saver.get("save_checkpoint_seconds").count
        or saver.get("keep_checkpoint_per_n_minutes").count
    ):
        return
    steps = value.whole if value.given else 1 if plan.dialect.graph and saver.key.startswith("callbacks") else None
    whole = plan.schedule.total_steps.count or (plan.schedule.steps.count if plan.schedule.steps.given else None)
    short = whole is not None and whole <= 100
    if steps is not None and 0 < steps < 10 and not short:
        yield every_step.finding(
            evidence=seen(plan, value if value.given else saver, expected="500 or more"),
            fixes=(change(plan, value, 500),),
            steps=steps,
        )


@check(
    Rule(
        id="CFG-CKP-006",
        name="kept-count-not-positive",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} is {value}", "{key} 为 {value}"),
        why=Text(
            "It counts checkpoints to keep: 0 or less keeps none (or all), never what was meant.",
            "它表示保留的权重个数：≤ 0 会一个不留（或全部保留），都不是本意。",
        ),
        fix=Text("Use 3.", "使用 3。"),
    )
)
@applies(RUNS, training=True)
def kept_positive(plan: Plan) -> Iterator[Finding]:
    value = plan.checkpoint.keep
    if value.given and value.number is not None and (value.number < 1 or value.whole is None):
        yield kept_positive.finding(
            evidence=seen(plan, value, expected=">= 1"),
            fixes=(change(plan, value, 3),),
            key=value.key,
            value=shown(value),
        )


@check(
    Rule(
        id="CFG-CKP-007",
        name="many-checkpoints-kept",
        severity=Severity.INFO,
        category="disk-io",
        title=Text("{count} checkpoints are kept", "保留 {count} 份权重"),
        why=Text(
            "Each holds weights and optimizer states, 12 to 16 bytes a parameter: a 7B model takes about 80 GB a copy.",
            "每份含权重与优化器状态，每参数 12 到 16 字节：7B 模型每份约 80 GB。",
        ),
        fix=Text("Keep 3, and copy the ones to archive.", "保留 3 份，需要归档的另行拷贝。"),
    )
)
@applies(RUNS, training=True)
def many_kept(plan: Plan) -> Iterator[Finding]:
    value = plan.checkpoint.keep
    if value.given and (value.count or 0) >= 50:
        yield many_kept.finding(
            evidence=seen(plan, value, expected=3),
            fixes=(change(plan, value, 3),),
            # Hundreds are kept on purpose by those who train for months; thousands by a slip.
            severity=Severity.WARNING if (value.count or 0) > 1000 else None,
            count=value.count,
        )


@check(
    Rule(
        id="CFG-CKP-008",
        name="nothing-is-saved",
        severity=Severity.WARNING,
        category="ckpt-format",
        title=Text("The run saves no checkpoint", "训练不保存任何权重"),
        why=Text(
            "callbacks has no CheckpointMonitor (or saving is switched off): whatever happens, the work is lost.",
            "callbacks 中没有 CheckpointMonitor（或关闭了保存）：一旦中断，全部白训。",
        ),
        fix=Text(
            "Add a CheckpointMonitor with save_checkpoint_steps.",
            "添加 CheckpointMonitor 并设置 save_checkpoint_steps。",
        ),
    )
)
@applies(MINDFORMERS, training=True, complete=True)
def nothing_saved(plan: Plan) -> Iterator[Finding]:
    saver = plan.checkpoint.saver
    if saver.given or not plan.optimizer.section.mapping:
        return
    callbacks = plan.context.callbacks
    if plan.dialect is Dialect.PYNATIVE:
        place = plan.root.get("checkpoint", "enable_save")
        custom = any("heckpoint" in item.get("type").words for item in callbacks.sequence)
        severity = Severity.INFO
    else:
        place = callbacks
        custom = any(
            "heckpoint" in item.get("type").words or "ckpt" in item.get("type").words.lower()
            for item in callbacks.sequence
        )
        severity = Severity.WARNING
    if custom:
        return
    if plan.dialect is Dialect.PYNATIVE:
        yield nothing_saved.finding(
            Text(
                "checkpoint.enable_save is not on: whatever happens, the work is lost.",
                "checkpoint.enable_save 未打开：一旦中断，全部白训。",
            ),
            evidence=seen(plan, place, expected=True),
            fixes=(change(plan, place, True),),
            severity=severity,
        )
    else:
        yield nothing_saved.finding(evidence=seen(plan, place, expected="type: CheckpointMonitor"), severity=severity)


@check(
    Rule(
        id="CFG-CKP-013",
        name="prefix-contains-rank",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text("The checkpoint prefix {value} contains 'rank'", "权重前缀 {value} 中含有 'rank'"),
        why=Text(
            "File names carry rank_N of their own; MindFormers refuses a prefix that would confuse them.",
            "文件名自带 rank_N，含 rank 的前缀会混淆，MindFormers 会报错。",
        ),
        fix=Text("Use a name without it.", "换一个不含 rank 的名称。"),
        references=(f"{TRAINER} _error_if_checkpoint_prefix_contains_rank_info",),
    )
)
@applies(GRAPH, training=True)
def prefix_rank(plan: Plan) -> Iterator[Finding]:
    value = plan.checkpoint.prefix
    if "rank" in value.words:
        new = value.words.replace("rank", "").strip("_-") or "model"
        yield prefix_rank.finding(
            evidence=seen(plan, value, expected=new),
            fixes=(change(plan, value, new, safe=True),),
            severity=None if plan.release.since("1.3.0") else Severity.WARNING,
            value=shown(value),
        )


@check(
    Rule(
        id="CFG-CKP-016",
        name="two-checkpoint-savers",
        severity=Severity.WARNING,
        category="config",
        title=Text("callbacks lists {name} {count} times", "callbacks 中 {name} 出现 {count} 次"),
        why=Text(
            "Each one acts: lines are printed twice, checkpoints written twice.",
            "每个都会生效：日志打两遍，权重存两份。",
        ),
        fix=Text("Keep one.", "只保留一个。"),
        references=(f"{TRAINER} add_callback",),
    )
)
@applies(MINDFORMERS, training=True)
def callback_twice(plan: Plan) -> Iterator[Finding]:
    once = {"MFLossMonitor", "CheckpointMonitor", "CheckpointMointor", "SummaryMonitor", "ObsMonitor", "ProfileMonitor"}
    names = [item.get("type") for item in plan.context.callbacks.sequence]
    for name in sorted(once):
        found = [value for value in names if value.words == name]
        if len(found) > 1:
            yield callback_twice.finding(
                evidence=seen(plan, found[1], found[0], expected="once"), name=name, count=len(found)
            )


@check(
    Rule(
        id="CFG-CKP-017",
        name="integrated-save-ignored",
        severity=Severity.INFO,
        category="ckpt-format",
        title=Text(
            "integrated_save: True is set to False in automatic parallel",
            "自动并行下 integrated_save: True 会被置为 False",
        ),
        why=Text(
            "Each rank saves its own slices; merge them later with the strategy files.",
            "各 rank 只保存自己的切片，之后用策略文件合并。",
        ),
        fix=Text("Set integrated_save: False.", "设置 integrated_save: False。"),
    )
)
@applies(GRAPH, training=True)
def integrated(plan: Plan) -> Iterator[Finding]:
    value = plan.checkpoint.saver.get("integrated_save")
    if value.on and (plan.parallel.product or 1) > 1 and plan.parallel.enabled.on:
        yield integrated.finding(
            evidence=seen(plan, value, expected=False), fixes=(change(plan, value, False, safe=True),)
        )


@check(
    Rule(
        id="CFG-CKP-018",
        name="health-monitor-needs-model-sizes",
        severity=Severity.ERROR,
        category="config",
        title=Text("The checkpoint health monitor needs {key}", "权重健康监控需要 {key}"),
        why=Text(
            "use_checkpoint_health_monitor watches the embedding: hidden_size and vocab_size must be in the file.",
            "use_checkpoint_health_monitor 监控 embedding，需要 hidden_size 与 vocab_size。",
        ),
        fix=Text("Add it to model.model_config.", "在 model.model_config 中补上。"),
        references=(f"{BASE_TRAINER} create_callbacks",),
    )
)
@applies(GRAPH, training=True)
def health_monitor(plan: Plan) -> Iterator[Finding]:
    value = plan.checkpoint.saver.get("use_checkpoint_health_monitor")
    if not value.on:
        return
    for field in (plan.model.hidden, plan.model.vocabulary):
        if not field.given and not plan.model.pretrained.words:
            yield health_monitor.finding(evidence=seen(plan, value, field), key=field.name)


@check(
    Rule(
        id="CFG-CKP-023",
        name="setting-needs-callback-list",
        severity=Severity.ERROR,
        category="config",
        title=Text("callbacks is not a list", "callbacks 不是列表"),
        why=Text(
            "MindFormers stops: `Expected 'callbacks' in config to be a list`.",
            "MindFormers 会报错：`Expected 'callbacks' in config to be a list`。",
        ),
        fix=Text("Write one `- type: …` an entry.", "每个 callback 写成 `- type: …`。"),
        references=(f"{TRAINER} _error_if_checkpoint_prefix_contains_rank_info",),
    )
)
@applies(MINDFORMERS)
def callbacks_list(plan: Plan) -> Iterator[Finding]:
    value = plan.context.callbacks
    if value.given and value.value is not None and not value.is_sequence:
        yield callbacks_list.finding(
            because(callbacks_list, f"It is {shown(value)}.", f"当前为 {shown(value)}。"),
            evidence=seen(plan, value, expected="a list"),
        )


@check(
    Rule(
        id="CFG-CKP-024",
        name="callback-setting-invalid",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} is {value}", "{key} 为 {value}"),
        why=Text("The callback counts steps with it: a whole number from 1.", "callback 用它计步：从 1 开始的整数。"),
        fix=Text("Use 1.", "使用 1。"),
    )
)
@applies(MINDFORMERS, training=True)
def callback_setting(plan: Plan) -> Iterator[Finding]:
    for item in plan.context.callbacks.sequence:
        for name in ("per_print_times", "log_interval", "step_interval", "detection_interval", "interval_steps"):
            value = item.get(name)
            if value.given and value.value is not None and (value.whole is None or value.whole < 1):
                yield callback_setting.finding(
                    evidence=seen(plan, value, expected=">= 1"),
                    fixes=(change(plan, value, 1),),
                    key=value.key,
                    value=shown(value),
                )
        for name in (
            "integrated_save",
            "async_save",
            "remove_redundancy",
            "save_trainable_params",
            "save_network_params",
        ):
            value = item.get(name)
            if value.given and value.flag is None and value.value is not None:
                yield callback_setting.finding(
                    Text(
                        f"{value.key} is {shown(value)}, not True or False.",
                        f"{value.key} 为 {shown(value)}，不是布尔值。",
                    ),
                    evidence=seen(plan, value, expected="True or False"),
                    fixes=(change(plan, value, False),),
                    key=value.key,
                    value=shown(value),
                )
        for name in ("save_checkpoint_steps", "keep_checkpoint_max"):
            value = item.get(name)
            if value.given and value.number is None and value.value is not None:
                yield callback_setting.finding(
                    evidence=seen(plan, value, expected="a whole number"),
                    fixes=(remove(plan, value, safe=False),),
                    key=value.key,
                    value=shown(value),
                )
