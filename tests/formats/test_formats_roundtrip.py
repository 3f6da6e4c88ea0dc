"""Every family there and back again: the same bits, whatever layout, variant and file form lies between."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tiny_models
from safetensors.numpy import load_file
from test_formats_convert import convert, values

from doctor.formats.families import FAMILIES
from doctor.formats.layers import is_buffer

TARGETS = [
    (family.id, layout.id, layout.variant)
    for family in FAMILIES
    if family.id in tiny_models.MODELS
    for layout in family.layouts
    if layout.id != "huggingface"
]


@pytest.mark.parametrize(("family", "layout", "variant"), TARGETS)
def test_every_family_returns_with_the_same_bits(tmp_path: Path, family: str, layout: str, variant: str) -> None:
    form = ("safetensors", "ckpt")[TARGETS.index((family, layout, variant)) % 2]
    dtype = ("float32", "float16")[len(variant) % 2]
    source = tiny_models.write(tmp_path / "source", family, dtype=dtype)
    there = tmp_path / f"there.{form}"
    convert(source, there, layout, variant)
    convert(there, tmp_path / "back", "huggingface", config=source / "config.json", shard=30_000)
    before, after = load_file(source / "model.safetensors"), values(tmp_path / "back")
    if family == "gpt2":  # published GPT-2 and Bloom lack the outer name; it is written
        before = {f"transformer.{name}": array for name, array in before.items()}
    expected = {name for name in before if not is_buffer(name)}
    assert after.keys() == expected
    for name in expected:
        assert before[name].dtype == after[name].dtype and before[name].tobytes() == after[name].tobytes(), name


def deepseek(tmp_path: Path, layout: str, variant: str = "") -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    source = tiny_models.write(tmp_path / "source", "deepseek_v3")
    convert(source, tmp_path / "m.safetensors", layout, variant)
    return load_file(source / "model.safetensors"), load_file(tmp_path / "m.safetensors")


def test_latent_attention_row_by_row(tmp_path: Path) -> None:
    """research/deepseek3/convert_weight.py: per head 6 rows without and 4 with a rotary position; the latter from
    pairs (0 1, 2 3) to halves (0 2, 1 3); rotary rows of the latent key first; keys and values of each head apart."""
    hf, ms = deepseek(tmp_path, "mindformers")
    p, own = "model.layers.2.self_attn.", "model.layers.2.attention."
    query = hf[p + "q_b_proj.weight"]
    plain = [query[head * 10 + row] for head in range(4) for row in range(6)]
    rotary = [query[head * 10 + 6 + row] for head in range(4) for row in (0, 2, 1, 3)]
    assert np.array_equal(ms[own + "l2q_nope_proj.weight"], np.stack(plain))
    assert np.array_equal(ms[own + "l2q_pe_proj.weight"], np.stack(rotary))
    latent = hf[p + "kv_a_proj_with_mqa.weight"]
    assert np.array_equal(ms[own + "kv2l_latent_kv.weight"], latent[:14])
    assert np.array_equal(ms[own + "kv2l_k_pe.weight"], latent[[14, 16, 15, 17]])
    both = hf[p + "kv_b_proj.weight"].reshape(4, 11, 14)
    assert np.array_equal(ms[own + "lkv2kv_k_nope.weight"], both[:, :6].reshape(24, 14))
    assert np.array_equal(ms[own + "lkv2kv_v.weight"], both[:, 6:].reshape(20, 14))


def test_prediction_layers_get_their_own_numbers(tmp_path: Path) -> None:
    """Layers 3 and 4 of the file are prediction layers 0 and 1. Legacy keeps their attention where it is, mcore moves
    it (toolkit/weight_convert/deepseekv3); neither keeps the copies of the embedding and the head."""
    hf, legacy = deepseek(tmp_path / "a", "mindformers")
    for layer, number in ((3, 0), (4, 1)):
        own = f"model.mtp_hidden_fusers.{number}."
        assert np.array_equal(legacy[own + "dense.weight"], hf[f"model.layers.{layer}.eh_proj.weight"])
        assert np.array_equal(legacy[own + "norm_emb.weight"], hf[f"model.layers.{layer}.enorm.weight"])
        assert np.array_equal(legacy[own + "norm.weight"], hf[f"model.layers.{layer}.hnorm.weight"])
        norm = hf[f"model.layers.{layer}.shared_head.norm.weight"]
        assert np.array_equal(legacy[f"model.mtp_norms.{number}.weight"], norm)
        assert f"model.layers.{layer}.attention.wo.weight" in legacy
    assert not [name for name in legacy if "embed_tokens" in name or "shared_head" in name]
    hf, mcore = deepseek(tmp_path / "b", "mcore")
    moved = mcore["mtp.layers.1.transformer_layer.self_attention.linear_proj.weight"]
    assert np.array_equal(moved, hf["model.layers.4.self_attn.o_proj.weight"])
    assert "decoder.layers.3.self_attention.linear_proj.weight" not in mcore
    assert np.array_equal(mcore["mtp.layers.0.enorm.weight"], hf["model.layers.3.enorm.weight"])
    assert np.array_equal(mcore["mtp.layers.0.final_layernorm.weight"], hf["model.layers.3.shared_head.norm.weight"])


def test_fused_down_projections(tmp_path: Path) -> None:
    hf, mcore = deepseek(tmp_path, "mcore", "mla_qkv_concat")
    fused = mcore["decoder.layers.1.self_attention.linear_qkv.weight"]
    assert np.array_equal(fused[:10], hf["model.layers.1.self_attn.q_a_proj.weight"])
    assert np.array_equal(fused[10:], hf["model.layers.1.self_attn.kv_a_proj_with_mqa.weight"])
    gate, up = (hf[f"model.layers.0.mlp.{name}_proj.weight"] for name in ("gate", "up"))
    assert np.array_equal(mcore["decoder.layers.0.mlp.linear_fc1.weight"], np.concatenate([gate, up]))
