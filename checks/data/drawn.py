"""The samples that were drawn, and when they cannot be judged."""

from __future__ import annotations

from doctor.check import Skip
from doctor.checks.data.measure import Measured, Place
from doctor.checks.data.subject import Data
from doctor.finding import Evidence, Text
from doctor.formats.tensor import Kind


def at(subject: Data, place: Place, column: str, expected: object = None) -> Evidence:
    """A sample as evidence."""
    return Evidence(
        "value",
        str(place.row.file),
        key=f"row {place.row.number}, {column}",
        observed=place.observed,
        expected=expected,
    )


def drawn(subject: Data) -> Measured:
    """The measures of the drawn samples. Raises Skip when none could be drawn."""
    if subject.set.unread is not None:
        raise Skip(subject.set.unread)
    if any(problem.kind is Kind.SIZE for problem in subject.set.problems):
        raise Skip(Text("index and data do not belong together", "索引与数据不匹配"))
    if any(problem.kind is Kind.DTYPE for problem in subject.set.problems):
        raise Skip(Text("files of two data sets are mixed", "混入了两个数据集的文件"))
    if not subject.rows:
        raise Skip(Text("no sample could be drawn", "无法抽取样本"))
    return subject.measured


def tokens(subject: Data) -> Measured:
    """The measures of a set of token ids. Raises Skip when it holds none."""
    found = drawn(subject)
    if found.ids_column is None:
        raise Skip(Text("there is no column of token ids", "没有 token id 列"))
    return found
