"""GPT-2 and Bloom, the families with LayerNorm, biases and a tied head.

Names: Hugging Face modeling files; MindFormers models/gpt2 and models/bloom (0.3 to 1.3): LayerNorms are
``gamma``/``beta`` there, and linear weights of the feed-forward are kept [in, out].
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from doctor.formats.families.family import (
    MINDFORMERS,
    Family,
    Group,
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
from doctor.formats.families.ops import HEADS, SAME, THIRDS, THIRDS_OF_COLUMNS, TRANSPOSED

_HEAD_OPEN = frozenset({"head"})


def _norm(own: str, canonical: str) -> tuple[Group, Group]:
    return group(f"{own}.gamma", f"{canonical}.weight"), group(f"{own}.beta", f"{canonical}.bias")


_G = "transformer.h.{i}."
_GPT2 = (
    param("transformer.wte.weight", "V H"),
    param("transformer.wpe.weight", "P H"),
    *layer(
        _G,
        {
            "ln_1.weight": "H",
            "ln_1.bias": "H",
            "attn.c_attn.weight": "H 3*H",
            "attn.c_attn.bias": "3*H",
            "attn.c_proj.weight": "H H",
            "attn.c_proj.bias": "H",
            "ln_2.weight": "H",
            "ln_2.bias": "H",
            "mlp.c_fc.weight": "H F",
            "mlp.c_fc.bias": "F",
            "mlp.c_proj.weight": "F H",
            "mlp.c_proj.bias": "H",
        },
    ),
    param("transformer.ln_f.weight", "H"),
    param("transformer.ln_f.bias", "H"),
    param("lm_head.weight", "V H", "head"),
)
_GB = "backbone.blocks.{i}."
_GPT2_MF = Layout(
    MINDFORMERS,
    (
        group("backbone.embedding.word_embedding.embedding_table", "transformer.wte.weight"),
        group("backbone.embedding.position_embedding.embedding_table", "transformer.wpe.weight"),
        *_norm("backbone.layernorm", "transformer.ln_f"),
        *_norm(f"{_GB}layernorm1", f"{_G}ln_1"),
        *_norm(f"{_GB}layernorm2", f"{_G}ln_2"),
        group(
            tuple(f"{_GB}attention.dense{n}.weight" for n in (1, 2, 3)), f"{_G}attn.c_attn.weight", THIRDS_OF_COLUMNS
        ),
        group(tuple(f"{_GB}attention.dense{n}.bias" for n in (1, 2, 3)), f"{_G}attn.c_attn.bias", THIRDS),
        group(f"{_GB}attention.projection.weight", f"{_G}attn.c_proj.weight"),
        group(f"{_GB}attention.projection.bias", f"{_G}attn.c_proj.bias"),
        group(f"{_GB}output.mapping.weight", f"{_G}mlp.c_fc.weight"),
        group(f"{_GB}output.mapping.bias", f"{_G}mlp.c_fc.bias"),
        group(f"{_GB}output.projection.weight", f"{_G}mlp.c_proj.weight"),
        group(f"{_GB}output.projection.bias", f"{_G}mlp.c_proj.bias"),
    ),
)


def _head(hidden: int, heads: int) -> int:
    """The size of one head. Raises ValueError when the heads do not share the hidden size evenly."""
    if hidden % heads:
        raise ValueError(f"{hidden} / {heads}")
    return hidden // heads


def gpt2_sizes(config: Mapping[str, Any]) -> Sizes:
    """``n_embd``, ``n_layer``, ``n_head`` and ``n_positions`` are its own words."""
    hidden = number(config, "n_embd", "hidden_size")
    heads = number(config, "n_head", "num_attention_heads", "num_heads")
    return Sizes(
        {
            "V": number(config, "vocab_size"),
            "H": hidden,
            "F": number_or(config, 4 * hidden, "n_inner", "intermediate_size"),
            "P": number(config, "n_positions", "max_position_embeddings", "n_ctx", "seq_length"),
            "D": _head(hidden, heads),
        },
        alike(number(config, "n_layer", "num_hidden_layers", "num_layers")),
        frozenset(),
        _HEAD_OPEN,
    )


GPT2 = Family(
    id="gpt2",
    title="GPT-2",
    model_types=("gpt2",),
    params=_GPT2,
    layouts=(identity(_GPT2, "transformer."), _GPT2_MF),
    sizes=gpt2_sizes,
    aliases=("gpt2", "gpt2lmheadmodel", "gpt2config"),
)

_B = "transformer.h.{i}."
_BLOOM = (
    param("transformer.word_embeddings.weight", "V H"),
    param("transformer.word_embeddings_layernorm.weight", "H"),
    param("transformer.word_embeddings_layernorm.bias", "H"),
    *layer(
        _B,
        {
            "input_layernorm.weight": "H",
            "input_layernorm.bias": "H",
            "self_attention.query_key_value.weight": "3*H H",
            "self_attention.query_key_value.bias": "3*H",
            "self_attention.dense.weight": "H H",
            "self_attention.dense.bias": "H",
            "post_attention_layernorm.weight": "H",
            "post_attention_layernorm.bias": "H",
            "mlp.dense_h_to_4h.weight": "F H",
            "mlp.dense_h_to_4h.bias": "F",
            "mlp.dense_4h_to_h.weight": "H F",
            "mlp.dense_4h_to_h.bias": "H",
        },
    ),
    param("transformer.ln_f.weight", "H"),
    param("transformer.ln_f.bias", "H"),
    param("lm_head.weight", "V H", "head"),
)
_BB = "transformer.blocks.{i}."
_BLOOM_MF = Layout(
    MINDFORMERS,
    (
        group("transformer.embedding.word_embedding.embedding_table", "transformer.word_embeddings.weight"),
        *_norm("transformer.embedding.norm", "transformer.word_embeddings_layernorm"),
        *_norm("transformer.ln_f", "transformer.ln_f"),
        group("head.weight", "lm_head.weight"),
        *_norm(f"{_BB}layernorm1", f"{_B}input_layernorm"),
        *_norm(f"{_BB}layernorm2", f"{_B}post_attention_layernorm"),
        *(
            group(
                tuple(f"{_BB}attention.dense{n}.{part}" for n in (1, 2, 3)),
                f"{_B}self_attention.query_key_value.{part}",
                HEADS,
            )
            for part in ("weight", "bias")
        ),
        *(
            group(f"{_BB}{own}.{part}", f"{_B}{canonical}.{part}", TRANSPOSED if part == "weight" else SAME)
            for own, canonical in (
                ("attention.projection", "self_attention.dense"),
                ("output.mapping", "mlp.dense_h_to_4h"),
                ("output.projection", "mlp.dense_4h_to_h"),
            )
            for part in ("weight", "bias")
        ),
    ),
)


def bloom_sizes(config: Mapping[str, Any]) -> Sizes:
    """``n_layer``, ``n_head`` and ``hidden_size`` (``n_embed`` in old configs)."""
    hidden = number(config, "hidden_size", "n_embed", "n_embd")
    heads = number(config, "n_head", "num_attention_heads", "num_heads")
    return Sizes(
        {"V": number(config, "vocab_size"), "H": hidden, "F": 4 * hidden, "D": _head(hidden, heads)},
        alike(number(config, "n_layer", "num_hidden_layers", "num_layers")),
        frozenset(),
        _HEAD_OPEN,
    )


BLOOM = Family(
    id="bloom",
    title="Bloom",
    model_types=("bloom",),
    params=_BLOOM,
    layouts=(identity(_BLOOM, "transformer."), _BLOOM_MF),
    sizes=bloom_sizes,
    aliases=("bloom", "bloomlmheadmodel", "bloomconfig"),
)
