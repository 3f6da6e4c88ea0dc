"""The symptoms that people ask about most, in their words, in both languages: key mismatch, out of memory, NaN, flat loss,
slow training, communication, checkpoints that do not load, hangs and slow saves."""

from __future__ import annotations

from pathlib import Path

import pytest

from doctor.match.explain import explain
from doctor.match.pack import load_pack

#: language, question, categories of which one is the answer
ROWS = [
    line.split("\t")
    for line in (Path(__file__).parent / "symptoms.tsv").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_questions_find_their_answer(lang: str) -> None:
    """One in forty may be unknown; none may be answered with something else."""
    asked = [(question, wanted.split("|")) for language, question, wanted in ROWS if language == lang]
    assert len(asked) >= 60
    pack = load_pack()
    unknown, wrong = [], []
    for question, wanted in asked:
        findings = explain(question, pack=pack).findings
        if not findings:
            unknown.append(question)
        elif findings[0].category not in wanted:
            wrong.append((question, findings[0].rule))
    assert not wrong
    assert len(unknown) <= len(asked) // 40 + 2, unknown


@pytest.mark.parametrize(
    "line",
    [
        "Parameters are not initialized during model initialization.",
        "checkpoint format: safetensors and ckpt are both read",
        "支持 ckpt、safetensors 等格式",
        "batch_size=8",
        "global_batch_size = 512",
        "saving took 3 minutes, done",
        "保存权重用时 3 分钟，已完成",
    ],
)
def test_what_asks_nothing_is_not_answered(line: str) -> None:
    assert not explain(line, pack=load_pack()).findings
