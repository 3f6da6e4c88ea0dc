"""Names that MindFormers knows in each release, and the nearest of them to a word (data: rules/tables)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Optional


def version_key(version: str) -> tuple[int, ...]:
    """1.10.0 after 1.9.0; what follows the numbers (rc1, beta2, .post1) is left out."""
    parts: list[int] = []
    for part in version.split("."):
        digits = ""
        for char in part:
            if not char.isdigit():
                break
            digits += char
        if not digits:
            break
        parts.append(int(digits))
        if digits != part:
            break
    return tuple((*parts, 0, 0, 0)[:3]) if parts else ()


@cache
def read_table(name: str) -> Any:
    """A JSON table of the package."""
    return json.loads((files("doctor.rules") / "tables" / f"{name}.json").read_text("utf-8"))


@cache
def releases() -> tuple[str, ...]:
    """The releases whose names are known, oldest first."""
    return tuple(read_table("mindformers-names")["releases"])


@dataclass(frozen=True)
class Name:
    """A registered name. `releases` are those that have it; empty when it comes from elsewhere (`origin`)."""

    text: str
    releases: frozenset[str]
    #: mindformers, mindspore (registered at import in every release), research (a folder of the repository)
    origin: str

    def spans(self) -> str:
        """The releases in words, as 0.3.0-1.3.2."""
        known = releases()
        have = [version for version in known if version in self.releases]
        return f"{have[0]}-{have[-1]}" if len(have) > 1 else "".join(have)


@cache
def registered(kind: str) -> dict[str, Name]:
    """Every name of a kind (optimizer, lr, callback, wrapper, trainer, dataset, dataset_loader, config, models,
    model_type, metric, tokenizer, processor)."""
    table = read_table("mindformers-names")
    known = releases()
    every = frozenset(known)
    found = {
        name: Name(name, expand_spans(spans, known), "mindformers")
        for name, spans in table["registered"].get(kind, {}).items()
    }
    for name in (*table["mindspore"].get(kind, ()), *table["aliases"].get(kind, ())):
        found.setdefault(name, Name(name, every, "mindspore"))
    for name in table["research"].get(kind, ()):
        found.setdefault(name, Name(name, frozenset(), "research"))
    return found


@cache
def arguments(kind: str, name: str) -> Optional[tuple[frozenset[str], bool]]:
    """What the constructor of a registered name takes, and whether it takes more than that; None if unknown."""
    text = read_table("mindformers-names")["arguments"].get(kind, {}).get(name)
    if text is None:
        return None
    return frozenset(text.lstrip("*").split()), text.startswith("*")


def expand_spans(spans: str, known: tuple[str, ...]) -> frozenset[str]:
    """The releases of `1.0.0-1.3.2,2.0.0`."""
    have: set[str] = set()
    for span in spans.split(","):
        first, _, last = span.partition("-")
        start = known.index(first)
        have.update(known[start : known.index(last or first) + 1])
    return frozenset(have)


def nearest(word: str, known: Iterable[str], cutoff: float = 0.75) -> Optional[str]:
    """The known word that a person most likely meant, or None."""
    from difflib import get_close_matches

    lowered = {name.lower(): name for name in sorted(known, reverse=True)}
    close = get_close_matches(word.lower(), lowered, n=1, cutoff=cutoff)
    return lowered[close[0]] if close else None
