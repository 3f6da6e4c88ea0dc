"""On request (--values): what is equal and should not be, and the other way round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from doctor.check import Skip, check
from doctor.checks.weights.scanned import evidence_of_values, statistics
from doctor.checks.weights.subject import Weights
from doctor.finding import Evidence, Finding, Severity, Text
from doctor.formats.layers import is_lora, is_state, place
from doctor.rule import Rule

if TYPE_CHECKING:
    from doctor.formats.values import Statistics


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
            evidence=evidence_of_values(subject, ((name, Text("equal", "相同")) for _, name in wrong[0])),
            layers=ranges(layers),
            count=len(wrong),
            sample=wrong[0][0][1],
            path=subject.path,
        )


@check(
    Rule(
        id="WGT-VAL-012",
        name="tensors-are-copies",
        severity=Severity.WARNING,
        category="weights-mismatch",
        title=Text("{one} and {other} hold the same values", "{one} 与 {other} 的数值相同"),
        why=Text(
            "{count} pairs of matrices inside a layer are equal byte for byte: a conversion or a merge wrote one into the place of the "
            "other. The shapes are equal, so nothing else notices.",
            "层内有 {count} 对矩阵逐字节相同：转换或合并时把一个写到了另一个的位置。形状相同，其他检查无从发现。",
        ),
        fix=Text(
            "Convert again from the original: doctor convert SRC DST", "从原始权重重新转换：doctor convert SRC DST"
        ),
        verify="doctor check --values {path}",
        confidence=0.7,
        false_positives=Text(
            "Experts that were made from one dense layer and not trained yet.", "由同一稠密层复制得到、尚未训练的专家。"
        ),
    )
)
def same_values(subject: Weights) -> Iterator[Finding]:
    seen: dict[tuple[object, ...], str] = {}
    pairs = []
    for row in statistics(subject).values():
        at = place(row.name)
        if (
            at.layer is None
            or len(row.shape) < 2
            or row.elements < 16
            or row.zeros == row.elements
            or is_lora(row.name)
        ):
            continue
        key = (at.layer, at.extra, row.shape, row.fingerprint)
        first = seen.setdefault(key, row.name)
        if first != row.name:
            pairs.append((first, row.name))
    if pairs:
        yield same_values.finding(
            evidence=[
                Evidence("value", str(subject.path), key=other, observed=Text(f"equal to {one}", f"与 {one} 相同"))
                for one, other in pairs[:5]
            ],
            one=pairs[0][0],
            other=pairs[0][1],
            count=len(pairs),
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


def _pieces(subject: Weights) -> Iterator[tuple[str, dict[tuple[int, ...], list[tuple[int, Statistics]]]]]:
    """By parameter: the ranks that hold each piece of it, with the statistics. Raises Skip where that is not known."""
    from doctor.formats.merge import piece_of

    statistics(subject)
    ranks = subject.set.ranks
    if ranks is None or not ranks.strategies or not ranks.counted:
        raise Skip(Text("these are no rank folders with strategy files", "不是带策略文件的 rank 目录"))
    number_of = {rank.file.path: rank.number for rank in ranks.ranks if rank.file is not None}
    found: dict[str, dict[tuple[int, ...], list[tuple[int, Statistics]]]] = {}
    for file, rows in subject.scanned:
        rank = number_of[file.path]
        plan = ranks.strategy_of(rank)
        for row in rows if plan is not None else ():
            cut = plan.cuts.get(row.name) if plan is not None else None
            fits = cut is not None and cut.full(row.shape) is not None
            if cut is not None and fits and row.complete and not is_state(row.name):
                found.setdefault(row.name, {}).setdefault(piece_of(rank, cut), []).append((rank, row))
    yield from found.items()


@check(
    Rule(
        id="WGT-RANK-012",
        name="slices-are-copies",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text("Rank {one} and rank {other} hold the same bytes", "rank {one} 与 rank {other} 的内容相同"),
        why=Text(
            "{count} parameters such as {name} are cut between these ranks, so their slices differ; here they are equal: one rank's "
            "file was copied to the other. Loading gives no error, and a part of the model twice.",
            "{name} 等 {count} 个参数在这两个 rank 之间切分，切片应当不同，此处却相同：一个 rank 的文件被拷贝给了另一个。加载不会报错，但模型的一部分被重复。",
        ),
        fix=Text("Copy the file of rank {other} again from its node.", "从对应节点重新拷贝 rank {other} 的文件。"),
        verify="doctor check --values {path}",
    )
)
def slices_equal(subject: Weights) -> Iterator[Finding]:
    for (one, other), names in sorted(_twins(subject).items())[:1]:
        evidence = [
            Evidence("value", str(subject.path), key=name, rank=other, observed=Text("equal", "相同"))
            for name in names[:5]
        ]
        yield slices_equal.finding(
            evidence=evidence, one=one, other=other, count=len(names), name=names[0], path=subject.path
        )


def _twins(subject: Weights) -> dict[tuple[int, int], list[str]]:
    """Parameters whose slices are equal in two ranks that hold different pieces."""
    twins: dict[tuple[int, int], list[str]] = {}
    for name, pieces in _pieces(subject):
        seen: dict[object, int] = {}
        for holders in pieces.values():
            rank, row = holders[0]
            if row.elements < 16 or row.zeros == row.elements or len(row.shape) < 2:
                continue
            if row.fingerprint in seen:
                twins.setdefault((seen[row.fingerprint], rank), []).append(name)
            seen.setdefault(row.fingerprint, rank)
    return twins


@check(
    Rule(
        id="WGT-RANK-013",
        name="copies-have-drifted",
        severity=Severity.ERROR,
        category="weights-mismatch",
        title=Text("Ranks that hold copies of {name} differ", "持有 {name} 副本的各 rank 数值不同"),
        why=Text(
            "By the strategy ranks {ranks} hold the same piece of {count} parameters, and the bytes differ: gradients were not reduced "
            "over these ranks, or their files are of two runs. Which values are loaded depends on the rank.",
            "按策略，rank {ranks} 持有 {count} 个参数的同一份切片，但数值不同：这些 rank 之间没有做梯度规约，或文件来自两次训练。加载到哪份取决于 rank。",
        ),
        fix=Text(
            "Check that gradients are averaged over data parallel (parallel_mode, gradients_mean) and that all files are of one run.",
            "检查数据并行的梯度规约（parallel_mode、gradients_mean），并确认文件来自同一次训练。",
        ),
        verify="doctor check --values {path}",
    )
)
def drifted(subject: Weights) -> Iterator[Finding]:
    from doctor.checks.words import ranges

    if _twins(subject):
        raise Skip(
            Text("ranks hold copies of each other, which its own finding says", "有 rank 互为拷贝，已在对应条目中报告")
        )
    wrong: dict[str, list[int]] = {}
    for name, pieces in _pieces(subject):
        for holders in pieces.values():
            if len({row.fingerprint for _, row in holders}) > 1:
                wrong.setdefault(name, [rank for rank, _ in holders])
    if wrong:
        name = next(iter(wrong))
        yield drifted.finding(
            evidence=[
                Evidence("value", str(subject.path), key=other, observed=Text("differs", "不同"))
                for other in list(wrong)[:5]
            ],
            name=name,
            ranks=ranges(wrong[name]),
            count=len(wrong),
            path=subject.path,
        )
