"""Recompute and swap: shapes of their lists, pairs that exclude each other, switches without effect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from doctor.check import check
from doctor.checks.config.judge import GRAPH, MINDFORMERS, RUNS, applies, because, change, need, seen, shown
from doctor.finding import Finding, Severity, Text
from doctor.plan.plan import Dialect, Plan
from doctor.plan.value import Value
from doctor.rule import Rule

_RULES = "mindformers/tools/check_rules.py"


def _lists(plan: Plan) -> tuple[Value, ...]:
    return (plan.recompute.full, plan.recompute.select, plan.recompute.communication)


@check(
    Rule(
        id="CFG-REC-001",
        name="recompute-list-longer-than-stages",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text("{key} has {length} entries for {stages} stages", "{key} 有 {length} 项，而阶段数为 {stages}"),
        why=Text(
            "A list of numbers says how many layers each stage recomputes; MindFormers refuses more entries than stages.",
            "整数列表表示每个阶段重计算的层数；项数超过阶段数时 MindFormers 会报错。",
        ),
        fix=Text("Write one entry a stage, or True.", "每个阶段写一项，或写 True。"),
        references=(f"{_RULES} _rule_recompute",),
    )
)
@applies(GRAPH, training=True)
def recompute_list(plan: Plan) -> Iterator[Finding]:
    if plan.recompute.swap.on:
        return
    (stages,) = need(plan.parallel.pipeline)
    for value in _lists(plan):
        entries = value.sequence
        if entries and len(entries) > stages and all(item.whole is not None for item in entries):
            yield recompute_list.finding(
                evidence=seen(plan, value, plan.parallel.pipeline, expected=f"at most {stages} entries"),
                fixes=(change(plan, value, [item.whole for item in entries[:stages]]), change(plan, value, True)),
                severity=None if plan.release.since("1.3.0") else Severity.WARNING,
                key=value.key,
                length=len(entries),
                stages=stages,
            )


@check(
    Rule(
        id="CFG-REC-002",
        name="recompute-count-invalid",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} asks for {count} layers", "{key} 要求重计算 {count} 层"),
        why=Text("Each entry counts layers of a stage: 0 up to the layers.", "每项为该阶段的层数：0 到总层数。"),
        fix=Text("Use 0 to the layers of the stage.", "使用 0 到该阶段层数。"),
    )
)
@applies(GRAPH, training=True)
def recompute_count(plan: Plan) -> Iterator[Finding]:
    layers, full = plan.model.layers.count, plan.recompute.full
    if full.is_sequence and plan.release.before("1.2.0"):
        yield recompute_count.finding(
            Text(
                "Before 1.2 recompute is True or False: a list of layers is refused (Validator.check_bool).",
                "1.2 之前 recompute 只能是 True 或 False，写成列表会报错（Validator.check_bool）。",
            ),
            evidence=seen(plan, full, expected="True or False"),
            fixes=(change(plan, full, True),),
            key=full.key,
            count=shown(full),
        )
    for item in full.sequence:
        if item.text is not None:
            yield recompute_count.finding(
                evidence=seen(plan, item, full, expected="a number"), key=full.key, count=shown(item)
            )
    for value in _lists(plan):
        for item in value.sequence:
            number = item.whole
            if number is not None and number < 0:
                yield recompute_count.finding(
                    evidence=seen(plan, item, value, expected=">= 0"), key=value.key, count=number
                )
            elif number is not None and layers and number > layers + 1 and not plan.recompute.swap.on:
                yield recompute_count.finding(
                    evidence=seen(plan, item, value, plan.model.layers, expected=f"at most {layers}"),
                    severity=Severity.INFO,
                    key=value.key,
                    count=number,
                )


@check(
    Rule(
        id="CFG-REC-003",
        name="recompute-shape-with-swap",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} has the wrong shape for swap", "{key} 与 swap 搭配时格式不对"),
        why=Text(
            "With swap on, a recompute setting is a bool, a list of layer numbers, or a mapping from an operator's name to such a list.",
            "开启 swap 时，重计算设置应为布尔值、层号列表，或“算子名: 层号列表”的映射。",
        ),
        fix=Text("Use one of these shapes.", "改成上述格式之一。"),
        references=(f"{_RULES} _rule_recompute_no_pp",),
    )
)
@applies(GRAPH, training=True)
def recompute_with_swap(plan: Plan) -> Iterator[Finding]:
    if not plan.recompute.swap.on:
        return
    for value in _lists(plan):
        for item in value.sequence:
            if item.whole is None and item.flag is None:
                yield recompute_with_swap.finding(
                    because(recompute_with_swap, f"An entry is {shown(item)}.", f"存在项 {shown(item)}。"),
                    evidence=seen(plan, item, value),
                    key=value.key,
                )
        for name, item in value.mapping.items():
            if name.lstrip("-").isdigit():
                yield recompute_with_swap.finding(
                    because(
                        recompute_with_swap,
                        f"{name} is a number where an operator's name belongs.",
                        f"{name} 是数字，应为算子名。",
                    ),
                    evidence=seen(plan, item, value),
                    key=value.key,
                )
            elif not item.is_sequence:
                yield recompute_with_swap.finding(
                    because(
                        recompute_with_swap,
                        f"{name} is {shown(item)}, not a list.",
                        f"{name} 为 {shown(item)}，不是列表。",
                    ),
                    evidence=seen(plan, item, value),
                    key=value.key,
                )


@check(
    Rule(
        id="CFG-REC-004",
        name="selective-recompute-without-effect",
        severity=Severity.INFO,
        category="config",
        title=Text(
            "select_recompute has no effect beside recompute: True", "recompute: True 时 select_recompute 不生效"
        ),
        why=Text("With everything recomputed there is nothing left to select.", "已全部重计算，没有可再选择的部分。"),
        fix=Text(
            "Set recompute: False to recompute selected operators only (faster, more memory).",
            "设置 recompute: False 可只重计算选中的算子（更快，显存更多）。",
        ),
    )
)
@applies(GRAPH, training=True)
def select_useless(plan: Plan) -> Iterator[Finding]:
    full, select = plan.recompute.full, plan.recompute.select
    if full.on and select.given and (select.on or select.sequence or select.mapping):
        yield select_useless.finding(
            evidence=seen(plan, select, full), fixes=(change(plan, full, False), change(plan, select, False))
        )


@check(
    Rule(
        id="CFG-REC-005",
        name="slice-recompute-without-tensor-parallel",
        severity=Severity.INFO,
        category="config",
        title=Text(
            "recompute_slice_activation has no effect with model_parallel 1",
            "model_parallel 为 1 时 recompute_slice_activation 不生效",
        ),
        why=Text("It cuts kept inputs over the tensor-parallel group.", "它在张量并行组内切分保存的输入。"),
        fix=Text("Nothing to do.", "无需处理。"),
    )
)
@applies((Dialect.LEGACY,), training=True)
def slice_useless(plan: Plan) -> Iterator[Finding]:
    value = plan.recompute.slice_activation
    recomputed = plan.recompute.full.on or bool(plan.recompute.full.sequence)
    if value.on and plan.parallel.tensor.count == 1 and recomputed and plan.parallel.tensor.given:
        yield slice_useless.finding(evidence=seen(plan, value, plan.parallel.tensor))


@check(
    Rule(
        id="CFG-REC-006",
        name="pynative-recompute-mode",
        severity=Severity.ERROR,
        category="config",
        title=Text("recompute does not say what to recompute", "recompute 没有说明重计算的内容"),
        why=Text(
            "mode is 'None', 'full' (needs full_recompute_layer) or 'select' (needs select_module).",
            "mode 取 'None'、'full'（需要 full_recompute_layer）或 'select'（需要 select_module）。",
        ),
        fix=Text("Add what is missing.", "补上缺失的项。"),
        references=("mindformers/pynative/distributed/activation_checkpoint.py",),
    )
)
@applies((Dialect.PYNATIVE,), training=True)
def pynative_mode(plan: Plan) -> Iterator[Finding]:
    mode, section = plan.recompute.full, plan.recompute.section
    if not mode.given:
        return
    layers, modules = section.get("full_recompute_layer"), plan.recompute.select
    if mode.value not in ("None", "full", "select"):
        lowered = str(mode.value).lower()
        new = lowered if lowered in {"full", "select"} else "None"
        yield pynative_mode.finding(
            because(pynative_mode, f"mode is {shown(mode)}.", f"mode 为 {shown(mode)}。"),
            evidence=seen(plan, mode, expected="'None', 'full' or 'select'"),
            fixes=(change(plan, mode, new),),
        )
    elif mode.words == "full" and not layers.sequence:
        yield pynative_mode.finding(
            evidence=seen(plan, layers if layers.given else mode, mode, expected="full_recompute_layer: [0-N]")
        )
    elif mode.words == "select" and not modules.mapping:
        yield pynative_mode.finding(
            evidence=seen(plan, modules if modules.given else mode, mode, expected="select_module")
        )


@check(
    Rule(
        id="CFG-REC-007",
        name="recompute-range-beyond-layers",
        severity=Severity.ERROR,
        category="config",
        title=Text("Recompute range {range} lies beyond the {layers} layers", "重计算区间 {range} 超出 {layers} 层"),
        why=Text(
            "Layers are numbered from 0; prediction layers follow the last one.", "层号从 0 开始，预测层接在最后。"
        ),
        fix=Text("Use 0 to {last}.", "使用 0 到 {last}。"),
        references=("mindformers/pynative/distributed/activation_checkpoint.py",),
    )
)
@applies((Dialect.PYNATIVE,), training=True)
def recompute_range(plan: Plan) -> Iterator[Finding]:
    (layers,) = need(plan.model.layers)
    total = layers + (plan.model.field("mtp_num_layers").whole or 0)
    for item in plan.recompute.section.get("full_recompute_layer").sequence:
        first, _, last = str(item.value).partition("-")
        last = last or first
        if not (first.strip().isdigit() and last.strip().isdigit()):
            continue
        if int(last) >= total or int(first) > int(last):
            yield recompute_range.finding(
                evidence=seen(plan, item, plan.model.layers, expected=f"0-{total - 1}"),
                fixes=(change(plan, item, f"{min(int(first), total - 1)}-{total - 1}"),),
                range=shown(item),
                layers=total,
                last=total - 1,
            )


@check(
    Rule(
        id="CFG-SWP-001",
        name="swap-is-not-a-boolean",
        severity=Severity.ERROR,
        category="config",
        title=Text("swap_config.swap is {value}", "swap_config.swap 为 {value}"),
        why=Text("It must be a bool: `Type of swap must be bool`.", "必须为布尔值：`Type of swap must be bool`。"),
        fix=Text("Write True or False.", "写成 True 或 False。"),
        references=(f"{_RULES} _check_swap",),
    )
)
@applies(GRAPH, training=True)
def swap_boolean(plan: Plan) -> Iterator[Finding]:
    value = plan.recompute.swap
    if value.given and value.flag is None:
        yield swap_boolean.finding(
            evidence=seen(plan, value, expected="True or False"),
            fixes=(change(plan, value, False),),
            value=shown(value),
        )


@check(
    Rule(
        id="CFG-SWP-002",
        name="prefetch-not-positive",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} is {value}", "{key} 为 {value}"),
        why=Text(
            "It counts operators (or layers) to fetch ahead: a whole number from 1.",
            "它表示提前预取的算子（或层）数：从 1 开始的整数。",
        ),
        fix=Text("Use 1.", "使用 1。"),
        references=(f"{_RULES} _check_swap", f"{_RULES} _rule_swap_no_pp"),
    )
)
@applies(MINDFORMERS, training=True)
def prefetch(plan: Plan) -> Iterator[Finding]:
    section = plan.root.get("swap" if plan.dialect is Dialect.PYNATIVE else "swap_config")
    values = [section.get("default_prefetch")]
    values += [entry.get("backward_prefetch") for entry in _entries(section)]
    for value in values:
        if value.given and (value.whole is None or value.whole < 1):
            yield prefetch.finding(
                evidence=seen(plan, value, expected=">= 1"),
                fixes=(change(plan, value, 1),),
                key=value.key,
                value=shown(value),
            )


def _entries(section: Value) -> Iterator[Value]:
    """The mappings of layer_swap and op_swap; a single one need not stand in a list."""
    for value in (section.get("layer_swap"), section.get("op_swap")):
        yield from (item for item in _items(value) if item.is_mapping)


def _items(value: Value) -> Sequence[Value]:
    return (value,) if value.is_mapping else tuple(value.sequence)


@check(
    Rule(
        id="CFG-SWP-003",
        name="swap-shape-mismatch",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} has the wrong shape", "{key} 格式不对"),
        why=Text(
            "layer_swap and op_swap are lists of mappings with backward_prefetch and layers, those of op_swap with op_name too.",
            "layer_swap 与 op_swap 都是映射列表，每项含 backward_prefetch 与 layers，op_swap 的每项还要有 op_name。",
        ),
        fix=Text(
            "Write - backward_prefetch: 1, layers: [0, 1] (in op_swap with op_name: 'attention').",
            "写成 - backward_prefetch: 1 与 layers: [0, 1]（op_swap 中再加 op_name: 'attention'）。",
        ),
        references=(
            f"{_RULES} _rule_swap_no_pp",
            "mindformers/modules/transformer/transformer.py TransformerSwapConfig",
        ),
    )
)
@applies(GRAPH, training=True)
def swap_shape(plan: Plan) -> Iterator[Finding]:
    section = plan.root.get("swap_config")
    if not plan.recompute.swap.on:
        return
    for name, needed in (("layer_swap", ()), ("op_swap", ("op_name",))):
        value = section.get(name)
        if value.given and value.value is not None and not (value.is_sequence or value.is_mapping):
            yield swap_shape.finding(evidence=seen(plan, value, expected="a list"), key=value.key)
        for item in _items(value):
            if not item.is_mapping or not all(item.get(key).given for key in (*needed, "backward_prefetch", "layers")):
                wanted = Text(
                    ", ".join((*needed, "backward_prefetch", "layers")),
                    "、".join((*needed, "backward_prefetch", "layers")),
                )
                yield swap_shape.finding(evidence=seen(plan, item, expected=wanted), key=item.key)


@check(
    Rule(
        id="CFG-REC-008",
        name="recompute-everything",
        severity=Severity.INFO,
        category="performance",
        title=Text("Every layer is recomputed although the model is small", "模型较小却对每层重计算"),
        why=Text(
            "Recompute costs 8 to 12 % of throughput on a 910B; a small model rarely needs it.",
            "910B 上重计算损失 8% 到 12% 吞吐；小模型通常不需要。",
        ),
        fix=Text(
            "Set recompute: False and look at doctor estimate.",
            "设置 recompute: False，并用 doctor estimate 查看显存。",
        ),
    )
)
@applies(RUNS, training=True)
def recompute_small(plan: Plan) -> Iterator[Finding]:
    hidden, layers = plan.model.hidden.count, plan.model.layers.count
    if (
        plan.recompute.full.on
        and hidden
        and layers
        and 12 * layers * hidden * hidden < 2e8
        and (plan.model.sequence.count or 0) <= 2048
    ):
        yield recompute_small.finding(
            evidence=seen(plan, plan.recompute.full, plan.model.hidden),
            fixes=(change(plan, plan.recompute.full, False),),
        )
