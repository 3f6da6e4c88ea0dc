"""Where the text of a YAML file went wrong, as a person would say it: a parser complains where it gave up, one line or
ten after the slip.

`slip` looks from the parser's complaint back to the line that does not read as `name: value`, and names what is wrong
with it: missing-blank (`a:1`), missing-colon (`a 1`, `a = 1`), full-width (a colon or quote of a Chinese keyboard),
open-quote, open-bracket, indentation, unknown-alias, conflict, other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

import yaml

#: how far above the complaint an open quote is looked for
_REACH = 400
_MARKER = re.compile(r"(?:<{7}|={7}|>{7}|\|{7})(?:[ \t]|$)")
_FULL_WIDTH = re.compile("[：“”‘’，【】]")
_NO_BLANK = re.compile(r"(?:- )?[A-Za-z_][\w.-]*:[^\s:/\\]")
_NAMED = re.compile(r"(?:- )?(?:\"[^\"]*\"|'[^']*'|[^\s\"'\[\]{},#&*!|>%@`][^\n]*?):(?:\s|$)")
_BARE = re.compile(r"(?:- )?[A-Za-z_][\w.-]*")
_WORDS = re.compile(r"[A-Za-z_][\w.-]*[ \t]*(?:=[ \t]*|[ \t])\S")


@dataclass(frozen=True)
class Slip:
    """A line, counted from 0, and the kind of the slip on it."""

    line: int
    kind: str


def slip(text: str, error: yaml.MarkedYAMLError) -> Slip:
    """The line at fault."""
    lines = text.split("\n")
    mark = error.problem_mark or error.context_mark
    at = min(mark.line, len(lines) - 1) if mark is not None else 0
    problem, context = error.problem or "", error.context or ""
    if "alias" in problem:
        return Slip(at, "unknown-alias")
    above = _content_above(lines, at)
    near = (above, at) if above is not None else (at,)
    for line in near:
        if _MARKER.match(lines[line]):
            return Slip(line, "conflict")
    opened = error.context_mark.line if error.context_mark is not None else at
    if "quoted scalar" in context:
        return Slip(opened, "open-quote")
    for line in near:
        kind = _fault(lines[line])
        if kind is not None:
            return Slip(line, kind)
    if above is not None and _BARE.fullmatch(_without_comment(lines[above]).strip()):
        return Slip(above, "missing-colon")
    quoted = _open_quote(lines, at)
    if quoted is not None:
        return Slip(quoted, "open-quote")
    if "flow" in context:
        return Slip(opened, "open-bracket")
    if "simple key" in context or "end of stream" in problem:
        return Slip(opened, "missing-colon")
    if "block" in context or "mapping values" in problem:
        return Slip(_stepped_out(lines, at), "indentation")
    return Slip(at, "other")


def _stepped_out(lines: Sequence[str], at: int) -> int:
    """The line that left its column, where the parser stopped at `at`: that line itself, or one above it.

    Of a setting that has a value and a deeper line below it one is out of place: the neighbours tell which. Of a
    section whose lines stand in two columns the fewer are out of place."""
    above = _content_above(lines, at)
    if above is None:
        return at
    here, upper = _indent(lines[at]), _indent(lines[above])
    if upper < here:
        before = _content_above(lines, above)
        if before is None:
            return at
        if _opens(lines[above]):
            return at
        opened = _indent(lines[before]) == upper and _opens(lines[before])
        return above if _indent(lines[before]) >= here or opened else at
    if upper == here:
        return at
    first: Optional[int] = above
    last, deeper = above, 0
    while first is not None and _indent(lines[first]) > here:
        deeper += _indent(lines[first]) == upper
        last, first = first, _content_above(lines, first)
    if first is None or not _opens(lines[first]) or _indent(lines[first]) >= here:
        return at
    same = 1
    for line in range(at + 1, len(lines)):
        if lines[line].strip() and not lines[line].lstrip().startswith("#"):
            if _indent(lines[line]) < here:
                break
            same += _indent(lines[line]) == here
    return last if deeper == 1 and same > 1 else at


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _opens(line: str) -> bool:
    """Whether a line names a section and leaves its value to the lines below."""
    word = _without_comment(line).strip()
    return word.endswith(":") or bool(re.search(r":\s+[&!]\S+$", word))


def _content_above(lines: Sequence[str], at: int) -> Optional[int]:
    """The nearest line above that is neither blank nor a comment."""
    for line in range(at - 1, -1, -1):
        word = lines[line].strip()
        if word and not word.startswith("#"):
            return line
    return None


def _fault(line: str) -> Optional[str]:
    """What keeps a line from being `name: value`, `- item` or part of a flow collection; None when nothing does."""
    word = _without_comment(line).strip()
    if not word or word in {"---", "..."} or word[0] in "[]{},\"'":
        return None
    if _FULL_WIDTH.search(word) and not _NAMED.match(word):
        return "full-width"
    if _NAMED.match(word):
        return None
    if _NO_BLANK.match(word):
        return "missing-blank"
    return "missing-colon" if _WORDS.match(word) else None


def _without_comment(line: str) -> str:
    return re.split(r"(?:^|[ \t])#", line, maxsplit=1)[0]


def _open_quote(lines: Sequence[str], at: int) -> Optional[int]:
    """The line at or above the complaint where a value begins with a quote that its line does not close."""
    for line in range(at, max(at - _REACH, -1), -1):
        value = re.match(r"[^#\"']*?[:,\[-][ \t]+([\"'])(.*)$", lines[line])
        if value is not None and value.group(1) not in value.group(2):
            return line
    return None
