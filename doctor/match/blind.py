"""Expressions that do not see which digits stand in a line, or not even how many: one look then serves all lines that
differ in their digits only."""

from __future__ import annotations

import re
from typing import Any, Optional

from doctor.match.regex import bytes_of, compile_bytes, compile_tree, one_of, optional, parse, split_case, unbounded

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


def shrunk(source: str) -> Optional[re.Pattern[bytes]]:
    """As `blind`, for lines in which one zero stands for a whole number: each item that takes digits may as well take
    nothing. None for an expression of which that cannot be made without making it slow."""
    tree = parse(source)
    return compile_tree(tree, split_case(source)[1]) if _shrink(tree) else None


def _shrink(tree: Any) -> bool:
    """Makes every item that takes a digit one that need not be there; False when that cannot be done."""
    tree.width = None  # it was worked out before
    for place, item in enumerate(tree):
        name, value = str(item[0]), item[1]
        if name in ("LITERAL", "NOT_LITERAL", "IN", "ANY"):
            if bytes_of(item) & _DIGITS:
                tree[place] = optional(tree, _any_digit(item))
        elif name in ("MAX_REPEAT", "MIN_REPEAT"):
            _, high, body = value
            if len(body) == 1 and str(body[0][0]) in ("LITERAL", "NOT_LITERAL", "IN", "ANY"):
                if bytes_of(body[0]) & _DIGITS:
                    body[0] = _any_digit(body[0])
                    tree[place] = (item[0], (0, high, body))
            elif unbounded(high) or not _shrink(body):  # a loop round what may be nothing takes for ever
                return False
        elif name == "AT":
            if str(value) == "AT_NON_BOUNDARY":  # within a number
                return False
        elif name not in ("SUBPATTERN", "BRANCH") or not all(map(_shrink, _parts(name, value))):
            return False
    return True


def _any_digit(item: Any) -> Any:
    """The item, taking all digits as it takes some."""
    taken = bytes_of(item)
    return item if taken >= _DIGITS else one_of(taken | _DIGITS)
