"""Converted weights compute what the original computed: the logits of transformers' model on torch, in our trainer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_formats_convert import REFERENCE, convert, values

pytestmark = pytest.mark.mindspore

#: The families that the trainer holds, and the MindSpore layout that each is taken through.
THROUGH = [
    pytest.param("llama", "mindformers", "", marks=pytest.mark.heavy),
    ("llama", "mindformers", "qkv_concat"),
    pytest.param("llama", "mcore", "", marks=pytest.mark.heavy),
    pytest.param("qwen2", "mcore", "", marks=pytest.mark.heavy),
    ("qwen3", "mcore", ""),
    pytest.param("glm", "mcore", "", marks=pytest.mark.heavy),
    ("glm4", "mcore", ""),
    ("bloom", "mindformers", ""),
    ("gpt2", "mindformers", ""),
]


def logits(folder: Path, weights: dict[str, Any], tokens: Any) -> Any:
    pytest.importorskip("mindspore")
    from mindspore import Tensor

    from doctor.trainer.fields import Place
    from doctor.trainer.models.decoder import CausalLM
    from doctor.trainer.models.huggingface import from_huggingface
    from doctor.trainer.models.pretrained import from_config_json

    raw = json.loads((folder / "config.json").read_text())
    config = from_config_json(raw, Place(key=folder.name))
    network = CausalLM(config, *tokens.shape)
    parameters = {item.name: item for item in network.get_parameters()}
    for name, array in from_huggingface(weights, config).items():
        parameters[name].set_data(Tensor(np.ascontiguousarray(array)))
    return network(Tensor(tokens)).asnumpy()


@pytest.mark.parametrize(("family", "layout", "variant"), THROUGH)
def test_logits_after_the_way_through_mindspore(tmp_path: Path, family: str, layout: str, variant: str) -> None:
    folder = REFERENCE / family
    convert(folder, tmp_path / "there.ckpt", layout, variant)
    convert(tmp_path / "there.ckpt", tmp_path / "back", "huggingface", config=folder / "config.json")
    reference = json.loads((folder / "logits.json").read_text())
    tokens = np.array(reference["tokens"], np.int32)
    found = logits(folder, values(tmp_path / "back"), tokens)
    assert np.abs(found - np.array(reference["logits"])).max() < 1e-4
