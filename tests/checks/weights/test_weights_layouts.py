"""Official models at their true sizes, in every layout: headers only, the tensors are holes in sparse files."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from official import COUNTS, OFFICIAL, Shapes

from doctor.check import Options
from doctor.runner import Judged, judge_path


def sparse(path: Path, shapes: Shapes, width: int = 2) -> Path:
    """A safetensors file whose header is whole and whose tensors take no room on disk."""
    header = {}
    at = 0
    for name, shape in shapes.items():
        size = width
        for length in shape:
            size *= length
        header[name] = {"dtype": "BF16" if width == 2 else "F32", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    raw = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(raw)) + raw)
        file.truncate(8 + len(raw) + at)
    return path


def rules(judged: Judged) -> list[str]:
    assert not [outcome for outcome in judged.outcomes if outcome.state == "crashed"]
    return sorted({finding.rule for outcome in judged.outcomes for finding in outcome.findings})


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.heavy) if name == "DeepSeek-V3" else name for name in OFFICIAL]
)
def test_an_official_model_is_clean_and_called_by_its_name(tmp_path: Path, name: str) -> None:
    family, layout, published, shapes = OFFICIAL[name]
    judged = judge_path(sparse(tmp_path / "model.safetensors", shapes()), Options())
    facts = judged.facts["weights"]
    assert rules(judged) == []
    assert (facts["family"], facts["layout"], facts["model"]) == (family, layout, published)
    if name in COUNTS:
        assert facts["parameters"] == COUNTS[name]


CONFIG_7B = {
    "model_type": "llama", "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "tie_word_embeddings": False,
}  # fmt: skip


def test_a_13b_checkpoint_under_a_7b_config(tmp_path: Path) -> None:
    sparse(tmp_path / "model.safetensors", OFFICIAL["LLaMA-2-13B"][3]())
    (tmp_path / "config.json").write_text(json.dumps(CONFIG_7B, indent=1))
    judged = judge_path(tmp_path, Options())
    assert rules(judged) == ["WGT-SHP-002"]
    (finding,) = [finding for outcome in judged.outcomes for finding in outcome.findings]
    assert "LLaMA-13B/LLaMA-2-13B" in finding.title.en and "LLaMA-7B/LLaMA-2-7B" in finding.title.en
    assert "hidden_size 5120 against 4096" in finding.message.en and "40" in finding.message.en
    assert {item.line for item in finding.evidence} == {4, 5, 6, 7, 8}


def test_a_7b_cut_down_to_fewer_layers(tmp_path: Path) -> None:
    sparse(tmp_path / "model.safetensors", OFFICIAL["LLaMA-2-7B"][3]())
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG_7B, "num_hidden_layers": 16}))
    assert rules(judge_path(tmp_path, Options())) == ["WGT-KEY-004"]


TRAINING = """\
use_legacy: {legacy}
trainer:
  type: CausalLanguageModelingTrainer
  model_name: 'llama2_7b'
model:
  model_config:
    type: LlamaConfig
    seq_length: 4096
    hidden_size: {hidden}
    num_layers: {layers}
    num_heads: 32
    vocab_size: {vocabulary}
    multiple_of: 256
    {extra}
  arch:
    type: LlamaForCausalLM
"""


def training(tmp_path: Path, hidden: int = 4096, layers: int = 32, vocabulary: int = 32000, extra: str = "") -> Path:
    path = tmp_path / "finetune.yaml"
    path.write_text(TRAINING.format(legacy=True, hidden=hidden, layers=layers, vocabulary=vocabulary, extra=extra))
    return path


@pytest.mark.parametrize(
    ("weights", "changes", "expected"),
    [
        ("LLaMA-2-7B MindFormers", {}, []),
        ("LLaMA-2-7B MindFormers", {"vocabulary": 32001}, ["WGT-SHP-003"]),
        ("LLaMA-2-7B MindFormers", {"layers": 16}, ["WGT-KEY-004"]),
        ("LLaMA-2-7B MindFormers", {"layers": 40}, ["WGT-KEY-003"]),
        ("LLaMA-2-7B MindFormers", {"hidden": 5120, "layers": 40}, ["WGT-SHP-002"]),
        ("LLaMA-2-7B MindFormers", {"extra": "intermediate_size: 14336"}, ["WGT-SHP-004"]),
        ("LLaMA-2-7B MindFormers", {"extra": "n_kv_heads: 8"}, ["WGT-SHP-005"]),
        ("LLaMA-2-7B MindFormers", {"extra": "qkv_concat: True"}, ["WGT-KEY-009"]),
        ("LLaMA-2-70B fused", {"extra": "qkv_concat: True"}, ["WGT-SHP-002"]),
        ("LLaMA-2-7B", {}, []),
        ("LLaMA-2-7B Meta", {}, ["WGT-KEY-006"]),
        ("LLaMA-3-8B mcore", {}, ["WGT-KEY-006", "WGT-SHP-002"]),
        ("Qwen2-7B MindFormers", {"extra": "qkv_has_bias: True"}, ["WGT-SHP-002"]),
        ("Bloom-7B1 MindFormers", {}, ["WGT-KEY-008"]),
    ],
)
def test_weights_against_a_training_config(
    tmp_path: Path, weights: str, changes: dict[str, object], expected: list[str]
) -> None:
    path = sparse(tmp_path / "model.safetensors", OFFICIAL[weights][3]())
    config = training(tmp_path, **changes)  # type: ignore[arg-type]
    found = rules(judge_path(path, Options(against=str(config))))
    assert found == expected
