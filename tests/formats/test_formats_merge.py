"""Slices of many devices joined by their strategy files, with MindSpore's own merging as the judge."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from test_formats_convert import REFERENCE, convert, values
from weight_files import ckpt_value, strategy_bytes

from doctor.formats.convert import ConversionError, Source
from doctor.formats.merge import coordinates, join, piece_of
from doctor.formats.strategy import Cut
from doctor.formats.weightset import open_set

TYPES = {"float32": "Float32", "float16": "Float16"}


def slices(whole: Any, cut: Cut, rank: int) -> Any:
    """What a device holds of a parameter."""
    counts = [cut.devices[len(cut.devices) - 1 - axis] if axis >= 0 else 1 for axis in cut.axes]
    if cut.optimizer_shards:
        counts[0] *= cut.optimizer_shards
    index = piece_of(rank, cut)
    sizes = [length // count for length, count in zip(whole.shape, counts)]
    return whole[tuple(slice(at * size, (at + 1) * size) for at, size in zip(index, sizes))]


def write_ranks(folder: Path, tensors: dict[str, Any], cuts: dict[str, Cut], devices: int) -> None:
    for rank in range(devices):
        raw = b"".join(
            ckpt_value(name, TYPES[str(array.dtype)], piece.shape, np.ascontiguousarray(piece).tobytes())
            for name, array in tensors.items()
            for piece in [slices(array, cuts[name], rank)]
        )
        path = folder / f"checkpoint/rank_{rank}/llama_rank_{rank}-1_10.ckpt"
        path.parent.mkdir(parents=True)
        path.write_bytes(raw)
        plan = {name: (cut.devices, cut.axes, cut.optimizer_shards, cut.optimizer_step) for name, cut in cuts.items()}
        (folder / "strategy").mkdir(exist_ok=True)
        (folder / f"strategy/ckpt_strategy_rank_{rank}.ckpt").write_bytes(strategy_bytes(0, plan))


def test_devices_are_numbered_row_by_row() -> None:
    assert [coordinates(rank, (2, 3)) for rank in range(7)] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 0)]
    cut = Cut((2, 4), (0, 1))
    assert piece_of(5, cut) == (1, 1) and piece_of(3, cut) == (3, 0)


def test_a_piece_too_few_makes_no_whole() -> None:
    half = np.zeros((2, 3), "float32")
    assert join({(0, 0): half}, (4, 3)) is None
    joined = join({(0, 0): half, (1, 0): half + 1}, (4, 3))
    assert joined is not None and joined[:, 0].tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("devices", [(2,), (2, 2), (4,)])
def test_rank_folders_convert_to_the_model_they_were_cut_from(tmp_path: Path, devices: tuple[int, ...]) -> None:
    convert(REFERENCE / "llama", tmp_path / "whole.ckpt", "mindformers")
    tensors = values(tmp_path / "whole.ckpt")
    last = devices[-1]
    cuts = {}
    for name, array in tensors.items():
        columns = name.endswith(("wo.weight", "w2.weight")) and array.shape[1] % last == 0
        rows = array.ndim == 2 and array.shape[0] % last == 0
        axes = (-1, 0) if columns else (0, -1) if rows else (-1,) * array.ndim
        cuts[name] = Cut(devices, axes)
    write_ranks(tmp_path, tensors, cuts, int(np.prod(devices)))
    convert(tmp_path / "checkpoint", tmp_path / "back", "huggingface", config=REFERENCE / "llama/config.json")
    before, after = load_file(REFERENCE / "llama/model.safetensors"), values(tmp_path / "back")
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.mindspore
def test_mindspore_joins_them_alike(tmp_path: Path) -> None:
    """Eight devices in a matrix of 2 x 4, cut by rows, by columns, by both, not at all, and by the optimizer."""
    mindspore = pytest.importorskip("mindspore")
    rng = np.random.default_rng(0)
    cuts = {
        "rows": Cut((2, 4), (0, -1)),
        "columns": Cut((2, 4), (-1, 0)),
        "both": Cut((2, 4), (0, 1)),
        "other": Cut((2, 4), (1, 0)),
        "copied": Cut((2, 4), (-1, -1)),
        "sharded": Cut((2, 4), (-1, 0), 2, 4),
        "sharded rows": Cut((2, 4), (0, -1), 2, 4),
    }
    tensors = {name: rng.random((16, 24)).astype("float32") for name in cuts}
    write_ranks(tmp_path, tensors, cuts, 8)
    files = {rank: str(next((tmp_path / f"checkpoint/rank_{rank}").iterdir())) for rank in range(8)}
    merged = tmp_path / "merged.ckpt"
    mindspore.transform_checkpoint_by_rank(
        0, files, str(merged), src_strategy_file=str(tmp_path / "strategy/ckpt_strategy_rank_0.ckpt")
    )
    theirs = values(merged)
    for name, array in tensors.items():
        assert np.array_equal(theirs[name], array), name


def slices_of(layout: dict[str, Any], whole: np.ndarray, rank: int) -> np.ndarray:
    """What a rank holds, by the layout as MindFormers wrote it: each axis of the device matrix, counted from the
    right, cuts a dimension; several cut it one after the other."""
    devices = layout["device_matrix"]
    place = np.unravel_index(rank, devices)
    for dimension, axes in enumerate(layout["tensor_map"]):
        for axis in axes if isinstance(axes, list) else [axes]:
            if axis >= 0:
                parts, mine = devices[len(devices) - 1 - axis], place[len(devices) - 1 - axis]
                whole = np.split(whole, parts, axis=dimension)[mine]
    return whole


def test_an_iteration_that_mindformers_describes(tmp_path: Path) -> None:
    """metadata.json is MindFormers' own (reference/make_iteration.py); each rank writes what its layout says."""
    text = (Path(__file__).parent / "reference/iteration/metadata.json").read_text()
    folder = tmp_path / "iteration_00000100"
    folder.mkdir()
    (folder / "metadata.json").write_text(text)
    table = json.loads(text)["state_dict_metadata"]
    rng = np.random.default_rng(0)
    wholes = {name: rng.random(entry["global_shape"], "float32") for name, entry in table.items()}
    for rank in range(4):
        mine = {name: slices_of(table[name]["layout"], whole, rank) for name, whole in wholes.items()}
        file = folder / f"tiny-model-{rank:07d}-0000004.safetensors"
        save_file({name: np.ascontiguousarray(array) for name, array in mine.items()}, file)
    found = open_set(folder)
    assert not found.missing and not found.sliced
    with ExitStack() as stack:
        source = Source(found, stack)
        for name, whole in wholes.items():
            assert found.tensors[name].shape == whole.shape
            assert np.array_equal(source.read(name).values, whole), name
    (folder / "tiny-model-0000001-0000004.safetensors").unlink()
    left = open_set(folder)
    assert left.missing == ("tiny-model-0000001-0000004.safetensors",)
    with ExitStack() as stack, pytest.raises(ConversionError, match=r"slices of rows_twice\.weight do not"):
        Source(left, stack).read("rows_twice.weight")
