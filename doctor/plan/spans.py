"""Where every setting of a YAML text begins and ends, so that one can be changed without touching the rest.

Read from the parser's events, which know the places of aliases too. Spans count characters of the text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional

import yaml


@dataclass
class Entry:
    """One value of the text. `kind` is scalar, alias, mapping or sequence; `leaf_end` is where the last text below it
    ends (a block collection itself ends only where the next token starts)."""

    path: str
    kind: str
    start: int
    end: int
    flow: bool = False
    style: Optional[str] = None
    key_start: Optional[int] = None
    key_end: Optional[int] = None
    #: column of the first key of a block mapping, counted from 0
    column: int = 0
    leaf_end: int = 0
    parent: Optional[Entry] = None
    children: list[Entry] = field(default_factory=list)


class _Builder:
    """Folds the events of one document into entries, without recursion."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.root: Optional[Entry] = None
        self._stack: list[Entry] = []
        #: per open mapping: the key that waits for its value
        self._keys: list[Optional[tuple[str, int, int, int]]] = []

    def feed(self, event: Any) -> None:
        start: Any = event.start_mark
        end: Any = event.end_mark
        if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            kind = "mapping" if isinstance(event, yaml.MappingStartEvent) else "sequence"
            entry = self._place(kind, start.index, end.index, bool(event.flow_style), None)
            self._stack.append(entry)
            self._keys.append(None)
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            entry = self._stack.pop()
            self._keys.pop()
            if entry.flow:
                entry.leaf_end = end.index
            entry.end = entry.leaf_end
            self._grow(entry.leaf_end)
        elif isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.AliasEvent):
            self._place("alias", start.index, end.index, False, None)

    def _scalar(self, event: Any) -> None:
        top = self._stack[-1] if self._stack else None
        if top is not None and top.kind == "mapping" and self._keys[-1] is None:
            mark: Any = event.start_mark
            end: Any = event.end_mark
            if not top.children and not top.flow:
                top.column = mark.column
            self._keys[-1] = (event.value, mark.index, end.index, mark.column)
            self._grow(end.index)
            return
        self._place("scalar", event.start_mark.index, event.end_mark.index, False, event.style)

    def _place(self, kind: str, start: int, end: int, flow: bool, style: Optional[str]) -> Entry:
        top = self._stack[-1] if self._stack else None
        entry = Entry("", kind, start, end, flow, style, leaf_end=end if kind in ("scalar", "alias") or flow else start)
        if top is None:
            self.root = entry
        else:
            entry.parent = top
            if top.kind == "sequence":
                entry.path = f"{top.path}[{len(top.children)}]"
            else:
                name, key_start, key_end, _ = self._keys[-1] or ("", start, start, 0)
                entry.path = f"{top.path}.{name}" if top.path else name
                entry.key_start, entry.key_end = key_start, key_end
                self._keys[-1] = None
            top.children.append(entry)
        self.entries[entry.path] = entry
        if kind in ("scalar", "alias"):
            self._grow(end)
        return entry

    def _grow(self, end: int) -> None:
        if self._stack:
            self._stack[-1].leaf_end = max(self._stack[-1].leaf_end, end)


def index(text: str) -> dict[str, Entry]:
    """Entries by key path; the root has the empty path. Raises yaml.YAMLError when the text is no YAML."""
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    builder = _Builder()
    for event in yaml.parse(text, Loader=loader):
        builder.feed(event)
    return builder.entries
