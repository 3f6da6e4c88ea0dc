"""MindFormers 2.x checkpoints: ``iteration_00000100/`` with model and optimizer shards, and what they say of each other.

``metadata.json`` holds the full shape of each parameter and the pieces it is kept in; ``common.json`` the
counters; ``latest_checkpointed_iteration.txt`` in the folder above the newest whole iteration.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from doctor.finding import Text
from doctor.formats.sniff import is_folder, list_folder

FOLDER = re.compile(r"iteration_(\d{1,12})")
_PIECE = re.compile(r"\('(.+)', \(((?:\d{1,18}(?:, ?)?)+)\)\)")
TRACKER = "latest_checkpointed_iteration.txt"
MAX_JSON = 512_000_000


@dataclass(frozen=True)
class Whole:
    """A parameter as the metadata describes it."""

    shape: tuple[int, ...]
    #: (offset, shape) of each piece
    pieces: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    #: into how many parts each dimension was cut
    cuts: tuple[int, ...] = ()

    @property
    def covered(self) -> int:
        """Elements that the pieces hold together."""
        total = 0
        for _, shape in set(self.pieces):
            part = 1
            for length in shape:
                part *= length
            total += part
        return total

    def index_of(self, offset: tuple[int, ...]) -> tuple[int, ...]:
        """Which piece stands at an offset, by dimension. MindFormers numbers the pieces in row-major order of the cuts
        and writes that one number."""
        number, index = offset[0] if len(offset) == 1 else 0, []
        for count in reversed(self.cuts):
            index.append(number % count)
            number //= count
        return tuple(reversed(index))


@dataclass(frozen=True)
class Iteration:
    """`files` are those that the metadata refers to; problems name the side file that is broken."""

    folder: Path
    number: Optional[int]
    wholes: Mapping[str, Whole] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    #: (parameter, offset of the piece) and the files that hold it
    storage: Mapping[tuple[str, tuple[int, ...]], tuple[str, ...]] = field(default_factory=dict)
    common: Optional[Mapping[str, Any]] = None
    problems: tuple[tuple[str, Text], ...] = ()


@dataclass(frozen=True)
class Tracker:
    """What the tracker file says, and what iterations there are."""

    path: Path
    said: Optional[int]
    there: tuple[int, ...]
    problem: Optional[Text] = None


def iteration_folders(folder: Path) -> list[tuple[int, Path]]:
    """Numbers and folders of the iterations in a checkpoint folder."""
    return sorted(
        (int(match[1]), Path(entry.path))
        for entry in list_folder(folder)
        if (match := FOLDER.fullmatch(entry.name)) and is_folder(entry)
    )


def read_tracker(folder: Path) -> Tracker:
    """Reads the tracker of a folder of iterations."""
    path = folder / TRACKER
    there = tuple(number for number, _ in iteration_folders(folder))
    try:
        word = path.read_bytes()[:100].decode("ascii", "replace").strip()
    except FileNotFoundError:
        return Tracker(path, None, there, Text("it is not there", "文件不存在"))
    except OSError as error:
        return Tracker(path, None, there, Text(str(error.strerror), str(error.strerror)))
    if not word.isdigit():
        return Tracker(path, None, there, Text(f"it holds {word!r}, no number", f"内容是 {word!r}，不是数字"))
    number = int(word)
    if number not in there:
        return Tracker(
            path,
            number,
            there,
            Text(f"it names iteration {number}, which is not there", f"指向的 iteration {number} 不存在"),
        )
    return Tracker(path, number, there)


def read_iteration(folder: Path) -> Iteration:
    """Reads metadata.json and common.json of one iteration; both may be absent in a single-card checkpoint."""
    match = FOLDER.fullmatch(folder.name)
    problems: list[tuple[str, Text]] = []
    metadata = _read(folder / "metadata.json", problems)
    common = _read(folder / "common.json", problems)
    wholes: dict[str, Whole] = {}
    storage: dict[tuple[str, tuple[int, ...]], tuple[str, ...]] = {}
    if metadata is not None:
        table = metadata.get("state_dict_metadata")
        if isinstance(table, dict):
            for name, entry in table.items():
                whole = _whole(entry)
                if whole is not None:
                    wholes[name] = whole
        table = metadata.get("storage_data")
        if not isinstance(table, dict):
            problems.append(("metadata.json", Text("it has no storage_data", "缺少 storage_data")))
        else:
            for key, places in table.items():
                storage[_piece(key)] = tuple(_file_names(places))
    files = {name for names in storage.values() for name in names}
    number = int(match[1]) if match else None
    return Iteration(folder, number, wholes, tuple(sorted(files)), storage, common, tuple(problems))


def _piece(key: str) -> tuple[str, tuple[int, ...]]:
    """Of ``('decoder.layers.0.mlp.linear_fc1.weight', (3,))``; a key of another form stands for a whole parameter."""
    match = _PIECE.fullmatch(key)
    if match is None:
        return key, (0,)
    return match[1], tuple(int(word) for word in re.findall(r"\d+", match[2]))


def _file_names(places: object) -> list[str]:
    found = []
    for place in places if isinstance(places, list) else ():
        name = place.get("file_name") if isinstance(place, dict) else None
        if isinstance(name, str) and "/" not in name:
            found.append(name)
    return found


def _read(path: Path, problems: list[tuple[str, Text]]) -> Optional[dict[str, Any]]:
    try:
        if path.stat().st_size > MAX_JSON:
            problems.append((path.name, Text("larger than any model's", "大于任何模型的文件")))
            return None
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        problems.append((path.name, Text(str(error.strerror), str(error.strerror))))
        return None
    except (ValueError, RecursionError) as error:
        problems.append((path.name, Text(f"not JSON: {error}", f"不是合法的 JSON：{error}")))
        return None
    if not isinstance(data, dict):
        problems.append((path.name, Text("not a JSON object", "不是 JSON 对象")))
        return None
    return data


def _whole(entry: object) -> Optional[Whole]:
    if not isinstance(entry, dict):
        return None
    shape = _sizes(entry.get("global_shape"))
    if shape is None:
        return None
    pieces = []
    chunks = entry.get("chunk")
    for chunk in chunks if isinstance(chunks, list) else ():
        if isinstance(chunk, dict):
            offset, local = _sizes(chunk.get("global_offset")), _sizes(chunk.get("local_shape"))
            if offset is not None and local is not None:
                pieces.append((offset, local))
    cuts = _sizes(entry.get("axis_fragmentations")) or ()
    return Whole(shape, tuple(pieces), cuts if len(cuts) == len(shape) and all(cuts) else ())


def _sizes(value: object) -> Optional[tuple[int, ...]]:
    if isinstance(value, list) and all(type(item) is int and item >= 0 for item in value):
        return tuple(value)
    return None
