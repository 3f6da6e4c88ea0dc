"""Reads MindRecord: a file of pages with a JSON header, and a SQLite index beside it. No MindSpore is needed.

As MindSpore 2.10's FileWriter lays it out (version 3.0, studied on files that it wrote):

* eight bytes of length, JSON, zeros up to ``header_size``; page p begins at header_size + p * page_size, and the
  last page ends where its content does;
* a row's plain fields stand in a RAW page as eight bytes of length and msgpack; its arrays and bytes in a BLOB
  page as eight bytes of length and, for several fields, each with eight big-endian bytes of its own length;
* int32 and int64 arrays are packed: a big-endian count, two bits a number (1, 2, 4 or 8 bytes, the first in the
  highest bits), then the numbers, little-endian and signed;
* ``FILE.db`` has the place of every row (table INDEXES) and the name of its file (table SHARD_NAME).

Not read: statistics, encrypted files, rows of files whose index is lost (their number still is).
"""

from __future__ import annotations

import json
import re
import sqlite3
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Optional
from urllib.parse import quote

from doctor.finding import Text
from doctor.formats.datasets import msgpack
from doctor.formats.datasets.dataset import Column, Dataset, Row, spread
from doctor.formats.datasets.extremes import Extremes, Seen, widened
from doctor.formats.sniff import is_file, list_folder
from doctor.formats.tensor import Kind, Problem

MAX_HEADER = 256_000_000
#: Rows read for the lowest and highest number of each column: half a second.
LOOKED_AT = 4096
MAX_ROW = 256_000_000
_HEADER_KEYS = (b'"header_size"', b'"page_size"', b'"shard_addresses"')


@dataclass(frozen=True)
class Shard:
    """One file: its header and what its index says."""

    path: Path
    header: Mapping[str, Any] = field(default_factory=dict)
    rows: Optional[int] = None
    indexed: Optional[int] = None
    names: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def readable(self) -> bool:
        return bool(self.header) and self.indexed is not None


def is_mindrecord(path: Path) -> bool:
    """By the first bytes: a length and a JSON header with MindRecord's keys."""
    try:
        with path.open("rb", buffering=0) as file:
            head = file.read(4096)
    except OSError:
        return False
    if len(head) < 16 or head[8:9] != b"{":
        return False
    length = int.from_bytes(head[:8], "little")
    return length > 16 and (b'"header_size"' in head[:64] or sum(key in head for key in _HEADER_KEYS) >= 2)


def open_mindrecord(paths: Sequence[Path]) -> Dataset:
    """All files of a set. Those that the headers name and that are not there become `missing`."""
    shards = [_shard(path) for path in paths]
    good = [shard for shard in shards if shard.header]
    columns = _columns(good[0].header) if good else {}
    addresses = {name for shard in good for name in _addresses(shard.header)}
    there = {path.name for path in paths}
    folder = paths[0].parent
    # A file alone may have been renamed on purpose together with its index; then the header's name is not a loss.
    missing = tuple(sorted(name for name in addresses if name not in there and not (folder / name).exists()))
    missing = missing if len(addresses) > 1 else ()
    counts = [shard.indexed if shard.indexed is not None else shard.rows for shard in shards]
    rows = sum(count for count in counts if count is not None) if any(count is not None for count in counts) else None
    readable = [shard for shard in shards if shard.readable]

    def draw(count: int) -> Iterator[Row]:
        per = max(1, -(-count // max(len(readable), 1)))
        for shard in readable:
            yield from _rows(shard, per)

    def extremes() -> Mapping[str, Extremes]:
        found: dict[str, Extremes] = {}
        read = 0
        for row in draw(LOOKED_AT):
            read += 1
            for name, value in row.values.items():
                if getattr(value, "dtype", None) is not None and value.dtype.kind in "iu" and value.size:
                    low, high = (Seen(row.file, row.number, int(item)) for item in (value.min(), value.max()))
                    found[name] = widened(found.get(name), Extremes(low, high))
        share = min(1.0, read / rows) if rows else 1.0
        return {name: seen._replace(share=share) for name, seen in found.items()}

    return Dataset(
        folder if len(paths) > 1 else paths[0],
        "mindrecord",
        tuple(paths),
        rows,
        columns,
        (*(problem for shard in shards for problem in shard.problems), *_strangers(good)),
        draw,
        None if readable else Text("the index (.db) is needed to find rows", "需要索引文件（.db）才能定位样本"),
        missing,
        extremes,
    )


def _strangers(shards: Sequence[Shard]) -> Iterator[Problem]:
    """Files whose columns are not those of the first: they are of another data set."""
    for shard in shards[1:]:
        mine, first = (
            {name: column.dtype for name, column in _columns(item.header).items()} for item in (shard, shards[0])
        )
        if mine != first:
            what = Text(
                f"its columns are {', '.join(sorted(mine))}, those of {shards[0].path.name} {', '.join(sorted(first))}",
                f"它的列是 {'、'.join(sorted(mine))}，而 {shards[0].path.name} 的列是 {'、'.join(sorted(first))}",
            )
            yield Problem(Kind.DTYPE, shard.path, what, observed=sorted(mine), expected=sorted(first))


def siblings(path: Path) -> list[Path]:
    """All files of the set that one file belongs to: those its header names, where they are there."""
    header, _ = _header(path)
    names = [name for name in _addresses(header or {}) if (path.parent / name).is_file()]
    return [path.parent / name for name in names] if path.name in names else [path]


def files_in(folder: Path) -> list[Path]:
    """MindRecord files of a folder, by content."""
    return [
        Path(entry.path)
        for entry in list_folder(folder)
        if not entry.name.endswith(".db") and _named(entry.name) and is_file(entry) and is_mindrecord(Path(entry.path))
    ]


def _named(name: str) -> bool:
    return re.search(r"\.mindrecord\d*$|\.mr\d*$|^[^.]+\d*$", name, re.IGNORECASE) is not None


def _addresses(header: Mapping[str, Any]) -> list[str]:
    found = header.get("shard_addresses")
    return [name.rpartition("/")[2] for name in found if isinstance(name, str)] if isinstance(found, list) else []


def _header(path: Path) -> tuple[Optional[dict[str, Any]], Optional[Problem]]:
    try:
        size = path.stat().st_size
        with path.open("rb", buffering=0) as file:
            length = int.from_bytes(file.read(8), "little")
            if not size:
                return None, Problem(Kind.EMPTY, path, Text("it is empty", "文件为空"))
            if length > MAX_HEADER:
                what = Text("the header claims more than any data set needs", "文件头声明的长度超出合理范围")
                return None, Problem(Kind.HOSTILE, path, what, observed=length)
            if length + 8 > size:
                what = Text("the file ends inside its header", "文件在文件头内就结束")
                return None, Problem(Kind.TRUNCATED, path, what, observed=size, expected=length + 8)
            header = json.loads(file.read(length))
    except OSError as error:
        word = error.strerror or "cannot be read"
        return None, Problem(Kind.UNREADABLE, path, Text(word, word))
    except (ValueError, RecursionError) as error:
        what = Text(f"the header is not JSON: {error}", f"文件头不是 JSON：{error}")
        return None, Problem(Kind.HEADER, path, what, offset=8)
    numbers = isinstance(header, dict) and all(type(header.get(key)) is int for key in ("header_size", "page_size"))
    if not numbers or not isinstance(header.get("page"), list):
        return None, Problem(
            Kind.HEADER, path, Text("the header lacks its sizes or pages", "文件头缺少尺寸或页信息"), offset=8
        )
    return header, None


def _shard(path: Path) -> Shard:
    header, problem = _header(path)
    if header is None:
        return Shard(path, problems=(problem,) if problem else ())
    problems = []
    pages = [page for page in header["page"] if isinstance(page, dict)]
    end = header["header_size"]
    for page in pages:
        number, used = page.get("page_id"), page.get("page_size")
        if type(number) is int and type(used) is int and used:
            end = max(end, header["header_size"] + number * header["page_size"] + used)
    size = path.stat().st_size
    if size < end:
        what = Text("its last pages are not there", "末尾的数据页不完整")
        problems.append(Problem(Kind.TRUNCATED, path, what, offset=size, observed=size, expected=end))
    ends = [page.get("end_row_id") for page in pages if page.get("page_type") == "BLOB_DATA"]
    rows = max((number for number in ends if type(number) is int), default=None)
    indexed, names, more = _index(path)
    problems += more
    if rows is not None and indexed is not None and rows != indexed:
        what = Text("index and header count different rows", "索引与文件头记录的行数不同")
        problems.append(Problem(Kind.SIZE, path, what, observed=indexed, expected=rows))
    if names and path.name not in names:
        what = Text("its index belongs to a file of another name", "索引属于另一个名称的文件")
        problems.append(Problem(Kind.NAME, path, what, observed=path.name, expected=names[0]))
    return Shard(path, header, rows, indexed, names, tuple(problems))


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1", uri=True, timeout=2)
    steps = [0]

    def limit() -> int:
        steps[0] += 1
        return steps[0] > 1_000  # 10 million steps of its machine: a query that does not end

    connection.set_progress_handler(limit, 10_000)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return connection


def _index(path: Path) -> tuple[Optional[int], tuple[str, ...], list[Problem]]:
    place = path.with_name(path.name + ".db")
    if not place.is_file():
        return None, (), [Problem(Kind.UNREADABLE, place, Text("the index is not there", "索引文件不存在"))]
    torn = _torn(place)
    if torn is not None:
        return None, (), [torn]
    try:
        connection = _connect(place)
        try:
            (count,) = connection.execute("SELECT count(*) FROM INDEXES").fetchone()
            names = tuple(str(row[0]) for row in connection.execute("SELECT NAME FROM SHARD_NAME LIMIT 1000"))
        finally:
            connection.close()
    except sqlite3.Error as error:
        what = Text(f"the index cannot be read: {error}", f"索引无法读取：{error}")
        return None, (), [Problem(Kind.HEADER, place, what)]
    return int(count), names, []


def _torn(place: Path) -> Optional[Problem]:
    """That a data base is shorter than its own header says: page size at byte 16, pages at byte 28."""
    try:
        held = place.stat().st_size
        with place.open("rb", buffering=0) as file:
            head = file.read(32)
    except OSError:
        return None
    if len(head) < 32 or not head.startswith(b"SQLite format 3\x00"):
        return None
    page = int.from_bytes(head[16:18], "big")
    needed = (65536 if page == 1 else page) * int.from_bytes(head[28:32], "big")
    if held >= needed:
        return None
    return Problem(Kind.TRUNCATED, place, Text("the index is cut off", "索引不完整"), observed=held, expected=needed)


def _rows(shard: Shard, count: int) -> Iterator[Row]:
    try:
        connection = _connect(shard.path.with_name(shard.path.name + ".db"))
    except sqlite3.Error:
        return
    query = (
        "SELECT ROW_ID, PAGE_ID_RAW, PAGE_OFFSET_RAW, PAGE_OFFSET_RAW_END, PAGE_ID_BLOB, PAGE_OFFSET_BLOB, "
        "PAGE_OFFSET_BLOB_END FROM INDEXES WHERE ROW_ID = ?"
    )
    schema = _columns(shard.header)
    blobs = _blob_fields(shard.header)
    try:
        with shard.path.open("rb", buffering=0) as file:
            for number in spread(shard.indexed or 0, count):
                place = connection.execute(query, (number,)).fetchone()
                if place is not None and all(type(item) is int for item in place):
                    yield Row(shard.path, number, _values(file, shard.header, place, schema, blobs))
    except (sqlite3.Error, OSError):
        return
    finally:
        connection.close()


def _columns(header: Mapping[str, Any]) -> dict[str, Column]:
    schemas = header.get("schema")
    first = schemas[0] if isinstance(schemas, list) and schemas and isinstance(schemas[0], dict) else {}
    table = first.get("schema")
    found = {}
    for name, entry in table.items() if isinstance(table, dict) else ():
        if isinstance(entry, dict):
            found[name] = Column(str(entry.get("type")), _sizes(entry.get("shape")))
    return found


def _sizes(value: object) -> Optional[tuple[int, ...]]:
    return tuple(value) if isinstance(value, list) and all(type(item) is int for item in value) else None


def _blob_fields(header: Mapping[str, Any]) -> list[str]:
    schemas = header.get("schema")
    first = schemas[0] if isinstance(schemas, list) and schemas and isinstance(schemas[0], dict) else {}
    fields = first.get("blob_fields")
    return [name for name in fields if isinstance(name, str)] if isinstance(fields, list) else []


def _values(
    file: BinaryIO, header: Mapping[str, Any], place: Sequence[int], schema: Mapping[str, Column], blobs: Sequence[str]
) -> dict[str, Any]:
    """A row's values; a field that cannot be decoded is None."""
    _, raw_page, raw_start, raw_end, blob_page, blob_start, blob_end = place
    values: dict[str, Any] = {}
    raw = _at(file, header, raw_page, raw_start, raw_end)
    try:
        plain = msgpack.decode(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    except ValueError:
        plain = {}
    if isinstance(plain, dict):
        values.update({name: plain[name] for name in plain if name in schema})
    blob = _at(file, header, blob_page, blob_start, blob_end)
    length = int.from_bytes(blob[:8], "little")
    content = blob[8 : 8 + length]
    if len(content) < length or len(blob) < 8:  # the file ends inside this row
        return {**values, **dict.fromkeys(blobs)}
    for name, part in zip(blobs, _parts(content, len(blobs))):
        values[name] = _decode(part, schema.get(name, Column("bytes")))
    return values


def _at(file: BinaryIO, header: Mapping[str, Any], page: int, start: int, end: int) -> bytes:
    if not 0 <= start <= end or end - start > MAX_ROW:
        return b""
    file.seek(header["header_size"] + page * header["page_size"] + start)
    return file.read(end - start) or b""


def _parts(content: bytes, count: int) -> list[bytes]:
    if count == 1:
        return [content]
    parts, at = [], 0
    for _ in range(count):
        length = int.from_bytes(content[at : at + 8], "big")
        parts.append(content[at + 8 : at + 8 + length])
        at += 8 + length
    return parts


def _decode(part: bytes, column: Column) -> Any:
    import numpy as np

    if column.dtype in {"int32", "int64"}:
        try:
            values = unpack(part, column.dtype)
        except (ValueError, struct.error):
            return None
    elif column.dtype in {"float32", "float64"}:
        kind = np.dtype(column.dtype)
        values = np.frombuffer(part[: len(part) // kind.itemsize * kind.itemsize], kind)
    else:
        return part
    if column.shape and -1 not in column.shape and len(column.shape) > 1 and values.size == _count(column.shape):
        return values.reshape(column.shape)
    return values


def _count(shape: Sequence[int]) -> int:
    total = 1
    for length in shape:
        total *= length
    return total


def unpack(part: bytes, dtype: str) -> Any:
    """The numbers of a packed array. Raises ValueError when the bytes do not suffice."""
    import numpy as np

    count = struct.unpack(">I", part[:4])[0]
    flags = -(-count // 4)
    if count > 8 * len(part) or 4 + flags > len(part):
        raise ValueError("cut off")
    codes = np.frombuffer(part, np.uint8, flags, 4)
    kinds = np.stack([(codes >> shift) & 3 for shift in (6, 4, 2, 0)], axis=1).reshape(-1)[:count]
    widths = np.left_shift(1, kinds.astype(np.int64))
    starts = np.concatenate([[0], np.cumsum(widths)[:-1]]) if count else np.zeros(0, np.int64)
    data = np.frombuffer(part, np.uint8, offset=4 + flags)
    if count and int(starts[-1] + widths[-1]) > data.size:
        raise ValueError("cut off")
    values = np.zeros(count, np.int64)
    for kind, form in enumerate(("<i1", "<i2", "<i4", "<i8")):
        chosen = kinds == kind
        if chosen.any():
            width = 1 << kind
            places = starts[chosen][:, None] + np.arange(width)
            values[chosen] = np.ascontiguousarray(data[places]).view(form).reshape(-1)
    return values.astype(dtype)
