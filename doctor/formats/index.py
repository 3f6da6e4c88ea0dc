"""Reads a shard index (``*.index.json`` or MindSpore's ``param_name_map.json``): which tensor is in which file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Optional

from doctor.finding import Text
from doctor.formats.tensor import Kind, Problem

MAX_INDEX = 64_000_000


@dataclass(frozen=True)
class ShardIndex:
    """`weight_map` names a file of the same folder for each tensor; `total_size` is the sum of bytes it states."""

    path: Path
    weight_map: Mapping[str, str] = field(default_factory=dict)
    total_size: Optional[int] = None
    problems: tuple[Problem, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(sorted(set(self.weight_map.values())))


def read(path: Path) -> ShardIndex:
    """Reads the index; what is wrong stands in its problems, with the line where the JSON breaks."""
    try:
        size = path.stat().st_size
        if size > MAX_INDEX:
            return _broken(path, Kind.HOSTILE, Text("larger than any index", "比任何索引都大"), size)
        raw = path.read_bytes()
    except OSError as error:
        return _broken(path, Kind.UNREADABLE, _same(error.strerror or "cannot be read"), None)
    if not raw.strip():
        return _broken(path, Kind.EMPTY, Text("it is empty", "文件为空"), 0)
    if b"\x00" in raw[:4]:
        return _broken(
            path, Kind.HEADER, Text("it is UTF-16, loaders read UTF-8", "是 UTF-16 编码，加载时按 UTF-8 读取"), None
        )
    try:
        data: Any = json.loads(raw)
    except json.JSONDecodeError as error:
        return _broken(path, Kind.HEADER, _not_json(f"{error.msg} (line {error.lineno})"), None)
    except (ValueError, RecursionError) as error:
        return _broken(path, Kind.HEADER, _not_json(str(error)), None)
    if not isinstance(data, dict):
        return _broken(path, Kind.HEADER, Text("not a JSON object", "不是 JSON 对象"), None)
    table = data.get("weight_map", data if _is_map(data) else None)
    if not isinstance(table, dict):
        return _broken(path, Kind.HEADER, Text("it has no weight_map", "缺少 weight_map"), None)
    problems = []
    weight_map = {}
    for name, target in table.items():
        if not isinstance(target, str) or not _inside(target):
            problems.append(
                Problem(
                    Kind.LAYOUT, path, Text("points outside its folder", "指向目录之外"), tensor=name, observed=target
                )
            )
            continue
        weight_map[name] = target
    metadata = data.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(total, float) and total.is_integer():
        total = int(total)
    return ShardIndex(path, weight_map, total if type(total) is int else None, tuple(problems))


def _is_map(data: Mapping[str, Any]) -> bool:
    return bool(data) and all(isinstance(value, str) for value in data.values())


def _inside(target: str) -> bool:
    pure = PurePosixPath(target)
    return bool(target) and not pure.is_absolute() and ".." not in pure.parts and "\x00" not in target


def _not_json(why: str) -> Text:
    return Text(f"not JSON: {why}", f"不是合法的 JSON：{why}")


def _same(word: str) -> Text:
    return Text(word, word)


def _broken(path: Path, kind: Kind, detail: Text, observed: object) -> ShardIndex:
    return ShardIndex(path, problems=(Problem(kind, path, detail, observed=observed),))
