"""doctor.toml: what a project sets once for all calls.

::

    [doctor]
    lang = "zh"                 # en or zh
    fail-on = "warning"         # error, warning or never
    ignore = ["CFG-OPT-004"]    # rule ids, prefixes or names
    rules = ["ops/rules"]       # folders of the project's own log rules

The file is ours alone, so the keys may also stand without the table. Whatever else is in it is refused: a setting that is
ignored in silence would be taken for one that works.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from doctor.errors import UsageError
from doctor.finding import Text

DEFAULT_FILE = "doctor.toml"
_CHOICES = {
    "lang": ("en", "zh"),
    "fail-on": ("error", "warning", "never"),
    "format": ("text", "json", "sarif", "github", "jsonl"),
}
_LISTS = ("only", "ignore", "rules")


@dataclass(frozen=True)
class Settings:
    lang: Optional[str] = None
    fail_on: Optional[str] = None
    format: Optional[str] = None
    only: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    rules: tuple[Path, ...] = field(default=())


def load_settings(path: Optional[str]) -> Settings:
    """Reads `path`, or ``doctor.toml`` here if there is one. Raises UsageError naming the key that is wrong."""
    file = Path(path) if path else Path(DEFAULT_FILE)
    if not path and not file.is_file():
        return Settings()
    bare = _read(file)
    table = bare.pop("doctor", {})
    if not isinstance(table, dict):
        raise _wrong(file, "doctor", "a table")
    values: dict[str, Any] = {}
    for key, value in {**bare, **table}.items():
        if key in _CHOICES:
            if value not in _CHOICES[key]:
                raise _wrong(file, key, " | ".join(_CHOICES[key]))
            values[key.replace("-", "_")] = value
        elif key in _LISTS:
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                raise _wrong(file, key, "a list of strings")
            values[key] = tuple(file.parent / item for item in value) if key == "rules" else tuple(value)
        else:
            known = ", ".join(sorted((*_CHOICES, *_LISTS)))
            raise _wrong(file, key, f"one of the known keys: {known}")
    return Settings(**values)


def _read(file: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        table: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
        return table
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(Text(f"{file}: {why}.", f"{file}：{why}。")) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(Text(f"{file}: not TOML: {error}.", f"{file}：不是合法的 TOML：{error}。")) from None


def _wrong(file: Path, key: str, expected: str) -> UsageError:
    return UsageError(Text(f"{file}: [doctor] {key} must be {expected}.", f"{file}：[doctor] {key} 应为 {expected}。"))
