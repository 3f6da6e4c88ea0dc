"""In which order do the rows of a fused projection stand? Shapes cannot tell; the sizes of the rows can.

Query, key and value rows (and gate and up rows) of a trained model differ in size. Each order that a framework
uses says which rows belong together; the order under which the groups differ most is the likelier one. The
measure is the logarithm of the likelihood ratio for normal log sizes with one mean a group. On small trained
models the right order wins in nearly every layer; on random weights none does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np

from doctor.formats.tensor import DTYPE_BITS, Tensor
from doctor.formats.values import FORMATS, READ, as_float

#: Total log likelihood ratio from which an order is named; random rows stay within a few units a layer.
ENOUGH = 30.0


@dataclass(frozen=True)
class Verdict:
    """`likelihood` is the sum over layers of what speaks for `order` against the other; `agreeing` of `layers` say so."""

    order: str
    likelihood: float
    agreeing: int
    layers: int

    @property
    def confidence(self) -> float:
        """Between 0.5 and 0.9: grows with the evidence, falls with layers that say the opposite."""
        share = self.agreeing / self.layers
        return round(min(0.9, 0.5 + self.likelihood / 500) * (0.5 + share / 2), 2)


def row_sizes(path: Path, tensor: Tensor) -> Any:
    """The logarithm of each row's mean square, as an array. Raises OSError. Rows of zeros count as very small."""
    form = FORMATS[tensor.dtype]
    rows, columns = tensor.shape
    width = DTYPE_BITS[tensor.dtype] // 8
    step = max(READ // (columns * width), 1)
    sizes = np.empty(rows)
    with path.open("rb", buffering=0) as file:
        file.seek(tensor.spans[0][0])
        for start in range(0, rows, step):
            count = min(step, rows - start)
            raw = file.read(count * columns * width)
            table = as_float(np.frombuffer(raw, form.bits), tensor.dtype).reshape(count, columns)
            sizes[start : start + count] = np.einsum("ij,ij->i", table, table, dtype=np.float64) / columns
    return np.log(np.maximum(sizes, 1e-30))


def plain_labels(parts: Sequence[int]) -> Any:
    """Groups one after the other: q, k, v or gate, up."""
    return np.repeat(np.arange(len(parts)), parts)


def grouped_labels(query: int, key: int, head: int) -> Any:
    """For each KV group its query rows, key rows and value rows."""
    groups = key // head
    one = np.repeat(np.arange(3), [query // groups, head, head])
    return np.tile(one, groups)


def interleaved_labels(rows: int) -> Any:
    """Gate and up rows in turn."""
    return np.arange(rows) % 2


def compare(sizes: Sequence[Any], orders: dict[str, Any]) -> Optional[Verdict]:
    """Which of two orders the layers speak for, or None when they do not say enough."""
    (first, labels), (second, others) = orders.items()
    ratios = [likelihood(rows, labels) - likelihood(rows, others) for rows in sizes]
    total = math.fsum(ratios)
    winner = first if total > 0 else second
    agreeing = sum((ratio > 0) == (total > 0) for ratio in ratios)
    if abs(total) < ENOUGH or agreeing < 0.7 * len(ratios):
        return None
    return Verdict(winner, abs(total), agreeing, len(ratios))


def likelihood(rows: Any, labels: Any) -> float:
    """How much better groups of their own means explain the rows than one mean does."""
    total = float(((rows - rows.mean()) ** 2).sum())
    within = sum(
        float(((part - part.mean()) ** 2).sum()) for part in (rows[labels == label] for label in np.unique(labels))
    )
    if total <= 0 or within <= 0:
        return 0.0
    return len(rows) / 2 * math.log(total / within)


#: Degree of the curve over the frequencies: sizes of query and key rows of a trained model follow one.
DEGREE = 4


def rotary_orders(head: int) -> dict[str, Any]:
    """The number of the frequency that turns each row of a head: the two rows of a pair half a head apart, or neighbours."""
    rows = np.arange(head)
    return {"half a head apart": rows % (head // 2), "side by side": rows // 2}


def compare_rotary(layers: Sequence[Any], head: int) -> Optional[Verdict]:
    """Which order of rotary pairs the row sizes of each layer speak for, or None when they do not say enough.

    Rows that turn with the same frequency end up alike, and neighbouring frequencies nearly so: under the right order
    a smooth curve over the frequencies explains the sizes of a head's rows better than under the other."""
    (first, near), (second, far) = rotary_orders(head).items()
    bases = [_smooth(frequencies) for frequencies in (near, far)]
    ratios = []
    for rows in layers:
        heads = rows.reshape(-1, head)
        left, right = (_roughness(heads, base) for base in bases)
        if left <= 0 or right <= 0:
            continue
        ratios.append(heads.size / 2 * math.log(right / left))
    total = math.fsum(ratios)
    if abs(total) < ENOUGH:
        return None
    agreeing = sum((ratio > 0) == (total > 0) for ratio in ratios)
    if agreeing < 0.7 * len(ratios):
        return None
    return Verdict(first if total > 0 else second, abs(total), agreeing, len(ratios))


def _smooth(frequencies: Any) -> Any:
    """Orthonormal polynomials over the frequencies, as columns."""
    span = 2 * frequencies / frequencies.max() - 1
    base, _ = np.linalg.qr(np.vander(span, DEGREE + 1))
    return base


def _roughness(heads: Any, base: Any) -> float:
    """The sum of squares that the curve of each head leaves unexplained."""
    rest = heads - (heads @ base) @ base.T
    return float((rest**2).sum())
