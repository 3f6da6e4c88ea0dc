"""Data sets with one planted fault each give exactly their rule; whole ones give none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doctor.check import Options
from doctor.checks.data.measure import Relation, relation_of
from doctor.finding import Finding
from doctor.runner import judge_path
from doctor.selftest.datafiles import LEGACY, LM, MCORE, lm_rows, write_config, write_megatron, write_mindrecord

CONFIGS = {"legacy": LEGACY, "mcore": MCORE}


def config(folder: Path, kind: str, **changes: Any) -> str:
    return write_config(folder / f"{kind}.yaml", CONFIGS[kind], **changes)


def findings(path: Path, against: str | None = None) -> list[Finding]:
    judged = judge_path(path, Options(against=against))
    assert judged.family == "data"
    assert not [outcome for outcome in judged.outcomes if outcome.state == "crashed"], judged.outcomes
    found = [finding for outcome in judged.outcomes for finding in outcome.findings]
    for finding in found:
        for lang in ("en", "zh"):
            words = (
                finding.title.pick(lang)
                + finding.message.pick(lang)
                + "".join(f.summary.pick(lang) for f in finding.fixes)
            )
            assert "{" not in words.replace("{'", "").replace("input_ids, [", ""), words
    return found


def rules(path: Path, against: str | None = None) -> list[str]:
    return sorted(f"{finding.rule}" for finding in findings(path, against) if finding.severity.rank > 0)


def record(folder: Path, rows: Any, schema: Any = LM) -> Path:
    return write_mindrecord(folder / "lm.mindrecord", schema, rows)


# Labels -------------------------------------------------------------------------------------------------

#: offset of the labels in the file, who reads it, what is wrong
LABELS = [
    (0, None, []),
    (1, None, []),
    (2, None, ["DAT-LBL-002"]),
    (-1, None, ["DAT-LBL-003"]),
    (0, "legacy", []),
    (1, "legacy", ["DAT-LBL-002"]),
    (2, "legacy", ["DAT-LBL-002"]),
    (-1, "legacy", ["DAT-LBL-003"]),
    (0, "mcore", ["DAT-LBL-001"]),
    (1, "mcore", []),
    (2, "mcore", ["DAT-LBL-002"]),
]


@pytest.mark.parametrize("padded", [0, 9])
@pytest.mark.parametrize(("offset", "reader", "expected"), LABELS)
def test_the_shift_depends_on_who_reads(
    tmp_path: Path, offset: int, reader: str | None, expected: list[str], padded: int
) -> None:
    length = 33 if reader == "legacy" else 32
    path = record(tmp_path, lm_rows(length=length, offset=offset, padded=padded))
    assert rules(path, config(tmp_path, reader) if reader else None) == expected


def test_labels_equal_to_tokens_are_noted_when_the_reader_is_not_known(tmp_path: Path) -> None:
    (finding,) = findings(record(tmp_path, lm_rows(offset=0)))
    assert (finding.rule, finding.severity.value, finding.confidence) == ("DAT-LBL-001", "info", 0.5)
    facts = judge_path(tmp_path / "lm.mindrecord", Options()).facts["data"]
    assert (facts["labels"], facts["model_shifts_labels"]) == ("equal", "unknown")


def test_input_sliced_sig_turns_the_rule_round(tmp_path: Path) -> None:
    path = record(tmp_path, lm_rows(length=32, offset=1))
    assert rules(path, config(tmp_path, "legacy", extra=", input_sliced_sig: True")) == []
    path = record(tmp_path, lm_rows(length=32, offset=0))
    assert rules(path, config(tmp_path, "legacy", extra=", input_sliced_sig: True")) == ["DAT-LBL-001"]


def masked_prompts(share: float) -> list[dict[str, np.ndarray]]:
    """Fine-tuning samples: labels of the prompt are -100; in a share of them those of the answer too."""
    rows = lm_rows(100, offset=0)
    for index, row in enumerate(rows):
        row["labels"][:12] = -100
        if index < share * 100:
            row["labels"][:] = -100
    return rows


@pytest.mark.parametrize(("share", "expected"), [(0.0, []), (0.03, ["DAT-LBL-004"]), (0.5, ["DAT-LBL-004"])])
def test_masked_prompts_are_well_and_masked_answers_are_not(tmp_path: Path, share: float, expected: list[str]) -> None:
    assert rules(record(tmp_path, masked_prompts(share)), config(tmp_path, "legacy")) == expected


def test_repeated_tokens_do_not_look_shifted() -> None:
    ids = np.array([7] * 40)
    assert relation_of(ids, ids) is None
    pattern = np.array([1, 2] * 20)
    assert relation_of(pattern, pattern) in {None, Relation.EQUAL}
    ids = np.arange(40)
    assert relation_of(ids, np.full(40, -100)) is Relation.MASKED
    assert relation_of(ids, np.append(ids[1:], 0)) is Relation.ONCE


def change(edit: Callable[[list[dict[str, np.ndarray]]], None]) -> list[dict[str, np.ndarray]]:
    rows = lm_rows(offset=1, length=32)
    edit(rows)
    return rows


def set_token(rows: list[dict[str, np.ndarray]], value: int) -> None:
    rows[10]["input_ids"][3] = value


def shuffle_labels(rows: list[dict[str, np.ndarray]]) -> None:
    for row, other in zip(rows, lm_rows(length=32, seed=9)):
        row["labels"] = other["labels"]


def shorten(rows: list[dict[str, np.ndarray]]) -> None:
    for row in rows:
        row["labels"] = row["labels"][:-4]


def repeat(rows: list[dict[str, np.ndarray]]) -> None:
    rows[20:40] = rows[:20]


def unfilled(rows: list[dict[str, np.ndarray]]) -> None:
    for row in rows[5:9]:
        row["input_ids"] = np.full(32, 7, np.int32)


def pad_all(rows: list[dict[str, np.ndarray]]) -> None:
    for row in rows:
        row["input_ids"][10:] = 0
        row["labels"][9:] = -100


def pad_labels(rows: list[dict[str, np.ndarray]]) -> None:
    for row in rows:
        row["input_ids"][22:] = 3
        row["labels"][21:] = 3


def vary(rows: list[dict[str, np.ndarray]]) -> None:
    for index, row in enumerate(rows):
        row["input_ids"] = row["input_ids"][: 20 + index % 5]
        row["labels"] = row["labels"][: 20 + index % 5]


def hollow(rows: list[dict[str, np.ndarray]]) -> None:
    for row in rows[3:6]:
        row["input_ids"], row["labels"] = np.zeros(0, np.int32), np.zeros(0, np.int32)


PLANTED: dict[str, tuple[Callable[[list[dict[str, np.ndarray]]], None], list[str]]] = {
    "labels of other samples": (shuffle_labels, ["DAT-LBL-006"]),
    "labels shorter than tokens": (shorten, ["DAT-LBL-005"]),
    "a token beyond the vocabulary": (lambda rows: set_token(rows, 500), ["DAT-TOK-001"]),
    "a negative token": (lambda rows: set_token(rows, -100), ["DAT-TOK-002"]),
    "samples of one token": (unfilled, ["DAT-TOK-003"]),
    "a third copied": (repeat, ["DAT-SEQ-005"]),
    "mostly padding": (pad_all, ["DAT-SEQ-003"]),
    "padding in labels": (pad_labels, ["DAT-LBL-007"]),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_in_samples(tmp_path: Path, name: str) -> None:
    edit, expected = PLANTED[name]
    assert rules(record(tmp_path, change(edit)), config(tmp_path, "mcore")) == expected


def test_lengths_that_vary_and_samples_that_are_empty(tmp_path: Path) -> None:
    assert rules(record(tmp_path, change(vary))) == ["DAT-SEQ-002"]
    assert rules(record(tmp_path, change(hollow))) == ["DAT-SEQ-002", "DAT-SEQ-004"]


# Against the config ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "offset", "length", "changes", "expected"),
    [
        ("legacy", 0, 33, {}, []),
        ("legacy", 0, 32, {}, ["DAT-SEQ-001"]),
        ("legacy", 0, 65, {}, ["DAT-SEQ-001"]),
        ("mcore", 1, 32, {}, []),
        ("mcore", 1, 33, {}, ["DAT-SEQ-001"]),
        ("mcore", 1, 32, {"vocabulary": 400}, ["DAT-TOK-001"]),
        ("mcore", 1, 32, {"columns": '["input_ids", "labels", "attention_mask"]'}, []),
        ("mcore", 1, 32, {"columns": '["input_ids", "target"]'}, ["DAT-COL-001"]),
        ("mcore", 1, 32, {"batch": 16, "data": 4}, []),
        ("mcore", 1, 32, {"batch": 16, "data": 8}, ["DAT-ROW-001"]),
    ],
)
def test_against_the_config(
    tmp_path: Path, kind: str, offset: int, length: int, changes: dict[str, Any], expected: list[str]
) -> None:
    path = record(tmp_path, lm_rows(offset=offset, length=length))
    assert rules(path, config(tmp_path, kind, **changes)) == expected


def test_tokens_kept_as_floats(tmp_path: Path) -> None:
    schema = {name: {"type": "float32", "shape": [-1]} for name in LM}
    assert rules(record(tmp_path, lm_rows(), schema)) == ["DAT-COL-002"]


# Files ----------------------------------------------------------------------------------------------------


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-700])


def rename(path: Path) -> None:
    path.rename(path.with_name("other.mindrecord"))
    path.with_name(path.name + ".db").rename(path.with_name("other.mindrecord.db"))


def foreign_index(path: Path) -> None:
    other = write_mindrecord(path.parent / "x" / path.name, LM, lm_rows(20))
    path.with_name(path.name + ".db").write_bytes(other.with_name(other.name + ".db").read_bytes())


FILES: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "cut off": (cut, ["DAT-FILE-002"]),
    "empty": (lambda path: path.write_bytes(b""), ["DAT-FILE-001"]),
    "header overwritten": (lambda path: path.write_bytes(b"\x20" + path.read_bytes()[1:]), ["DAT-FILE-003"]),
    "index lost": (lambda path: path.with_name(path.name + ".db").unlink(), ["DAT-FILE-004"]),
    "index damaged": (lambda path: path.with_name(path.name + ".db").write_bytes(b"junk" * 99), ["DAT-FILE-003"]),
    "renamed": (rename, ["DAT-FILE-005"]),
    "index of another run": (foreign_index, ["DAT-FILE-008"]),
}


@pytest.mark.parametrize("name", FILES)
def test_planted_in_files(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "set"
    path = record(folder, lm_rows())
    plant, expected = FILES[name]
    plant(path)
    target = next((p for p in folder.iterdir() if p.suffix == ".mindrecord"), path)
    assert [rule for rule in rules(target) if rule != "DAT-ROW-002"] == expected


def test_a_file_of_four_lost(tmp_path: Path) -> None:
    names = [f"lm.mindrecord{n}" for n in range(4)]
    for number, name in enumerate(names):
        write_mindrecord(tmp_path / name, LM, lm_rows(10, seed=number), names, number)
    assert rules(tmp_path) == []
    (tmp_path / names[2]).unlink()
    (tmp_path / (names[2] + ".db")).unlink()
    assert rules(tmp_path) == ["DAT-FILE-006"] and rules(tmp_path / names[0]) == ["DAT-FILE-006"]


def test_a_path_that_is_not_ascii(tmp_path: Path) -> None:
    assert rules(record(tmp_path / "数据", lm_rows())) == ["DAT-FILE-009"]


def test_megatron(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    stem = write_megatron(tmp_path / "wiki", [rng.integers(3, 400, 50) for _ in range(30)])
    data, index = stem.with_name("wiki.bin"), stem.with_name("wiki.idx")
    assert rules(data) == [] and rules(index) == []
    assert rules(data, config(tmp_path, "mcore", vocabulary=300)) == ["DAT-TOK-001"]
    whole = data.read_bytes()
    data.write_bytes(whole[:-40])
    assert rules(data) == ["DAT-FILE-002"]
    data.write_bytes(whole + bytes(40))
    assert rules(data) == ["DAT-FILE-008"]
    data.write_bytes(whole)
    index.write_bytes(index.read_bytes()[:-30])
    assert rules(index) == ["DAT-FILE-002"]
    data.unlink()
    assert rules(index) == ["DAT-FILE-006"]


GOOD = [{"instruction": f"say {n}", "input": "", "output": f"{n}"} for n in range(100)]


def lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return path


def test_json_lines(tmp_path: Path) -> None:
    path = lines(tmp_path / "alpaca.jsonl", GOOD)
    assert rules(path) == []
    with path.open("a") as file:
        file.write('{"instruction": "cut off in the mid')
    assert rules(path) == ["DAT-FILE-002"]
    lines(path, GOOD)
    text = path.read_text().replace('{"instruction": "say 7"', "{'instruction': 'say 7'", 1)
    path.write_text(text)
    (finding,) = findings(path)
    assert finding.rule == "DAT-FILE-003" and finding.evidence[0].line == 8
    path.write_bytes(
        "".join(json.dumps({"text": f"中文 {n}"}, ensure_ascii=False) + "\n" for n in range(9)).encode("gbk")
    )
    assert rules(path) == ["DAT-FILE-007"]
    lines(path, [*GOOD[:90], *({"instruction": "x"} for _ in range(10))])
    assert "DAT-COL-003" in rules(path)
    lines(path, [{"text": ""} if n % 10 == 0 else {"text": f"t {n}"} for n in range(60)])
    assert "DAT-SEQ-004" in rules(path)


def test_tokens_in_json_lines(tmp_path: Path) -> None:
    rows = [{name: array.tolist() for name, array in row.items()} for row in lm_rows(offset=2)]
    assert rules(lines(tmp_path / "t.jsonl", rows)) == ["DAT-LBL-002"]


def test_a_json_array_and_text(tmp_path: Path) -> None:
    (tmp_path / "alpaca.json").write_text(json.dumps(GOOD))
    assert rules(tmp_path / "alpaca.json") == []
    (tmp_path / "alpaca.json").write_text(json.dumps(GOOD)[:-400])
    assert rules(tmp_path / "alpaca.json") in (["DAT-FILE-002"], ["DAT-FILE-003"])
    (tmp_path / "wiki.txt").write_text("a\nb\n", "utf-8")
    assert rules(tmp_path / "wiki.txt") == []
    (tmp_path / "wiki.txt").write_bytes("第一行\n第二行\n".encode("gbk"))
    assert rules(tmp_path / "wiki.txt") == ["DAT-FILE-007"]


def test_tables_without_their_library_are_skipped_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1" + bytes(60))
    judged = judge_path(tmp_path / "a.parquet", Options())
    skipped = [outcome for outcome in judged.outcomes if outcome.state == "skipped"]
    assert any(outcome.reason is not None and "pyarrow" in outcome.reason.en for outcome in skipped)
    assert not [outcome for outcome in judged.outcomes if outcome.state in {"found", "crashed"}]
