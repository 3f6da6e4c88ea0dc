"""Raw data to samples: arrays of ids (and labels) of one length."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np

from doctor.errors import UsageError
from doctor.finding import Text
from doctor.trainer.data.settings import FOREIGN, DatasetSettings, Source
from doctor.trainer.data.tokenizer import Tokenizer, load_tokenizer
from doctor.trainer.runtime import cores

IGNORED = -100
Ids = Any


@dataclass(frozen=True)
class Samples:
    """`ids` (samples, max_length) int32 and `labels` of the same shape: the next token, or -100."""

    ids: Ids
    labels: Ids
    #: how the labels came to be: shifted here, arrived shifted, or taken as they are
    labelled: str

    def __len__(self) -> int:
        return int(self.ids.shape[0])


def load_samples(settings: DatasetSettings, length: int, vocab_size: int, seed: int, name: str) -> Samples:
    """All samples of a data set in memory. Raises UsageError when there are none, when an id is beyond the
    vocabulary, or when the labels are not the next tokens."""
    _check_workers(settings, name)
    columns = _columns(settings, length, vocab_size, seed, name)
    samples = label(columns, length, settings.shift_labels, name)
    check_ids(samples, vocab_size, name)
    return samples


def _check_workers(settings: DatasetSettings, name: str) -> None:
    """Raises UsageError for more workers than cores, as MindSpore itself refuses them later and less plainly."""
    workers, available = settings.num_parallel_workers, cores()
    if workers is not None and workers > available:
        raise UsageError(
            Text(
                f"{name}.num_parallel_workers: {workers} workers on {available} cores.",
                f"{name}.num_parallel_workers：{workers} 个 worker，而本机可用 {available} 核。",
            ),
            Text(
                f"Set it to {available}, or leave it out: the default follows the machine.",
                f"请设为 {available}，或不设置：默认按本机核数。",
            ),
        )


def _columns(settings: DatasetSettings, length: int, vocab_size: int, seed: int, name: str) -> dict[str, Ids]:
    source = settings.data_loader
    if source.type == "Generated":
        return {"input_ids": generated(source, length, vocab_size, seed if settings.seed is None else settings.seed)}
    if source.type == FOREIGN:
        raise UsageError(
            Text(
                f"{name}.data_loader.type: {source.field} is not one that this trainer reads.",
                f"{name}.data_loader.type：训练器不支持 {source.field}。",
            ),
            Text(
                "Convert the data to MindRecord (MindDataset) or JSON lines (Json). To try the rest: --smoke",
                "请把数据转换为 MindRecord（MindDataset）或 JSON lines（Json）。试跑其余部分：--smoke",
            ),
        )
    files = _files(source, name)
    if source.type == "MindDataset":
        from doctor.trainer.data.mindrecord import read_columns

        return read_columns(files, settings.input_columns, length, name, settings.num_parallel_workers)
    tokenizer = load_tokenizer(settings.tokenizer)
    if tokenizer.vocab_size > vocab_size:
        raise UsageError(
            Text(
                f"{name}.tokenizer: it has {tokenizer.vocab_size} ids, the model's vocab_size is {vocab_size}.",
                f"{name}.tokenizer：词表大小 {tokenizer.vocab_size}，超过模型 vocab_size {vocab_size}。",
            ),
            Text(
                f"Set model.vocab_size to at least {tokenizer.vocab_size}, or use the model's own tokenizer.",
                f"请把 model.vocab_size 设为不小于 {tokenizer.vocab_size}，或改用模型自带的 tokenizer。",
            ),
        )
    documents = _text(files) if source.type == "Text" else _json(files, source.field)
    return {"input_ids": pack(documents, tokenizer, length, settings.packing, name)}


def generated(source: Source, length: int, vocab_size: int, seed: int) -> Ids:
    """Sequences that count upwards by 1 to 4, modulo the vocabulary, with some tokens replaced by noise: a model
    learns the rule in a few dozen steps, and never fully, which is what a healthy curve looks like."""
    random = np.random.default_rng(seed)
    start = random.integers(0, vocab_size, (source.samples, 1))
    stride = random.integers(1, 5, (source.samples, 1))
    ids = (start + stride * np.arange(length + 1)) % vocab_size
    noise = random.integers(0, vocab_size, ids.shape)
    return np.where(random.random(ids.shape) < source.noise, noise, ids).astype(np.int32)


def pack(documents: Iterable[Any], tokenizer: Tokenizer, length: int, packing: bool, name: str) -> Ids:
    """Documents end to end, each closed by end-of-text, cut to samples of `length` + 1 that overlap by one token.
    Without packing each document is one sample, cut or padded with end-of-text."""
    size = length + 1
    rows: list[list[int]] = []
    run: list[int] = []
    for document in documents:
        ids = list(document) if isinstance(document, list) else tokenizer.encode(document)
        ids.append(tokenizer.eos_id)
        if not packing:
            rows.append((ids + [tokenizer.eos_id] * size)[:size])
            continue
        run.extend(ids)
        start = 0
        while len(run) - start >= size:
            rows.append(run[start : start + size])
            start += length
        run = run[start:]
    if not rows:
        raise UsageError(
            Text(
                f"{name}: too little data: {len(run)} tokens do not fill one sample of max_length {length}.",
                f"{name}：数据太少：共 {len(run)} 个 token，不足一个 max_length 为 {length} 的样本。",
            ),
            Text("Give more data, or a smaller max_length.", "请增加数据，或减小 max_length。"),
        )
    return np.asarray(rows, np.int32)


def label(columns: dict[str, Ids], length: int, shift: str, name: str) -> Samples:
    """Makes labels the next tokens, exactly once, and proves it on every sample. Raises UsageError when they are
    neither the tokens themselves (unshifted) nor the next ones."""
    ids = columns["input_ids"]
    if ids.ndim != 2 or ids.shape[0] == 0:
        raise UsageError(Text(f"{name}: the data set is empty.", f"{name}：数据集为空。"))
    given = columns.get("labels")
    if given is None:
        # One token more than the model sees: its own next tokens. Of as many tokens, the last has no label.
        if ids.shape[1] > length:
            return _proved(ids[:, :length], ids[:, 1 : length + 1], "shifted here", name)
        return _proved(ids, _shifted(ids), "shifted here", name)
    ids, given = ids[:, :length], given[:, :length]
    if shift == "never":
        return Samples(ids, given, "taken as they are")
    state = relation(ids, given)
    if state == "unshifted":
        return _proved(ids, _shifted(given), "shifted here", name)
    if state == "shifted":
        return Samples(ids, given, "arrived shifted")
    raise UsageError(
        Text(
            f"{name}: the labels are neither input_ids nor input_ids shifted by one ({state}).",
            f"{name}：labels 既不是 input_ids，也不是 input_ids 左移一位（{state}）。",
        ),
        Text(
            "Give labels equal to input_ids, or leave the column out: they are shifted here, once.",
            "请令 labels 与 input_ids 相同，或不提供该列：此处会且只会移位一次。",
        ),
    )


def relation(ids: Ids, labels: Ids) -> str:
    """How labels relate to ids where they are not ignored: unshifted, shifted, shifted twice, or unrelated.

    Decided by the share of equal tokens at offsets 0, 1 and 2; long runs of one token make offsets alike, so the
    best must lead clearly (0.02) or be exact.
    """
    shares = []
    for offset in (0, 1, 2):
        left = labels[:, : labels.shape[1] - offset]
        right = ids[:, offset:]
        counted = left != IGNORED
        shares.append(float(np.mean(left[counted] == right[counted])) if counted.any() else 0.0)
    best = int(np.argmax(shares))
    if shares[best] < 0.9:
        return "unrelated"
    return ("unshifted", "shifted", "shifted twice")[best]


def _shifted(ids: Ids) -> Ids:
    labels = np.full_like(ids, IGNORED)
    labels[:, :-1] = ids[:, 1:]
    return labels


def _proved(ids: Ids, labels: Ids, how: str, name: str) -> Samples:
    counted = labels[:, :-1] != IGNORED
    if not np.array_equal(labels[:, :-1][counted], ids[:, 1:][counted]):
        raise UsageError(
            Text(
                f"{name}: the labels are not the next tokens after the shift.",
                f"{name}：移位后 labels 不是下一个 token。",
            )
        )
    return Samples(np.ascontiguousarray(ids), np.ascontiguousarray(labels), how)


def check_ids(samples: Samples, vocab_size: int, name: str) -> None:
    """Raises UsageError for an id that the embedding has no row for: on CPU it would crash, on Ascend read anything."""
    for words, values in (("input_ids", samples.ids), ("labels", samples.labels)):
        bad = (values >= vocab_size) | ((values < 0) & ((values != IGNORED) | (words == "input_ids")))
        if bad.any():
            row, column = (int(i) for i in np.argwhere(bad)[0])
            found = int(values[row, column])
            raise UsageError(
                Text(
                    f"{name}: {words} of sample {row} holds {found} at position {column}; vocab_size is {vocab_size}.",
                    f"{name}：第 {row} 个样本的 {words} 在位置 {column} 为 {found}，而 vocab_size 为 {vocab_size}。",
                ),
                Text(
                    f"Valid ids are 0 to {vocab_size - 1}: the tokenizer of the data is not the model's.",
                    f"合法 id 为 0 到 {vocab_size - 1}：数据所用 tokenizer 与模型不符。",
                ),
            )


def _files(source: Source, name: str) -> list[Path]:
    if not source.dataset_dir:
        raise UsageError(
            Text(
                f"{name}.data_loader: {source.type} needs a dataset_dir.",
                f"{name}.data_loader：{source.type} 需要 dataset_dir。",
            )
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
            )
    if not files:
        raise UsageError(Text(f"{name}: the data set is empty.", f"{name}：数据集为空。"))
    return files


def _text(files: list[Path]) -> Iterator[str]:
    for file in files:
        yield _decoded(file)


def _json(files: list[Path], field: str) -> Iterator[Any]:
    for file in files:
        for number, line in enumerate(_decoded(file).splitlines(), 1):
            if not line.strip():
                continue
            value = _row(file, number, line)
            text: Optional[Any] = value if isinstance(value, str) else None
            if isinstance(value, dict):
                text = value.get(field, value.get("input_ids"))
            numbers = isinstance(text, list) and all(isinstance(i, int) and not isinstance(i, bool) for i in text)
            if not isinstance(text, str) and not numbers:
                raise UsageError(
                    Text(f"{file}:{number}: no text under {field!r}.", f"{file}:{number}：字段 {field!r} 中没有文本。"),
                    Text(
                        "Name the field: train_dataset.data_loader.field", "请指定字段：train_dataset.data_loader.field"
                    ),
                )
            yield text


def _row(file: Path, number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            Text(f"{file}:{number}: not JSON: {error}.", f"{file}:{number}：不是合法 JSON：{error}。")
        ) from None


def _decoded(file: Path) -> str:
    raw = file.read_bytes()
    for encoding in ("utf-8-sig", "gb18030"):
        try:
            return raw.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise UsageError(Text(f"{file}: neither UTF-8 nor GB18030 text.", f"{file}：既不是 UTF-8 也不是 GB18030 文本。"))
