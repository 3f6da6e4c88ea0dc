"""Counts what PyTorch keeps for the backward pass of the Hugging Face models, at true size, on the meta device.

Run by hand where torch and transformers are installed; it writes ``saved_tensors.json`` beside itself::

    pip install 'torch==2.13.0' 'transformers==5.24.0'
    python tests/plan/memory/count_saved_tensors.py

Storages are counted once and parameters left out. Attention is registered as a function that keeps what flash
attention keeps: query, key, value, output and one FP32 log-sum-exp a row and head.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS


class Flash(torch.autograd.Function):
    """Attention that computes nothing and keeps what flash attention keeps."""

    @staticmethod
    def forward(ctx, query, key, value):
        batch, heads, rows, _ = query.shape
        out = query.new_empty(batch, rows, heads, value.shape[-1])
        ctx.save_for_backward(query, key, value, out, query.new_empty(batch, heads, rows, dtype=torch.float32))
        return out

    @staticmethod
    def backward(ctx, grad):
        query, key, value, *_ = ctx.saved_tensors
        return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


def flash(module, query, key, value, attention_mask, **kwargs):
    return Flash.apply(query, key, value), None


ALL_ATTENTION_FUNCTIONS["counted"] = flash
# the packed-sequence probe asks for a value, which the meta device does not have
for name in ("find_packed_sequence_indices",):
    setattr(transformers.masking_utils, name, lambda position_ids: None)


def count(config, batch: int, sequence: int, checkpointing: bool) -> tuple[int, int]:
    """Bytes kept at the end of one forward pass with labels, and parameters."""
    config._attn_implementation = "counted"
    config.use_cache = False
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation="counted")
    model.train()
    if checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    owned = {p.untyped_storage()._cdata for p in model.parameters()}
    kept: dict[int, tuple[int, object]] = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in owned:
            kept.setdefault(storage._cdata, (storage.nbytes(), tensor))
        return tensor

    ids = torch.zeros(batch, sequence, dtype=torch.long, device="meta")
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = model(input_ids=ids, labels=ids)
    total = sum(size for size, _ in kept.values())
    del output
    parameters = {id(p): p.numel() for p in model.parameters()}
    return total, sum(parameters.values())


LLAMA = {"hidden_act": "silu", "attention_bias": False}
CASES = {
    "llama2-7b": (
        "llama",
        dict(
            vocab_size=32000,
            hidden_size=4096,
            intermediate_size=11008,
            num_hidden_layers=32,
            num_attention_heads=32,
            **LLAMA,
        ),
        [(1, 2048), (2, 2048), (1, 4096)],
    ),
    "llama2-13b": (
        "llama",
        dict(
            vocab_size=32000,
            hidden_size=5120,
            intermediate_size=13824,
            num_hidden_layers=40,
            num_attention_heads=40,
            **LLAMA,
        ),
        [(1, 2048), (1, 4096)],
    ),
    "llama2-70b": (
        "llama",
        dict(
            vocab_size=32000,
            hidden_size=8192,
            intermediate_size=28672,
            num_hidden_layers=80,
            num_attention_heads=64,
            num_key_value_heads=8,
            **LLAMA,
        ),
        [(1, 4096)],
    ),
    "llama3-8b": (
        "llama",
        dict(
            vocab_size=128256,
            hidden_size=4096,
            intermediate_size=14336,
            num_hidden_layers=32,
            num_attention_heads=32,
            num_key_value_heads=8,
            **LLAMA,
        ),
        [(1, 2048), (2, 4096), (1, 8192)],
    ),
    "llama3.2-1b": (
        "llama",
        dict(
            vocab_size=128256,
            hidden_size=2048,
            intermediate_size=8192,
            num_hidden_layers=16,
            num_attention_heads=32,
            num_key_value_heads=8,
            head_dim=64,
            tie_word_embeddings=True,
            **LLAMA,
        ),
        [(1, 2048), (4, 2048)],
    ),
    "qwen2-7b": (
        "qwen2",
        {
            "vocab_size": 152064,
            "hidden_size": 3584,
            "intermediate_size": 18944,
            "num_hidden_layers": 28,
            "num_attention_heads": 28,
            "num_key_value_heads": 4,
        },
        [(1, 2048), (1, 4096)],
    ),
    "qwen2.5-0.5b": (
        "qwen2",
        {
            "vocab_size": 151936,
            "hidden_size": 896,
            "intermediate_size": 4864,
            "num_hidden_layers": 24,
            "num_attention_heads": 14,
            "num_key_value_heads": 2,
            "tie_word_embeddings": True,
        },
        [(1, 2048), (8, 1024)],
    ),
    "qwen2.5-14b": (
        "qwen2",
        {
            "vocab_size": 152064,
            "hidden_size": 5120,
            "intermediate_size": 13824,
            "num_hidden_layers": 48,
            "num_attention_heads": 40,
            "num_key_value_heads": 8,
        },
        [(1, 2048)],
    ),
    "qwen3-0.6b": (
        "qwen3",
        {
            "vocab_size": 151936,
            "hidden_size": 1024,
            "intermediate_size": 3072,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "tie_word_embeddings": True,
        },
        [(1, 2048), (4, 4096)],
    ),
    "qwen3-8b": (
        "qwen3",
        {
            "vocab_size": 151936,
            "hidden_size": 4096,
            "intermediate_size": 12288,
            "num_hidden_layers": 36,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
        },
        [(1, 4096)],
    ),
    "qwen3-32b": (
        "qwen3",
        {
            "vocab_size": 151936,
            "hidden_size": 5120,
            "intermediate_size": 25600,
            "num_hidden_layers": 64,
            "num_attention_heads": 64,
            "num_key_value_heads": 8,
            "head_dim": 128,
        },
        [(1, 4096)],
    ),
    "mistral-7b": (
        "mistral",
        {
            "vocab_size": 32000,
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
        },
        [(1, 4096)],
    ),
    "gpt2": ("gpt2", {"n_positions": 2048}, [(1, 2048), (4, 1024)]),
    "gpt2-medium": ("gpt2", {"n_positions": 1024, "n_embd": 1024, "n_layer": 24, "n_head": 16}, [(2, 1024)]),
    "gpt2-xl": ("gpt2", {"n_positions": 1024, "n_embd": 1600, "n_layer": 48, "n_head": 25}, [(1, 1024)]),
    "gpt2-xl-no-dropout": (
        "gpt2",
        {
            "n_positions": 1024,
            "n_embd": 1600,
            "n_layer": 48,
            "n_head": 25,
            "resid_pdrop": 0.0,
            "embd_pdrop": 0.0,
            "attn_pdrop": 0.0,
        },
        [(1, 1024)],
    ),
    "glm4-9b": (
        "glm",
        {
            "vocab_size": 151552,
            "hidden_size": 4096,
            "intermediate_size": 13696,
            "num_hidden_layers": 40,
            "num_attention_heads": 32,
            "num_key_value_heads": 2,
            "head_dim": 128,
            "attention_bias": True,
            "tie_word_embeddings": False,
            "pad_token_id": 0,
        },
        [(1, 2048), (1, 4096)],
    ),
    "glm4-0414-9b": (
        "glm4",
        {
            "vocab_size": 151552,
            "hidden_size": 4096,
            "intermediate_size": 13696,
            "num_hidden_layers": 40,
            "num_attention_heads": 32,
            "num_key_value_heads": 2,
            "head_dim": 128,
            "attention_bias": True,
            "tie_word_embeddings": False,
            "pad_token_id": 0,
        },
        [(1, 2048)],
    ),
    "bloom-560m": ("bloom", {"vocab_size": 250880, "hidden_size": 1024, "n_layer": 24, "n_head": 16}, []),
    "qwen3-30b-a3b": (
        "qwen3_moe",
        {
            "vocab_size": 151936,
            "hidden_size": 2048,
            "intermediate_size": 6144,
            "moe_intermediate_size": 768,
            "num_hidden_layers": 48,
            "num_attention_heads": 32,
            "num_key_value_heads": 4,
            "head_dim": 128,
            "num_experts": 128,
            "num_experts_per_tok": 8,
        },
        [],
    ),
    "deepseek-v3-dense": ("deepseek_v3", {"num_hidden_layers": 3, "first_k_dense_replace": 3}, []),
}


def main() -> None:
    rows = []
    for name, (kind, fields, sizes) in CASES.items():
        config = AutoConfig.for_model(kind, **fields)
        for batch, sequence in sizes or [(1, 2048)]:
            for checkpointing in (False, True):
                try:
                    kept, parameters = count(config, batch, sequence, checkpointing)
                except Exception as error:  # noqa: BLE001 - a model that cannot be counted is listed
                    print(name, batch, sequence, checkpointing, type(error).__name__, str(error)[:100])
                    continue
                rows.append(
                    {
                        "name": name,
                        "kind": kind,
                        "config": fields,
                        "batch": batch,
                        "sequence": sequence,
                        "recompute": checkpointing,
                        "kept": kept,
                        "parameters": parameters,
                    }
                )
                print(name, batch, sequence, checkpointing, round(kept / 2**30, 3), parameters)
    report = {"torch": torch.__version__, "transformers": transformers.__version__, "dtype": "bfloat16", "rows": rows}
    Path(__file__).with_name("saved_tensors.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
