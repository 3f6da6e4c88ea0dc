"""On request (--values): what is equal and should not be, and the other way round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from doctor.check import Skip, check
from doctor.checks.weights.scanned import evidence_of_values, statistics
from doctor.checks.weights.subject import Weights
from doctor.finding import Finding, Severity, Text
from doctor.formats.layers import is_lora, place
from doctor.rule import Rule

if TYPE_CHECKING:
    pass


@check(
    Rule(
        id="WGT-VAL-007",
        name="layers-duplicated",
        severity=Severity.WARNING,
        category="weights-mismatch",
        title=Text("Layers {layers} hold the same values", "第 {layers} 层的数值完全相同"),
        why=Text(
            "{count} matrices such as {sample} are equal byte for byte in these layers: a conversion wrote one layer into "
            "several.",
            "{sample} 等 {count} 个矩阵在这些层中逐字节相同：转换时把同一层写入了多层。",
        ),
        fix=Text(
            "Convert again from the original: doctor convert SRC DST", "从原始权重重新转换：doctor convert SRC DST"
        ),
        verify="doctor check --values {path}",
        false_positives=Text("Models deepened by copying layers.", "通过复制层来加深的模型。"),
    )
)
def duplicated(subject: Weights) -> Iterator[Finding]:
    from doctor.checks.words import ranges

    twins: dict[tuple[object, ...], list[tuple[int, str]]] = {}
    for row in statistics(subject).values():
        at = place(row.name)
        if (
            at.layer is None
            or len(row.shape) < 2
            or row.zeros == row.elements
            or row.elements < 16
            or is_lora(row.name)
        ):
            continue
        key = (at.pattern, at.expert, row.shape, row.fingerprint)
        twins.setdefault(key, []).append((at.layer, row.name))
    wrong = [rows for rows in twins.values() if len({layer for layer, _ in rows}) > 1]
    if wrong:
        layers = {layer for rows in wrong for layer, _ in rows}
        yield duplicated.finding(
            evidence=evidence_of_values(subject, ((name, "equal") for _, name in wrong[0])),
            layers=ranges(layers),
            count=len(wrong),
            sample=wrong[0][0][1],
            path=subject.path,
        )


@check(
    Rule(
        id="WGT-VAL-011",
        name="tied-head-differs",
        severity=Severity.WARNING,
        category="weights-mismatch",
        title=Text("The config ties the head, but the stored head differs", "配置共享词表，但存储的输出层与词嵌入不同"),
        why=Text(
            "With tie_word_embeddings the stored {head} is dropped on load and the embedding used in its place. Here they are not "
            "equal: the model was trained untied, and would lose its head.",
            "启用 tie_word_embeddings 时，加载会丢弃 {head} 而使用词嵌入。两者在此并不相等：模型训练时并未共享，加载后会丢失输出层。",
        ),
        fix=Text("Set tie_word_embeddings: false.", "设置 tie_word_embeddings: false。"),
        verify="doctor check --values {path}",
    )
)
def tied_head(subject: Weights) -> Iterator[Finding]:
    rows = statistics(subject)
    model, expected = subject.model, subject.expected
    if model is None or expected is None or expected.sizes is None or "head" in expected.sizes.features:
        raise Skip(Text("no config that ties the head", "没有共享词表的配置"))
    head = next((member.tensor.name for member in model.members if member.param.when == "head"), None)
    table = next((m.tensor.name for m in model.members if m.param.shape == ("V", "H") and m.param.when != "head"), None)
    if head is None or table is None or head not in rows or table not in rows:
        return
    if rows[head].fingerprint != rows[table].fingerprint and rows[head].dtype == rows[table].dtype:
        yield tied_head.finding(
            evidence=(expected.evidence(("tie_word_embeddings",), "differs", "equal to the embedding"),),
            head=head,
            path=subject.path,
        )
