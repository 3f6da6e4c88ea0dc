"""Checkpoints: what is loaded (or silently not), what is saved, how often, in which format, and for how long it is kept."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import Skip, check
from doctor.checks.config.dataset import PLACEHOLDER
from doctor.checks.config.judge import (
    GRAPH,
    MINDFORMERS,
    RUNS,
    advice,
    applies,
    because,
    change,
    listed,
    remove,
    seen,
    shown,
)
from doctor.finding import Finding, Severity, Text
from doctor.plan.plan import Dialect, Plan
from doctor.rule import Rule

_TRAINER = "mindformers/trainer/trainer.py"
_BASE = "mindformers/trainer/base_trainer.py"


def _loads(plan: Plan) -> bool:
    """Whether the file says where weights come from."""
    named = plan.model.section.get("checkpoint_name_or_path").words
    return bool(plan.checkpoint.load.words or named or plan.model.pretrained.words)


@check(
    Rule(
        id="CFG-CKP-001",
        name="resume-without-checkpoint",
        severity=Severity.ERROR,
        category="weights-mismatch",
        title=Text(
            "resume_training is on but load_checkpoint is empty", "打开了 resume_training 但 load_checkpoint 为空"
        ),
        why=Text(
            "There is nothing to resume from: newer releases switch it off with a warning and start from random weights, older ones stop.",
            "没有可续训的权重：新版本会打 warning 并关闭续训、从随机权重开始，旧版本会报错。",
        ),
        fix=Text("Set load_checkpoint to the folder of the last run.", "把 load_checkpoint 设为上次训练的目录。"),
        references=(f"{_TRAINER} _adjust_resume_training_if_ckpt_path_invalid",),
    )
)
@applies(GRAPH, training=True)
def resume_without(plan: Plan) -> Iterator[Finding]:
    resume = plan.checkpoint.resume
    if resume.given and (resume.on or resume.words) and not plan.checkpoint.load.words:
        named = plan.model.section.get("checkpoint_name_or_path").words
        yield resume_without.finding(
            evidence=seen(plan, resume, plan.checkpoint.load, expected="a path in load_checkpoint"),
            fixes=(change(plan, resume, False), advice(plan, "Or set load_checkpoint.", "或设置 load_checkpoint。")),
            severity=Severity.WARNING if named else None,
        )


@check(
    Rule(
        id="CFG-CKP-002",
        name="transform-without-checkpoint",
        severity=Severity.INFO,
        category="weights-mismatch",
        title=Text(
            "auto_trans_ckpt is on but load_checkpoint is empty", "打开了 auto_trans_ckpt 但 load_checkpoint 为空"
        ),
        why=Text(
            "There is nothing to transform: `load_checkpoint should not be empty or None`, unless the launcher passes it.",
            "没有可转换的权重：除非启动命令传入，否则报 `load_checkpoint should not be empty or None`。",
        ),
        fix=Text(
            "Set load_checkpoint, or auto_trans_ckpt: False.", "设置 load_checkpoint，或 auto_trans_ckpt: False。"
        ),
        references=(f"{_TRAINER} _using_checkpoint_name_or_path_if_needed",),
    )
)
@applies(GRAPH)
def transform_without(plan: Plan) -> Iterator[Finding]:
    value = plan.checkpoint.transform
    if value.on and value.given and not _loads(plan):
        yield transform_without.finding(
            evidence=seen(plan, value, plan.checkpoint.load, expected="a path in load_checkpoint"),
            fixes=(change(plan, value, False),),
        )


@check(
    Rule(
        id="CFG-CKP-003",
        name="finetune-without-checkpoint",
        severity=Severity.WARNING,
        category="weights-mismatch",
        title=Text("run_mode is finetune but no checkpoint is given", "run_mode 为 finetune 但没有给出权重"),
        why=Text(
            "Without load_checkpoint fine-tuning starts from random weights and nothing says so; launchers often pass --load_checkpoint.",
            "没有 load_checkpoint 会从随机权重开始微调且没有提示；启动命令常用 --load_checkpoint 传入。",
        ),
        fix=Text("Set load_checkpoint.", "设置 load_checkpoint。"),
    )
)
@applies(GRAPH, training=True, complete=True)
def finetune_without(plan: Plan) -> Iterator[Finding]:
    if plan.run_mode.words == "finetune" and not _loads(plan):
        yield finetune_without.finding(evidence=seen(plan, plan.checkpoint.load, plan.run_mode, expected="a path"))


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
            evidence=seen(plan, value, expected=3), fixes=(change(plan, value, 3),), count=value.count
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
    if not custom:
        yield nothing_saved.finding(evidence=seen(plan, place, expected="type: CheckpointMonitor"), severity=severity)


@check(
    Rule(
        id="CFG-CKP-009",
        name="load-format-unknown",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text("{key} {value} is no checkpoint format", "{key} {value} 不是权重格式"),
        why=Text("Formats are ckpt and safetensors.", "格式只有 ckpt 和 safetensors。"),
        fix=Text("Use safetensors.", "使用 safetensors。"),
    )
)
@applies(GRAPH)
def format_unknown(plan: Plan) -> Iterator[Finding]:
    for value in (plan.checkpoint.load_format, plan.checkpoint.save_format):
        if value.given and value.text is not None and value.words not in {"", "ckpt", "safetensors"}:
            yield format_unknown.finding(
                evidence=seen(plan, value, expected="ckpt or safetensors"),
                fixes=(change(plan, value, "safetensors"),),
                key=value.key,
                value=shown(value),
            )


@check(
    Rule(
        id="CFG-CKP-010",
        name="load-format-against-file",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text(
            "load_checkpoint is a {kind} file, load_ckpt_format says {format}",
            "load_checkpoint 是 {kind} 文件，load_ckpt_format 却为 {format}",
        ),
        why=Text(
            "The loader looks for files of the format and finds none: `no valid checkpoint files found`.",
            "加载器按格式查找文件，找不到即报 `no valid checkpoint files found`。",
        ),
        fix=Text("Set load_ckpt_format: {kind}.", "设置 load_ckpt_format: {kind}。"),
    )
)
@applies(GRAPH)
def format_file(plan: Plan) -> Iterator[Finding]:
    load, written = plan.checkpoint.load, plan.checkpoint.load_format
    suffix = load.words.rpartition(".")[2]
    if (
        suffix in {"ckpt", "safetensors"}
        and written.given
        and written.words in {"ckpt", "safetensors"}
        and suffix != written.words
    ):
        yield format_file.finding(
            evidence=seen(plan, written, load, expected=suffix),
            fixes=(change(plan, written, suffix),),
            kind=suffix,
            format=written.words,
        )


@check(
    Rule(
        id="CFG-CKP-011",
        name="mcore-needs-safetensors",
        severity=Severity.WARNING,
        category="ckpt-format",
        title=Text("mcore models work with safetensors only", "mcore 模型只支持 safetensors"),
        why=Text(
            "With use_legacy: False saving switches to safetensors with a warning, and prediction refuses ckpt: `does not support the weights of ckpt`.",
            "use_legacy: False 时保存会自动改为 safetensors 并打 warning，推理加载 ckpt 会报 `does not support the weights of ckpt`。",
        ),
        fix=Text("Set the format to safetensors.", "把格式设为 safetensors。"),
        references=(f"{_BASE} predict_process",),
    )
)
@applies((Dialect.MCORE,))
def mcore_format(plan: Plan) -> Iterator[Finding]:
    for value in (plan.checkpoint.load_format, plan.checkpoint.save_format):
        if value.given and value.words == "ckpt":
            yield mcore_format.finding(
                evidence=seen(plan, value, expected="safetensors"),
                fixes=(change(plan, value, "safetensors"),),
                severity=Severity.ERROR if value.name == "load_ckpt_format" and not plan.trains else None,
            )


@check(
    Rule(
        id="CFG-CKP-012",
        name="redundancy-removal-needs-safetensors",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text("remove_redundancy with the ckpt format", "ckpt 格式不支持 remove_redundancy"),
        why=Text(
            "MindFormers stops: `The format of checkpoint is ckpt which is not support remove redundancy`.",
            "MindFormers 会报错：`The format of checkpoint is ckpt which is not support remove redundancy`。",
        ),
        fix=Text("Set checkpoint_format: safetensors.", "设置 checkpoint_format: safetensors。"),
        references=(f"{_BASE} create_callbacks",),
    )
)
@applies(GRAPH, training=True)
def redundancy_format(plan: Plan) -> Iterator[Finding]:
    value, written = plan.checkpoint.remove_redundancy, plan.checkpoint.save_format
    if (
        value.on
        and plan.checkpoint.saver.key.startswith("callbacks")
        and written.words in {"", "ckpt"}
        and plan.dialect is Dialect.LEGACY
    ):
        yield redundancy_format.finding(
            evidence=seen(plan, value, written, expected="safetensors"),
            fixes=(change(plan, written, "safetensors"), change(plan, value, False)),
        )


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
        references=(f"{_TRAINER} _error_if_checkpoint_prefix_contains_rank_info",),
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
        id="CFG-CKP-014",
        name="resume-by-file-name",
        severity=Severity.WARNING,
        category="ckpt-format",
        title=Text("resume_training names a file", "resume_training 写成了文件名"),
        why=Text(
            "The form is deprecated, and refused with the new checkpoint format: `must be a boolean value`.",
            "该写法已废弃，新权重格式下会报 `must be a boolean value`。",
        ),
        fix=Text(
            "Set resume_training: True and load_checkpoint to the folder.",
            "设置 resume_training: True，并把 load_checkpoint 设为目录。",
        ),
        references=(f"{_TRAINER} _warn_if_resume_training_is_string",),
    )
)
@applies(GRAPH)
def resume_name(plan: Plan) -> Iterator[Finding]:
    value = plan.checkpoint.resume
    if value.given and value.words:
        word = value.words.lower()
        fixed = word in {"true", "false"}
        yield resume_name.finding(
            evidence=seen(plan, value, expected="True or False"),
            fixes=(change(plan, value, word == "true" if fixed else True),),
            severity=Severity.ERROR if fixed else None,
        )


@check(
    Rule(
        id="CFG-CKP-015",
        name="checkpoint-path-is-a-placeholder",
        severity=Severity.INFO,
        category="weights-mismatch",
        title=Text("The checkpoint path is not filled in: {value}", "权重路径尚未填写：{value}"),
        why=Text(
            "The run stops: `is not existed, please check load_checkpoint`.",
            "会报错退出：`is not existed, please check load_checkpoint`。",
        ),
        fix=Text("Set the path, or pass --load_checkpoint.", "填写路径，或启动时加 --load_checkpoint。"),
    )
)
@applies(RUNS)
def checkpoint_placeholder(plan: Plan) -> Iterator[Finding]:
    for value in (plan.checkpoint.load, plan.model.pretrained):
        if value.words and PLACEHOLDER.search(value.words):
            yield checkpoint_placeholder.finding(
                evidence=seen(plan, value, expected="a path of yours"), value=shown(value)
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
        references=(f"{_TRAINER} add_callback",),
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
        references=(f"{_BASE} create_callbacks",),
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
        id="CFG-CKP-019",
        name="transform-needs-shared-output",
        severity=Severity.INFO,
        category="disk-io",
        title=Text(
            "auto_trans_ckpt on {servers} servers needs a shared output_dir",
            "{servers} 台服务器上使用 auto_trans_ckpt 需要共享的 output_dir",
        ),
        why=Text(
            "One rank writes the transformed weights, the others read them from output_dir; a local folder exists on one server only.",
            "由一个 rank 写出转换后的权重，其他 rank 从 output_dir 读取；本地目录只存在于一台服务器。",
        ),
        fix=Text(
            "Set output_dir to a shared path (export SHARED_PATHS=…).",
            "把 output_dir 设为共享路径（export SHARED_PATHS=…）。",
        ),
        references=(f"{_TRAINER} _validate_auto_trans_ckpt_requirements",),
    )
)
@applies(GRAPH)
def shared_output(plan: Plan) -> Iterator[Finding]:
    value, output = plan.checkpoint.transform, plan.root.get("output_dir")
    devices = plan.devices or plan.parallel.product or 1
    if value.on and value.given and devices > 8 and not output.words.startswith("/") and plan.checkpoint.load.words:
        yield shared_output.finding(
            evidence=seen(plan, value, output, expected="a shared folder"), servers=-(-devices // 8)
        )


@check(
    Rule(
        id="CFG-CKP-020",
        name="adapter-base-checkpoint-missing",
        severity=Severity.ERROR,
        category="weights-mismatch",
        title=Text("save_trainable_only needs base_load_path", "save_trainable_only 需要 base_load_path"),
        why=Text(
            "An adapter alone is no model: PyNative wants the full checkpoint it belongs to.",
            "仅有适配器权重不构成模型，PyNative 需要对应的完整权重。",
        ),
        fix=Text("Set checkpoint.base_load_path.", "设置 checkpoint.base_load_path。"),
        references=("mindformers/pynative/config/config.py CheckpointConfig.__post_init__",),
    )
)
@applies((Dialect.PYNATIVE,), training=True)
def adapter_base(plan: Plan) -> Iterator[Finding]:
    value, base = plan.root.get("checkpoint", "save_trainable_only"), plan.root.get("checkpoint", "base_load_path")
    if value.on and not base.words:
        yield adapter_base.finding(
            evidence=seen(plan, value, base, expected="a path"), fixes=(change(plan, value, False),)
        )


@check(
    Rule(
        id="CFG-CKP-021",
        name="resume-without-optimizer",
        severity=Severity.INFO,
        category="weights-mismatch",
        title=Text("Weights are loaded without the optimizer's states", "加载权重但不加载优化器状态"),
        why=Text(
            "no_load_optim: True starts Adam from zero: right for fine-tuning, a bump in the loss when resuming.",
            "no_load_optim: True 会让 Adam 状态归零：微调正常，续训会出现损失跳变。",
        ),
        fix=Text("Set no_load_optim: False to resume.", "续训请设置 no_load_optim: False。"),
    )
)
@applies(MINDFORMERS, training=True)
def without_optimizer(plan: Plan) -> Iterator[Finding]:
    value, load = plan.root.get("checkpoint", "no_load_optim"), plan.root.get("checkpoint", "load_path")
    if value.on and load.words:
        yield without_optimizer.finding(evidence=seen(plan, value, load))


@check(
    Rule(
        id="CFG-CKP-022",
        name="developer-path-left-in",
        severity=Severity.INFO,
        category="config",
        title=Text("{key} points into someone's home folder", "{key} 指向他人的家目录"),
        why=Text("The path exists on the author's machine only.", "该路径只存在于作者的机器上。"),
        fix=Text("Set a path of yours.", "改成自己的路径。"),
    )
)
@applies(MINDFORMERS)
def developer_path(plan: Plan) -> Iterator[Finding]:
    values = (
        plan.checkpoint.load,
        plan.data.path,
        plan.model.pretrained,
        plan.root.get("processor", "tokenizer", "vocab_file"),
    )
    for value in values:
        if value.words.startswith(("/home/", "/root/", "/Users/")) and "path" not in value.words:
            yield developer_path.finding(evidence=seen(plan, value, expected="a path of yours"), key=value.key)


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
        references=(f"{_TRAINER} _error_if_checkpoint_prefix_contains_rank_info",),
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


@check(
    Rule(
        id="CFG-CKP-025",
        name="two-sources-of-weights",
        severity=Severity.INFO,
        category="config",
        title=Text("Two settings name where weights come from", "有两处设置指定了权重来源"),
        why=Text(
            "load_checkpoint wins over model_config.checkpoint_name_or_path, which is then cleared.",
            "load_checkpoint 优先，model_config.checkpoint_name_or_path 会被清空。",
        ),
        fix=Text("Keep load_checkpoint.", "保留 load_checkpoint。"),
        references=(f"{_TRAINER} _clear_redundant_model_checkpoint_name",),
    )
)
@applies((Dialect.LEGACY,), training=True)
def two_sources(plan: Plan) -> Iterator[Finding]:
    load, named = plan.checkpoint.load, plan.model.section.get("checkpoint_name_or_path")
    if not (load.words and named.words):
        raise Skip(Text("one source of weights at most", "最多一处权重来源"))
    if load.words != named.words and "/" in named.words:
        yield two_sources.finding(evidence=seen(plan, named, load, expected=listed([load.words])))
