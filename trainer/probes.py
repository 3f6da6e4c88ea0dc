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
    """One element of each of some tensors, as a vector in FP32, in the order of the tensors' axes: `order` gives the place of
    each tensor in it. Joined axes by axes, because each operator costs the same however little it moves."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        super().__init__(auto_prefix=False)
        self.places = places(parameters)
        self.one = tuple(tuple(1 for _ in item.shape) for item in parameters)
        self.groups = groups(parameters)
        self.slice = ops.Slice()
        self.reshape = ops.Reshape()
        self.cast = ops.Cast()
        self.join = ops.Concat()

    def construct(self, tensors: Any) -> Any:
        found: Any = ()
        for group in self.groups:
            alike: Any = ()
            for i in group:
                alike += (self.slice(tensors[i], self.places[i], self.one[i]),)
            found += (self.cast(self.reshape(self.join(alike), (-1,)), ms.float32),)
        return self.join(found)


def groups(parameters: Sequence[Parameter]) -> tuple[tuple[int, ...], ...]:
    """The numbers of the parameters with as many axes and one type, group by group."""
    kinds: dict[tuple[int, str], list[int]] = {}
    for number, item in enumerate(parameters):
        kinds.setdefault((len(item.shape), str(item.dtype)), []).append(number)
    return tuple(tuple(numbers) for numbers in kinds.values())


def order(parameters: Sequence[Parameter]) -> tuple[int, ...]:
    """Where the element of each parameter lies in what `Elements` gives."""
    listed = [number for group in groups(parameters) for number in group]
    return tuple(listed.index(number) for number in range(len(listed)))
