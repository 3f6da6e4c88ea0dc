"""A whole text as lines: any encoding, whose ranks and files are told by headers as `tail` and `grep` print them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Optional, Union

from doctor.records.record import Chunk

_HEADER = re.compile(rb"^(?:==> (.{1,300}?) <==|-{3,} ?(\S{1,300}\.(?:log|txt)) ?-{3,})\r?$", re.MULTILINE)
#: one of them is in every header; telling so is much faster than looking for headers
_HINTS = (b" <==", b".log", b".txt")
#: the marks of a quotation in a mail or in markdown
_QUOTE_MARK = re.compile(rb"^(?:> ?)+", re.MULTILINE)
#: a line of some content without them
_NOT_QUOTED = re.compile(rb"^[ \t]*[^>\s]", re.MULTILINE)
#: so long a text is a log, not a paste
PASTE = 256 * 1024
_RANK_IN_NAME = re.compile(r"(?:rank|worker|device|npu|card)[ _-]?(\d{1,5})(?=\D|$)", re.IGNORECASE)


def chunks_of(text: Union[str, bytes], source: str = "-") -> Iterator[Chunk]:
    """The text in chunks, one for each part under a ``==> file <==`` header. Lines and offsets count in the whole
    text, so that evidence can be found again; a part of another rank is another source only in its rank."""
    data = unquoted(text.encode("utf-8", "surrogateescape") if isinstance(text, str) else as_utf8(text))
    return by_header([Chunk(source, data, 0, 1)])


def by_header(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Chunks of one text, cut at the headers in it; what follows a header is of the rank that its name tells, and what
    stands before the first one of the rank that the chunks have."""
    named, rank = False, None
    for chunk in chunks:
        rank = rank if named else chunk.rank
        data, line, start = chunk.data, chunk.first_line, 0
        if not any(hint in data for hint in _HINTS):
            yield chunk if rank == chunk.rank else replace(chunk, rank=rank)
            continue
        for found in _HEADER.finditer(data):
            if found.start() > start:
                yield Chunk(chunk.source, data[start : found.start()], chunk.offset + start, line, rank)
                line += data.count(b"\n", start, found.start())
                start = found.start()
            named, rank = True, rank_in_name((found.group(1) or found.group(2)).decode("utf-8", "replace"))
        if start < len(data) or not data:
            yield Chunk(chunk.source, data[start:], chunk.offset + start, line, rank)


def unquoted(data: bytes) -> bytes:
    """A paste that is one quotation, from a mail or an issue, without its marks; every byte stays at its place. A
    text that only holds a quotation stays as it is: what others saw is no event of this run."""
    if not is_quotation(data):
        return data
    return _QUOTE_MARK.sub(lambda found: b" " * len(found.group()), data)


def is_quotation(text: Union[str, bytes]) -> bool:
    """Whether every line with content has the mark of a quotation before it."""
    if len(text) > PASTE:
        return False
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    return data.lstrip().startswith(b">") and _NOT_QUOTED.search(data) is None


def as_utf8(raw: bytes) -> bytes:
    """UTF-16 as UTF-8; all else stays as it is (see `doctor.match.line.normal` for GBK)."""
    if b"\x00" not in raw[:4096] and not raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return raw
    from doctor.records.decode import decoder, sniff

    kind = sniff(raw[:4096])
    if kind is None or not kind.startswith("utf-16"):
        return raw
    return b"".join(decoder(kind).feed(raw))


def rank_in_name(name: str) -> Optional[int]:
    """The rank that a path speaks of: ``output/log/rank_3/info.log``, ``worker_3.log``."""
    found = _RANK_IN_NAME.findall(name)
    return int(found[-1]) if found else None
