"""Sequence parallel and context parallel: which switches need each other, and what the sequence must divide by."""

from __future__ import annotations

import math
from collections.abc import Iterator

from doctor.check import Skip, check
from doctor.checks.config.judge import (
    GRAPH,
    MINDFORMERS,
    advice,
    applies,
    because,
    change,
    divisors,
    listed,
    multiples,
    near,
    need,
    seen,
    shown,
)
from doctor.finding import Finding, Fix, Severity, Text
from doctor.plan.arithmetic import automatic
from doctor.plan.plan import Dialect, Plan
from doctor.rule import Rule

_ALGORITHMS = ("colossalai_cp", "ulysses_cp", "hybrid_cp")
_METHODS = ("colossal", "ulysses", "hybrid")
_OFF = Text("context_parallel is 1", "context_parallel 为 1")


def _context_size(plan: Plan) -> int:
    """The size of context parallel in use. Raises Skip when there is none."""
    (size,) = need(plan.parallel.context)
    if size == 1:
        raise Skip(_OFF)
    return size


def _uses(plan: Plan) -> None:
    if plan.dialect.graph and not automatic(plan):
        raise Skip(Text("parallel_mode does not shard the graph", "该 parallel_mode 不切分计算图"))


@check(
    Rule(
        id="CFG-SEQ-001",
        name="sequence-parallel-without-tensor-parallel",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text("Sequence parallel without tensor parallel", "未开启张量并行却打开了序列并行"),
        why=Text(
            "Sequence parallel shards within the tensor-parallel group. mcore refuses it with one member; legacy ignores it.",
            "序列并行在张量并行组内切分。mcore 在组内只有一个成员时报错，legacy 则忽略。",
        ),
        fix=Text("Set it to False, or use tensor parallel.", "设为 False，或启用张量并行。"),
        references=("mindformers/parallel_core/transformer_config.py __post_init__",),
    )
)
@applies(GRAPH, training=True)
def sequence_without_tensor(plan: Plan) -> Iterator[Finding]:
    value, tensor = plan.parallel.sequence, plan.parallel.tensor
    if value.on and tensor.count == 1:
        yield sequence_without_tensor.finding(
            evidence=seen(plan, value, tensor, expected=False),
            fixes=(change(plan, value, False, safe=True),),
            severity=Severity.ERROR if plan.dialect is Dialect.MCORE else Severity.INFO,
        )


@check(
    Rule(
        id="CFG-SEQ-002",
        name="tensor-parallel-needs-sequence-parallel",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text("Tensor parallel without sequence parallel", "张量并行未同时开启序列并行"),
        why=Text(
            "PyNative tensor parallel requires sequence_parallel: True.",
            "PyNative 的张量并行要求 sequence_parallel: True。",
        ),
        fix=Text("Set sequence_parallel: True.", "设置 sequence_parallel: True。"),
        references=("mindformers/pynative/config/config.py ParallelismConfig.__post_init__",),
    )
)
@applies((Dialect.PYNATIVE,))
def tensor_needs_sequence(plan: Plan) -> Iterator[Finding]:
    value, tensor = plan.parallel.sequence, plan.parallel.tensor
    if (tensor.count or 1) > 1 and value.value is False:
        yield tensor_needs_sequence.finding(
            evidence=seen(plan, *([value] if value.given else []), tensor, expected=True),
            fixes=(change(plan, value, True), change(plan, tensor, 1)),
        )


@check(
    Rule(
        id="CFG-SEQ-003",
        name="sequence-not-divisible-by-tensor",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text("Sequence parallel does not divide the sequence", "序列并行不能整除序列长度"),
        why=Text(
            "With sequence parallel every device of the tensor-parallel group holds an equal share of the sequence.",
            "序列并行时，张量并行组内每个设备持有等长的一段序列。",
        ),
        fix=Text("Use a sequence length that the size divides.", "使用能被整除的序列长度。"),
    )
)
@applies(MINDFORMERS, training=True)
def sequence_by_tensor(plan: Plan) -> Iterator[Finding]:
    _uses(plan)
    parallel = plan.parallel
    if not parallel.sequence.on:
        raise Skip(Text("sequence parallel is off", "未开启序列并行"))
    length, tensor = need(plan.model.sequence, parallel.tensor)
    context = parallel.context.count or 1
    if length % (tensor * context) and length % tensor:
        yield sequence_by_tensor.finding(
            because(
                sequence_by_tensor,
                f"seq_length {length} % {tensor} = {length % tensor}.",
                f"seq_length {length} % {tensor} = {length % tensor}。",
            ),
            evidence=seen(plan, plan.model.sequence, parallel.tensor, expected=f"a multiple of {tensor}"),
            fixes=_lengths(plan, tensor, length),
        )


def _lengths(plan: Plan, step: int, length: int) -> list[Fix]:
    """Lengths near the one of the file that every size divides, within the model's positions."""
    parallel, positions = plan.parallel, plan.model.positions.count
    whole = math.lcm(step, (parallel.tensor.count or 1) * (parallel.context.count or 1))
    limit = positions if positions and length <= positions else None
    return [
        change(plan, plan.model.sequence, option)
        for option in multiples(whole, length)
        if limit is None or option <= limit
    ]


@check(
    Rule(
        id="CFG-SEQ-004",
        name="context-parallel-without-flash-attention",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text("Context parallel without flash attention", "未开启 flash attention 却使用了上下文并行"),
        why=Text(
            "Context parallel is implemented on flash attention only; MindFormers stops.",
            "上下文并行只在 flash attention 上实现，MindFormers 会报错退出。",
        ),
        fix=Text("Set use_flash_attention: True.", "设置 use_flash_attention: True。"),
        references=("mindformers/tools/check_rules.py _check_parallel",),
    )
)
@applies(MINDFORMERS, training=True)
def context_without_flash(plan: Plan) -> Iterator[Finding]:
    _context_size(plan)
    _uses(plan)
    flash = plan.model.flash_attention
    off = flash.value is False or (not flash.given and plan.dialect is Dialect.LEGACY)
    if off:
        yield context_without_flash.finding(
            evidence=seen(plan, flash, plan.parallel.context, expected=True),
            fixes=(change(plan, flash, True), change(plan, plan.parallel.context, 1)),
        )


@check(
    Rule(
        id="CFG-SEQ-005",
        name="sequence-not-divisible-by-context",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text("Context parallel does not divide the sequence", "上下文并行不能整除序列长度"),
        why=Text(
            "Context parallel cuts the sequence into equal pieces, one a device.", "上下文并行把序列等分到各个设备。"
        ),
        fix=Text("Choose a size that divides seq_length.", "选择能整除 seq_length 的并行度。"),
    )
)
@applies(MINDFORMERS, training=True)
def sequence_by_context(plan: Plan) -> Iterator[Finding]:
    size = _context_size(plan)
    _uses(plan)
    sequence = plan.model.sequence if plan.model.sequence.count else plan.data.sequence
    (length,) = need(sequence)
    if length % size:
        legal = [item for item in divisors(length) if item <= 4 * size]
        yield sequence_by_context.finding(
            because(
                sequence_by_context,
                f"seq_length {length} % context_parallel {size} = {length % size}.",
                f"seq_length {length} % context_parallel {size} = {length % size}。",
            ),
            evidence=seen(plan, plan.parallel.context, sequence, expected=listed(near(legal, size))),
            fixes=[change(plan, plan.parallel.context, option) for option in near(legal, size, 1)]
            + _lengths(plan, size, length),
        )


@check(
    Rule(
        id="CFG-SEQ-006",
        name="ulysses-needs-more-heads",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text("Ulysses context parallel needs more heads than there are", "Ulysses 上下文并行所需的头数不足"),
        why=Text(
            "Ulysses splits attention heads: context_parallel x model_parallel may not exceed the (key/value) heads.",
            "Ulysses 按头切分：context_parallel × model_parallel 不能超过（KV）头数。",
        ),
        fix=Text("Lower context_parallel or use colossalai_cp.", "减小 context_parallel，或改用 colossalai_cp。"),
        references=("mindformers/tools/check_rules.py _check_context_parallel_algo_valid",),
    )
)
@applies(GRAPH, training=True)
def ulysses_heads(plan: Plan) -> Iterator[Finding]:
    size = _context_size(plan)
    _uses(plan)
    parallel, model = plan.parallel, plan.model
    if parallel.context_method.words != "ulysses_cp":
        raise Skip(Text("context_parallel_algo is not ulysses_cp", "context_parallel_algo 不是 ulysses_cp"))
    heads_value = model.kv_heads if model.kv_heads.given else model.heads
    heads, tensor = need(heads_value, parallel.tensor)
    if size * tensor > heads:
        legal = [item for item in divisors(heads) if item * tensor <= heads]
        yield ulysses_heads.finding(
            because(
                ulysses_heads,
                f"context_parallel x model_parallel = {size} x {tensor} = {size * tensor} > {heads} heads.",
                f"context_parallel × model_parallel = {size} × {tensor} = {size * tensor} > 头数 {heads}。",
            ),
            evidence=seen(plan, parallel.context, heads_value, parallel.tensor, expected=f"at most {heads // tensor}"),
            fixes=[change(plan, parallel.context, option) for option in near(legal, size, 1)]
            + [change(plan, parallel.context_method, "colossalai_cp")],
        )


@check(
    Rule(
        id="CFG-SEQ-007",
        name="ulysses-degree-mismatch",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text(
            "ulysses_degree_in_cp does not fit context_parallel", "ulysses_degree_in_cp 与 context_parallel 不匹配"
        ),
        why=Text(
            "Hybrid context parallel needs a degree that divides context_parallel; with ulysses alone the degree is context_parallel itself.",
            "hybrid 上下文并行要求该值整除 context_parallel；纯 ulysses 时该值等于 context_parallel。",
        ),
        fix=Text("Choose a divisor of context_parallel.", "选择 context_parallel 的约数。"),
        references=(
            "mindformers/modules/transformer/transformer.py",
            "mindformers/pynative/distributed/context_parallel.py",
        ),
    )
)
@applies(MINDFORMERS, training=True)
def ulysses_degree(plan: Plan) -> Iterator[Finding]:
    size = _context_size(plan)
    parallel = plan.parallel
    method, degree = parallel.context_method.words.lower(), parallel.ulysses
    number = degree.whole
    hybrid = method in {"hybrid_cp", "hybird_cp", "hybrid"}
    if plan.dialect is Dialect.PYNATIVE:
        wrong = (hybrid and (number is None or not 1 < number < size or size % number != 0)) or (
            method == "ulysses" and number is not None and number != size
        )
    else:
        wrong = hybrid and number is not None and (number < 1 or size % number != 0)
    if wrong:
        legal = [item for item in divisors(size) if 1 < item < size] or [size]
        good = legal if hybrid else [size]
        yield ulysses_degree.finding(
            because(
                ulysses_degree,
                f"{degree.name} is {shown(degree)} with context_parallel {size}.",
                f"context_parallel 为 {size}，而 {degree.name} 为 {shown(degree)}。",
            ),
            evidence=seen(plan, degree, parallel.context, expected=listed(good)),
            fixes=[change(plan, degree, option) for option in near(good, number or 2, 1)],
        )


@check(
    Rule(
        id="CFG-SEQ-008",
        name="context-parallel-method-unknown",
        severity=Severity.ERROR,
        category="config",
        title=Text("Context-parallel method {value} does not exist", "不存在的上下文并行算法：{value}"),
        why=Text(
            "Graph mode knows colossalai_cp, ulysses_cp and hybrid_cp; PyNative colossal, ulysses and hybrid.",
            "图模式支持 colossalai_cp、ulysses_cp、hybrid_cp；PyNative 支持 colossal、ulysses、hybrid。",
        ),
        fix=Text("Use one of them.", "使用其中之一。"),
        references=("mindformers/parallel_core/transformer_config_utils.py get_cp_comm_type",),
    )
)
@applies(MINDFORMERS)
def context_method(plan: Plan) -> Iterator[Finding]:
    value = plan.parallel.context_method
    known = _METHODS if plan.dialect is Dialect.PYNATIVE else _ALGORITHMS
    if not value.given or value.value is None or str(value.value).lower() in known:
        return
    old = value.words == "hybird_cp"
    yield context_method.finding(
        evidence=seen(plan, value, expected=listed(known)),
        fixes=(change(plan, value, known[2] if old else known[0]),),
        severity=Severity.WARNING if old and plan.dialect is Dialect.LEGACY else None,
        value=shown(value),
    )


@check(
    Rule(
        id="CFG-SEQ-009",
        name="experts-need-sequence-parallel",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text("Experts with tensor parallel need sequence parallel", "MoE 与张量并行同时使用时必须开启序列并行"),
        why=Text(
            "Without it every device of the tensor-parallel group would route the same tokens; MindFormers 1.5 and later refuse it.",
            "否则张量并行组内每个设备会路由相同的 token；MindFormers 1.5 起会报错退出。",
        ),
        fix=Text("Set use_seq_parallel: True.", "设置 use_seq_parallel: True。"),
        references=("mindformers/tools/check_rules.py _check_moe_parallel_valid",),
    )
)
@applies(GRAPH, training=True, since="1.6.0")
def experts_need_sequence(plan: Plan) -> Iterator[Finding]:
    _uses(plan)
    value, tensor = plan.parallel.sequence, plan.parallel.tensor
    if plan.model.is_moe and (tensor.count or 1) > 1 and value.value is False:
        yield experts_need_sequence.finding(
            evidence=seen(plan, *([value] if value.given else []), tensor, plan.model.experts, expected=True),
            fixes=(change(plan, value, True),),
        )


@check(
    Rule(
        id="CFG-SEQ-010",
        name="fine-grain-interleave-needs-sequence-parallel",
        severity=Severity.ERROR,
        category="parallel-strategy",
        title=Text("fine_grain_interleave needs sequence parallel", "fine_grain_interleave 需要序列并行"),
        why=Text(
            "Without context parallel MindFormers requires use_seq_parallel: True with fine_grain_interleave above 1.",
            "未使用上下文并行时，fine_grain_interleave 大于 1 要求 use_seq_parallel: True。",
        ),
        fix=Text(
            "Set use_seq_parallel: True, or fine_grain_interleave: 1.",
            "设置 use_seq_parallel: True，或 fine_grain_interleave: 1。",
        ),
        references=("mindformers/tools/check_rules.py _check_config_campacity",),
    )
)
@applies(GRAPH, training=True)
def fine_grain_interleave(plan: Plan) -> Iterator[Finding]:
    value = plan.model.section.get("fine_grain_interleave")
    parallel = plan.parallel
    if (value.count or 1) > 1 and not parallel.sequence.on and (parallel.context.count or 1) == 1:
        old = plan.release.before("1.3.0")
        yield fine_grain_interleave.finding(
            evidence=seen(plan, value, *([parallel.sequence] if parallel.sequence.given else []), expected=1),
            fixes=(change(plan, parallel.sequence, True), change(plan, value, 1)),
            severity=Severity.WARNING if old else None,
        )


@check(
    Rule(
        id="CFG-SEQ-011",
        name="mask-compression-without-flash-attention",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} needs flash attention", "{key} 需要 flash attention"),
        why=Text(
            "Compressed masks and ring attention are features of flash attention; MindFormers stops without it.",
            "压缩掩码和 ring attention 是 flash attention 的功能，否则 MindFormers 会报错退出。",
        ),
        fix=Text("Set use_flash_attention: True.", "设置 use_flash_attention: True。"),
        references=("mindformers/parallel_core/transformer_config.py __post_init__",),
    )
)
@applies(MINDFORMERS, training=True)
def compression_without_flash(plan: Plan) -> Iterator[Finding]:
    flash = plan.model.flash_attention
    if flash.value is not False or not flash.given:
        return
    for name in ("use_attn_mask_compression", "use_eod_attn_mask_compression", "use_ring_attention"):
        value = plan.model.section.get(name)
        if value.on:
            yield compression_without_flash.finding(
                evidence=seen(plan, flash, value, expected=True),
                fixes=(change(plan, flash, True), change(plan, value, False)),
                key=name,
            )


@check(
    Rule(
        id="CFG-SEQ-012",
        name="mask-compression-with-short-sequence",
        severity=Severity.WARNING,
        category="shape",
        title=Text("The compressed mask is larger than the sequence", "压缩掩码大于序列长度"),
        why=Text(
            "A compressed attention mask has 2,048 rows; legacy models require seq_length >= 2048 for it.",
            "压缩注意力掩码固定为 2048 行；legacy 模型要求 seq_length ≥ 2048。",
        ),
        fix=Text("Set use_attn_mask_compression: False.", "设置 use_attn_mask_compression: False。"),
        references=("mindformers/modules/layers.py LowerTriangularMaskWithDynamic",),
    )
)
@applies((Dialect.LEGACY,), training=True)
def compression_with_short_sequence(plan: Plan) -> Iterator[Finding]:
    value = plan.model.section.get("use_attn_mask_compression")
    length = plan.model.sequence.count
    if value.on and length and length < 2048:
        yield compression_with_short_sequence.finding(
            evidence=seen(plan, value, plan.model.sequence, expected="seq_length >= 2048"),
            fixes=(change(plan, value, False), advice(plan, "Or use a longer sequence.", "或使用更长的序列。")),
        )
