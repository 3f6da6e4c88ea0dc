"""What the data checks judge: a data set, samples drawn from it, and the program that will read it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from doctor.check import Options
from doctor.errors import UsageError
from doctor.finding import Text
from doctor.formats.datasets.find import kind_of

if TYPE_CHECKING:
    from doctor.checks.data.consumer import Consumer
    from doctor.checks.data.measure import Measured
    from doctor.formats.datasets.dataset import Dataset, Row

#: Samples that are drawn and judged, evenly over all files.
DRAWN = 512


@dataclass(frozen=True)
class Data:
    """A data set to judge."""

    path: Path
    set: Dataset
    options: Options
    consumer: Consumer

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """The samples drawn, always the same ones."""
        return tuple(self.set.draw(DRAWN))

    @cached_property
    def speed(self) -> Optional[dict[int, float]]:
        """Samples per second by workers; measured on request (--deep) only, since it differs from run to run."""
        if not self.options.deep or self.set.unread is not None or not self.rows:
            return None
        from doctor.formats.datasets.speed import samples_per_second

        return samples_per_second(self.path)

    @cached_property
    def measured(self) -> Measured:
        """What the samples say about tokens, labels and lengths."""
        from doctor.checks.data.measure import measure

        found = measure(self.rows, self.consumer)
        if found.ids_column is not None and self.set.unread is None:
            found.widen(self.set.extremes())
        return found


def recognises(path: Path) -> bool:
    """MindRecord, Megatron, JSON lines, Arrow, Parquet or text, by content. Reads a few bytes; never raises."""
    return kind_of(path) is not None


def load(path: Optional[Path], options: Options) -> Data:
    """Opens the data set. Raises UsageError when there is none."""
    from doctor.checks.data.consumer import Consumer, consumer_of
    from doctor.formats.datasets.find import open_dataset

    if path is None:
        raise UsageError(Text("No data set was given.", "没有给出数据集路径。"))
    try:
        found = open_dataset(path)
    except FileNotFoundError:
        raise UsageError(
            Text(f"{path}: no data set that is known.", f"{path}：不是已知格式的数据集。"),
            Text(
                "Known: MindRecord, Megatron .bin/.idx, JSON lines, Arrow, Parquet, text.",
                "支持：MindRecord、Megatron .bin/.idx、JSON lines、Arrow、Parquet、文本。",
            ),
        ) from None
    except OSError as error:
        raise UsageError(
            Text(f"{path}: cannot be read ({error.strerror}).", f"{path}：无法读取（{error.strerror}）。")
        ) from None
    consumer = consumer_of(Path(options.against)) if options.against is not None else Consumer()
    return Data(path, found, options, consumer)


def facts(subject: Data) -> dict[str, Any]:
    """`data`: format, files, rows, columns, and what was measured on the samples."""
    measured = subject.measured
    speed = subject.speed
    more = {"samples_per_second": {str(workers): rate for workers, rate in speed.items()}} if speed is not None else {}
    return {
        "data": {
            "format": subject.set.format,
            "files": len(subject.set.files),
            "rows": subject.set.rows,
            "columns": {name: column.dtype for name, column in sorted(subject.set.columns.items())},
            "sampled": len(subject.rows),
            "sequence_length": measured.lengths,
            "token_ids": measured.span,
            "token_ids_read": measured.read,
            "padding": measured.padding,
            "labels": measured.relation.value if measured.relation is not None else None,
            "model_shifts_labels": subject.consumer.shift.value,
            **more,
        }
    }


def headline(subject: Data) -> Iterator[Text]:
    """One line: what the data set is."""
    row = facts(subject)["data"]
    columns = ", ".join(row["columns"]) or "?"
    rows = "?" if row["rows"] is None else row["rows"]
    length = row["sequence_length"]
    tokens = "" if length is None else f", {length['min']}-{length['max']} tokens"
    tokens_zh = "" if length is None else f"，每样本 {length['min']}-{length['max']} token"
    if row["token_ids"] is not None:
        read = _read(row["token_ids_read"], row["sampled"])
        ids = f"{row['token_ids']['min']}-{row['token_ids']['max']}"
        tokens, tokens_zh = f"{tokens}, ids {ids} ({read.en})", f"{tokens_zh}，id {ids}（{read.zh}）"
    yield Text(
        f"{row['format']}: {rows} samples in {row['files']} file{'s' if row['files'] != 1 else ''}, columns {columns}{tokens}",
        f"{row['format']}：{row['files']} 个文件共 {rows} 个样本，列 {columns}{tokens_zh}",
    )
    if row["labels"] is not None:
        yield LABELS[row["labels"]]
    if subject.speed is not None:
        rates = ", ".join(f"{rate:g} ({workers})" for workers, rate in subject.speed.items())
        batch = subject.consumer.batch
        best = max(subject.speed.values())
        need = f"; a step takes {batch} samples, {batch / best:.2g} s of reading" if batch and best else ""
        need_zh = f"；每步 {batch} 个样本，读取约需 {batch / best:.2g} 秒" if batch and best else ""
        yield Text(
            f"read here, samples/s by workers (a lower bound): {rates}{need}",
            f"本机读取速度，样本/秒（按进程数，为下限）：{rates}{need_zh}",
        )


def _read(share: Optional[float], sampled: int) -> Text:
    """How many of the token ids were looked at."""
    if share is None:
        return Text(f"in {sampled} samples", f"{sampled} 个样本中")
    if share >= 1:
        return Text("all of them read", "已全部读取")
    return Text(f"{share:.0%} of them read", f"已读取 {share:.0%}")


LABELS = {
    "equal": Text("labels equal input_ids (not shifted)", "labels 与 input_ids 相同（未移位）"),
    "shifted-once": Text("labels are input_ids shifted by one", "labels 是 input_ids 左移一位"),
    "shifted-twice": Text("labels are input_ids shifted by two", "labels 是 input_ids 左移两位"),
    "shifted-back": Text("labels are input_ids shifted backwards", "labels 是 input_ids 右移一位"),
    "masked": Text("labels are masked throughout", "labels 全部被屏蔽"),
    "unrelated": Text("labels are not taken from input_ids", "labels 与 input_ids 无对应关系"),
}
