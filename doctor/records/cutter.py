"""Cuts a stream of bytes into chunks of whole lines, with a bounded carry.

Where a chunk may end: after ``\\n`` or after ``\\r``. A progress bar rewrites its line with ``\\r`` and may go on
for hours without ``\\n``; each of its states is then passed on by itself. Line numbers count ``\\n`` only, so
that all states of one bar have the number of the one line on which an editor or ``grep -n`` shows them.

A line longer than `limit` is passed on in pieces, none lost: each piece is a chunk of its own with its true
offset and the line number of the whole line, cut behind a separator so that no word or number is torn. Where
the pieces end depends on the bytes alone and not on how they were read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Optional

from doctor.records.record import Chunk

#: the longest line that stays whole, and the most that is kept while a line is not complete (bytes)
LINE_LIMIT = 1 << 20
#: a piece of an over-long line ends behind the last of these within its last 4 KiB
_SEPARATOR = re.compile(rb"[\s,;|}\]\x00](?=[^\s,;|}\]\x00]*\Z)")


class Cutter:
    """Incremental: `feed` takes the next bytes of a source and gives the whole lines that are complete."""

    def __init__(
        self, source: str, rank: Optional[int] = None, offset: int = 0, line: int = 1, limit: int = LINE_LIMIT
    ) -> None:
        self.source = source
        self.rank = rank
        self.limit = limit
        #: offset of the first byte that has not been passed on
        self.offset = offset
        self.carry = b""
        #: line number of the first byte of the last chunk, whose lines are counted when they have to be
        self._line = line
        self._last: Optional[Chunk] = None

    @property
    def line(self) -> int:
        """Line number of the first byte that has not been passed on."""
        if self._last is not None:
            self._line += self._last.lines
            self._last = None
        return self._line

    def feed(self, block: bytes) -> Iterator[Chunk]:
        """The chunks that `block` completes, in order; what is left is kept until the next call."""
        if len(self.carry) + len(block) <= self.limit:
            end = _last_line_end(block)
            if end:
                whole = not self.carry and end == len(block)
                part = block if whole else b"".join((self.carry, memoryview(block)[:end]))
                self.carry = block[end:]
                yield self._chunk(part)
            else:
                self.carry += block
            return
        data = self.carry + block
        given = start = 0
        while len(data) - start > self.limit:
            stop = start + self.limit
            end = _last_line_end(data, start, stop)
            if not end:  # a line that is longer: what stands before it, then a piece of it
                if start > given:
                    yield self._chunk(data[given:start])
                found = _SEPARATOR.search(data, max(start, stop - 4096), stop)
                given = end = found.end() if found else stop
                yield self._chunk(data[start:end])
            start = end
        end = max(start, _last_line_end(data, start))
        self.carry = data[end:]
        if end > given:
            yield self._chunk(data[given:end])

    def flush(self) -> Optional[Chunk]:
        """What is left at the end of the source: a last line without its newline, or None."""
        data, self.carry = self.carry, b""
        return self._chunk(data) if data else None

    def _chunk(self, part: bytes) -> Chunk:
        chunk = Chunk(self.source, part, self.offset, self.line, self.rank)
        self.offset += len(part)
        self._last = chunk
        return chunk


def _last_line_end(data: bytes, start: int = 0, stop: Optional[int] = None) -> int:
    """The place behind the last ``\\n`` or ``\\r``; 0 when there is none."""
    newline = data.rfind(b"\n", start, stop) + 1
    return data.rfind(b"\r", max(start, newline), stop) + 1 or newline
