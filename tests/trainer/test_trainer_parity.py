"""The same weights give the same logits, loss and gradients as Hugging Face's models on torch (references/make.py)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from trainer_references import Reference

from doctor.trainer.fields import Place


def build(reference: Reference, **changes: Any) -> Any:
    """Our model with the reference's weights, for its batch."""
    from mindspore import Tensor

    from doctor.trainer.models.decoder import CausalLM
    from doctor.trainer.models.huggingface import from_huggingface
    from doctor.trainer.models.pretrained import from_config_json

    kind = {"llama3": "llama"}.get(reference.name, reference.name)
    config = from_config_json({"model_type": kind, **reference.config}, Place(key=reference.name))
    network = CausalLM(config, *reference.ids.shape, **changes)
    ours = from_huggingface(reference.weights, config)
    parameters = {item.name: item for item in network.get_parameters()}
    assert sorted(ours) == sorted(parameters)
    for name, values in ours.items():
        assert parameters[name].shape == values.shape, name
        parameters[name].set_data(Tensor(values))
    return network


def labels(ids: Any) -> Any:
    shifted = np.full_like(ids, -100)
    shifted[:, :-1] = ids[:, 1:]
    return shifted


NAMES = ("llama", "llama3", "qwen2", "qwen3", "glm", "glm4", "bloom", "gpt2")


@pytest.mark.parametrize("name", NAMES)
def test_logits_loss_and_gradients(name: str, mindspore: Any) -> None:
    from mindspore import Tensor, nn, ops

    from doctor.trainer.models.decoder import LanguageModelLoss
    from doctor.trainer.models.huggingface import from_huggingface

    reference = Reference.load(name)
    network = build(reference)
    loss = LanguageModelLoss(network)
    weights = mindspore.ParameterTuple(network.trainable_params())

    class Everything(nn.Cell):
        """One compiled graph for all three."""

        def __init__(self) -> None:
            super().__init__(auto_prefix=False)
            self.loss = loss
            self.grad = ops.GradOperation(get_by_list=True)

        def construct(self, ids: Any, labels: Any, share: Any) -> Any:
            return self.loss(ids, labels, share), self.grad(self.loss, weights)(ids, labels, share)

    share = np.float32(1 / (reference.ids.shape[0] * (reference.ids.shape[1] - 1)))
    ids = Tensor(reference.ids)
    value, gradients = Everything()(ids, Tensor(labels(reference.ids)), Tensor(share))
    logits = network(ids).asnumpy()

    assert np.abs(logits - reference.logits).max() < 1e-5
    assert float(value.asnumpy()) == pytest.approx(reference.loss, abs=1e-5)
    expected = from_huggingface(reference.gradients, network.config)
    for weight, gradient in zip(weights, gradients):
        theirs = expected[weight.name]
        scale = np.abs(theirs).max()
        assert np.abs(gradient.asnumpy() - theirs).max() <= 1e-4 * scale + 1e-8, weight.name


def test_adamw_clipping_and_schedule_follow_torch_for_twelve_steps(mindspore: Any) -> None:
    from doctor.trainer.arguments import TrainingArguments
    from doctor.trainer.models.decoder import LanguageModelLoss
    from doctor.trainer.schedule import Schedule
    from doctor.trainer.step import Stepper

    reference = Reference.load("llama")
    network = build(reference)
    args = TrainingArguments(learning_rate=0.01, weight_decay=0.1, max_grad_norm=0.5)
    schedule = Schedule("cosine", 0.01, 0.001, warmup=3, total=12)
    stepper = Stepper(network, LanguageModelLoss(network), args, schedule, guarded=False)
    share = 1 / (reference.ids.shape[0] * (reference.ids.shape[1] - 1))
    batch = [(reference.ids, labels(reference.ids))]
    losses = [stepper.run(batch, share, 1.0, update).loss for update in range(12)]

    with np.load(Reference.path("adamw")) as file:
        assert np.abs(np.array(losses) - file["losses"]).max() < 2e-5
    assert not math.isclose(losses[0], losses[-1], rel_tol=0.01)
