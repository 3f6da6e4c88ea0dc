"""The program's own rules as they were read when the package was built: the first call on a machine parses no YAML.

`write` is called by the build (``hatch_build.py``); the file stands beside the rules it was made from and names their
content. One that does not fit them, because a rule was edited since, is not used.
"""

from __future__ import annotations

import contextlib
import json
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

from doctor.match.rows import FORM, to_row, to_rule
from doctor.match.textrule import TextRule

NAME = "pack.json"


def write(folder: Path) -> Path:
    """Reads every rule and table under `folder` and writes them into one file there. Raises RuleError."""
    from doctor.match.pack import read_files
    from doctor.match.tables import read_tables

    rules = [item.rule for item in read_files(folder)]
    rows = [to_row(replace(rule, path=Path(rule.path).relative_to(folder).as_posix())) for rule in rules]
    content = {"content": _content(folder), "rules": rows, "tables": read_tables(folder)}
    path = folder / NAME
    path.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
    return path


def shipped_rules(folder: Path) -> Optional[list[TextRule]]:
    """The rules of `folder`, or None when no file fits what stands there."""
    rows = _part(folder, "rules")
    with contextlib.suppress(ValueError, KeyError, TypeError, IndexError, AttributeError):
        if rows is not None:
            return [replace(rule, path=str(folder / rule.path)) for rule in map(to_rule, rows)]
    return None


def shipped_tables(folder: Path) -> Optional[dict[str, Any]]:
    """The tables of codes under `folder`, or None when no file fits what stands there."""
    tables = _part(folder, "tables")
    return tables if isinstance(tables, dict) else None


def _part(folder: Path, key: str) -> Any:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        data = json.loads((folder / NAME).read_bytes())
        if data["content"] == _content(folder):
            return data[key]
    return None


def _content(folder: Path) -> str:
    """Changes when any byte of a rule or table does."""
    one, other, length = FORM, 1, 0
    for path in sorted(folder.rglob("*.yaml")):
        raw = path.relative_to(folder).as_posix().encode("utf-8", "surrogateescape") + b"\0" + path.read_bytes()
        one, other, length = zlib.crc32(raw, one), zlib.adler32(raw, other), length + len(raw)
    return f"{one:08x}{other:08x}{length:x}"
