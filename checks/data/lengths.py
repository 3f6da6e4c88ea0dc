"""Are the samples as long as the model takes them, and full?"""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import Skip, check
from doctor.checks.data.drawn import at, drawn, tokens
from doctor.checks.data.subject import Data
from doctor.finding import Evidence, Finding, Severity, Text
from doctor.rule import Rule


@check(
    Rule(
        id="DAT-SEQ-001",
        name="sequence-length-mismatch",
        severity=Severity.ERROR,
        category="dataset",
        title=Text(
            "Samples have {observed} tokens, the model takes {expected}",
            "样本为 {observed} 个 token，而模型需要 {expected} 个",
        ),
        why=Text(
            "{count} of {total} samples have another length than seq_length asks for{extra}. The compiled graph has fixed shapes and "
            "refuses them.",
            "{total} 个样本中有 {count} 个长度与 seq_length 的要求不符{extra_zh}。编译后的图形状固定，会拒绝它们。",
        ),
        fix=Text(
            "Set seq_length to {wanted}, or make the data set again with {expected} tokens a sample.",
            "将 seq_length 设为 {wanted}，或以每样本 {expected} 个 token 重新生成数据集。",
        ),
        verify="doctor check {config} --data {path}",
    )
)
def length(subject: Data) -> Iterator[Finding]:
    found = tokens(subject)
    expected = subject.consumer.length
    if expected is None:
        raise Skip(
            Text(
                "the sequence length is not known; name the config: doctor check CONFIG.yaml --data PATH",
                "序列长度未知；请指明配置：doctor check CONFIG.yaml --data PATH",
            )
        )
    if subject.set.format == "megatron":
        raise Skip(Text("Megatron's documents are cut to samples while training", "Megatron 文档在训练时再切分为样本"))
    if subject.set.format in {"jsonl", "json", "arrow", "parquet"}:
        raise Skip(
            Text("samples of this format are padded or packed while they are read", "该格式的样本在读取时再补齐或拼接")
        )
    if not found.wrong_length:
        return
    usual = min(found.wrong_length, key=lambda size: (-found.wrong_length[size], size))
    count = sum(found.wrong_length.values())
    from doctor.checks.data.consumer import Shift

    cuts = subject.consumer.shift is Shift.INSIDE
    yield length.finding(
        evidence=[subject.consumer.evidence("seq_length", usual, expected)],
        observed=usual,
        expected=expected,
        count=count,
        total=found.samples,
        extra=f" ({expected - 1} and one more, which the model cuts off for the labels)" if cuts else "",
        extra_zh=f"（{expected - 1} 再加 1，模型会切掉一个用于 labels）" if cuts else "",
        wanted=usual - 1 if cuts else usual,
        config=subject.consumer.source,
        path=subject.path,
    )


@check(
    Rule(
        id="DAT-SEQ-002",
        name="sequence-lengths-vary",
        severity=Severity.WARNING,
        category="dataset",
        title=Text("Samples have between {low} and {high} tokens", "样本长度在 {low} 到 {high} 个 token 之间"),
        why=Text(
            "MindDataset batches rows as they are: rows of different lengths cannot be stacked, and the graph would be compiled for "
            "each shape.",
            "MindDataset 按原样组 batch：长度不同的行无法堆叠，且每种形状都会重新编译图。",
        ),
        fix=Text(
            "Pad or pack all samples to one length when the data set is made.",
            "生成数据集时将所有样本补齐或拼接到同一长度。",
        ),
        verify="doctor check {path}",
    )
)
def varying(subject: Data) -> Iterator[Finding]:
    found = tokens(subject)
    if subject.set.format != "mindrecord":
        raise Skip(
            Text("samples of this format are padded or packed while they are read", "该格式的样本在读取时再补齐或拼接")
        )
    lengths = found.lengths
    if lengths is not None and lengths["min"] != lengths["max"] and not found.wrong_length:
        yield varying.finding(
            evidence=(
                Evidence(
                    "value", str(subject.path), key=found.ids_column, observed=f"{lengths['min']}-{lengths['max']}"
                ),
            ),
            low=lengths["min"],
            high=lengths["max"],
            path=subject.path,
        )


@check(
    Rule(
        id="DAT-SEQ-003",
        name="mostly-padding",
        severity=Severity.WARNING,
        category="performance",
        title=Text("{share:.0%} of all tokens are padding", "{share:.0%} 的 token 是 padding"),
        why=Text(
            "Samples end in runs of token {pad}. The device computes padding like text: at this share {factor:.1f} times the steps are "
            "needed for the same text.",
            "样本以连续的 token {pad} 结尾。设备对 padding 与正文同样计算：按此比例，同样的文本需要 {factor:.1f} 倍的步数。",
        ),
        fix=Text(
            "Pack several texts into one sample, or shorten seq_length.",
            "将多段文本拼接进一个样本，或减小 seq_length。",
        ),
        verify="doctor check {path}",
    )
)
def padding(subject: Data) -> Iterator[Finding]:
    found = tokens(subject)
    if found.padding is not None and found.padding > 0.5:
        yield padding.finding(
            evidence=(Evidence("value", str(subject.path), key=found.ids_column, observed=found.padding),),
            share=found.padding,
            pad=found.pad,
            factor=1 / max(1 - found.padding, 0.001),
            path=subject.path,
        )


@check(
    Rule(
        id="DAT-SEQ-004",
        name="samples-empty",
        severity=Severity.WARNING,
        category="dataset",
        title=Text("{count} of {total} samples are empty", "{total} 个样本中有 {count} 个为空"),
        why=Text(
            "Row {row}: {observed}. Empty samples cost steps and can give 0/0 in the loss.",
            "第 {row} 行：{observed_zh}。空样本浪费步数，并可能使 loss 出现 0/0。",
        ),
        fix=Text("Drop them when the data set is made.", "生成数据集时丢弃它们。"),
        verify="doctor check {path}",
    )
)
def empty_samples(subject: Data) -> Iterator[Finding]:
    found = drawn(subject)
    if subject.set.format == "text":
        raise Skip(Text("blank lines part the paragraphs of plain text", "纯文本以空行分隔段落"))
    if found.empty:
        yield empty_samples.finding(
            evidence=[at(subject, place, found.ids_column or "sample") for place in found.empty[:5]],
            count=len(found.empty),
            total=found.samples,
            row=found.empty[0].row.number,
            observed=found.empty[0].observed.en,
            observed_zh=found.empty[0].observed.zh,
            path=subject.path,
        )


@check(
    Rule(
        id="DAT-SEQ-006",
        name="answers-empty",
        severity=Severity.WARNING,
        category="dataset",
        title=Text("{count} of {total} samples have no answer", "{total} 个样本中有 {count} 个没有回答"),
        why=Text(
            "Row {row}: {field} is empty though there is a question. The model learns to end at once, or has no label to learn from "
            "(a loss of 0 or NaN for such a batch).",
            "第 {row} 行有问题但{field_zh}为空。模型会学着立即结束，或没有可学的标签（该 batch 的 loss 为 0 或 NaN）。",
        ),
        fix=Text("Drop these samples, or fill the answer in.", "丢弃这些样本，或补上回答。"),
        verify="doctor check {path}",
    )
)
def unanswered(subject: Data) -> Iterator[Finding]:
    found = drawn(subject)
    if found.unanswered:
        first = found.unanswered[0]
        yield unanswered.finding(
            evidence=[at(subject, place, "answer") for place in found.unanswered[:5]],
            count=len(found.unanswered),
            total=found.samples,
            row=first.row.number,
            field=first.observed.en,
            field_zh=first.observed.zh,
            path=subject.path,
        )
