"""Reads MindSpore's parallel strategy files: how each parameter was cut over the devices of a stage.

    ParallelStrategyMap { current_stage = 1; parallel_layout_item = 3 { param_name = 1; parallel_layouts = 2 {
        dev_matrix = 1; tensor_map = 2; param_split_shape = 3; field = 5; opt_weight_shard_step = 6; opt_weight_shard_size = 7 } } }

A strategy file is called ``ckpt_strategy_rank_N.ckpt`` but holds no parameters. Newer releases also write JSON.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from doctor.finding import Text
from doctor.formats.tensor import Kind, Problem
from doctor.formats.wire import BYTES, VARINT, Field, Window, WireError, fields, signed, text

MAX_SIZE = 256_000_000
MAX_ITEMS = 1_000_000


@dataclass(frozen=True)
class Cut:
    """`devices` is the device matrix; `axes` says for each dimension which of its axes (from the right) cuts it, or -1."""

    devices: tuple[int, ...]
    axes: tuple[int, ...]
    optimizer_shards: int = 0
    #: distance in rank numbers between devices that hold neighbouring optimizer shards
    optimizer_step: int = 0

    def full(self, piece: Sequence[int]) -> Optional[tuple[int, ...]]:
        """The shape of the whole parameter whose slice has the shape `piece`; None when they do not belong together."""
        if any(length < 1 for length in self.devices):
            return None
        if len(self.axes) != len(piece):
            return None if self.axes else tuple(piece)
        whole = []
        for dimension, (length, axis) in enumerate(zip(piece, self.axes)):
            factor = 1
            if axis >= 0:
                if axis >= len(self.devices):
                    return None
                factor = self.devices[len(self.devices) - 1 - axis]
            if dimension == 0 and self.optimizer_shards > 0:
                factor *= self.optimizer_shards
            whole.append(length * factor)
        return tuple(whole)


@dataclass(frozen=True)
class Strategy:
    """Of one rank or stage."""

    path: Path
    stage: int = 0
    cuts: Mapping[str, Cut] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def read(path: Path) -> Strategy:
    """Reads a strategy file of either form; what is wrong stands in its problems."""
    try:
        size = path.stat().st_size
        if size > MAX_SIZE:
            return _broken(path, Kind.HOSTILE, Text("larger than any strategy", "大于任何策略文件"))
        if not size:
            return _broken(path, Kind.EMPTY, Text("it is empty", "文件为空"))
        if path.suffix == ".json":
            return _json(path)
        with path.open("rb", buffering=0) as file:
            return _protobuf(path, Window(file, os.fstat(file.fileno()).st_size, 1 << 16))
    except OSError as error:
        word = error.strerror or "cannot be read"
        return _broken(path, Kind.UNREADABLE, Text(word, word))
    except WireError as error:
        return _broken(path, Kind.TRUNCATED if error.truncated else Kind.HEADER, error.what)


def _broken(path: Path, kind: Kind, detail: Text) -> Strategy:
    return Strategy(path, problems=(Problem(kind, path, detail),))


def _protobuf(path: Path, window: Window) -> Strategy:
    stage, cuts = 0, {}
    for count, item in enumerate(fields(window, 0, window.size)):
        if count > MAX_ITEMS:
            break
        if item.number == 1 and item.wire == VARINT:
            stage = item.value
        elif item.number == 3 and item.wire == BYTES:
            name, cut = _item(window, item)
            cuts[name] = cut
        elif item.number not in {2, 4}:
            raise WireError(
                item.start, Text(f"field {item.number} is not of a strategy", f"字段 {item.number} 不属于策略文件")
            )
    return Strategy(path, stage, cuts)


def _item(window: Window, item: Field) -> tuple[str, Cut]:
    name = ""
    devices: list[int] = []
    axes: list[int] = []
    shards = step = 0
    for outer in fields(window, item.start, item.end):
        if outer.number == 1:
            name = text(window, outer) or ""
        elif outer.number == 2 and outer.wire == BYTES:
            for part in fields(window, outer.start, outer.end):
                if part.number == 1 and part.wire == BYTES:
                    devices += _numbers(window, part)
                elif part.number == 2 and part.wire == BYTES:
                    axes += _numbers(window, part)
                elif part.number == 6:
                    step = max(0, signed(part.value))
                elif part.number == 7:
                    shards = max(0, signed(part.value))
    return name, Cut(tuple(devices), tuple(axes), shards, step)


def _numbers(window: Window, part: Field) -> list[int]:
    found: list[int] = []
    for item in fields(window, part.start, part.end):
        if item.wire == VARINT:
            found.append(signed(item.value))
        elif item.wire == BYTES:
            at = item.start
            while at < item.end and len(found) < 64:
                value, at = window.varint(at, item.end)
                found.append(signed(value))
        if len(found) > 64:
            break
    return found


def _json(path: Path) -> Strategy:
    try:
        data: Any = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        return _broken(path, Kind.HEADER, Text(f"not JSON: {error}", f"不是合法的 JSON：{error}"))
    items = data.get("parallel_layout_item") if isinstance(data, dict) else None
    if not isinstance(items, dict):
        return _broken(path, Kind.HEADER, Text("it has no parallel_layout_item", "缺少 parallel_layout_item"))
    cuts = {}
    for name, item in items.items():
        if isinstance(item, dict):
            shards, step = item.get("opt_weight_shard_size"), item.get("opt_weight_shard_step")
            cuts[name] = Cut(
                _whole(item.get("dev_matrix")),
                _whole(item.get("tensor_map")),
                shards if type(shards) is int else 0,
                step if type(step) is int else 0,
            )
    stage = data.get("current_stage", data.get("stage", 0))
    return Strategy(path, stage if type(stage) is int else 0, cuts)


def _whole(value: object) -> tuple[int, ...]:
    return tuple(item for item in value if type(item) is int) if isinstance(value, list) else ()
