"""What samples do not show: one bad token in a large corpus, one bad file of several, files of another encoding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doctor.check import Options
from doctor.checks.data import subject
from doctor.finding import Finding
from doctor.formats.datasets import megatron
from doctor.runner import judge_path
from doctor.selftest.datafiles import LM, lm_rows, write_megatron, write_mindrecord

CONFIG = """\
use_legacy: True
trainer: {type: CausalLanguageModelingTrainer, model_name: llama2_7b}
runner_config: {epochs: 1, batch_size: 1, sink_mode: False}
train_dataset: {data_loader: {type: MindDataset, dataset_dir: ./data}, input_columns: ["input_ids", "labels"], batch_size: 1}
model:
  model_config: {type: LlamaConfig, seq_length: 32, hidden_size: 64, num_layers: 2, num_heads: 4, vocab_size: 500}
  arch: {type: LlamaForCausalLM}
"""


def findings(path: Path, against: str | None = None) -> list[Finding]:
    judged = judge_path(path, Options(against=against))
    assert judged.family == "data"
    assert not [outcome for outcome in judged.outcomes if outcome.state == "crashed"], judged.outcomes
    return [f for outcome in judged.outcomes for f in outcome.findings if f.severity.rank >= 1]


@pytest.fixture
def config(tmp_path: Path) -> str:
    (tmp_path / "config.yaml").write_text(CONFIG)
    return str(tmp_path / "config.yaml")


def lines(path: Path, rows: list[Any]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return path


ROWS = 2400
BAD = 1237  # not among those that are drawn


def one_bad_token(folder: Path, form: str) -> Path:
    rng = np.random.default_rng(0)
    rows = [rng.integers(3, 500, 33) for _ in range(ROWS)]
    rows[BAD][7] = 501
    folder.mkdir()
    if form == "megatron":
        return write_megatron(folder / "wiki", rows).with_name("wiki.bin")
    if form == "jsonl":
        return lines(folder / "t.jsonl", [{"input_ids": row.tolist()} for row in rows])
    if form == "json":
        (folder / "t.json").write_text(json.dumps([{"input_ids": row.tolist()} for row in rows]))
        return folder / "t.json"
    if form == "mindrecord":
        both = [{"input_ids": row.astype(np.int32), "labels": row.astype(np.int32)} for row in rows]
        return Path(write_mindrecord(folder / "t.mindrecord", LM, both))
    pyarrow = pytest.importorskip("pyarrow", exc_type=ImportError)
    table = pyarrow.table({"input_ids": [row.tolist() for row in rows]})
    if form == "parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, folder / "t.parquet", row_group_size=500)
        return folder / "t.parquet"
    with pyarrow.OSFile(str(folder / "t.arrow"), "wb") as file, pyarrow.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=700)
    return folder / "t.arrow"


@pytest.mark.parametrize("form", ["megatron", "jsonl", "json", "mindrecord", "arrow", "parquet"])
def test_one_token_of_a_hundred_thousand_is_beyond_the_vocabulary(tmp_path: Path, config: str, form: str) -> None:
    path = one_bad_token(tmp_path / "data", form)
    (finding,) = findings(path, config)
    assert finding.rule == "DAT-TOK-001"
    assert f"Row {BAD} holds 501" in finding.message.en
    assert judge_path(path, Options(against=config)).facts["data"]["token_ids_read"] == 1.0


def test_of_a_corpus_too_large_to_read_the_share_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(megatron, "BLOCK", 1 << 10)
    monkeypatch.setattr(megatron, "READ", 1 << 14)
    path = one_bad_token(tmp_path / "data", "megatron")
    judged = judge_path(path, Options())
    assert judged.facts["data"]["token_ids_read"] == pytest.approx(0.2, abs=0.02)
    assert any("% of them read" in line.en for line in judged.headline)
    assert any("已读取" in line.zh for line in judged.headline)


def test_a_corpus_of_no_sequences_is_empty(tmp_path: Path) -> None:
    stem = write_megatron(tmp_path / "wiki", [np.arange(5)])
    head = bytearray(stem.with_name("wiki.idx").read_bytes()[:34])
    head[18:34] = bytes(16)
    stem.with_name("wiki.idx").write_bytes(bytes(head))
    stem.with_name("wiki.bin").write_bytes(b"")
    assert [finding.rule for finding in findings(stem.with_name("wiki.idx"))] == ["DAT-FILE-001"]


def test_a_corpus_without_its_index(tmp_path: Path) -> None:
    (tmp_path / "wiki_text_document.bin").write_bytes(np.arange(3, 900, dtype="<u2").tobytes())
    (finding,) = findings(tmp_path / "wiki_text_document.bin")
    assert finding.rule == "DAT-FILE-006" and "wiki_text_document.idx" in finding.message.en


def alpaca(count: int, word: str = "say") -> list[dict[str, str]]:
    return [{"instruction": f"{word} {n}", "input": "", "output": f"{word} {n * n}"} for n in range(count)]


def test_every_file_of_a_folder_of_lines_is_judged(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    lines(folder / "a.jsonl", alpaca(40))
    lines(folder / "b.jsonl", alpaca(60, "tell"))
    assert findings(folder) == []
    facts = judge_path(folder, Options()).facts["data"]
    assert (facts["rows"], facts["files"]) == (100, 2)
    torn = folder / "b.jsonl"
    torn.write_bytes(torn.read_bytes()[:-20])
    (finding,) = findings(folder)
    assert finding.rule == "DAT-FILE-002" and finding.evidence[0].source == str(torn)
    lines(torn, [{"text": f"words {n}"} for n in range(40)])
    (finding,) = findings(folder)
    assert finding.rule == "DAT-FILE-011" and finding.evidence[0].source == str(torn)


def test_copies_in_another_file_are_named_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    lines(folder / "a.jsonl", alpaca(40))
    lines(folder / "b.jsonl", alpaca(40))
    (finding,) = findings(folder)
    assert finding.rule == "DAT-SEQ-005"
    assert "(a.jsonl)" in finding.message.en and "(b.jsonl)" in finding.message.en


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", ["t.json", "t.jsonl", "t.txt"])
def test_utf_16_is_told(tmp_path: Path, name: str, encoding: str) -> None:
    text = json.dumps(alpaca(20)) if name == "t.json" else "".join(json.dumps(row) + "\n" for row in alpaca(20))
    (tmp_path / name).write_text(text, encoding)
    (finding,) = findings(tmp_path / name)
    assert finding.rule == "DAT-FILE-007"
    assert any("iconv -f utf-16" in (fix.summary.en + str(fix.command)) for fix in finding.fixes)


def test_text_that_begins_with_a_hole(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_bytes(b"a line of text\n" * 20 + bytes(40) + b"\nmore of it\n" * 9)
    assert [finding.rule for finding in findings(tmp_path / "t.txt")] == ["DAT-FILE-003"]


def test_samples_of_padding_are_empty_and_not_masked(tmp_path: Path) -> None:
    rows = lm_rows(offset=1, padded=6)
    for row in rows[::5]:
        row["input_ids"][:] = 0
        row["labels"][:] = -100
    (finding,) = findings(Path(write_mindrecord(tmp_path / "t.mindrecord", LM, rows)))
    assert finding.rule == "DAT-SEQ-004"


def test_the_row_is_not_one_of_those_drawn(tmp_path: Path) -> None:
    """Without which the tests above would prove nothing."""
    from doctor.formats.datasets.dataset import spread

    assert BAD not in set(spread(ROWS, subject.DRAWN))
