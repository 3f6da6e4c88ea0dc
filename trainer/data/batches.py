"""The order of samples: shuffled anew each epoch from the seed, and resumable at any batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from doctor.errors import UsageError
from doctor.finding import Text
from doctor.trainer.data.samples import IGNORED, SampleSource


@dataclass(frozen=True)
class Batch:
    """`ids` and `labels` (batch, length). `index` counts batches within the epoch from 0."""

    ids: Any
    labels: Any
    epoch: int
    index: int


class Batches:
    """Batches without end: epoch after epoch. The order depends on seed and epoch alone, so the position
    (epoch, batch) is all that a checkpoint needs. With `drop_remainder` what does not fill a batch at the end of an epoch
    is left out; else that batch is filled up with positions that are not learnt from."""

    def __init__(
        self,
        samples: SampleSource,
        batch_size: int,
        seed: int,
        shuffle: bool,
        name: str,
        drop_remainder: bool = True,
    ) -> None:
        self.samples, self.batch_size, self.seed, self.shuffle = samples, batch_size, seed, shuffle
        self.per_epoch = len(samples) // batch_size if drop_remainder else -(-len(samples) // batch_size)
        if self.per_epoch == 0:
            raise UsageError(
                Text(
                    f"{name}: {len(samples)} samples do not fill one batch of {batch_size}.",
                    f"{name}：{len(samples)} 个样本不足一个大小为 {batch_size} 的 batch。",
                ),
                Text("Give more data, or a smaller batch size.", "请增加数据，或减小 batch size。"),
                "DAT-ROW-001",
            )

    def order(self, epoch: int) -> Any:
        if not self.shuffle:
            return np.arange(len(self.samples))
        return np.random.default_rng([self.seed, epoch]).permutation(len(self.samples))

    def start(self, epoch: int = 0, index: int = 0) -> Iterator[Batch]:
        """Batches from a position on."""
        while True:
            rows = self.order(epoch)[index * self.batch_size : self.per_epoch * self.batch_size]
            for ids, labels in self.samples.batches(rows, self.batch_size):
                yield Batch(*_filled(ids, labels, self.batch_size), epoch, index)
                index += 1
            epoch, index = epoch + 1, 0


def _filled(ids: Any, labels: Any, size: int) -> tuple[Any, Any]:
    """The batch with rows of nothing up to `size`: a compiled step takes one shape only."""
    short = size - len(ids)
    if not short:
        return ids, labels
    return np.pad(ids, ((0, short), (0, 0))), np.pad(labels, ((0, short), (0, 0)), constant_values=IGNORED)
