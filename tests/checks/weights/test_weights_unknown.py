"""Models of no known family are judged by what their own layers agree on, and against the usual config fields."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from official import llama_hf
from weight_files import write_safetensors

from doctor.check import Options
from doctor.runner import judge_path

Spec = dict[str, tuple[str, list[int]]]


def mamba(layers: int = 6) -> Spec:
    """Names of state-space models: nothing here is attention."""
    spec: Spec = {"backbone.embedding.weight": ("F32", [50, 16]), "lm_head.weight": ("F32", [50, 16])}
    for i in range(layers):
        p = f"backbone.layers.{i}.mixer."
        spec |= {
            p + "in_proj.weight": ("F32", [64, 16]),
            p + "conv1d.weight": ("F32", [32, 1, 4]),
            p + "x_proj.weight": ("F32", [9, 32]),
            p + "A_log": ("F32", [32, 4]),
            p + "out_proj.weight": ("F32", [16, 32]),
            f"backbone.layers.{i}.norm.weight": ("F32", [16]),
        }
    return {**spec, "backbone.norm_f.weight": ("F32", [16])}


CONFIG = {"model_type": "mamba", "vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 6}


def found(folder: Path) -> list[str]:
    judged = judge_path(folder, Options())
    assert not [outcome for outcome in judged.outcomes if outcome.state == "crashed"], judged.outcomes
    return sorted({finding.rule for outcome in judged.outcomes for finding in outcome.findings})


def plant(folder: Path, change: Callable[[Spec], object] = lambda spec: None, **config: object) -> list[str]:
    spec = mamba()
    change(spec)
    write_safetensors(folder / "model.safetensors", spec, {"format": "pt"})
    (folder / "config.json").write_text(json.dumps({**CONFIG, **config}))
    return found(folder)


def test_a_sound_one_is_clean_and_named_by_its_config(tmp_path: Path) -> None:
    assert plant(tmp_path) == []
    facts = judge_path(tmp_path, Options()).facts["weights"]
    assert (facts["family"], facts["layout"], facts["layers"]) == ("mamba", None, 6)


def drop(*names: str) -> Callable[[Spec], object]:
    return lambda spec: [spec.pop(name) for name in list(spec) if any(part in name for part in names)]


@pytest.mark.parametrize(
    ("change", "config", "expected"),
    [
        (drop("layers.3."), {}, ["WGT-KEY-003"]),
        (drop("layers.5."), {}, ["WGT-KEY-003"]),
        (drop("layers.2.mixer.A_log"), {}, ["WGT-KEY-001"]),
        (lambda spec: spec.update({"backbone.layers.4.mixer.x_proj.weight": ("F32", [11, 32])}), {}, ["WGT-SHP-001"]),
        (lambda spec: spec.update({"backbone.layers.4.mixer.x_proj.weight": ("F32", [32, 9])}), {}, ["WGT-SHP-007"]),
        (lambda spec: None, {"vocab_size": 51}, ["WGT-SHP-003"]),
        (lambda spec: None, {"hidden_size": 32}, ["WGT-SHP-002"]),
        (lambda spec: None, {"num_hidden_layers": 4}, ["WGT-KEY-004"]),
        (lambda spec: None, {"model_type": "llama"}, ["WGT-KEY-008"]),
    ],
)
def test_planted(
    tmp_path: Path, change: Callable[[Spec], object], config: dict[str, object], expected: list[str]
) -> None:
    rules = plant(tmp_path, change, **config)
    assert [rule for rule in rules if rule != "WGT-CFG-003"] == expected


def test_a_parameter_under_a_name_that_is_nearly_right(tmp_path: Path) -> None:
    """MindFormers' converter of Meta files leaves tok_embeddings.weight where its model has embedding_weight."""
    from official import llama_mindformers

    shapes = llama_mindformers(90, 16, 32, 2, 2, 8, 3)
    shapes["model.tok_embeddings.weight"] = shapes.pop("model.tok_embeddings.embedding_weight")
    path = write_safetensors(tmp_path / "m.safetensors", {name: ("F16", list(shape)) for name, shape in shapes.items()})
    judged = judge_path(path, Options())
    texts = [f.message.en for outcome in judged.outcomes for f in outcome.findings if f.rule == "WGT-KEY-001"]
    assert len(texts) == 1 and "model.tok_embeddings.weight has its shape" in texts[0]


def llama_like(layers: int = 4) -> dict[str, tuple[int, ...]]:
    return dict(llama_hf(120, 64, 112, 4, 2, 16, layers))


def _phi3(spec: dict[str, tuple[int, ...]]) -> None:
    for name in [name for name in spec if "q_proj" in name]:
        head = name.rpartition("q_proj")[0]
        del spec[name], spec[f"{head}k_proj.weight"], spec[f"{head}v_proj.weight"]
        spec[f"{head}qkv_proj.weight"] = (128, 64)


def _gemma2(spec: dict[str, tuple[int, ...]]) -> None:
    for name in [name for name in spec if "post_attention_layernorm" in name]:
        spec[name.replace("post_attention", "pre_feedforward")] = (64,)
        spec[name.replace("post_attention", "post_feedforward")] = (64,)


def _cohere(spec: dict[str, tuple[int, ...]]) -> None:
    for name in [name for name in spec if "post_attention_layernorm" in name]:
        del spec[name]


def _olmoe(spec: dict[str, tuple[int, ...]]) -> None:
    """Norms over all heads, where Qwen 3 has one over each."""
    for name in [name for name in spec if "q_proj" in name]:
        spec[name.replace("q_proj", "q_norm")] = (64,)
        spec[name.replace("q_proj", "k_norm")] = (32,)


def _nemotron(spec: dict[str, tuple[int, ...]]) -> None:
    for name in [name for name in spec if "gate_proj" in name]:
        del spec[name]
    for name in [name for name in spec if "norm" in name]:
        spec[name.replace("weight", "bias")] = (64,)


def _starcoder2(spec: dict[str, tuple[int, ...]]) -> None:
    for name in [name for name in spec if ".mlp." in name]:
        del spec[name]
        if "gate" not in name:
            spec[name.replace("up_proj", "c_fc").replace("down_proj", "c_proj")] = (64, 64)


@pytest.mark.parametrize("named", [True, False], ids=["config", "no config"])
@pytest.mark.parametrize("change", [_phi3, _gemma2, _cohere, _olmoe, _nemotron, _starcoder2])
def test_a_model_that_shares_a_part_of_its_names_with_a_family(
    tmp_path: Path, change: Callable[[dict[str, tuple[int, ...]]], None], named: bool
) -> None:
    """What differs in every layer is another architecture and no damaged LLaMA."""
    spec = llama_like()
    change(spec)
    write_safetensors(tmp_path / "model.safetensors", {name: ("F32", shape) for name, shape in spec.items()})
    if named:
        config = {"model_type": change.__name__[1:], "hidden_size": 64, "vocab_size": 120, "num_hidden_layers": 4}
        (tmp_path / "config.json").write_text(json.dumps(config))
    judged = judge_path(tmp_path, Options())
    rules = {f.rule for outcome in judged.outcomes for f in outcome.findings if f.severity.rank >= 1}
    assert rules <= {"WGT-CFG-001"}
    assert judged.facts["weights"]["layout"] is None
