"""Keeps what was read from rule files, so that a short command need not parse YAML.

A cache file holds a checksum and is named by what it was made from. One that is stale, damaged or of another
version is made anew without a word; where nothing can be written, nothing is, and all still works.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Optional

from doctor import __version__
from doctor.match.rows import FORM, to_row, to_rule
from doctor.match.textrule import TextRule


def cache_folder() -> Path:
    """The program's folder for files that can be made again."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path("~/.cache").expanduser()) / "mindspore-doctor"


def read_cached(name: str) -> Optional[bytes]:
    """Content of a cache file whose checksum holds, else None."""
    try:
        raw = (cache_folder() / name).read_bytes()
    except (OSError, RuntimeError, ValueError):
        return None
    return raw[4:] if raw[:4] == _sum(raw[4:]) else None


def write_cached(name: str, content: bytes) -> None:
    """Writes a cache file whole or not at all; a place that cannot be written is no error."""
    import tempfile

    with contextlib.suppress(OSError, RuntimeError, ValueError):
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=name, suffix=".new")
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(_sum(content) + content)
            Path(temporary).replace(folder / name)
        except OSError:
            Path(temporary).unlink(missing_ok=True)


def _sum(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(4, "big")


def cached_rules(folders: Sequence[Path], read: Callable[[], list[TextRule]]) -> tuple[list[TextRule], str]:
    """The rules of `folders`, from the cache or by `read`, and a key that names their content."""
    places = "\0".join(str(folder.absolute()) for folder in folders)
    name = f"rules-{_sum(places.encode('utf-8', 'surrogateescape')).hex()}.json"
    state = _state(folders)
    content = read_cached(name)
    if content is not None:
        with contextlib.suppress(ValueError, KeyError, TypeError, IndexError, AttributeError):
            data = json.loads(content)
            if data["state"] == state:
                return [to_rule(row) for row in data["rules"]], state
    rules = read()
    row = {"state": state, "rules": [to_row(rule) for rule in rules]}
    write_cached(name, json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))
    return rules, state


def cached_table(name: str, paths: Sequence[Path], read: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A table of plain data made from files by `read`, from the cache when the files have not changed."""
    state = _state(paths)
    content = read_cached(f"table-{name}.json")
    if content is not None:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            data: dict[str, Any] = json.loads(content)
            if data["state"] == state:
                table: dict[str, Any] = data["table"]
                return table
    made = read()
    row = {"state": state, "table": made}
    write_cached(f"table-{name}.json", json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode("utf-8"))
    return made


def _state(folders: Iterable[Path]) -> str:
    """Changes when a file under the folders does: names, sizes and times, which cost far less than their bytes."""
    lines = [f"{__version__} {FORM}"]
    for folder in folders:
        for path, status in sorted(_files(str(folder))):
            lines.append(f"{path} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}")
    text = "\n".join(lines).encode("utf-8", "surrogateescape")
    # two sums and the length: a change that keeps all three would have to be made on purpose
    return f"{zlib.crc32(text):08x}{zlib.adler32(text):08x}{len(text):x}"


def _files(folder: str) -> Iterable[tuple[str, os.stat_result]]:
    try:
        entries = list(os.scandir(folder))
    except NotADirectoryError:
        yield folder, os.stat(folder)
        return
    except OSError:
        return
    for entry in entries:
        if entry.is_dir():
            if not entry.name.startswith((".", "__")):
                yield from _files(entry.path)
        elif entry.name.endswith(".yaml"):
            yield entry.path, entry.stat()
