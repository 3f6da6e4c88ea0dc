"""The shapes of Hugging Face configs, written out by hand for the tests (the product reads configs elsewhere)."""

from __future__ import annotations

from typing import Any

from doctor.plan.memory.shape import Experts, Latent, ModelShape

_LLAMA_LIKE = {"llama", "mistral", "qwen2", "qwen3", "glm", "glm4", "qwen3_moe"}


def shape_of(kind: str, config: dict[str, Any]) -> ModelShape:
    if kind in _LLAMA_LIKE:
        moe = None
        if kind == "qwen3_moe":
            moe = Experts(config["num_experts"], config["num_experts_per_tok"], config["moe_intermediate_size"])
        return ModelShape(
            config["num_hidden_layers"],
            config["hidden_size"],
            config["num_attention_heads"],
            config["vocab_size"],
            config["intermediate_size"],
            family=kind,
            kv_heads=config.get("num_key_value_heads"),
            head_size=config.get("head_dim"),
            tied=config.get("tie_word_embeddings", False),
            qkv_bias=kind == "qwen2" or config.get("attention_bias", False),
            qk_norm=kind.startswith("qwen3"),
            norms_per_layer=4 if kind == "glm4" else 2,
            experts=moe,
        )
    if kind == "deepseek_v3":
        latent = Latent(kv_rank=512, nope_dim=128, rope_dim=64, value_dim=128, q_rank=1536)
        return ModelShape(3, 7168, 128, 129280, 18432, family=kind, latent=latent)
    hidden = config.get("n_embd", config.get("hidden_size", 768))
    gpt2 = kind == "gpt2"
    return ModelShape(
        config.get("n_layer", 12),
        hidden,
        config.get("n_head", 12),
        config.get("vocab_size", 50257),
        4 * hidden,
        family=kind,
        gated=False,
        norm="layer",
        tied=True,
        positions=config["n_positions"] if gpt2 else 0,
        embedding_norm=not gpt2,
        qkv_bias=True,
        output_bias=True,
        mlp_bias=True,
        dropout=gpt2 and config.get("resid_pdrop", 0.1) > 0,
        activation="gelu_new" if gpt2 else "gelu",
    )
