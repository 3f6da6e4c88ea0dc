"""Checkpoints that are loaded: to start from, to resume, to predict with."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import Skip, check
from doctor.checks.config.checkpoint import BASE_TRAINER, TRAINER
from doctor.checks.config.dataset import PLACEHOLDER
from doctor.checks.config.judge import (
    GRAPH,
    MINDFORMERS,
    RUNS,
    advice,
    applies,
    change,
    listed,
    seen,
    shown,
)
from doctor.finding import Finding, Severity, Text
from doctor.plan.plan import Dialect, Plan
from doctor.rule import Rule


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
        references=(f"{TRAINER} _adjust_resume_training_if_ckpt_path_invalid",),
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
        references=(f"{TRAINER} _using_checkpoint_name_or_path_if_needed",),
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
    if not written.given and plan.dialect is Dialect.LEGACY:
        # ckpt is the default of every legacy release, and all that those before 1.4 know
        written = written.or_default("ckpt")
    if suffix in {"ckpt", "safetensors"} and written.words in {"ckpt", "safetensors"} and suffix != written.words:
        yield format_file.finding(
            evidence=seen(plan, written, load, expected=suffix)
            if written.given
            else seen(plan, load, expected=".ckpt"),
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
        references=(f"{BASE_TRAINER} predict_process",),
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
        references=(f"{BASE_TRAINER} create_callbacks",),
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
        references=(f"{TRAINER} _warn_if_resume_training_is_string",),
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
        references=(f"{TRAINER} _validate_auto_trans_ckpt_requirements",),
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
        references=(f"{TRAINER} _clear_redundant_model_checkpoint_name",),
    )
)
@applies((Dialect.LEGACY,), training=True)
def two_sources(plan: Plan) -> Iterator[Finding]:
    load, named = plan.checkpoint.load, plan.model.section.get("checkpoint_name_or_path")
    if not (load.words and named.words):
        raise Skip(Text("one source of weights at most", "最多一处权重来源"))
    if load.words != named.words and "/" in named.words:
        yield two_sources.finding(evidence=seen(plan, named, load, expected=listed([load.words])))
