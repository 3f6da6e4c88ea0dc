"""Expressions that do not see which digits stand in a line: one look then serves all lines that differ in their digits
only."""

from __future__ import annotations

import re
from typing import Any

from doctor.match.regex import bytes_of, compile_bytes, compile_tree, one_of, parse, split_case

_DIGITS = frozenset(b"0123456789")


def blind(source: str) -> re.Pattern[bytes]:
    """The expression with every digit in it standing for any digit: what it does not match in a line whose digits are
    all zeros, `source` matches in no line that differs from it in its digits."""
    tree = parse(source)
    if not _widen(tree):
        return compile_bytes(source)
    return compile_tree(tree, split_case(source)[1])


def _widen(tree: Any) -> bool:
    """Makes every item that takes some digits take all of them; whether there was one."""
    changed = False
    for place, item in enumerate(tree):
        name, value = str(item[0]), item[1]
        if name in ("LITERAL", "NOT_LITERAL", "IN"):
            taken = bytes_of(item)
            if taken & _DIGITS and not taken >= _DIGITS:
                tree[place] = one_of(taken | _DIGITS)
                changed = True
        else:
            for part in _parts(name, value):
                changed |= _widen(part)
    return changed


def _parts(name: str, value: Any) -> list[Any]:
    """The sequences that an item is made of."""
    if name in ("MAX_REPEAT", "MIN_REPEAT"):
        return [value[2]]
    if name == "SUBPATTERN":
        return [value[3]]
    return list(value[1]) if name == "BRANCH" else []
