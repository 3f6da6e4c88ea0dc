"""What lies between a file's bytes and log text: compression and UTF-16, undone step by step in bounded memory.

The kind is told from the first bytes, not from the name. Offsets of chunks count decoded bytes: for a
compressed file the bytes of its content, for UTF-16 those of the same text as UTF-8; a UTF-8 byte order mark
is part of the text (three bytes) and left where it is. Other encodings (GBK, Latin-1, mixtures) pass
unchanged, since line ends and all that is searched by machine are ASCII in them; `doctor.escape.decode` makes
text of the single lines that are shown.
"""

from __future__ import annotations

import bz2
import codecs
import lzma
import zlib
from collections.abc import Iterator
from typing import Any, Optional, Protocol

#: decoded bytes handed out at a time, however strongly the input was compressed
BLOCK = 1 << 20
#: bytes that suffice to tell the kind
SNIFF = 4096


class Decoder(Protocol):
    def feed(self, block: bytes) -> Iterator[bytes]:
        """Decoded blocks of at most about `BLOCK` bytes. Raises ValueError when the input is damaged."""

    def end(self) -> bool:
        """Whether the input may end here (False: it was cut short)."""


class Plain:
    def feed(self, block: bytes) -> Iterator[bytes]:
        yield block

    def end(self) -> bool:
        return True


class Utf16:
    """To UTF-8. Half a character at the end waits for its other half; what cannot be is U+FFFD."""

    def __init__(self, encoding: str) -> None:
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")

    def feed(self, block: bytes) -> Iterator[bytes]:
        yield self._decoder.decode(block).encode("utf-8", "replace")

    def end(self) -> bool:
        return not self._decoder.getstate()[0]


class Compressed:
    """gzip, bzip2 or xz, one or several members after one another."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._member: Any = self._open()
        self._fresh = True

    def _open(self) -> Any:
        if self._kind == "gzip":
            return zlib.decompressobj(wbits=31)
        return bz2.BZ2Decompressor() if self._kind == "bzip2" else lzma.LZMADecompressor()

    def feed(self, block: bytes) -> Iterator[bytes]:
        try:
            while block or not self._needs_input():
                if self._member.eof:
                    # zero bytes may pad the end of a member
                    block = (self._member.unused_data or block).lstrip(b"\0")
                    if not block:
                        return
                    self._member, self._fresh = self._open(), True
                    continue
                out = self._member.decompress(block, BLOCK)
                self._fresh = False
                block = self._member.unconsumed_tail if self._kind == "gzip" else b""
                if self._member.eof:
                    block = self._member.unused_data
                if out:
                    yield out
                elif not block:
                    return
        except (zlib.error, OSError, lzma.LZMAError, EOFError) as error:
            raise ValueError(f"damaged {self._kind} data: {error}") from error

    def _needs_input(self) -> bool:
        return self._kind == "gzip" or self._member.eof or self._member.needs_input

    def end(self) -> bool:
        return self._fresh or self._member.eof


def sniff(head: bytes) -> Optional[str]:
    """gzip, bzip2, xz, utf-16, utf-16-le or utf-16-be, from the first bytes; None for anything else."""
    if head.startswith(b"\x1f\x8b"):
        return "gzip"
    if head.startswith(b"BZh") and head[4:10] == b"1AY&SY":
        return "bzip2"
    if head.startswith(b"\xfd7zXZ\x00"):
        return "xz"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    # Without a mark: text that is mostly ASCII has a zero in every second byte, and only there.
    even, odd = head[0::2], head[1::2]
    if len(odd) >= 8:
        zero_even, zero_odd = even.count(0) / len(even), odd.count(0) / len(odd)
        if zero_odd > 0.7 and zero_even < 0.05:
            return "utf-16-le"
        if zero_even > 0.7 and zero_odd < 0.05:
            return "utf-16-be"
    return None


def decoder(kind: Optional[str]) -> Decoder:
    """The decoder for what `sniff` said."""
    if kind is None:
        return Plain()
    return Utf16(kind) if kind.startswith("utf-16") else Compressed(kind)
