"""Arrow and Parquet written by pyarrow itself (extra ``data``): whole ones are clean, torn and foreign ones are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

from test_data_checks import config  # noqa: E402

from doctor.check import Options  # noqa: E402
from doctor.runner import judge_path  # noqa: E402
from doctor.selftest.datafiles import lm_rows  # noqa: E402


def table(offset: int = 1, count: int = 60, vocabulary: int = 490, seed: int = 0) -> Any:
    rows = lm_rows(count=count, length=32, offset=offset, vocabulary=vocabulary, seed=seed)
    return pyarrow.table({name: [row[name].tolist() for row in rows] for name in ("input_ids", "labels")})


def write(path: Path, content: Any, form: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        parquet.write_table(content, path, row_group_size=16)
        return path
    maker = pyarrow.ipc.new_stream if form == "stream" else pyarrow.ipc.new_file
    with pyarrow.OSFile(str(path), "wb") as sink, maker(sink, content.schema) as writer:
        writer.write_table(content)
    return path


FORMS = [("a.parquet", ""), ("a.arrow", "file"), ("a.arrow", "stream")]


def rules(path: Path, against: str | None = None) -> list[str]:
    judged = judge_path(path, Options(against=against))
    assert judged.family == "data"
    assert not [outcome for outcome in judged.outcomes if outcome.state == "crashed"], judged.outcomes
    return sorted({f.rule for o in judged.outcomes for f in o.findings if f.severity.rank >= 1})


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_whole_tables_are_clean_and_counted(tmp_path: Path, name: str, form: str) -> None:
    path = write(tmp_path / name, table(), form)
    assert rules(path) == []
    facts = judge_path(path, Options()).facts["data"]
    assert (facts["rows"], facts["labels"], facts["sampled"]) == (60, "shifted-once", facts["sampled"])
    assert facts["sequence_length"]["max"] == 32 and facts["sampled"] >= 30


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_labels_and_tokens_are_judged(tmp_path: Path, name: str, form: str) -> None:
    against = config(tmp_path, "mcore")
    assert rules(write(tmp_path / name, table(0), form), against) == ["DAT-LBL-001"]
    assert rules(write(tmp_path / name, table(2), form), against) == ["DAT-LBL-002"]
    assert rules(write(tmp_path / name, table(vocabulary=9000), form), against) == ["DAT-TOK-001"]


@pytest.mark.parametrize(("name", "form"), FORMS)
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.97])
def test_torn(tmp_path: Path, name: str, form: str, share: float) -> None:
    path = write(tmp_path / name, table(), form)
    raw = path.read_bytes()
    path.write_bytes(raw[: int(len(raw) * share)])
    found = rules(path)
    assert found in (["DAT-FILE-001"], ["DAT-FILE-002"], ["DAT-FILE-003"]), found
    assert (found == ["DAT-FILE-001"]) == (share == 0.0)


def test_a_page_overwritten(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", table(count=400), "")
    raw = bytearray(path.read_bytes())
    raw[200:4200] = bytes(4000)
    path.write_bytes(raw)
    assert rules(path) in (["DAT-FILE-003"], ["DAT-ROW-002"])


def test_something_else_under_its_name(tmp_path: Path) -> None:
    for content in (
        b"<!DOCTYPE html><html>",
        b"version https://git-lfs.github.com/spec/v1\nsize 3\n",
        json.dumps({}).encode(),
    ):
        path = tmp_path / "a.parquet"
        path.write_bytes(content * 20)
        assert rules(path)[0] in {"DAT-FILE-002", "DAT-FILE-003"}


def test_a_folder_with_a_part_lost(tmp_path: Path) -> None:
    for number in (0, 1, 2):
        write(tmp_path / "data" / f"train-{number:05d}-of-00003.parquet", table(count=20, seed=number), "")
    assert rules(tmp_path / "data") == []
    (tmp_path / "data/train-00001-of-00003.parquet").unlink()
    assert rules(tmp_path / "data") == ["DAT-FILE-006"]


def test_an_empty_table(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", table(count=1).slice(0, 0), "")
    assert rules(path, config(tmp_path, "mcore")) == ["DAT-ROW-001"]


def test_text_and_conversations(tmp_path: Path) -> None:
    words = pyarrow.table({"text": [f"number {n}" for n in range(50)], "id": list(range(50))})
    assert rules(write(tmp_path / "a.parquet", words, "")) == []
    turns = [[{"role": "user", "content": f"q {n}"}, {"role": "assistant", "content": f"a {n}"}] for n in range(50)]
    assert rules(write(tmp_path / "b.parquet", pyarrow.table({"messages": turns}), "")) == []
    short = [turn[:1] if n % 5 == 0 else turn for n, turn in enumerate(turns)]
    assert rules(write(tmp_path / "c.parquet", pyarrow.table({"messages": short}), "")) == ["DAT-SEQ-006"]


def test_numbers_of_other_kinds(tmp_path: Path) -> None:
    rows = [np.arange(32) + n for n in range(40)]
    wide = pyarrow.table(
        {"input_ids": pyarrow.array([row.tolist() for row in rows], pyarrow.list_(pyarrow.int64(), 32))}
    )
    assert rules(write(tmp_path / "a.parquet", wide, "")) == []
    floats = pyarrow.table({"input_ids": [row.astype(float).tolist() for row in rows]})
    assert rules(write(tmp_path / "b.parquet", floats, "")) == ["DAT-COL-002"]
