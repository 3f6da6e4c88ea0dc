"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Optional


def write_whole(path: Path, raw: bytes, mode: Optional[int] = None) -> None:
    """Puts `raw` in the place of the file by a rename, once it is on the disk; `mode` are its permissions (None: only its
    owner's). Raises OSError, and leaves what was there."""
    import tempfile  # here: nothing is written where most commands begin

    handle, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(beside, mode)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise
