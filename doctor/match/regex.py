"""The regular expressions that rules may use: what `re`, RE2, Rust's regex and Hyperscan read alike, in bounded time.

Three questions are answered here, all by walking the parse tree that `re` itself makes:
is the expression inside the common subset (`problems`), can it take more than low polynomial time
(also `problems`), and which literal texts must stand in every line that it matches (`required`).
The last one is what makes scanning fast: a line without the literal is never looked at.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Optional

from doctor.match.ordinary import is_ordinary

if sys.version_info >= (3, 11):
    from re import _compiler as compiler
    from re import _constants as op
    from re import _parser as parser
else:  # the same modules under their old names
    import sre_compile as compiler
    import sre_constants as op
    import sre_parse as parser

#: a literal of fewer bytes than this is in too many lines to be of use
SHORTEST = 3
#: more literals than this make one pattern too dear; the pattern is then refused
MOST_LITERALS = 64
_LONGEST_BOUND = 400
_MOST_LOOSE = 5

_FORBIDDEN = {
    "ASSERT": "look-ahead and look-behind",
    "ASSERT_NOT": "look-ahead and look-behind",
    "GROUPREF": "a back reference",
    "GROUPREF_EXISTS": "a conditional group",
    "ATOMIC_GROUP": "an atomic group",
    "POSSESSIVE_REPEAT": "a possessive quantifier",
}


def split_case(source: str) -> tuple[str, bool]:
    """The expression without a leading ``(?i)``, and whether it stood there."""
    return (source[4:], True) if source.startswith("(?i)") else (source, False)


def compile_bytes(source: str) -> re.Pattern[bytes]:
    """Compiles for matching on the bytes of one line. ``^`` and ``$`` are the ends of the line."""
    body, nocase = split_case(source)
    return re.compile(body.encode("utf-8"), re.IGNORECASE if nocase else 0)


def compile_tree(tree: Any, nocase: bool) -> re.Pattern[bytes]:
    """Compiles a tree of `parse`."""
    compiled: re.Pattern[bytes] = compiler.compile(tree, re.IGNORECASE if nocase else 0)
    return compiled


def one_of(members: frozenset[int]) -> Any:
    """The item of a tree that takes one of these bytes."""
    return (op.IN, [(op.LITERAL, byte) for byte in sorted(members)])


def optional(tree: Any, item: Any) -> Any:
    """The item of `tree` that takes what `item` takes, or nothing."""
    return (op.MAX_REPEAT, (0, 1, parser.SubPattern(tree.state, [item])))


def unbounded(high: Any) -> bool:
    """Whether a repetition up to `high` times has no end."""
    return high is op.MAXREPEAT


def parse(source: str) -> Any:
    """The parse tree of the bytes expression. Raises re.error."""
    body, _ = split_case(source)
    text: Any = body.encode("utf-8")
    return parser.parse(text)


def group_names(source: str) -> frozenset[str]:
    """Names of the groups of a valid expression."""
    return frozenset(compile_bytes(source).groupindex)


def problems(source: str, searched: bool = True) -> Iterator[str]:
    """What is wrong with the expression, in plain English; nothing when it may be used. One that is only tried on
    lines found by another (`searched` False) needs no literal."""
    try:
        tree = parse(source)
        compile_bytes(source)
    except (re.error, RecursionError, OverflowError) as error:
        yield f"is not a regular expression: {error}"
        return
    body, _ = split_case(source)
    if re.search(r"\(\?[aiLmsux-]+[:)]", body):
        yield "has inline flags: only a leading (?i) is allowed"
    if re.search(r"(?<!\\)(?:\\\\)*\\[AZzGpPXRKQE]", body):
        yield r"has an escape that engines read differently (\A \Z \p …)"
    if re.search(r"\\ ", body):
        yield r"has an escaped blank (\ ): write a plain blank"
    found = list(dict.fromkeys(_tree_problems(tree)))
    yield from found
    if searched and not found:
        literals = required(source)
        if not literals:
            yield f"has no literal of {SHORTEST} or more characters that every match must contain"
        elif len(literals) > MOST_LITERALS:
            yield f"needs {len(literals)} literals; at most {MOST_LITERALS}"
        else:
            common = [text for text in literals if is_ordinary(text.encode("utf-8"))]
            if common:
                yield (
                    f"can be found only by {common[0]!r}, which stands in ordinary lines of healthy runs: "
                    "let every alternative contain rarer words"
                )


def _tree_problems(tree: Any) -> Iterator[str]:
    loose = 0
    for name, value in _walk(tree):
        if name in _FORBIDDEN:
            yield f"uses {_FORBIDDEN[name]}, which RE2 and Hyperscan do not have"
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            _, high, body = value
            unbounded = high is op.MAXREPEAT
            if not unbounded and int(high) > _LONGEST_BOUND:
                yield f"repeats up to {int(high)} times; at most {_LONGEST_BOUND} or without bound"
            if unbounded and not _is_single(body):
                if not _fenced(body):
                    yield "has a repetition inside a repetition: it can take exponential time"
                elif _min_width(body) == 0:
                    yield "repeats something that can be empty"
            if unbounded and _is_wide(body):
                loose += 1
    if loose > _MOST_LOOSE:
        yield f"has {loose} wide repetitions such as .*; at most {_MOST_LOOSE} stay fast on a long line"
    if _adjacent_loops(tree):
        yield "has neighbouring repetitions that match the same characters: it can take quadratic time and more"


def _walk(tree: Any) -> Iterator[tuple[str, Any]]:
    for code, value in tree:
        name = str(code)
        yield name, value
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            yield from _walk(value[2])
        elif name == "SUBPATTERN":
            yield from _walk(value[3])
        elif name == "BRANCH":
            for branch in value[1]:
                yield from _walk(branch)
        elif name in ("ASSERT", "ASSERT_NOT"):
            yield from _walk(value[1])
        elif name == "ATOMIC_GROUP":
            yield from _walk(value)


def _is_single(body: Any) -> bool:
    """One character wide: the usual case ``x*``, ``[^)]+``, ``.*``."""
    return len(body) == 1 and str(body[0][0]) in ("LITERAL", "NOT_LITERAL", "IN", "ANY")


def _fenced(body: Any) -> bool:
    """A repeated group holds no loop, or starts or ends with a character that none of its loops can match, as in
    ``(?:\\.\\d+)*``: then a text can be cut into repetitions in one way only."""
    inner: frozenset[int] = frozenset()
    for name, value in _walk(body):
        if name in ("MAX_REPEAT", "MIN_REPEAT") and value[1] is op.MAXREPEAT:
            if not _is_single(value[2]):
                return False
            inner |= bytes_of(value[2][0])
    items = list(_flat(body))
    return not inner or any(
        str(item[0]) in ("LITERAL", "IN") and not (bytes_of(item) & inner) for item in (items[0], items[-1])
    )


def _min_width(tree: Any) -> int:
    return int(tree.getwidth()[0])


def _is_wide(body: Any) -> bool:
    """Matches most characters: ``.``, ``[^x]``, ``\\S``, ``\\D``, ``\\W``."""
    return _is_single(body) and len(bytes_of(body[0])) > 128


_CATEGORIES = {
    "CATEGORY_DIGIT": frozenset(b"0123456789"),
    "CATEGORY_SPACE": frozenset(b" \t\n\r\f\v"),
    "CATEGORY_WORD": frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"),
}
_ALL = frozenset(range(256))


def bytes_of(item: Any) -> frozenset[int]:
    """The bytes that a one-byte item can match."""
    code, value = item
    name = str(code)
    if name == "LITERAL":
        return frozenset((int(value),))
    if name == "NOT_LITERAL":
        return _ALL - {int(value)}
    if name == "ANY":
        return _ALL - {10}
    if name == "CATEGORY":
        category = str(value)
        if category.startswith("CATEGORY_NOT_"):
            return _ALL - _CATEGORIES["CATEGORY_" + category[len("CATEGORY_NOT_") :]]
        return _CATEGORIES[category]
    if name == "RANGE":
        return frozenset(range(value[0], value[1] + 1))
    if name == "IN":
        members = [part for part in value if str(part[0]) != "NEGATE"]
        found: frozenset[int] = frozenset().union(*(bytes_of(part) for part in members))
        return _ALL - found if len(members) < len(value) else found
    return frozenset()


def _flat(tree: Any) -> Iterator[Any]:
    """The items of a sequence with plain groups opened."""
    for code, value in tree:
        if str(code) == "SUBPATTERN":
            yield from _flat(value[3])
        else:
            yield code, value


def _adjacent_loops(tree: Any) -> bool:
    """Two unbounded loops side by side (nothing, or only what may be empty, between) that share characters."""
    previous: frozenset[int] = frozenset()
    for code, value in _flat(tree):
        name = str(code)
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            low, high, body = value
            if high is op.MAXREPEAT and _is_single(body):
                here = bytes_of(body[0])
                if here & previous:
                    return True
                previous = previous | here if low == 0 else here
                continue
            if low == 0:
                if _adjacent_loops(body):
                    return True
                continue
        if name == "BRANCH" and any(_adjacent_loops(branch) for branch in value[1]):
            return True
        if name != "AT":
            previous = frozenset()
    return False


def required(source: str) -> tuple[str, ...]:
    """Literals of which every matching line contains at least one; the best such set, or () when there is none.

    Texts are as written; for a ``(?i)`` expression they are in lower case and stand for any case.
    """
    nocase = split_case(source)[1]
    best = _required(parse(source))
    texts = []
    for raw in best:
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            text = raw.decode("utf-8", "ignore")
        texts.append(text.lower() if nocase else text)
    if any(len(raw) < SHORTEST for raw in best):
        return ()
    return _shortest(texts)


def _shortest(texts: Iterable[str]) -> tuple[str, ...]:
    """The texts without those that hold another of them, in order."""
    kept: list[str] = []
    for text in sorted(set(texts), key=len):
        if not any(other in text for other in kept):
            kept.append(text)
    return tuple(sorted(kept))


def required_words(source: str) -> tuple[bytes, ...]:
    """As `required`, but chosen by what is left of the literals without their digits, and in lower case; () when that is
    less than `SHORTEST` characters of one of them."""
    best = _required(parse(source), _wordy)
    if not best or _wordy(best)[0] < SHORTEST:
        return ()
    return tuple(sorted({raw.lower() for raw in best}))


#: of the texts that every match holds besides its best literals only so many sets are named
_MOST_NEEDS = 4


def needs(source: str) -> tuple[tuple[str, ...], ...]:
    """Sets of texts beside `required`: of each set every matching line contains one. All in lower case and to be looked for
    in the line in lower case; who finds one missing need not try the expression. Not for lines in other encodings than UTF-8."""
    offered: list[frozenset[bytes]] = []
    best = _required(parse(source), offered=offered)
    found: dict[tuple[str, ...], None] = {}
    for texts in sorted(offered, key=_worth, reverse=True):
        try:
            lower = _shortest(raw.lower().decode("utf-8") for raw in texts)
        except UnicodeDecodeError:  # a part of a character
            continue
        if texts != best and all(len(text) > 1 for text in lower):
            found[lower] = None
    return tuple(found)[:_MOST_NEEDS]


Worth = tuple[int, int, int]


def _wordy(literals: frozenset[bytes]) -> Worth:
    """The better, the more the shortest literal has besides digits."""
    if not literals:
        return (-1, 0, 0)
    return (min(sum(not 48 <= byte < 58 for byte in text) for text in literals), 0, -len(literals))


def _worth(literals: frozenset[bytes]) -> Worth:
    """Better sets first: the weakest member counts, then that none is too short, then the fewer the better."""
    if not literals:
        return (-1, False, 0)

    def strength(text: bytes) -> int:
        return 0 if is_ordinary(text) else min(len(text), 16)

    long = all(len(text) >= SHORTEST for text in literals)
    return (min(strength(text) for text in literals), long, -len(literals))


#: more spellings of one run of text than this are not worked out
_MOST_SPELLINGS = 40


def _required(
    tree: Any,
    worth: Callable[[frozenset[bytes]], Worth] = _worth,
    offered: Optional[list[frozenset[bytes]]] = None,
) -> frozenset[bytes]:
    """Every match of `tree` contains one of these; empty when nothing is certain. All that were `offered` are so."""
    best: frozenset[bytes] = frozenset()
    run = [b""]

    def offer(candidate: frozenset[bytes]) -> None:
        nonlocal best
        if offered is not None and candidate and b"" not in candidate:
            offered.append(candidate)
        if candidate and b"" not in candidate and worth(candidate) > worth(best):
            best = candidate

    for item in tree:
        name, value = str(item[0]), item[1]
        if name == "AT":
            continue
        spellings = _spellings(item)
        if spellings is not None and len(run) * len(spellings) <= _MOST_SPELLINGS:
            run = [head + tail for head in run for tail in spellings]
            continue
        offer(frozenset(run))
        ahead, run = run, [b""]
        if spellings is not None:
            run = list(spellings)
        elif name == "SUBPATTERN":
            offer(_required(value[3], worth, offered))
        elif name == "BRANCH":
            # what stands before all of them, each time with what one begins with: the parser takes that out of them
            offer(_before(ahead, value[1]))
            branches = [_required(branch, worth) for branch in value[1]]
            if all(branches):
                offer(frozenset().union(*branches))
        elif name in ("MAX_REPEAT", "MIN_REPEAT") and value[0] >= 1:
            offer(_required(value[2], worth, offered))
    offer(frozenset(run))
    return best


def _before(heads: list[bytes], branches: Any) -> frozenset[bytes]:
    """The texts in front of some branches, each with all beginnings of each branch; empty when there are many."""
    found = {head + text for branch in branches for text in _beginnings(branch)[0] for head in heads}
    return frozenset(found if len(found) <= _MOST_SPELLINGS else ())


def _beginnings(tree: Any) -> tuple[list[bytes], bool]:
    """Texts with one of which every match of a sequence begins, and whether they are all that it can match."""
    run = [b""]
    for item in tree:
        if str(item[0]) == "AT":
            continue
        texts = _spellings(item)
        if texts is None or len(run) * len(texts) > _MOST_SPELLINGS:
            return run, False
        run = [head + tail for head in run for tail in texts]
    return run, True


def _spellings(item: Any) -> Optional[list[bytes]]:
    """All texts that an item can match when they are few, else None."""
    name, value = str(item[0]), item[1]
    if name == "LITERAL":
        return [bytes((int(value),))]
    if name == "IN":
        members = bytes_of(item)
        return [bytes((byte,)) for byte in sorted(members)] if len(members) <= 4 else None
    if name == "SUBPATTERN":
        return _sequence_spellings(value[3])
    if name == "BRANCH":
        out: list[bytes] = []
        for branch in value[1]:
            texts = _sequence_spellings(branch)
            if texts is None:
                return None
            out.extend(texts)
        return out if len(out) <= _MOST_SPELLINGS else None
    if name in ("MAX_REPEAT", "MIN_REPEAT") and tuple(value[:2]) == (0, 1):
        texts = _sequence_spellings(value[2])
        return None if texts is None else [b"", *texts]
    return None


def _sequence_spellings(tree: Any) -> Optional[list[bytes]]:
    texts, whole = _beginnings(tree)
    return texts if whole else None
