"""For a terminal or a font without box characters: what is drawn becomes plain characters, text stays as it is."""

from __future__ import annotations

import os
from collections.abc import Mapping

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_DRAWN = {
    **dict.fromkeys("─━═╌╍┄┅┈┉▁▂▔▀▄╸╺", "-"),
    **dict.fromkeys("│┃║╎┆┊▏▎▍▌▋▊▉▐▕", "|"),
    **dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╯╰┏┓┗┛┣┫┳┻╋╔╗╚╝", "+"),
    **dict.fromkeys("█▇▆▅■▪●◉•", "#"),
    **dict.fromkeys("▲△", "^"),
    **dict.fromkeys("▼▽", "v"),
    **dict.fromkeys("▶▸►", ">"),
    **dict.fromkeys("◀◂◄", "<"),
    **dict.fromkeys("○◌◦", "o"),
    "…": ".",
}
_TABLE = {ord(sign): plain for sign, plain in _DRAWN.items()}


class Plain(LineFilter):
    """Puts plain characters in place of drawn ones; every one is one cell wide, so that nothing moves."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment if segment.text.isascii() else Segment(_plain(segment.text), segment.style, segment.control)
            for segment in segments
        ]


def _plain(text: str) -> str:
    # braille, blocks and box parts that have no sign of their own
    return "".join(
        "*" if "\u2500" <= char <= "\u259f" or "\u2800" <= char <= "\u28ff" else char for char in text.translate(_TABLE)
    )


def draws(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the terminal may be sent box characters: not in the C and POSIX locales, nor where DOCTOR_ASCII is set.
    Python itself turns those locales into UTF-8, so that only the variables tell."""
    if environ.get("DOCTOR_ASCII"):
        return False
    if environ.get("LC_ALL"):
        return _utf8(environ["LC_ALL"])
    if environ.get("LANG") in ("C", "POSIX"):
        return False
    return _utf8(environ.get("LC_CTYPE") or environ.get("LANG") or "utf-8")


def _utf8(locale: str) -> bool:
    return "utf" in locale.lower()
