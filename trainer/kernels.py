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
        self.plain = _PlainRmsNorm(eps)

    def construct(self, x: Any, weight: Any) -> Any:
        if self.fused:
            return ops.rms_norm(x, weight, self.eps)[0]
        return self.plain(x, weight)[0]


class _PlainRmsNorm(nn.Cell):  # type: ignore[misc]
    """With its own backward: what autodiff makes of the same expression takes twice the passes over memory.

    y = n w with n = x r, r = 1/sqrt(mean(x^2) + eps). With g = dy w: dx = r (g - n mean(g n)), dw = sum over rows of dy n.
    """

    def __init__(self, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.mean = ops.ReduceMean(keep_dims=True)
        self.sum = ops.ReduceSum()
        self.rsqrt = ops.Rsqrt()
        self.square = ops.Square()
        self.matmul = ops.MatMul()
        self.reshape = ops.Reshape()
        self.shape = ops.Shape()

    def construct(self, x: Any, weight: Any) -> Any:
        rate = self.rsqrt(self.mean(self.square(x), -1) + self.eps)
        normal = x * rate
        return normal * weight, normal, rate

    def bprop(self, x: Any, weight: Any, out: Any, dout: Any) -> Any:
        normal, rate = out[1], out[2]
        back = dout[0] * normal
        # The mean over a row as a matrix times a vector: a tenth of the time of a product and a mean.
        share = self.matmul(back, self.reshape(weight, (-1, 1))) * (1.0 / self.shape(x)[1])
        return (dout[0] * weight - normal * share) * rate, self.sum(back, 0)


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
        self.core = _AttentionCore(softmax_type)
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
        out = self.core(q, k, v, mask)[0]
        out = self.transpose(self.reshape(out, (b, n, g, s, d)), (0, 3, 1, 2, 4))
        return self.reshape(out, (b * s, n * g * d))


class _AttentionCore(nn.Cell):  # type: ignore[misc]
    """softmax(q k^T + mask) v over (groups, rows, size), with the backward of FlashAttention-2 (Dao 2023).

    The row sums of P * dP are those of o * do, which are eight times narrower; they are taken off inside the product
    do v^T, as one more column, because a broadcast subtraction of that size costs as much as the product itself.
    """

    def __init__(self, softmax_type: Any) -> None:
        super().__init__()
        self.softmax_type = softmax_type
        self.by_columns = ops.BatchMatMul(transpose_b=True)
        self.by_rows = ops.BatchMatMul()
        self.transposed = ops.BatchMatMul(transpose_a=True)
        self.softmax = ops.Softmax(-1)
        self.cast = ops.Cast()
        self.join = ops.Concat(-1)
        self.sum = ops.ReduceSum(keep_dims=True)
        self.reshape = ops.Reshape()
        self.shape = ops.Shape()
        self.ones = ops.Ones()

    def construct(self, q: Any, k: Any, v: Any, mask: Any) -> Any:
        scores = self.cast(self.by_columns(q, k), self.softmax_type) + mask
        weights = self.cast(self.softmax(scores), v.dtype)
        return self.by_rows(weights, v), weights

    def bprop(self, q: Any, k: Any, v: Any, mask: Any, out: Any, dout: Any) -> Any:
        mixed, weights = out
        back = dout[0]
        batch, rows, size = self.shape(back)
        # Two axes: summing the last of three takes ten times as long.
        taken = self.sum(self.reshape(back * mixed, (-1, size)), -1)
        back_and_taken = self.join((back, self.reshape(-taken, (batch, rows, 1))))
        v_and_one = self.join((v, self.ones((batch, self.shape(v)[1], 1), v.dtype)))
        scores = weights * self.by_columns(back_and_taken, v_and_one)
        return (
            self.by_rows(scores, k),
            self.transposed(scores, q),
            self.transposed(weights, back),
            ops.zeros_like(mask),
        )


class HeadLoss(nn.Cell):  # type: ignore[misc]
    """Cross-entropy of the vocabulary head, summed with a weight for each row, without ever forming its logits' gradient.

    rows (n, hidden), table (vocabulary, hidden), labels (n,) int32, weights (n, 1) float32. With p = softmax(rows table^T),
    d rows = w (p table - table[label]) and d table = p^T (w rows) - sum of w rows by label.
    """

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.logits = ops.MatMul(transpose_b=True)
        self.matmul = ops.MatMul()
        self.transposed = ops.MatMul(transpose_a=True)
        self.softmax = ops.Softmax(-1)
        self.largest = ops.ArgMaxWithValue(1, keep_dims=True)
        self.pick = ops.GatherD()
        self.log = ops.Log()
        self.sum = ops.ReduceSum()
        self.cast = ops.Cast()
        self.reshape = ops.Reshape()
        self.gather = ops.Gather()
        self.collect = ops.UnsortedSegmentSum()

    def construct(self, rows: Any, table: Any, labels: Any, weights: Any) -> Any:
        logits = self.cast(self.logits(rows, table), ms.float32)
        probabilities = self.softmax(logits)
        # log(sum(exp)) from the largest logit and its probability: exact however small the label's own one is.
        place, largest = self.largest(logits)
        total = largest - self.log(self.pick(probabilities, 1, place))
        losses = total - self.pick(logits, 1, self.reshape(labels, (-1, 1)))
        return self.sum(losses * weights), probabilities

    def bprop(self, rows: Any, table: Any, labels: Any, weights: Any, out: Any, dout: Any) -> Any:
        probabilities = out[1]
        factor = weights * dout[0]
        weighted = self.cast(rows, ms.float32) * factor
        kind = rows.dtype
        if kind == ms.float32:
            d_rows = (self.matmul(probabilities, table) - self.gather(table, labels, 0)) * factor
            d_table = self.transposed(probabilities, weighted)
        else:
            # In half the factor, which holds the loss scale, must be in before the rounding.
            scaled = self.cast(probabilities * factor, kind)
            d_rows = self.matmul(scaled, table) - self.cast(
                self.cast(self.gather(table, labels, 0), ms.float32) * factor, kind
            )
            d_table = self.cast(self.transposed(scaled, rows), ms.float32)
        d_table = d_table - self.collect(weighted, labels, self.vocabulary)
        return d_rows, self.cast(d_table, table.dtype), ops.zeros_like(labels), ops.zeros_like(weights)


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
