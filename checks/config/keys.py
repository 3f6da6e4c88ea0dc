"""Names of settings: unknown, misspelt, renamed, removed, in the wrong section, given twice under two names, ignored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Optional

from doctor.check import check
from doctor.checks.config.judge import (
    GRAPH,
    MINDFORMERS,
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
from doctor.finding import Evidence, Finding, Fix, Severity, Text
from doctor.plan.fields import ALIAS_GROUPS
from doctor.plan.names import nearest
from doctor.plan.plan import Dialect, Plan
from doctor.plan.schema import mcore_keys, open_sections, section_specs, sections, strict_keys
from doctor.plan.value import Value
from doctor.rule import Rule

#: sections of graph-mode files whose constructor refuses any other key, in every release
_CONSTRUCTED = ("parallel_config", "recompute_config", "moe_config")
#: ... and those that ConfigTemplate refuses from 1.6 on
_TEMPLATED = (*_CONSTRUCTED, "runner_config", "swap_config", "monitor_config")
#: sections that keep unknown keys without a word
_OPEN = (
    "runner_config",
    "context",
    "context.jit_config",
    "context.ascend_config",
    "parallel",
    "parallel.parallel_optimizer_config",
    "parallel.pipeline_config",
    "parallel.strategy_ckpt_config",
    "optimizer",
    "lr_schedule",
    "runner_wrapper",
    "runner_wrapper.scale_sense",
    "train_dataset",
    "train_dataset.data_loader",
    "train_dataset.data_loader.config",
    "train_dataset_task",
    "eval_dataset",
    "eval_dataset.data_loader",
    "eval_dataset_task",
    "trainer",
    "model",
    "model.arch",
    "metric",
    "checkpoint",
    "processor",
    "model.model_config.pet_config",
)


#: unknown keys of a section that get a finding of their own; a file with more of them is another kind of file
_NAMED = 60

#: open sections whose foreign keys are slips, not extensions
_HOMELY = frozenset(
    ("parallel", "context", "optimizer", "lr_schedule", "runner_wrapper", "runner_config", "train_dataset", "trainer")
)


def _unknown(plan: Plan, section: str, known: Iterable[str]) -> Iterator[tuple[Value, Optional[str]]]:
    """Keys of a section that are not known, each with the known one nearest to it that the section lacks. Of those
    that resemble nothing only the first are given, CFG-KEY-017 counts them all."""
    here = plan.root.get(*section.split(".")) if section else plan.root
    names = frozenset(known)
    lacking = names - here.mapping.keys()
    strange = 0
    for name, value in here.mapping.items():
        if name in names:
            continue
        hint = nearest(name, lacking)
        strange += hint is None
        if hint is not None or strange <= _NAMED:
            yield value, hint


def _at_name(plan: Plan, value: Value, hint: Optional[str]) -> tuple[Evidence, ...]:
    """Evidence for the name of a setting, not its value."""
    place = value.named or value.location
    return (Evidence.at(place, "value", text=quote(plan, place), observed=value.name, expected=hint),)


def _meant(plan: Plan, value: Value, hint: Optional[str]) -> Optional[tuple[Fix, ...]]:
    return (rename(plan, value, hint), remove(plan, value, safe=False)) if hint else (remove(plan, value, safe=False),)


def _question(hint: Optional[str]) -> Text:
    return Text(f" Did you mean {hint}?", f"是否想写 {hint}？") if hint else Text("", "")


@check(
    Rule(
        id="CFG-KEY-001",
        name="unknown-key-refused",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} does not exist", "不存在的设置项：{key}"),
        why=Text(
            "This section takes its own keys only: from 1.6 `The config gets an unexpected key`, before that a TypeError of the constructor.",
            "该配置段只接受固定的键：1.6 起报 `gets an unexpected key`，更早的版本由构造函数报 TypeError。",
        ),
        fix=Text("Correct the spelling or remove the key.", "改正拼写或删除该键。"),
        references=("mindformers/tools/register/template.py", "mindformers/core/parallel_config.py"),
    )
)
@applies(GRAPH)
def unknown_key_refused(plan: Plan) -> Iterator[Finding]:
    templated = plan.dialect is Dialect.MCORE or plan.release.since("1.6.0")
    for section in _TEMPLATED:
        strict = templated or section in _CONSTRUCTED
        if not strict or (section == "moe_config" and plan.dialect is Dialect.MCORE):
            continue
        known = section_specs(plan.dialect, section).keys() | strict_keys(section)
        for value, hint in _unknown(plan, section, known):
            if section == "runner_config" and not plan.release.certain and hint is None:
                continue
            ask = _question(hint)
            home = _home(plan, value.name, section) if hint is None else None
            if home:
                ask = Text(f" It belongs into {home}.", f"它应写在 {home} 中。")
            yield unknown_key_refused.finding(
                because(
                    unknown_key_refused,
                    f"{value.name} is no key of {section}.{ask.en}",
                    f"{section} 中没有 {value.name}。{ask.zh}",
                ),
                evidence=_at_name(plan, value, hint or home),
                fixes=_meant(plan, value, hint),
                key=value.key,
            )


@check(
    Rule(
        id="CFG-KEY-002",
        name="unknown-top-level-key",
        severity=Severity.WARNING,
        category="config",
        title=Text("{key} is not read by MindFormers", "MindFormers 不会读取 {key}"),
        why=Text(
            "An unknown key at the top is kept and never looked at; from 1.6 a warning calls it useless.",
            "顶层未知的键会被保留但不会读取；1.6 起会有 useless 的 warning。",
        ),
        fix=Text("Correct the spelling or remove it.", "改正拼写或删除。"),
        references=("mindformers/tools/register/template.py ConfigTemplate._apply_template",),
    )
)
@applies(MINDFORMERS)
def unknown_top_level(plan: Plan) -> Iterator[Finding]:
    known = set(section_specs(plan.dialect, ""))
    if plan.dialect is Dialect.PYNATIVE:
        known |= {"pretrained_model_dir", "output_dir", "seed", "grouped_lr_schedule"}
    anchors = _anchors(plan)
    for value, hint in _unknown(plan, "", known):
        if value.name in anchors or value.name in _RENAMED_SECTIONS:
            continue
        home = _home(plan, value.name) if hint is None and not value.is_mapping else None
        if hint is None and home is None and not plan.complete:
            continue
        ask = _question(hint)
        if home:
            ask = Text(f" It belongs into {home}.", f"它应写在 {home} 中。")
        section = value.is_mapping and hint is not None
        yield unknown_top_level.finding(
            because(
                unknown_top_level,
                f"{value.name} is not known at the top of the file.{ask.en}",
                f"文件顶层没有 {value.name}。{ask.zh}",
            ),
            evidence=_at_name(plan, value, hint or home),
            fixes=_meant(plan, value, hint),
            severity=Severity.ERROR if section else None if hint or home else Severity.INFO,
            key=value.key,
        )


def _anchors(plan: Plan) -> frozenset[str]:
    """Top-level keys that only hold anchors for other places (`x-common: &common`)."""
    return frozenset(name for name in plan.root.mapping if name.startswith(("x-", ".", "_")))


def _home(plan: Plan, name: str, here: str = "") -> Optional[str]:
    """The section, other than `here`, that a setting with this name most likely belongs to."""
    homes = [
        section
        for section in sections(plan.dialect)
        if section
        and section != here
        and "." not in section
        and not section.startswith(("eval", "processor", "model"))
        and name in section_specs(plan.dialect, section)
    ]
    return min(homes, key=_HOMES.index) if 0 < len(homes) <= 2 and set(homes) <= set(_HOMES) else None


#: the likelier home first
_HOMES = (
    "parallel_config",
    "parallelism",
    "runner_config",
    "training",
    "recompute_config",
    "recompute",
    "optimizer",
    "lr_schedule",
    "lr_scheduler",
    "context",
    "train_dataset",
    "parallel",
    "runner_wrapper",
    "swap_config",
    "swap",
    "moe_config",
    "checkpoint",
    "monitor_config",
    "metric",
    "trainer",
)


@check(
    Rule(
        id="CFG-KEY-003",
        name="unknown-key-ignored",
        severity=Severity.WARNING,
        category="config",
        title=Text("{key} is probably misspelt", "{key} 可能拼写有误"),
        why=Text(
            "This section keeps unknown keys silently: the setting that was meant stays at its default.",
            "该配置段会默默保留未知键：本想设置的项仍为默认值。",
        ),
        fix=Text("Correct the spelling.", "改正拼写。"),
    )
)
@applies(GRAPH)
def unknown_key_ignored(plan: Plan) -> Iterator[Finding]:
    for section in _OPEN:
        if section == "runner_config" and (plan.dialect is Dialect.MCORE or plan.release.since("1.6.0")):
            continue
        known = section_specs(plan.dialect, section)
        if not known:
            continue
        for value, hint in _unknown(plan, section, known):
            home = _home(plan, value.name, section) if hint is None and section in _HOMELY else None
            if hint is not None or home is not None:
                ask = _question(hint) if hint else Text(f" It belongs into {home}.", f"它应写在 {home} 中。")
                yield unknown_key_ignored.finding(
                    because(
                        unknown_key_ignored,
                        f"{value.name} is no known key of {section}.{ask.en}",
                        f"{section} 中没有已知的 {value.name}。{ask.zh}",
                    ),
                    evidence=_at_name(plan, value, hint or home),
                    fixes=(rename(plan, value, hint),) if hint else None,
                    key=value.key,
                )


@check(
    Rule(
        id="CFG-KEY-004",
        name="unknown-model-setting",
        severity=Severity.WARNING,
        category="config",
        title=Text("{key} is no known setting of a model", "{key} 不是已知的模型设置"),
        why=Text(
            "Legacy models swallow unknown settings (**kwargs) and use the default; mcore stops with `Configuration conversion failed`.",
            "legacy 模型会吞掉未知设置（**kwargs）并使用默认值；mcore 会报 `Configuration conversion failed`。",
        ),
        fix=Text("Correct the spelling or remove it.", "改正拼写或删除。"),
        references=("mindformers/parallel_core/transformer_config_utils.py convert_to_transformer_config",),
    )
)
@applies(MINDFORMERS)
def unknown_model_setting(plan: Plan) -> Iterator[Finding]:
    section = plan.model.section
    known = section_specs(plan.dialect, "model" if plan.dialect is Dialect.PYNATIVE else "model.model_config").keys()
    own = plan.dialect is Dialect.LEGACY and section.get("auto_register").given
    for name, value in section.mapping.items():
        if name in known:
            continue
        hint = nearest(name, known - section.mapping.keys(), 0.8)
        if hint is None and (plan.dialect is Dialect.LEGACY or own):
            continue
        ask = _question(hint)
        mcore = plan.dialect is Dialect.MCORE and plan.trains
        yield unknown_model_setting.finding(
            because(unknown_model_setting, f"{name} is not known.{ask.en}", f"未知的 {name}。{ask.zh}"),
            evidence=_at_name(plan, value, hint),
            fixes=_meant(plan, value, hint),
            severity=Severity.ERROR if mcore and hint else None if hint else Severity.INFO,
            key=value.key,
        )


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
    return required_key.finding(
        evidence=(where,),
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
                evidence=(*_at_name(plan, second, None), *_at_name(plan, first, None)),
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
                evidence=_at_name(plan, value, new),
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

_RENAMED_SECTIONS = {
    "parallel_config": "parallelism",
    "runner_config": "training",
    "lr_schedule": "lr_scheduler",
    "recompute_config": "recompute",
    "swap_config": "swap",
    "load_checkpoint": "checkpoint.load_path",
    "monitor_config": "monitor",
}


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
    for name, new in _RENAMED_SECTIONS.items():
        value = plan.root.get(name)
        if value.given:
            yield graph_section.finding(evidence=_at_name(plan, value, new), key=name, new=new)


@check(
    Rule(
        id="CFG-KEY-009",
        name="unknown-pynative-key",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} does not exist", "不存在的设置项：{key}"),
        why=Text(
            "PyNative sections are typed: `Unknown configuration keys`. A section that takes extra keys keeps a misspelt one without effect.",
            "PyNative 配置段有类型约束：`Unknown configuration keys`；允许额外键的段会保留拼错的键，但不生效。",
        ),
        fix=Text("Correct the spelling or remove it.", "改正拼写或删除。"),
        references=("mindformers/pynative/config/config.py BaseConfig.from_dict",),
    )
)
@applies((Dialect.PYNATIVE,))
def unknown_pynative_key(plan: Plan) -> Iterator[Finding]:
    for section in sections(plan.dialect):
        if section in ("", "model"):
            continue
        open_section = section in open_sections()
        for value, hint in _unknown(plan, section, section_specs(plan.dialect, section)):
            if open_section and hint is None:
                continue
            ask = _question(hint)
            yield unknown_pynative_key.finding(
                because(
                    unknown_pynative_key,
                    f"{value.name} is no key of {section}.{ask.en}",
                    f"{section} 中没有 {value.name}。{ask.zh}",
                ),
                evidence=_at_name(plan, value, hint),
                fixes=_meant(plan, value, hint),
                severity=Severity.WARNING if open_section else None,
                key=value.key,
            )


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
            evidence=_at_name(plan, value, "profiler_level"), fixes=(rename(plan, value, "profiler_level", safe=True),)
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
        yield mixed_generations.finding(evidence=tuple(item for value in found for item in _at_name(plan, value, None)))


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
            yield checkpoint_section.finding(evidence=_at_name(plan, value, f"checkpoint.{inner}"), key=name)


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
                evidence=_at_name(plan, value, None), fixes=(remove(plan, value, safe=False),), key=value.key
            )


@check(
    Rule(
        id="CFG-KEY-014",
        name="unknown-trainer-key",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} does not exist", "不存在的设置项：{key}"),
        why=Text("The built-in trainer refuses keys that it does not know.", "内置训练器会拒绝未知的键。"),
        fix=Text("Correct the spelling or remove it.", "改正拼写或删除。"),
    )
)
@applies((Dialect.TRAINER,))
def unknown_trainer_key(plan: Plan) -> Iterator[Finding]:
    for section in sections(plan.dialect):
        known: set[str] = set(section_specs(plan.dialect, section))
        for value, hint in _unknown(plan, section, known):
            where = section or "the file"
            ask = _question(hint)
            yield unknown_trainer_key.finding(
                because(
                    unknown_trainer_key,
                    f"{value.name} is no key of {where}.{ask.en}",
                    f"{section or '文件顶层'} 中没有 {value.name}。{ask.zh}",
                ),
                evidence=_at_name(plan, value, hint),
                fixes=_meant(plan, value, hint),
                key=value.key,
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
    arguments = plan.root.get("training_args")
    choices = (
        (
            plan.schedule.type,
            (
                "cosine",
                "linear",
                "constant",
                "cosinewithwarmuplr",
                "linearwithwarmuplr",
                "constantwarmuplr",
                "constant_with_warmup",
            ),
        ),
        (arguments.get("save_format"), ("safetensors", "ckpt")),
        (
            arguments.get("parallel_config", "parallel_mode"),
            (
                "data_parallel",
                "tensor_parallel",
                "pipeline_parallel",
                "hybrid_parallel",
                "semi_auto_parallel",
                "stand_alone",
            ),
        ),
    )
    for value, known in choices:
        if value.given and value.text is not None and value.words.lower() not in known:
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
    for name in wanted:
        if not plan.root.get(name).given:
            absent = plan.root.absent(name)
            yield section_missing.finding(
                evidence=(Evidence.at(absent.location, "value", expected="a section"),),
                fixes=(advice(plan, f"Add {name}.", f"补上 {name}。"),),
                severity=None if name in _NEVER_ABSENT else Severity.WARNING,
                key=name,
            )


_NEVER_ABSENT = frozenset(("trainer", "train_dataset", "train_dataset_task", "model"))


@check(
    Rule(
        id="CFG-KEY-017",
        name="many-unknown-keys",
        severity=Severity.WARNING,
        category="config",
        title=Text("{count} keys of {key} are not known", "{key} 中有 {count} 个未知的键"),
        why=Text(
            f"Only the first {_NAMED} are named one by one. The file may be written for another program or release.",
            f"只逐个列出前 {_NAMED} 个。该文件可能是为其他程序或版本编写的。",
        ),
        fix=Text("Check which program reads this file.", "请确认该文件由哪个程序读取。"),
    )
)
@applies((*MINDFORMERS, Dialect.TRAINER))
def many_unknown_keys(plan: Plan) -> Iterator[Finding]:
    judged = ("", *_TEMPLATED, *_OPEN) if plan.dialect.graph else ("", *sections(plan.dialect))
    for section in dict.fromkeys(judged):
        here = plan.root.get(*section.split(".")) if section else plan.root
        known = section_specs(plan.dialect, section).keys() | strict_keys(section)
        strange = [value for name, value in here.mapping.items() if name not in known]
        if known and len(strange) > _NAMED:
            yield many_unknown_keys.finding(
                evidence=_at_name(plan, strange[_NAMED], None),
                key=section or plan.document.path.name,
                count=len(strange),
            )
