"""What the program was started on."""

from __future__ import annotations

import errno
import os
import sys
import termios


def has_screen() -> bool:
    """Whether there is a screen to draw on: a terminal whose cursor can be moved, or a browser (textual-serve says so by
    the driver that it asks for)."""
    if os.environ.get("TEXTUAL_DRIVER"):
        return True
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def is_gone(fd: int) -> bool:
    """Whether `fd` is a terminal that was closed: whatever is written to it fails."""
    try:
        termios.tcgetattr(fd)
    except termios.error as error:
        return bool(error.args[0] == errno.EIO)
    return False


def leave_if_gone() -> None:
    """Output to a terminal that was closed goes nowhere from now on, rather than failing."""
    for fd in (1, 2):
        if is_gone(fd):
            to_nowhere(fd)


def to_nowhere(fd: int) -> None:
    """What is written to `fd` is dropped from now on. Raises OSError when there is no such descriptor."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, fd)
    os.close(nowhere)
