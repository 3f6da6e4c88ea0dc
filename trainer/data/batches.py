"""The order of samples: shuffled anew each epoch from the seed, and resumable at any batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from doctor.errors import UsageError
from doctor.finding import Text
from doctor.trainer.data.samples import Samples


@dataclass(frozen=True)
class Batch:
    """`ids` and `labels` (batch, length). `index` counts batches within the epoch from 0."""

    ids: Any
    labels: Any
    epoch: int
    index: int


class Batches:
    """Batches without end: epoch after epoch. The order depends on seed and epoch alone, so the position
    (epoch, batch) is all that a checkpoint needs."""

    def __init__(self, samples: Samples, batch_size: int, seed: int, shuffle: bool, name: str) -> None:
        self.samples, self.batch_size, self.seed, self.shuffle = samples, batch_size, seed, shuffle
        self.per_epoch = len(samples) // batch_size
        if self.per_epoch == 0:
            raise UsageError(
                Text(
                    f"{name}: {len(samples)} samples do not fill one batch of {batch_size}.",
                    f"{name}：{len(samples)} 个样本不足一个大小为 {batch_size} 的 batch。",
                ),
                Text("Give more data, or a smaller batch size.", "请增加数据，或减小 batch size。"),
            )

    def order(self, epoch: int) -> Any:
        if not self.shuffle:
            return np.arange(len(self.samples))
        return np.random.default_rng([self.seed, epoch]).permutation(len(self.samples))

    def start(self, epoch: int = 0, index: int = 0) -> Iterator[Batch]:
        """Batches from a position on."""
        while True:
            order = self.order(epoch)
            while index < self.per_epoch:
                rows = order[index * self.batch_size : (index + 1) * self.batch_size]
                yield Batch(self.samples.ids[rows], self.samples.labels[rows], epoch, index)
                index += 1
            epoch, index = epoch + 1, 0
