"""Fused projections of the right shape whose rows stand in the wrong order: no loader notices, the loss does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Optional

from doctor.check import Skip, check
from doctor.checks.weights.compared import diagnosed, head_size
from doctor.checks.weights.subject import Weights
from doctor.checks.weights.verdicts import MAX_LAYERS, told, wants_values
from doctor.finding import Finding, Severity, Text
from doctor.rule import Rule

if TYPE_CHECKING:
    from doctor.formats.recognise import Member, Model
    from doctor.formats.roworder import Verdict

MINDFORMERS, MCORE = "mindformers", "mcore"
#: Parameters that hold several projections: gate and up, or q, k and v.
_GATED = ("feed_forward.w_gate_hidden.weight", "mlp.linear_fc1.weight")
_ATTENTION = ("attention.w_qkv.weight", "self_attention.linear_qkv.weight")
_WORDS = {
    "grouped": Text("grouped by KV head (Megatron's order)", "按 KV 头分组（Megatron 顺序）"),
    "plain": Text("q, then k, then v", "q、k、v 依次排列"),
    "interleaved": Text("gate and up rows in turn", "gate、up 逐行交错"),
    "halves": Text("all gate rows, then all up rows", "先全部 gate 行、后全部 up 行"),
}
#: A config that says so wants the contiguous order.
_SWITCHES = {"grouped": "use_contiguous_weight_layout_attention", "interleaved": "use_interleaved_weight_layout_mlp"}
#: Operations whose order of rows differs between releases; others are the same everywhere.
_OPERATIONS = frozenset({"qkv-grouped", "interleaved", "halves-interleaved"})


@check(
    Rule(
        id="WGT-ORD-001",
        name="fused-rows-in-another-order",
        severity=Severity.WARNING,
        category="weights-mismatch",
        title=Text("The rows of {name} seem to stand in another order", "{name} 的行顺序疑似不对"),
        why=Text(
            "Row sizes speak for: {observed} ({agreeing} of {layers} layers agree). {source} reads: {expected}. The shapes are "
            "equal, so it loads without a word, and the loss starts near that of random weights.",
            "从各行大小看更像：{observed_zh}（{layers} 层中 {agreeing} 层一致）。{source_zh}读取的顺序是：{expected_zh}。"
            "形状相同，加载不会报错，但起始 loss 会接近随机权重。",
        ),
        fix=Text(
            "Convert again from the Hugging Face weights with the converter of the release you train with: doctor convert SRC DST",
            "用所训练版本的转换脚本从 Hugging Face 权重重新转换：doctor convert SRC DST",
        ),
        verify="doctor check --values {path}",
        confidence=0.7,
        false_positives=Text("Models that were trained very little.", "几乎没有训练过的模型。"),
    )
)
def row_order(subject: Weights) -> Iterator[Finding]:
    wants_values(subject)
    model = diagnosed(subject).model
    if model.layout.id not in {MINDFORMERS, MCORE} or subject.set.sliced or subject.set.parallel:
        raise Skip(Text("there are no fused projections of MindSpore here", "没有 MindSpore 的融合投影"))
    for name, wanted in ((_ATTENTION, "grouped"), (_GATED, "interleaved")):
        members = _members(model, name)
        expected = _expected(subject, model, wanted)
        if not members or expected is None:
            continue
        verdict = _verdict(subject, model, members, wanted)
        if verdict is None or verdict.order == expected:
            continue
        yield row_order.finding(
            **told(subject, verdict, _WORDS[verdict.order], _WORDS[expected], key=members[0].tensor.name),
            name=members[0].param.name,
            source="MindFormers" + (f" {subject.options.mindformers}" if subject.options.mindformers else ""),
            source_zh="MindFormers " + (subject.options.mindformers or ""),
        )


def _members(model: Model, suffixes: tuple[str, ...]) -> list[Member]:
    from doctor.formats.values import FORMATS

    operations = {own: group.op.name for group in model.layout.groups for own in group.own}
    found = [
        member
        for member in model.members
        if member.param.name.endswith(suffixes)
        and len(member.tensor.shape) == 2
        and member.tensor.dtype in FORMATS
        and len(member.tensor.spans) == 1
        and operations.get(member.param.name) in _OPERATIONS
    ]
    step = max(1, len(found) // MAX_LAYERS)
    return found[::step][:MAX_LAYERS]


def _expected(subject: Weights, model: Model, wanted: str) -> Optional[str]:
    """The order that the program which loads will read, or None when that is not known."""
    other = {"grouped": "plain", "interleaved": "halves"}[wanted]
    if model.layout.id == MINDFORMERS:
        release = _release(subject)
        if release is None:
            return None
        return wanted if release >= (1, 4) else other
    data = subject.training.data if subject.training is not None else {}
    switch = data.get(_SWITCHES[wanted])
    if wanted == "grouped":
        return other if switch is True else wanted
    return other if switch is False else wanted


def _release(subject: Weights) -> Optional[tuple[int, int]]:
    parts = (subject.options.mindformers or "").split(".")
    if len(parts) >= 2 and parts[0].isdigit() and parts[1].isdigit():
        return int(parts[0]), int(parts[1])
    return None


def _verdict(subject: Weights, model: Model, members: list[Member], wanted: str) -> Optional[Verdict]:
    from doctor.formats import roworder

    homes = subject.set.homes
    try:
        sizes: list[Any] = [roworder.row_sizes(homes[m.tensor.name][0].path, m.tensor) for m in members]
    except (OSError, ValueError):
        return None
    rows = members[0].tensor.shape[0]
    if wanted == "interleaved":
        orders = {
            "interleaved": roworder.interleaved_labels(rows),
            "halves": roworder.plain_labels([rows // 2, rows - rows // 2]),
        }
        return roworder.compare(sizes, orders)
    head = head_size(subject, model)
    query, key = model.symbols.get("Q"), model.symbols.get("K")
    if head is None or query is None or key is None or key % head or key <= head:
        return None  # with one KV head the two orders are the same
    orders = {
        "grouped": roworder.grouped_labels(query, key, head),
        "plain": roworder.plain_labels([query, key, key]),
    }
    return roworder.compare(sizes, orders)
