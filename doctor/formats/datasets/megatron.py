"""Reads Megatron's indexed data sets: ``NAME.bin`` with the tokens, ``NAME.idx`` with lengths and places.

magic MMIDIDX, version 1 (u64), type code (u8), sequences (u64), documents (u64),
lengths i32[sequences], byte offsets i64[sequences], document borders i64[documents]
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

from doctor.finding import Text
from doctor.formats.datasets.dataset import Column, Dataset, Row, spread
from doctor.formats.datasets.extremes import Extremes, Seen
from doctor.formats.tensor import Kind, Problem

MAGIC = b"MMIDIDX\x00\x00"
TYPES = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float64", 7: "float32", 8: "uint16"}
#: Sequences looked at a time.
BLOCK = 1 << 20
#: Tokens read for their lowest and highest number (512 MB of uint16).
READ = 1 << 28
_HEAD = struct.Struct("<9sQBQQ")


def is_index(path: Path) -> bool:
    """By the first bytes of the .idx file."""
    try:
        with path.open("rb", buffering=0) as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def _borders(index: Path, sequences: int, documents: int) -> Optional[Text]:
    """What is wrong with the borders of documents: they begin at 0, end at the number of sequences and never fall.
    Reads in blocks. Raises OSError."""
    import numpy as np

    last = 0
    for start in range(0, documents, BLOCK):
        place = _HEAD.size + 12 * sequences + 8 * start
        borders = np.fromfile(index, "<i8", min(BLOCK, documents - start), offset=place)
        first = int(borders[0]) if borders.size else last
        if start == 0 and first != 0:
            return Text(
                f"the first document begins at sequence {first}, not at 0", f"首个文档从第 {first} 个序列开始，应为 0"
            )
        falls = (np.diff(borders, prepend=last) < 0).nonzero()[0]
        if falls.size:
            at = start + int(falls[0])
            return Text(f"document {at} begins before document {at - 1}", f"第 {at} 个文档起于第 {at - 1} 个文档之前")
        last = int(borders[-1]) if borders.size else last
    if documents and last != sequences:
        return Text(
            f"the last document ends at sequence {last} of {sequences}",
            f"最后一个文档结束于第 {last} 个序列，而共有 {sequences} 个",
        )
    return None


def _walk(index: Path, sequences: int, width: int) -> tuple[Optional[Problem], int]:
    """The first sequence that does not stand where the lengths before it end, and where the last one ends. Reads in
    blocks. Raises OSError."""
    import numpy as np

    end = 0
    for start in range(0, sequences, BLOCK):
        count = min(BLOCK, sequences - start)
        lengths = np.fromfile(index, "<i4", count, offset=_HEAD.size + 4 * start)
        place = _HEAD.size + 4 * sequences + 8 * start
        places = np.fromfile(index, "<i8", count, offset=place)
        if lengths.size < count or places.size < count:
            return Problem(Kind.TRUNCATED, index, Text("the index is cut off", "索引不完整")), end
        if int(lengths.min()) < 0 or int(places.min()) < 0:
            return Problem(Kind.LAYOUT, index, Text("negative lengths or places", "长度或位置为负"), offset=place), end
        ends = end + np.cumsum(lengths.astype(np.int64) * width)
        wanted = np.concatenate([[end], ends[:-1]])
        if not np.array_equal(places, wanted):
            at = int(np.flatnonzero(places != wanted)[0])
            what = Text(
                f"sequence {start + at} stands at {int(places[at])}, by the lengths before it at {int(wanted[at])}",
                f"第 {start + at} 个序列位于 {int(places[at])}，按此前各序列的长度应位于 {int(wanted[at])}",
            )
            furthest = int((places + lengths.astype(np.int64) * width).max())
            return Problem(Kind.LAYOUT, index, what, offset=place + 8 * at), furthest
        end = int(ends[-1])
    return None, end


def open_megatron(stem: Path) -> Dataset:
    """`stem` without .bin or .idx."""
    import numpy as np

    index, data = stem.with_name(stem.name + ".idx"), stem.with_name(stem.name + ".bin")
    files = tuple(path for path in (data, index) if path.exists())
    missing = tuple(path.name for path in (data, index) if not path.exists())
    problems: list[Problem] = []

    def broken(kind: Kind, path: Path, en: str, zh: str, **more: Any) -> Dataset:
        problems.append(Problem(kind, path, Text(en, zh), **more))
        return Dataset(stem, "megatron", files, problems=tuple(problems), missing=missing)

    if missing:
        return Dataset(stem, "megatron", files, missing=missing)
    try:
        size = index.stat().st_size
        with index.open("rb", buffering=0) as file:
            raw = file.read(_HEAD.size)
        held = data.stat().st_size
    except OSError as error:
        return broken(Kind.UNREADABLE, index, str(error.strerror), str(error.strerror))
    if size < _HEAD.size:
        return broken(
            Kind.TRUNCATED if size else Kind.EMPTY,
            index,
            "the index ends inside its head",
            "索引在开头处就结束",
            observed=size,
        )
    magic, version, code, sequences, documents = _HEAD.unpack_from(raw)
    if magic != MAGIC or version != 1 or code not in TYPES:
        return broken(
            Kind.HEADER,
            index,
            f"no index of Megatron: version {version}, type {code}",
            f"不是 Megatron 索引：版本 {version}，类型 {code}",
        )
    needed = _HEAD.size + sequences * 12 + documents * 8
    if size < needed:
        return broken(Kind.TRUNCATED, index, "the index is cut off", "索引不完整", observed=size, expected=needed)
    kind = np.dtype(TYPES[code])
    if not sequences:
        return broken(Kind.EMPTY, data, "there are no sequences in it", "其中没有任何序列", observed=held)
    try:
        wrong, end = _walk(index, int(sequences), kind.itemsize)
        what = _borders(index, int(sequences), int(documents))
    except OSError as error:
        return broken(Kind.UNREADABLE, index, str(error.strerror), str(error.strerror))
    problems += [] if wrong is None else [wrong]
    if what is not None:
        problems.append(Problem(Kind.LAYOUT, index, what, offset=_HEAD.size + 12 * sequences))
    if wrong is None and end > held:
        what = Text("the tokens end before the index says", "token 数据在索引所指之前就结束")
        problems.append(Problem(Kind.TRUNCATED, data, what, offset=held, observed=held, expected=end))
    elif wrong is None and held > end:
        what = Text("tokens that the index does not list", "存在索引未列出的 token")
        problems.append(Problem(Kind.TRAILING, data, what, observed=held - end, expected=0))

    def draw(count: int) -> Iterator[Row]:
        with data.open("rb", buffering=0) as file, index.open("rb", buffering=0) as table:
            for number in spread(int(sequences), count):
                table.seek(_HEAD.size + 4 * number)
                length = int.from_bytes(table.read(4), "little") * kind.itemsize
                table.seek(_HEAD.size + 4 * int(sequences) + 8 * number)
                place = int.from_bytes(table.read(8), "little")
                if place + length > held or length > 1 << 28:
                    continue
                file.seek(place)
                yield Row(data, number, {"text": np.frombuffer(file.read(length), kind)})

    def extremes() -> Mapping[str, Extremes]:
        found = _extremes(data, index, int(sequences), kind, min(end, held) // kind.itemsize)
        return {} if found is None else {"text": found}

    columns = {"text": Column(TYPES[code], (-1,))}
    if any(problem.kind is Kind.LAYOUT for problem in problems):
        return Dataset(stem, "megatron", files, int(sequences), columns, tuple(problems))
    return Dataset(stem, "megatron", files, int(sequences), columns, tuple(problems), draw, extremes=extremes)


def _extremes(data: Path, index: Path, sequences: int, kind: Any, tokens: int) -> Optional[Extremes]:
    """Over all tokens; of a corpus beyond READ tokens over blocks spread evenly. None when it cannot be read."""
    import numpy as np

    if not tokens or not sequences or kind.kind not in "iu":
        return None
    blocks = -(-tokens // BLOCK)
    chosen = list(spread(blocks, READ // BLOCK))
    low: Optional[tuple[int, int]] = None
    high: Optional[tuple[int, int]] = None
    try:
        for block in chosen:
            start = block * BLOCK
            values = np.fromfile(data, kind, min(BLOCK, tokens - start), offset=start * kind.itemsize)
            if not values.size:
                break
            least, most = int(values.min()), int(values.max())
            if low is None or least < low[0]:
                low = (least, start + int(values.argmin()))
            if high is None or most > high[0]:
                high = (most, start + int(values.argmax()))
        if low is None or high is None:
            return None
        rows = [_row_of(index, sequences, at * kind.itemsize) for _, at in (low, high)]
    except OSError:
        return None
    share = len(chosen) / blocks
    return Extremes(Seen(data, rows[0], low[0]), Seen(data, rows[1], high[0]), share)


def _row_of(index: Path, sequences: int, place: int) -> int:
    """The sequence that holds a byte of the data."""
    import numpy as np

    places = np.memmap(index, "<i8", "r", _HEAD.size + 4 * sequences, (sequences,))
    return int(np.searchsorted(places, place, side="right")) - 1
