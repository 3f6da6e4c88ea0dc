"""Are there enough samples, each once?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from doctor.check import Skip, check
from doctor.checks.data.drawn import drawn
from doctor.checks.data.subject import Data
from doctor.finding import Evidence, Finding, Severity, Text
from doctor.rule import Rule

if TYPE_CHECKING:
    from doctor.formats.datasets.dataset import Row

#: Characters from which on a line of plain text that comes twice was copied.
LONG_LINE = 80


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
    copies = found.duplicates
    if subject.set.format == "text":  # short lines of text are equal by chance: brackets, headings
        copies = [pair for pair in copies if len(str(pair[0].values.get("text", ""))) >= LONG_LINE]
    share = len(copies) / found.samples
    if share > 0.02 and len(copies) > 1:
        first, second = copies[0]
        yield duplicated.finding(
            evidence=[
                Evidence(
                    "value",
                    str(copy.file),
                    key=f"row {copy.number}",
                    observed=Text(
                        f"equal to row {original.number} of {original.file.name}",
                        f"与 {original.file.name} 第 {original.number} 行相同",
                    ),
                )
                for original, copy in copies[:5]
            ],
            share=share,
            count=len(copies),
            total=found.samples,
            first=_place(first, subject),
            second=_place(second, subject),
            path=subject.path,
        )


def _place(row: Row, subject: Data) -> str:
    """Its number, with the file where there are several."""
    return f"{row.number} ({row.file.name})" if len(subject.set.files) > 1 else str(row.number)


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
