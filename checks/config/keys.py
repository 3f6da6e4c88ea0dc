"""Names of settings: unknown, misspelt, in the wrong section."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Optional

from doctor.check import check
from doctor.checks.config.judge import (
    GRAPH,
    MINDFORMERS,
    applies,
    because,
    quote,
    remove,
    rename,
)
from doctor.checks.config.spelling import home, meant, one_slip, same_in_other_words
from doctor.finding import Evidence, Finding, Fix, Severity, Text
from doctor.plan.names import arguments, expand_spans, registered, releases, version_key
from doctor.plan.plan import Dialect, Plan
from doctor.plan.schema import open_sections, section_specs, sections, strict_keys, taken_by_release
from doctor.plan.value import Value
from doctor.rule import Rule

#: sections of graph-mode files whose constructor refuses any other key, in every release
_CONSTRUCTED = ("parallel_config", "recompute_config", "moe_config")


#: ... and those that ConfigTemplate refuses from 1.6 on
_TEMPLATED = (*_CONSTRUCTED, "runner_config", "swap_config", "monitor_config")


# (of a file without run_mode it looks at the general settings only: those sections then keep what they hold)
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


#: open sections whose every key is known: foreign ones are slips, not extensions
_CLOSED = frozenset(
    (
        "runner_config",
        "context",
        "context.jit_config",
        "parallel",
        "parallel.parallel_optimizer_config",
        "parallel.pipeline_config",
        "parallel.strategy_ckpt_config",
        "train_dataset",
        "trainer",
        "model",
        "checkpoint",
        "runner_wrapper.scale_sense",
    )
)
#: ... and those that hold the arguments of a class, with the kind of the class
_CLASSED = {"optimizer": "optimizer", "lr_schedule": "lr", "runner_wrapper": "wrapper", "train_dataset_task": "dataset"}
#: keys that MindSpore or a loader takes beyond those of the table
_EXTRA = {
    "context": frozenset(
        (
            "aoe_config",
            "enable_auto_mixed_precision",
            "enable_reduce_precision",
            "infer_precision_sync",
            "jit_enable_inplace_ops",
            "jit_syntax_level",
            "load_compile_cache",
            "save_compile_cache",
            "train_precision_sync",
        )
    ),
    "parallel": frozenset(("force_fp32_communication", "pipeline_segments", "auto_register")),
    "trainer": frozenset(("auto_register",)),
    "runner_wrapper": frozenset(("auto_register",)),
    "model": frozenset(("auto_register",)),
}


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
        hint = meant(name, lacking)
        strange += hint is None
        if hint is not None or strange <= _NAMED:
            yield value, hint


def at_name(plan: Plan, value: Value, hint: Optional[str]) -> tuple[Evidence, ...]:
    """Evidence for the name of a setting, not its value."""
    place = value.named or value.location
    return (Evidence.at(place, "value", text=quote(plan, place), observed=value.name, expected=hint),)


def cures(plan: Plan, value: Value, hint: Optional[str]) -> Optional[tuple[Fix, ...]]:
    if hint and value.is_mapping:
        # A section under a misspelt name is meant, and may hold the anchors of others.
        return (rename(plan, value, hint),)
    return (rename(plan, value, hint), remove(plan, value, safe=False)) if hint else (remove(plan, value, safe=False),)


def question(hint: Optional[str], place: Optional[str] = None) -> Text:
    """Asks after the name that was meant, or says where this one belongs (`place`, "" for the top of the file)."""
    if hint:
        return Text(f" Did you mean {hint}?", f"是否想写 {hint}？")
    if place:
        return Text(f" It belongs into {place}.", f"它应写在 {place} 中。")
    return Text(" It belongs to the top of the file.", "它应写在文件顶层。") if place == "" else Text("", "")


def _expected(hint: Optional[str], place: Optional[str], name: str) -> Optional[str]:
    if hint or place is None:
        return hint
    return f"{place}.{name}" if place else name


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
            place = home(plan.dialect, value.name, section) if hint is None else None
            ask = question(hint, place)
            yield unknown_key_refused.finding(
                because(
                    unknown_key_refused,
                    f"{value.name} is no key of {section}.{ask.en}",
                    f"{section} 中没有 {value.name}。{ask.zh}",
                ),
                evidence=at_name(plan, value, _expected(hint, place, value.name)),
                fixes=cures(plan, value, hint),
                severity=None if section in _CONSTRUCTED or plan.run_mode.given else Severity.WARNING,
                key=value.key,
            )
        yield from _of_other_releases(plan, section)


@cache
def known_templates() -> frozenset[str]:
    """The releases whose ConfigTemplate refuses what it does not name."""
    return frozenset(version for version in releases() if version_key(version) >= version_key("1.6.0"))


def _of_other_releases(plan: Plan, section: str) -> Iterator[Finding]:
    """Keys that the section has in other releases and refuses in this one."""
    spans, known = taken_by_release(section), releases()
    if not any(plan.release.has(expand_spans(span, known)) for span in spans.values()):
        return
    for name, value in plan.root.get(*section.split(".")).mapping.items():
        span = spans.get(name)
        if span is None and not plan.release.has(known_templates()):
            continue
        if span is not None and plan.release.has(expand_spans(span, known)):
            continue
        if span is None and name not in section_specs(plan.dialect, section):
            continue
        have = (
            Text(f"It is in {span} only.", f"仅存在于 {span}。")
            if span
            else Text("It went with 1.6.", "1.6 起已取消。")
        )
        release = plan.release.describe()
        yield unknown_key_refused.finding(
            because(
                unknown_key_refused,
                f"{section} of {release.en} does not take {name}. {have.en}",
                f"{release.zh} 的 {section} 不接受 {name}。{have.zh}",
            ),
            evidence=at_name(plan, value, None),
            fixes=cures(plan, value, None),
            severity=None if plan.release.certain and (span or plan.run_mode.given) else Severity.WARNING,
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
    if plan.dialect is Dialect.MCORE:
        # PyNative's section; old files of token classification have it at the top too, where nothing reads it.
        known -= {"recompute"}
    for value, hint in _unknown(plan, "", known):
        if value.name in anchors or (plan.dialect is Dialect.PYNATIVE and value.name in RENAMED_SECTIONS):
            continue
        place = home(plan.dialect, value.name) if hint is None and not value.is_mapping else None
        if hint is None and place is None and not plan.complete:
            continue
        ask = question(hint, place)
        section = value.is_mapping and hint is not None
        yield unknown_top_level.finding(
            because(
                unknown_top_level,
                f"{value.name} is not known at the top of the file.{ask.en}",
                f"文件顶层没有 {value.name}。{ask.zh}",
            ),
            evidence=at_name(plan, value, _expected(hint, place, value.name)),
            fixes=cures(plan, value, hint),
            severity=Severity.ERROR if section else None,
            key=value.key,
        )


def _anchors(plan: Plan) -> frozenset[str]:
    """Top-level keys that only hold anchors for other places (`x-common: &common`)."""
    return frozenset(name for name in plan.root.mapping if name.startswith(("x-", ".", "_")))


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
        closed = _closed(plan, section)
        for value, hint in (*_unknown(plan, section, known), *_swallowed(plan, section)):
            place = home(plan.dialect, value.name, section) if hint is None else None
            if hint is None and place is None and not closed:
                continue
            if value.name in _EXTRA.get(section, ()):
                continue
            yield _misspelt(plan, section, value, hint, place)
    for value, hint in (*_typeless(plan), *_kept_by_callbacks(plan)):
        yield _misspelt(plan, value.key.rpartition(".")[0], value, hint, None)


def _misspelt(plan: Plan, section: str, value: Value, hint: Optional[str], place: Optional[str]) -> Finding:
    ask = question(hint, place)
    return unknown_key_ignored.finding(
        because(
            unknown_key_ignored,
            f"{value.name} is no known key of {section}.{ask.en}",
            f"{section} 中没有已知的 {value.name}。{ask.zh}",
        ),
        evidence=at_name(plan, value, _expected(hint, place, value.name)),
        fixes=(rename(plan, value, hint),) if hint else (remove(plan, value, safe=False),),
        key=value.key,
    )


def _swallowed(plan: Plan, section: str) -> Iterator[tuple[Value, Optional[str]]]:
    """Settings that some class of the kind takes, but not the one that is named, which has another word for it."""
    kind = _CLASSED.get(section)
    here = plan.root.get(*section.split("."))
    taken = arguments(kind, here.get("type").words) if kind is not None else None
    if taken is None:
        return
    for name, value in here.mapping.items():
        if name not in taken[0]:
            hint = same_in_other_words(name, taken[0] - here.mapping.keys())
            if hint is not None and name in section_specs(plan.dialect, section):
                yield value, hint


def _kept_by_callbacks(plan: Plan) -> Iterator[tuple[Value, str]]:
    """Settings of callbacks that take anything (**kwargs) and read none of that name, but one much like it."""
    for item in plan.context.callbacks.sequence:
        taken = arguments("callback", item.get("type").words)
        if taken is None or not taken[1] or item.get("auto_register").given:
            continue
        for name, value in item.mapping.items():
            hint = meant(name, taken[0] - item.mapping.keys()) if name not in taken[0] and name != "type" else None
            if hint is not None:
                yield value, hint


def _typeless(plan: Plan) -> Iterator[tuple[Value, Optional[str]]]:
    """Parts anywhere in the file that have no type but a key a letter away from it, and sizes of nested models."""
    judged = {section for section in (*_OPEN, *_TEMPLATED) if section}
    for part in plan.root.walk():
        if not part.is_mapping or part.key in judged or "type" in part.mapping or not part.key:
            continue
        for name, value in part.mapping.items():
            if name != "dtype" and one_slip(name, "type"):
                yield value, "type"


def _closed(plan: Plan, section: str) -> bool:
    """Whether everything that a section may hold is known, so that any other key is a mistake: the parts that MindSpore
    takes (it refuses others), and those whose class is MindFormers' own."""
    if section == "train_dataset":
        # A data set of a research folder or of one's own takes what it likes.
        task = registered("dataset").get(plan.data.task.words)
        return task is not None and task.origin == "mindformers"
    if section in _CLOSED:
        return True
    kind = _CLASSED.get(section)
    here = plan.root.get(*section.split("."))
    if kind is None or here.get("auto_register").given:
        return False
    name = registered(kind).get(here.get("type").words)
    return name is not None and name.origin != "research"


RENAMED_SECTIONS = {
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
            place = home(plan.dialect, value.name, section) if hint is None else None
            if open_section and hint is None and place is None:
                continue
            ask = question(hint, place)
            yield unknown_pynative_key.finding(
                because(
                    unknown_pynative_key,
                    f"{value.name} is no key of {section}.{ask.en}",
                    f"{section} 中没有 {value.name}。{ask.zh}",
                ),
                evidence=at_name(plan, value, _expected(hint, place, value.name)),
                fixes=cures(plan, value, hint),
                severity=Severity.WARNING if open_section else None,
                key=value.key,
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
            ask = question(hint)
            yield unknown_trainer_key.finding(
                because(
                    unknown_trainer_key,
                    f"{value.name} is no key of {where}.{ask.en}",
                    f"{section or '文件顶层'} 中没有 {value.name}。{ask.zh}",
                ),
                evidence=at_name(plan, value, hint),
                fixes=cures(plan, value, hint),
                key=value.key,
            )


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
                evidence=at_name(plan, strange[_NAMED], None),
                key=section or plan.document.path.name,
                count=len(strange),
            )
