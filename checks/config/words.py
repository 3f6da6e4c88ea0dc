"""Words that must name something: variables that nothing expands, files of other frameworks, prefixes, choices."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.check import check
from doctor.checks.config.judge import (
    GRAPH,
    MINDFORMERS,
    RUNS,
    advice,
    applies,
    because,
    change,
    changes,
    quote,
    rename,
    seen,
    shown,
)
from doctor.finding import Evidence, Finding, Severity, Text
from doctor.plan.names import nearest
from doctor.plan.plan import Plan
from doctor.rule import Rule

#: ${NAME}, $(command), $NAME at the beginning, {{ name }}
_VARIABLE = re.compile(r"\$\{\w+[^}]*\}|\$\([^)]*\)|^\$[A-Za-z_]\w*|\{\{\s*\w+\s*\}\}")
#: texts with a language of their own
_TEMPLATES = frozenset(("chat_template", "prompt", "input_data", "prompt_template", "system_prompt"))


@check(
    Rule(
        id="CFG-TYP-017",
        name="variable-not-expanded",
        severity=Severity.WARNING,
        category="config",
        title=Text("{key}: {value} stays as it is written", "{key}：{value} 会原样保留"),
        why=Text(
            "YAML does not expand variables and MindFormers does not either: the value is this very text.",
            "YAML 不会展开变量，MindFormers 也不会：其值就是这段文字本身。",
        ),
        fix=Text("Write the value itself, or make the file with envsubst.", "写出具体值，或用 envsubst 生成该文件。"),
    )
)
@applies(RUNS)
def variable(plan: Plan) -> Iterator[Finding]:
    for value in plan.root.walk():
        if value.text is None or value.name in _TEMPLATES or not _VARIABLE.search(value.text):
            continue
        path = plan.document.path
        yield variable.finding(
            evidence=seen(plan, value, expected="the value itself"),
            fixes=(advice(plan, f"envsubst < {path} > filled.yaml", f"envsubst < {path} > filled.yaml"),),
            key=value.key,
            value=shown(value),
        )


_FOREIGN = {
    "bin": "PyTorch",
    "pt": "PyTorch",
    "pth": "PyTorch",
    "pkl": "pickle",
    "h5": "Keras",
    "onnx": "ONNX",
    "gguf": "llama.cpp",
    "npz": "NumPy",
}


@check(
    Rule(
        id="CFG-CKP-026",
        name="checkpoint-of-another-framework",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text("{key} is a file of {framework}", "{key} 是 {framework} 的文件"),
        why=Text(
            "MindSpore loads .ckpt and .safetensors only: `not support`, or `Failed to read the checkpoint file`.",
            "MindSpore 只能加载 .ckpt 与 .safetensors，否则报 `Failed to read the checkpoint file`。",
        ),
        fix=Text("Convert it first.", "请先转换。"),
    )
)
@applies(MINDFORMERS)
def foreign_checkpoint(plan: Plan) -> Iterator[Finding]:
    for value in (plan.checkpoint.load, plan.model.section.get("checkpoint_name_or_path")):
        stem, _, suffix = value.words.rpartition(".")
        framework = _FOREIGN.get(suffix.lower())
        if framework is None or not stem:
            continue
        yield foreign_checkpoint.finding(
            evidence=seen(plan, value, expected=".safetensors or .ckpt"),
            fixes=(
                advice(
                    plan,
                    f"doctor convert {value.words} OUT.safetensors",
                    f"doctor convert {value.words} OUT.safetensors",
                ),
            ),
            key=value.key,
            framework=framework,
        )


@check(
    Rule(
        id="CFG-CKP-027",
        name="prefix-is-no-file-name",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text("The checkpoint prefix {value} cannot begin a file name", "权重前缀 {value} 不能作为文件名开头"),
        why=Text(
            "The prefix is the beginning of a file's name: a text without '/' (`contains the '/' character`).",
            "前缀是文件名的开头：须为不含“/”的字符串（`contains the '/' character`）。",
        ),
        fix=Text(
            "Use a plain name; the folder is set elsewhere (directory, output_dir).", "用普通名称；目录另行设置。"
        ),
        references=("mindformers/core/callback/callback.py CheckpointMonitor",),
    )
)
@applies(MINDFORMERS, training=True)
def prefix_name(plan: Plan) -> Iterator[Finding]:
    value = plan.checkpoint.prefix
    if not value.given or value.value is None or (value.text is not None and "/" not in value.words):
        return
    new = value.words.rstrip("/").rpartition("/")[2] or "model" if value.text is not None else f"m{value.raw or ''}"
    yield prefix_name.finding(
        evidence=seen(plan, value, expected=new), fixes=(change(plan, value, new),), value=shown(value)
    )


@check(
    Rule(
        id="CFG-DAT-024",
        name="strategy-word-unknown",
        severity=Severity.ERROR,
        category="dataset",
        title=Text("dataset_strategy {value} does not exist", "不存在的 dataset_strategy：{value}"),
        why=Text(
            "It is a list with an entry a column, or one of the words full_batch and data_parallel.",
            "应为每列一项的列表，或 full_batch、data_parallel 之一。",
        ),
        fix=Text("Use full_batch, or a list.", "使用 full_batch，或写成列表。"),
        references=("mindspore/parallel/_auto_parallel_context.py set_dataset_strategy",),
    )
)
@applies(GRAPH, training=True)
def strategy_word(plan: Plan) -> Iterator[Finding]:
    value, full = plan.parallel.dataset_strategy, plan.parallel.full_batch
    if value.text is None or not value.given:
        return
    if value.words not in {"full_batch", "data_parallel"}:
        yield strategy_word.finding(
            evidence=seen(plan, value, expected="full_batch"),
            fixes=(changes(plan, [(value, "full_batch"), *([(full, True)] if full.value is False else [])]),),
            value=shown(value),
        )
    elif value.words == "full_batch" and full.value is False and full.given:
        yield strategy_word.finding(
            Text(
                "full_batch is off: the strategy must then say how each column is cut, [[dp, 1], …].",
                "full_batch 已关闭：此时须写明各列如何切分，即 [[dp, 1], …]。",
            ),
            evidence=seen(plan, value, full, expected="a list"),
            fixes=(change(plan, full, True),),
            severity=Severity.WARNING,
            value=shown(value),
        )


@check(
    Rule(
        id="CFG-DAT-025",
        name="megatron-type-unknown",
        severity=Severity.ERROR,
        category="dataset",
        title=Text("datasets_type {value} does not exist", "不存在的 datasets_type：{value}"),
        why=Text(
            "The Megatron loader knows GPTDataset only: `is not support now, please choose dataset type`.",
            "Megatron 加载器只支持 GPTDataset：`is not support now, please choose dataset type`。",
        ),
        fix=Text("Use GPTDataset.", "使用 GPTDataset。"),
        references=("mindformers/dataset/dataloader/blended_megatron_dataloader.py",),
    )
)
@applies(MINDFORMERS, training=True)
def megatron_type(plan: Plan) -> Iterator[Finding]:
    value = plan.data.loader.get("datasets_type")
    if value.given and "Megatron" in plan.data.loader_type.words and value.words != "GPTDataset":
        yield megatron_type.finding(
            evidence=seen(plan, value, expected="GPTDataset"),
            fixes=(change(plan, value, "GPTDataset"),),
            severity=None if nearest(value.words, ("GPTDataset",), 0.6) else Severity.WARNING,
            value=shown(value),
        )


@check(
    Rule(
        id="CFG-RUN-011",
        name="only-the-strategy-is-saved",
        severity=Severity.WARNING,
        category="config",
        title=Text("only_save_strategy is on: the run trains nothing", "打开了 only_save_strategy：不会进行训练"),
        why=Text(
            "The program compiles, writes the strategy files and ends.", "程序编译后只写出切分策略文件，然后退出。"
        ),
        fix=Text("Set only_save_strategy: False to train.", "训练时请设置 only_save_strategy: False。"),
        references=("mindformers/trainer/base_trainer.py training_process",),
    )
)
@applies(GRAPH, training=True)
def only_strategy(plan: Plan) -> Iterator[Finding]:
    value = plan.root.get("only_save_strategy")
    if value.on:
        yield only_strategy.finding(
            because(only_strategy, "only_save_strategy: True.", "only_save_strategy: True。"),
            evidence=seen(plan, value, expected=False),
            fixes=(change(plan, value, False),),
        )


@check(
    Rule(
        id="CFG-DAT-026",
        name="data-path-missing",
        severity=Severity.WARNING,
        category="dataset",
        title=Text("{key} says nowhere where the data are", "{key} 中没有数据路径"),
        why=Text(
            "MindDataset reads dataset_dir or dataset_files; without either there is nothing to read, unless the launcher passes --train_dataset_dir.",
            "MindDataset 读取 dataset_dir 或 dataset_files；都没有则无数据可读，除非启动命令传入 --train_dataset_dir。",
        ),
        fix=Text("Set dataset_dir.", "设置 dataset_dir。"),
    )
)
@applies(GRAPH, training=True, complete=True)
def data_path_missing(plan: Plan) -> Iterator[Finding]:
    loader = plan.data.loader
    if plan.data.loader_type.words != "MindDataset" or plan.data.path.given:
        return
    absent = loader.absent("dataset_dir")
    place = loader.named or loader.location
    near = [loader.get(name) for name in ("data_dir", "data_files", "path", "dataset_path") if loader.get(name).given]
    yield data_path_missing.finding(
        evidence=(
            Evidence.at(absent.location, "value", text=quote(plan, place), expected="dataset_dir"),
            *(item for value in near for item in seen(plan, value, expected="dataset_dir")),
        ),
        fixes=(rename(plan, near[0], "dataset_dir"),) if near else None,
        key=loader.key,
    )
