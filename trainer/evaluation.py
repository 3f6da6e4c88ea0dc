"""Evaluation: the loss over a data set, without learning from it."""

from __future__ import annotations

import numpy as np
from mindspore import Tensor

from doctor.trainer.data.samples import IGNORED, Samples
from doctor.trainer.models.decoder import CausalLM, LanguageModelLoss


class Evaluation:
    """The mean loss over the tokens of a data set, in the network's own batch shape."""

    def __init__(self, network: CausalLM, samples: Samples) -> None:
        self.network, self.samples = network, samples
        self.measure = LanguageModelLoss(network)

    def loss(self) -> float:
        size = self.network.batch
        total = 0.0
        learned = int(np.count_nonzero(self.samples.labels != IGNORED))
        one = Tensor(np.float32(1.0))
        self.network.set_train(False)
        for start in range(0, len(self.samples), size):
            ids, labels = self.samples.ids[start : start + size], self.samples.labels[start : start + size]
            short = size - len(ids)
            if short:
                ids = np.pad(ids, ((0, short), (0, 0)))
                labels = np.pad(labels, ((0, short), (0, 0)), constant_values=IGNORED)
            total += float(self.measure(Tensor(ids), Tensor(labels), one).asnumpy())
        self.network.set_train(True)
        return total / max(1, learned)
