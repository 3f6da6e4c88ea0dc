"""LLaMA 1 to 3 and those with the same names (Mistral, Yi, …), Qwen 1.5/2/2.5 and Qwen 3.

Names and shapes: Hugging Face modeling files; MindFormers ``models/llama`` (legacy) and the weight maps of
its mcore models; Meta's ``consolidated`` files. A Qwen 2 is a LLaMA with biases on q, k and v; a Qwen 3 has
norms on q and k instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from doctor.formats.families.family import (
    MCORE,
    META,
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
from doctor.formats.families.ops import INTERLEAVED, QKV_GROUPED, ROTARY_PAIRS

_HF = "model.layers.{i}."
_MF = "model.layers.{i}."
_MC = "decoder.layers.{i}."
_Q, _K, _V = (f"{_HF}self_attn.{name}_proj" for name in "qkv")

EMBED = param("model.embed_tokens.weight", "V H")
NORM = param("model.norm.weight", "H")
HEAD = param("lm_head.weight", "V H", "head")
ATTENTION = {
    "self_attn.q_proj.weight": "Q H",
    "self_attn.k_proj.weight": "K H",
    "self_attn.v_proj.weight": "K H",
    "self_attn.o_proj.weight": "H Q",
}
NORMS = {"input_layernorm.weight": "H", "post_attention_layernorm.weight": "H"}
MLP = {"mlp.gate_proj.weight": "F H", "mlp.up_proj.weight": "F H", "mlp.down_proj.weight": "H F"}
BIASES = {"self_attn.q_proj.bias": "Q", "self_attn.k_proj.bias": "K", "self_attn.v_proj.bias": "K"}
QK_NORMS = {"self_attn.q_norm.weight": "D", "self_attn.k_norm.weight": "D"}

_BASE = (EMBED, *layer(_HF, {**ATTENTION, **NORMS, **MLP}), NORM, HEAD)
_QWEN2 = (EMBED, *layer(_HF, {**ATTENTION, **BIASES, **NORMS, **MLP}), NORM, HEAD)
_QWEN3 = (EMBED, *layer(_HF, {**ATTENTION, **QK_NORMS, **NORMS, **MLP}), NORM, HEAD)

MF_ENDS = (
    group("model.tok_embeddings.embedding_weight", EMBED.name),
    group("model.norm_out.weight", NORM.name),
    group("lm_head.weight", HEAD.name),
)
MF_NORMS = (
    group(f"{_MF}attention_norm.weight", f"{_HF}input_layernorm.weight"),
    group(f"{_MF}ffn_norm.weight", f"{_HF}post_attention_layernorm.weight"),
)
_MF_OUT = group(f"{_MF}attention.wo.weight", f"{_HF}self_attn.o_proj.weight")
_MF_DOWN = group(f"{_MF}feed_forward.w2.weight", f"{_HF}mlp.down_proj.weight")


def _mf_split(parts: tuple[str, ...]) -> tuple[Group, ...]:
    return tuple(
        group(f"{_MF}attention.w{letter}.{part}", f"{_HF}self_attn.{letter}_proj.{part}")
        for part in parts
        for letter in "qkv"
    )


def _fused_qkv(own: str, parts: tuple[str, ...]) -> tuple[Group, ...]:
    return tuple(
        group(f"{own}.{part}", (f"{_Q}.{part}", f"{_K}.{part}", f"{_V}.{part}"), QKV_GROUPED) for part in parts
    )


_MF_MLP = (
    group(f"{_MF}feed_forward.w1.weight", f"{_HF}mlp.gate_proj.weight"),
    group(f"{_MF}feed_forward.w3.weight", f"{_HF}mlp.up_proj.weight"),
)
_GATE_UP = (f"{_HF}mlp.gate_proj.weight", f"{_HF}mlp.up_proj.weight")


def _mindformers(*parts: str) -> tuple[Layout, Layout]:
    """Legacy names with split projections, and with ``qkv_concat: True``."""
    split = (*MF_ENDS, *MF_NORMS, *_mf_split(parts), _MF_OUT, *_MF_MLP, _MF_DOWN)
    fused = (
        *MF_ENDS,
        *MF_NORMS,
        *_fused_qkv(f"{_MF}attention.w_qkv", parts),
        _MF_OUT,
        group(f"{_MF}feed_forward.w_gate_hidden.weight", _GATE_UP, INTERLEAVED),
        _MF_DOWN,
    )
    return Layout(MINDFORMERS, split), Layout(MINDFORMERS, fused, "qkv_concat")


MCORE_ENDS = (
    group("embedding.word_embeddings.weight", EMBED.name),
    group("decoder.final_layernorm.weight", NORM.name),
    group("output_layer.weight", HEAD.name),
)
MCORE_NORMS = (
    group(f"{_MC}input_layernorm.weight", f"{_HF}input_layernorm.weight"),
    group(f"{_MC}pre_mlp_layernorm.weight", f"{_HF}post_attention_layernorm.weight"),
)
MCORE_OUT = group(f"{_MC}self_attention.linear_proj.weight", f"{_HF}self_attn.o_proj.weight")
MCORE_QK_NORMS = (
    group(f"{_MC}self_attention.q_layernorm.weight", f"{_HF}self_attn.q_norm.weight"),
    group(f"{_MC}self_attention.k_layernorm.weight", f"{_HF}self_attn.k_norm.weight"),
)


def mcore_qkv(parts: tuple[str, ...] = ("weight",)) -> tuple[Group, ...]:
    """The fused attention of mcore training."""
    return _fused_qkv(f"{_MC}self_attention.linear_qkv", parts)


def mcore_split_qkv(parts: tuple[str, ...] = ("weight",)) -> tuple[Group, ...]:
    """The split attention of mcore inference."""
    return tuple(
        group(f"{_MC}self_attention.linear_{letter}.{part}", f"{_HF}self_attn.{letter}_proj.{part}")
        for part in parts
        for letter in "qkv"
    )


MCORE_MLP = (
    group(f"{_MC}mlp.linear_fc1.weight", _GATE_UP, INTERLEAVED),
    group(f"{_MC}mlp.linear_fc2.weight", f"{_HF}mlp.down_proj.weight"),
)
MCORE_SPLIT_MLP = (
    group(f"{_MC}mlp.gating.weight", f"{_HF}mlp.gate_proj.weight"),
    group(f"{_MC}mlp.hidden.weight", f"{_HF}mlp.up_proj.weight"),
    group(f"{_MC}mlp.linear_fc2.weight", f"{_HF}mlp.down_proj.weight"),
)


def _mcore(parts: tuple[str, ...], extra: tuple[Group, ...] = ()) -> tuple[Layout, Layout]:
    common = (*MCORE_ENDS, *MCORE_NORMS, MCORE_OUT, *extra)
    return (
        Layout(MCORE, (*common, *mcore_qkv(parts), *MCORE_MLP)),
        Layout(MCORE, (*common, *mcore_split_qkv(parts), *MCORE_SPLIT_MLP), "split"),
    )


_META = Layout(
    META,
    (
        group("tok_embeddings.weight", EMBED.name),
        group("norm.weight", NORM.name),
        group("output.weight", HEAD.name),
        group("layers.{i}.attention.wq.weight", f"{_Q}.weight", ROTARY_PAIRS),
        group("layers.{i}.attention.wk.weight", f"{_K}.weight", ROTARY_PAIRS),
        group("layers.{i}.attention.wv.weight", f"{_V}.weight"),
        group("layers.{i}.attention.wo.weight", f"{_HF}self_attn.o_proj.weight"),
        group("layers.{i}.feed_forward.w1.weight", f"{_HF}mlp.gate_proj.weight"),
        group("layers.{i}.feed_forward.w2.weight", f"{_HF}mlp.down_proj.weight"),
        group("layers.{i}.feed_forward.w3.weight", f"{_HF}mlp.up_proj.weight"),
        group("layers.{i}.attention_norm.weight", f"{_HF}input_layernorm.weight"),
        group("layers.{i}.ffn_norm.weight", f"{_HF}post_attention_layernorm.weight"),
    ),
)


def symbols(config: Mapping[str, Any]) -> dict[str, int]:
    """V, H, Q, K, D and F of a config with the usual field names."""
    hidden = number(config, "hidden_size")
    heads = number(config, "num_attention_heads")
    groups = number_or(config, heads, "num_key_value_heads", "num_query_groups", "n_kv_heads")
    head = number_or(config, hidden // heads, "head_dim", "kv_channels")
    found = {"V": number(config, "vocab_size"), "H": hidden, "Q": heads * head, "K": groups * head, "D": head}
    feed = number_or(config, 0, "intermediate_size", "ffn_hidden_size")
    if feed:
        found["F"] = feed
    return found


def tied(config: Mapping[str, Any], default: bool) -> bool:
    """Whether the output layer shares the embedding."""
    value = config.get("tie_word_embeddings")
    return value if isinstance(value, bool) else default


def sizes(config: Mapping[str, Any]) -> Sizes:
    """Of a config of a dense model of this kind."""
    is_tied = tied(config, False)
    return Sizes(
        symbols(config),
        alike(number(config, "num_hidden_layers")),
        frozenset() if is_tied else frozenset({"head"}),
        frozenset({"head"}) if is_tied else frozenset(),
    )


LLAMA = Family(
    id="llama",
    title="LLaMA",
    model_types=("llama", "mistral", "yi", "deepseek", "aquila", "skywork", "xverse", "orion", "internlm", "seed_oss"),
    params=_BASE,
    layouts=(identity(_BASE), *_mindformers("weight"), _META, *_mcore(("weight",))),
    sizes=sizes,
    aliases=("llama", "llama2", "llama3", "codellama", "llamaforcausallm", "llamaconfig"),
)

QWEN2 = Family(
    id="qwen2",
    title="Qwen2",
    model_types=("qwen2",),
    params=_QWEN2,
    layouts=(identity(_QWEN2), *_mindformers("weight", "bias"), *_mcore(("weight", "bias"))),
    sizes=sizes,
    aliases=("qwen1_5", "qwen2", "qwen2_5", "qwen2forcausallm"),
    marks=tuple(_HF + name for name in BIASES),
)

QWEN3 = Family(
    id="qwen3",
    title="Qwen3",
    model_types=("qwen3",),
    params=_QWEN3,
    layouts=(identity(_QWEN3), *_mcore(("weight",), MCORE_QK_NORMS)),
    sizes=sizes,
    aliases=("qwen3", "qwen3forcausallm"),
    marks=tuple(_HF + name for name in QK_NORMS),
)
