"""The mark of a bundle of `doctor bundle`: a manifest beside the files of a run that was packed, names covered and lines
left out. It says which part of each log stands in the file, so that lines and offsets keep their meaning."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Optional

MANIFEST = "doctor-bundle.json"
SCHEMA = "doctor.bundle/1"
#: how far above a file its manifest may stand, and how large one may be
_HIGHEST, _LARGEST = 8, 64 << 20


class Piece(NamedTuple):
    """Lines of a log that are in its file from byte `begin` on; in the log they began at line `line` and byte `offset`."""

    line: int
    offset: int
    begin: int
    size: int


def manifest_of(path: Path) -> Optional[tuple[Path, dict[str, Any]]]:
    """The folder of the bundle that a file or folder belongs to, and its manifest; None for anything else. A manifest of
    another user, in a folder that all may write to, says nothing of it."""
    path = Path(os.path.abspath(path))
    own = _state(path)
    here = path if path.is_dir() else path.parent
    for _ in range(_HIGHEST):
        state = _state(here / MANIFEST)
        found = _manifest(str(here), state)
        if found is not None and own is not None and state is not None and state[2] == own[2]:
            return here, found
        if here == here.parent:
            return None
        here = here.parent
    return None


def pieces_of(path: Path) -> Optional[tuple[Piece, ...]]:
    """Which parts of a log its file holds; None when that is all of it."""
    known = manifest_of(path)
    if known is None:
        return None
    folder, manifest = known
    rows = manifest.get("files")
    name = Path(os.path.abspath(path)).relative_to(folder).as_posix()
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict) and row.get("path") == name:
            return _pieces(row.get("pieces"))
    return None


def _pieces(rows: Any) -> Optional[tuple[Piece, ...]]:
    """Pieces as a manifest has them; None where it has none, or none that can be."""
    if not isinstance(rows, list):
        return None
    pieces = []
    for row in rows:
        whole = isinstance(row, list) and len(row) == 4 and all(isinstance(item, int) and item >= 0 for item in row)
        if not whole:
            return None
        pieces.append(Piece(*row))
    return tuple(pieces)


def _state(path: Path) -> Optional[tuple[int, int, int]]:
    """Time of change, size and owner; None when it is not there."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return (status.st_mtime_ns, status.st_size, status.st_uid)


@lru_cache(maxsize=64)
def _manifest(folder: str, state: Optional[tuple[int, int, int]]) -> Optional[dict[str, Any]]:
    if state is None or state[1] > _LARGEST:
        return None
    try:
        row = json.loads(Path(folder, MANIFEST).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) and row.get("schema") == SCHEMA else None
