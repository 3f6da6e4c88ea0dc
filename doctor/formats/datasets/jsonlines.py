"""Reads JSON lines and JSON arrays of objects, and plain text: a line or an object is a sample."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Callable, Optional

from doctor.escape import decode, visible
from doctor.finding import Text
from doctor.formats.datasets.dataset import Column, Dataset, Row, spread
from doctor.formats.datasets.extremes import Extremes, of_row, widened
from doctor.formats.tensor import Kind, Problem

#: Lines judged in full before sampling begins to leap, and bytes of a file that are searched for broken lines.
MAX_LINE = 64_000_000
MAX_ARRAY = 512_000_000
SCANNED = 256_000_000
MAX_PROBLEMS = 20
#: Lines whose places are kept, so that a row that is shown can be found again.
MAX_PLACES = 1_000_000
_BOM = b"\xef\xbb\xbf"


def open_jsonl(path: Path, limit: int = SCANNED) -> Dataset:
    """JSON lines: every line is tried, up to `limit` bytes; of a larger file the rest is counted by sampling."""
    problems: list[Problem] = []
    keys: dict[str, Column] = {}
    seen: dict[str, Extremes] = {}
    places: list[tuple[int, int]] = []
    rows = 0
    size = path.stat().st_size
    if not size:
        return Dataset(
            path, "jsonl", (path,), 0, problems=(Problem(Kind.EMPTY, path, Text("it is empty", "文件为空")),)
        )
    with path.open("rb") as file:
        wide = _wide(path, file)
        if wide is not None:
            return Dataset(path, "jsonl", (path,), problems=(wide,))
        for number, offset, line in _lines(file, limit):
            if not line.strip():
                continue
            value = _parse(path, number, offset, line, problems, last=offset + len(line) >= size)
            if isinstance(value, dict):
                rows += 1
                if len(places) < MAX_PLACES:
                    places.append((number - 1, offset))
                for key, item in value.items():
                    keys.setdefault(str(key), Column(_kind(item)))
                for name, found in of_row(path, number - 1, value):
                    seen[name] = widened(seen.get(name), found)
        read = file.tell()
    if read < size:
        rows = rows * size // max(read, 1)
        seen = {name: found._replace(share=read / size) for name, found in seen.items()}

    def draw(count: int) -> Iterator[Row]:
        # With all lines known the row is the line counted from 0; else the number of the draw.
        yield from _drawn_at(path, places, count) if len(places) == rows else _draw_lines(path, count)

    return Dataset(path, "jsonl", (path,), rows, keys, tuple(problems), draw, extremes=lambda: seen)


def open_several(folder: Path, files: Sequence[Path], opener: Callable[[Path], Dataset]) -> Dataset:
    """Files of lines or arrays that are read together as one data set."""
    parts = [opener(file) for file in files]
    columns: dict[str, Column] = {}
    for part in parts:
        for name, column in part.columns.items():
            columns.setdefault(name, column)
    problems = (*(problem for part in parts for problem in part.problems), *_strangers(parts))
    unread = next((part.unread for part in parts if part.unread is not None), None)
    known = [part.rows for part in parts if part.rows is not None]

    def draw(count: int) -> Iterator[Row]:
        chosen = [parts[at] for at in spread(len(parts), count)]
        for part in chosen:
            yield from part.draw(max(1, count // len(chosen)))

    def extremes() -> Mapping[str, Extremes]:
        found: dict[str, Extremes] = {}
        for part in parts:
            for name, seen in part.extremes().items():
                found[name] = widened(found.get(name), seen)
        return found

    rows = sum(known) if known else None
    return Dataset(folder, parts[0].format, tuple(files), rows, columns, problems, draw, unread, extremes=extremes)


def _strangers(parts: Sequence[Dataset]) -> Iterator[Problem]:
    """Files that have no field in common with the first: they are of another data set."""
    first = next((part for part in parts if part.columns), None)
    for part in parts:
        if first is None or not part.columns or set(part.columns) & set(first.columns):
            continue
        mine, wanted = sorted(part.columns), sorted(first.columns)
        what = Text(
            f"its fields are {', '.join(mine[:6])}, those of {first.path.name} {', '.join(wanted[:6])}",
            f"它的字段是 {'、'.join(mine[:6])}，而 {first.path.name} 的字段是 {'、'.join(wanted[:6])}",
        )
        yield Problem(Kind.DTYPE, part.path, what, observed=mine, expected=wanted)


def _wide(path: Path, file: BinaryIO) -> Optional[Problem]:
    """That a file is UTF-16, which has its mark at the beginning. The file is at its beginning before and after."""
    head = file.read(64)
    file.seek(0)
    if is_wide(head):
        return Problem(Kind.NAME, path, Text("it is UTF-16", "文件是 UTF-16 编码"), observed="utf-16")
    return None


def is_wide(head: bytes) -> bool:
    """Whether a text begins as UTF-16: with its mark, or with every other byte zero."""
    return head[:2] in {b"\xff\xfe", b"\xfe\xff"} or (len(head) > 7 and not (any(head[:8:2]) and any(head[1:8:2])))


def narrowed(head: bytes) -> bytes:
    """The beginning of a text in UTF-16 as UTF-8."""
    order = "utf-16-be" if head[:2] == b"\xfe\xff" or not head[0] else "utf-16-le"
    return head[: len(head) // 2 * 2].decode(order, "replace").lstrip("\ufeff").encode("utf-8", "replace")


def open_json(path: Path) -> Dataset:
    """A JSON array of objects. Larger than 512 MB it is not read whole: convert it to lines."""
    size = path.stat().st_size
    with path.open("rb") as file:
        wide = _wide(path, file)
    if wide is not None:
        return Dataset(path, "json", (path,), problems=(wide,))
    if size > MAX_ARRAY:
        what = Text(
            "a JSON array of more than 512 MB; convert it to JSON lines",
            "超过 512 MB 的 JSON 数组；请转换为 JSON lines",
        )
        return Dataset(path, "json", (path,), unread=what)
    try:
        data = json.loads(path.read_bytes().removeprefix(_BOM) if hasattr(bytes, "removeprefix") else path.read_bytes())
    except UnicodeDecodeError:
        return Dataset(
            path, "json", (path,), problems=(Problem(Kind.NAME, path, Text("it is not UTF-8", "不是 UTF-8 编码")),)
        )
    except json.JSONDecodeError as error:
        cut = error.pos >= len(error.doc.rstrip()) - 1
        what = Text(f"line {error.lineno}: {error.msg}", f"第 {error.lineno} 行：{error.msg}")
        kind = Kind.TRUNCATED if cut else Kind.HEADER
        return Dataset(path, "json", (path,), problems=(Problem(kind, path, what, offset=error.pos, observed=size),))
    except (ValueError, RecursionError) as error:
        return Dataset(path, "json", (path,), problems=(Problem(Kind.HEADER, path, Text(str(error), str(error))),))
    items = data if isinstance(data, list) else next((v for v in data.values() if isinstance(v, list)), [])
    columns: dict[str, Column] = {}
    seen: dict[str, Extremes] = {}
    for at, item in enumerate(items):
        if isinstance(item, dict):
            for key, value in item.items():
                columns.setdefault(str(key), Column(_kind(value)))
            for name, found in of_row(path, at, item):
                seen[name] = widened(seen.get(name), found)

    def draw(count: int) -> Iterator[Row]:
        for number in spread(len(items), count):
            if isinstance(items[number], dict):
                yield Row(path, number, items[number])

    return Dataset(path, "json", (path,), len(items), columns, draw=draw, extremes=lambda: seen)


def open_text(path: Path) -> Dataset:
    """Plain text: lines, and whether it is UTF-8."""
    problems: list[Problem] = []
    rows = 0
    size = path.stat().st_size
    if not size:
        problems.append(Problem(Kind.EMPTY, path, Text("it is empty", "文件为空")))
    with path.open("rb") as file:
        wide = _wide(path, file)
        if wide is not None:
            return Dataset(path, "text", (path,), problems=(wide,))
        for number, offset, line in _lines(file, SCANNED):
            rows += bool(line.strip())
            if b"\x00" in line and len(problems) < MAX_PROBLEMS:
                what = Text(
                    f"line {number} holds zero bytes, as where a write or a copy was interrupted",
                    f"第 {number} 行含零字节，常见于写入或拷贝中断",
                )
                hole = offset + line.index(b"\x00")
                problems.append(Problem(Kind.HEADER, path, what, offset=hole, expected=number))
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                if len(problems) < MAX_PROBLEMS:
                    what = Text(f"line {number} is not UTF-8", f"第 {number} 行不是 UTF-8")
                    problems.append(
                        Problem(
                            Kind.NAME,
                            path,
                            what,
                            offset=offset + error.start,
                            observed=visible(decode(line)[:60]),
                            expected=number,
                        )
                    )
        read = file.tell()
    if read < size:
        rows = rows * size // max(read, 1)

    def draw(count: int) -> Iterator[Row]:
        with path.open("rb") as file:
            for number, _, line in _lines(file, SCANNED):
                if number > count:
                    return
                yield Row(path, number - 1, {"text": decode(line).rstrip("\r\n")})

    return Dataset(path, "text", (path,), rows, {"text": Column("string")}, tuple(problems), draw)


def _lines(file: BinaryIO, limit: int) -> Iterator[tuple[int, int, bytes]]:
    """Number from 1, byte offset and line, until `limit` bytes have been read. A line beyond MAX_LINE is cut."""
    offset = 0
    number = 0
    while offset < limit:
        line = file.readline(MAX_LINE)
        if not line:
            return
        number += 1
        yield number, offset, line
        offset += len(line)


def _parse(path: Path, number: int, offset: int, line: bytes, problems: list[Problem], last: bool) -> Any:
    try:
        value = json.loads(line.lstrip(_BOM) if number == 1 else line)
    except UnicodeDecodeError:
        what, kind = Text(f"line {number} is not UTF-8", f"第 {number} 行不是 UTF-8"), Kind.NAME
    except (ValueError, RecursionError) as error:
        text = getattr(error, "msg", str(error))
        what, kind = Text(f"line {number}: {text}", f"第 {number} 行：{text}"), Kind.HEADER
        if last and not line.endswith(b"\n"):
            kind = Kind.TRUNCATED
    else:
        if isinstance(value, dict):
            return value
        what, kind = Text(f"line {number} is no JSON object", f"第 {number} 行不是 JSON 对象"), Kind.HEADER
    if len(problems) < MAX_PROBLEMS:
        seen = visible(decode(line[:80]).strip())
        problems.append(Problem(kind, path, what, offset=offset, observed=seen, expected=number))
    return None


def _drawn_at(path: Path, places: Sequence[tuple[int, int]], count: int) -> Iterator[Row]:
    """Rows at the places of their lines."""
    with path.open("rb") as file:
        for at in spread(len(places), count):
            number, offset = places[at]
            file.seek(offset)
            value = _object(file.readline(MAX_LINE))
            if value is not None:
                yield Row(path, number, value)


def _draw_lines(path: Path, count: int) -> Iterator[Row]:
    """Lines at evenly spaced places of the file: cheap in a file of any size. The number is then that of the draw."""
    size = path.stat().st_size
    with path.open("rb") as file:
        seen = -1
        for index in range(count):
            target = index * size // count
            if target <= seen and index:
                continue
            file.seek(target)
            if target:
                file.readline(MAX_LINE)
            start = file.tell()
            if start <= seen:
                continue
            line = file.readline(MAX_LINE)
            if not line:
                return
            seen = start
            value = _object(line)
            if value is not None:
                yield Row(path, index, value)


def _object(line: bytes) -> Optional[dict[str, Any]]:
    try:
        value = json.loads(line.lstrip(_BOM))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, list):
        return "list"
    return {int: "int64", float: "float64", str: "string", dict: "object"}.get(type(value), "null")
