"""Models of every family against their configs: real ones are clean, each planted fault gives its own rule.

The models are tiny but real: transformers wrote them (tests/formats/reference/make_reference.py).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from doctor.check import Options
from doctor.runner import judge_path

REFERENCE = Path(__file__).resolve().parents[2] / "formats" / "reference"
FAMILIES = sorted(path.parent.name for path in REFERENCE.glob("*/config.json"))
Tensors = dict[str, np.ndarray]


def found(path: Path, **options: Any) -> list[str]:
    judged = judge_path(path, Options(**options))
    crashed = [outcome for outcome in judged.outcomes if outcome.state == "crashed"]
    assert not crashed, crashed
    return sorted({f.rule for outcome in judged.outcomes for f in outcome.findings if f.severity.rank >= 1})


def message(path: Path, rule: str, lang: str = "en") -> str:
    for outcome in judge_path(path, Options()).outcomes:
        for finding in outcome.findings:
            if finding.rule == rule:
                return f"{finding.title.pick(lang)}. {finding.message.pick(lang)}"
    raise AssertionError(f"{rule} was not found")


@pytest.fixture
def model(tmp_path: Path) -> Callable[[str], Path]:
    def copy(family: str) -> Path:
        shutil.copytree(REFERENCE / family, tmp_path / family)
        return tmp_path / family

    return copy


def edit(folder: Path, change: Callable[[Tensors], None]) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file({name: np.ascontiguousarray(array) for name, array in tensors.items()}, path, {"format": "pt"})


def configure(folder: Path, **fields: Any) -> None:
    path = folder / "config.json"
    data = json.loads(path.read_text())
    for key, value in fields.items():
        if value is None:
            data.pop(key, None)
        else:
            data[key] = value
    path.write_text(json.dumps(data, indent=2))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_real_model_is_clean_and_known(model: Callable[[str], Path], family: str) -> None:
    folder = model(family)
    assert found(folder) == []
    facts = judge_path(folder, Options()).facts["weights"]
    assert (facts["family"], facts["layout"], facts["format"]) == (family, "huggingface", "safetensors")


@pytest.mark.parametrize("family", FAMILIES)
def test_without_a_config_the_family_is_still_known(model: Callable[[str], Path], family: str) -> None:
    folder = model(family)
    (folder / "config.json").unlink()
    assert found(folder) == ["WGT-CFG-001"]
    assert judge_path(folder, Options()).facts["weights"]["family"] == family


HIDDEN = {"gpt2": "n_embd"}
DEPTH = {"gpt2": "n_layer", "bloom": "n_layer"}
LAYER = {
    "gpt2": "transformer.h.{}.",
    "bloom": "transformer.h.{}.",
}


def layer_of(family: str, tensors: Tensors, number: int) -> list[str]:
    marks = [f"layers.{number}.", f"h.{number}."]
    return [name for name in tensors if any(mark in name for mark in marks)]


@pytest.mark.parametrize("family", FAMILIES)
def test_one_parameter_lost(model: Callable[[str], Path], family: str) -> None:
    folder = model(family)

    def change(tensors: Tensors) -> None:
        victims = [name for name in layer_of(family, tensors, 1) if name.endswith("weight") and "expert" not in name]
        tensors.pop(sorted(victims)[-1])

    edit(folder, change)
    assert found(folder) == ["WGT-KEY-001"]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_last_layer_lost(model: Callable[[str], Path], family: str) -> None:
    folder = model(family)

    def change(tensors: Tensors) -> None:
        last = max(number for number in range(9) if layer_of(family, tensors, number))
        for name in layer_of(family, tensors, last):
            del tensors[name]

    edit(folder, change)
    assert found(folder) == ["WGT-KEY-003"]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_config_with_fewer_layers(model: Callable[[str], Path], family: str) -> None:
    folder = model(family)
    configure(folder, **{DEPTH.get(family, "num_hidden_layers"): 1, "layer_types": None})
    assert found(folder) == ["WGT-KEY-004"]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("vocabulary", [60, 62, 64, 128])
def test_another_vocabulary(model: Callable[[str], Path], family: str, vocabulary: int) -> None:
    folder = model(family)
    configure(folder, vocab_size=vocabulary)
    assert found(folder) == ["WGT-SHP-003"]
    text = message(folder, "WGT-SHP-003")
    assert "61" in text and str(vocabulary) in text
    if vocabulary == 60:
        assert "pad token was added" in text


@pytest.mark.parametrize("family", FAMILIES)
def test_another_size(model: Callable[[str], Path], family: str) -> None:
    folder = model(family)
    configure(folder, **{HIDDEN.get(family, "hidden_size"): 96})
    assert found(folder) == ["WGT-SHP-002"]


@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in {"bloom", "gpt2"}])
def test_another_feed_forward_width(model: Callable[[str], Path], family: str) -> None:
    folder = model(family)
    configure(folder, intermediate_size=44)
    assert found(folder) == ["WGT-SHP-004"]


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "qwen3_moe", "glm", "glm4", "glm4_moe"])
def test_another_number_of_kv_heads(model: Callable[[str], Path], family: str) -> None:
    folder = model(family)
    configure(folder, num_key_value_heads=4)
    assert found(folder) == ["WGT-SHP-005"]
    assert "2 KV heads instead of 4" in message(folder, "WGT-SHP-005")


@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in {"bloom", "gpt2", "qwen2"}])
def test_the_head_lost(model: Callable[[str], Path], family: str) -> None:
    folder = model(family)
    edit(folder, lambda tensors: tensors.__delitem__("lm_head.weight"))
    assert found(folder) == ["WGT-KEY-007"]
    configure(folder, tie_word_embeddings=True)
    assert found(folder) == []


@pytest.mark.parametrize("family", FAMILIES)
def test_a_prefix_on_every_name(model: Callable[[str], Path], family: str) -> None:
    folder = model(family)

    def change(tensors: Tensors) -> None:
        for name in list(tensors):
            tensors["network." + name] = tensors.pop(name)

    edit(folder, change)
    assert found(folder) == ["WGT-KEY-005"]


@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in {"bloom", "gpt2"}])
def test_the_prefix_model_lost(model: Callable[[str], Path], family: str) -> None:
    folder = model(family)

    def change(tensors: Tensors) -> None:
        for name in list(tensors):
            tensors[name.removeprefix("model.")] = tensors.pop(name)

    edit(folder, change)
    assert found(folder) == ["WGT-KEY-005"]


@pytest.mark.parametrize("family", FAMILIES)
def test_one_weight_transposed(model: Callable[[str], Path], family: str) -> None:
    folder = model(family)

    def change(tensors: Tensors) -> None:
        name = next(n for n, a in sorted(tensors.items()) if a.ndim == 2 and a.shape[0] != a.shape[1] and ".1." in n)
        tensors[name] = tensors[name].T

    edit(folder, change)
    assert found(folder) == ["WGT-SHP-007"]


@pytest.mark.parametrize(("family", "field"), [("bloom", "n_head"), ("gpt2", "n_head")])
def test_heads_that_do_not_share_the_hidden_size(model: Callable[[str], Path], family: str, field: str) -> None:
    """No shape tells the number of heads: a wrong one gives right shapes and wrong content."""
    folder = model(family)
    configure(folder, **{field: 5})
    assert found(folder) == ["WGT-CFG-003"]


def test_all_weights_of_the_feed_forward_transposed(model: Callable[[str], Path]) -> None:
    """The turned ones are the majority that sizes are solved by."""
    folder = model("llama")

    def turn(tensors: Tensors) -> None:
        for name in [name for name in tensors if ".mlp." in name]:
            tensors[name] = tensors[name].T

    edit(folder, turn)
    assert found(folder) == ["WGT-SHP-007"]


@pytest.mark.parametrize("family", FAMILIES)
def test_one_weight_of_another_shape(model: Callable[[str], Path], family: str) -> None:
    folder = model(family)

    def change(tensors: Tensors) -> None:
        name = next(n for n, a in sorted(tensors.items()) if a.ndim == 2 and ".1." in n)
        tensors[name] = np.zeros((5, 7), "float32")

    edit(folder, change)
    assert found(folder) == ["WGT-SHP-001"]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_foreign_parameter(model: Callable[[str], Path], family: str) -> None:
    folder = model(family)
    edit(folder, lambda tensors: tensors.update({"score.weight": np.zeros((2, 32), "float32")}))
    assert found(folder) == ["WGT-KEY-002"]


@pytest.mark.parametrize(
    ("family", "claimed"),
    [("qwen2", "llama"), ("llama", "qwen2"), ("qwen3", "qwen2"), ("llama", "gpt2"), ("glm4", "llama"),
     ("bloom", "llama"), ("deepseek_v3", "qwen3_moe"), ("gpt2", "bloom")],
)  # fmt: skip
def test_another_family(model: Callable[[str], Path], family: str, claimed: str) -> None:
    folder = model(family)
    fields = json.loads((REFERENCE / claimed / "config.json").read_text())
    configure(folder, **{**fields, "hidden_size": 32, "vocab_size": 61})
    assert "WGT-KEY-008" in found(folder) and not {"WGT-KEY-001", "WGT-KEY-002", "WGT-SHP-002"} & set(found(folder))


def test_half_the_weights_in_another_type(model: Callable[[str], Path]) -> None:
    folder = model("llama")

    def change(tensors: Tensors) -> None:
        for name in layer_of("llama", tensors, 2):
            tensors[name] = tensors[name].astype("float16")

    edit(folder, change)
    assert found(folder) == ["WGT-DTY-001"]


def test_a_tokenizer_with_more_tokens_than_rows(model: Callable[[str], Path]) -> None:
    folder = model("llama")
    vocabulary = {f"t{number}": number for number in range(61)}
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}, "added_tokens": []}))
    assert found(folder) == []
    added = [{"id": 61, "content": "<pad>"}]
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}, "added_tokens": added}))
    assert found(folder) == ["WGT-TOK-001"]
    assert "<pad>" in message(folder, "WGT-TOK-001")


def test_a_resized_embedding_without_its_head(model: Callable[[str], Path]) -> None:
    folder = model("llama")
    edit(
        folder,
        lambda t: t.update({"lm_head.weight": np.vstack([t["lm_head.weight"], np.zeros((3, 32), "float32")])}),
    )
    assert found(folder) == ["WGT-SHP-008"]


def test_an_adapter_alone(model: Callable[[str], Path]) -> None:
    folder = model("llama")
    (folder / "model.safetensors").unlink()
    names = [f"base_model.model.model.layers.{i}.self_attn.q_proj.lora_{x}.weight" for i in range(3) for x in "AB"]
    save_file({name: np.zeros((4, 32), "float32") for name in names}, folder / "adapter_model.safetensors")
    assert found(folder) == ["WGT-KEY-010"]


def test_an_expert_lost(model: Callable[[str], Path]) -> None:
    folder = model("deepseek_v3")
    edit(folder, lambda t: t.__delitem__("model.layers.2.mlp.experts.1.up_proj.weight"))
    assert found(folder) == ["WGT-KEY-011"]


def test_positions_of_another_length(model: Callable[[str], Path]) -> None:
    folder = model("gpt2")
    configure(folder, n_positions=1024)
    assert found(folder) == ["WGT-SHP-006"]


@pytest.mark.parametrize(
    ("content", "rule"),
    [('{"model_type": "llama", ', "WGT-CFG-002"), ("[]", "WGT-CFG-002"), ('{"model_type": "llama"}', "WGT-CFG-003")],
)
def test_a_broken_config(model: Callable[[str], Path], content: str, rule: str) -> None:
    folder = model("llama")
    (folder / "config.json").write_text(content)
    assert found(folder) == [rule]


def test_states_and_buffers_do_not_count(model: Callable[[str], Path]) -> None:
    folder = model("llama")

    def change(tensors: Tensors) -> None:
        for name, array in list(tensors.items()):
            tensors[f"adam_m.{name}"] = tensors[f"adam_v.{name}"] = np.zeros_like(array)
        tensors["global_step"] = np.array([300], "int32")
        tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(4, "float32")

    edit(folder, change)
    assert found(folder) == []
    assert judge_path(folder, Options()).facts["weights"]["parameters"] == 27168
