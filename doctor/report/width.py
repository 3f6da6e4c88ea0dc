"""Text on a terminal of fixed-width cells: Chinese takes two a character. Wrapping that knows it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

#: punctuation that must not start a line
_NO_START = "，。；：！？、）】》”’,.;:!?)]}"


def cell_width(text: str) -> int:
    """Cells that `text` takes; combining marks take none."""
    if text.isascii():
        return len(text)
    return sum(_width(char) for char in text)


def _width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def wrap(text: str, width: int, first: str = "", rest: str = "") -> Iterator[str]:
    """Lines of at most `width` cells, `first` before the first and `rest` before the others. Breaks at blanks
    and between Chinese characters; a word that is longer than a line (a path, a command) is left whole."""
    line, used, room = first, cell_width(first), False
    for word in _units(text):
        size = cell_width(word)
        if word == " ":
            room = True
            continue
        gap = 1 if room and line.strip(" ") and line != rest else 0
        if used + gap + size > width and line not in (first, rest) and word[0] not in _NO_START:
            yield line.rstrip(" ")
            line, used, gap = rest, cell_width(rest), 0
        line += " " * gap + word
        used += gap + size
        room = False
    yield line.rstrip(" ")


def _units(text: str) -> Iterator[str]:
    """Words with the closing marks that follow them: such a mark may neither begin a line nor stand beyond its end."""
    unit = ""
    for word in _words(text):
        if unit and unit != " " and word[0] in _NO_START:
            unit += word
            continue
        if unit:
            yield unit
        unit = word
    if unit:
        yield unit


def _words(text: str) -> Iterator[str]:
    word = ""
    for char in text:
        if char in " \n":
            if word:
                yield word
                word = ""
            yield " "
        elif ord(char) > 0x2E7F and _width(char) == 2:
            if word:
                yield word
                word = ""
            yield char
        else:
            word += char
    if word:
        yield word
