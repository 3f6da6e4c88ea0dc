"""Data sets written by hand, so that they can be broken in one chosen way. MindRecord is laid out as MindSpore 2.10's
FileWriter does; a test reads such a file with MindSpore."""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

import numpy as np

HEADER, PAGE = 1 << 14, 1 << 15
Rows = Sequence[Mapping[str, Any]]


def pack(values: Sequence[int]) -> bytes:
    """Count, two bits of width a number, then the numbers."""
    numbers = np.asarray(values, "<i8")
    kinds = sum((numbers < -(1 << bits)) | (numbers >= 1 << bits) for bits in (7, 15, 31)) + np.zeros(numbers.size, int)
    raw = numbers.tobytes()
    data: bytes = b"".join([raw[8 * at : 8 * at + (1 << kind)] for at, kind in enumerate(kinds.tolist())])
    padded = np.concatenate([kinds, np.zeros(-kinds.size % 4, int)]).reshape(-1, 4)
    flags: bytes = (padded << np.array([6, 4, 2, 0])).sum(axis=1).astype("uint8").tobytes()
    return struct.pack(">I", len(values)) + flags + data


def write_mindrecord(
    path: Path, schema: Mapping[str, Any], rows: Rows, addresses: Optional[Sequence[str]] = None, number: int = 0
) -> Path:
    """One file and its index. Token columns (with a shape) go to BLOB pages; a row must fit its page."""
    path.parent.mkdir(parents=True, exist_ok=True)
    blobs = sorted(name for name, entry in schema.items() if "shape" in entry or entry["type"] == "bytes")
    raw_page, blob_pages, places = b"", [b""], []
    for row in rows:
        raw = b"\x81\xa2id\x00"
        raw = struct.pack("<Q", len(raw)) + raw
        parts = []
        for name in blobs:
            value = row[name]
            kind = schema[name]["type"]
            if kind in {"int32", "int64"}:
                parts.append(pack(value))
            else:
                parts.append(value if kind == "bytes" else np.asarray(value, kind).tobytes())
        body = parts[0] if len(parts) == 1 else b"".join(struct.pack(">Q", len(part)) + part for part in parts)
        blob = struct.pack("<Q", len(body)) + body
        if len(blob_pages[-1]) + len(blob) > PAGE:
            blob_pages.append(b"")
        start = len(blob_pages[-1])
        blob_pages[-1] += blob
        places.append((len(raw_page), len(raw_page) + len(raw), len(blob_pages) - 1, start, start + len(blob)))
        raw_page += raw
    # MindSpore gives the first BLOB page the number 0 and the RAW page the number 1.
    numbers = [0, *range(2, len(blob_pages) + 1)]
    pages = []
    done = 0
    for group, (page, content) in enumerate(zip(numbers, blob_pages)):
        count = sum(place[2] == group for place in places)
        pages.append({"page_id": page, "page_size": len(content), "page_type": "BLOB_DATA", "page_type_id": group,
                      "start_row_id": done, "end_row_id": done + count, "shard_id": number,
                      "row_group_ids": [{"id": 0, "offset": 0}]})  # fmt: skip
        done += count
    pages.insert(1, {"page_id": 1, "page_size": len(raw_page), "page_type": "RAW_DATA", "page_type_id": 0,
                     "start_row_id": 0, "end_row_id": 0, "shard_id": number,
                     "row_group_ids": [{"id": group, "offset": 0} for group in range(len(blob_pages))]})  # fmt: skip
    header = {"header_size": HEADER, "index_fields": None, "page": pages, "page_size": PAGE, "compression_size": 0,
              "schema": [{"blob_fields": blobs, "desc": "selftest", "schema": dict(schema)}],
              "shard_addresses": list(addresses or [path.name]), "shard_id": number, "statistics": None,
              "version": "3.0"}  # fmt: skip
    text = json.dumps(header, separators=(",", ":")).encode()
    out = bytearray(struct.pack("<Q", len(text)) + text)
    out += bytes(HEADER - len(out))
    by_number = {1: raw_page, **dict(zip(numbers, blob_pages))}
    for page in range(max(by_number) + 1):
        out += by_number[page]
        if page < max(by_number):
            out += bytes(PAGE - len(by_number[page]))
    path.write_bytes(out)
    index = path.with_name(path.name + ".db")
    index.unlink(missing_ok=True)
    connection = sqlite3.connect(index)
    connection.execute("PRAGMA synchronous=OFF")  # nobody loses power over a test
    connection.execute("PRAGMA journal_mode=OFF")
    connection.execute(
        "CREATE TABLE INDEXES(  ROW_ID               INT  NOT NULL, PAGE_ID_RAW          INT  NOT NULL, PAGE_OFFSET_RAW      "
        "INT  NOT NULL, PAGE_OFFSET_RAW_END  INT  NOT NULL, ROW_GROUP_ID         INT  NOT NULL, PAGE_ID_BLOB         INT  "
        "NOT NULL, PAGE_OFFSET_BLOB     INT  NOT NULL, PAGE_OFFSET_BLOB_END INT  NOT NULL, PRIMARY KEY(ROW_ID))"
    )
    connection.execute("CREATE TABLE SHARD_NAME(NAME TEXT NOT NULL)")
    connection.execute("INSERT INTO SHARD_NAME VALUES (?)", (path.name,))
    connection.executemany(
        "INSERT INTO INDEXES VALUES (?, 1, ?, ?, ?, ?, ?, ?)",
        [(n, a, b, group, numbers[group], c, d) for n, (a, b, group, c, d) in enumerate(places)],
    )
    connection.commit()
    connection.close()
    return path


LM = {"input_ids": {"type": "int32", "shape": [-1]}, "labels": {"type": "int32", "shape": [-1]}}


def lm_rows(
    count: int = 64, length: int = 33, offset: int = 1, vocabulary: int = 500, seed: int = 0, padded: int = 0
) -> list[dict[str, Any]]:
    """Random tokens; labels[i] = tokens[i + offset], -100 where there is none. `padded` tokens at the end are 0."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        tokens = rng.integers(3, vocabulary, length).astype(np.int32)
        labels = np.full(length, -100, np.int32)
        if offset >= 0:
            labels[: length - offset] = tokens[offset:]
        else:
            labels[-offset:] = tokens[:offset]
        if padded:
            tokens[length - padded :] = 0
            labels[max(length - padded - max(offset, 0), 0) :] = -100
        rows.append({"input_ids": tokens, "labels": labels})
    return rows


def write_megatron(stem: Path, documents: Sequence[Any], code: int = 8) -> Path:
    """.bin and .idx; type 8 is uint16."""
    kind = {4: "<i4", 5: "<i8", 8: "<u2"}[code]
    raw = b"".join(document.astype(kind).tobytes() for document in documents)
    stem.with_name(stem.name + ".bin").write_bytes(raw)
    lengths = np.array([len(document) for document in documents], "<i4")
    width = np.dtype(kind).itemsize
    places = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype("<i8") * width
    borders = np.arange(len(documents) + 1, dtype="<i8")
    head = struct.pack("<9sQBQQ", b"MMIDIDX\x00\x00", 1, code, len(documents), len(borders))
    stem.with_name(stem.name + ".idx").write_bytes(head + lengths.tobytes() + places.tobytes() + borders.tobytes())
    return stem


#: configs of the two generations that name MindRecord files in ./data
LEGACY = """\
use_legacy: True
trainer: {{type: CausalLanguageModelingTrainer, model_name: llama2_7b}}
runner_config: {{epochs: 1, batch_size: {batch}, sink_mode: False}}
train_dataset:
  data_loader: {{type: MindDataset, dataset_dir: ./data, shuffle: True}}
  input_columns: {columns}
  batch_size: {batch}
  drop_remainder: True
train_dataset_task: {{type: CausalLanguageModelDataset}}
parallel_config: {{data_parallel: {data}, model_parallel: 1, pipeline_stage: 1}}
model:
  model_config: {{type: LlamaConfig, seq_length: {length}, hidden_size: 64, num_layers: 2, num_heads: 4, vocab_size: {vocabulary}, pad_token_id: 0{extra}}}
  arch: {{type: LlamaForCausalLM}}
"""
MCORE = """\
use_legacy: False
trainer: {{type: CausalLanguageModelingTrainer, model_name: qwen3}}
runner_config: {{epochs: 1, batch_size: {batch}}}
train_dataset:
  data_loader: {{type: MindDataset, dataset_dir: ./data}}
  input_columns: {columns}
  batch_size: {batch}
parallel_config: {{data_parallel: {data}}}
model:
  model_config: {{model_type: qwen3, architectures: ['Qwen3ForCausalLM'], seq_length: {length}, hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4, vocab_size: {vocabulary}, pad_token_id: 0{extra}}}
"""


def write_config(path: Path, text: str, **changes: Any) -> str:
    """One of them with the fields that a data set is judged against."""
    fields = {"batch": 2, "columns": '["input_ids", "labels"]', "data": 1, "length": 32, "vocabulary": 500, "extra": ""}
    path.write_text(text.format(**{**fields, **changes}))
    return str(path)
