"""Text to MindRecord, once: what a large data set is trained from without holding it in memory."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from doctor.errors import UsageError
from doctor.finding import Text
from doctor.trainer.data.documents import files_of
from doctor.trainer.data.settings import DatasetSettings

#: rows that are handed to the writer at a time
_ROWS = 4096


def converted(settings: DatasetSettings, length: int, rows: Iterator[Any], name: str) -> Path:
    """The MindRecord file of these settings, written from `rows` unless it is there: column `input_ids`, `length` + 1 ids
    a row.

    A note beside it tells what it was made of. Raises UsageError when the file is of something else, or cannot be
    written."""
    path = Path(str(settings.mindrecord))
    note, made_of = path.with_name(path.name + ".json"), _made_of(settings, length, name)
    if path.exists():
        if _read(note) != made_of:
            raise UsageError(
                Text(
                    f"{name}.mindrecord {path}: made of other data or settings than these.",
                    f"{name}.mindrecord {path}：由其他数据或设置生成。",
                ),
                Text("Name another file, or remove this one.", "请指定其他文件，或删除该文件。"),
                "DAT-FILE-008",
            )
        return path
    _write(path, rows, name)
    beside = note.with_name(f".{note.name}.{os.getpid()}.tmp")
    beside.write_text(json.dumps(made_of, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    beside.replace(note)
    return path


def _made_of(settings: DatasetSettings, length: int, name: str) -> dict[str, Any]:
    """What decides the rows: files by size and time of change, tokenizer, length, packing."""
    files = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files_of(settings.data_loader, name)]
    return {
        "files": [list(item) for item in files],
        "type": settings.data_loader.type,
        "field": settings.data_loader.field,
        "tokenizer": settings.tokenizer,
        "max_length": length,
        "packing": settings.packing,
    }


def _read(note: Path) -> Any:
    try:
        return json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _write(path: Path, rows: Iterator[Any], name: str) -> None:
    """Under its own name from the start: MindRecord keeps it inside, so that the file cannot be renamed."""
    from mindspore.mindrecord import FileWriter

    first = next(rows)  # before anything is written: an empty data set is refused here
    try:
        writer = FileWriter(str(path), shard_num=1)
        writer.add_schema({"input_ids": {"type": "int32", "shape": [-1]}}, "tokens")
        writer.write_raw_data([{"input_ids": first}])
        while block := [{"input_ids": row} for row in islice(rows, _ROWS)]:
            writer.write_raw_data(block)
        writer.commit()
    except BaseException as error:
        for part in (path, path.with_name(path.name + ".db")):
            part.unlink(missing_ok=True)
        if not isinstance(error, (RuntimeError, OSError)):
            raise
        why = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UsageError(
            Text(f"{name}.mindrecord {path}: cannot be written: {why}", f"{name}.mindrecord {path}：无法写入：{why}"),
            Text("Name a file in a folder you may write to.", "请指定可写目录中的文件。"),
        ) from None
