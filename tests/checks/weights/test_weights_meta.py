"""Meta's folders: ``consolidated.NN.pth`` with params.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from official import llama_meta
from weight_files import write_torch

from doctor.check import Options
from doctor.runner import judge_path

#: As in the published LLaMA 1 and 2: the vocabulary is left to the tokenizer.
PARAMS = {"dim": 64, "multiple_of": 16, "n_heads": 4, "n_layers": 2, "norm_eps": 1e-05, "vocab_size": -1}
#: v, h, f, a, g, d, n
SIZES = (96, 64, 176, 4, 4, 16, 2)


def findings(path: Path) -> list[Any]:
    outcomes = judge_path(path, Options()).outcomes
    return [f for outcome in outcomes for f in outcome.findings if f.severity.rank >= 1]


def slices(folder: Path, parts: int, kept: range, rows: bool = False) -> Path:
    """`parts` model-parallel files, of which those in `kept` are written. LLaMA 3 cuts the embedding by `rows`."""
    spec = {}
    for name, shape in llama_meta(*SIZES).items():
        if len(shape) == 2:
            by_columns = "wo." in name or "w2." in name or ("tok_embeddings" in name and not rows)
            axis = 1 if by_columns else 0
            shape = tuple(length // parts if at == axis else length for at, length in enumerate(shape))
        spec[name] = ("BF16", shape)
    folder.mkdir(exist_ok=True)
    for number in kept:
        write_torch(folder / f"consolidated.{number:02d}.pth", spec)
    (folder / "params.json").write_text(json.dumps(PARAMS))
    return folder


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_a_vocabulary_of_minus_1_is_the_tokenizers(tmp_path: Path, parts: int) -> None:
    assert findings(slices(tmp_path / "m", parts, range(parts))) == []


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize(("parts", "kept"), [(2, range(1)), (4, range(3)), (4, range(1, 4)), (2, range(1, 2))])
def test_a_slice_that_is_not_there_is_named(tmp_path: Path, parts: int, kept: range, rows: bool) -> None:
    (finding,) = findings(slices(tmp_path / "m", parts, kept, rows))
    lost = next(number for number in range(parts) if number not in kept)
    assert finding.rule == "WGT-SHARD-001"
    assert f"consolidated.{lost:02d}.pth" in finding.message.en


def test_sizes_are_still_compared(tmp_path: Path) -> None:
    folder = slices(tmp_path / "m", 1, range(1))
    (folder / "params.json").write_text(json.dumps({**PARAMS, "n_layers": 3}))
    assert [finding.rule for finding in findings(folder)] == ["WGT-KEY-003"]
