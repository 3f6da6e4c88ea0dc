"""The finder that compiles all expressions of the rules into one automaton (package hyperscan, extra ``fast``)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from doctor.match.cache import read_cached, write_cached
from doctor.match.finder import encoded
from doctor.match.regex import split_case
from doctor.match.textrule import Pattern

_NAMED = re.compile(rb"\(\?P<\w+>")


class HyperscanFinder:
    """Reports lines on which the whole expression matches, not only a literal: far fewer lines to verify.

    The compiled database is kept on disk by the name of the pack's content. An expression that Hyperscan refuses is
    looked for by its literals.
    """

    name = "hyperscan"

    def __init__(self, atoms: Sequence[Pattern], key: str = "") -> None:
        import hyperscan

        self._hyperscan: Any = hyperscan
        version = getattr(hyperscan, "__version__", "0")
        name = f"hyperscan-{version}-{key}.db"
        self._database: Any = self._load(name) if key else None
        if self._database is None:
            self._database = self._compile(atoms)
            if key:
                write_cached(name, bytes(hyperscan.dumpb(self._database)))
        self._scratch: Any = hyperscan.Scratch(self._database)
        self._database.scratch = self._scratch

    def _load(self, name: str) -> Any:
        raw = read_cached(name)
        if raw is None:
            return None
        try:
            database = self._hyperscan.loadb(raw, self._hyperscan.HS_MODE_BLOCK)
        except (self._hyperscan.error, ValueError, TypeError):
            return None  # made for another processor
        return database

    def _compile(self, atoms: Sequence[Pattern]) -> Any:
        hs = self._hyperscan
        searched = [(number, atom) for number, atom in enumerate(atoms) if atom.literals]
        rows = [(_expression(atom), number, _flags(hs, atom)) for number, atom in searched]
        foreign = [row for number, atom in searched for row in self._in_gbk(number, atom)]
        try:
            return self._built([*rows, *foreign])
        except hs.error:
            usable = [row for (_, atom), row in zip(searched, rows) for row in self._usable(atom, row)]
            return self._built([*usable, *foreign])

    def _in_gbk(self, number: int, atom: Pattern) -> list[tuple[bytes, int, int]]:
        """An expression in Chinese is looked for in UTF-8 as it is, in the other encoding by its literals."""
        texts = [raw for literal in atom.literals for raw in encoded(literal)[1:]]
        return [(_escaped(text), number, self._hyperscan.HS_FLAG_CASELESS) for text in texts]

    def _usable(self, atom: Pattern, row: tuple[bytes, int, int]) -> list[tuple[bytes, int, int]]:
        hs = self._hyperscan
        try:
            self._built([row])
        except hs.error:
            texts = [literal.encode("utf-8") for literal in atom.literals]
            return [(_escaped(text), row[1], hs.HS_FLAG_CASELESS) for text in texts]
        return [row]

    def _built(self, rows: Sequence[tuple[bytes, int, int]]) -> Any:
        database = self._hyperscan.Database(mode=self._hyperscan.HS_MODE_BLOCK)
        expressions, numbers, flags = zip(*rows) if rows else ((b"\x00\x00\x00never",), (0,), (0,))
        database.compile(expressions=list(expressions), ids=list(numbers), elements=len(expressions), flags=list(flags))
        return database

    def find(self, data: bytes) -> Iterable[tuple[int, int]]:
        found: list[tuple[int, int]] = []

        def hit(number: int, start: int, end: int, flags: int, context: Any) -> None:
            found.append((end - 1 if end else 0, number))

        self._database.scan(data, match_event_handler=hit)
        return found


def _flags(hs: Any, atom: Pattern) -> int:
    return int(hs.HS_FLAG_MULTILINE | (hs.HS_FLAG_CASELESS if atom.nocase else 0))


def _expression(atom: Pattern) -> bytes:
    """As the rule has it, but a line may end in a carriage return and groups have no names."""
    body = _NAMED.sub(b"(?:", split_case(atom.regex)[0].encode("utf-8"))
    return re.sub(rb"(?<!\\)((?:\\\\)*)\$(?=$|\)|\|)", rb"\1\\r?$", body)


def _escaped(text: bytes) -> bytes:
    return b"".join(b"\\x%02x" % byte for byte in text)
