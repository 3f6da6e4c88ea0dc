"""Writes the references of the parity tests with Hugging Face's models on torch.

    python -m venv /tmp/peer && /tmp/peer/bin/pip install torch==2.13.0 transformers==5.24.0 'numpy<3'
    /tmp/peer/bin/python tests/trainer/references/make.py

Each file holds one tiny model of a family: its config, the shapes of its weights by Hugging Face's names (their
values follow from `values`, so they need not be kept), ids, logits, loss and the gradient of every weight. The tests
read them; they need neither torch nor transformers.
"""

from __future__ import annotations

import json
import math
import zlib
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
SIZES = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
GQA = {**SIZES, "num_key_value_heads": 2, "intermediate_size": 24, "max_position_embeddings": 32}
THETA = {"rope_theta": 10000.0, "rope_type": "default"}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
HALF = {"rope_theta": 10000.0, "rope_type": "default", "partial_rotary_factor": 0.5}

#: file name -> Hugging Face's class and config
MODELS = {
    "llama": ("Llama", {**GQA, "num_key_value_heads": 4, "rms_norm_eps": 1e-5, "rope_parameters": THETA}),
    "llama3": ("Llama", {**GQA, "rms_norm_eps": 1e-5, "rope_parameters": LLAMA3, "tie_word_embeddings": True}),
    "qwen2": ("Qwen2", {**GQA, "rms_norm_eps": 1e-6, "rope_parameters": {**THETA, "rope_theta": 1e6}}),
    "qwen3": ("Qwen3", {**GQA, "head_dim": 8, "rms_norm_eps": 1e-6, "rope_parameters": {**THETA, "rope_theta": 1e6}}),
    "glm": (
        "Glm",
        {
            **GQA,
            "head_dim": 8,
            "rms_norm_eps": 1e-5,
            "attention_bias": True,
            "rope_parameters": HALF,
            "pad_token_id": None,
        },
    ),
    "glm4": (
        "Glm4",
        {
            **GQA,
            "head_dim": 8,
            "rms_norm_eps": 1e-5,
            "attention_bias": True,
            "rope_parameters": HALF,
            "pad_token_id": None,
        },
    ),
    "bloom": (
        "Bloom",
        {
            "vocab_size": 40,
            "hidden_size": 24,
            "n_layer": 2,
            "n_head": 6,
            "layer_norm_epsilon": 1e-5,
            "hidden_dropout": 0.0,
            "attention_dropout": 0.0,
        },
    ),
    "gpt2": (
        "GPT2",
        {
            "vocab_size": 40,
            "n_embd": 16,
            "n_layer": 2,
            "n_head": 4,
            "n_positions": 32,
            "resid_pdrop": 0.0,
            "embd_pdrop": 0.0,
            "attn_pdrop": 0.0,
        },
    ),
}


def values(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Weights that follow from their name: matrices around 0, vectors of norms around 1, biases around 0."""
    noise = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape).astype(np.float32)
    norm = len(shape) == 1 and name.endswith("weight")
    return noise * np.float32(0.1) + np.float32(1.0 if norm else 0.0)


def ids(count: int = 3, length: int = 12) -> np.ndarray:
    return np.random.default_rng(7).integers(0, 40, (count, length)).astype(np.int64)


def main() -> None:
    import torch
    import transformers

    for name, (family, settings) in MODELS.items():
        config = getattr(transformers, f"{family}Config")(**settings)
        config._attn_implementation = "eager"
        model_class = {"GPT2": "GPT2LMHeadModel"}.get(family, f"{family}ForCausalLM")
        model = getattr(transformers, model_class)(config).eval()
        weights = dict(model.named_parameters())
        with torch.no_grad():
            for key, weight in weights.items():
                weight.copy_(torch.from_numpy(values(key, tuple(weight.shape))))
        batch = torch.from_numpy(ids())
        out = model(batch, labels=batch)
        out.loss.backward()
        arrays = {
            "config": np.array(json.dumps(settings)),
            "shapes": np.array(json.dumps({key: list(weight.shape) for key, weight in weights.items()})),
            "logits": out.logits.detach().numpy(),
            "loss": out.loss.detach().numpy(),
            **{f"gradient.{key}": weight.grad.numpy() for key, weight in weights.items()},
        }
        np.savez_compressed(HERE / f"{name}.npz", **arrays)
        if name == "llama":
            np.savez_compressed(HERE / "adamw.npz", losses=steps(model, weights, batch, torch))
        print(name, float(out.loss), (HERE / f"{name}.npz").stat().st_size)


def steps(model, weights, batch, torch) -> np.ndarray:
    """Losses of 12 steps: AdamW without decay on vectors, clipping at 0.5, warm-up of 3, cosine to a tenth."""
    groups = [
        {"params": [w for w in weights.values() if w.ndim >= 2], "weight_decay": 0.1},
        {"params": [w for w in weights.values() if w.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for step in range(12):
        done = min(1.0, max(0, step - 3) / 9)
        rate = 0.01 * step / 3 if step < 3 else 0.001 + 0.009 * 0.5 * (1 + math.cos(math.pi * done))
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        loss = model(batch, labels=batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights.values(), 0.5)
        optimizer.step()
        losses.append(float(loss))
    return np.array(losses)


if __name__ == "__main__":
    main()
