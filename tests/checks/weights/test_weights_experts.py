"""Models with experts in the ways that published files keep them, and models whose experts no family here stands for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from weight_files import write_safetensors

from doctor.check import Options
from doctor.formats.convert import plan
from doctor.formats.deliver import Target, deliver
from doctor.formats.recognise import recognise
from doctor.formats.weightset import open_set
from doctor.runner import judge_path

REFERENCE = Path(__file__).resolve().parents[2] / "formats" / "reference"


def found(path: Path) -> list[str]:
    judged = judge_path(path, Options())
    return sorted({f.rule for outcome in judged.outcomes for f in outcome.findings if f.severity.rank >= 1})


def stacked(source: Path, target: Path) -> Path:
    """As ``state_dict()`` of transformers 5 keeps experts: ``gate_up_proj`` [E, 2M, H], ``down_proj`` [E, H, M]."""
    target.mkdir()
    shutil.copy(source / "config.json", target)
    tensors = load_file(source / "model.safetensors")
    rows: dict[str, dict[int, dict[str, np.ndarray]]] = {}
    for name in [name for name in tensors if ".mlp.experts." in name]:
        head, _, rest = name.partition(".mlp.experts.")
        number, kind, _ = rest.split(".")
        rows.setdefault(head, {}).setdefault(int(number), {})[kind] = tensors.pop(name)
    for head, experts in rows.items():
        order = [experts[number] for number in sorted(experts)]
        pairs = [np.concatenate([row["gate_proj"], row["up_proj"]]) for row in order]
        tensors[f"{head}.mlp.experts.gate_up_proj"] = np.stack(pairs)
        tensors[f"{head}.mlp.experts.down_proj"] = np.stack([row["down_proj"] for row in order])
    save_file(tensors, target / "model.safetensors", {"format": "pt"})
    return target


@pytest.mark.parametrize("family", ["qwen3_moe", "deepseek_v3", "glm4_moe"])
def test_experts_stacked_by_transformers_5(tmp_path: Path, family: str) -> None:
    folder = stacked(REFERENCE / family, tmp_path / family)
    assert found(folder) == []
    for source, name in ((REFERENCE / family, "plain"), (folder, "stacked")):
        opened = open_set(source)
        model = recognise(opened.tensors)
        assert model is not None and model.family.id == family
        layout = next(layout for layout in model.family.layouts if layout.id == "mcore")
        sizes = {"D": 8} if "D" not in model.symbols else {}
        target = Target(tmp_path / f"{name}.safetensors", False, "safetensors")
        deliver(plan(opened, model, layout, sizes), opened, target)
    plain, same = (load_file(tmp_path / f"{name}.safetensors") for name in ("plain", "stacked"))
    assert plain.keys() == same.keys()
    assert all(np.array_equal(plain[name], same[name]) for name in plain)


def test_a_number_of_experts_that_the_config_does_not_have(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    shutil.copytree(REFERENCE / "deepseek_v3", folder)
    config = json.loads((folder / "config.json").read_text())
    held = config["n_routed_experts"]
    (folder / "config.json").write_text(json.dumps({**config, "n_routed_experts": 2 * held}, indent=1))
    (finding,) = [
        f for outcome in judge_path(folder, Options()).outcomes for f in outcome.findings if f.severity.rank >= 1
    ]
    assert finding.rule == "WGT-SHP-001"
    assert f"n_routed_experts is {2 * held}" in finding.message.en
    assert f"n_routed_experts 为 {2 * held}" in finding.message.zh


def mixtral(layers: int = 2, experts: int = 4) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Names of the published Mixtral files."""
    spec = {"model.embed_tokens.weight": (120, 64), "model.norm.weight": (64,), "lm_head.weight": (120, 64)}
    for i in range(layers):
        p = f"model.layers.{i}."
        spec |= {f"{p}self_attn.{name}_proj.weight": (64, 64) for name in "qo"}
        spec |= {f"{p}self_attn.{name}_proj.weight": (32, 64) for name in "kv"}
        spec |= {f"{p}input_layernorm.weight": (64,), f"{p}post_attention_layernorm.weight": (64,)}
        spec[f"{p}block_sparse_moe.gate.weight"] = (experts, 64)
        for e in range(experts):
            spec[f"{p}block_sparse_moe.experts.{e}.w1.weight"] = (112, 64)
            spec[f"{p}block_sparse_moe.experts.{e}.w2.weight"] = (64, 112)
            spec[f"{p}block_sparse_moe.experts.{e}.w3.weight"] = (112, 64)
    return {name: ("BF16", shape) for name, shape in spec.items()}


def test_experts_of_a_family_that_is_not_known_are_not_missed(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "model.safetensors", mixtral())
    assert found(tmp_path) == []
    config = {"model_type": "mixtral", "vocab_size": 120, "hidden_size": 64, "intermediate_size": 112}
    config |= {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "num_local_experts": 4}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert found(tmp_path) == []


def test_a_width_of_experts_that_the_config_does_not_have(tmp_path: Path) -> None:
    """Shared experts follow from the same field: one finding."""
    folder = tmp_path / "m"
    shutil.copytree(REFERENCE / "deepseek_v3", folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "moe_intermediate_size": 96}, indent=1))
    (finding,) = [
        f for outcome in judge_path(folder, Options()).outcomes for f in outcome.findings if f.severity.rank >= 1
    ]
    assert finding.rule == "WGT-SHP-001" and "moe_intermediate_size is 96" in finding.message.en
