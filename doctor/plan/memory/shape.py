"""What a decoder is made of, and how many parameters that is: exactly, part by part.

Checked against the counts that the models' own configs give: LLaMA-2-7B 6,738,415,616, LLaMA-3-8B
8,030,261,248, Qwen2.5-0.5B 494,032,768, GPT-2 124,439,808, Bloom-560m 559,214,592, ChatGLM3-6B 6,243,584,000.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class Experts:
    """Mixture of experts: `total` routed experts of which a token visits `chosen`, and `shared` ones it always does.

    `ffn` is the inner size of one expert; the first `dense_layers` layers have a plain MLP instead.
    `shared_gate` is Qwen2-MoE's scalar gate on the shared expert."""

    total: int
    chosen: int
    ffn: int
    shared: int = 0
    shared_ffn: Optional[int] = None
    dense_layers: int = 0
    bias: bool = False
    shared_gate: bool = False

    @property
    def shared_inner(self) -> int:
        """Inner size of all shared experts of a layer together."""
        return self.shared_ffn if self.shared_ffn is not None else self.shared * self.ffn


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention (DeepSeek-V2 and V3): ranks of the compressed query and key-value, head parts."""

    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    q_rank: Optional[int] = None

    @property
    def qk_dim(self) -> int:
        return self.nope_dim + self.rope_dim


@dataclass(frozen=True)
class ModelShape:
    """A decoder-only transformer. Sizes count elements; `head_dim` is the size of one attention head."""

    layers: int
    hidden: int
    heads: int
    vocabulary: int
    ffn: int
    family: str = "llama"
    kv_heads: Optional[int] = None
    head_size: Optional[int] = None
    #: SwiGLU and the like: two projections in, one out
    gated: bool = True
    #: rms (one weight) or layer (weight and bias)
    norm: str = "rms"
    norms_per_layer: int = 2
    tied: bool = False
    #: rows of a learned position table; 0 for rotary and alibi
    positions: int = 0
    #: bloom normalises the embedding
    embedding_norm: bool = False
    #: Qwen3 normalises each query and key head
    qk_norm: bool = False
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    head_bias: bool = False
    experts: Optional[Experts] = None
    latent: Optional[Latent] = None
    #: multi-token-prediction layers behind the last one
    mtp_layers: int = 0
    #: dropout on hidden states during training (GPT-2 and Bloom configs)
    dropout: bool = False
    #: silu, gelu or gelu_new: what the activation keeps when it is not fused
    activation: str = "silu"

    @property
    def groups(self) -> int:
        """Key and value heads."""
        return self.kv_heads or self.heads

    @property
    def head_dim(self) -> int:
        return self.head_size or self.hidden // self.heads

    @property
    def norm_parameters(self) -> int:
        return self.hidden * (2 if self.norm == "layer" else 1)

    @property
    def attention_parameters(self) -> int:
        """Weights and biases of the attention of one layer."""
        if self.latent is not None:
            return _latent_parameters(self.hidden, self.heads, self.latent)
        inner, outer = self.heads * self.head_dim, self.groups * self.head_dim
        count = self.hidden * (inner + 2 * outer) + inner * self.hidden
        if self.qkv_bias:
            count += inner + 2 * outer
        if self.output_bias:
            count += self.hidden
        if self.qk_norm:
            count += 2 * self.head_dim
        return count

    @property
    def mlp_parameters(self) -> int:
        """The plain MLP of one layer."""
        return self._mlp(self.ffn)

    def _mlp(self, inner: int) -> int:
        projections = 3 if self.gated else 2
        count = projections * self.hidden * inner
        if self.mlp_bias:
            count += (projections - 1) * inner + self.hidden
        return count

    @property
    def expert_parameters(self) -> int:
        """All routed experts of one layer, which expert parallelism spreads."""
        if self.experts is None:
            return 0
        return self.experts.total * 3 * self.hidden * self.experts.ffn

    @property
    def shared_parameters(self) -> int:
        """Router and shared experts of one layer, which every rank holds."""
        if self.experts is None:
            return 0
        moe = self.experts
        count = moe.total * self.hidden + 3 * self.hidden * moe.shared_inner
        if moe.bias:
            count += moe.total
        if moe.shared_gate:
            count += self.hidden
        return count

    def is_expert_layer(self, layer: int) -> bool:
        return self.experts is not None and layer >= self.experts.dense_layers

    def layer_parameters(self, layer: int) -> int:
        """All parameters of layer `layer` (from 0)."""
        count = self.attention_parameters + self.norms_per_layer * self.norm_parameters
        if self.is_expert_layer(layer):
            return count + self.expert_parameters + self.shared_parameters
        return count + self.mlp_parameters

    @property
    def embedding_parameters(self) -> int:
        count = (self.vocabulary + self.positions) * self.hidden
        return count + (self.norm_parameters if self.embedding_norm else 0)

    @property
    def head_parameters(self) -> int:
        """The output projection; 0 when it is the embedding."""
        return 0 if self.tied else self.vocabulary * (self.hidden + (1 if self.head_bias else 0))

    @property
    def parameters(self) -> int:
        """All parameters, tied ones once; multi-token-prediction layers are left out, as model cards do."""
        layers = sum(self.layer_parameters(layer) for layer in range(self.layers))
        return self.embedding_parameters + layers + self.norm_parameters + self.head_parameters


def _latent_parameters(hidden: int, heads: int, latent: Latent) -> int:
    if latent.q_rank:
        query = hidden * latent.q_rank + latent.q_rank + latent.q_rank * heads * latent.qk_dim
    else:
        query = hidden * heads * latent.qk_dim
    key_value = hidden * (latent.kv_rank + latent.rope_dim) + latent.kv_rank
    expand = latent.kv_rank * heads * (latent.nope_dim + latent.value_dim)
    return query + key_value + expand + heads * latent.value_dim * hidden


def llama_ffn(hidden: int, multiple_of: int = 256, multiplier: Optional[float] = None) -> int:
    """Inner size of LLaMA's MLP when a config names only `multiple_of`: two thirds of 4 h, rounded up
    (the rule of Meta's reference model, which MindFormers keeps for configs without intermediate_size)."""
    inner = int(2 * 4 * hidden / 3)
    if multiplier:
        inner = int(multiplier * inner)
    return multiple_of * -(-inner // multiple_of)


def human(count: int) -> str:
    """A number of parameters as people say it, to three digits: 6.74B, 494M, 623K."""
    for unit, letter in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if count >= unit:
            return f"{count / unit:.3g}{letter}"
    return str(count)
