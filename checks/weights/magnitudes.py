"""On request (--values): are tensors as large as their neighbours, and were they trained?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from doctor.check import check
from doctor.checks.weights.scanned import evidence_of_values, is_norm, statistics
from doctor.checks.weights.subject import Weights
from doctor.finding import Finding, Severity, Text
from doctor.formats.layers import is_lora, place
from doctor.rule import Rule

if TYPE_CHECKING:
    from doctor.formats.values import Statistics


@check(
    Rule(
        id="WGT-VAL-008",
        name="norm-weights-unusual",
        severity=Severity.WARNING,
        category="weights-mismatch",
        title=Text("{count} norm weights have an unusual size", "有 {count} 个归一化权重大小异常"),
        why=Text(
            "{name} has a root mean square of {rms:.3g}, its neighbours {usual:.3g}. A norm that far off scales the whole layer: the "
            "tensor is of another place, or was converted in a type too narrow.",
            "{name} 的均方根为 {rms:.3g}，相邻层为 {usual:.3g}。偏离如此之大的归一化会缩放整层：该张量放错了位置，或转换时类型过窄。",
        ),
        fix=Text(
            "Convert again from the original: doctor convert SRC DST", "从原始权重重新转换：doctor convert SRC DST"
        ),
        verify="doctor check --values {path}",
        confidence=0.7,
    )
)
def norms(subject: Weights) -> Iterator[Finding]:
    wrong = _outliers(
        [row for row in statistics(subject).values() if is_norm(row.name) and row.finite],
        limit=20.0,
        floor=1e-4,
        ceiling=1e3,
    )
    if wrong:
        row, usual = wrong[0]
        yield norms.finding(
            evidence=evidence_of_values(subject, ((item.name, item.rms) for item, _ in wrong), usual),
            count=len(wrong),
            name=row.name,
            rms=row.rms,
            usual=usual,
            path=subject.path,
        )


def _outliers(rows: list[Statistics], limit: float, floor: float, ceiling: float) -> list[tuple[Statistics, float]]:
    """Those `limit` times larger or smaller than the median of the same parameter in the seven layers around, or beyond
    any usual size. Layers differ, but neighbours do not differ that much."""
    groups: dict[tuple[str, int], list[tuple[int, Statistics]]] = {}
    for row in rows:
        at = place(row.name)
        groups.setdefault((at.pattern, at.expert or 0), []).append((at.layer or 0, row))
    found = []
    for members in groups.values():
        members.sort(key=lambda item: item[0])
        for index, (_, row) in enumerate(members):
            around = sorted(other.rms for _, other in members[max(0, index - 3) : index + 4])
            usual = around[len(around) // 2]
            alone = len(members) < 4
            outside = row.rms > ceiling or (row.rms < floor and row.zeros < row.elements)
            if outside or (not alone and usual > 0 and row.rms > 0 and not usual / limit < row.rms < usual * limit):
                found.append((row, usual))
    return found


@check(
    Rule(
        id="WGT-VAL-009",
        name="weights-never-trained",
        severity=Severity.WARNING,
        category="weights-mismatch",
        title=Text("The weights look freshly initialised", "权重像是刚初始化、未经训练"),
        why=Text(
            "Every norm weight is exactly 1 and all matrices have the same spread ({rms:.3g}). A fine-tuning from them starts from "
            "nothing: the checkpoint was saved before training, or the load before it failed silently.",
            "所有归一化权重恰为 1，且各矩阵的离散程度相同（{rms:.3g}）。从它微调等于从零开始：该权重在训练前保存，或此前的加载悄悄失败了。",
        ),
        fix=Text(
            "Use trained weights; check that the run that saved these had loaded its own ('parameters in the net are not loaded').",
            "使用训练过的权重；检查保存它的那次训练是否真正加载了权重（parameters in the 'net' are not loaded）。",
        ),
        verify="doctor check --values {path}",
        confidence=0.8,
    )
)
def untrained(subject: Weights) -> Iterator[Finding]:
    rows = list(statistics(subject).values())
    scales = [row for row in rows if is_norm(row.name)]
    matrices = [row for row in rows if len(row.shape) == 2 and not is_lora(row.name) and row.elements >= 256]
    if len(scales) < 3 or len(matrices) < 3:
        return
    ones = all(row.finite and row.mean == 1.0 and abs(row.rms - 1.0) < 1e-6 for row in scales)
    sizes = [row.rms for row in matrices if row.finite]
    if ones and sizes and min(sizes) > 0 and max(sizes) / min(sizes) < 1.5:
        yield untrained.finding(
            evidence=evidence_of_values(subject, ((row.name, Text("1 throughout", "全为 1")) for row in scales)),
            rms=sorted(sizes)[len(sizes) // 2],
            path=subject.path,
        )


@check(
    Rule(
        id="WGT-VAL-010",
        name="layer-scale-unusual",
        severity=Severity.WARNING,
        category="weights-mismatch",
        title=Text(
            "{count} matrices are {factor:.3g} times their neighbours' size",
            "有 {count} 个矩阵的大小是相邻层的 {factor:.3g} 倍",
        ),
        why=Text(
            "{name} has a root mean square of {rms:.3g}, the same parameter in the layers around {usual:.3g}: a scale was applied "
            "twice or not at all (quantisation, loss scale), or the tensor is of another model.",
            "{name} 的均方根为 {rms:.3g}，而前后各层同一参数为 {usual:.3g}：缩放被多乘或漏乘（量化、loss scale），或张量来自别的模型。",
        ),
        fix=Text(
            "Convert again from the original: doctor convert SRC DST", "从原始权重重新转换：doctor convert SRC DST"
        ),
        verify="doctor check --values {path}",
        confidence=0.6,
    )
)
def scales(subject: Weights) -> Iterator[Finding]:
    rows = [
        row
        for row in statistics(subject).values()
        if len(row.shape) == 2
        and row.finite
        and row.elements >= 64
        and row.zeros < row.elements
        and not is_lora(row.name)
    ]
    wrong = _outliers(rows, limit=16.0, floor=1e-8, ceiling=1e3)
    if wrong:
        row, usual = wrong[0]
        yield scales.finding(
            evidence=evidence_of_values(subject, ((item.name, item.rms) for item, _ in wrong), usual),
            count=len(wrong),
            factor=row.rms / usual if usual else float("inf"),
            name=row.name,
            rms=row.rms,
            usual=usual,
            path=subject.path,
        )
