"""One log that is being written: what is new in it, and whether it is still the same file."""

from __future__ import annotations

import base64
import binascii
import os
import select
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

from doctor.errors import UsageError
from doctor.records.cutter import Cutter
from doctor.records.decode import SNIFF, Decoder, decoder, sniff
from doctor.records.reader import STDIN, STDIN_SOURCE, read
from doctor.records.record import Chunk, Notice

Item = Union[Chunk, Notice]

#: the most that is read from one file at a time
BLOCK = 1 << 20
# the bytes before the offset are remembered: a file of the same size or more may hold something else by now
_TAIL = 64
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC

Identity = tuple[int, int]


class SavedPlace(NamedTuple):
    """Where reading of a file stopped: at `offset`, behind the bytes `before`, in line `line`."""

    identity: Identity
    offset: int
    line: int
    before: bytes

    @classmethod
    def of(cls, row: Any) -> Optional[SavedPlace]:
        """From the JSON that `Followed.state` gave; None when it is damaged."""
        try:
            place = cls(
                (int(row["device"]), int(row["inode"])),
                int(row["offset"]),
                int(row["line"]),
                base64.b64decode(row["before"], validate=True),
            )
        except (KeyError, TypeError, ValueError, binascii.Error):
            return None
        return place if place.offset >= len(place.before) and place.line >= 1 else None


class Followed:
    """Reads what was added to `path` since the last time, after what stands in its older `parts`.

    Notices tell what happened to the file itself: opened, truncated (it begins again), replaced (another file stands
    there; the old one was read to its end), vanished, resumed, unreadable, damaged.
    """

    def __init__(self, path: Path, rank: Optional[int] = None, parts: Sequence[Path] = ()) -> None:
        self.path = path
        self.rank = rank
        self.source = str(path)
        self.folder = str(path.parent)
        self._old: Optional[Iterator[Item]] = chain.from_iterable(map(self._part, parts)) if parts else None
        self._fd: Optional[int] = None
        self._identity: Optional[Identity] = None
        #: bytes of the file that were read, and the last of them
        self._read = 0
        self._tail = b""
        self._more = False
        self._cutter = Cutter(self.source, rank)
        self._decoder: Optional[Decoder] = None
        #: what was wrong the last time, so that it is told once
        self._trouble = ""

    @property
    def is_open(self) -> bool:
        return self._fd is not None

    def news(self) -> Iterator[Item]:
        """What is new, at most about `BLOCK` bytes at a time; `behind` says whether more waits."""
        if self._old is not None:
            yield from self._some_old()
            return
        try:
            status = os.stat(self.source)
        except OSError as error:
            yield from self._gone(error)
            return
        identity = (status.st_dev, status.st_ino)
        if identity == self._identity and status.st_size == self._read:
            return
        if self._identity is not None and identity != self._identity:
            yield from self._end_of_old("replaced")
        try:
            yield from self._added(identity, status.st_size)
            self._trouble = ""
        except OSError as error:
            yield from self._failed("unreadable", error.strerror or str(error))

    def behind(self) -> bool:
        """Whether more is known to wait than was given."""
        if self._old is not None:
            return True
        return self._more

    def finish(self) -> Iterator[Item]:
        """The last line, though it has no newline yet."""
        last = self._cutter.flush()
        if last is not None:
            yield last

    def close(self) -> None:
        """Gives the file handle back; `news` opens the file again when it has grown."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def state(self) -> Optional[dict[str, Any]]:
        """Where to go on, as JSON; None when it must be read again from its beginning. A part of a line that has no end
        yet is read again."""
        carry = len(self._cutter.carry)
        if self._identity is None or self._old is not None or self._read != self._cutter.offset + carry:
            return None  # the last: transcoded text, whose offsets are not those of the file
        return {
            "path": self.source,
            "device": self._identity[0],
            "inode": self._identity[1],
            "offset": self._cutter.offset,
            "line": self._cutter.line,
            "before": base64.b64encode(self._tail[: max(len(self._tail) - carry, 0)]).decode("ascii"),
        }

    def resume(self, place: SavedPlace) -> Iterator[Item]:
        """Goes on at `place`: in this file, or in the one it was renamed to and then in this. When neither holds what was
        read before, all is read from the beginning."""
        for path in (self.path, *self._siblings()):
            fd = _open_at(path, place)
            if fd is not None:
                self.close()
                self._old = None
                self._fd, self._identity = fd, place.identity
                self._read, self._tail = place.offset, place.before
                self._cutter = Cutter(self.source, self.rank, place.offset, place.line)
                self._decoder = decoder(None)
                yield self._notice("resumed")
                return
        yield self._notice("replaced", "it is not the file that was read before")

    def _some_old(self) -> Iterator[Item]:
        assert self._old is not None
        given = 0
        for item in self._old:
            yield item
            given += len(item.data) if isinstance(item, Chunk) else 0
            if given >= BLOCK:
                return
        self._old = None

    def _part(self, path: Path) -> Iterator[Item]:
        told: list[Item] = []
        try:
            yield from read(path, self.rank, on_notice=told.append)
        except UsageError as error:
            told.append(Notice("unreadable", str(path), self.rank, detail=error.line("en")))
        yield from told

    def _added(self, identity: Identity, size: int) -> Iterator[Item]:
        """What stands behind the part that was read, in the file of this identity and size."""
        if self._fd is None:
            self._fd = os.open(self.path, _FLAGS)
            status = os.fstat(self._fd)
            identity, size = (status.st_dev, status.st_ino), status.st_size
        if self._identity is None:
            self._identity = identity
            yield self._notice("opened")
        block = self._next(self._fd, size)
        if block is None:
            yield from self._end_of_old("truncated")
            yield from self._added(identity, size)
        else:
            yield from self._take(block)

    def _next(self, fd: int, size: int) -> Optional[bytes]:
        """The next bytes, at most `BLOCK`; None when what was read before is no longer in front of them."""
        known = len(self._tail)
        if size < self._read:
            return None
        block = os.pread(fd, min(size - self._read, BLOCK) + known, self._read - known)
        return block[known:] if block.startswith(self._tail) else None

    def _take(self, block: bytes) -> Iterator[Item]:
        if self._decoder is None:
            if len(block) < 2:
                return  # too little to tell the kind of file; the next line brings more
            self._decoder = decoder(sniff(block[:SNIFF]))
        self._read += len(block)
        self._more = len(block) == BLOCK
        self._tail = block[-_TAIL:] if len(block) >= _TAIL else (self._tail + block)[-_TAIL:]
        try:
            for text in self._decoder.feed(block):
                yield from self._cutter.feed(text)
        except ValueError as error:
            yield from self._failed("damaged", str(error))

    def _rest(self) -> Iterator[Item]:
        """All that is left in the file that was read so far, wherever it has been moved."""
        if self._fd is None and self._identity is not None:
            self._fd = next((fd for fd in map(self._open_old, self._siblings()) if fd is not None), None)
        if self._fd is None:
            return
        while True:
            block = self._next(self._fd, os.fstat(self._fd).st_size)
            if not block or (len(block) < 2 and self._decoder is None):
                return
            yield from self._take(block)

    def _open_old(self, path: Path) -> Optional[int]:
        assert self._identity is not None
        return _open_at(path, SavedPlace(self._identity, self._read, 1, self._tail))

    def _end_of_old(self, kind: str) -> Iterator[Item]:
        """What is still unread of the old file, then that it is over. The next look begins anew."""
        if kind != "truncated":
            try:
                yield from self._rest()
            except OSError as error:
                yield from self._failed("unreadable", error.strerror or str(error))
        yield from self.finish()
        yield self._notice(kind)
        self.close()
        self._identity, self._read, self._tail, self._decoder, self._more = None, 0, b"", None, False
        self._cutter = Cutter(self.source, self.rank)

    def _gone(self, error: OSError) -> Iterator[Item]:
        if self._identity is not None and isinstance(error, (FileNotFoundError, NotADirectoryError)):
            yield from self._end_of_old("vanished")
        elif not isinstance(error, (FileNotFoundError, NotADirectoryError)):
            yield from self._failed("unreadable", error.strerror or str(error))

    def _failed(self, kind: str, why: str) -> Iterator[Item]:
        if self._trouble != why:
            self._trouble = why
            yield self._notice(kind, why)

    def _notice(self, kind: str, detail: str = "") -> Notice:
        return Notice(kind, self.source, self.rank, self._cutter.offset, detail)

    def _siblings(self) -> list[Path]:
        """Files beside this one whose names begin with its name: where rotation moved it."""
        try:
            names = sorted(entry.name for entry in os.scandir(self.path.parent))
        except OSError:
            return []
        return [
            self.path.with_name(name) for name in names if name.startswith(self.path.name) and name != self.path.name
        ]


class Piped:
    """Standard input while it is written: the same questions as for a file, of a pipe."""

    def __init__(self, fd: int = 0, rank: Optional[int] = None) -> None:
        self.fd = fd
        self.path = Path(STDIN)
        self.source = STDIN_SOURCE
        self.folder = STDIN_SOURCE
        self.ended = False
        self._cutter = Cutter(self.source, rank)
        self._decoder: Optional[Decoder] = None

    is_open = False

    def news(self) -> Iterator[Item]:
        if self.ended or not self.behind():
            return
        try:
            block = os.read(self.fd, BLOCK)
        except OSError as error:
            block = b""
            yield Notice("unreadable", self.source, offset=self._cutter.offset, detail=error.strerror or str(error))
        if block:
            self._decoder = self._decoder or decoder(sniff(block[:SNIFF]))
            try:
                for text in self._decoder.feed(block):
                    yield from self._cutter.feed(text)
            except ValueError as error:
                yield Notice("damaged", self.source, offset=self._cutter.offset, detail=str(error))
        else:
            self.ended = True
            yield from self.finish()
            yield Notice("ended", self.source, offset=self._cutter.offset)

    def behind(self) -> bool:
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        return not self.ended and bool(poll.poll(0))

    def finish(self) -> Iterator[Item]:
        last = self._cutter.flush()
        if last is not None:
            yield last

    def close(self) -> None:
        """Standard input stays open: it is not ours."""

    def state(self) -> None:
        """A pipe cannot be read again."""


def _open_at(path: Path, place: SavedPlace) -> Optional[int]:
    """The file at `path`, when it is the one of `place` and still holds what was read of it."""
    try:
        fd = os.open(path, _FLAGS)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        same = (status.st_dev, status.st_ino) == place.identity and status.st_size >= place.offset
        if same and os.pread(fd, len(place.before), place.offset - len(place.before)) == place.before:
            return fd
    except OSError:
        pass
    os.close(fd)
    return None
