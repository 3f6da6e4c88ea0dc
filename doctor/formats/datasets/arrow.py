"""Arrow and Parquet through pyarrow, the library that owns them (extra ``data``); without it the files are only named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from doctor.escape import visible
from doctor.finding import Text
from doctor.formats.datasets.dataset import Column, Dataset, Row, spread
from doctor.formats.tensor import Kind, Problem


def _no_library(error: ImportError) -> Text:
    """pyarrow is absent, or there and of no use: its newer releases want NumPy 2, MindSpore wants 1."""
    if isinstance(error, ModuleNotFoundError) and error.name == "pyarrow":
        return Text(
            "pyarrow is not installed: pip install 'mindspore-doctor[data]'",
            "未安装 pyarrow：pip install 'mindspore-doctor[data]'",
        )
    why = visible(str(error).splitlines()[0] if str(error) else "ImportError", 200)
    return Text(
        f"pyarrow cannot be imported ({why}); with NumPy 1 take an older one: pip install 'pyarrow<22'",
        f"pyarrow 无法导入（{why}）；NumPy 1 请安装较旧版本：pip install 'pyarrow<22'",
    )


def open_arrow(path: Path, files: Sequence[Path], missing: tuple[str, ...] = ()) -> Dataset:
    """Tables of one data set. `path` is what was asked for; `missing` are files that the numbering calls for."""
    form = "parquet" if files[0].suffix == ".parquet" else "arrow"
    try:
        import pyarrow
    except ImportError as error:
        return Dataset(path, form, tuple(files), unread=_no_library(error), missing=missing)
    problems: list[Problem] = []
    tables: list[tuple[Path, Any]] = []
    for file in files:
        try:
            tables.append((file, _open(file)))
        except (OSError, pyarrow.ArrowException, ValueError) as error:
            word = str(error).splitlines()[0] if str(error) else type(error).__name__
            kind = Kind.EMPTY if file.stat().st_size == 0 else Kind.TRUNCATED if _cut(word) else Kind.HEADER
            problems.append(Problem(kind, file, Text(word, word), observed=file.stat().st_size))
    columns = {field.name: Column(str(field.type)) for field in _schema(tables[0][1])} if tables else {}
    rows = sum(_count(table) for _, table in tables)

    def draw(count: int) -> Iterator[Row]:
        per = max(1, -(-count // max(len(tables), 1)))
        for file, table in tables:
            yield from _rows(file, table, per)

    return Dataset(path, form, tuple(files), rows, columns, tuple(problems), draw, missing=missing)


def _open(file: Path) -> Any:
    import pyarrow
    import pyarrow.parquet

    if file.suffix == ".parquet":
        return pyarrow.parquet.ParquetFile(file, memory_map=True)
    source = pyarrow.memory_map(str(file))
    try:
        return pyarrow.ipc.open_file(source).read_all()
    except pyarrow.ArrowInvalid:
        source.seek(0)
        return pyarrow.ipc.open_stream(source).read_all()


def _schema(table: Any) -> Any:
    return table.schema_arrow if hasattr(table, "schema_arrow") else table.schema


def _cut(word: str) -> bool:
    return any(
        part in word.lower() for part in ("magic bytes not found", "eof", "smaller than", "truncat", "expected to read")
    )


def _count(table: Any) -> int:
    metadata = getattr(table, "metadata", None)
    return int(metadata.num_rows) if metadata is not None and hasattr(metadata, "num_rows") else int(table.num_rows)


def _rows(file: Path, table: Any, count: int) -> Iterator[Row]:
    import pyarrow

    if file.suffix == ".parquet":
        number = 0
        groups = table.num_row_groups
        for group in spread(groups, min(groups, 8)):
            try:
                part = table.read_row_group(group)
            except (OSError, pyarrow.ArrowException):
                yield Row(file, number, dict.fromkeys(table.schema_arrow.names))
                number += 1
                continue
            for index in spread(part.num_rows, max(1, count // max(min(groups, 8), 1))):
                yield Row(file, number, part.slice(index, 1).to_pylist()[0])
                number += 1
        return
    for index in spread(table.num_rows, count):
        yield Row(file, index, table.slice(index, 1).to_pylist()[0])
