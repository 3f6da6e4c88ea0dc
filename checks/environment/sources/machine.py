"""The machine under examination, as far as files go: bounded, tolerant reads below one root folder.

Everything here answers None instead of raising: an unreadable file is a fact like any other. The root
is ``/`` in life; tests give a folder that looks like one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Optional

from doctor.escape import decode

#: No version file is longer; of a longer one only the head is read.
HEAD_BYTES = 64 * 1024


def text_of(raw: bytes) -> str:
    """Bytes of a small file as text: byte-order marks first, then UTF-16 by its zero bytes, then UTF-8 or GB18030."""
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return raw.decode("utf-16", "replace")
    if raw[:3] == b"\xef\xbb\xbf":
        return raw[3:].decode("utf-8", "replace")
    if len(raw) >= 4 and raw[1:64:2].count(0) * 2 > len(raw[1:64:2]):
        return raw.decode("utf-16-le", "replace")
    return decode(raw)


@dataclass(frozen=True)
class Machine:
    """A root folder, an environment and a working folder."""

    environ: Mapping[str, str]
    cwd: str
    root: str = "/"
    #: folders whose file system does not answer: whoever touches them waits for ever
    dead: tuple[str, ...] = ()

    @classmethod
    def this(cls) -> Machine:
        try:
            cwd = os.getcwd()
        except OSError:  # the working folder was removed under us
            cwd = "/"
        return cls(environ=dict(os.environ), cwd=cwd)

    def real(self, path: str) -> str:
        """Where `path` of the machine lies for this process; nowhere when its file system is dead."""
        if any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in self.dead):
            return "/dev/null/dead"
        return path if self.root == "/" else self.root.rstrip("/") + "/" + path.lstrip("/")

    def home(self) -> Optional[str]:
        """$HOME, else what the password file says, else None."""
        home = self.environ.get("HOME")
        if home:
            return home
        try:
            import pwd

            return pwd.getpwuid(os.getuid()).pw_dir
        except (ImportError, KeyError):
            return None

    def read(self, path: str, limit: int = HEAD_BYTES) -> Optional[str]:
        """Text of a regular file, at most `limit` bytes of it; None when it is not there or not readable."""
        raw = self.read_bytes(path, limit)
        return None if raw is None else text_of(raw)

    def read_bytes(self, path: str, limit: int = HEAD_BYTES) -> Optional[bytes]:
        try:
            handle = os.open(self.real(path), os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0))
        except (OSError, ValueError):
            return None
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return None
            pieces, left = [], limit
            while left > 0:
                piece = os.read(handle, left)
                if not piece:
                    break
                pieces.append(piece)
                left -= len(piece)
            return b"".join(pieces)
        except OSError:
            return None
        finally:
            os.close(handle)

    def pairs(self, path: str) -> Optional[dict[str, str]]:
        """A ``KEY=value`` file as a dict (first value wins, comments skipped); None when it cannot be read."""
        text = self.read(path)
        return None if text is None else pairs_of(text)

    def exists(self, path: str) -> bool:
        try:
            os.stat(self.real(path))
        except (OSError, ValueError):
            return False
        return True

    def is_folder(self, path: str) -> bool:
        try:
            return stat.S_ISDIR(os.stat(self.real(path)).st_mode)
        except (OSError, ValueError):
            return False

    def may_enter(self, path: str) -> bool:
        """Whether this user may list a folder and open what is in it."""
        try:
            return os.access(self.real(path), os.R_OK | os.X_OK)
        except (OSError, ValueError):
            return False

    def names(self, path: str) -> list[str]:
        """Sorted names in a folder; empty when there is none."""
        try:
            return sorted(os.listdir(self.real(path)))
        except (OSError, ValueError):
            return []

    def resolve(self, path: str) -> str:
        """`path` with all links followed, as a path of the machine."""
        try:
            real = os.path.realpath(self.real(path))
        except (OSError, ValueError):
            return path
        if self.root == "/":
            return real
        base = os.path.realpath(self.root)
        return "/" + real[len(base) :].lstrip("/") if (real + "/").startswith(base + "/") else real


def pairs_of(text: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and not key.lstrip().startswith("#"):
            values.setdefault(key.strip(), value.strip())
    return values
