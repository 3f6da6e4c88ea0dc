"""Arrow and Parquet through pyarrow, the library that owns them (extra ``data``); without it the files are only named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from doctor.escape import visible
from doctor.finding import Text
from doctor.formats.datasets.dataset import Column, Dataset, Row, spread
from doctor.formats.datasets.extremes import Extremes, Seen, widened
from doctor.formats.tensor import Kind, Problem

#: Row groups of a Parquet file whose numbers are all read.
GROUPS = 64


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

    def extremes() -> Mapping[str, Extremes]:
        found: dict[str, Extremes] = {}
        for file, table in tables:
            for name, seen in _extremes(file, table):
                found[name] = widened(found.get(name), seen)
        return found

    return Dataset(path, form, tuple(files), rows, columns, tuple(problems), draw, missing=missing, extremes=extremes)


def _extremes(file: Path, table: Any) -> Iterator[tuple[str, Extremes]]:
    """Of the columns that are lists of whole numbers, piece by piece; of a Parquet file over GROUPS row groups."""
    import pyarrow

    pieces: Iterator[tuple[int, Any]]
    share = 1.0
    if file.suffix == ".parquet":
        groups = table.num_row_groups
        share = min(1.0, GROUPS / max(groups, 1))
        pieces = ((group, _group(table, group)) for group in spread(groups, GROUPS))
    else:
        pieces = enumerate([table])
    firsts = _firsts(table) if file.suffix == ".parquet" else [0]
    for group, piece in pieces:
        row = firsts[group]
        for name in [] if piece is None else piece.column_names:
            for chunk in piece.column(name).chunks:
                kind = chunk.type
                if pyarrow.types.is_list(kind) and pyarrow.types.is_integer(kind.value_type):
                    yield from ((name, seen._replace(share=share)) for seen in _of_chunk(file, row, chunk))
                row += len(chunk)
            row = firsts[group]


def _firsts(table: Any) -> list[int]:
    """The number of the first row of each row group of a Parquet file."""
    firsts = [0]
    for group in range(table.num_row_groups):
        firsts.append(firsts[-1] + table.metadata.row_group(group).num_rows)
    return firsts


def _group(table: Any, group: int) -> Any:
    import pyarrow

    try:
        return table.read_row_group(group)
    except (OSError, pyarrow.ArrowException):
        return None


def _of_chunk(file: Path, row: int, chunk: Any) -> Iterator[Extremes]:
    import pyarrow.compute

    flat = chunk.flatten()
    both = pyarrow.compute.min_max(flat)
    low, high = both["min"].as_py(), both["max"].as_py()
    if low is None:
        return
    rows = [
        int(chunk.value_parent_indices()[pyarrow.compute.index(flat, value).as_py()].as_py()) for value in (low, high)
    ]
    yield Extremes(Seen(file, row + rows[0], low), Seen(file, row + rows[1], high))


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
        groups = table.num_row_groups
        firsts = _firsts(table)
        for group in spread(groups, min(groups, 8)):
            try:
                part = table.read_row_group(group)
            except (OSError, pyarrow.ArrowException):
                yield Row(file, firsts[group], dict.fromkeys(table.schema_arrow.names))
                continue
            for index in spread(part.num_rows, max(1, count // max(min(groups, 8), 1))):
                yield Row(file, firsts[group] + index, part.slice(index, 1).to_pylist()[0])
        return
    for index in spread(table.num_rows, count):
        yield Row(file, index, table.slice(index, 1).to_pylist()[0])
