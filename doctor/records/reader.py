"""A file, from its beginning to its end, as chunks of whole lines. Binary, in bounded memory, no traceback.

For ``watch --once`` and ``explain``; files that are still written are followed by `doctor.records.follow`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Optional, Union, cast

from doctor.bundled import Piece, pieces_of
from doctor.errors import UsageError
from doctor.escape import visible
from doctor.finding import Text
from doctor.records.cutter import Cutter
from doctor.records.decode import SNIFF, Plain, decoder, sniff
from doctor.records.record import Chunk, Notice

CHUNK_SIZE = 1 << 21
#: the first one is smaller: what is learnt from its lines makes the others cheaper
FIRST_SIZE = 1 << 16
#: what `read` takes for standard input
STDIN = "-"
#: and what its chunks name as their source
STDIN_SOURCE = "<stdin>"


def read(
    path: Union[str, Path],
    rank: Optional[int] = None,
    chunk_size: int = CHUNK_SIZE,
    on_notice: Optional[Callable[[Notice], None]] = None,
    source: Optional[str] = None,
) -> Iterator[Chunk]:
    """Chunks of the file at `path` (``-``: standard input), each of whole lines and about `chunk_size` bytes;
    the last may lack its newline. gzip, bzip2, xz and UTF-16 are undone (offsets then count decoded bytes).

    Raises UsageError at once when the file cannot be opened. What goes wrong later (the file vanishes, the disk
    fails, the compressed data end too soon) ends the chunks and is told to `on_notice`.
    """
    handle = open_log(path)
    name = source if source is not None else (STDIN_SOURCE if str(path) == STDIN else str(path))
    pieces = pieces_of(Path(path)) if str(path) != STDIN else None
    if pieces is not None:
        return _cut(handle, name, rank, pieces, chunk_size, on_notice or (lambda notice: None))
    return _chunks(handle, Cutter(name, rank), chunk_size, on_notice or (lambda notice: None))


def open_log(path: Union[str, Path]) -> BinaryIO:
    """The file, unbuffered. Raises UsageError with what is wrong and what to do next."""
    try:
        if str(path) == STDIN:
            return os.fdopen(os.dup(0), "rb", buffering=0)
        handle = Path(path).open("rb", buffering=0)  # noqa: SIM115 - the caller closes it
        if stat.S_ISDIR(os.fstat(handle.fileno()).st_mode):  # not reached on Linux: open() refuses folders
            raise IsADirectoryError
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:  # a NUL in the name
        raise unreadable(path, OSError(str(error))) from error
    return cast(BinaryIO, handle)


def unreadable(path: Union[str, Path], error: OSError) -> UsageError:
    """Why a file cannot be read, in words."""
    name = visible(str(path), 200)
    if isinstance(error, FileNotFoundError):
        return UsageError(
            Text(f"{name}: there is no such file or folder.", f"{name}：文件或目录不存在。"),
            Text("Check the path; `ls` its folder.", "请检查路径，可用 `ls` 查看其所在目录。"),
        )
    if isinstance(error, IsADirectoryError):
        return UsageError(
            Text(f"{name} is a folder, a log file was expected.", f"{name} 是目录，此处需要日志文件。"),
            Text("Name a file, or give the folder to `doctor watch`.", "请指定文件，或用 `doctor watch` 打开目录。"),
        )
    if isinstance(error, PermissionError):
        return UsageError(
            Text(f"{name}: no permission to read it.", f"{name}：没有读取权限。"),
            Text(
                f"See `ls -l {name}`; run as its owner or group.", f"请用 `ls -l {name}` 查看权限，换用属主或同组用户。"
            ),
        )
    why = error.strerror or str(error)
    return UsageError(Text(f"{name} cannot be read: {why}.", f"{name} 无法读取：{why}。"))


def _chunks(handle: BinaryIO, cutter: Cutter, chunk_size: int, tell: Callable[[Notice], None]) -> Iterator[Chunk]:
    def notice(kind: str, detail: str) -> None:
        tell(Notice(kind, cutter.source, cutter.rank, cutter.offset, detail))

    with handle:
        try:
            block = _first(handle, min(chunk_size, FIRST_SIZE))
            decode = decoder(sniff(block[:SNIFF]))
            plain = isinstance(decode, Plain) and handle.seekable()
            while block:
                for text in decode.feed(block):
                    yield from cutter.feed(text)
                # together with what waits, one full chunk
                size = max(chunk_size - len(cutter.carry), SNIFF)
                block = handle.read(_to_line_end(handle, size) if plain else size)
            if not decode.end():
                notice("damaged", "the compressed data end before their end mark")
        except OSError as error:
            notice("unreadable", error.strerror or str(error))
        except ValueError as error:
            notice("damaged", str(error))
    last = cutter.flush()
    if last is not None:
        yield last


def _cut(
    handle: BinaryIO,
    name: str,
    rank: Optional[int],
    pieces: Sequence[Piece],
    chunk_size: int,
    tell: Callable[[Notice], None],
) -> Iterator[Chunk]:
    """The lines of a log that a bundle kept, at the places that they had."""
    with handle:
        for piece in pieces:
            cutter = Cutter(name, rank, piece.offset, piece.line)
            left = piece.size
            try:
                handle.seek(piece.begin)
                while left > 0:
                    block = handle.read(min(chunk_size, left))
                    if not block:
                        tell(Notice("damaged", name, rank, cutter.offset, "the bundle lacks lines that it announces"))
                        return
                    left -= len(block)
                    yield from cutter.feed(block)
            except (OSError, OverflowError) as error:
                tell(Notice("unreadable", name, rank, cutter.offset, str(error)))
                return
            last = cutter.flush()
            if last is not None:
                yield last


def _to_line_end(handle: BinaryIO, size: int) -> int:
    """At most `size`, so that the next bytes end with a line if one ends near there: what follows a line's end would have
    to be put in front of the next bytes, and copying costs as much as reading."""
    front = size - SNIFF
    tail = os.pread(handle.fileno(), SNIFF, handle.tell() + front)
    end = max(tail.rfind(b"\n"), tail.rfind(b"\r")) + 1
    return front + end if end else size


def _first(handle: BinaryIO, chunk_size: int) -> bytes:
    """The first block, long enough to tell the kind of file; a pipe may give it in pieces, or give less."""
    head = handle.read(chunk_size)
    while head and len(head) < 16:
        more = handle.read(chunk_size)
        if not more:
            break
        head += more
    return head
