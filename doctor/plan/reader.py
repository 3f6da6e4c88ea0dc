"""Reads YAML (and JSON, which is YAML) into `Value`s that know their place.

PyYAML composes the node graph, its C parser when there is one; values are resolved as YAML 1.1 does, as
MindFormers' `yaml.safe_load` does. What the text does wrong without being unreadable (duplicate keys,
anchors that contain themselves, tags that a safe loader refuses) is kept as `Problem`s beside the tree.

Bounds: 8 MiB of text, 100 levels, 200,000 values after aliases are expanded. Nothing is expanded to count.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Optional

import yaml

from doctor.errors import UsageError
from doctor.escape import visible
from doctor.finding import Location, Text
from doctor.plan.syntax import slip
from doctor.plan.value import Value, nothing

MAX_BYTES = 8 << 20
MAX_DEPTH = 100
MAX_VALUES = 200_000

_CONFLICT = re.compile(r"^(<{7}|={7}|>{7}|\|{7})(?:[ \t].*)?\r?$", re.MULTILINE)
_MARKS_AT_BOTH_ENDS = re.compile(r"^<{7}[ \t].*$[\s\S]*^>{7}[ \t].*$", re.MULTILINE)
_TAB_INDENT = re.compile(r"^ *\t[ \t]*\S", re.MULTILINE)
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


@dataclass(frozen=True)
class Problem:
    """Something wrong with the text itself. `kind`: conflict, tab, syntax, duplicate, recursion, tag, key, encoding; of
    syntax, `text` is the kind of slip (`doctor.plan.syntax`) and `first` the place where the parser gave up."""

    kind: str
    location: Location
    text: str = ""
    #: the earlier of two places
    first: Optional[Location] = None


@dataclass(frozen=True)
class Document:
    """A file as a tree of values; `root` is an empty mapping when a problem kept the file from being read."""

    path: Path
    root: Value
    problems: tuple[Problem, ...] = ()
    text: str = ""
    #: mapping levels, as MindFormers counts them
    depth: int = 0

    @property
    def readable(self) -> bool:
        return not any(problem.kind in {"conflict", "tab", "syntax", "recursion"} for problem in self.problems)


def read_document(path: Path, *, forgiving: bool = False) -> Document:
    """Reads `path`. Raises UsageError, with the line, when it is not text, not YAML or not a mapping. `forgiving` keeps
    text that no parser takes as a Problem of the document, for those who report it."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise UsageError(
                Text(
                    f"{path}: {size / 2**20:.0f} MB is no training config (limit 8 MB).",
                    f"{path}：{size / 2**20:.0f} MB，不是训练配置（上限 8 MB）。",
                )
            )
        raw = path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(Text(f"{path}: cannot be read: {reason}.", f"{path}：无法读取：{reason}。")) from error
    return parse(raw, path, forgiving=forgiving)


def parse(raw: bytes, path: Path, *, forgiving: bool = False) -> Document:
    """As `read_document`, on bytes that are already there."""
    source = str(path)
    text, encoding = _decode(raw, source)
    places = _Places(source, text, encoding, raw.startswith(b"\xef\xbb\xbf"))
    problems: list[Problem] = []
    if encoding != "utf-8":
        problems.append(Problem("encoding", places.at(_first_wide(text)), encoding))
    conflicts = list(_CONFLICT.finditer(text)) if _MARKS_AT_BOTH_ENDS.search(text) else []
    if conflicts:
        problems.extend(Problem("conflict", places.at(hit.start()), hit.group(0).strip()) for hit in conflicts)
        return Document(path, nothing(source), tuple(problems), text)
    json_text = path.suffix.lower() == ".json"
    try:
        node = yaml.compose(text, Loader=_loader())
    except yaml.MarkedYAMLError as error:
        tab = _tab_before(text, error)
        if tab is not None:
            problems.append(Problem("tab", places.at(tab)))
            return Document(path, nothing(source), tuple(problems), text)
        if not forgiving:
            raise _not_yaml(path, error) from error
        broken = _not_json(text, places) if json_text else None
        problems.append(broken or _syntax(text, places, error))
        return Document(path, nothing(source), tuple(problems), text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        reason = visible(str(error).replace("\n", " "), 120) or type(error).__name__
        raise UsageError(Text(f"{path}: not YAML: {reason}.", f"{path}：不是 YAML：{reason}。")) from error
    if node is None:
        raise UsageError(Text(f"{path}: the file is empty.", f"{path}：文件是空的。"))
    if not isinstance(node, yaml.MappingNode):
        line = node.start_mark.line + 1
        raise UsageError(
            Text(
                f"{path}:{line}: not a mapping of settings (`key: value` lines).",
                f"{path}:{line}：不是“键: 值”形式的配置。",
            )
        )
    if json_text and forgiving:
        # YAML takes a comma before the last brace and bare words, JSON does not.
        broken = _not_json(text, places)
        if broken is not None:
            return Document(path, nothing(source), (*problems, broken), text)
    _bound(node, path)
    walker = _Walker(places, problems, json=json_text)
    root = walker.value(node, Location(source, 1, 1, 0), "")
    return Document(path, root, tuple(problems), text, walker.mapping_depth(node))


def _decode(raw: bytes, source: str) -> tuple[str, str]:
    if not raw.strip():
        raise UsageError(Text(f"{source}: the file is empty.", f"{source}：文件是空的。"))
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")) and ":" in raw.decode("utf-16", "replace"):
        raise UsageError(
            Text(
                f"{source}: UTF-16 text; MindFormers reads UTF-8.",
                f"{source}：文件是 UTF-16，MindFormers 按 UTF-8 读取。",
            ),
            Text(
                f"Convert it: iconv -f UTF-16 -t UTF-8 {source} > fixed.yaml",
                f"请转换编码：iconv -f UTF-16 -t UTF-8 {source} > fixed.yaml",
            ),
        )
    for encoding in ("utf-8", "gb18030"):
        try:
            text = raw.decode("utf-8-sig" if encoding == "utf-8" else encoding)
        except UnicodeDecodeError:
            continue
        hit = _CONTROL.search(text)
        if hit is None:
            return text, encoding
        break
    raise UsageError(
        Text(f"{source}: binary data, not a text file.", f"{source}：是二进制数据，不是文本文件。"),
        Text("Give the YAML file itself.", "请给出 YAML 文件本身。"),
    )


def _first_wide(text: str) -> int:
    hit = re.search(r"[^\x00-\x7f]", text)
    return hit.start() if hit else 0


def _tab_before(text: str, error: yaml.MarkedYAMLError) -> Optional[int]:
    """The first line at or before the parser's complaint that is indented with a tab."""
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return None
    for hit in _TAB_INDENT.finditer(text):
        if text.count("\n", 0, hit.start()) > mark.line:
            return None
        if text[: hit.end()].rpartition("\n")[2].strip()[:1] != "#":
            return hit.start()
    return None


def _syntax(text: str, places: _Places, error: yaml.MarkedYAMLError) -> Problem:
    """Where the text stopped being YAML, and where the parser noticed."""
    found = slip(text, error)
    mark = error.problem_mark or error.context_mark
    start = _line_start(text, found.line)
    noticed = places.at(min(_line_start(text, mark.line), len(text))) if mark and mark.line != found.line else None
    return Problem("syntax", places.at(start), found.kind, noticed)


def _line_start(text: str, line: int) -> int:
    start = 0
    for _ in range(line):
        start = text.find("\n", start) + 1
    blank = len(text[start:]) - len(text[start:].lstrip(" "))
    return start + blank


def _not_json(text: str, places: _Places) -> Optional[Problem]:
    """Where a .json file is no JSON: a comma too many stands before the bracket at which the parser stops."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        before = text[: error.pos].rstrip()
        comma = before.endswith(",") and text[error.pos : error.pos + 1] in {"}", "]"}
        missing = "delimiter" in error.msg and before
        index = len(before) - 1 if comma or missing else error.pos
        kind = "json-comma" if comma else "json-no-comma" if missing else "json"
        return Problem("syntax", places.at(index), kind, places.at(error.pos) if index != error.pos else None)
    except (RecursionError, ValueError):
        return Problem("syntax", places.at(0), "json")
    return None


def _not_yaml(path: Path, error: yaml.MarkedYAMLError) -> UsageError:
    mark = error.problem_mark or error.context_mark
    if "end of stream" in (error.problem or "") and error.context_mark is not None:
        # What was never closed is named where it was opened, not at the end of the file.
        mark = error.context_mark
    place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
    reason = visible(error.problem or error.context or "", 100)
    return UsageError(
        Text(f"{place}: not YAML: {reason}.", f"{place}：不是合法的 YAML：{reason}。"),
        Text(
            "Look at that line and the one above it: indentation, a missing colon, an open quote or bracket.",
            "请检查该行及其上一行：缩进、缺少冒号、未闭合的引号或括号。",
        ),
    )


@cache
def _loader() -> Any:
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def _constructor() -> Any:
    return yaml.constructor.SafeConstructor()


class _Places:
    """Turns the parser's character positions into lines, columns and byte offsets of one file."""

    def __init__(self, source: str, text: str, encoding: str, marked: bool) -> None:
        self.source = source
        self._text = text
        self._bom = 3 if marked else 0
        self._wide: list[int] = []
        self._extra: list[int] = []
        if not text.isascii():
            extra = 0
            for hit in re.finditer(r"[^\x00-\x7f]", text):
                extra += len(hit.group(0).encode(encoding)) - 1
                self._wide.append(hit.start())
                self._extra.append(extra)

    def offset(self, index: int) -> int:
        rank = bisect.bisect_left(self._wide, index)
        return index + self._bom + (self._extra[rank - 1] if rank else 0)

    def at(self, index: int, key: Optional[str] = None) -> Location:
        line = self._text.count("\n", 0, index)
        column = index - (self._text.rfind("\n", 0, index) + 1)
        return Location(self.source, line + 1, column + 1, self.offset(index), key)

    def of(self, mark: yaml.Mark, key: str) -> Location:
        return Location(self.source, mark.line + 1, mark.column + 1, self.offset(mark.index), key)


def _bound(root: yaml.Node, path: Path) -> None:
    """Depth and expanded size of the graph, without expanding it. Raises UsageError."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()
    stack: list[tuple[yaml.Node, int, bool]] = [(root, 0, False)]
    while stack:
        node, depth, done = stack.pop()
        identity = id(node)
        if done:
            open_nodes.discard(identity)
            sizes[identity] = 1 + sum(sizes.get(id(child), 0) for child in _children(node))
            if sizes[identity] > MAX_VALUES:
                raise _too_much(node, path, f"{MAX_VALUES}")
            continue
        if identity in sizes or identity in open_nodes:
            continue
        if depth > MAX_DEPTH:
            raise _too_deep(node, path)
        children = _children(node)
        if not children:
            sizes[identity] = 1
            continue
        open_nodes.add(identity)
        stack.append((node, depth, True))
        stack.extend((child, depth + 1, False) for child in children)


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [value for _, value in node.value]
    return node.value if isinstance(node, yaml.SequenceNode) else []


def _too_much(node: yaml.Node, path: Path, limit: str) -> UsageError:
    line = node.start_mark.line + 1
    return UsageError(
        Text(
            f"{path}:{line}: aliases expand to more than {limit} values: a YAML bomb, not a training config.",
            f"{path}:{line}：别名展开后超过 {limit} 个值：是 YAML 炸弹，不是训练配置。",
        )
    )


def _too_deep(node: yaml.Node, path: Path) -> UsageError:
    line = node.start_mark.line + 1
    return UsageError(
        Text(
            f"{path}:{line}: more than {MAX_DEPTH} levels deep: not a training config.",
            f"{path}:{line}：嵌套超过 {MAX_DEPTH} 层：不是训练配置。",
        )
    )


_PLAIN_TAGS = {
    "tag:yaml.org,2002:int": "construct_yaml_int",
    "tag:yaml.org,2002:float": "construct_yaml_float",
    "tag:yaml.org,2002:bool": "construct_yaml_bool",
}
_TEXT_TAGS = {
    "tag:yaml.org,2002:str",
    "tag:yaml.org,2002:timestamp",
    "tag:yaml.org,2002:value",
    "tag:yaml.org,2002:merge",
    "tag:yaml.org,2002:binary",
}
_COLLECTION_TAGS = {
    "tag:yaml.org,2002:map",
    "tag:yaml.org,2002:seq",
    "tag:yaml.org,2002:set",
    "tag:yaml.org,2002:omap",
    "tag:yaml.org,2002:pairs",
}
_MERGE = "tag:yaml.org,2002:merge"
_JSON_NUMBER = re.compile(r"-?\d+(\.\d+)?[eE][+-]?\d+")


class _Walker:
    """Builds values from nodes. A node that is reached twice is an alias: it gets the place of its use and remembers the
    anchor; what a collection holds is shared and stays where it is written."""

    def __init__(self, places: _Places, problems: list[Problem], json: bool = False) -> None:
        self._places = places
        self._problems = problems
        self._json = json
        self._done: dict[int, Value] = {}
        self._open: set[int] = set()

    def value(self, node: yaml.Node, named: Optional[Location], key: str) -> Value:
        identity = id(node)
        known = self._done.get(identity)
        if known is not None:
            if named is None:
                return known
            return replace(known, location=replace(named, key=key), named=named, origin=known.location)
        if identity in self._open:
            place = named or self._places.of(node.start_mark, key)
            self._problems.append(Problem("recursion", place, key))
            return Value(None, place, named=named)
        if isinstance(node, yaml.ScalarNode):
            made = self._scalar(node, named, key)
        else:
            self._open.add(identity)
            location = self._collection_place(node, named, key)
            if node.tag not in _COLLECTION_TAGS:
                self._problems.append(Problem("tag", location, node.tag))
            if isinstance(node, yaml.MappingNode):
                made = Value(self._mapping(node, key, location), location, named=named)
            else:
                items = tuple(self.value(item, None, f"{key}[{i}]") for i, item in enumerate(node.value))
                made = Value(items, location, named=named)
            self._open.discard(identity)
        self._done[identity] = made
        return made

    def _collection_place(self, node: yaml.Node, named: Optional[Location], key: str) -> Location:
        # A block collection starts at its first child; people look for it at its name.
        if named is not None and not getattr(node, "flow_style", False):
            return named
        return self._places.of(node.start_mark, key)

    def _scalar(self, node: yaml.ScalarNode, named: Optional[Location], key: str) -> Value:
        location = self._places.of(node.start_mark, key)
        value: Any = node.value
        tag = node.tag
        method = _PLAIN_TAGS.get(tag)
        if method is not None:
            construct: Callable[[yaml.Node], Any] = getattr(_constructor(), method)
            try:
                value = construct(node)
            except (ValueError, KeyError, OverflowError, yaml.YAMLError):
                value = node.value
        elif tag == "tag:yaml.org,2002:null":
            value = None
            if not node.value and named is not None:
                location = replace(named, key=key)
        elif self._json and not node.style and _JSON_NUMBER.fullmatch(node.value):
            # JSON needs no dot in 1e-06, YAML 1.1 does.
            value = float(node.value)
        elif tag not in _TEXT_TAGS:
            self._problems.append(Problem("tag", location, tag))
        return Value(value, location, raw=node.value, quoted=bool(node.style), named=named)

    def _mapping(self, node: yaml.MappingNode, path: str, place: Location) -> dict[str, Value]:
        own: dict[str, Value] = {}
        merged: dict[str, Value] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE and isinstance(key_node, yaml.ScalarNode):
                for name, item in self._merge(value_node, path).items():
                    merged.setdefault(name, item)
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                where = self._places.of(key_node.start_mark, path)
                self._problems.append(Problem("key", where, "a list or mapping"))
                continue
            name = key_node.value
            key = f"{path}.{name}" if path else name
            named = self._places.of(key_node.start_mark, key)
            item = self.value(value_node, named, key)
            if name in own:
                earlier = own[name].named or own[name].location
                self._problems.append(Problem("duplicate", named, name, earlier))
            own[name] = item
        return {**merged, **own} if merged else own

    def _merge(self, node: yaml.Node, path: str) -> dict[str, Value]:
        """What `<<:` brings in: of several mappings the first wins, as YAML says."""
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        found: dict[str, Value] = {}
        for source in sources:
            inner = self.value(source, None, path)
            if not inner.is_mapping:
                self._problems.append(Problem("key", self._places.of(source.start_mark, path), "<<"))
            for name, item in inner.mapping.items():
                found.setdefault(name, item)
        return found

    def mapping_depth(self, root: yaml.Node) -> int:
        """Levels of mappings directly inside mappings: MindFormers 1.5 and later refuse more than ten."""
        deepest, stack, seen = 0, [(root, 0)], set()
        while stack:
            node, depth = stack.pop()
            deepest = max(deepest, depth)
            if isinstance(node, yaml.MappingNode) and (id(node), depth) not in seen:
                seen.add((id(node), depth))
                if depth <= MAX_DEPTH:
                    stack.extend((value, depth + 1) for _, value in node.value)
        return deepest
