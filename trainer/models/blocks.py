"""The parts every family is made of: linear, norm, attention, MLP and one layer of them.

Activations are matrices of rows = batch x sequence throughout: a matrix product on two axes is what the
back ends are quickest at. ``construct`` is compiled by MindSpore; keep it free of Python that it cannot trace.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from doctor.trainer import kernels
from doctor.trainer.models.config import ModelConfig
from doctor.trainer.precision import Precision


def _weight(shape: tuple[int, ...], dtype: Any, fill: float = 0.0) -> Parameter:
    """A parameter still to be filled (`decoder.initialise`); its name follows from where the cell stands."""
    return Parameter(Tensor(np.full(shape, fill, np.float32), dtype))


class Linear(nn.Cell):  # type: ignore[misc]
    """y = x W^T (+ b): (rows, inputs) to (rows, outputs) in `Precision.matmul`, given back in the stream's type."""

    def __init__(self, inputs: int, outputs: int, bias: bool, precision: Precision) -> None:
        super().__init__()
        self.weight = _weight((outputs, inputs), precision.weights)
        self.has_bias = bias
        if bias:
            self.bias = _weight((outputs,), precision.weights)
        self.compute, self.out = precision.matmul, precision.stream
        self.matmul = ops.MatMul(transpose_b=True)
        self.bias_add = ops.BiasAdd()
        self.cast = ops.Cast()

    def construct(self, x: Any) -> Any:
        y = self.matmul(self.cast(x, self.compute), self.cast(self.weight, self.compute))
        if self.has_bias:
            y = self.bias_add(y, self.cast(self.bias, self.compute))
        return self.cast(y, self.out)


class Norm(nn.Cell):  # type: ignore[misc]
    """RMS or layer norm over the last axis, computed in `Precision.norm`."""

    def __init__(self, width: int, config: ModelConfig, precision: Precision, fused: bool, kind: str = "") -> None:
        super().__init__()
        self.kind = kind or config.norm
        self.weight = _weight((width,), precision.weights, 1.0)
        if self.kind == "layer":
            self.bias = _weight((width,), precision.weights)
            self.layer = ops.LayerNorm(-1, -1, config.norm_eps)
        self.rms = kernels.RmsNorm(config.norm_eps, fused)
        self.compute, self.out = precision.norm, precision.stream
        self.cast = ops.Cast()

    def construct(self, x: Any) -> Any:
        x = self.cast(x, self.compute)
        if self.kind == "layer":
            y = self.layer(x, self.cast(self.weight, self.compute), self.cast(self.bias, self.compute))[0]
        else:
            y = self.rms(x, self.cast(self.weight, self.compute))
        return self.cast(y, self.out)


class SelfAttention(nn.Cell):  # type: ignore[misc]
    """Projections, positions and attention of one layer: (rows, hidden) to (rows, hidden)."""

    def __init__(self, config: ModelConfig, batch: int, length: int, precision: Precision, fused: bool) -> None:
        super().__init__()
        width = config.num_attention_heads * config.head
        kv_width = config.kv_heads * config.head
        self.q_proj = Linear(config.hidden_size, width, config.qkv_bias, precision)
        self.k_proj = Linear(config.hidden_size, kv_width, config.qkv_bias, precision)
        self.v_proj = Linear(config.hidden_size, kv_width, config.qkv_bias, precision)
        self.o_proj = Linear(width, config.hidden_size, config.output_bias, precision)
        self.qk_norm = config.qk_norm
        if config.qk_norm:
            self.q_norm = Norm(config.head, config, precision, fused, "rms")
            self.k_norm = Norm(config.head, config, precision, fused, "rms")
        self.rotary = kernels.Rotary(config.head)
        self.rotates = config.position == "rotary"
        self.head = config.head
        self.width, self.kv_width = width, kv_width
        self.attend = kernels.Attention(
            batch, length, config.num_attention_heads, config.kv_heads, config.head, precision.softmax, fused
        )
        self.scale = config.head**-0.5
        self.compute = precision.matmul
        self.cast = ops.Cast()
        self.reshape = ops.Reshape()

    def construct(self, x: Any, places: Any) -> Any:
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        if self.qk_norm:
            q = self.reshape(self.q_norm(self.reshape(q, (-1, self.head))), (-1, self.width))
            k = self.reshape(self.k_norm(self.reshape(k, (-1, self.head))), (-1, self.kv_width))
        q_cos, q_sin, k_cos, k_sin, turn, mask = places
        if self.rotates:
            q = self.rotary(q, q_cos, q_sin, turn)
            k = self.rotary(k, k_cos, k_sin, turn)
        else:
            q = q * self.scale
        out = self.attend(self.cast(q, self.compute), self.cast(k, self.compute), self.cast(v, self.compute), mask)
        return self.o_proj(out)


class GatedMlp(nn.Cell):  # type: ignore[misc]
    """SwiGLU: down(silu(gate(x)) * up(x))."""

    def __init__(self, config: ModelConfig, precision: Precision) -> None:
        super().__init__()
        self.gate_proj = Linear(config.hidden_size, config.ffn, config.mlp_bias, precision)
        self.up_proj = Linear(config.hidden_size, config.ffn, config.mlp_bias, precision)
        self.down_proj = Linear(config.ffn, config.hidden_size, config.mlp_bias, precision)
        self.sigmoid = ops.Sigmoid()

    def construct(self, x: Any) -> Any:
        gate = self.gate_proj(x)
        return self.down_proj(gate * self.sigmoid(gate) * self.up_proj(x))


class GeluMlp(nn.Cell):  # type: ignore[misc]
    """down(gelu(up(x))), with the tanh form of GELU that GPT-2 and Bloom were trained with."""

    def __init__(self, config: ModelConfig, precision: Precision) -> None:
        super().__init__()
        self.up_proj = Linear(config.hidden_size, config.ffn, config.mlp_bias, precision)
        self.down_proj = Linear(config.ffn, config.hidden_size, config.mlp_bias, precision)
        self.gelu = ops.GeLU()

    def construct(self, x: Any) -> Any:
        return self.down_proj(self.gelu(self.up_proj(x)))


class Layer(nn.Cell):  # type: ignore[misc]
    """One pre-norm decoder layer."""

    def __init__(self, config: ModelConfig, batch: int, length: int, precision: Precision, fused: bool) -> None:
        super().__init__()
        self.input_layernorm = Norm(config.hidden_size, config, precision, fused)
        self.self_attn = SelfAttention(config, batch, length, precision, fused)
        self.post_attention_layernorm = Norm(config.hidden_size, config, precision, fused)
        self.mlp = GatedMlp(config, precision) if config.mlp == "swiglu" else GeluMlp(config, precision)
        self.post_norms = config.post_norms
        if config.post_norms:
            self.post_self_attn_layernorm = Norm(config.hidden_size, config, precision, fused)
            self.post_mlp_layernorm = Norm(config.hidden_size, config, precision, fused)

    def construct(self, x: Any, places: Any) -> Any:
        attended = self.self_attn(self.input_layernorm(x), places)
        if self.post_norms:
            attended = self.post_self_attn_layernorm(attended)
        x = x + attended
        widened = self.mlp(self.post_attention_layernorm(x))
        if self.post_norms:
            widened = self.post_mlp_layernorm(widened)
        return x + widened
