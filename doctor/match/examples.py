"""Tries the examples of a rule file on the rule: what it must match and what it must leave alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from doctor.match.pack import Pack
from doctor.match.scan import Hit, Scanner
from doctor.match.textrule import Example, RuleFile
from doctor.records.record import Chunk


def hits_in(pack: Pack, text: str, finder: Optional[str] = None) -> list[Hit]:
    """All hits in a text, as bytes of UTF-8 and one chunk."""
    scanner = Scanner(pack, finder=finder)
    found = scanner.scan(Chunk("-", text.encode("utf-8"), 0, 1))
    return sorted([*found, *scanner.finish()], key=lambda hit: (hit.line, hit.rule))


def failures(item: RuleFile) -> Iterator[str]:
    """What the examples of one file say against its rule, alone on the text; nothing when all hold."""
    if item.rule.match is None:
        return
    pack = Pack([item.rule])
    for number, example in enumerate(item.must_match):
        key = f"examples.match[{number}]"
        hits = hits_in(pack, example.text)
        if not hits:
            yield f"{key} is not matched"
        else:
            yield from (f"{key} {what}" for what in _wrong(example, hits))
    for number, example in enumerate(item.must_not_match):
        hits = hits_in(pack, example.text)
        if hits:
            yield f"examples.no_match[{number}] is matched at line {hits[0].line}: {hits[0].text[:80]!r}"


def _wrong(example: Example, hits: list[Hit]) -> Iterator[str]:
    chosen = hits[0]
    if example.line:
        at = [hit for hit in hits if hit.line == example.line]
        if not at:
            yield f"is matched at line {', '.join(str(hit.line) for hit in hits)}, not at line {example.line}"
            return
        chosen = at[0]
    for name, value in example.values:
        got = chosen.groups.get(name)
        if got != value:
            yield f"gives {name} = {got!r}, not {value!r}"
