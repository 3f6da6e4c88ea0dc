"""Tokens, lengths and numbers of samples, against each other and against the config."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import Skip, check
from doctor.checks.data.labels import at
from doctor.checks.data.measure import Measured
from doctor.checks.data.subject import Data
from doctor.checks.words import some
from doctor.finding import Evidence, Finding, Severity, Text
from doctor.rule import Rule


def drawn(subject: Data) -> Measured:
    """The measures of the drawn samples. Raises Skip when none could be drawn."""
    if subject.set.unread is not None:
        raise Skip(subject.set.unread)
    if not subject.rows:
        raise Skip(Text("no sample could be drawn", "无法抽取样本"))
    return subject.measured


def tokens(subject: Data) -> Measured:
    """The measures of a set of token ids. Raises Skip when it holds none."""
    found = drawn(subject)
    if found.ids_column is None:
        raise Skip(Text("there is no column of token ids", "没有 token id 列"))
    return found


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
                at(subject, found.highest, found.ids_column or "", f"below {vocabulary}"),
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
            evidence=(at(subject, found.lowest, found.ids_column or "", "0 or more"),),
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
            "第 {row} 行：{observed}。空样本浪费步数，并可能使 loss 出现 0/0。",
        ),
        fix=Text("Drop them when the data set is made.", "生成数据集时丢弃它们。"),
        verify="doctor check {path}",
    )
)
def empty_samples(subject: Data) -> Iterator[Finding]:
    found = drawn(subject)
    if found.empty:
        yield empty_samples.finding(
            evidence=[at(subject, place, found.ids_column or "sample") for place in found.empty[:5]],
            count=len(found.empty),
            total=found.samples,
            row=found.empty[0].row.number,
            observed=found.empty[0].observed or "no tokens",
            path=subject.path,
        )


@check(
    Rule(
        id="DAT-SEQ-005",
        name="samples-duplicated",
        severity=Severity.WARNING,
        category="dataset",
        title=Text("{share:.0%} of the samples are copies of others", "{share:.0%} 的样本是重复的"),
        why=Text(
            "{count} of {total} drawn samples are equal to another, such as rows {first} and {second}. The model sees them more often "
            "than you think and learns them by heart.",
            "抽取的 {total} 个样本中有 {count} 个与其他样本相同，例如第 {first} 与第 {second} 行。模型看到它们的次数超出预期，会死记硬背。",
        ),
        fix=Text(
            "Remove duplicates when the data set is made; check that files were not listed twice.",
            "生成数据集时去重；检查文件是否被重复列出。",
        ),
        verify="doctor check {path}",
    )
)
def duplicated(subject: Data) -> Iterator[Finding]:
    found = drawn(subject)
    share = len(found.duplicates) / found.samples
    if share > 0.02 and len(found.duplicates) > 1:
        first, second = found.duplicates[0]
        yield duplicated.finding(
            evidence=[
                Evidence(
                    "value",
                    str(copy.file),
                    key=f"row {copy.number}",
                    observed=f"equal to row {original.number} of {original.file.name}",
                )
                for original, copy in found.duplicates[:5]
            ],
            share=share,
            count=len(found.duplicates),
            total=found.samples,
            first=first.number,
            second=second.number,
            path=subject.path,
        )


@check(
    Rule(
        id="DAT-COL-001",
        name="column-missing",
        severity=Severity.ERROR,
        category="dataset",
        title=Text("The data set has no column {missing}", "数据集没有列 {missing}"),
        why=Text(
            "The config reads {wanted}; the data set has {there}. MindDataset stops when the pipeline is built.",
            "配置读取 {wanted_zh}，而数据集只有 {there_zh}。MindDataset 会在构建流水线时报错。",
        ),
        fix=Text(
            "Set input_columns to columns that are there, or make the data set with them.",
            "将 input_columns 改为已有的列，或按所需的列重新生成数据集。",
        ),
        verify="doctor check {config} --data {path}",
    )
)
def columns(subject: Data) -> Iterator[Finding]:
    wanted = subject.consumer.columns
    if not wanted:
        raise Skip(Text("no config that names columns", "没有指明列的配置"))
    if subject.set.format != "mindrecord" or not subject.set.columns:
        raise Skip(Text("columns of this format are made while it is read", "该格式的列在读取时生成"))
    missing = [name for name in wanted if name not in subject.set.columns]
    # Masks and positions are made from input_ids by the data set classes.
    made = {"attention_mask", "position_ids", "loss_mask", "actual_seq_len", "position_id", "input_position"}
    missing = [name for name in missing if name not in made]
    if missing:
        names, there = some(wanted, 6), some(subject.set.columns, 6)
        yield columns.finding(
            evidence=[subject.consumer.evidence("columns", sorted(subject.set.columns), list(wanted))],
            missing=", ".join(missing),
            wanted=names.en,
            wanted_zh=names.zh,
            there=there.en,
            there_zh=there.zh,
            config=subject.consumer.source,
            path=subject.path,
        )


@check(
    Rule(
        id="DAT-COL-002",
        name="column-of-wrong-type",
        severity=Severity.WARNING,
        category="dataset",
        title=Text("{column} is {observed}", "{column} 的类型是 {observed}"),
        why=Text(
            "Token ids must be whole numbers; MindFormers' graphs take int32. {observed} is cast on every step or refused by the "
            "embedding.",
            "token id 必须是整数；MindFormers 的图使用 int32。{observed} 会在每步转换，或被词嵌入拒绝。",
        ),
        fix=Text("Write {column} as int32.", "将 {column} 写为 int32。"),
        verify="doctor check {path}",
    )
)
def column_type(subject: Data) -> Iterator[Finding]:
    found = tokens(subject)
    column = subject.set.columns.get(found.ids_column or "")
    if column is not None and (column.dtype.startswith("float") or (found.dtype or "").startswith("float")):
        yield column_type.finding(
            evidence=(
                Evidence("value", str(subject.path), key=found.ids_column, observed=column.dtype, expected="int32"),
            ),
            column=found.ids_column,
            observed=found.dtype if (found.dtype or "").startswith("float") else column.dtype,
            path=subject.path,
        )


@check(
    Rule(
        id="DAT-COL-003",
        name="fields-differ-between-lines",
        severity=Severity.WARNING,
        category="dataset",
        title=Text("Lines do not all have the same fields", "各行的字段不一致"),
        why=Text(
            "{count} of {total} drawn lines lack {fields}. A converter that expects them stops there, or writes empty samples.",
            "抽取的 {total} 行中有 {count} 行缺少 {fields_zh}。转换脚本会在此处中止，或写出空样本。",
        ),
        fix=Text("Give every line the same fields.", "令每行字段一致。"),
        verify="doctor check {path}",
    )
)
def fields(subject: Data) -> Iterator[Finding]:
    drawn(subject)
    if subject.set.format not in {"jsonl", "json"}:
        raise Skip(Text("the columns of this format are fixed", "该格式的列是固定的"))
    total = len(subject.rows)
    counted: dict[str, int] = {}
    for row in subject.rows:
        for name in row.values:
            counted[name] = counted.get(name, 0) + 1
    # A field that few lines have is an option; one that nearly all have is meant to be there.
    lacking = {name for name, count in counted.items() if 0.8 * total <= count < total}
    wrong = [row for row in subject.rows if lacking - set(row.values)]
    if wrong:
        names = some(sorted(lacking))
        yield fields.finding(
            evidence=[
                Evidence(
                    "value",
                    str(row.file),
                    key=f"row {row.number}",
                    observed=sorted(row.values),
                    expected=sorted(lacking),
                )
                for row in wrong[:5]
            ],
            count=len(wrong),
            total=total,
            fields=names.en,
            fields_zh=names.zh,
            path=subject.path,
        )


@check(
    Rule(
        id="DAT-ROW-001",
        name="fewer-samples-than-a-step-takes",
        severity=Severity.ERROR,
        category="dataset",
        title=Text("{rows} samples do not fill one step of {batch}", "{rows} 个样本不足一步所需的 {batch} 个"),
        why=Text(
            "One step takes {batch} samples (batch x data parallel x accumulation), the data set has {rows}. With drop_remainder "
            "nothing is left: 'There is no valid data in dataset'.",
            "一步需要 {batch} 个样本（batch x 数据并行 x 累积），而数据集只有 {rows} 个。drop_remainder 后一个不剩：There is no valid data in dataset。",
        ),
        fix=Text(
            "Lower batch_size, data_parallel or accumulation, or use more data.",
            "减小 batch_size、data_parallel 或累积步数，或增加数据。",
        ),
        verify="doctor check {config} --data {path}",
    )
)
def too_few(subject: Data) -> Iterator[Finding]:
    batch, rows = subject.consumer.batch, subject.set.rows
    if batch is None:
        raise Skip(
            Text(
                "the batch is not known; name the config: doctor check CONFIG.yaml --data PATH",
                "batch 未知；请指明配置：doctor check CONFIG.yaml --data PATH",
            )
        )
    if rows is None or subject.set.format in {"megatron", "text"}:
        raise Skip(Text("the number of samples is not fixed", "样本数不固定"))
    if rows < batch:
        yield too_few.finding(
            evidence=[subject.consumer.evidence("batch_size", rows, batch)],
            rows=rows,
            batch=batch,
            config=subject.consumer.source,
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
