"""Are the columns those that the config reads?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from doctor.check import Skip, check
from doctor.checks.data.drawn import at, drawn, tokens
from doctor.checks.data.measure import IDS, LABELS
from doctor.checks.data.subject import Data
from doctor.checks.words import some
from doctor.finding import Evidence, Finding, Severity, Text
from doctor.rule import Rule

if TYPE_CHECKING:
    from doctor.formats.datasets.dataset import Row


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
    spelt = drawn(subject).spelt
    if spelt is not None:
        yield column_type.finding(
            evidence=[at(subject, spelt, spelt.observed, Text("whole numbers", "整数"))],
            column=spelt.observed,
            observed="text",
            path=subject.path,
        )
        return
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
        id="DAT-COL-004",
        name="columns-in-another-order",
        severity=Severity.ERROR,
        category="dataset",
        title=Text("The config reads {labels} before {ids}", "配置先读取 {labels} 再读取 {ids}"),
        why=Text(
            "Columns reach the model by their order, not by their names: {labels} arrives as its first argument, input_ids. The shapes "
            "are equal, so nothing is said, and the model learns from masked labels as its input.",
            "列按顺序而非名称传给模型：{labels} 会作为第一个参数 input_ids 传入。两者形状相同，不会报错，模型却把 labels 当作输入来学习。",
        ),
        fix=Text("Put {ids} first in input_columns.", "将 {ids} 放在 input_columns 的首位。"),
        verify="doctor check {config} --data {path}",
    )
)
def order(subject: Data) -> Iterator[Finding]:
    wanted = subject.consumer.columns
    ids = next((name for name in wanted if name in IDS), None)
    labels = next((name for name in wanted if name in LABELS), None)
    if ids is None or labels is None:
        raise Skip(Text("no config that reads token ids and labels", "没有读取 token id 与 labels 的配置"))
    if wanted.index(labels) < wanted.index(ids):
        yield order.finding(
            evidence=[subject.consumer.evidence("columns", list(wanted), [ids, labels])],
            ids=ids,
            labels=labels,
            config=subject.consumer.source,
            path=subject.path,
        )


@check(
    Rule(
        id="DAT-COL-005",
        name="field-types-differ",
        severity=Severity.WARNING,
        category="dataset",
        title=Text("{field} is {usual} in most lines and {other} in some", "{field} 多数为 {usual}，部分为 {other}"),
        why=Text(
            "{count} of {total} drawn lines, such as row {row}. Converters join or tokenize the field as {usual} and stop there, often after "
            "hours; loaders of tables refuse the file.",
            "抽取的 {total} 行中有 {count} 行，例如第 {row} 行。转换脚本按 {usual} 拼接或分词，会在该处中止；表格加载器会拒绝该文件。",
        ),
        fix=Text("Write {field} as {usual} in every line.", "令每行的 {field} 都为 {usual}。"),
        verify="doctor check {path}",
    )
)
def field_types(subject: Data) -> Iterator[Finding]:
    drawn(subject)
    if subject.set.format not in {"jsonl", "json"}:
        raise Skip(Text("the columns of this format are fixed", "该格式的列是固定的"))
    seen: dict[str, dict[str, list[Row]]] = {}
    for row in subject.rows:
        for name, value in row.values.items():
            if value is not None:
                seen.setdefault(name, {}).setdefault(_JSON.get(type(value), "object"), []).append(row)
    for name, kinds in sorted(seen.items()):
        total = sum(map(len, kinds.values()))
        usual = max(sorted(kinds), key=lambda kind: len(kinds[kind]))
        odd = [row for kind, rows in kinds.items() if kind != usual for row in rows]
        if odd and len(kinds[usual]) >= 0.8 * total:
            other = next(kind for kind in sorted(kinds) if kind != usual)
            yield field_types.finding(
                evidence=[
                    Evidence("value", str(row.file), key=f"row {row.number}, {name}", observed=other, expected=usual)
                    for row in odd[:5]
                ],
                field=name,
                usual=usual,
                other=other,
                count=len(odd),
                total=total,
                row=odd[0].number,
                path=subject.path,
            )


#: JSON's words for what its reader makes of it.
_JSON = {str: "string", int: "number", float: "number", bool: "boolean", list: "array", dict: "object"}
