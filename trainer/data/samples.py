"""Raw data to samples: ids and labels of one length, in memory or read from MindRecord as they are wanted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from doctor.errors import UsageError
from doctor.finding import Text
from doctor.trainer.data.documents import beyond_vocabulary, documents, files_of, packed
from doctor.trainer.data.settings import FOREIGN, DatasetSettings, Source
from doctor.trainer.data.tokenizer import Tokenizer, load_tokenizer
from doctor.trainer.runtime import cores

IGNORED = -100
#: how labels came to be that had arrived shifted twice
SET_BACK = "set back by one here"
#: labels that nobody is to move; followed by what is wrong with them as next tokens, if that can be told
AS_THEY_ARE = "taken as they are"
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

    def batches(self, order: Ids, size: int) -> Iterator[tuple[Ids, Ids]]:
        """(ids, labels) of `size` samples after the other, those with the numbers of `order`; the last may be fewer."""
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            yield self.ids[rows], self.labels[rows]


class SampleSource(Protocol):
    """What batches are made of: `Samples`, or those of MindRecord files."""

    @property
    def labelled(self) -> str: ...

    def __len__(self) -> int: ...

    def batches(self, order: Ids, size: int) -> Iterator[tuple[Ids, Ids]]: ...


def load_samples(settings: DatasetSettings, length: int, vocab_size: int, seed: int, name: str) -> SampleSource:
    """The samples of a data set. Raises UsageError when there are none, when an id is beyond the vocabulary, or when the
    labels are not the next tokens. MindRecord is read as it is wanted; of the rest all is in memory."""
    _check_workers(settings, name)
    source = settings.data_loader
    if source.type == "MindDataset" or settings.mindrecord is not None:
        from doctor.trainer.data.mindrecord import open_mindrecord

        if source.type == "MindDataset":
            return open_mindrecord(files_of(source, name), settings, length, vocab_size, name)
        from doctor.trainer.data.convert import converted

        path = converted(settings, length, rows_of(settings, length, vocab_size, name), name)
        plain = replace(settings, input_columns=("input_ids",))
        return open_mindrecord([path], plain, length, vocab_size, name)
    columns = _columns(settings, length, vocab_size, seed, name)
    samples = label(columns, length, settings.shift_labels, name)
    check_ids(samples, vocab_size, name)
    return samples


def rows_of(settings: DatasetSettings, length: int, vocab_size: int, name: str) -> Iterator[Ids]:
    """The rows of a data set of text, `length` + 1 ids each, one after the other."""
    tokenizer = load_tokenizer(settings.tokenizer)
    _check_tokenizer(tokenizer, vocab_size, name)
    return packed(documents(settings.data_loader, vocab_size, name), tokenizer, length, settings.packing, name)


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
            "RUN-HOST-003",
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
            "CFG-KEY-015",
        )
    return {"input_ids": np.stack(list(rows_of(settings, length, vocab_size, name)))}


def _check_tokenizer(tokenizer: Tokenizer, vocab_size: int, name: str) -> None:
    if tokenizer.vocab_size <= vocab_size:
        return
    raise UsageError(
        Text(
            f"{name}.tokenizer: it has {tokenizer.vocab_size} ids, the model's vocab_size is {vocab_size}.",
            f"{name}.tokenizer：词表大小 {tokenizer.vocab_size}，超过模型 vocab_size {vocab_size}。",
        ),
        Text(
            f"Set model.vocab_size to at least {tokenizer.vocab_size}, or use the model's own tokenizer.",
            f"请把 model.vocab_size 设为不小于 {tokenizer.vocab_size}，或改用模型自带的 tokenizer。",
        ),
        "WGT-TOK-001",
    )


def generated(source: Source, length: int, vocab_size: int, seed: int) -> Ids:
    """Sequences that count upwards by 1 to 4, modulo the vocabulary, with some tokens replaced by noise: a model
    learns the rule in a few dozen steps, and never fully, which is what a healthy curve looks like."""
    random = np.random.default_rng(seed)
    start = random.integers(0, vocab_size, (source.samples, 1))
    stride = random.integers(1, 5, (source.samples, 1))
    ids = (start + stride * np.arange(length + 1)) % vocab_size
    noise = random.integers(0, vocab_size, ids.shape)
    return np.where(random.random(ids.shape) < source.noise, noise, ids).astype(np.int32)


def label(columns: dict[str, Ids], length: int, shift: str, name: str) -> Samples:
    """Makes labels the next tokens, exactly once, and proves it on every sample. Raises UsageError when they are
    neither the tokens themselves (unshifted) nor the next ones."""
    ids = columns["input_ids"]
    if ids.ndim != 2 or ids.shape[0] == 0:
        raise UsageError(Text(f"{name}: the data set is empty.", f"{name}：数据集为空。"), rule="DAT-FILE-001")
    given = columns.get("labels")
    if given is None:
        # One token more than the model sees: its own next tokens. Of as many tokens, the last has no label.
        if ids.shape[1] > length:
            return _proved(ids[:, :length], ids[:, 1 : length + 1], "shifted here", name)
        return _proved(ids, _shifted(ids), "shifted here", name)
    ids, given = ids[:, :length], given[:, :length]
    state = relation(ids, given)
    if shift == "never":
        return Samples(ids, given, AS_THEY_ARE if state in ("shifted", "unrelated") else f"{AS_THEY_ARE}: {state}")
    if shift == "back":
        return _proved(ids, _set_back(ids, given), SET_BACK, name)
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
            "Give labels equal to input_ids, or leave the column out: they are shifted here, once."
            + (" Or set shift_labels: back." if state == "shifted twice" else ""),
            "请令 labels 与 input_ids 相同，或不提供该列：此处会且只会移位一次。"
            + ("或设置 shift_labels: back。" if state == "shifted twice" else ""),
        ),
        "DAT-LBL-002" if state == "shifted twice" else "DAT-LBL-006",
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


def _set_back(ids: Ids, labels: Ids) -> Ids:
    """Labels that lie two tokens ahead, one position later; what was not learnt from stays so."""
    back = np.full_like(labels, IGNORED)
    back[:, 1:] = labels[:, :-1]
    if ids.shape[1] > 1:
        back[:, 0] = np.where(labels[:, 0] == IGNORED, IGNORED, ids[:, 1])
    return back


def _proved(ids: Ids, labels: Ids, how: str, name: str) -> Samples:
    counted = labels[:, :-1] != IGNORED
    if not np.array_equal(labels[:, :-1][counted], ids[:, 1:][counted]):
        raise UsageError(
            Text(
                f"{name}: the labels are not the next tokens after the shift.",
                f"{name}：移位后 labels 不是下一个 token。",
            ),
            rule="DAT-LBL-006",
        )
    return Samples(np.ascontiguousarray(ids), np.ascontiguousarray(labels), how)


def check_ids(samples: Samples, vocab_size: int, name: str) -> None:
    """Raises UsageError for an id that the embedding has no row for."""
    for words, values in (("input_ids", samples.ids), ("labels", samples.labels)):
        bad = (values >= vocab_size) | ((values < 0) & ((values != IGNORED) | (words == "input_ids")))
        if bad.any():
            row, column = (int(i) for i in np.argwhere(bad)[0])
            found = int(values[row, column])
            raise beyond_vocabulary(
                f"{name}: {words} of sample {row} holds {found} at position {column}",
                f"{name}：第 {row} 个样本的 {words} 在位置 {column} 为 {found}",
                vocab_size,
                found < 0,
            )
