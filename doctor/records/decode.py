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
#: what text of any encoding may hold; NUL is among it, because a file system that lost power leaves blocks of them in logs
_TEXT = bytes(byte for byte in range(256) if byte >= 0x20 or byte in b"\0\a\b\t\n\v\f\r\x1b")
_ASCII = bytes(range(0x20, 0x7F)) + b"\t\n\r"
#: data that are no text hold at least so many other bytes near their beginning, they are at least that part of all (random
#: bytes: 8 %), and less than that part is ASCII (random bytes: 38 %; logs in any language: more than 80 %)
_ALIEN, _ALIEN_PART, _ASCII_PART = 32, 0.05, 0.6
#: why nothing is read of data that are no text
NO_LOG = "binary data, not a log"


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


class Binary:
    """No text at all: weights, an archive, a core dump. Nothing in it is a line."""

    def feed(self, block: bytes) -> Iterator[bytes]:
        raise ValueError(NO_LOG)

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
        self._first = True

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
                    if self._first and _is_binary(out[:SNIFF]):
                        raise ValueError(NO_LOG)
                    self._first = False
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
    """gzip, bzip2, xz, utf-16, utf-16-le, utf-16-be or binary, from the first bytes; None for text."""
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
    return "binary" if _is_binary(head) else None


def _is_binary(head: bytes) -> bool:
    alien = len(head.translate(None, _TEXT))
    if alien < _ALIEN:
        return False
    size = len(head) - head.count(0)
    return alien >= size * _ALIEN_PART and size - len(head.translate(None, b"\0" + _ASCII)) < size * _ASCII_PART


def decoder(kind: Optional[str]) -> Decoder:
    """The decoder for what `sniff` said."""
    if kind is None:
        return Plain()
    if kind == "binary":
        return Binary()
    return Utf16(kind) if kind.startswith("utf-16") else Compressed(kind)
