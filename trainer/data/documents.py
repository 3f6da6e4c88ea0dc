"""Raw text and ids from files: JSON lines, plain text, and their packing into rows of one length."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Optional

import numpy as np

from doctor.errors import UsageError
from doctor.finding import Text
from doctor.trainer.data.settings import Source
from doctor.trainer.data.tokenizer import Tokenizer


def packed(
    documents: Iterable[Any], tokenizer: Tokenizer, length: int, packing: bool, name: str
) -> Iterator[np.ndarray[Any, Any]]:
    """Rows of `length` + 1 ids, int32: documents end to end, each closed by end-of-text, in rows that overlap by one
    token. Without packing each document is one row, cut or padded with end-of-text. Raises UsageError when there is
    none."""
    size = length + 1
    run: list[int] = []
    found = False
    for document in documents:
        ids = list(document) if isinstance(document, list) else tokenizer.encode(document)
        ids.append(tokenizer.eos_id)
        if not packing:
            found = True
            yield np.asarray((ids + [tokenizer.eos_id] * size)[:size], np.int32)
            continue
        run.extend(ids)
        start = 0
        while len(run) - start >= size:
            found = True
            yield np.asarray(run[start : start + size], np.int32)
            start += length
        run = run[start:]
    if not found:
        raise UsageError(
            Text(
                f"{name}: too little data: {len(run)} tokens do not fill one sample of max_length {length}.",
                f"{name}：数据太少：共 {len(run)} 个 token，不足一个 max_length 为 {length} 的样本。",
            ),
            Text("Give more data, or a smaller max_length.", "请增加数据，或减小 max_length。"),
            "DAT-ROW-001",
        )


def documents(source: Source, vocab_size: int, name: str) -> Iterator[Any]:
    """The texts of the files, or lists of ids where a JSON line holds some. Raises UsageError with file and line."""
    files = files_of(source, name)
    return _text(files) if source.type == "Text" else _json(files, source, vocab_size, name)


def files_of(source: Source, name: str) -> list[Path]:
    if not source.dataset_dir:
        raise UsageError(
            Text(
                f"{name}.data_loader: {source.type} needs a dataset_dir.",
                f"{name}.data_loader：{source.type} 需要 dataset_dir。",
            ),
            rule="CFG-DAT-026",
        )
    files: list[Path] = []
    for word in source.dataset_dir:
        path = Path(word)
        found = sorted(item for item in path.iterdir() if item.is_file()) if path.is_dir() else [path]
        if source.type == "MindDataset":
            found = [item for item in found if item.suffix != ".db"]
        files += found
    for file in files:
        if not file.is_file():
            raise UsageError(
                Text(
                    f"{name}.data_loader.dataset_dir: {file}: there is no such file.",
                    f"{name}.data_loader.dataset_dir：{file} 不存在。",
                ),
                Text("A relative path starts where the command runs.", "相对路径从命令运行目录算起。"),
                "DAT-FILE-004",
            )
    if not files:
        raise UsageError(Text(f"{name}: the data set is empty.", f"{name}：数据集为空。"), rule="DAT-FILE-001")
    return files


def _text(files: list[Path]) -> Iterator[str]:
    for file in files:
        yield _decoded(file.read_bytes(), file)


#: share of the lines that may be left out because they cannot be read
MOST_BAD = 0.05


def _json(files: list[Path], source: Source, vocab_size: int, name: str) -> Iterator[Any]:
    good, bad = 0, []
    for file in files:
        with file.open("rb") as lines:
            for number, raw in enumerate(lines, 1):
                try:
                    line = _decoded(raw, file).strip()
                    document = (
                        _document(_row(file, number, line), source.field, vocab_size, f"{file}:{number}")
                        if line
                        else None
                    )
                except UsageError as error:
                    if source.bad_rows != "skip":
                        raise
                    bad.append(error)
                    continue
                if document is not None:
                    good += 1
                    yield document
    if len(bad) > MOST_BAD * (good + len(bad)):
        raise UsageError(
            Text(
                f"{name}: {len(bad)} of {good + len(bad)} lines cannot be read, which is more than bad_rows: skip leaves out: "
                f"{bad[0].what.en}",
                f"{name}：{good + len(bad)} 行中有 {len(bad)} 行无法读取，超过 bad_rows: skip 允许跳过的比例：{bad[0].what.zh}",
            ),
            bad[0].hint,
            bad[0].rule,
        )


def _document(value: Any, field: str, vocab_size: int, where: str) -> Any:
    """The text of a line, or its ids."""
    text: Optional[Any] = value if isinstance(value, str) else None
    if isinstance(value, dict):
        text = value.get(field, value.get("input_ids"))
    numbers = isinstance(text, list) and all(isinstance(i, int) and not isinstance(i, bool) for i in text)
    if not isinstance(text, str) and not numbers:
        raise UsageError(
            Text(f"{where}: no text under {field!r}.", f"{where}：字段 {field!r} 中没有文本。"),
            Text("Name the field: train_dataset.data_loader.field", "请指定字段：train_dataset.data_loader.field"),
            "DAT-COL-001",
        )
    if isinstance(text, list):
        bad = next((i for i in text if not 0 <= i < vocab_size), None)
        if bad is not None:
            raise beyond_vocabulary(f"{where}: id {bad}", f"{where}：id {bad}", vocab_size, bad < 0)
    return text


def beyond_vocabulary(en: str, zh: str, vocab_size: int, negative: bool) -> UsageError:
    """An id that the embedding has no row for: on CPU it would crash, on Ascend read anything."""
    return UsageError(
        Text(f"{en}; vocab_size is {vocab_size}.", f"{zh}，而 vocab_size 为 {vocab_size}。"),
        Text(
            f"Valid ids are 0 to {vocab_size - 1}: the tokenizer of the data is not the model's.",
            f"合法 id 为 0 到 {vocab_size - 1}：数据所用 tokenizer 与模型不符。",
        ),
        "DAT-TOK-002" if negative else "DAT-TOK-001",
    )


def _row(file: Path, number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            Text(f"{file}:{number}: not JSON: {error}.", f"{file}:{number}：不是合法 JSON：{error}。"),
            rule="DAT-ROW-002",
        ) from None


def _decoded(raw: bytes, file: Path) -> str:
    for encoding in ("utf-8-sig", "gb18030"):
        try:
            return raw.decode(encoding)
        except UnicodeDecodeError:
            continue
    words = Text(f"{file}: neither UTF-8 nor GB18030 text.", f"{file}：既不是 UTF-8 也不是 GB18030 文本。")
    raise UsageError(words, rule="DAT-FILE-007")
