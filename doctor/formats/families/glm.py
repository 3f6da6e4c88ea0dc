"""ChatGLM2 and 3, GLM-4 (remote-code and native names), and the first ChatGLM-6B.

Names: the models' own modeling_chatglm.py, transformers' glm and glm4, MindFormers models/glm2 and models/glm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from doctor.formats.families.family import (
    MCORE,
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
from doctor.formats.families.llama import (
    ATTENTION,
    BIASES,
    EMBED,
    HEAD,
    MCORE_ENDS,
    MCORE_NORMS,
    MCORE_OUT,
    NORM,
    NORMS,
    mcore_qkv,
    mcore_split_qkv,
    symbols,
    tied,
)
from doctor.formats.families.ops import HALVES, INTERLEAVED, QKV_PLAIN, Op

_IN = "transformer.encoder.layers.{i}."

_CHATGLM2 = (
    param("transformer.embedding.word_embeddings.weight", "V H"),
    *layer(
        _IN,
        {
            "input_layernorm.weight": "H",
            "self_attention.query_key_value.weight": "Q+2*K H",
            "self_attention.query_key_value.bias": "Q+2*K",
            "self_attention.dense.weight": "H Q",
            "post_attention_layernorm.weight": "H",
            "mlp.dense_h_to_4h.weight": "2*F H",
            "mlp.dense_4h_to_h.weight": "H F",
        },
    ),
    param("transformer.encoder.final_layernorm.weight", "H"),
    param("transformer.output_layer.weight", "V H"),
)


def _reversed(op: Op, name: str, wanted: str) -> Op:
    """The family's tensor is the fused one: what the operation calls backward goes forward here."""

    def shapes(given: Any) -> list[tuple[str, ...]]:
        return [(rows, *given[0][1:]) for rows in wanted.split()]

    return Op(name, shapes, op.backward, op.forward, op.needs)


SPLIT_QKV = _reversed(QKV_PLAIN, "split-qkv", "Q K K")
SPLIT_HALVES = _reversed(HALVES, "split-halves", "F F")


def _same(*skip: str) -> tuple[Group, ...]:
    """The names that MindFormers keeps as they are, with the embedding's own."""
    rows = []
    for item in _CHATGLM2:
        if any(word in item.name for word in skip):
            continue
        own = item.name.replace("embedding.word_embeddings.weight", "embedding.embedding_weight")
        rows.append(group(own, item.name))
    return tuple(rows)


_SPLIT = tuple(
    group(
        tuple(f"{_IN}self_attention.{name}.{part}" for name in ("wq", "wk", "wv")),
        f"{_IN}self_attention.query_key_value.{part}",
        SPLIT_QKV,
    )
    for part in ("weight", "bias")
)
_LEFT_RIGHT = group(
    (f"{_IN}mlp.dense_left.weight", f"{_IN}mlp.dense_right.weight"), f"{_IN}mlp.dense_h_to_4h.weight", SPLIT_HALVES
)


def chatglm2_sizes(config: Mapping[str, Any]) -> Sizes:
    """``padded_vocab_size``, ``multi_query_group_num`` and ``ffn_hidden_size`` are its own words."""
    hidden = number(config, "hidden_size")
    heads = number(config, "num_attention_heads")
    head = number_or(config, hidden // heads, "kv_channels")
    many = config.get("multi_query_attention", True)
    groups = number_or(config, heads, "multi_query_group_num") if many else heads
    return Sizes(
        {
            "V": number(config, "padded_vocab_size", "vocab_size"),
            "H": hidden,
            "Q": heads * head,
            "K": groups * head,
            "D": head,
            "F": number(config, "ffn_hidden_size", "intermediate_size"),
        },
        alike(number(config, "num_layers", "num_hidden_layers")),
    )


CHATGLM2 = Family(
    id="chatglm2",
    title="ChatGLM2/3 and GLM-4 (chatglm names)",
    model_types=("chatglm", "chatglm2", "chatglm3"),
    params=_CHATGLM2,
    layouts=(
        identity(_CHATGLM2),
        Layout(MINDFORMERS, _same()),
        Layout(MINDFORMERS, (*_same("query_key_value"), *_SPLIT), "split"),
        Layout(MINDFORMERS, (*_same("query_key_value", "dense_h_to_4h"), *_SPLIT, _LEFT_RIGHT), "split, mlp split"),
    ),
    sizes=chatglm2_sizes,
    aliases=("glm2", "glm3", "chatglm2", "chatglm3", "codegeex2", "chatglm2forconditionalgeneration", "chatglm2config"),
    model_features=frozenset(),
)

_L = "model.layers.{i}."
_GLM4_LAYER = {
    **ATTENTION,
    **NORMS,
    "mlp.gate_up_proj.weight": "2*F H",
    "mlp.down_proj.weight": "H F",
}
_POST_NORMS = {"post_self_attn_layernorm.weight": "H", "post_mlp_layernorm.weight": "H"}
_GLM = (EMBED, *layer(_L, _GLM4_LAYER), *layer(_L, BIASES, "qkv_bias"), NORM, HEAD)
_GLM4 = (EMBED, *layer(_L, {**_GLM4_LAYER, **_POST_NORMS}), *layer(_L, BIASES, "qkv_bias"), NORM, HEAD)
_MC = "decoder.layers.{i}."


def _halves_to_pairs(arrays: Any, sizes: Any) -> list[Any]:
    return INTERLEAVED.forward(HALVES.backward(arrays, sizes), sizes)


def _pairs_to_halves(arrays: Any, sizes: Any) -> list[Any]:
    return HALVES.forward(INTERLEAVED.backward(arrays, sizes), sizes)


#: GLM's gate|up in halves becomes mcore's rows in turn.
HALVES_INTERLEAVED = Op("halves-interleaved", lambda shapes: list(shapes), _halves_to_pairs, _pairs_to_halves)
_GLM_MLP = (
    group(f"{_MC}mlp.linear_fc1.weight", f"{_L}mlp.gate_up_proj.weight", HALVES_INTERLEAVED),
    group(f"{_MC}mlp.linear_fc2.weight", f"{_L}mlp.down_proj.weight"),
)
_GLM_POST = tuple(group(f"{_MC}{name}", f"{_L}{name}") for name in _POST_NORMS)


def glm_sizes(config: Mapping[str, Any]) -> Sizes:
    """Of transformers' ``glm`` and ``glm4``."""
    layers = number(config, "num_hidden_layers")
    is_tied = tied(config, False)
    extra = ("qkv_bias",) if config.get("attention_bias", config.get("add_qkv_bias")) else ()
    return Sizes(
        symbols(config),
        alike(layers, *extra),
        frozenset() if is_tied else frozenset({"head"}),
        frozenset({"head"}) if is_tied else frozenset(),
    )


def _glm_mcore(extra: tuple[Group, ...]) -> tuple[Layout, Layout]:
    parts = ("weight", "bias")
    common = (*MCORE_ENDS, *MCORE_NORMS, MCORE_OUT, *_GLM_MLP, *extra)
    return Layout(MCORE, (*common, *mcore_qkv(parts))), Layout(MCORE, (*common, *mcore_split_qkv(parts)), "split")


GLM = Family(
    id="glm",
    title="GLM-4 (transformers' glm)",
    model_types=("glm",),
    params=_GLM,
    layouts=(identity(_GLM), *_glm_mcore(())),
    sizes=glm_sizes,
    aliases=("glm",),
    marks=(f"{_L}mlp.gate_up_proj.weight",),
)

GLM4 = Family(
    id="glm4",
    title="GLM-4-0414",
    model_types=("glm4",),
    params=_GLM4,
    layouts=(identity(_GLM4), *_glm_mcore(_GLM_POST)),
    sizes=glm_sizes,
    aliases=("glm4", "glm4forcausallm"),
    marks=tuple(_L + name for name in _POST_NORMS),
)

_CHATGLM = (
    param("transformer.word_embeddings.weight", "V H"),
    *layer(
        "transformer.layers.{i}.",
        {
            "input_layernorm.weight": "H",
            "input_layernorm.bias": "H",
            "attention.query_key_value.weight": "3*H H",
            "attention.query_key_value.bias": "3*H",
            "attention.dense.weight": "H H",
            "attention.dense.bias": "H",
            "post_attention_layernorm.weight": "H",
            "post_attention_layernorm.bias": "H",
            "mlp.dense_h_to_4h.weight": "F H",
            "mlp.dense_h_to_4h.bias": "F",
            "mlp.dense_4h_to_h.weight": "H F",
            "mlp.dense_4h_to_h.bias": "H",
        },
    ),
    param("transformer.final_layernorm.weight", "H"),
    param("transformer.final_layernorm.bias", "H"),
    param("lm_head.weight", "V H"),
)


def _glm_name(name: str) -> str:
    if "layernorm" in name:
        return name.replace(".weight", ".gamma").replace(".bias", ".beta")
    return name.replace("word_embeddings.weight", "word_embeddings.embedding_table")


def chatglm_sizes(config: Mapping[str, Any]) -> Sizes:
    """``inner_hidden_size`` is the feed-forward width."""
    hidden = number(config, "hidden_size")
    heads = number(config, "num_attention_heads", "num_heads")
    return Sizes(
        {
            "V": number(config, "vocab_size"),
            "H": hidden,
            "F": number_or(config, 4 * hidden, "inner_hidden_size"),
            "D": hidden // heads,
        },
        alike(number(config, "num_layers", "num_hidden_layers")),
    )


CHATGLM = Family(
    id="chatglm",
    title="ChatGLM-6B",
    model_types=("chatglm", "chatglm-6b"),
    params=_CHATGLM,
    layouts=(identity(_CHATGLM), Layout(MINDFORMERS, tuple(group(_glm_name(p.name), p.name) for p in _CHATGLM))),
    sizes=chatglm_sizes,
    aliases=("glm", "glm_6b", "glmforpretraining", "glmconfig"),
    model_features=frozenset(),
)
