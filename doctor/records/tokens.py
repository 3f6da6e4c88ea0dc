"""A line as names and values, whatever wrote it: the generic reader, right rather than fast.

``epoch: 1 step: 5, loss is 2.5`` and ``| lm loss: 2.5E+00 | grad norm: 0.24 |`` are read by the same rules: a name is a
run of words before a separator, a value the number (or nan, True, None) behind it, a unit the letters behind
that. `doctor.records.keys` says what a name means, `doctor.records.reading` what the names of a line amount to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, Optional

from doctor.records.keys import Role, role

NUMBER = r"(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)"
_NUMBER = rf"[-+]?{NUMBER}"
_NOT_FINITE = r"[-+]?(?i:nan|inf|infinity)\b"
_WORD = r"[A-Za-z_一-鿿](?:[\w.]*\w)?"

_PAIR = re.compile(
    rf"""
    (?:
      # words, perhaps with a unit in brackets: `elapsed time per iteration (ms)`, `Iter(train)`, `'loss'`
      (?<![A-Za-z_第])(?!第|(?:step|iter|epoch)\d)
      (?P<key>(?:\w+_loss:(?=loss\b))?{_WORD}(?:[ /]{_WORD}){{0,5}}?(?:\s?\([A-Za-z/\s]{{1,14}}\))?)
      (?:
        # `key: value`, `key = [value`, `key is value`, `key || value`
        ["']?\s*(?:[:=]|\|{{1,2}}|(?<=\s)(?:is|为|是)(?=\s))(?P<strong>\s*["'\[(]*\s*(?:(?:tensor|array|np\.float\d+)\()?)
        (?P<value>{_NUMBER}|{_NOT_FINITE}(?!\s+or\b)|(?:True|False|None|null|true|false|N/A|unavailable)\b)
      |
        # `key[value`, `key value`, `key-value`
        (?P<weak>\s*[\[(]\s*["']?\s*|\s+|-(?=\d))
        (?P<wvalue>{_NUMBER}|{_NOT_FINITE}(?!\s+(?:iter|step|or\b)))
      )
      # `1epoch 1iter` has its names behind; but `2.5epoch: 3` is the end of one line and the beginning of another
      (?!(?:epoch|iter|step)\b(?!\s*[:=\[]))
    |
      # attached: `step374`
      (?<![A-Za-z_])(?P<akey>step|iter|epoch)(?P<avalue>\d+)\b(?!\.)
    |
      # the number first: `1epoch 1iter`, `第 120 步`
      (?<![\w.])(?P<nvalue>\d+)(?:(?P<nkey>epoch|iter|step)\b|\s?(?P<zkey>步|轮|epoch(?='s)))
    )
    # `3/ 19`, `[2.1/2.3`, `0 of 62475`
    (?:["']?\s*(?:/|\bof\b)\s*(?P<total>{_NUMBER}|{_NOT_FINITE}))?
    # `ms`, ` imgs/sec`, `T`, `GiB`, `s/it`: only looked at, since the next name looks the same
    (?=["'\])]*\s?(?P<unit>[A-Za-z]+(?:/[A-Za-z]+){{0,3}}))?
    """,
    re.VERBOSE,
)
# What stands behind a number and makes it something else: the rest of a date, a time or a version; and in brackets
# more numbers
_DATE = re.compile(r"[-:]\d|\.\d+\.")
_MORE = re.compile(r"\s+[-+\d.]")
_THOUSANDS = re.compile(r"(?:,\d{3})+(?!\d)")

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_TENSOR = re.compile(r"Tensor\(shape=\[[^\]]*\],\s*dtype=\w+,\s*value=\s*([^)]*?)\s*\)")
# `Epoch [1][50/7330]`, `epoch 001:  100 / 1000`: what follows an epoch without a name counts its steps
_STEP_BEHIND = re.compile(r"\]?\s*[\[:]\s*(?P<value>\d+)\s*/\s*(?P<total>\d+)(?![\d/:-])")
# `Train: [1/300][100/1251]`
_BOTH = re.compile(r"\[\s*(?P<epoch>\d+)/(?P<epochs>\d+)\]\s*\[\s*(?P<value>\d+)/(?P<total>\d+)\]")
# `loss at step 100: 2.5`
_LOSS_BEHIND = re.compile(rf"\s*(?:[:=]|\bis\b)\s*(?P<value>{_NUMBER}|{_NOT_FINITE})")
_WIDE = str.maketrans("：，（）［］＝／｜", ":,()[]=/|")


class Span(NamedTuple):
    """A number in a line: from `start` to `end`, counted in characters of the cleaned line."""

    start: int
    end: int
    text: str


class Pair(NamedTuple):
    """One name that means something, its number or word, the second number of `3/19`, and the letters behind."""

    key: str
    role: Role
    value: Span
    total: Optional[Span]
    unit: str

    @property
    def end(self) -> int:
        return self.total.end if self.total else self.value.end


def clean(line: str) -> str:
    """The line without colours, with ASCII punctuation and plain numbers for tensors."""
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    if "\x00" in line:
        line = line.replace("\x00", "")
    if not line.isascii():
        line = line.translate(_WIDE)
    if "Tensor(" in line:
        line = _TENSOR.sub(r"\1", line)
    return line


def pairs(line: str) -> Iterator[Pair]:
    """The names that mean something, with their values, in order. `line` comes from `clean`."""
    both = _BOTH.search(line)
    if both:
        yield Pair("epoch", Role("epoch", 2), _span(both, "epoch"), _span(both, "epochs"), "")
        yield Pair("step", Role("step", 2), _span(both, "value"), _span(both, "total"), "")
    for match in _PAIR.finditer(line):
        key = match["key"] or match["akey"] or match["nkey"] or match["zkey"]
        meaning = role(key)
        if meaning is None:
            continue
        kind = next(name for name in ("value", "wvalue", "avalue", "nvalue") if match[name] is not None)
        value = _span(match, kind)
        total = _span(match, "total") if match["total"] is not None else None
        if total is None and _DATE.match(line, value.end):
            continue
        pair = Pair(key, meaning, value, total, match["unit"] or "")
        if "[" in (match["strong"] or match["weak"] or "") and _MORE.match(line, pair.end):
            # `global_norm: [1 508834]`: a number that was broken in two; neither half is the value
            continue
        if meaning.field == "throughput":
            pair = pair._replace(value=_with_thousands(line, value))
        yield pair
        yield from _behind(line, pair)


def _behind(line: str, pair: Pair) -> Iterator[Pair]:
    """A number without a name of its own, that belongs to the one before it."""
    if pair.role.field == "epoch" and pair.total is None:
        step = _STEP_BEHIND.match(line, pair.end)
        if step:
            yield Pair("step", Role("step", 1), _span(step, "value"), _span(step, "total"), "")
    elif pair.role.field == "step" and " at " in pair.key:
        name = pair.key[: pair.key.rindex(" at ")]
        meaning, loss = role(name), _LOSS_BEHIND.match(line, pair.end)
        if loss and meaning and meaning.field == "loss":
            yield Pair(name, meaning, _span(loss, "value"), None, "")


def _span(match: re.Match[str], name: str) -> Span:
    return Span(*match.span(name), match[name])


def _with_thousands(line: str, value: Span) -> Span:
    """`2,345` tokens a second are 2345; elsewhere a comma separates."""
    more = _THOUSANDS.match(line, value.end)
    return Span(value.start, more.end(), value.text + more.group().replace(",", "")) if more else value


def number(text: str) -> Optional[float]:
    """A number, nan or inf; None for None, N/A, unavailable and all else. ``9.`` and ``5.e-05`` are numbers."""
    try:
        return float(text)
    except ValueError:
        return None


def integer(text: Optional[str]) -> Optional[int]:
    """A whole number that fits a counter, else None."""
    value = number(text) if text else None
    return int(value) if value is not None and abs(value) < 2**53 else None
