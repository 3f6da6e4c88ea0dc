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
