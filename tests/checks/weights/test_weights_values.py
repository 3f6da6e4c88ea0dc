"""Planted values in real tiny models: each gives its own rule under --values, and none without."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from doctor.check import Options
from doctor.formats.read import read_file
from doctor.formats.values import float8_table, scan
from doctor.runner import judge_path

REFERENCE = Path(__file__).resolve().parents[2] / "formats" / "reference"
FAMILIES = sorted(path.parent.name for path in REFERENCE.glob("*/config.json"))
Tensors = dict[str, np.ndarray]
Q = "model.layers.1.self_attn.q_proj.weight"


def found(path: Path, values: bool = True) -> list[str]:
    judged = judge_path(path, Options(values=values))
    assert not [outcome for outcome in judged.outcomes if outcome.state == "crashed"], judged.outcomes
    return sorted({finding.rule for outcome in judged.outcomes for finding in outcome.findings})


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    """A model of eight layers with values as trained ones have them."""
    rng = np.random.default_rng(5)
    tensors: Tensors = {}
    for name, array in load_file(REFERENCE / "llama/model.safetensors").items():
        tensors[name] = array
    for i in range(3, 8):
        for name in [name for name in tensors if ".layers.0." in name]:
            array = tensors[name]
            tensors[name.replace(".0.", f".{i}.")] = (array + rng.normal(0, 0.02, array.shape)).astype("float32")
    folder = tmp_path / "llama"
    shutil.copytree(REFERENCE / "llama", folder)
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text.replace('"num_hidden_layers": 3', '"num_hidden_layers": 8'))
    save_file(tensors, folder / "model.safetensors")
    return folder


def edit(folder: Path, change: Callable[[Tensors], None]) -> None:
    tensors = {name: array.copy() for name, array in load_file(folder / "model.safetensors").items()}
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


@pytest.mark.parametrize("family", FAMILIES)
def test_real_models_have_sound_values(family: str) -> None:
    assert found(REFERENCE / family) == []


def test_a_sound_model_and_no_values_asked_for(llama: Path) -> None:
    assert found(llama) == [] and found(llama, values=False) == []
    judged = judge_path(llama, Options())
    assert {o.state for o in judged.outcomes if o.rule.startswith("WGT-VAL")} == {"skipped"}


def put(name: str, index: object, value: object) -> Callable[[Tensors], None]:
    def change(tensors: Tensors) -> None:
        tensors[name][index] = value

    return change


def twin(tensors: Tensors) -> None:
    for name in [name for name in tensors if ".layers.2." in name]:
        tensors[name.replace(".2.", ".3.")] = tensors[name].copy()


def untrain(tensors: Tensors) -> None:
    rng = np.random.default_rng(1)
    for name, array in tensors.items():
        tensors[name] = np.ones_like(array) if "norm" in name else rng.normal(0, 0.02, array.shape).astype("float32")


PLANTED: dict[str, tuple[Callable[[Tensors], None], list[str]]] = {
    "one NaN": (put(Q, (3, 5), np.nan), ["WGT-VAL-001"]),
    "one infinity": (put(Q, (3, 5), -np.inf), ["WGT-VAL-002"]),
    "a matrix of zeros": (put(Q, ..., 0), ["WGT-VAL-003"]),
    "a norm of zeros": (put("model.layers.2.input_layernorm.weight", ..., 0), ["WGT-VAL-003"]),
    "four rows of zeros": (put(Q, slice(4, 8), 0), ["WGT-VAL-004"]),
    "denormal values": (put(Q, ..., 1e-40), ["WGT-VAL-005", "WGT-VAL-010"]),
    "a value beyond float16": (put("model.layers.1.mlp.down_proj.weight", (0, 0), 7e4), ["WGT-VAL-006"]),
    "a layer copied": (twin, ["WGT-VAL-007"]),
    "a norm fifty times too large": (
        lambda t: t.__setitem__(
            "model.layers.4.input_layernorm.weight", t["model.layers.4.input_layernorm.weight"] * 50
        ),
        ["WGT-VAL-008"],
    ),
    "random weights": (untrain, ["WGT-VAL-009"]),
    "a matrix scaled twice": (lambda t: t.__setitem__(Q, t[Q] * 64), ["WGT-VAL-010"]),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted(llama: Path, name: str) -> None:
    plant, expected = PLANTED[name]
    edit(llama, plant)
    rules = found(llama)
    if name == "a value beyond float16":  # one such value also moves the root mean square
        rules = [rule for rule in rules if rule != "WGT-VAL-010"]
    assert rules == expected
    assert found(llama, values=False) == []


def test_a_tied_head_that_is_another(tmp_path: Path) -> None:
    folder = tmp_path / "qwen2"
    shutil.copytree(REFERENCE / "qwen2", folder)
    edit(folder, lambda t: t.__setitem__("lm_head.weight", t["model.embed_tokens.weight"]))
    assert found(folder) == []
    edit(folder, put("lm_head.weight", (0, 0), 1.0))
    assert found(folder) == ["WGT-VAL-011"]


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "bfloat16"])
def test_statistics_are_those_of_numpy(tmp_path: Path, dtype: str) -> None:
    rng = np.random.default_rng(2)
    wide = rng.normal(0, 3, (300, 500)).astype("float32")
    wide[7] = 0
    wide[9, 3] = np.nan
    wide[200, 4:6] = np.inf
    if dtype == "bfloat16":
        import json
        import struct

        bits = (wide.view(np.uint32) >> 16).astype(np.uint16)
        header = json.dumps({"w": {"dtype": "BF16", "shape": [300, 500], "data_offsets": [0, bits.nbytes]}}).encode()
        (tmp_path / "m.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bits.tobytes())
    else:
        save_file({"w": wide.astype(dtype)}, tmp_path / "m.safetensors")
    (row,) = scan(tmp_path / "m.safetensors", read_file(tmp_path / "m.safetensors").tensors)
    assert (row.nan, row.infinite, row.dead_rows, row.zeros) == (1, 2, (7,), 500)
    assert row.first_bad == 9 * 500 + 3 and row.elements == 150000 and row.complete


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_size_and_mean_are_those_of_numpy(tmp_path: Path, dtype: str) -> None:
    rng = np.random.default_rng(3)
    arrays = {"w": rng.normal(0, 0.02, (256, 2048)).astype(dtype), "n": rng.normal(1, 0.1, 4096).astype(dtype)}
    save_file(arrays, tmp_path / "m.safetensors")
    rows = {row.name: row for row in scan(tmp_path / "m.safetensors", read_file(tmp_path / "m.safetensors").tensors)}
    for name, array in arrays.items():
        exact = array.astype("float64")
        assert rows[name].rms == pytest.approx(float(np.sqrt((exact**2).mean())), rel=1e-5)
        assert rows[name].largest == pytest.approx(float(np.abs(exact).max()))
        denormal = (exact != 0) & (np.abs(exact) < float(np.finfo(dtype).tiny))
        assert rows[name].denormal == int(denormal.sum())
    assert rows["n"].mean == pytest.approx(float(arrays["n"].astype("float64").mean()), rel=1e-6)


def test_float8_values() -> None:
    """OCP 8-bit floating point specification, table 1: the largest numbers and the smallest ones."""
    table = float8_table("float8_e4m3")
    assert table[0x7E] == 448 and table[0x01] == 2.0**-9 and table[0x08] == 2.0**-6 and np.isnan(table[0xFF])
    table = float8_table("float8_e5m2")
    assert table[0x7B] == 57344 and table[0x01] == 2.0**-16 and np.isinf(table[0x7C])
