"""What a step shows of itself besides its loss: one element of every gradient and of every weight."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import mindspore as ms
from mindspore import Parameter, nn, ops


def places(parameters: Sequence[Parameter]) -> tuple[tuple[int, ...], ...]:
    """An index into each parameter, from its own name: the same in every run."""
    found = []
    for item in parameters:
        flat = zlib.crc32(item.name.encode()) % max(1, item.size)
        index = []
        for size in reversed(item.shape):
            index.append(flat % size)
            flat //= size
        found.append(tuple(reversed(index)))
    return tuple(found)


class Elements(nn.Cell):  # type: ignore[misc]
    """One element of each of some tensors, as a vector in FP32."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        super().__init__(auto_prefix=False)
        self.places = places(parameters)
        self.one = tuple(tuple(1 for _ in item.shape) for item in parameters)
        self.slice = ops.Slice()
        self.reshape = ops.Reshape()
        self.cast = ops.Cast()
        self.join = ops.Concat()
        self.count = len(parameters)

    def construct(self, tensors: Any) -> Any:
        found: Any = ()
        for i in range(self.count):
            element = self.reshape(self.slice(tensors[i], self.places[i], self.one[i]), (1,))
            found += (self.cast(element, ms.float32),)
        return self.join(found)
