"""Sizes as sums of products of symbols, such as ``Q+2*K`` or ``E*H``: evaluated, and solved for one symbol.

Symbols used by all families: V vocabulary, H hidden, F feed-forward, Q query rows (heads x head size), K key
rows (KV heads x head size), D head size, P positions, E experts, M expert feed-forward, S shared-expert
feed-forward.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Optional

#: A sum: each term is a factor and the symbols that multiply it.
Terms = tuple[tuple[int, tuple[str, ...]], ...]


@lru_cache(maxsize=1024)
def parse(text: str) -> Terms:
    """``2*E*H+K`` as ((2, (E, H)), (1, (K,))). Raises ValueError on anything else."""
    terms = []
    for part in text.split("+"):
        factor, symbols = 1, []
        for word in part.split("*"):
            if word.isdigit():
                factor *= int(word)
            elif word.isidentifier():
                symbols.append(word)
            else:
                raise ValueError(f"{text!r} is no size")
        terms.append((factor, tuple(symbols)))
    return tuple(terms)


def evaluate(text: str, sizes: Mapping[str, int]) -> Optional[int]:
    """The number, or None while a symbol is unknown."""
    total = 0
    for factor, symbols in parse(text):
        for symbol in symbols:
            value = sizes.get(symbol)
            if value is None:
                return None
            factor *= value
        total += factor
    return total


def solve(text: str, value: int, sizes: Mapping[str, int]) -> Optional[tuple[str, int]]:
    """The one unknown symbol and its size when `text` equals `value`; None when there is no single whole answer."""
    unknown = {symbol for _, symbols in parse(text) for symbol in symbols if symbol not in sizes}
    if len(unknown) != 1:
        return None
    (wanted,) = unknown
    rest, slope = value, 0
    for factor, symbols in parse(text):
        if symbols.count(wanted) > 1:
            return None
        for symbol in symbols:
            if symbol != wanted:
                factor *= sizes[symbol]
        if wanted in symbols:
            slope += factor
        else:
            rest -= factor
    if slope <= 0 or rest < 0 or rest % slope:
        return None
    return wanted, rest // slope


def added(*texts: str) -> str:
    """The sum of sizes; equal ones are counted, so that three H read 3*H."""
    counted: dict[str, int] = {}
    for text in texts:
        counted[text] = counted.get(text, 0) + 1
    return "+".join(f"{times}*{text}" if times > 1 and "+" not in text else "+".join([text] * times)
                    for text, times in counted.items())  # fmt: skip
