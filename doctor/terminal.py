"""What the program was started on."""

from __future__ import annotations

import os
import sys


def has_screen() -> bool:
    """Whether there is a screen to draw on: a terminal whose cursor can be moved, or a browser (textual-serve says so by
    the driver that it asks for)."""
    if os.environ.get("TEXTUAL_DRIVER"):
        return True
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
