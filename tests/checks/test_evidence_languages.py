"""Evidence of weights and data in both languages: no phrase of ours stands in the code as plain English."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from doctor.check import Options
from doctor.checks import data, weights
from doctor.runner import judge_path

SOURCES = sorted(path for package in (weights, data) for path in Path(str(package.__file__)).parent.glob("*.py"))
#: Names of types, files and fields are the same in every language.
NAMES = frozenset({"int32", "answer", "sample", "dtype"})
WORD = re.compile(r"[A-Za-z]{3,}")


def phrases(node: ast.AST) -> list[str]:
    """Constant texts with words in them, outside of `Text(...)`, keys of tables and comparisons."""
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in {"Text", "str", "some", "visible", "shape", "size", "sorted"}:
            return []
    if isinstance(node, (ast.Subscript, ast.Compare)):
        return []
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) and WORD.search(node.value) else []
    return [found for child in ast.iter_child_nodes(node) for found in phrases(child)]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_evidence_is_english_only(path: Path) -> None:
    wrong = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id == "Evidence":
            parts = [item.value for item in node.keywords if item.arg in {"observed", "expected", "text"}]
        elif node.func.id == "Place" or node.func.id == "evidence_of_values":
            parts = node.args[1:]
        elif node.func.id == "at":
            parts = node.args[3:]
        else:
            continue
        wrong += [(node.lineno, found) for part in parts for found in phrases(part) if found not in NAMES]
    assert not [row for row in wrong if not row[1].startswith(("input_ids ", " labels "))], wrong


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"input_ids": [5, 6, 7, 8], "labels": [6, 7]}] * 3, "4 个 token 对应 2 个标签"),
        ([{"text": ""}, {"text": "a b"}, {"text": "c"}], "没有文本"),
        ([{"messages": [{"role": "user", "content": "q"}]}] * 3, "助手的回合"),
    ],
)
def test_samples_are_told_in_chinese(tmp_path: Path, rows: list[dict[str, object]], words: str) -> None:
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    findings = [f for outcome in judge_path(tmp_path / "t.jsonl", Options()).outcomes for f in outcome.findings]
    told = [finding.to_dict("zh") for finding in findings]
    assert any(words in row["message"] and words in str(row["evidence"]) for row in told), told
