"""Values of the wrong shape or size: lists and mappings mixed up, empty, out of range."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import check
from doctor.checks.config.judge import MODELS, RUNS, applies, because, change, edit, seen, shown, verify
from doctor.checks.config.types import faults
from doctor.finding import Finding, Fix, Severity, Text
from doctor.plan.plan import Dialect, Plan
from doctor.rule import Rule


@check(
    Rule(
        id="CFG-TYP-009",
        name="section-is-not-a-mapping",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} is not a section", "{key} 不是一个配置段"),
        why=Text(
            "It holds settings of its own, `name: value` lines below it; mind the indentation.",
            "它应包含自己的“键: 值”行；请检查缩进。",
        ),
        fix=Text("Write its settings below it, indented.", "在其下方缩进书写各项设置。"),
    )
)
@applies(MODELS)
def not_a_section(plan: Plan) -> Iterator[Finding]:
    for value, _, _ in faults(plan, "not-mapping"):
        yield not_a_section.finding(
            because(not_a_section, f"{value.key} is {shown(value)}.", f"{value.key} 为 {shown(value)}。"),
            evidence=seen(plan, value, expected="a mapping"),
            key=value.key,
        )


@check(
    Rule(
        id="CFG-TYP-010",
        name="setting-is-not-a-list",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} is not a list", "{key} 不是列表"),
        why=Text("It takes a list: [a, b], or one `- item` a line.", "它需要列表：[a, b]，或每行一个“- 项”。"),
        fix=Text("Write a list.", "写成列表。"),
    )
)
@applies(MODELS)
def not_a_list(plan: Plan) -> Iterator[Finding]:
    for value, _, _ in faults(plan, "not-list"):
        fixes = None
        if value.is_scalar and value.value is not None:
            summary = Text(f"Set {value.key}: [{value.value}]", f"改为 {value.key}: [{value.value}]")
            fixes = (Fix(summary, edits=(edit(value, [value.value]),), applicability="unsafe", verify=verify(plan)),)
        yield not_a_list.finding(
            because(not_a_list, f"{value.key} is {shown(value)}.", f"{value.key} 为 {shown(value)}。"),
            evidence=seen(plan, value, expected="a list"),
            fixes=fixes,
            key=value.key,
        )


@check(
    Rule(
        id="CFG-TYP-011",
        name="setting-is-a-collection",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} holds a collection where one value belongs", "{key} 应为单个值，却是集合"),
        why=Text("It takes one value.", "它只接受单个值。"),
        fix=Text("Write one value.", "写成单个值。"),
    )
)
@applies(MODELS)
def a_collection(plan: Plan) -> Iterator[Finding]:
    for value, spec, fault in faults(plan, "list", "mapping"):
        yield a_collection.finding(
            because(
                a_collection, f"{value.key} is a {fault}.", f"{value.key} 是{'列表' if fault == 'list' else '映射'}。"
            ),
            evidence=seen(plan, value, expected=spec.words if spec.numeric else "one value"),
            key=value.key,
        )


#: lists of names
_NAMES = (
    ("input_columns", "output_columns", "construct_args_key", "column_order"),
    ("column_names", "columns_list", "origin_columns"),
)


@check(
    Rule(
        id="CFG-TYP-018",
        name="name-in-list-is-no-text",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} holds {value} where a name belongs", "{key} 中应为名称，却是 {value}"),
        why=Text("The list names columns: each entry is a text.", "该列表是列名，每项都应为字符串。"),
        fix=Text("Write the name of a column, or remove the entry.", "写成列名，或删除该项。"),
    )
)
@applies(MODELS)
def name_in_list(plan: Plan) -> Iterator[Finding]:
    for section in ("train_dataset", "eval_dataset"):
        here = plan.root.get(section)
        loaders = [here.get(name) for name in ("data_loader", "dataloader")]
        lists = [here.get(name) for name in _NAMES[0]]
        lists += [loader.get(name) for loader in loaders for name in _NAMES[1]]
        for value in lists:
            for item in value.sequence:
                if item.text is None:
                    yield name_in_list.finding(
                        evidence=seen(plan, item, value, expected="a column's name"), key=value.key, value=shown(item)
                    )


@check(
    Rule(
        id="CFG-TYP-012",
        name="setting-is-empty",
        severity=Severity.WARNING,
        category="config",
        title=Text("{key} is empty", "{key} 为空"),
        why=Text(
            "An empty setting is null: some places take the default, others fail on None.",
            "空值即 null：有的地方取默认值，有的地方会因 None 报错。",
        ),
        fix=Text("Give a value, or remove the line.", "填写取值，或删除该行。"),
    )
)
@applies(MODELS)
def empty_setting(plan: Plan) -> Iterator[Finding]:
    for value, spec, _ in faults(plan, "null"):
        yield empty_setting.finding(
            evidence=seen(plan, value, expected=spec.words if spec.numeric else "a value"),
            severity=Severity.ERROR if value.key in _NEVER_EMPTY else None,
            key=value.key,
        )


#: MindFormers stops on these when they are null
_NEVER_EMPTY = frozenset(
    f"{section}.{name}"
    for section, names in (
        ("parallel_config", ("data_parallel", "model_parallel", "pipeline_stage", "micro_batch_num")),
        ("runner_config", ("epochs", "batch_size")),
        ("trainer", ("type",)),
        ("optimizer", ("type",)),
        ("lr_schedule", ("type",)),
        ("runner_wrapper", ("type",)),
    )
    for name in names
)


@check(
    Rule(
        id="CFG-TYP-013",
        name="number-not-finite",
        severity=Severity.ERROR,
        category="nan-overflow",
        title=Text("{key} is {text}", "{key} 为 {text}"),
        why=Text("NaN or infinity spreads to every value that it meets.", "NaN 或无穷大会传播到所有参与计算的值。"),
        fix=Text("Write a finite number.", "写成有限的数。"),
    )
)
@applies(MODELS)
def not_finite(plan: Plan) -> Iterator[Finding]:
    for value, spec, _ in faults(plan, "not-finite"):
        yield not_finite.finding(evidence=seen(plan, value, expected=spec.words), key=value.key, text=shown(value))


@check(
    Rule(
        id="CFG-TYP-014",
        name="value-out-of-range",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key}: {text} is out of range", "{key}：{text} 超出取值范围"),
        why=Text("The setting takes values in {range}.", "该设置的取值范围为 {range}。"),
        fix=Text("Use a value in the range.", "使用范围内的值。"),
    )
)
@applies(MODELS)
def out_of_range(plan: Plan) -> Iterator[Finding]:
    for value, spec, _ in faults(plan, "range"):
        if value.key in _OWN_RULE:
            continue
        nearest = spec.low if (value.number or 0) < spec.low else spec.high
        new = nearest if "num" in spec.kinds else int(nearest)
        yield out_of_range.finding(
            evidence=seen(plan, value, expected=spec.words),
            fixes=(change(plan, value, new),),
            key=value.key,
            text=shown(value),
            range=spec.words,
        )


#: settings whose range another rule explains better
_OWN_RULE = frozenset(
    ("runner_config.batch_size", "runner_config.epochs", "training.steps", "runner_config.gradient_accumulation_steps")
)


#: beyond these no run has ever been: last part of the key, greatest plausible value
_PLAUSIBLE = {
    "batch_size": 100_000,
    "epochs": 100_000,
    "num_train_epochs": 100_000,
    "local_batch_size": 100_000,
    "global_batch_size": 10_000_000,
    "per_device_train_batch_size": 100_000,
    "gradient_accumulation_steps": 100_000,
    "num_layers": 5_000,
    "num_hidden_layers": 5_000,
    "hidden_size": 1_000_000,
    "num_heads": 100_000,
    "num_attention_heads": 100_000,
    "vocab_size": 50_000_000,
    "seq_length": 50_000_000,
    "intermediate_size": 10_000_000,
    "data_parallel": 1_000_000,
    "model_parallel": 100_000,
    "pipeline_stage": 10_000,
    "tensor_parallel": 100_000,
    "pipeline_parallel": 10_000,
    "micro_batch_num": 1_000_000,
    "sink_size": 10_000_000,
    "prefetch_size": 10_000,
    "warmup_steps": 1_000_000_000,
    "save_checkpoint_steps": 1_000_000_000,
    "num_parallel_workers": 10_000,
    "expert_num": 1_000_000,
}


@check(
    Rule(
        id="CFG-TYP-016",
        name="value-implausibly-large",
        severity=Severity.WARNING,
        category="config",
        title=Text("{key} {value} is implausibly large", "{key} 为 {value}，大得不合理"),
        why=Text(
            "No run has ever used so much; a digit or a unit slipped.",
            "从未有训练用过这么大的值，多半是多写了位数或单位。",
        ),
        fix=Text("Check the number.", "请核对该数字。"),
    )
)
@applies((*RUNS, Dialect.HUGGINGFACE))
def implausible(plan: Plan) -> Iterator[Finding]:
    for value in plan.root.walk():
        limit = _PLAUSIBLE.get(value.name)
        if limit is not None and value.number is not None and value.number > limit:
            yield implausible.finding(
                evidence=seen(plan, value, expected=f"at most {limit}"), key=value.key, value=shown(value)
            )
