"""The plain and the fused operators are called with the same shapes, and the right form is chosen by device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

ROWS, WIDTH, BATCH, LENGTH, HEADS, KV, HEAD = 12, 8, 2, 6, 4, 2, 2


def test_the_fused_norm_gets_what_the_plain_one_gets(mindspore: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from mindspore import Tensor

    from doctor.trainer import kernels

    x, weight = (Tensor(np.ones(shape, np.float32)) for shape in ((ROWS, WIDTH), (WIDTH,)))
    seen: list[tuple[Any, ...]] = []

    def rms_norm(x: Any, weight: Any, eps: float) -> Any:
        seen.append((x.shape, weight.shape, eps))
        return x, None

    monkeypatch.setattr(kernels.ops, "rms_norm", rms_norm, raising=False)
    fused = kernels.RmsNorm(1e-5, fused=True).construct(x, weight)
    plain = kernels.RmsNorm(1e-5, fused=False)(x, weight)
    assert seen == [((ROWS, WIDTH), (WIDTH,), 1e-5)]
    assert fused.shape == plain.shape == (ROWS, WIDTH)


def test_the_fused_attention_gets_what_the_plain_one_gets(mindspore: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from mindspore import Tensor

    from doctor.trainer import kernels

    q = Tensor(np.ones((ROWS, HEADS * HEAD), np.float32))
    k = Tensor(np.ones((ROWS, KV * HEAD), np.float32))
    seen: dict[str, Any] = {}

    def flash(q: Any, k: Any, v: Any, heads: int, **settings: Any) -> Any:
        seen.update(q=q.shape, k=k.shape, v=v.shape, heads=heads, mask=settings["attn_mask"].shape, **settings)
        return q

    monkeypatch.setattr(kernels.ops, "flash_attention_score", flash, raising=False)
    outs = []
    for fused in (True, False):
        cell = kernels.Attention(BATCH, LENGTH, HEADS, KV, HEAD, mindspore.float32, fused)
        mask = kernels.causal_mask(BATCH, LENGTH, HEADS, KV, mindspore.float32, fused)
        outs.append((cell.construct if fused else cell)(q, k, k, mask))
    assert outs[0].shape == outs[1].shape == (ROWS, HEADS * HEAD)
    assert (seen["q"], seen["k"], seen["v"]) == ((BATCH, LENGTH, 8), (BATCH, LENGTH, 4), (BATCH, LENGTH, 4))
    assert (seen["heads"], seen["input_layout"], seen["sparse_mode"]) == (HEADS, "BSH", 2)
    assert seen["mask"] == (2048, 2048)


def test_the_cpu_gets_the_plain_form(mindspore: Any) -> None:
    from doctor.trainer.kernels import has_fused

    assert not has_fused("CPU")


def test_attention_is_that_of_the_definition(mindspore: Any) -> None:
    """Against numpy, head by head: grouped heads share keys and values, and nothing looks ahead."""
    from mindspore import Tensor

    from doctor.trainer import kernels

    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((ROWS, n * HEAD)).astype(np.float32) for n in (HEADS, KV, KV))
    cell = kernels.Attention(BATCH, LENGTH, HEADS, KV, HEAD, mindspore.float32, fused=False)
    mask = kernels.causal_mask(BATCH, LENGTH, HEADS, KV, mindspore.float32, fused=False)
    ours = cell(Tensor(q), Tensor(k), Tensor(v), mask).asnumpy().reshape(BATCH, LENGTH, HEADS, HEAD)
    q, k, v = (item.reshape(BATCH, LENGTH, -1, HEAD) for item in (q, k, v))
    for b in range(BATCH):
        for h in range(HEADS):
            group = h // (HEADS // KV)
            scores = q[b, :, h] @ k[b, :, group].T
            scores[np.triu_indices(LENGTH, 1)] = -np.inf
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            expected = weights / weights.sum(-1, keepdims=True) @ v[b, :, group]
            assert np.abs(ours[b, :, h] - expected).max() < 1e-5


@pytest.mark.parametrize("scale", [1.0, 300.0], ids=["usual", "far-off"])
def test_head_loss_is_cross_entropy_also_where_a_probability_underflows(scale: float, mindspore: Any) -> None:
    from mindspore import Tensor, nn, ops

    from doctor.trainer.kernels import HeadLoss

    random = np.random.default_rng(1)
    rows = random.standard_normal((ROWS, WIDTH)).astype(np.float32) * np.float32(scale)
    table = random.standard_normal((20, WIDTH)).astype(np.float32)
    labels = random.integers(0, 20, ROWS).astype(np.int32)
    weights = random.random((ROWS, 1)).astype(np.float32)

    class Loss(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.head = HeadLoss(20)

        def construct(self, rows: Any, table: Any, labels: Any, weights: Any) -> Any:
            return self.head(rows, table, labels, weights)[0]

    inputs = [Tensor(item) for item in (rows, table, labels, weights)]
    loss = float(Loss()(*inputs).asnumpy())
    d_rows, d_table = (item.asnumpy() for item in ops.GradOperation(get_all=True)(Loss())(*inputs)[:2])

    logits = rows.astype(np.float64) @ table.astype(np.float64).T
    logits -= logits.max(-1, keepdims=True)
    losses = np.log(np.exp(logits).sum(-1)) - logits[np.arange(ROWS), labels]
    assert loss == pytest.approx(float((losses * weights[:, 0]).sum()), rel=1e-5)
    slope = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    slope[np.arange(ROWS), labels] -= 1
    slope *= weights
    assert np.abs(d_rows - slope @ table).max() < 1e-4
    assert np.abs(d_table - slope.T @ rows).max() < 1e-4 * scale
