"""Changes settings of a YAML file in place: only the text of the setting changes, comments and layout stay.

A change is an `Edit` (path, key, old, new). `new` None takes the key out; a pair of one that takes a key out and one
that puts the same value under another name of the same section renames the key. An edit whose `old` is no
longer what the file holds, or after which the file would not read as meant, is left out.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Optional

import yaml

from doctor.errors import UsageError
from doctor.escape import visible
from doctor.finding import Edit, Text, number_text
from doctor.plan.reader import parse
from doctor.plan.spans import Entry, index
from doctor.plan.value import Value
from doctor.whole import write_whole

_STEP = 2


def propose(path: Path, edits: Sequence[Edit]) -> tuple[str, str]:
    """The text of `path` now and with the edits. Raises UsageError when the file cannot be read."""
    old, _, _ = _read(path)
    return old, edit_text(old, edits)


def edit_text(text: str, edits: Sequence[Edit]) -> str:
    """As `propose`, on text. Edits are applied one after the other; one that does not fit is left out."""
    rest = list(edits)
    while rest:
        edit = rest.pop(0)
        partner = _renamed(edit, rest)
        if partner is not None:
            rest.remove(partner)
        with suppress(yaml.YAMLError, UsageError):
            if _value(text, edit.key) != edit.old:
                continue
            changed = _rename(text, edit, partner) if partner is not None else _apply(text, edit)
            if changed is not None and _holds(changed, text, partner or edit):
                text = changed
    return text


def diff(path: Path, old: str, new: str) -> str:
    """A unified diff for people; control characters are made visible."""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), f"{path}", f"{path} (fixed)", n=2, lineterm="")
    return "".join(visible(line) + "\n" for line in lines)


def apply(path: Path, old: str, new: str) -> None:
    """Writes `new` over `old` at once: temporary file, fsync, rename; mode and encoding stay. Raises UsageError when
    the file is no longer `old` or cannot be written."""
    target = path.resolve()
    now, encoding, mark = _read(target)
    if not target.stat().st_mode & 0o222:
        # A rename would go through all the same: the folder may be writable, and root may write anything.
        raise UsageError(
            Text(f"{path}: write-protected; nothing was written.", f"{path}：文件为只读，未写入。"),
            Text(f"Allow it with: chmod u+w {path}", f"如需修改：chmod u+w {path}"),
        )
    if now != old:
        raise UsageError(
            Text(f"{path}: changed in the meantime; nothing was written.", f"{path}：文件已被修改，未写入。"),
            Text("Run the command again.", "请重新运行命令。"),
        )
    try:
        write_whole(target, mark + new.encode(encoding), target.stat().st_mode & 0o7777)
        _sync(target.parent)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(Text(f"{path}: cannot be written: {reason}.", f"{path}：无法写入：{reason}。")) from error


def _sync(folder: Path) -> None:
    """The rename reaches the disk; file systems that cannot are left alone."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _read(path: Path) -> tuple[str, str, bytes]:
    """Text, encoding and byte-order mark."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(Text(f"{path}: cannot be read: {reason}.", f"{path}：无法读取：{reason}。")) from error
    mark = b"\xef\xbb\xbf" if raw.startswith(b"\xef\xbb\xbf") else b""
    for encoding in ("utf-8", "gb18030"):
        with suppress(UnicodeDecodeError):
            return raw[len(mark) :].decode(encoding), encoding, mark
    raise UsageError(Text(f"{path}: not a text file.", f"{path}：不是文本文件。"))


def _located(text: str, key: str) -> Optional[Value]:
    """The value under a key path. Looked up by the path that values carry, so that names with dots work."""
    root = parse(text.encode("utf-8"), Path("config")).root
    return next((item for item in root.walk() if item.key == key and item.given), None)


def _value(text: str, key: str) -> Any:
    found = _located(text, key)
    if found is not None:
        return found.plain()
    # A scalar alias in a list shares its node with the anchor: read it through its parent.
    entry = index(text).get(key)
    if entry is None or entry.kind != "alias" or entry.parent is None:
        return None
    parent = _value(text, entry.parent.path)
    return parent[entry.parent.children.index(entry)] if isinstance(parent, list) else None


def _holds(changed: str, before: str, edit: Edit) -> bool:
    """Whether the new text reads as meant and nothing else moved out of shape."""
    if _value(changed, edit.key) != edit.new:
        return False
    return (
        set(index(before)) - set(index(changed))
        <= {path for path in index(before) if path == edit.key or path.startswith((f"{edit.key}.", f"{edit.key}["))}
        or edit.old is None
    )


def _renamed(edit: Edit, rest: Iterable[Edit]) -> Optional[Edit]:
    if edit.new is not None or edit.old is None:
        return None
    parent = edit.key.rpartition(".")[0]
    for other in rest:
        same = other.key.rpartition(".")[0] == parent and other.key != edit.key
        if same and other.old is None and other.new == edit.old:
            return other
    return None


def _rename(text: str, edit: Edit, partner: Edit) -> Optional[str]:
    entry = index(text).get(edit.key)
    if entry is None or entry.key_start is None or entry.key_end is None:
        return None
    name = partner.key[len(partner.key.rpartition(".")[0]) :].lstrip(".")
    return text[: entry.key_start] + name + text[entry.key_end :]


def _apply(text: str, edit: Edit) -> Optional[str]:
    entries = index(text)
    entry = entries.get(edit.key)
    if entry is None:
        return _insert(text, entries, edit.key, edit.new) if edit.new is not None else None
    if edit.new is None:
        return _remove(text, entry)
    return _replace(text, entry, edit.new)


def _replace(text: str, entry: Entry, new: Any) -> str:
    flow = isinstance(new, (list, tuple)) or _inside_flow(entry)
    if entry.kind in ("mapping", "sequence") and not entry.flow:
        start = text.index(":", entry.key_end or entry.start) + 1 if entry.key_end is not None else entry.start
        body = _render(text, new, None, flow=not isinstance(new, dict), column=_child_column(entry))
        glue = "" if body.startswith("\n") or entry.key_end is None else " "
        return text[:start] + glue + body + text[entry.leaf_end :]
    body = _render(text, new, entry, flow=flow, column=_child_column(entry))
    start, end = entry.start, entry.end
    if entry.kind == "scalar":
        # An anchor or tag in front of the value stays.
        before = re.match(r"(?:[&!]\S*[ \t]+)+", text[start:end])
        start += before.end() if before else 0
    if entry.style in ("|", ">"):
        body += _newline(text)
    if body.startswith(("\n", "\r")):
        while start > 0 and text[start - 1] == " ":
            start -= 1
    elif start > 0 and text[start - 1] == ":":
        body = " " + body
    return text[:start] + body + text[end:]


def _inside_flow(entry: Entry) -> bool:
    parent = entry.parent
    return parent is not None and (parent.flow or _inside_flow(parent))


def _child_column(entry: Entry) -> int:
    """Where keys below this entry start."""
    parent = entry.parent
    return (parent.column if parent is not None else -_STEP) + _STEP


def _remove(text: str, entry: Entry) -> Optional[str]:
    parent = entry.parent
    if parent is None or entry.key_start is None:
        return None
    siblings = parent.children
    place = siblings.index(entry)
    if parent.flow or _inside_flow(parent):
        if len(siblings) == 1:
            return text[: entry.key_start] + text[entry.end :]
        if place + 1 < len(siblings):
            return text[: entry.key_start] + text[siblings[place + 1].key_start or entry.end :]
        return text[: siblings[place - 1].end] + text[entry.end :]
    line = text.rfind("\n", 0, entry.key_start) + 1
    if text[line : entry.key_start].strip():
        # The first key of a list item: the next one takes its place behind the dash.
        if place + 1 < len(siblings):
            return text[: entry.key_start] + text[siblings[place + 1].key_start or entry.end :]
        return text[: entry.key_start] + "{}" + text[entry.leaf_end :]
    end = text.find("\n", entry.leaf_end)
    end = len(text) if end < 0 else end + 1
    if len(siblings) == 1 and parent.key_end is not None:
        colon = text.index(":", parent.key_end) + 1
        return text[:colon] + " {}" + text[colon:line] + text[end:]
    return text[:line] + text[end:]


def _insert(text: str, entries: dict[str, Entry], key: str, new: Any) -> Optional[str]:
    """Adds a key, with the sections above it that are not there yet."""
    names: list[str] = []
    parent_path = key
    parent: Optional[Entry] = None
    while parent is None:
        parent_path, _, name = parent_path.rpartition(".")
        names.insert(0, name)
        parent = entries.get(parent_path)
        if not parent_path:
            break
    value = new
    for name in reversed(names[1:]):
        value = {name: value}
    parent = entries.get(parent_path)
    if parent is None or "[" in names[0]:
        return None
    if parent.kind == "mapping" and parent.children:
        return _append(text, parent, names[0], value)
    empty = parent.kind == "mapping" or (
        parent.kind == "scalar" and not text[parent.start : parent.end].strip("~ ").replace("null", "")
    )
    if not empty or parent.key_end is None:
        return None
    return _replace(text, parent, {names[0]: value})


def _append(text: str, parent: Entry, name: str, value: Any) -> str:
    if parent.flow or _inside_flow(parent):
        body = f", {name}: {_render(text, value, None, flow=True, column=0)}"
        return text[: parent.children[-1].end] + body + text[parent.children[-1].end :]
    newline = _newline(text)
    last = parent.leaf_end
    end = text.find("\n", last)
    head, tail = (text, "") if end < 0 else (text[:end], text[end:])
    if head.endswith("\r"):
        head, tail = head[:-1], "\r" + tail
    column = parent.column
    body = _render(text, value, None, flow=isinstance(value, (list, tuple)), column=column + _STEP)
    glue = "" if body.startswith(("\n", "\r")) else " "
    return f"{head}{newline}{' ' * column}{name}:{glue}{body}{tail}"


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _render(text: str, value: Any, old: Optional[Entry], *, flow: bool, column: int) -> str:
    """A value as YAML 1.1 reads it back: booleans in the style of the file, floats with a dot."""
    if isinstance(value, bool):
        word = "true" if value else "false"
        return word.capitalize() if _capital(text) else word
    if value is None:
        return "null"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return number_text(value)
    if isinstance(value, str):
        return _quoted(value, text[old.start] if old is not None and old.style in ("'", '"') else "", flow)
    if isinstance(value, dict):
        if flow:
            return (
                "{"
                + ", ".join(f"{key}: {_render(text, item, None, flow=True, column=0)}" for key, item in value.items())
                + "}"
            )
        newline = _newline(text)
        lines = []
        for key, item in value.items():
            inner = _render(text, item, None, flow=isinstance(item, (list, tuple)), column=column + _STEP)
            lines.append(f"{newline}{' ' * column}{key}:{'' if inner.startswith(newline) else ' '}{inner}")
        return "".join(lines)
    return "[" + ", ".join(_render(text, item, None, flow=True, column=0) for item in value) + "]"


def _capital(text: str) -> bool:
    capital = len(re.findall(r":[ \t]+(?:True|False)\b", text))
    return capital > len(re.findall(r":[ \t]+(?:true|false)\b", text))


def _quoted(value: str, quote: str, flow: bool) -> str:
    if quote == '"' or any(ord(char) < 32 for char in value):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        return f'"{escaped}"'
    special = set(",[]{}") if flow else set()
    plain = (
        not quote
        and value
        and not special & set(value)
        and not re.search(r": |:$| #|^[\s&*!|>%@`\"'#?,\[\]{}-]|\s$", value)
        and _reads_as_text(value)
    )
    return value if plain else "'" + value.replace("'", "''") + "'"


def _reads_as_text(value: str) -> bool:
    try:
        return bool(yaml.safe_load(value) == value)
    except yaml.YAMLError:
        return False
