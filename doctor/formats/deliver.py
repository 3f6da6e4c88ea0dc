"""Carries a planned conversion out into files: one file or numbered shards with an index, each whole or not there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Union

from doctor.finding import Text
from doctor.formats.convert import Conversion, ConversionError, Source, Step, run_step
from doctor.formats.weightset import WeightSet
from doctor.formats.write import Atomic, CkptWriter, Entry, SafetensorsWriter, writable

#: Files that belong to a model and are copied beside Hugging Face weights.
SIDE_FILES = (
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer.model", "tokenizer_config.json",
    "special_tokens_map.json", "vocab.json", "merges.txt", "added_tokens.json", "chat_template.jinja",
)  # fmt: skip
MAX_SIDE = 64_000_000


@dataclass(frozen=True)
class Target:
    """`path` is a file, or a folder when `folder` is set; `form` is safetensors or ckpt."""

    path: Path
    folder: bool
    form: str
    shard_size: Optional[int] = None
    overwrite: bool = False


@dataclass(frozen=True)
class Delivered:
    """What was written. `infinite` counts values that the target type could not hold."""

    files: tuple[Path, ...]
    tensors: int
    bytes: int
    infinite: int


def single_name(layout: str, form: str) -> str:
    """The name under which loaders of a layout look for a whole model in a folder."""
    return f"model.{form}" if layout != "meta" else "consolidated.safetensors"


def index_name(form: str) -> str:
    """The name of the index of shards."""
    return f"model.{form}.index.json"


def files_of(conversion: Conversion, target: Target) -> list[tuple[str, tuple[Step, ...]]]:
    """File names and the steps that go into each. A step is never split over files."""
    if not target.folder:
        return [(target.path.name, conversion.steps)]
    shards: list[list[Step]] = [[]]
    room = target.shard_size
    used = 0
    for step in conversion.steps:
        size = sum(entry.bytes for entry in step.entries)
        if room is not None and shards[-1] and used + size > room:
            shards.append([])
            used = 0
        shards[-1].append(step)
        used += size
    if len(shards) == 1:
        return [(single_name(conversion.layout.id, target.form), tuple(shards[0]))]
    stem, _, suffix = single_name(conversion.layout.id, target.form).rpartition(".")
    total = len(shards)
    return [(f"{stem}-{number + 1:05d}-of-{total:05d}.{suffix}", tuple(steps)) for number, steps in enumerate(shards)]


def refuse(conversion: Conversion, target: Target, source: Path) -> None:
    """Raises ConversionError when the target cannot or must not be written."""
    wrong = next((entry for entry in conversion.entries if not writable(entry.dtype, target.form)), None)
    if wrong is not None:
        raise ConversionError(
            Text(
                f"{wrong.name} is {wrong.dtype}, which {target.form} cannot hold",
                f"{wrong.name} 为 {wrong.dtype}，{target.form} 无法存储",
            ),
            Text("Choose another type: --dtype bfloat16", "请换一种类型：--dtype bfloat16"),
        )
    folder = target.path if target.folder else target.path.parent
    names = [name for name, _ in files_of(conversion, target)]
    there = [name for name in names if (folder / name).exists()]
    if there and not target.overwrite:
        raise ConversionError(
            Text(f"{folder / there[0]} is there already", f"{folder / there[0]} 已存在"),
            Text("Choose another target, or say --overwrite.", "请换一个目标，或加 --overwrite。"),
        )
    if there and source.is_file() and (folder / there[0]).samefile(source):
        raise ConversionError(Text("the target is the source itself", "目标就是源文件本身"))
    existing = folder
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free
    if free < conversion.bytes:
        raise ConversionError(
            Text(
                f"{conversion.bytes / 1e9:.1f} GB are needed, {free / 1e9:.1f} GB are free at {existing}",
                f"需要 {conversion.bytes / 1e9:.1f} GB，{existing} 只剩 {free / 1e9:.1f} GB",
            )
        )


def deliver(
    conversion: Conversion,
    found: WeightSet,
    target: Target,
    progress: Callable[[int, int], None] = lambda done, all: None,
) -> Delivered:
    """Writes every file under a temporary name and puts them in place when all are whole; the index comes last.
    Raises ConversionError, or OSError when the disk does; nothing is left behind then."""
    folder = target.path if target.folder else target.path.parent
    folder.mkdir(parents=True, exist_ok=True)
    plan = files_of(conversion, target)
    before = _states(found)
    done, infinite = 0, 0
    with ExitStack() as files, ExitStack() as reading:
        source = Source(found, reading)
        waiting: list[Atomic] = []
        for name, steps in plan:
            output = files.enter_context(Atomic(folder / name))
            entries = [entry for step in steps for entry in step.entries]
            writer = _writer(target, output, entries, conversion)
            for entry, values, lost in _all(steps, source, conversion):
                writer.add(entry, values)
                infinite += lost
                done += entry.bytes
                progress(done, conversion.bytes)
            waiting.append(output)
        index = files.enter_context(_index(folder, conversion, target, plan)) if len(plan) > 1 else None
        changed = next((path for path, state in _states(found).items() if before[path] != state), None)
        if changed is not None:
            raise ConversionError(
                Text(f"{changed} changed while it was read", f"读取过程中 {changed} 发生了变化"),
                Text("Wait until its writer has ended, then convert again.", "请等待写入结束后重新转换。"),
            )
        for output in waiting:
            output.commit()
        if index is not None:
            index.commit()
    written = tuple(output.path for output in waiting) + ((index.path,) if index is not None else ())
    return Delivered(written, len(conversion.entries), conversion.bytes, infinite)


def _states(found: WeightSet) -> dict[Path, tuple[int, int]]:
    """Size and time of change of each source file. Raises OSError when one is gone."""
    states = {}
    for file in found.files:
        state = file.path.stat()
        states[file.path] = (state.st_size, state.st_mtime_ns)
    return states


def _writer(
    target: Target, output: Atomic, entries: Sequence[Entry], conversion: Conversion
) -> Union[SafetensorsWriter, CkptWriter]:
    metadata = {"format": "pt" if conversion.layout.id in {"huggingface", "meta"} else "ms"}
    kind = SafetensorsWriter if target.form == "safetensors" else CkptWriter
    return kind(output.file, entries, metadata)


def _all(steps: Sequence[Step], source: Source, conversion: Conversion) -> Iterator[tuple[Entry, Any, int]]:
    for step in steps:
        yield from run_step(step, source, conversion)


def _index(
    folder: Path, conversion: Conversion, target: Target, plan: Sequence[tuple[str, tuple[Step, ...]]]
) -> Atomic:
    weight_map = {entry.name: name for name, steps in plan for step in steps for entry in step.entries}
    text = json.dumps(
        {"metadata": {"total_size": conversion.bytes}, "weight_map": weight_map}, indent=2, sort_keys=True
    )
    output = Atomic(folder / index_name(target.form))
    output.file.write(text.encode() + b"\n")
    return output


def copy_side_files(source: Path, target: Path) -> tuple[str, ...]:
    """Copies the model's config and tokenizer where the target has none; returns their names."""
    copied = []
    for name in SIDE_FILES:
        file = source / name
        if file.is_file() and file.stat().st_size <= MAX_SIDE and not (target / name).exists():
            with Atomic(target / name) as output:
                output.file.write(file.read_bytes())
                output.commit()
            copied.append(name)
    return tuple(copied)
