"""On request (--values): was every part of the tensors written?"""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import check
from doctor.checks.weights.scanned import evidence_of_values, statistics
from doctor.checks.weights.subject import Weights
from doctor.checks.words import some
from doctor.finding import Finding, Severity, Text
from doctor.formats.layers import is_lora
from doctor.rule import Rule


@check(
    Rule(
        id="WGT-VAL-003",
        name="weights-all-zero",
        severity=Severity.ERROR,
        category="weights-mismatch",
        title=Text("{count} weights are zero throughout", "有 {count} 个权重全为零"),
        why=Text(
            "{names}: a matrix or a norm of zeros passes nothing on. The tensor was allocated and never written, or the file has a "
            "hole where a copy was interrupted.",
            "{names_zh}：全零的矩阵或归一化参数不会传递任何信号。张量只分配而未写入，或拷贝中断使文件留有空洞。",
        ),
        fix=Text("Take the file from its source again and compare its checksum.", "从源头重新获取该文件并核对校验和。"),
        verify="doctor check --values {path}",
    )
)
def all_zero(subject: Weights) -> Iterator[Finding]:
    wrong = [
        (name, row)
        for name, row in statistics(subject).items()
        if row.elements > 1 and row.zeros == row.elements and not _may_be_zero(row.name) and row.finite
    ]
    if wrong:
        names = some([name for name, _ in wrong])
        yield all_zero.finding(
            evidence=evidence_of_values(subject, ((name, Text("0 throughout", "全为 0")) for name, _ in wrong)),
            count=len(wrong),
            names=names.en,
            names_zh=names.zh,
            path=subject.path,
        )


def _may_be_zero(name: str) -> bool:
    """Biases, shifts of norms, adapters' second halves and balancing terms start at zero and may stay there."""
    return (
        name.endswith((".bias", ".beta", "e_score_correction_bias", "expert_bias", "topk_bias", "_bias"))
        or is_lora(name)
        or "zero" in name
    )


@check(
    Rule(
        id="WGT-VAL-004",
        name="dead-rows",
        severity=Severity.WARNING,
        category="weights-mismatch",
        title=Text("{count} rows of {name} are zero", "{name} 有 {count} 行全为零"),
        why=Text(
            "Rows {rows} hold only zeros{more}. Such outputs are constant: a part of the tensor was never written, or it was pruned.",
            "第 {rows} 行全为零{more_zh}。对应输出恒定：张量有一部分未写入，或经过剪枝。",
        ),
        fix=Text(
            "If the model was not pruned on purpose, take the file from its source again.",
            "若并非有意剪枝，请从源头重新获取该文件。",
        ),
        verify="doctor check --values {path}",
        false_positives=Text(
            "Rows at the end of an embedding or head that pad the vocabulary may be zero.",
            "词表补齐产生的词嵌入或输出层末尾各行可以为零。",
        ),
    )
)
def dead_rows(subject: Weights) -> Iterator[Finding]:
    from doctor.checks.words import ranges

    wrong = []
    for name, row in statistics(subject).items():
        if not row.dead_row_count or row.zeros == row.elements or is_lora(row.name):
            continue
        rows = row.shape[0]
        tail = row.dead_rows == tuple(range(rows - row.dead_row_count, rows))
        if _is_table(row.name) and (tail or row.dead_row_count <= max(8, rows // 100)):
            continue
        wrong.append((name, row))
    if wrong:
        name, first = wrong[0]
        others = some([other for other, _ in wrong[1:]])
        yield dead_rows.finding(
            evidence=evidence_of_values(
                subject,
                (
                    (other, Text(f"{row.dead_row_count} rows of zeros", f"{row.dead_row_count} 行全为 0"))
                    for other, row in wrong
                ),
            ),
            count=first.dead_row_count,
            name=name,
            rows=ranges(first.dead_rows[:50]),
            more=f"; so have {others.en}" if wrong[1:] else "",
            more_zh=f"；{others.zh} 也有" if wrong[1:] else "",
            path=subject.path,
        )


def _is_table(name: str) -> bool:
    return any(
        part in name for part in ("embed", "wte", "wpe", "lm_head", "output_layer", "output.weight", "head.weight")
    )
