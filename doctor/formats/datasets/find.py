"""Recognises a data set by its content and opens it."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Optional

from doctor.formats import locate
from doctor.formats.datasets.dataset import Dataset
from doctor.formats.datasets.jsonlines import is_wide, narrowed
from doctor.formats.sniff import head_of, is_file, list_folder

_TABLES = (".parquet", ".arrow")
#: What Megatron's tools/preprocess_data.py calls its files.
_MEGATRON = re.compile(r"_(?:document|sentence)\.bin$")
#: Files of lines or arrays in a folder that are read as one data set.
MAX_FILES = 10_000


def kind_of(path: Path) -> Optional[str]:
    """mindrecord, megatron, jsonl, json, text, arrow, or None. Reads a few bytes; never raises."""
    try:
        if path.is_dir():
            return _kind_of_folder(path)
        return _kind_of_file(path) if path.is_file() else None
    except OSError:
        return None


def _kind_of_file(path: Path) -> Optional[str]:
    from doctor.formats.datasets import megatron, mindrecord

    name = path.name.lower()
    head = head_of(path) or b""
    if path.suffix in {".idx", ".bin"}:
        index = path.with_suffix(".idx")
        alone = path.suffix == ".bin" and _MEGATRON.search(name) is not None and not index.exists()
        return "megatron" if megatron.is_index(index) or (path.suffix == ".idx" and not head) or alone else None
    if ".mindrecord" in name or mindrecord.is_mindrecord(path):
        return "mindrecord"
    if name.endswith((".jsonl", ".jsonlines", ".ndjson")):
        return "jsonl"
    if name.endswith(_TABLES):
        return "arrow"
    wide = is_wide(head)
    if name.endswith(".json"):
        if wide:
            head = narrowed(head)
        start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
        if start.startswith(b"["):
            return "json" if start[1:].lstrip().startswith(b"{") else None
        first = start.partition(b"\n")[0]
        return "jsonl" if first.startswith(b"{") and first.rstrip().endswith(b"}") and b"\n{" in start else None
    if name.endswith(".txt") and head and (wide or head.count(0) < len(head) // 2):
        return "text"
    return None


def _kind_of_folder(folder: Path) -> Optional[str]:
    order = ("mindrecord", "megatron", "arrow", "jsonl", "json")
    seen = set()
    for entry in list_folder(folder, 20_000)[:2000]:
        if entry.name.endswith(".db") or not is_file(entry):
            continue
        kind = _kind_of_file(Path(entry.path))
        if kind == order[0]:
            return kind
        if kind is not None:
            seen.add(kind)
    return next((kind for kind in order if kind in seen), None)


def open_dataset(path: Path) -> Dataset:
    """The data set behind a file or folder. Raises FileNotFoundError when there is none."""
    kind = kind_of(path)
    if kind is None:
        raise FileNotFoundError(path)
    if kind == "mindrecord":
        from doctor.formats.datasets import mindrecord

        if path.is_dir():
            return mindrecord.open_mindrecord(mindrecord.files_in(path) or _named(path, ".mindrecord"))
        if path.name.endswith(".db"):
            path = path.with_name(path.name[:-3])
        return mindrecord.open_mindrecord(mindrecord.siblings(path))
    if kind == "megatron":
        from doctor.formats.datasets import megatron

        chosen = path if path.is_file() else next(iter(_named(path, ".idx")))
        return megatron.open_megatron(chosen.with_suffix(""))
    if kind == "arrow":
        from doctor.formats.datasets import arrow

        files = [path] if path.is_file() else [file for suffix in _TABLES for file in _named(path, suffix)]
        files = [file for file in files if file.suffix == files[0].suffix]
        parts = locate.shards(file.name for file in files) if path.is_dir() else ()
        return arrow.open_arrow(path, files, tuple(name for part in parts for name in part.missing))
    from doctor.formats.datasets import jsonlines

    opener = {"jsonl": jsonlines.open_jsonl, "json": jsonlines.open_json, "text": jsonlines.open_text}[kind]
    if not path.is_dir():
        return opener(path)
    files = [file for file in _named(path, ".") if _kind_of_file(file) == kind][:MAX_FILES]
    if len(files) == 1:
        return opener(files[0])
    if kind == "jsonl":
        opener = partial(jsonlines.open_jsonl, limit=max(jsonlines.SCANNED // len(files), 1_000_000))
    return jsonlines.open_several(path, files, opener)


def _named(folder: Path, part: str) -> list[Path]:
    return [
        Path(entry.path)
        for entry in list_folder(folder)
        if part in entry.name.lower() and not entry.name.endswith(".db") and is_file(entry)
    ]
