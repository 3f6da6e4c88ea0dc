"""Settings that are required, renamed, given twice, or of another generation."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import check
from doctor.checks.config.expectations import both
from doctor.checks.config.judge import (
    GRAPH,
    advice,
    applies,
    because,
    change,
    quote,
    remove,
    rename,
    seen,
    shown,
)
from doctor.checks.config.keys import RENAMED_SECTIONS, at_name
from doctor.checks.config.spelling import meant
from doctor.finding import Evidence, Finding, Severity, Text
from doctor.plan.fields import ALIAS_GROUPS
from doctor.plan.names import nearest, read_table, registered
from doctor.plan.plan import Dialect, Plan
from doctor.plan.schema import mcore_keys, section_specs
from doctor.plan.value import Value
from doctor.rule import Rule


@check(
    Rule(
        id="CFG-KEY-005",
        name="required-key-missing",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} is missing", "缺少 {key}"),
        why=Text(
            "MindFormers cannot build this part without its type: `is missing a required key`.",
            "没有 type 就无法构建该部分：`is missing a required key`。",
        ),
        fix=Text("Add it.", "补上该项。"),
        references=("mindformers/tools/register/template.py _required_keys",),
    )
)
@applies(GRAPH, complete=True)
def required_key(plan: Plan) -> Iterator[Finding]:
    wanted = ["trainer"]
    if plan.trains:
        wanted += ["train_dataset_task", "runner_wrapper", "optimizer", "lr_schedule"]
    for section in wanted:
        here = plan.root.get(section)
        if here.mapping and not here.get("type").given:
            yield _missing(plan, here, "type")
    if (
        plan.trains
        and plan.root.get("train_dataset").mapping
        and not plan.data.loader_type.given
        and plan.data.loader.mapping
    ):
        yield _missing(plan, plan.data.loader, "type")
    for index, item in enumerate(plan.context.callbacks.sequence):
        if item.is_mapping and not item.get("type").given:
            yield _missing(plan, item, "type")
        elif not item.is_mapping:
            yield required_key.finding(
                Text(
                    f"callbacks[{index}] is {shown(item)}; a callback is a mapping with a type.",
                    f"callbacks[{index}] 为 {shown(item)}；callback 应为带 type 的映射。",
                ),
                evidence=seen(plan, item, expected="type: MFLossMonitor"),
                key=f"callbacks[{index}].type",
            )
    model = plan.root.get("model")
    if model.mapping and not model.get("model_config").given:
        yield _missing(plan, model, "model_config")
    named = model.get("model_config")
    ours = registered("models").get(plan.model.architecture.words)
    built = ours is not None and ours.origin == "mindformers"
    if built and named.mapping and plan.dialect is Dialect.LEGACY and not named.get("type").given:
        yield _missing(plan, named, "type")
    arch = model.get("arch")
    if registered("config").get(named.get("type").words) and plan.dialect is Dialect.LEGACY:
        if not arch.given:
            yield _missing(plan, model, "arch")
        elif not arch.get("type").given and not arch.text:
            yield _missing(plan, arch, "type")
    data = plan.root.get("train_dataset")
    if plan.trains and data.mapping and plan.data.section is data and not data.get("data_loader").given:
        yield _missing(plan, data, "data_loader")
    if (
        not model.given
        and not plan.model.pretrained.words
        and plan.root.get("trainer").given
        and plan.release.since("1.6.0")
    ):
        yield _missing(plan, plan.root, "model")


def _missing(plan: Plan, section: Value, name: str) -> Finding:
    absent = section.absent(name)
    place = section.named or section.location
    where = Evidence.at(absent.location, "value", text=quote(plan, place), expected=name)
    # A key that may be the missing one under a wrong name is shown too.
    wrong = next((item for key, item in section.mapping.items() if meant(key, (name,)) == name), None)
    return required_key.finding(
        evidence=(where, *(at_name(plan, wrong, name) if wrong is not None else ())),
        fixes=(advice(plan, f"Add {absent.key}.", f"补上 {absent.key}。"),),
        key=absent.key,
    )


@check(
    Rule(
        id="CFG-KEY-006",
        name="setting-under-two-names",
        severity=Severity.ERROR,
        category="config",
        title=Text("{first} and {second} are one setting", "{first} 与 {second} 是同一个设置"),
        why=Text(
            "mcore maps both names to one field and refuses to choose: `Configuration conversion failed` (2.x: `is mapped more than once`).",
            "mcore 会把两个名字映射到同一字段并拒绝：`Configuration conversion failed`（2.x：`is mapped more than once`）。",
        ),
        fix=Text("Keep one of the two.", "只保留其中一个。"),
        references=("mindformers/parallel_core/transformer_config_utils.py COMMON_CONFIG_MAPPING",),
    )
)
@applies((Dialect.MCORE,))
def two_names(plan: Plan) -> Iterator[Finding]:
    section = plan.model.section
    for group in ALIAS_GROUPS:
        given = [section.get(name) for name in group if section.get(name).given]
        if len(given) > 1:
            first, second = sorted(given, key=lambda value: (value.location.line or 0, value.key))[:2]
            yield two_names.finding(
                evidence=(*at_name(plan, second, None), *at_name(plan, first, None)),
                fixes=(remove(plan, second, safe=first.plain() == second.plain()), remove(plan, first, safe=False)),
                first=first.name,
                second=second.name,
            )


@check(
    Rule(
        id="CFG-KEY-007",
        name="renamed-key",
        severity=Severity.WARNING,
        category="config",
        title=Text("{key} was renamed to {new}", "{key} 已改名为 {new}"),
        why=Text("The old name is ignored or only warned about by this release.", "该版本会忽略旧名，或只打 warning。"),
        fix=Text("Use the new name.", "使用新名称。"),
    )
)
@applies(GRAPH)
def renamed_key(plan: Plan) -> Iterator[Finding]:
    for path, new, since in _RENAMED:
        value = plan.root.get(*path.split("."))
        if value.given and plan.release.since(since):
            yield renamed_key.finding(
                evidence=at_name(plan, value, new),
                severity=None if plan.release.certain else Severity.INFO,
                key=value.key,
                new=new,
            )


_RENAMED = (
    ("resume_or_finetune_checkpoint", "load_checkpoint", "1.0.0"),
    ("parallel_config.optimizer_shard", "parallel.enable_parallel_optimizer", "1.0.0"),
    ("context.affinity_cpu_list", "context.affinity_config", "2.0.0"),
    ("context.deterministic", "train_precision_sync", "1.6.0"),
    ("lr_schedule.warmup_epochs", "lr_schedule.warmup_ratio", "1.6.0"),
)


@check(
    Rule(
        id="CFG-KEY-008",
        name="graph-section-in-pynative",
        severity=Severity.ERROR,
        category="config",
        title=Text(
            "{key} is a section of graph mode; PyNative reads {new}", "{key} 是图模式的配置段，PyNative 读取 {new}"
        ),
        why=Text(
            "PyNative files keep unknown sections silently: everything in it has no effect.",
            "PyNative 会默默保留未知配置段，其中的设置都不生效。",
        ),
        fix=Text("Move the settings to {new}.", "把设置移到 {new}。"),
        references=("mindformers/pynative/config/config.py TrainConfig.allow_extra",),
    )
)
@applies((Dialect.PYNATIVE,))
def graph_section(plan: Plan) -> Iterator[Finding]:
    for name, new in RENAMED_SECTIONS.items():
        value = plan.root.get(name)
        if value.given:
            yield graph_section.finding(evidence=at_name(plan, value, new), key=name, new=new)


@check(
    Rule(
        id="CFG-KEY-010",
        name="profiler-level-misnamed",
        severity=Severity.WARNING,
        category="config",
        title=Text(
            "profile_level does nothing; profiler_level is read", "profile_level 不生效，真正读取的是 profiler_level"
        ),
        why=Text(
            "The template declares profile_level, but the trainer reads profiler_level (and the log calls that one useless).",
            "模板声明了 profile_level，但训练器读取 profiler_level（日志反而说后者 useless）。",
        ),
        fix=Text("Rename it to profiler_level.", "改名为 profiler_level。"),
        references=("mindformers/trainer/trainer.py _build_profile_cb",),
    )
)
@applies(GRAPH)
def profiler_level(plan: Plan) -> Iterator[Finding]:
    value = plan.root.get("profile_level")
    if value.given:
        yield profiler_level.finding(
            evidence=at_name(plan, value, "profiler_level"), fixes=(rename(plan, value, "profiler_level", safe=True),)
        )


@check(
    Rule(
        id="CFG-KEY-011",
        name="mixed-generations",
        severity=Severity.ERROR,
        category="config",
        title=Text(
            "Sections of PyNative and of graph mode stand in one file", "同一文件混用了 PyNative 与图模式的配置段"
        ),
        why=Text(
            "One program reads the file: the sections of the other one have no effect.",
            "文件只会被其中一个程序读取，另一套配置段不生效。",
        ),
        fix=Text("Keep the sections of one generation.", "只保留其中一套。"),
    )
)
@applies(GRAPH)
def mixed_generations(plan: Plan) -> Iterator[Finding]:
    found = [
        plan.root.get(name) for name in ("parallelism", "training", "lr_scheduler") if plan.root.get(name).is_mapping
    ]
    if found:
        yield mixed_generations.finding(evidence=tuple(item for value in found for item in at_name(plan, value, None)))


@check(
    Rule(
        id="CFG-KEY-012",
        name="checkpoint-section-overrides",
        severity=Severity.WARNING,
        category="config",
        title=Text("{key} is overridden by the section checkpoint", "{key} 会被 checkpoint 配置段覆盖"),
        why=Text(
            "From 2.0 a `checkpoint:` section switches to the new format; the old settings for loading and saving are not used.",
            "2.0 起出现 `checkpoint:` 段即使用新格式，旧的加载/保存设置不再生效。",
        ),
        fix=Text("Move it into the section, or remove the section.", "移入该段，或删除该段。"),
        references=("mindformers/trainer/utils.py convert_checkpoint_config",),
    )
)
@applies(GRAPH)
def checkpoint_section(plan: Plan) -> Iterator[Finding]:
    section = plan.root.get("checkpoint")
    if not section.mapping:
        return
    for name, inner in (
        ("load_checkpoint", "load_path"),
        ("resume_training", "no_load_optim"),
        ("balanced_load", "load_balanced"),
    ):
        value = plan.root.get(name)
        if value.given and value.value not in (None, "", False) and section.get(inner).given:
            yield checkpoint_section.finding(evidence=at_name(plan, value, f"checkpoint.{inner}"), key=name)


@check(
    Rule(
        id="CFG-KEY-013",
        name="mcore-setting-not-convertible",
        severity=Severity.WARNING,
        category="config",
        title=Text("{key} is a setting of legacy models", "{key} 是 legacy 模型的设置"),
        why=Text(
            "mcore converts a fixed list of names and stops at others: `Configuration conversion failed`.",
            "mcore 只转换固定名单内的键，其他会报 `Configuration conversion failed`。",
        ),
        fix=Text("Remove it, or use its mcore name.", "删除，或改用 mcore 的名称。"),
        references=("mindformers/parallel_core/transformer_config_utils.py COMMON_CONFIG_MAPPING",),
    )
)
@applies((Dialect.MCORE,), training=True)
def not_convertible(plan: Plan) -> Iterator[Finding]:
    known = section_specs(plan.dialect, "model.model_config").keys()
    for name, value in plan.model.section.mapping.items():
        if name in known and name not in mcore_keys():
            yield not_convertible.finding(
                evidence=at_name(plan, value, None), fixes=(remove(plan, value, safe=False),), key=value.key
            )


@check(
    Rule(
        id="CFG-KEY-015",
        name="unknown-trainer-choice",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} {value} does not exist", "不存在的 {key}：{value}"),
        why=Text("The built-in trainer knows: {known}.", "内置训练器支持：{known}。"),
        fix=Text("Use one of them.", "使用其中之一。"),
    )
)
@applies((Dialect.TRAINER,))
def unknown_trainer_choice(plan: Plan) -> Iterator[Finding]:
    choices = read_table("config-keys")["trainer choices"]
    for path, words in choices.items():
        value, known = plan.root.get(*path.split(".")), tuple(words.split())
        word = value.words.lower()
        if path == "model.type":
            word = word.replace("-", "_").replace(".", "_")
        if value.given and word and word not in {choice.lower() for choice in known}:
            hint = nearest(value.words, known, 0.5) or known[0]
            fixes = (change(plan, value, hint),)
            yield unknown_trainer_choice.finding(
                evidence=seen(plan, value, expected=", ".join(known[:3])),
                fixes=fixes,
                key=value.key,
                value=shown(value),
                known=", ".join(known[:3]),
            )


@check(
    Rule(
        id="CFG-KEY-016",
        name="section-missing",
        severity=Severity.ERROR,
        category="config",
        title=Text("The section {key} is missing", "缺少配置段 {key}"),
        why=Text("A run cannot be built without it.", "缺少该段无法构建训练任务。"),
        fix=Text("Add the section.", "补上该配置段。"),
        references=("mindformers/trainer/base_trainer.py training_process",),
    )
)
@applies(GRAPH, training=True, complete=True)
def section_missing(plan: Plan) -> Iterator[Finding]:
    wanted = ["trainer", "train_dataset", "train_dataset_task"]
    if not plan.model.pretrained.words:
        wanted.append("model")
    if not plan.release.since("1.6.0") and plan.dialect is Dialect.LEGACY:
        wanted += ["runner_config", "optimizer", "context"]
    started = plan.optimizer.section.given or plan.schedule.section.given
    if not started or not plan.run_mode.given:
        return
    handed_over = not any(plan.root.get(name).given for name in _DATA)
    for name in wanted:
        if not plan.root.get(name).given:
            absent = plan.root.absent(name)
            from_python = name in _DATA and handed_over
            yield section_missing.finding(
                because(
                    section_missing,
                    "With `Trainer(train_dataset=...)` in Python the data may come from your code.",
                    "若在 Python 中以 `Trainer(train_dataset=...)` 传入数据集，则可以没有。",
                )
                if from_python
                else None,
                evidence=(Evidence.at(absent.location, "value", expected=both("a section")),),
                fixes=(advice(plan, f"Add {name}.", f"补上 {name}。"),),
                severity=None if name in _NEVER_ABSENT and not from_python else Severity.WARNING,
                key=name,
            )


#: what a run takes from Python as well
_DATA = ("train_dataset", "train_dataset_task")


_NEVER_ABSENT = frozenset(("trainer", "train_dataset", "train_dataset_task", "model"))
