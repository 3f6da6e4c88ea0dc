"""The faults of the self-test planted in the decoder of `doctor.trainer` instead: one compiled MindSpore cell, whose weights
are set anew for each run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from doctor.selftest.network import Array, Sizes, TextCorpus, Weights
from doctor.selftest.runs import Run


class MindSporeNetwork:
    """The decoder of `doctor.trainer`, two LLaMA layers, compiled once."""

    def __init__(self, sizes: Sizes) -> None:
        from doctor.trainer import runtime

        runtime.start("CPU")
        from mindspore import ParameterTuple, Tensor

        from doctor.trainer.models.config import ModelConfig
        from doctor.trainer.models.decoder import CausalLM, LanguageModelLoss, initialise
        from doctor.trainer.step import _Gradients

        self.sizes = sizes
        self._tensor: Callable[[Array], Any] = Tensor
        self._config = ModelConfig(
            vocab_size=sizes.vocab,
            hidden_size=sizes.width,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=sizes.length,
        )
        self._network = CausalLM(self._config, sizes.batch, sizes.length)
        self._initialise = lambda seed: initialise(self._network, self._config, seed)
        self._parameters = ParameterTuple(self._network.trainable_params())
        self._cell = _Gradients(LanguageModelLoss(self._network), self._parameters)
        self._one = Tensor(np.float32(1))
        self._vectors = {item.name: item.asnumpy().copy() for item in self._parameters}

    def initial(self, seed: int) -> Weights:
        for item in self._parameters:
            item.set_data(self._tensor(self._vectors[item.name]))
        self._initialise(seed)
        return {item.name: item.asnumpy().copy() for item in self._parameters}

    def gradients(self, weights: Weights, ids: Array, labels: Array) -> tuple[float, Weights]:
        for item in self._parameters:
            item.set_data(self._tensor(np.ascontiguousarray(weights[item.name], np.float32)))
        share = np.float32(1 / max(1, int((labels >= 0).sum())))
        loss, found = self._cell(
            self._tensor(np.ascontiguousarray(ids, np.int32)),
            self._tensor(np.ascontiguousarray(labels, np.int32)),
            self._tensor(share),
            self._one,
        )
        return float(loss.asnumpy()), {item.name: grad.asnumpy() for item, grad in zip(self._parameters, found)}


def for_mindspore(run: Run) -> Run:
    """The same run at the one size for which a cell is compiled."""
    run.sizes, run.accumulate, run.pretrained = Sizes(96, 32, 32, 8), 1, 0
    known = run.corpus if isinstance(run.corpus, TextCorpus) else TextCorpus(96)
    run.corpus = TextCorpus(96, known.first, known.share, 34 if known.length else None)
    if "vocab_size" in run.echo:
        run.echo["vocab_size"] = 96
    return run
