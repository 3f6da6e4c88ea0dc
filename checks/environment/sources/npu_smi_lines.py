"""Puts the lines of a pasted ``npu-smi info`` table in order before they are read.

What a paste goes through: colours, other kinds of bars, entities of a web page, line breaks written as ``\\n`` in a
log or JSON, rows that a narrow terminal wrapped, rows that it cut off, and bars that were lost altogether.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Optional

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_BARS = str.maketrans(
    {
        "│": "|",
        "┃": "|",
        "｜": "|",
        "║": "|",
        "┼": "+",
        "─": "-",
        "═": "=",
        "\u200b": None,
        "\ufeff": None,
        "\xa0": " ",
        "\t": " ",
        "\u3000": " ",
    }
)
_ENTITIES = (("&nbsp;", " "), ("&#160;", " "), ("&#124;", "|"), ("&#x7c;", "|"), ("&vert;", "|"))
_BORDER = re.compile(r"[-=+]{4,}")
_BORDER_END = re.compile(r"\+[-=+]{8,}$")
BUS = r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F]"
_VALUE = r"(?:\d+(?:\.\d*)?|NA|N/A|-)"
#: rows whose bars were lost on the way (rendered HTML, a chat)
_BARE_NAME = re.compile(
    rf"\s*(-?\d+)\s+((?=\S*\d)[\w.-]+|x+)\s+([A-Za-z]{{2,14}})\s+({_VALUE}\s+{_VALUE}(?:\s.*)?)", re.I
)
_BARE_CHIP = re.compile(rf"\s*(\d+(?:\s+\d+)?)?\s+({BUS}|NA|-)\s+({_VALUE}\s+(?:NA|-|\d+\s*/).*)", re.I)


@dataclass(frozen=True)
class Line:
    """`is_cut`: the end of the row was lost, so that its last figure may be only a part of one."""

    text: str
    is_cut: bool = False


def table_lines(text: str) -> list[Line]:
    """The lines without colours and trailing blanks, wrapped rows put together again."""
    text = _ANSI.sub("", text)
    if "&" in text:
        for entity, char in _ENTITIES:
            text = text.replace(entity, char)
    if "\\n" in text and re.search(r"\\n(?:\s*[|+]|\")", text):
        # a line of JSON each, as containers log, or all of them in one string
        text = re.sub(r"\\n\"[^\n|]*$", "", text, flags=re.M)
        text = text.replace("\\r", "").replace("\\n", "\n").replace("\\t", " ")
        text = re.sub(r"\\u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), text)
    raw = text.translate(_BARS).replace("\\|", "|").splitlines()
    ends_in_break = text[-1:] in {"\n", "\r", ""}
    rows = list(_unwrapped(raw))
    width = _cut_width(rows)
    bars_end_rows = any(row.rstrip().endswith("|") for row in rows)
    found = []
    for number, row in enumerate(rows):
        line = row.rstrip()
        is_last = number == len(rows) - 1 and not ends_in_break
        has_no_end = bars_end_rows and "|" in line
        is_cut = has_no_end or is_last or (width is not None and len(line) >= width)
        found.append(Line(line, is_cut and not (bars_end_rows and line.endswith("|"))))
    return found


def _unwrapped(raw: Sequence[str]) -> Iterator[str]:
    shape = _wrap_shape(raw)
    at = 0
    while at < len(raw):
        line = raw[at].rstrip("\r")
        at += 1
        if not line.lstrip().startswith(("|", "+")):
            yield line
            continue
        if shape is not None:
            width, pieces = shape
            for _ in range(min(pieces - 1, len(raw) - at)):
                line = line.ljust(width) + raw[at].rstrip("\r")
                width += shape[0]
                at += 1
        if line.count("|") >= 2 and not line.rstrip().endswith("|") and at < len(raw):
            rest = raw[at].rstrip()
            if rest.strip() == "|" or (rest.endswith("|") and rest.lstrip()[:1] not in {"|", "+"}):
                line += rest
                at += 1
        yield line


def _wrap_shape(raw: Sequence[str]) -> Optional[tuple[int, int]]:
    """(width of the terminal, lines a row takes), told by a border that goes on in the next line; None when none does."""
    for at, line in enumerate(raw):
        if not line.startswith("+") or not _BORDER.fullmatch(line.rstrip()):
            continue
        pieces = [line.rstrip()]
        for more in raw[at + 1 : at + 12]:
            piece = more.rstrip()
            goes_on = not piece.startswith("+") or (pieces[-1][-1] != "+" and len(piece) < len(pieces[0]))
            if not goes_on or not re.fullmatch(r"[-=+]+", piece) or len(piece) > len(pieces[0]):
                break
            pieces.append(piece)
        if len(pieces) > 1:
            return len(pieces[0]), len(pieces)
        return None
    return None


def _cut_width(rows: Sequence[str]) -> Optional[int]:
    """Where a terminal or a tool cut the right of every line off: the width of borders that end without a corner."""
    borders = [row.rstrip() for row in rows if _BORDER_END.search(row.rstrip())]
    if len(borders) < 2 or any(border.endswith("+") for border in borders):
        return None
    return len(borders[0]) if len({len(border) for border in borders}) == 1 else None


def with_bars(line: str) -> str:
    """A device row that lost its bars, with three of them put back; any other line as it is."""
    match = _BARE_NAME.fullmatch(line)
    if match is not None:
        return f"{match.group(1)} {match.group(2)} | {match.group(3)} | {match.group(4)}"
    match = _BARE_CHIP.fullmatch(line)
    return f"{match.group(1) or ''} | {match.group(2)} | {match.group(3)}" if match is not None else line
