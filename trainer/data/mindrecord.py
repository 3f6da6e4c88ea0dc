"""MindRecord files, read through MindDataset as they are wanted: a data set need not fit into memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Optional

import numpy as np

from doctor.errors import UsageError
from doctor.finding import Text
from doctor.trainer.data.samples import SET_BACK, Samples, check_ids, label
from doctor.trainer.data.settings import DatasetSettings
from doctor.trainer.runtime import cores

#: samples that are looked at before the run; of more than `_ALL` some from everywhere
_ALL, _SOME = 100_000, 4_096
#: samples that are looked at together
_TOGETHER = 1_024


@dataclass(frozen=True)
class Reader:
    """Columns of MindRecord files, by number of sample."""

    files: tuple[str, ...]
    columns: tuple[str, ...]
    workers: int
    length: int
    name: str

    def __len__(self) -> int:
        import mindspore.dataset as dataset

        with self._plainly():
            return int(dataset.MindDataset(list(self.files), columns_list=list(self.columns)).get_dataset_size())

    def read(self, order: Any, size: int) -> Iterator[dict[str, Any]]:
        """Columns as arrays (size, length or length + 1) int32, of `size` samples after the other, in that order."""
        import mindspore.dataset as dataset

        with self._plainly():
            rows = dataset.MindDataset(
                list(self.files),
                columns_list=list(self.columns),
                sampler=dataset.SubsetSampler([int(number) for number in order]),
                num_parallel_workers=self.workers,
            ).create_dict_iterator(num_epochs=1, output_numpy=True)
        held: dict[str, list[Any]] = {column: [] for column in self.columns}
        while True:
            with self._plainly():
                row = next(rows, None)
            if row is not None:
                for column in self.columns:
                    held[column].append(row[column])
            count = len(held[self.columns[0]])
            if count and (row is None or count == size):
                yield {column: _matrix(values, self.length, f"{self.name}.{column}") for column, values in held.items()}
                held = {column: [] for column in self.columns}
            if row is None:
                return

    def _plainly(self) -> _Plainly:
        return _Plainly(self)


class _Plainly:
    """What MindDataset raises, as one line."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Optional[BaseException], _trace: Any) -> None:
        if not isinstance(error, (RuntimeError, ValueError, TypeError)):
            return
        reader = self.reader
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        asked = ", ".join(reader.columns)
        raise UsageError(
            Text(
                f"{reader.name}: MindDataset cannot read {reader.files[0]}: {first}",
                f"{reader.name}：MindDataset 无法读取 {reader.files[0]}：{first}",
            ),
            Text(f"Columns asked for: {asked}.", f"请求的列：{asked}。"),
            "DAT-COL-001" if "column" in first else "DAT-FILE-003",
        ) from None


@dataclass(frozen=True)
class StoredSamples:
    """Samples that stay on disk. `shift` is how labels are made of the columns, as the look at them has shown."""

    reader: Reader
    count: int
    labelled: str
    vocab_size: int

    def __len__(self) -> int:
        return self.count

    def batches(self, order: Any, size: int) -> Iterator[tuple[Any, Any]]:
        """(ids, labels) of `size` samples after the other, those with the numbers of `order`; the last may be fewer.
        Raises UsageError for an id beyond the vocabulary."""
        for columns in self.reader.read(order, size):
            yield self._sound(columns)

    def _sound(self, columns: dict[str, Any]) -> tuple[Any, Any]:
        length, name = self.reader.length, self.reader.name
        if self.labelled == "shifted here":
            # What decides is the column: of a batch of a few tokens it can be hard to tell.
            made = label({"input_ids": columns["input_ids"]}, length, "auto", name)
            if "labels" in columns:
                ignored = _next(columns["labels"][:, :length])
                made = replace(made, ids=columns["input_ids"][:, :length], labels=ignored)
        elif self.labelled == SET_BACK:
            made = label(columns, length, "back", name)
        else:
            made = Samples(columns["input_ids"][:, :length], columns["labels"][:, :length], self.labelled)
        check_ids(made, self.vocab_size, name)
        return made.ids, made.labels


def open_mindrecord(
    files: list[Path], settings: DatasetSettings, length: int, vocab_size: int, name: str
) -> StoredSamples:
    """The samples of these files, looked at: all of up to `_ALL`, else some. Raises UsageError for a missing column, for
    rows that are too short, for ids beyond the vocabulary, and for labels that are not the next tokens."""
    workers = settings.num_parallel_workers or min(8, cores())
    reader = Reader(tuple(str(file) for file in files), settings.input_columns, workers, length, name)
    count = len(reader)
    looked_at = np.arange(count) if count <= _ALL else np.linspace(0, count - 1, _SOME).astype(np.int64)
    labelled = ""
    for columns in reader.read(looked_at, _TOGETHER):
        seen = label(columns, length, settings.shift_labels, name)
        check_ids(seen, vocab_size, name)
        labelled = labelled or seen.labelled
    if not labelled:
        raise UsageError(Text(f"{name}: the data set is empty.", f"{name}：数据集为空。"), rule="DAT-FILE-001")
    return StoredSamples(reader, count, labelled, vocab_size)


def _next(labels: Any) -> Any:
    shifted = np.full_like(labels, -100)
    shifted[:, :-1] = labels[:, 1:]
    return shifted


def _matrix(values: list[Any], length: int, name: str) -> Any:
    sizes = sorted({int(np.size(value)) for value in values})
    if sizes[0] < length:
        raise UsageError(
            Text(
                f"{name}: a row holds {sizes[0]} tokens, max_length is {length}.",
                f"{name}：存在只有 {sizes[0]} 个 token 的样本，而 max_length 为 {length}。",
            ),
            Text(f"Set max_length to at most {sizes[0]}.", f"请把 max_length 设为不超过 {sizes[0]}。"),
            "DAT-SEQ-001",
        )
    return np.stack([np.asarray(value).reshape(-1)[: length + 1][: sizes[0]] for value in values]).astype(np.int32)
