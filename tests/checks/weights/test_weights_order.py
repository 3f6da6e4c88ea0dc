"""Row order of fused projections: suspected in the wrong order, silent in the right one and on random weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from doctor.check import Options
from doctor.runner import judge_path

H, A, G, D, F, LAYERS = 48, 6, 2, 8, 96, 6
Tensors = dict[str, np.ndarray]


def mcore(seed: int, spread: float, attention: str = "grouped", mlp: str = "interleaved") -> Tensors:
    """A dense mcore model with a norm on q and k. `spread` is how much q, k, v and gate, up differ in size: trained
    models of 5 to 10 million parameters had 0.1 to 0.4 in the logarithm."""
    rng = np.random.default_rng(seed)

    def matrix(rows: int, columns: int, log_size: float = 0.0) -> np.ndarray:
        rough = np.exp(rng.normal(0, 0.25, (rows, 1)) / 2 + log_size / 2)
        return (rng.normal(0, 0.02, (rows, columns)) * rough).astype("float32")

    tensors = {
        "embedding.word_embeddings.weight": matrix(100, H),
        "output_layer.weight": matrix(100, H),
        "decoder.final_layernorm.weight": np.ones(H, "float32"),
    }
    for layer in range(LAYERS):
        p = f"decoder.layers.{layer}."
        q, k, v = matrix(A * D, H, spread), matrix(G * D, H, 2 * spread), matrix(G * D, H, -spread)
        if attention == "grouped":
            parts = []
            for group in range(G):
                per = A // G * D
                parts += [
                    q[group * per : (group + 1) * per],
                    k[group * D : (group + 1) * D],
                    v[group * D : (group + 1) * D],
                ]
            tensors[p + "self_attention.linear_qkv.weight"] = np.concatenate(parts)
        else:
            tensors[p + "self_attention.linear_qkv.weight"] = np.concatenate([q, k, v])
        gate, up = matrix(F, H, spread), matrix(F, H, -spread)
        fused = np.stack([gate, up], 1).reshape(-1, H) if mlp == "interleaved" else np.concatenate([gate, up])
        tensors[p + "mlp.linear_fc1.weight"] = fused
        tensors[p + "mlp.linear_fc2.weight"] = matrix(H, F)
        tensors[p + "self_attention.linear_proj.weight"] = matrix(H, A * D)
        for name in ("input_layernorm", "pre_mlp_layernorm"):
            tensors[f"{p}{name}.weight"] = np.ones(H, "float32")
        for name in ("q_layernorm", "k_layernorm"):
            tensors[f"{p}self_attention.{name}.weight"] = np.ones(D, "float32")
    return tensors


#: What the evidence calls the orders.
ORDERS = {
    "q, then k, then v": "plain",
    "grouped by KV head (Megatron's order)": "grouped",
    "all gate rows, then all up rows": "halves",
    "gate and up rows in turn": "interleaved",
}


def found(path: Path, **options: object) -> list[str]:
    judged = judge_path(path, Options(values=True, **options))  # type: ignore[arg-type]
    assert not [outcome for outcome in judged.outcomes if outcome.state == "crashed"]
    return [
        ORDERS[finding.evidence[0].observed.en]
        for outcome in judged.outcomes
        for finding in outcome.findings
        if finding.rule == "WGT-ORD-001"
    ]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("attention", "mlp", "expected"),
    [
        ("grouped", "interleaved", []),
        ("plain", "interleaved", ["plain"]),
        ("grouped", "halves", ["halves"]),
        ("plain", "halves", ["plain", "halves"]),
    ],
)
def test_the_wrong_order_is_suspected(tmp_path: Path, seed: int, attention: str, mlp: str, expected: list[str]) -> None:
    save_file(mcore(seed, 0.3, attention, mlp), tmp_path / "model.safetensors")
    assert found(tmp_path / "model.safetensors") == expected


@pytest.mark.parametrize("seed", range(12))
def test_random_weights_say_nothing(tmp_path: Path, seed: int) -> None:
    order = ("plain", "halves") if seed % 2 else ("grouped", "interleaved")
    save_file(mcore(seed, 0.0, *order), tmp_path / "model.safetensors")
    assert found(tmp_path / "model.safetensors") == []


def test_a_config_that_reads_contiguous_rows_turns_it_round(tmp_path: Path) -> None:
    save_file(mcore(1, 0.3, "plain", "halves"), tmp_path / "model.safetensors")
    config = tmp_path / "train.yaml"
    config.write_text(
        "use_legacy: False\ntrainer: {type: CausalLanguageModelingTrainer, model_name: qwen3}\n"
        "model:\n  model_config:\n    model_type: qwen3\n    architectures: ['Qwen3ForCausalLM']\n"
        f"    hidden_size: {H}\n    num_hidden_layers: {LAYERS}\n    num_attention_heads: {A}\n"
        f"    num_key_value_heads: {G}\n    head_dim: {D}\n    intermediate_size: {F}\n    vocab_size: 100\n"
        "    use_contiguous_weight_layout_attention: True\n    use_interleaved_weight_layout_mlp: False\n"
    )
    assert found(tmp_path / "model.safetensors", against=str(config)) == []
