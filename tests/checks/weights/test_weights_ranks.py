"""Checkpoints of many devices: rank folders with strategy files, MindFormers 2.x iterations, Meta's slices."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from official import llama_meta, llama_mindformers
from weight_files import strategy_bytes, write_ckpt, write_safetensors, write_torch

from doctor.check import Options
from doctor.runner import judge_path

WHOLE = llama_mindformers(96, 32, 48, 4, 2, 8, 4)


def found(path: Path) -> list[str]:
    judged = judge_path(path, Options())
    assert not [outcome for outcome in judged.outcomes if outcome.state == "crashed"]
    return sorted({finding.rule for outcome in judged.outcomes for finding in outcome.findings})


def piece(name: str, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Cut over two devices as MindFormers cuts a LLaMA: the slice and its tensor map."""
    if name.endswith(("wo.weight", "w2.weight")):
        return (shape[0], shape[1] // 2), (-1, 0)
    if len(shape) == 2:
        return (shape[0] // 2, shape[1]), (0, -1)
    return shape, (-1,)


@pytest.fixture
def ranks(tmp_path: Path) -> Path:
    """Two stages of two devices each, epoch 1 step 100, with strategy files beside."""
    for rank in range(4):
        stage = rank // 2
        mine = {
            name: piece(name, shape)[0]
            for name, shape in WHOLE.items()
            if (f".{stage * 2}." in name or f".{stage * 2 + 1}." in name)
            or (".layers." not in name and ("tok_embeddings" in name) == (stage == 0))
        }
        write_ckpt(
            tmp_path / f"checkpoint/rank_{rank}/llama_rank_{rank}-1_100.ckpt",
            {name: ("F16", shape) for name, shape in mine.items()},
        )
        cuts = {name: ((2,), piece(name, WHOLE[name])[1], 0) for name in mine}
        (tmp_path / "strategy").mkdir(exist_ok=True)
        (tmp_path / f"strategy/ckpt_strategy_rank_{rank}.ckpt").write_bytes(strategy_bytes(stage, cuts))
    return tmp_path / "checkpoint"


def test_whole_rank_folders_are_clean_and_joined(ranks: Path) -> None:
    assert found(ranks) == []
    facts = judge_path(ranks, Options()).facts["weights"]
    assert (facts["family"], facts["layout"], facts["layers"], facts["tensors"]) == ("llama", "mindformers", 4, 39)
    total = sum(shape[0] * (shape[1] if len(shape) > 1 else 1) for shape in WHOLE.values())
    assert facts["parameters"] == total and facts["sizes"]["hidden_size"] == 32


def checkpoint(folder: Path, rank: int) -> Path:
    return next((folder / f"rank_{rank}").glob("*.ckpt"))


def drop_rank(folder: Path) -> None:
    checkpoint(folder, 1).unlink()
    (folder / "rank_1").rmdir()


def newer(folder: Path) -> None:
    path = checkpoint(folder, 2)
    path.with_name("llama_rank_2-1_200.ckpt").write_bytes(path.read_bytes())


def rerun(folder: Path) -> None:
    path = checkpoint(folder, 3)
    path.rename(path.with_name("llama_rank_3_1-1_100.ckpt"))


def no_strategies(folder: Path) -> None:
    for path in (folder.parent / "strategy").iterdir():
        path.unlink()


def foreign_strategy(folder: Path) -> None:
    for path in (folder.parent / "strategy").iterdir():
        path.write_bytes(strategy_bytes(0, {"backbone.blocks.0.weight": ((2,), (0, -1), 0)}))


def lose_parameter(folder: Path) -> None:
    name = "model.layers.0.attention.wq.weight"
    mine = {
        key: piece(key, shape)[0]
        for key, shape in WHOLE.items()
        if (".0." in key or ".1." in key or "tok_embeddings" in key) and key != name
    }
    write_ckpt(checkpoint(folder, 1), {key: ("F16", shape) for key, shape in mine.items()})


def other_parallel(folder: Path) -> None:
    mine = {key: shape for key, shape in WHOLE.items() if ".0." in key or ".1." in key or "tok_embeddings" in key}
    write_ckpt(checkpoint(folder, 1), {key: ("F16", shape) for key, shape in mine.items()})


PLANTED: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "a rank folder lost": (drop_rank, ["WGT-RANK-001"]),
    "an empty rank": (lambda f: checkpoint(f, 1).unlink(), ["WGT-RANK-002"]),
    "one rank a save ahead": (newer, ["WGT-RANK-003"]),
    "a second run in the folder": (rerun, ["WGT-RANK-004"]),
    "no strategies": (no_strategies, ["WGT-RANK-005"]),
    "strategies of another model": (foreign_strategy, ["WGT-RANK-006"]),
    "a strategy cut off": (
        lambda f: (f.parent / "strategy/ckpt_strategy_rank_1.ckpt").write_bytes(b"\x08\x00\x1a\x40\x0a\x05model"),
        ["WGT-RANK-006"],
    ),
    "a parameter lost on one rank": (lose_parameter, ["WGT-RANK-007"]),
    "a rank of another parallel size": (other_parallel, ["WGT-RANK-008"]),
    "a merged file beside": (lambda f: write_ckpt(f / "llama.ckpt", {"a": ("F16", [2])}), ["WGT-RANK-009"]),
    "meta.json of a deleted file": (
        lambda f: (f / "rank_0/meta.json").write_text('{"last_ckpt_file": "llama_rank_0-1_300.ckpt"}'),
        ["WGT-RANK-010"],
    ),
    "meta.json cut off": (lambda f: (f / "rank_0/meta.json").write_text('{"last_'), ["WGT-RANK-010"]),
    "a save interrupted": (lambda f: (f / "rank_0/k.tmp").write_bytes(b"x"), ["WGT-FILE-014"]),
    "one file torn": (
        lambda f: checkpoint(f, 2).write_bytes(checkpoint(f, 2).read_bytes()[:-9]),
        ["WGT-FILE-002"],
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted(ranks: Path, name: str) -> None:
    plant, expected = PLANTED[name]
    plant(ranks)
    assert found(ranks) == expected


# MindFormers 2.x -----------------------------------------------------------------------------------------


@pytest.fixture
def iterations(tmp_path: Path) -> Path:
    """Two devices, each with half of every matrix, and the side files of MindFormers 2.1."""
    folder = tmp_path / "iteration_00000100"
    metadata: dict[str, dict[str, object]] = {"state_dict_metadata": {}, "storage_data": {}}
    for rank in range(2):
        file = f"llama-model-{rank:07d}-0000002.safetensors"
        mine = {name: piece(name, shape)[0] for name, shape in WHOLE.items()}
        write_safetensors(folder / file, {name: ("BF16", shape) for name, shape in mine.items()})
        write_safetensors(folder / file.replace("model", "opt"), {"adam_m." + next(iter(mine)): ("F32", (48, 32))})
        for name, shape in mine.items():
            cut = piece(name, WHOLE[name])[1]
            offset = [rank if 0 in cut else 0]  # MindFormers numbers the pieces
            entry = metadata["state_dict_metadata"].setdefault(
                name,
                {
                    "properties": {"dtype": "BFloat16"},
                    "global_shape": list(WHOLE[name]),
                    "axis_fragmentations": [2 if axis == 0 else 1 for axis in cut],
                    "chunk": [],
                },
            )
            piece_of = {"global_offset": offset, "local_shape": list(shape)}
            assert isinstance(entry, dict)
            if piece_of not in entry["chunk"]:
                entry["chunk"].append(piece_of)
            metadata["storage_data"][f"('{name}', {tuple(offset)})"] = [{"file_name": file, "storage_rank": rank}]
    (folder / "metadata.json").write_text(json.dumps(metadata))
    (folder / "common.json").write_text(json.dumps({"epoch_num": 1, "step_num": 100, "global_step": 100}))
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("100")
    return tmp_path


def test_a_whole_iteration_is_clean(iterations: Path) -> None:
    assert found(iterations) == [] and found(iterations / "iteration_00000100") == []
    facts = judge_path(iterations, Options()).facts["weights"]
    assert (facts["family"], facts["layers"], facts["sizes"]["hidden_size"]) == ("llama", 4, 32)


def edit_metadata(folder: Path) -> None:
    path = folder / "iteration_00000100/metadata.json"
    data = json.loads(path.read_text())
    for entry in data["state_dict_metadata"].values():
        entry["chunk"] = entry["chunk"][:1]
    path.write_text(json.dumps(data))


ITERATION_FAULTS: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "tracker lost": (lambda f: (f / "latest_checkpointed_iteration.txt").unlink(), ["WGT-ITER-001"]),
    "tracker of an iteration that is gone": (
        lambda f: (f / "latest_checkpointed_iteration.txt").write_text("200"),
        ["WGT-ITER-001"],
    ),
    "tracker with words": (
        lambda f: (f / "latest_checkpointed_iteration.txt").write_text("release"),
        ["WGT-ITER-001"],
    ),
    "common.json lost": (lambda f: (f / "iteration_00000100/common.json").unlink(), ["WGT-ITER-002"]),
    "metadata.json cut off": (
        lambda f: (f / "iteration_00000100/metadata.json").write_text('{"state'),
        ["WGT-ITER-002"],
    ),
    "pieces of one node only": (edit_metadata, ["WGT-ITER-003"]),
    "a model file lost": (
        lambda f: (f / "iteration_00000100/llama-model-0000001-0000002.safetensors").unlink(),
        ["WGT-SHARD-001"],
    ),
}


@pytest.mark.parametrize("name", ITERATION_FAULTS)
def test_planted_in_an_iteration(iterations: Path, name: str) -> None:
    plant, expected = ITERATION_FAULTS[name]
    plant(iterations)
    assert found(iterations) == expected


# Meta ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("generation", [2, 3])
def test_slices_of_meta_are_joined(tmp_path: Path, generation: int) -> None:
    whole = llama_meta(96, 32, 48, 4, 2, 8, 2)
    for part in range(2):
        mine = {}
        for name, shape in whole.items():
            rows = name.endswith(("wq.weight", "wk.weight", "wv.weight", "w1.weight", "w3.weight", "output.weight"))
            columns = name.endswith(("wo.weight", "w2.weight"))
            if "tok_embeddings" in name:
                rows, columns = generation == 3, generation == 2
            cut = (shape[0] // 2, *shape[1:]) if rows else (shape[0], shape[1] // 2) if columns else shape
            mine[name] = ("BF16", cut)
        write_torch(tmp_path / f"consolidated.{part:02d}.pth", mine)
    (tmp_path / "params.json").write_text(
        json.dumps({"dim": 32, "n_heads": 4, "n_kv_heads": 2, "n_layers": 2, "vocab_size": 96, "multiple_of": 16})
    )
    facts = judge_path(tmp_path, Options()).facts["weights"]
    assert (facts["family"], facts["layout"]) == ("llama", "meta")
    assert facts["sizes"]["hidden_size"] == 32 and facts["sizes"]["vocab_size"] == 96
    assert [rule for rule in found(tmp_path) if rule != "WGT-SHP-004"] == []
