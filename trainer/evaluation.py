"""Evaluation: the loss over a data set, without learning from it."""

from __future__ import annotations

from itertools import islice

import numpy as np
from mindspore import Tensor

from doctor.trainer.data.batches import Batches
from doctor.trainer.data.samples import IGNORED, SampleSource
from doctor.trainer.models.decoder import CausalLM, LanguageModelLoss


class Evaluation:
    """The mean loss over the tokens of a data set, in the network's own batch shape."""

    def __init__(self, network: CausalLM, samples: SampleSource) -> None:
        self.network = network
        self.batches = Batches(samples, network.batch, 0, shuffle=False, name="eval_dataset", drop_remainder=False)
        self.measure = LanguageModelLoss(network)

    def loss(self) -> float:
        total, learned = 0.0, 0
        one = Tensor(np.float32(1.0))
        self.network.set_train(False)
        for batch in islice(self.batches.start(), self.batches.per_epoch):
            learned += int(np.count_nonzero(batch.labels != IGNORED))
            total += float(self.measure(Tensor(batch.ids), Tensor(batch.labels), one).asnumpy())
        self.network.set_train(True)
        return total / max(1, learned)
