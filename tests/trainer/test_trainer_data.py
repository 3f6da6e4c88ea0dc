"""Data: packing, the one shift of the labels, order and position, and every kind of data that cannot be trained on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.errors import UsageError
from doctor.trainer.data.batches import Batches
from doctor.trainer.data.documents import packed
from doctor.trainer.data.samples import Samples, SampleSource, check_ids, label, load_samples, relation
from doctor.trainer.data.settings import DatasetSettings
from doctor.trainer.data.tokenizer import ByteTokenizer, load_tokenizer
from doctor.trainer.fields import Place


def dataset(**values: Any) -> DatasetSettings:
    return DatasetSettings.read(values, Place("run.yaml", "train_dataset"))


def load(length: int = 8, vocab: int = 257, **values: Any) -> Any:
    return load_samples(dataset(**values), length, vocab, 0, "train_dataset")


def everything(samples: SampleSource) -> tuple[Any, Any]:
    parts = list(samples.batches(np.arange(len(samples)), 4))
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


@given(st.lists(st.text(max_size=40), min_size=1, max_size=12), st.integers(2, 9))
@settings(max_examples=60, deadline=None)
def test_packing_loses_no_token_and_breaks_no_order(documents: list[str], length: int) -> None:
    tokenizer = ByteTokenizer()
    stream = [i for text in documents for i in [*tokenizer.encode(text), tokenizer.eos_id]]
    if len(stream) <= length:
        with pytest.raises(UsageError, match="too little data"):
            np.stack(list(packed(documents, tokenizer, length, True, "train_dataset")))
        return
    rows = np.stack(list(packed(documents, tokenizer, length, True, "train_dataset")))
    assert rows.shape[1] == length + 1
    learned = [stream[0], *rows[:, 1:].reshape(-1).tolist()]
    assert learned == stream[: len(learned)]
    assert len(stream) - len(learned) < length


@given(st.text())
def test_bytes_come_back(text: str) -> None:
    tokenizer = ByteTokenizer()
    assert tokenizer.decode(tokenizer.encode(text)) == text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def test_labels_are_the_next_tokens() -> None:
    samples = load(data_loader={"type": "Generated", "samples": 20})
    assert samples.ids.shape == samples.labels.shape == (20, 8)
    assert np.array_equal(samples.labels[:, :-1], samples.ids[:, 1:])
    assert samples.labelled == "shifted here"


IDS = np.random.default_rng(0).integers(0, 50, (6, 10)).astype(np.int32)


def masked(labels: Any) -> Any:
    labels = labels.copy()
    labels[:, :4] = -100
    return labels


@pytest.mark.parametrize("mask", [lambda labels: labels, masked], ids=["all", "prompt-masked"])
def test_given_labels_are_shifted_exactly_once(mask: Any) -> None:
    right = np.full_like(IDS, -100)
    right[:, :-1] = IDS[:, 1:]
    for given_labels, how in ((IDS, "shifted here"), (right, "arrived shifted")):
        samples = label({"input_ids": IDS, "labels": mask(given_labels)}, 10, "auto", "train_dataset")
        assert samples.labelled == how
        counted = samples.labels[:, :-1] != -100
        assert np.array_equal(samples.labels[:, :-1][counted], IDS[:, 1:][counted])
        assert counted.sum() >= 5 * len(IDS)


def test_labels_shifted_twice_or_of_other_data_are_refused() -> None:
    twice = np.full_like(IDS, -100)
    twice[:, :-2] = IDS[:, 2:]
    for given_labels, state in ((twice, "shifted twice"), (IDS[::-1].copy(), "unrelated")):
        with pytest.raises(UsageError, match=state):
            label({"input_ids": IDS, "labels": given_labels}, 10, "auto", "train_dataset")


@pytest.mark.parametrize(("ahead", "said"), [(0, ": unshifted"), (1, ""), (2, ": shifted twice")])
def test_labels_that_nobody_is_to_move_are_looked_at_all_the_same(ahead: int, said: str) -> None:
    given = np.full_like(IDS, -100)
    given[:, : 10 - ahead] = IDS[:, ahead:]
    samples = label({"input_ids": IDS, "labels": given}, 10, "never", "train_dataset")
    assert samples.labelled == f"taken as they are{said}"
    assert np.array_equal(samples.labels, given)
    other = label({"input_ids": IDS, "labels": IDS[::-1].copy()}, 10, "never", "train_dataset")
    assert other.labelled == "taken as they are"


@pytest.mark.parametrize("mask", [lambda labels: labels, masked], ids=["all", "prompt-masked"])
def test_labels_shifted_twice_can_be_set_back(mask: Any) -> None:
    """A mask made before the second shift is moved with its labels."""
    once = np.full_like(IDS, -100)
    once[:, :-1] = IDS[:, 1:]
    once = mask(once)
    twice = np.full_like(IDS, -100)
    twice[:, :-1] = once[:, 1:]
    samples = label({"input_ids": IDS, "labels": twice}, 10, "back", "train_dataset")
    assert samples.labelled == "set back by one here"
    assert np.array_equal(samples.labels[:, 1:], once[:, 1:])
    with pytest.raises(UsageError, match="not the next tokens"):
        label({"input_ids": IDS, "labels": once}, 10, "back", "train_dataset")


@pytest.mark.parametrize("constant", [0, 7])
def test_padding_does_not_hide_how_labels_relate(constant: int) -> None:
    """Long runs of one token are alike at every offset; what differs must decide."""
    padded = np.concatenate([IDS, np.full((6, 60), constant, np.int32)], axis=1)
    shifted = np.full_like(padded, -100)
    shifted[:, :-1] = padded[:, 1:]
    assert relation(padded, padded) == "unshifted"
    assert relation(padded, shifted) == "shifted"


def test_order_is_that_of_seed_and_epoch_and_resumes_anywhere() -> None:
    samples = Samples(np.arange(22).reshape(22, 1), np.arange(22).reshape(22, 1), "test")
    batches = Batches(samples, 4, seed=9, shuffle=True, name="train_dataset")
    stream = batches.start()
    first = [next(stream) for _ in range(12)]
    assert [(item.epoch, item.index) for item in first[:7]] == [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (1, 0), (1, 1)]
    seen = np.concatenate([item.ids for item in first[:5]]).reshape(-1)
    assert len(set(seen.tolist())) == 20
    assert not np.array_equal(first[0].ids, first[5].ids)
    again = batches.start(first[6].epoch, first[6].index)
    for item in first[6:]:
        assert np.array_equal(next(again).ids, item.ids)


def test_json_lines_text_and_ids(tmp_path: Path) -> None:
    rows = [{"text": "昇腾 abc"}, {"text": "second " * 5}, "a bare string", {"input_ids": [1, 2, 3]}]
    (tmp_path / "data.jsonl").write_text("\n".join(json.dumps(row) for row in rows) + "\n", encoding="utf-8")
    samples = load(data_loader={"type": "jsonl", "dataset_dir": str(tmp_path / "data.jsonl")})
    stream = ByteTokenizer().decode([int(samples.ids[0, 0]), *samples.labels.reshape(-1).tolist()])
    assert stream.startswith("昇腾 abcsecond second")
    (tmp_path / "gbk.txt").write_bytes("显存不足，请开启重计算。".encode("gb18030") * 4)
    assert len(load(data_loader={"type": "Text", "path": str(tmp_path / "gbk.txt")})) > 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "too little data"),
        (b'{"text": "a"}\n', "too little data: 2 tokens"),
        (b'{"txt": "a"}\n', "no text under 'text'"),
        (b'{"text": "a"\n', "data.jsonl:1: not JSON"),
        (b"\xff\xfe\x00\x01\x80", "neither UTF-8 nor GB18030"),
        (b'{"input_ids": [1, "x"]}\n', "no text under"),
    ],
)
def test_unusable_json_is_one_line_with_its_place(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "data.jsonl"
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        load(data_loader={"type": "Json", "dataset_dir": str(path)})
    assert words in caught.value.line("en")


def test_a_line_that_cannot_be_read_is_left_out_when_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    good = [json.dumps({"text": f"line {number} of the data"}) for number in range(60)]
    path.write_text("\n".join([*good[:30], '{"text": NaN}', '{"text": "cut', *good[30:]]) + "\n")
    with pytest.raises(UsageError, match=r"data.jsonl:31: no text under 'text'"):
        load(data_loader={"type": "Json", "path": str(path)})
    left = load(data_loader={"type": "Json", "path": str(path), "bad_rows": "skip"})
    path.write_text("\n".join(good) + "\n")
    whole = load(data_loader={"type": "Json", "path": str(path)})
    assert np.array_equal(left.ids, whole.ids)
    path.write_text("\n".join([*good[:30], *["{"] * 30]) + "\n")
    with pytest.raises(UsageError, match="30 of 60 lines cannot be read"):
        load(data_loader={"type": "Json", "path": str(path), "bad_rows": "skip"})


def test_missing_file_empty_folder_and_no_path(tmp_path: Path) -> None:
    for path, words in ((tmp_path / "gone.jsonl", "no such file"), (tmp_path, "empty")):
        with pytest.raises(UsageError, match=words):
            load(data_loader={"type": "Json", "dataset_dir": str(path)})
    with pytest.raises(UsageError, match="needs a dataset_dir"):
        load(data_loader={"type": "Json"})


def test_ids_beyond_the_vocabulary_are_named() -> None:
    samples = Samples(np.array([[1, 2, 70]], np.int32), np.array([[2, 70, -100]], np.int32), "test")
    with pytest.raises(UsageError, match="sample 0 holds 70 at position 2; vocab_size is 64"):
        check_ids(samples, 64, "train_dataset")
    with pytest.raises(UsageError, match="holds -100"):
        check_ids(Samples(samples.labels, samples.labels, "test"), 100, "train_dataset")


def test_tokenizer_larger_than_the_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text " * 20)
    with pytest.raises(UsageError, match="it has 257 ids, the model's vocab_size is 200"):
        load(vocab=200, data_loader={"type": "Text", "dataset_dir": str(tmp_path / "a.txt")})


def test_tokenizer_files(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.models.WordLevel({"hello": 0, "world": 1, "</s>": 2}, unk_token="hello")
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))
    for word in (tmp_path, tmp_path / "tokenizer.json"):
        loaded = load_tokenizer(str(word))
        assert (loaded.encode("world hello"), loaded.vocab_size, loaded.eos_id) == ([1, 0], 3, 2)
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(UsageError, match="cannot be read"):
        load_tokenizer(str(tmp_path / "bad.json"))
    with pytest.raises(UsageError, match="no such file"):
        load_tokenizer(str(tmp_path / "none.json"))


def test_too_few_samples_for_a_batch() -> None:
    with pytest.raises(UsageError, match="3 samples do not fill one batch of 4"):
        Batches(load(data_loader={"type": "Generated", "samples": 3}), 4, 0, True, "train_dataset")


def test_mindrecord(mindspore: Any, tmp_path: Path) -> None:
    from mindspore.mindrecord import FileWriter

    path = tmp_path / "tiny.mindrecord"
    writer = FileWriter(str(path), 1)
    writer.add_schema({"input_ids": {"type": "int32", "shape": [-1]}}, "lm")
    writer.write_raw_data([{"input_ids": row} for row in IDS])
    writer.commit()
    samples = load(length=9, vocab=50, data_loader={"type": "MindDataset", "dataset_dir": str(path)})
    ids, labels = everything(samples)
    assert np.array_equal(ids, IDS[:, :9])
    assert np.array_equal(labels, IDS[:, 1:])
    order = np.array([4, 0, 5, 2, 1])
    parts = list(samples.batches(order, 2))
    assert [len(part[0]) for part in parts] == [2, 2, 1]
    assert np.array_equal(np.concatenate([part[0] for part in parts]), IDS[order, :9])
    with pytest.raises(UsageError, match=r"holds .* at position .*; vocab_size is 20"):
        load(length=9, vocab=20, data_loader={"type": "MindDataset", "dataset_dir": str(path)})
    with pytest.raises(UsageError, match="MindDataset cannot read"):
        load(data_loader={"type": "MindDataset", "dataset_dir": str(path)}, input_columns=["tokens"])
    with pytest.raises(UsageError, match="a row holds 10 tokens, max_length is 20"):
        load(length=20, data_loader={"type": "MindDataset", "dataset_dir": str(path)})


@pytest.mark.parametrize("ahead", [0, 1, 2])
def test_labels_of_mindrecord_are_the_next_tokens_in_every_batch(mindspore: Any, tmp_path: Path, ahead: int) -> None:
    from mindspore.mindrecord import FileWriter

    path = tmp_path / "two.mindrecord"
    writer = FileWriter(str(path), 1)
    writer.add_schema({name: {"type": "int32", "shape": [-1]} for name in ("input_ids", "labels")}, "lm")
    writer.write_raw_data([{"input_ids": row[:9], "labels": row[ahead : 9 + ahead]} for row in IDS])
    writer.commit()
    source = {"type": "MindDataset", "dataset_dir": str(path)}
    length, shift = (8, "back") if ahead == 2 else (9, "auto")
    samples = load(
        length=length, vocab=50, data_loader=source, input_columns=["input_ids", "labels"], shift_labels=shift
    )
    assert samples.labelled == ("shifted here", "arrived shifted", "set back by one here")[ahead]
    for ids, labels in samples.batches(np.array([3, 1, 0, 5]), 3):
        assert np.array_equal(labels[:, :-1], ids[:, 1:])


def test_text_becomes_mindrecord_once_and_gives_the_same_samples(mindspore: Any, tmp_path: Path) -> None:
    text = tmp_path / "text.jsonl"
    text.write_text("".join(json.dumps({"text": f"line {number} of some text"}) + "\n" for number in range(40)))
    source = {"type": "Json", "dataset_dir": str(text)}
    stored = tmp_path / "text.mindrecord"
    ids, labels = everything(load(data_loader=source))
    for _ in range(2):
        again = everything(load(data_loader=source, mindrecord=str(stored)))
        assert np.array_equal(again[0], ids) and np.array_equal(again[1], labels)
        written = stored.stat().st_mtime_ns
    assert stored.stat().st_mtime_ns == written
    with pytest.raises(UsageError, match="made of other data or settings"):
        load(length=16, data_loader=source, mindrecord=str(stored))
    with pytest.raises(UsageError, match="cannot be written"):
        load(data_loader=source, mindrecord=str(tmp_path / "gone" / "text.mindrecord"))


def test_the_rest_of_an_epoch_is_left_out_or_filled_up_with_what_is_not_learnt() -> None:
    samples = Samples(np.arange(20).reshape(10, 2), np.arange(20).reshape(10, 2), "test")
    assert Batches(samples, 4, 0, False, "train_dataset").per_epoch == 2
    kept = Batches(samples, 4, 0, False, "train_dataset", drop_remainder=False)
    last = [batch for batch, _ in zip(kept.start(), range(3))][-1]
    assert kept.per_epoch == 3
    assert last.ids.shape == (4, 2)
    assert last.labels.tolist() == [[16, 17], [18, 19], [-100, -100], [-100, -100]]


@pytest.mark.parametrize(("ids", "words"), [([1, 300], "id 300"), ([-1], "id -1"), ([10**30], "id 1000")])
def test_ids_of_a_line_that_no_embedding_has_are_named_with_the_line(
    tmp_path: Path, ids: list[int], words: str
) -> None:
    path = tmp_path / "ids.jsonl"
    path.write_text(json.dumps({"input_ids": [1, 2]}) + "\n" + json.dumps({"input_ids": ids}) + "\n")
    with pytest.raises(UsageError, match=rf"ids.jsonl:2: {words}") as caught:
        load(data_loader={"type": "Json", "dataset_dir": str(path)})
    assert caught.value.rule in {"DAT-TOK-001", "DAT-TOK-002"}
