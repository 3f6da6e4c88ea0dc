# ruff: noqa: C408
"""Makes the reference models beside it: tiny, randomly initialised, written by torch and transformers themselves.

Run it in an environment that has torch 2.13 and transformers 5.24 (the tests need neither):

    python make_reference.py

For each family: ``<family>/config.json`` and ``model.safetensors`` as save_pretrained writes them, and
``logits.json`` with token ids and the logits of the model for them. ``torch/`` holds the same small set of
tensors as ``torch.save`` writes it in its several formats.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM

HERE = Path(__file__).parent
TINY = {
    "llama": dict(hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
                  num_key_value_heads=2, vocab_size=61, max_position_embeddings=64),
    "qwen2": dict(hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
                  num_key_value_heads=2, vocab_size=61, max_position_embeddings=64, tie_word_embeddings=True),
    "qwen3": dict(hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, head_dim=8,
                  num_key_value_heads=2, vocab_size=61, max_position_embeddings=64),
    "qwen3_moe": dict(hidden_size=24, intermediate_size=40, moe_intermediate_size=12, num_hidden_layers=2,
                      num_attention_heads=4, head_dim=8, num_key_value_heads=2, vocab_size=61, num_experts=4,
                      num_experts_per_tok=2, max_position_embeddings=64, mlp_only_layers=[0]),
    "glm": dict(hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, head_dim=8,
                num_key_value_heads=2, vocab_size=61, attention_bias=True, max_position_embeddings=64,
                pad_token_id=0, eos_token_id=1),
    "glm4": dict(hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, head_dim=8,
                 num_key_value_heads=2, vocab_size=61, attention_bias=True, max_position_embeddings=64,
                 pad_token_id=0, eos_token_id=1),
    "glm4_moe": dict(hidden_size=32, intermediate_size=40, moe_intermediate_size=12, num_hidden_layers=2,
                     num_attention_heads=4, head_dim=8, num_key_value_heads=2, vocab_size=61, n_routed_experts=4,
                     num_experts_per_tok=2, n_shared_experts=1, first_k_dense_replace=1, attention_bias=True,
                     use_qk_norm=True, n_group=1, topk_group=1, max_position_embeddings=64, pad_token_id=0),
    "bloom": dict(hidden_size=32, n_layer=2, n_head=4, vocab_size=61, pad_token_id=0),
    "gpt2": dict(n_embd=32, n_layer=2, n_head=4, vocab_size=61, n_positions=48, bos_token_id=1, eos_token_id=1),
    "deepseek_v3": dict(hidden_size=32, intermediate_size=40, moe_intermediate_size=12, num_hidden_layers=3,
                        num_attention_heads=4, num_key_value_heads=4, n_routed_experts=4, n_shared_experts=1,
                        num_experts_per_tok=2, first_k_dense_replace=1, q_lora_rank=10, kv_lora_rank=14,
                        qk_rope_head_dim=4, qk_nope_head_dim=6, v_head_dim=5, vocab_size=61, n_group=1,
                        topk_group=1, max_position_embeddings=64),
}  # fmt: skip


def models() -> None:
    for family, fields in TINY.items():
        torch.manual_seed(7)
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **fields)).eval()
        with torch.no_grad():
            for parameter in model.parameters():  # zeros and ones would hide a mix-up
                parameter.add_(torch.randn_like(parameter) * 0.05)
        folder = HERE / family
        model.save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
        tokens = torch.randint(2, 61, (2, 9))
        with torch.no_grad():
            logits = model(tokens).logits
        rounded = [[[round(value, 6) for value in row] for row in rows] for rows in logits.tolist()]
        (folder / "logits.json").write_text(json.dumps({"tokens": tokens.tolist(), "logits": rounded}))


def files() -> None:
    folder = HERE / "torch"
    folder.mkdir(exist_ok=True)
    torch.manual_seed(3)
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    tensors = {
        "f32": base.clone(),
        "f16": torch.randn(3, 5).half(),
        "bf16": torch.randn(7).bfloat16(),
        "i64": torch.tensor([1, -2, 3]),
        "flag": torch.tensor([True, False]),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
        "transposed": base.t(),
        "view": base[1:3],
        "shares.a": base,
        "shares.b": base,
        "parameter": torch.nn.Parameter(torch.ones(2, 2)),
        "empty": torch.zeros(0, 4),
        "fp8": torch.ones(2, 2).to(torch.float8_e4m3fn),
    }
    torch.save(tensors, folder / "new.bin")
    torch.save(tensors, folder / "legacy.bin", _use_new_zipfile_serialization=False)
    torch.save({"model": tensors, "optimizer": {"step": 3}, "epoch": 2, "args": {"lr": 1e-4}}, folder / "nested.pth")
    torch.save(torch.nn.Linear(3, 2).state_dict(), folder / "ordered.pth")
    torch.save(torch.nn.Linear(3, 2), folder / "module.pt")
    torch.save(tensors, folder / "protocol4.bin", pickle_protocol=4)


if __name__ == "__main__":
    models()
    files()
