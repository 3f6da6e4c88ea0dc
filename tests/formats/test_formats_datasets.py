"""Readers of data sets: against files that MindSpore's FileWriter made, and against broken ones."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.formats.datasets import msgpack
from doctor.formats.datasets.find import kind_of, open_dataset
from doctor.formats.datasets.mindrecord import unpack
from doctor.formats.sniff import looks_like_weights
from doctor.selftest.datafiles import LM, lm_rows, pack, write_megatron, write_mindrecord

MADE = Path(__file__).parent / "reference" / "mindrecord"


def test_a_file_of_filewriter_reads_as_it_was_written() -> None:
    """reference/make_mindspore.py wrote it: row i holds the tokens i..i+8, labels of one more, a text and a number."""
    found = open_dataset(MADE / "one.mindrecord")
    assert (found.format, found.rows, found.problems, found.missing) == ("mindrecord", 50, (), ())
    assert found.columns["input_ids"].dtype == "int32" and found.columns["labels"].shape == (-1,)
    rows = list(found.draw(50))
    assert [row.number for row in rows] == list(range(50))
    for row in rows:
        i = row.number
        assert row.values["input_ids"].tolist() == list(range(i, i + 9))
        assert row.values["labels"].tolist() == [-100, *range(i * 70000, i * 70000 + 8)]
        assert row.values["text"] == f"héllo {i}" and row.values["score"] == i / 2 and row.values["id"] == i
        assert row.values["raw"] == b"\x01\x02" * i and row.values["weights"].tolist() == [1.5, i]


def test_a_set_of_four_files_is_one(tmp_path: Path) -> None:
    names = [f"lm.mindrecord{n}" for n in range(4)]
    for number, name in enumerate(names):
        write_mindrecord(tmp_path / name, LM, lm_rows(10, seed=number), names, number)
    for path in (tmp_path, tmp_path / names[2], tmp_path / (names[0] + ".db")):
        found = open_dataset(path)
        assert (found.rows, len(found.files), found.missing) == (40, 4, ())
        assert {row.file.name for row in found.draw(8)} == set(names)
    (tmp_path / names[3]).unlink()
    assert open_dataset(tmp_path / names[0]).missing == (names[3],)


def test_many_pages(tmp_path: Path) -> None:
    rows = lm_rows(300, length=257, vocabulary=60000)
    found = open_dataset(write_mindrecord(tmp_path / "a.mindrecord", LM, rows))
    drawn = list(found.draw(300))
    assert len(drawn) == 300
    for row, want in zip(drawn, rows):
        assert np.array_equal(row.values["input_ids"], want["input_ids"])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=70))
def test_packed_numbers(values: list[int]) -> None:
    assert unpack(pack(values), "int64").tolist() == values


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=60))
def test_no_bytes_make_the_decoders_fail_otherwise(raw: bytes) -> None:
    for decode in (msgpack.decode, lambda part: unpack(part, "int64") if len(part) >= 4 else None):
        with contextlib.suppress(ValueError):
            decode(raw)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 3000), st.binary(min_size=1, max_size=40))
def test_damaged_files_do_not_raise(tmp_path_factory: pytest.TempPathFactory, at: int, junk: bytes) -> None:
    folder = tmp_path_factory.mktemp("d")
    for name in ("one.mindrecord", "one.mindrecord.db"):
        raw = bytearray((MADE / name).read_bytes())
        raw[at : at + len(junk)] = junk
        (folder / name).write_bytes(raw)
    if kind_of(folder / "one.mindrecord") is not None:
        list(open_dataset(folder / "one.mindrecord").draw(20))


def test_megatron(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    documents = [rng.integers(0, 60000, size) for size in (5, 100, 1, 40)]
    write_megatron(tmp_path / "wiki_text", documents)
    for suffix in (".bin", ".idx"):
        found = open_dataset(tmp_path / f"wiki_text{suffix}")
        assert (found.format, found.rows, found.problems) == ("megatron", 4, ())
        assert [row.values["text"].tolist() for row in found.draw(9)] == [list(d) for d in documents]


def test_lines_arrays_and_text(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": f"line {n}", "id": n}) + "\n" for n in range(200)))
    found = open_dataset(tmp_path / "a.jsonl")
    assert (found.format, found.rows, sorted(found.columns)) == ("jsonl", 200, ["id", "text"])
    drawn = [row.values["id"] for row in found.draw(20)]
    assert len(drawn) > 15 and drawn == sorted(drawn) and drawn[0] == 0 and drawn[-1] > 180
    (tmp_path / "b.json").write_text(json.dumps([{"instruction": "x", "output": "y"}] * 3))
    assert open_dataset(tmp_path / "b.json").rows == 3
    (tmp_path / "c.txt").write_text("one\n\ntwo\n")
    assert open_dataset(tmp_path / "c.txt").rows == 2


def test_what_is_no_data_set(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"hidden_size": 4096}')
    (tmp_path / "list.json").write_text("[1, 2, 3]")
    (tmp_path / "x.bin").write_bytes(bytes(100))
    (tmp_path / "empty.txt").write_bytes(b"")
    for path in tmp_path.iterdir():
        assert kind_of(path) is None, path
    assert kind_of(tmp_path) is None


def test_a_mindrecord_is_not_taken_for_weights(tmp_path: Path) -> None:
    path = write_mindrecord(tmp_path / "data", LM, lm_rows(4))
    assert kind_of(path) == "mindrecord" and not looks_like_weights(path)


def test_arrow_and_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"input_ids": [[1, 2, 3], [4, 5, 6]], "labels": [[2, 3, -100], [5, 6, -100]]})
    parquet.write_table(table, tmp_path / "a.parquet")
    with pyarrow.OSFile(str(tmp_path / "b.arrow"), "wb") as sink, pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    for name in ("a.parquet", "b.arrow"):
        found = open_dataset(tmp_path / name)
        assert found.rows == 2 and [row.values["input_ids"] for row in found.draw(5)] == [[1, 2, 3], [4, 5, 6]]


def test_an_index_whose_query_never_ends_is_given_up(tmp_path: Path) -> None:
    path = write_mindrecord(tmp_path / "a.mindrecord", LM, lm_rows(4))
    connection = sqlite3.connect(str(path) + ".db")
    connection.execute("DROP TABLE INDEXES")
    connection.execute(
        "CREATE VIEW INDEXES AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS ROW_ID FROM c"
    )
    connection.commit()
    connection.close()
    found = open_dataset(path)
    assert any("interrupted" in problem.detail.en for problem in found.problems)


@pytest.mark.mindspore
def test_mindspore_reads_what_the_kit_writes(tmp_path: Path) -> None:
    mindrecord = pytest.importorskip("mindspore.mindrecord")
    rows = lm_rows(300, length=257, vocabulary=60000)
    path = write_mindrecord(tmp_path / "a.mindrecord", LM, rows)
    reader = mindrecord.FileReader(str(path), num_consumer=1)
    try:
        for want, got in zip(rows, reader.get_next()):
            assert np.array_equal(want["input_ids"], got["input_ids"]) and np.array_equal(want["labels"], got["labels"])
    finally:
        reader.close()
