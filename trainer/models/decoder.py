"""A decoder-only language model: embeddings, layers, head, and the loss over them."""

from __future__ import annotations

import math
import zlib
from typing import Any, Optional, Union

import mindspore as ms
import numpy as np
import numpy.typing as npt
from mindspore import Parameter, Tensor, nn, ops

from doctor.errors import UsageError
from doctor.finding import Text
from doctor.trainer import kernels
from doctor.trainer.models.blocks import Layer, Linear, Norm
from doctor.trainer.models.config import ModelConfig
from doctor.trainer.precision import Precision

Array = npt.NDArray[Any]

#: the label of a position that is not learned from, as in torch and MindFormers
IGNORED = -100


class Body(nn.Cell):  # type: ignore[misc]
    """Token ids (batch, sequence) to hidden states (rows, hidden)."""

    def __init__(self, config: ModelConfig, batch: int, length: int, precision: Precision, fused: bool) -> None:
        super().__init__()
        self.embed_tokens = _Embedding(config.vocab_size, config.hidden_size, precision)
        self.learned = config.position == "learned"
        if self.learned:
            self.embed_positions = _Embedding(config.max_position_embeddings, config.hidden_size, precision)
            self.positions = Tensor(np.tile(np.arange(length, dtype=np.int32), (batch, 1)))
        self.embedding_norm = config.embedding_norm
        if config.embedding_norm:
            self.embed_layernorm = Norm(config.hidden_size, config, precision, fused)
        self.layers = nn.CellList(
            [Layer(config, batch, length, precision, fused) for _ in range(config.num_hidden_layers)]
        )
        self.norm = Norm(config.hidden_size, config, precision, fused)
        places = _places(config, batch, length, precision, fused)
        self.q_cos, self.q_sin, self.k_cos, self.k_sin, self.turn, self.mask = places

    def construct(self, ids: Any) -> Any:
        x = self.embed_tokens(ids)
        if self.learned:
            x = x + self.embed_positions(self.positions)
        if self.embedding_norm:
            x = self.embed_layernorm(x)
        places = (self.q_cos, self.q_sin, self.k_cos, self.k_sin, self.turn, self.mask)
        for layer in self.layers:
            x = layer(x, places)
        return self.norm(x)


class _Embedding(nn.Cell):  # type: ignore[misc]
    def __init__(self, rows: int, width: int, precision: Precision) -> None:
        super().__init__()
        self.weight = Parameter(Tensor(np.zeros((rows, width), np.float32), precision.weights))
        self.width = width
        self.out = precision.stream
        self.gather = ops.Gather()
        self.cast = ops.Cast()
        self.reshape = ops.Reshape()

    def construct(self, ids: Any) -> Any:
        return self.cast(self.reshape(self.gather(self.weight, ids, 0), (-1, self.width)), self.out)


class CausalLM(nn.Cell):  # type: ignore[misc]
    """Token ids (batch, sequence) to logits (batch, sequence, vocabulary) in FP32."""

    def __init__(
        self, config: ModelConfig, batch: int, length: int, precision: Optional[Precision] = None, device: str = "CPU"
    ) -> None:
        super().__init__()
        precision = precision or Precision()
        self.config, self.batch, self.length = config, batch, length
        # ``construct`` can read plain numbers only; whether it may see the dataclass depends on what was compiled before.
        self.vocabulary = config.vocab_size
        self.model = Body(config, batch, length, precision, kernels.has_fused(device))
        self.tied = config.tie_word_embeddings
        if not self.tied:
            self.lm_head = Linear(config.hidden_size, config.vocab_size, False, precision)
        self.matmul = ops.MatMul(transpose_b=True)
        self.compute = precision.matmul
        self.cast = ops.Cast()
        self.reshape = ops.Reshape()

    def table(self) -> Any:
        """The matrix of the head (vocabulary, hidden): its own, or the embedding's when tied."""
        if self.tied:
            return self.model.embed_tokens.weight
        return self.lm_head.weight

    def construct(self, ids: Any) -> Any:
        logits = self.matmul(self.cast(self.model(ids), self.compute), self.cast(self.table(), self.compute))
        return self.reshape(self.cast(logits, ms.float32), (self.batch, self.length, self.vocabulary))


class LanguageModelLoss(nn.Cell):  # type: ignore[misc]
    """Cross-entropy summed over the learned positions times `share` (one over their number in the whole update).

    `labels` (batch, sequence) are the next tokens already: nothing is shifted here.
    """

    def __init__(self, network: CausalLM) -> None:
        super().__init__(auto_prefix=False)
        self.network = network
        self.head = kernels.HeadLoss(network.vocabulary)
        self.compute = network.compute
        self.reshape = ops.Reshape()
        self.cast = ops.Cast()
        self.maximum = ops.Maximum()

    def construct(self, ids: Any, labels: Any, share: Any) -> Any:
        rows = self.cast(self.network.model(ids), self.compute)
        table = self.cast(self.network.table(), self.compute)
        labels = self.reshape(labels, (-1,))
        learned = self.cast(labels >= 0, ms.float32)
        return self.head(rows, table, self.maximum(labels, 0), self.reshape(learned, (-1, 1)) * share)[0]


def recompute(network: CausalLM, wanted: Union[bool, str, tuple[int, ...]]) -> None:
    """Marks what the backward pass computes again instead of keeping: every layer (true), the layers with these
    numbers, or of every layer the attention core alone ("selective"), whose weights grow with the square of the length.

    Raises UsageError for a layer that the model does not have.
    """
    layers = network.model.layers
    if wanted == "selective":
        for layer in layers:
            layer.self_attn.attend.recompute()
        return
    numbers = wanted if isinstance(wanted, tuple) else range(len(layers) if wanted else 0)
    for number in numbers:
        if number >= len(layers):
            raise UsageError(
                Text(
                    f"training_args.recompute: layer {number} of a model of {len(layers)} layers (counted from 0).",
                    f"training_args.recompute：模型只有 {len(layers)} 层（从 0 计），没有第 {number} 层。",
                )
            )
        layers[number].recompute()


def initialise(network: nn.Cell, config: ModelConfig, seed: int) -> None:
    """Fills the matrices from a normal distribution of `initializer_range`, each from `seed` and its own name, so that
    neither order nor number of layers changes the others. Vectors keep their ones and zeros."""
    for name, parameter in network.parameters_and_names():
        if parameter.ndim < 2:
            continue
        source = np.random.default_rng([seed, zlib.crc32(name.encode())])
        values = source.standard_normal(parameter.shape, dtype=np.float32) * np.float32(config.initializer_range)
        parameter.set_data(Tensor(values, parameter.dtype))


def _places(config: ModelConfig, batch: int, length: int, precision: Precision, fused: bool) -> tuple[Tensor, ...]:
    """Constants of positions: cos and sin for queries (with the score's scale in them) and keys, the turn, the mask."""
    heads, kv, head = config.num_attention_heads, config.kv_heads, config.head
    slopes = alibi_slopes(heads) if config.position == "alibi" else None
    mask = kernels.causal_mask(batch, length, heads, kv, precision.softmax, fused, slopes)
    if config.position != "rotary":
        empty = Tensor(np.zeros((1, 1), np.float32))
        return empty, empty, empty, empty, empty, mask
    cos, sin, turn = rotary_tables(config, length)

    def tiled(table: Array, count: int, factor: float) -> Tensor:
        return Tensor(np.tile(table * factor, (batch, count)).astype(np.float32), precision.stream)

    scale = head**-0.5
    return (
        tiled(cos, heads, scale),
        tiled(sin, heads, scale),
        tiled(cos, kv, 1.0),
        tiled(sin, kv, 1.0),
        Tensor(turn, precision.stream),
        mask,
    )


def rotary_tables(config: ModelConfig, length: int) -> tuple[Array, Array, Array]:
    """cos and sin (length, head) and the turn (head, head) of one head; the part that is not rotated has cos 1, sin 0.

    Angles as in Su et al. 2021 (RoFormer); Llama 3's scaling as in its reference code.
    """
    head = config.head
    rotated = int(head * config.rotary_fraction)
    half = rotated // 2
    rate = config.rope_theta ** (-np.arange(0, rotated, 2, dtype=np.float64) / rotated)
    if config.rope_scaling:
        rate = _scaled(rate, dict(config.rope_scaling))
    angles = np.arange(length, dtype=np.float64)[:, None] * rate[None, :]
    spread = np.repeat(angles, 2, axis=1) if config.rotary_interleaved else np.concatenate([angles, angles], axis=1)
    cos, sin = np.ones((length, head)), np.zeros((length, head))
    cos[:, :rotated], sin[:, :rotated] = np.cos(spread), np.sin(spread)
    turn = np.zeros((head, head), np.float32)
    for index in range(half):
        first, second = (2 * index, 2 * index + 1) if config.rotary_interleaved else (index, index + half)
        turn[second, first], turn[first, second] = -1.0, 1.0
    return cos, sin, turn


def _scaled(rate: Array, scaling: dict[str, Any]) -> Array:
    factor = scaling["factor"]
    if scaling["rope_type"] == "linear":
        return np.asarray(rate / factor)
    length = 2 * np.pi / rate
    original = scaling["original_max_position_embeddings"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    smooth = np.clip((original / length - low) / (high - low), 0.0, 1.0)
    return np.asarray((1 - smooth) * rate / factor + smooth * rate)


def alibi_slopes(heads: int) -> Array:
    """One slope a head (Press et al. 2021); heads beyond a power of two take every second slope of the next power."""
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2.0 ** (-8.0 * (index + 1) / power) for index in range(power)]
    slopes += [2.0 ** (-4.0 * (2 * index + 1) / power) for index in range(heads - power)]
    return np.array(slopes, np.float32)
