"""Text from logs, configs and file names, made safe to show: what is not printable becomes visible."""

from __future__ import annotations

import re

# C0 and C1 controls, DEL, line and paragraph separators, and the marks that reorder or hide text on a terminal.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\x1b": "\\e", "\x00": "\\0"}


def _show(match: re.Match[str]) -> str:
    char = match.group(0)
    if char in _SHORT:
        return _SHORT[char]
    code = ord(char)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def visible(text: str, limit: int = 0) -> str:
    """Control characters as escapes (``\\e``, ``\\x07``); cut in the middle to `limit` characters if given."""
    if limit and len(text) > limit:
        tail = limit // 3
        text = f"{text[: limit - tail - 3]}...{text[-tail:]}"
    return _UNSAFE.sub(_show, text)


def decode(raw: bytes) -> str:
    """Bytes of unknown encoding as text: UTF-8, else GB18030 when that reads without error, else with marks."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        try:
            return raw.decode("gb18030")
        except UnicodeDecodeError:
            return raw.decode("utf-8", "backslashreplace")
