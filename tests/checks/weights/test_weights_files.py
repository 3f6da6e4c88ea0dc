"""Files and shards: each planted fault gives its own rule and no other."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from weight_files import header_of, safetensors_bytes, write_safetensors, write_sharded

from doctor.check import Options
from doctor.runner import judge_path

SPEC = {f"model.layers.{i}.{part}.weight": ("BF16", [8, 8]) for i in range(6) for part in ("a", "b")}


def found(path: Path) -> list[str]:
    judged = judge_path(path, Options())
    crashed = [outcome for outcome in judged.outcomes if outcome.state == "crashed"]
    assert not crashed, crashed
    for outcome in judged.outcomes:
        for finding in outcome.findings:
            for lang in ("en", "zh"):
                text = json.dumps(finding.to_dict(lang), ensure_ascii=False)
                assert "{" not in finding.title.pick(lang) + finding.message.pick(lang), text
    return sorted({finding.rule for outcome in judged.outcomes for finding in outcome.findings})


def test_a_whole_set_is_clean(tmp_path: Path) -> None:
    write_sharded(tmp_path, SPEC, 3)
    assert found(tmp_path) == []
    assert found(tmp_path / "model.safetensors.index.json") == []
    facts = judge_path(tmp_path, Options()).facts["weights"]
    assert (facts["format"], facts["tensors"], facts["parameters"], facts["bytes"]) == ("safetensors", 12, 768, 1536)
    assert facts["dtypes"] == {"bfloat16": 12}


def drop_shard(folder: Path) -> None:
    (folder / "model-00002-of-00003.safetensors").unlink()


def drop_index(folder: Path) -> None:
    (folder / "model.safetensors.index.json").unlink()


def drop_both(folder: Path) -> None:
    drop_shard(folder)
    drop_index(folder)


def edit_index(change: Callable[[dict], None]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / "model.safetensors.index.json"
        data = json.loads(path.read_text())
        change(data)
        path.write_text(json.dumps(data))

    return edit


def truncate(folder: Path) -> None:
    path = folder / "model-00003-of-00003.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def pointer(folder: Path) -> None:
    (folder / "model-00001-of-00003.safetensors").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 4938985352\n"
    )


def overlap(folder: Path) -> None:
    names = list(SPEC)[:4]
    header = header_of({name: SPEC[name] for name in names})
    header[names[1]]["data_offsets"] = [64, 192]
    (folder / "model-00001-of-00003.safetensors").write_bytes(safetensors_bytes(header, bytes(4 * 128)))


def second_save(folder: Path) -> None:
    write_safetensors(folder / "model-00001-of-00004.safetensors", {next(iter(SPEC)): ("BF16", [8, 8])})


def shard_replaced(content: bytes) -> Callable[[Path], None]:
    def replace(folder: Path) -> None:
        (folder / "model-00001-of-00003.safetensors").write_bytes(content)

    return replace


PLANTED = {
    "shard gone": (drop_shard, ["WGT-SHARD-001"]),
    "index gone": (drop_index, ["WGT-SHARD-002"]),
    "shard and index gone": (drop_both, ["WGT-SHARD-001", "WGT-SHARD-002"]),
    "index names another shard": (
        edit_index(lambda d: d["weight_map"].update({next(iter(SPEC)): "model-00003-of-00003.safetensors"})),
        ["WGT-SHARD-003"],
    ),
    "index lists a tensor that is nowhere": (
        edit_index(lambda d: d["weight_map"].update({"extra.weight": "model-00003-of-00003.safetensors"})),
        ["WGT-SHARD-003"],
    ),
    "index forgets a tensor": (edit_index(lambda d: d["weight_map"].pop(next(iter(SPEC)))), ["WGT-SHARD-004"]),
    "index size of another save": (
        edit_index(lambda d: d["metadata"].update(total_size=99999)),
        ["WGT-SHARD-007"],
    ),
    "index leaves the folder": (
        edit_index(lambda d: d["weight_map"].update({"extra.weight": "../../etc/passwd"})),
        ["WGT-SHARD-008"],
    ),
    "index cut off": (
        lambda f: (f / "model.safetensors.index.json").write_text('{"weight_map": {"a": '),
        ["WGT-SHARD-008"],
    ),
    "two totals": (second_save, ["WGT-SHARD-005", "WGT-SHARD-006"]),
    "cut off": (truncate, ["WGT-FILE-002"]),
    "empty": (shard_replaced(b""), ["WGT-FILE-001"]),
    "pointer": (pointer, ["WGT-FILE-004"]),
    "login page": (shard_replaced(b"<!DOCTYPE html><html><body>Sign in"), ["WGT-FILE-005"]),
    "power loss": (shard_replaced(bytes(4096)), ["WGT-FILE-005"]),
    "header of 2**60 bytes": (shard_replaced(struct.pack("<Q", 1 << 60) + b'{"a":1}'), ["WGT-FILE-003"]),
    "overlap": (overlap, ["WGT-FILE-008"]),
    "half a download beside it": (
        lambda f: (f / "model-00002-of-00003.safetensors.incomplete").write_bytes(b"x"),
        ["WGT-FILE-014"],
    ),
    "link into nowhere": (
        lambda f: (drop_shard(f), (f / "model-00002-of-00003.safetensors").symlink_to("blobs/gone")),
        ["WGT-SHARD-001"],
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted(tmp_path: Path, name: str) -> None:
    write_sharded(tmp_path, SPEC, 3)
    plant, expected = PLANTED[name]
    plant(tmp_path)
    assert found(tmp_path) == expected
