"""Bytes that one token keeps for the backward pass, operator by operator.

Two profiles. *unfused*: every step of a formula is an operator that keeps what its own gradient needs, as
PyTorch's autograd does for the Hugging Face models; it can be counted exactly with saved-tensor hooks
(tests/plan/memory holds such counts). *fused*: RMSNorm, rotary embedding, SwiGLU and attention are
one operator each, as on Ascend, and keep their inputs only. Both assume dropout as the shape says and flash
attention unless told otherwise. Linear layers keep their input; additions, reshapes and rotations by
constants keep nothing. c is bytes of the compute type; norms and losses of the unfused profile work in FP32.
"""

from __future__ import annotations

from dataclasses import dataclass

from doctor.plan.memory.layout import Layout
from doctor.plan.memory.shape import ModelShape

#: FlashAttentionScore on Ascend returns softmax max and sum as (batch, heads, sequence, 8) in FP32
_ASCEND_STATISTICS = 2 * 8 * 4
#: the memory-efficient form keeps one FP32 log-sum-exp a row and head
_LOG_SUM_EXP = 4


@dataclass(frozen=True)
class Kept:
    """Bytes per token, by what they are. `split` parts are divided by tensor parallel, `whole` ones only with
    sequence parallel."""

    whole: float = 0.0
    split: float = 0.0

    def __add__(self, other: Kept) -> Kept:
        return Kept(self.whole + other.whole, self.split + other.split)

    def times(self, factor: float) -> Kept:
        return Kept(self.whole * factor, self.split * factor)

    def per_rank(self, layout: Layout) -> float:
        """Bytes per token on one rank of the tensor-parallel group."""
        tensor = layout.tensor_parallel
        return self.split / tensor + self.whole / (tensor if layout.sequence_parallel else 1)


def norm(shape: ModelShape, layout: Layout) -> Kept:
    """A norm and its output, which the linear layer behind it keeps."""
    c, h = layout.compute_bytes, shape.hidden
    output = c * h
    if shape.norm == "layer":
        return Kept(whole=c * h + 8 + output)
    if layout.profile == "fused":
        return Kept(whole=c * h + 4 + output)
    # x in FP32 (shared by square and product), 1/rms, the product back in the compute type
    return Kept(whole=4 * h + 4 + c * h + output)


def attention(shape: ModelShape, layout: Layout) -> Kept:
    """Query, key, value, output and the softmax statistics; without flash attention the score matrices too."""
    if shape.latent is not None:
        return _latent_attention(shape, layout)
    c, d = layout.compute_bytes, shape.head_dim
    kept: float = 2 * c * shape.heads * d + 2 * c * shape.groups * d
    if shape.qk_norm:
        kept += _head_norms(shape, layout)
    return Kept(split=kept + _scores(shape, layout)) + _dropout(shape, layout)


def _head_norms(shape: ModelShape, layout: Layout) -> float:
    """Norms of single query and key heads (Qwen3): what they keep beside their output."""
    c, d = layout.compute_bytes, shape.head_dim
    heads = shape.heads + shape.groups
    if layout.profile == "fused":
        return heads * (c * d + 4)
    return heads * (4 * d + 4 + c * d)


def _scores(shape: ModelShape, layout: Layout) -> float:
    if layout.flash_attention:
        return shape.heads * (_ASCEND_STATISTICS if layout.profile == "fused" else _LOG_SUM_EXP)
    # softmax output, and its copy in the compute type for the product with the values
    return shape.heads * layout.sequence * (layout.compute_bytes + 4)


def _latent_attention(shape: ModelShape, layout: Layout) -> Kept:
    """MLA: compressed and normed latents are whole on every rank, expanded heads are split."""
    latent = shape.latent
    assert latent is not None
    c, heads = layout.compute_bytes, shape.heads
    norm_extra = (c if layout.profile == "fused" else 4 + c) * (latent.kv_rank + (latent.q_rank or 0)) + 8
    whole = c * (latent.kv_rank + (latent.q_rank or 0)) + norm_extra
    split = c * heads * (2 * latent.qk_dim + 2 * latent.value_dim)
    if layout.profile == "unfused":
        # the value is a view of the expanded latent, which keeps the key's share of it alive too
        split += c * heads * latent.nope_dim
    return Kept(whole=whole, split=split + _scores(shape, layout))


def mlp(shape: ModelShape, layout: Layout, inner: int) -> Kept:
    """The feed-forward part behind its norm: what the activation, the product and the last projection keep."""
    c = layout.compute_bytes
    if layout.profile == "fused":
        return Kept(split=(3 if shape.gated else 2) * c * inner) + _dropout(shape, layout)
    if shape.gated:
        # input and output of the activation, the other projection, their product
        return Kept(split=4 * c * inner) + _dropout(shape, layout)
    return Kept(split=_UNFUSED_GELU.get(shape.activation, 2) * c * inner) + _dropout(shape, layout)


#: tensors of the inner size kept by a non-gated activation and the projection behind it: gelu_new is written out
#: as 0.5 x (1 + tanh(…)) (input, tanh, half input, one plus tanh, product); Bloom's own function keeps its input
_UNFUSED_GELU = {"gelu_new": 5, "gelu": 2, "silu": 2, "relu": 2}


def experts(shape: ModelShape, layout: Layout) -> Kept:
    """Routed copies of a token, the router in FP32, and the shared experts."""
    moe = shape.experts
    assert moe is not None
    c, h = layout.compute_bytes, shape.hidden
    inner = mlp(shape, layout, moe.ffn)
    routed = Kept(whole=c * h * 2 * moe.chosen) + inner.times(moe.chosen)
    # MindFormers casts the router's input to FP32; the Hugging Face models do not
    router = Kept(whole=6 * moe.total + 12 * moe.chosen + (4 * h if layout.profile == "fused" else 0))
    shared = mlp(shape, layout, moe.shared_inner) if moe.shared_inner else Kept()
    return routed + router + shared


def _dropout(shape: ModelShape, layout: Layout) -> Kept:
    """The mask of one dropout on hidden states: of the compute type unfused, a byte fused."""
    if not shape.dropout:
        return Kept()
    return Kept(whole=shape.hidden * (1 if layout.profile == "fused" else layout.compute_bytes))


def layer(shape: ModelShape, layout: Layout, index: int = 0) -> Kept:
    """Everything layer `index` keeps for one token, without recompute."""
    inner = experts(shape, layout) if shape.is_expert_layer(index) else mlp(shape, layout, shape.ffn)
    norms = norm(shape, layout).times(2)
    extra = max(0, shape.norms_per_layer - 2)
    if extra:
        # norms behind attention and MLP (GLM4): their output is added, so nobody keeps it
        one = norm(shape, layout)
        norms += Kept(one.whole - layout.compute_bytes * shape.hidden).times(extra)
    return norms + attention(shape, layout) + inner


def layer_input(shape: ModelShape, layout: Layout) -> Kept:
    """What a fully recomputed layer keeps."""
    return Kept(whole=layout.compute_bytes * shape.hidden)


def selected(shape: ModelShape, layout: Layout, index: int = 0) -> Kept:
    """A layer under select_recompute: outputs of norms and of the activation are made again from what is kept
    (MindFormers' default selection: the norms' casts, the activation and its product)."""
    c = layout.compute_bytes
    whole = layer(shape, layout, index)
    inner = shape.ffn
    if shape.is_expert_layer(index) and shape.experts is not None:
        inner = shape.experts.chosen * shape.experts.ffn + shape.experts.shared_inner
    return Kept(whole.whole - 2 * c * shape.hidden, whole.split - c * inner)


def head(shape: ModelShape, layout: Layout) -> Kept:
    """Final norm, its output, and the log-probabilities in FP32 that the loss keeps."""
    kept = norm(shape, layout) + Kept(split=4 * shape.vocabulary)
    if layout.profile == "fused":
        # the logits in the compute type are alive beside their FP32 copy
        kept += Kept(split=layout.compute_bytes * shape.vocabulary)
    return kept


def embedding(shape: ModelShape, layout: Layout) -> Kept:
    """Token ids, the mask of a dropout, and the norm behind the embedding where there is one."""
    kept = Kept(whole=8) + _dropout(shape, layout)
    if shape.embedding_norm:
        kept += Kept(whole=layout.compute_bytes * shape.hidden + 8)
    return kept
