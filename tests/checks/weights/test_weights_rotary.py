"""Meta's order of query and key rows under names that mean Hugging Face's, and the other way round.

Row sizes are those of tiny models that were trained (tests/formats/reference/make_rotary.py); directions are random.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from official import llama_hf
from safetensors.numpy import load_file, save_file
from test_formats_convert import convert

from doctor.check import Options
from doctor.runner import judge_path

SIZES = json.loads((Path(__file__).resolve().parents[2] / "formats/reference/rotary.json").read_text())
Tensors = dict[str, np.ndarray]


def trained(groups: int, seed: int = 0) -> Tensors:
    rng = np.random.default_rng(seed)
    found: Tensors = {}
    for name, shape in llama_hf(64, 128, 96, 4, groups, 32, 4).items():
        found[name] = (rng.standard_normal(shape) * 0.02 + (len(shape) == 1)).astype("float32")
    for layer, sizes in enumerate(SIZES[str(groups)]):
        for name, logs in sizes.items():
            rows = rng.standard_normal((len(logs), 128))
            rows /= np.sqrt((rows**2).mean(1, keepdims=True))
            found[f"model.layers.{layer}.self_attn.{name}.weight"] = (
                rows * np.exp(np.array(logs) / 2)[:, None]
            ).astype("float32")
    return found


def turned(tensors: Tensors) -> Tensors:
    """As Meta keeps them: pairs side by side."""
    out = dict(tensors)
    for name, array in tensors.items():
        if "q_proj" in name or "k_proj" in name:
            out[name] = array.reshape(-1, 2, 16, 128).swapaxes(1, 2).reshape(-1, 128).copy()
    return out


def write(folder: Path, tensors: Tensors, groups: int) -> Path:
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    config = {"model_type": "llama", "hidden_size": 128, "intermediate_size": 96, "num_hidden_layers": 4,
              "num_attention_heads": 4, "num_key_value_heads": groups, "vocab_size": 64}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def found(path: Path) -> list[str]:
    judged = judge_path(path, Options(values=True))
    return [f.rule for outcome in judged.outcomes for f in outcome.findings if f.severity.rank >= 1]


@pytest.mark.parametrize("groups", [4, 2])
@pytest.mark.parametrize("wrong", [False, True])
def test_hugging_face_names(tmp_path: Path, groups: int, wrong: bool) -> None:
    tensors = trained(groups)
    folder = write(tmp_path / "hf", turned(tensors) if wrong else tensors, groups)
    assert found(folder) == (["WGT-ORD-002"] if wrong else [])


@pytest.mark.parametrize(("layout", "variant"), [("mindformers", ""), ("mindformers", "qkv_concat"), ("mcore", "")])
@pytest.mark.parametrize("wrong", [False, True])
def test_other_layouts(tmp_path: Path, layout: str, variant: str, wrong: bool) -> None:
    """The rows of a conversion from files in Meta's order under Hugging Face's names."""
    tensors = trained(4, seed=1)
    source = write(tmp_path / "hf", turned(tensors) if wrong else tensors, 4)
    (tmp_path / "out").mkdir()
    convert(source, tmp_path / "out" / "m.safetensors", layout, variant)
    (tmp_path / "out" / "config.json").write_text((source / "config.json").read_text())
    assert ("WGT-ORD-002" in found(tmp_path / "out")) == wrong


def test_meta_names(tmp_path: Path) -> None:
    source = write(tmp_path / "hf", trained(4, seed=1), 4)
    (tmp_path / "out").mkdir()
    convert(source, tmp_path / "out" / "consolidated.safetensors", "meta")
    (tmp_path / "out" / "config.json").write_text((source / "config.json").read_text())
    assert "WGT-ORD-002" not in found(tmp_path / "out")
    tensors = load_file(tmp_path / "out" / "consolidated.safetensors")
    for name, array in load_file(source / "model.safetensors").items():
        for letter in "qk":
            if f"self_attn.{letter}_proj" in name:
                own = name.replace("model.", "").replace(f"self_attn.{letter}_proj", f"attention.w{letter}")
                assert own in tensors
                tensors[own] = array
    save_file(tensors, tmp_path / "out" / "consolidated.safetensors")
    assert "WGT-ORD-002" in found(tmp_path / "out")


def test_random_rows_say_nothing(tmp_path: Path) -> None:
    for seed in range(12):
        rng = np.random.default_rng(seed)
        tensors = {n: rng.standard_normal(a.shape).astype("float32") for n, a in trained(4).items()}
        folder = write(tmp_path / str(seed), tensors, 4)
        assert "WGT-ORD-002" not in found(folder)


def test_it_names_both_orders_and_its_confidence(tmp_path: Path) -> None:
    folder = write(tmp_path / "hf", turned(trained(4)), 4)
    (finding,) = [
        f for o in judge_path(folder, Options(values=True)).outcomes for f in o.findings if f.rule == "WGT-ORD-002"
    ]
    assert 0.5 < finding.confidence <= 0.9
    assert "side by side (Meta)" in finding.message.en and "相邻" in finding.message.zh
