"""Norm, rotary position and attention: the one place that chooses between fused operators and plain ones.

Ascend has fused kernels for the three; MindSpore's CPU back end has none of them ("The kernel RmsNorm
unregistered"). Both forms take the same shapes: rows are batch x sequence, heads lie in the last axis.
"""

from __future__ import annotations

from typing import Any, Optional

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

#: what a masked score becomes: far below any score, still finite in FP16
MASKED = -60000.0


class RmsNorm(nn.Cell):  # type: ignore[misc]
    """x / rms(x) over the last axis, times a weight: (rows, width) to (rows, width)."""

    def __init__(self, eps: float, fused: bool) -> None:
        super().__init__()
        self.eps = eps
        self.fused = fused
        self.mean = ops.ReduceMean(keep_dims=True)
        self.rsqrt = ops.Rsqrt()
        self.square = ops.Square()

    def construct(self, x: Any, weight: Any) -> Any:
        if self.fused:
            return ops.rms_norm(x, weight, self.eps)[0]
        return x * self.rsqrt(self.mean(self.square(x), -1) + self.eps) * weight


class Rotary(nn.Cell):  # type: ignore[misc]
    """Rotary position: x * cos + turned(x) * sin, where `turn` is the signed permutation of one head as a matrix.

    (rows, heads * size) to the same shape. `cos` and `sin` come tiled to the shape of x: on the CPU back end an
    operator that broadcasts takes 10 to 50 times as long as one on equal shapes.
    """

    def __init__(self, head: int) -> None:
        super().__init__()
        self.head = head
        self.matmul = ops.MatMul()
        self.reshape = ops.Reshape()
        self.shape = ops.Shape()

    def construct(self, x: Any, cos: Any, sin: Any, turn: Any) -> Any:
        shape = self.shape(x)
        turned = self.reshape(self.matmul(self.reshape(x, (-1, self.head)), turn), shape)
        return x * cos + turned * sin


class Attention(nn.Cell):  # type: ignore[misc]
    """Causal attention with grouped heads: q (rows, heads * size), k and v (rows, kv_heads * size) to (rows, heads * size).

    The plain form folds the group into the query's rows, so that keys and values are never repeated. q comes
    scaled already.
    """

    def __init__(
        self, batch: int, length: int, heads: int, kv_heads: int, head: int, softmax_type: Any, fused: bool
    ) -> None:
        super().__init__()
        self.batch, self.length = batch, length
        self.heads, self.kv_heads, self.head = heads, kv_heads, head
        self.group = heads // kv_heads
        self.fused = fused
        self.softmax_type = softmax_type
        self.scores = ops.BatchMatMul(transpose_b=True)
        self.mix = ops.BatchMatMul()
        self.softmax = ops.Softmax(-1)
        self.cast = ops.Cast()
        self.reshape = ops.Reshape()
        self.transpose = ops.Transpose()

    def construct(self, q: Any, k: Any, v: Any, mask: Any) -> Any:
        b, s, d, g, n = self.batch, self.length, self.head, self.group, self.kv_heads
        if self.fused:
            out = ops.flash_attention_score(
                self.reshape(q, (b, s, g * n * d)),
                self.reshape(k, (b, s, n * d)),
                self.reshape(v, (b, s, n * d)),
                self.heads,
                attn_mask=mask,
                scalar_value=1.0,
                input_layout="BSH",
                sparse_mode=2,
            )
            return self.reshape(out, (b * s, g * n * d))
        q = self.reshape(self.transpose(self.reshape(q, (b, s, n, g, d)), (0, 2, 3, 1, 4)), (b * n, g * s, d))
        k = self.reshape(self.transpose(self.reshape(k, (b, s, n, d)), (0, 2, 1, 3)), (b * n, s, d))
        v = self.reshape(self.transpose(self.reshape(v, (b, s, n, d)), (0, 2, 1, 3)), (b * n, s, d))
        weights = self.softmax(self.cast(self.scores(q, k), self.softmax_type) + mask)
        out = self.mix(self.cast(weights, v.dtype), v)
        out = self.transpose(self.reshape(out, (b, n, g, s, d)), (0, 3, 1, 2, 4))
        return self.reshape(out, (b * s, n * g * d))


def causal_mask(
    batch: int, length: int, heads: int, kv_heads: int, dtype: Any, fused: bool, slopes: Optional[Any] = None
) -> Tensor:
    """What is added to the scores, tiled to their full shape (batch * kv_heads, group * length, length). `slopes`
    are ALiBi's, one a head. The fused kernel takes the upper triangle of 2048 positions as booleans instead."""
    if fused:
        return Tensor(np.triu(np.ones((2048, 2048), np.bool_), 1))
    group = heads // kv_heads
    masked = np.triu(np.full((length, length), MASKED, np.float32), 1)
    mask = np.broadcast_to(masked, (heads, length, length))
    if slopes is not None:
        distance = np.arange(length)[None, :] - np.arange(length)[:, None]
        mask = np.where(masked < 0, masked, slopes[:, None, None] * np.minimum(distance, 0))
    tiled = np.tile(np.asarray(mask, np.float32).reshape(1, kv_heads, group * length, length), (batch, 1, 1, 1))
    return Tensor(tiled.reshape(batch * kv_heads, group * length, length), dtype)


def has_fused(device: str) -> bool:
    """True where the device has the fused kernels: Ascend."""
    return device == "Ascend" and hasattr(ops, "rms_norm") and ms.get_context("device_target") == "Ascend"
