"""Which language the user reads: --lang, else the locale. Chinese locales are zh, all others en."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Optional

LANGUAGES = ("en", "zh")


def language(asked: Optional[str] = None, environ: Optional[Mapping[str, str]] = None) -> str:
    """`asked` wins, then DOCTOR_LANG, LC_ALL, LC_MESSAGES, LANG in the order POSIX gives them."""
    if asked in LANGUAGES:
        return str(asked)
    env = os.environ if environ is None else environ
    for name in ("DOCTOR_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        value = env.get(name)
        if value:
            return "zh" if value.lower().startswith("zh") else "en"
    return "en"


class Help(str):
    """The help of an option in both languages. argparse wants a str, so it is one, the English; `zh` is the other."""

    zh: str

    def __new__(cls, en: str, zh: str) -> Help:
        made = super().__new__(cls, en)
        made.zh = zh
        return made

    def pick(self, lang: str) -> str:
        return self.zh if lang == "zh" else str(self)
