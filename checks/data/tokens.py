"""Are the token ids those of the model?"""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import Skip, check
from doctor.checks.data.drawn import at, tokens
from doctor.checks.data.subject import Data
from doctor.finding import Finding, Severity, Text
from doctor.rule import Rule


@check(
    Rule(
        id="DAT-TOK-001",
        name="token-id-beyond-vocabulary",
        severity=Severity.ERROR,
        category="dataset",
        title=Text("Token {top} is beyond the vocabulary of {vocabulary}", "token {top} 超出词表大小 {vocabulary}"),
        why=Text(
            "Row {row} holds {top}; the embedding has {vocabulary} rows. The data set was made with another tokenizer, or tokens were "
            "added. On Ascend the lookup gives zeros or an aicore error instead of a message.",
            "第 {row} 行含 {top}，而词嵌入只有 {vocabulary} 行。数据集使用了另一个分词器，或新增了 token。在昇腾上查表会得到零或 aicore error，而不是清晰的报错。",
        ),
        fix=Text(
            "Make the data set with the model's tokenizer, or set vocab_size to at least {needed} and resize the weights.",
            "用该模型的分词器重新生成数据集，或将 vocab_size 设为至少 {needed} 并相应扩展权重。",
        ),
        verify="doctor check {config} --data {path}",
    )
)
def beyond_vocabulary(subject: Data) -> Iterator[Finding]:
    found = tokens(subject)
    vocabulary = subject.consumer.vocabulary
    if vocabulary is None:
        raise Skip(
            Text(
                "the vocabulary is not known; name the config: doctor check CONFIG.yaml --data PATH",
                "词表大小未知；请指明配置：doctor check CONFIG.yaml --data PATH",
            )
        )
    if found.highest is not None and found.highest.observed >= vocabulary:
        yield beyond_vocabulary.finding(
            evidence=[
                at(subject, found.highest, found.ids_column or "", Text(f"below {vocabulary}", f"小于 {vocabulary}")),
                subject.consumer.evidence("vocab_size", found.highest.observed, vocabulary),
            ],
            top=found.highest.observed,
            vocabulary=vocabulary,
            row=found.highest.row.number,
            needed=found.highest.observed + 1,
            config=subject.consumer.source,
            path=subject.path,
        )


@check(
    Rule(
        id="DAT-TOK-002",
        name="token-id-negative",
        severity=Severity.ERROR,
        category="dataset",
        title=Text("input_ids hold {low}", "input_ids 中有 {low}"),
        why=Text(
            "Row {row} of {column} holds {low}. Token ids start at 0: the ignored value of labels was written into the input, or an "
            "int64 was cut to a narrower type.",
            "{column} 第 {row} 行含 {low}。token id 从 0 开始：可能把 labels 的忽略值写进了输入，或 int64 被截断。",
        ),
        fix=Text(
            "Use the pad token in input_ids and the ignored value in labels only.",
            "input_ids 用 pad token，忽略值只用于 labels。",
        ),
        verify="doctor check {path}",
    )
)
def negative(subject: Data) -> Iterator[Finding]:
    found = tokens(subject)
    if found.lowest is not None and found.lowest.observed < 0:
        yield negative.finding(
            evidence=(at(subject, found.lowest, found.ids_column or "", Text("0 or more", "0 或以上")),),
            low=found.lowest.observed,
            row=found.lowest.row.number,
            column=found.ids_column,
            path=subject.path,
        )


@check(
    Rule(
        id="DAT-TOK-003",
        name="samples-of-one-token",
        severity=Severity.WARNING,
        category="dataset",
        title=Text("{count} samples hold one token over and over", "有 {count} 个样本从头到尾是同一个 token"),
        why=Text(
            "Row {row} is {token} throughout: text that the tokenizer does not know (all unknown), or a buffer that was never filled.",
            "第 {row} 行全是 {token}：分词器不认识的文本（全为未知 token），或缓冲区没有写入。",
        ),
        fix=Text("Check the tokenizer on the text of this sample.", "用该样本的文本检查分词器。"),
        verify="doctor check {path}",
    )
)
def constant(subject: Data) -> Iterator[Finding]:
    found = tokens(subject)
    if found.unreadable and found.constant and not any(place.observed for place in found.constant):
        raise Skip(
            Text("pages were overwritten with zeros, which its own finding says", "数据页被清零，已在对应条目中报告")
        )
    if found.constant:
        first = found.constant[0]
        yield constant.finding(
            evidence=[at(subject, place, found.ids_column or "") for place in found.constant[:5]],
            count=len(found.constant),
            row=first.row.number,
            token=first.observed,
            path=subject.path,
        )


@check(
    Rule(
        id="DAT-ROW-002",
        name="samples-undecodable",
        severity=Severity.ERROR,
        category="dataset",
        title=Text("{count} samples cannot be decoded", "有 {count} 个样本无法解码"),
        why=Text(
            "Row {row} of {name} has no readable {column}: its bytes were overwritten or never written.",
            "{name} 第 {row} 行的 {column} 无法读取：数据被覆盖或没有写入。",
        ),
        fix=Text("Write the data set again.", "重新生成数据集。"),
        verify="doctor check {path}",
    )
)
def undecodable(subject: Data) -> Iterator[Finding]:
    found = tokens(subject)
    if any(problem.kind.value == "truncated" for problem in subject.set.problems):
        raise Skip(Text("a file is cut off, which its own finding says", "有文件被截断，已在对应条目中报告"))
    if found.unreadable and len(found.unreadable) < found.samples:
        first = found.unreadable[0]
        yield undecodable.finding(
            evidence=[at(subject, place, found.ids_column or "") for place in found.unreadable[:5]],
            count=len(found.unreadable),
            row=first.row.number,
            name=first.row.file.name,
            column=found.ids_column,
            path=subject.path,
        )


@check(
    Rule(
        id="DAT-TOK-004",
        name="label-beyond-vocabulary",
        severity=Severity.ERROR,
        category="dataset",
        title=Text("Label {top} is beyond the vocabulary of {vocabulary}", "标签 {top} 超出词表大小 {vocabulary}"),
        why=Text(
            "Row {row} of {column} holds {top}; the logits have {vocabulary} classes. The cross entropy picks outside of them: a wrong "
            "loss or an aicore error instead of a message.",
            "{column} 第 {row} 行含 {top}，而 logits 只有 {vocabulary} 类。交叉熵会取到范围之外：表现为错误的 loss 或 aicore error，而不是清晰的报错。",
        ),
        fix=Text(
            "Make labels with the model's tokenizer; mask what is not to be learned with the ignored value (-100).",
            "用该模型的分词器生成 labels；不学习的位置用忽略值（-100）屏蔽。",
        ),
        verify="doctor check {config} --data {path}",
    )
)
def label_beyond(subject: Data) -> Iterator[Finding]:
    found = tokens(subject)
    vocabulary = subject.consumer.vocabulary
    if vocabulary is None or found.highest_label is None:
        raise Skip(Text("the vocabulary or the labels are not known", "词表大小或 labels 未知"))
    if found.highest is not None and found.highest.observed >= vocabulary:
        raise Skip(
            Text("input_ids are beyond it too, which its own finding says", "input_ids 同样超出，已在对应条目中报告")
        )
    if found.highest_label.observed >= vocabulary:
        yield label_beyond.finding(
            evidence=[
                at(
                    subject,
                    found.highest_label,
                    found.labels_column or "",
                    Text(f"below {vocabulary}", f"小于 {vocabulary}"),
                ),
                subject.consumer.evidence("vocab_size", found.highest_label.observed, vocabulary),
            ],
            top=found.highest_label.observed,
            vocabulary=vocabulary,
            row=found.highest_label.row.number,
            column=found.labels_column,
            config=subject.consumer.source,
            path=subject.path,
        )
