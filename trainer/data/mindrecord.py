"""MindRecord files, read through MindDataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import numpy as np

from doctor.errors import UsageError
from doctor.finding import Text
from doctor.trainer.runtime import cores


def read_columns(
    files: list[Path], columns: tuple[str, ...], length: int, name: str, workers: Optional[int] = None
) -> dict[str, Any]:
    """The columns as arrays (samples, length or length + 1) int32. Raises UsageError for a missing column and for rows
    of other lengths."""
    import mindspore.dataset as dataset

    try:
        rows = dataset.MindDataset(
            [str(file) for file in files],
            columns_list=list(columns),
            shuffle=False,
            num_parallel_workers=workers or min(8, cores()),
        )
        read = {column: [] for column in columns}  # type: dict[str, list[Any]]
        for row in rows.create_dict_iterator(num_epochs=1, output_numpy=True):
            for column in columns:
                read[column].append(row[column])
    except (RuntimeError, ValueError, TypeError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UsageError(
            Text(
                f"{name}: MindDataset cannot read {files[0]}: {first}",
                f"{name}：MindDataset 无法读取 {files[0]}：{first}",
            ),
            Text(f"Columns asked for: {', '.join(columns)}.", f"请求的列：{', '.join(columns)}。"),
        ) from None
    return {column: _matrix(values, length, f"{name}.{column}") for column, values in read.items()}


def _matrix(values: list[Any], length: int, name: str) -> Any:
    sizes = sorted({int(np.size(value)) for value in values})
    if not sizes:
        raise UsageError(Text(f"{name}: the data set is empty.", f"{name}：数据集为空。"))
    if sizes[0] < length:
        raise UsageError(
            Text(
                f"{name}: a row holds {sizes[0]} tokens, max_length is {length}.",
                f"{name}：存在只有 {sizes[0]} 个 token 的样本，而 max_length 为 {length}。",
            ),
            Text(f"Set max_length to at most {sizes[0]}.", f"请把 max_length 设为不超过 {sizes[0]}。"),
        )
    return np.stack([np.asarray(value).reshape(-1)[: length + 1][: sizes[0]] for value in values]).astype(np.int32)
