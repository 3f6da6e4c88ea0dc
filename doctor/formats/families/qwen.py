"""The first Qwen (``QWenLMHeadModel``): GPT-2's names, one fused attention projection with a bias, a gated MLP.

Names: the model's own modeling_qwen.py; MindFormers research/qwen. ``intermediate_size`` of its config is
twice the width of one of the two gated projections.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from doctor.formats.families.family import (
    MINDFORMERS,
    Family,
    Layout,
    Sizes,
    alike,
    group,
    identity,
    layer,
    number,
    number_or,
    param,
)
from doctor.formats.families.ops import THIRDS

_HF = "transformer.h.{i}."
_MF = "transformer.layers.{i}."

_PARAMS = (
    param("transformer.wte.weight", "V H"),
    *layer(
        _HF,
        {
            "ln_1.weight": "H",
            "attn.c_attn.weight": "3*Q H",
            "attn.c_attn.bias": "3*Q",
            "attn.c_proj.weight": "H Q",
            "ln_2.weight": "H",
            "mlp.w1.weight": "F H",
            "mlp.w2.weight": "F H",
            "mlp.c_proj.weight": "H F",
        },
    ),
    param("transformer.ln_f.weight", "H"),
    param("lm_head.weight", "V H", "head"),
)

_MINDFORMERS = Layout(
    MINDFORMERS,
    (
        group("transformer.wte.embedding_weight", "transformer.wte.weight"),
        group("transformer.ln_f.weight", "transformer.ln_f.weight"),
        group("lm_head.weight", "lm_head.weight"),
        *(
            group(
                tuple(f"{_MF}attention.{name}.{part}" for name in ("wq", "wk", "wv")),
                f"{_HF}attn.c_attn.{part}",
                THIRDS,
            )
            for part in ("weight", "bias")
        ),
        group(f"{_MF}attention.wo.weight", f"{_HF}attn.c_proj.weight"),
        group(f"{_MF}attention_norm.weight", f"{_HF}ln_1.weight"),
        group(f"{_MF}ffn_norm.weight", f"{_HF}ln_2.weight"),
        group(f"{_MF}feed_forward.w1.weight", f"{_HF}mlp.w1.weight"),
        group(f"{_MF}feed_forward.w3.weight", f"{_HF}mlp.w2.weight"),
        group(f"{_MF}feed_forward.w2.weight", f"{_HF}mlp.c_proj.weight"),
    ),
)


def sizes(config: Mapping[str, Any]) -> Sizes:
    """Of the model's config.json."""
    hidden = number(config, "hidden_size")
    heads = number(config, "num_attention_heads")
    head = number_or(config, hidden // heads, "kv_channels")
    rows = heads * head
    return Sizes(
        {
            "V": number(config, "vocab_size"),
            "H": hidden,
            "Q": rows,
            "K": rows,
            "D": head,
            "F": number(config, "intermediate_size") // 2,
        },
        alike(number(config, "num_hidden_layers")),
        frozenset({"head"}),
    )


QWEN = Family(
    id="qwen",
    title="Qwen",
    model_types=("qwen",),
    params=_PARAMS,
    layouts=(identity(_PARAMS), _MINDFORMERS),
    sizes=sizes,
    aliases=("qwen", "qwenforcausallm", "qwenconfig"),
)
