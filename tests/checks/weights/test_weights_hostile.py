"""Hostile and broken input: refused or reported, quickly and in little memory, never with a crash."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from weight_files import (
    ckpt_value,
    header_of,
    safetensors_bytes,
    torch_pickle,
    with_crc,
    write_ckpt,
    write_safetensors,
    write_sharded,
    write_torch,
)

from doctor.check import Options
from doctor.errors import UsageError
from doctor.formats.strategy import Cut
from doctor.runner import judge_path

SPEC = {f"model.layers.{i}.w.weight": ("F16", [4, 4]) for i in range(4)}


def found(path: Path, values: bool = False) -> list[str]:
    judged = judge_path(path, Options(values=values))
    assert judged.family == "weights"
    crashed = [outcome for outcome in judged.outcomes if outcome.state == "crashed"]
    assert not crashed, crashed
    return sorted({finding.rule for outcome in judged.outcomes for finding in outcome.findings})


@pytest.mark.heavy
def test_ten_thousand_files(tmp_path: Path) -> None:
    one = safetensors_bytes(header_of({"w": ("U8", [1])}))
    for number in range(10_000):
        (tmp_path / f"part_{number}.safetensors").write_bytes(one)
    assert found(tmp_path) == ["WGT-FILE-020"]


def test_links_that_loop_and_links_that_lead_nowhere(tmp_path: Path) -> None:
    write_sharded(tmp_path, SPEC, 2)
    shard = tmp_path / "model-00002-of-00002.safetensors"
    shard.unlink()
    shard.symlink_to(shard.name)
    assert found(tmp_path) == ["WGT-SHARD-001"]
    shard.unlink()
    shard.symlink_to("../blobs/0123")
    assert found(tmp_path) == ["WGT-SHARD-001"]
    (tmp_path / "loop").symlink_to(".")
    assert found(tmp_path) == ["WGT-SHARD-001"]


def test_names_with_control_characters_are_shown_as_such(tmp_path: Path) -> None:
    path = write_safetensors(tmp_path / "m.safetensors", {"a\x1b[31mred\x07": ("F16", [2]), "": ("F16", [2])})
    assert found(path) == ["WGT-FILE-018"]
    done = subprocess.run(
        [sys.executable, "-m", "doctor", "check", str(path), "-v"], capture_output=True, text=True, check=False
    )
    assert "\x1b[31m" not in done.stdout and "\\e[31mred\\x07" in done.stdout


def test_pickles_that_import_and_call(tmp_path: Path) -> None:
    evil = b"cposix\nsystem\n(X\x04\x00\x00\x00truetR"
    write_torch(tmp_path / "pytorch_model.bin", SPEC, torch_pickle(SPEC, evil))
    assert found(tmp_path) == ["WGT-FILE-015"]


def test_torch_shards_and_their_index(tmp_path: Path) -> None:
    names = list(SPEC)
    weight_map = {}
    for number in range(2):
        file = f"pytorch_model-{number + 1:05d}-of-00002.bin"
        mine = {name: SPEC[name] for name in names[number * 2 : number * 2 + 2]}
        write_torch(tmp_path / file, mine)
        weight_map.update(dict.fromkeys(mine, file))
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    assert found(tmp_path) == []
    assert judge_path(tmp_path, Options()).facts["weights"]["format"] == "torch"
    (tmp_path / "pytorch_model-00002-of-00002.bin").unlink()
    assert found(tmp_path) == ["WGT-SHARD-001"]


def test_both_forms_side_by_side(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "model.safetensors", SPEC)
    write_torch(tmp_path / "pytorch_model.bin", SPEC)
    assert found(tmp_path) == ["WGT-FILE-020"]
    assert judge_path(tmp_path, Options()).facts["weights"]["format"] == "safetensors"


def test_what_training_leaves_beside_is_no_model(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "model.safetensors", SPEC)
    for name in ("optimizer.pt", "scheduler.pt", "training_args.bin", "rng_state_0.pth", "trainer_state.json"):
        (tmp_path / name).write_bytes(b"\x80\x02}.")
    assert found(tmp_path) == []


def test_a_checksum_that_does_not_fit(tmp_path: Path) -> None:
    raw = ckpt_value("a.weight", "Float32", [2], bytes(8))
    (tmp_path / "m.ckpt").write_bytes(with_crc(raw))
    assert found(tmp_path / "m.ckpt") == []
    (tmp_path / "m.ckpt").write_bytes(with_crc(raw).replace(bytes(8), b"\x01" * 8, 1))
    assert found(tmp_path / "m.ckpt") == ["WGT-FILE-016"]


def test_the_newest_of_several_checkpoints_is_judged(tmp_path: Path) -> None:
    for step in (100, 200, 1000):
        write_ckpt(tmp_path / f"llama-1_{step}.ckpt", SPEC)
    judged = judge_path(tmp_path, Options())
    (finding,) = [finding for outcome in judged.outcomes for finding in outcome.findings]
    assert finding.rule == "WGT-FILE-020" and "llama-1_1000.ckpt" in finding.message.en


def test_a_wrong_extension(tmp_path: Path) -> None:
    write_ckpt(tmp_path / "model.safetensors", SPEC)
    assert found(tmp_path / "model.safetensors") == ["WGT-FILE-006"]


def test_one_shard_alone_is_not_called_incomplete(tmp_path: Path) -> None:
    write_sharded(tmp_path, SPEC, 4)
    assert found(tmp_path / "model-00003-of-00004.safetensors") == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = write_safetensors(tmp_path / "model.safetensors", SPEC)
    path.chmod(0)
    assert found(tmp_path) == ["WGT-FILE-011"]


def test_a_folder_without_weights(tmp_path: Path) -> None:
    (tmp_path / "readme.md").write_text("nothing here")
    with pytest.raises(UsageError):
        judge_path(tmp_path, Options())


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="Linux tells the peak of a process there")
def test_memory_and_time_stay_small(tmp_path: Path) -> None:
    """A header that claims 2**60 bytes, one of 90 MB that is not JSON, and shapes of 2**60: 400 MB suffice for all."""
    (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", 1 << 60) + b'{"a":1}' + bytes(99))
    with (tmp_path / "b.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", 90_000_000) + b'{"a":')
        file.truncate(90_000_100)
    header = {"x": {"dtype": "F32", "shape": [1 << 60, 1 << 60], "data_offsets": [0, 8]}}
    (tmp_path / "c.safetensors").write_bytes(safetensors_bytes(header, bytes(8)))
    code = (
        "import sys\nfrom pathlib import Path\nfrom doctor.formats.read import read_file\n"
        "for name in 'abc':\n    print([p.kind.value for p in read_file(Path(sys.argv[1]) / f'{name}.safetensors').problems])\n"
        # Not ru_maxrss: that begins with what the parent had when it forked.
        "status = Path('/proc/self/status').read_text()\n"
        "print(int(status.split('VmHWM:')[1].split()[0]) // 1024)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60
    )
    lines = done.stdout.splitlines()
    assert lines[:3] == ["['hostile']", "['header']", "['size']"] and int(lines[3]) < 400


def test_listing_the_rules_loads_neither_numpy_nor_yaml() -> None:
    code = (
        "import sys\nfrom doctor import registry\nregistry.checks('weights')\nregistry.checks('data')\n"
        "print([name for name in ('numpy', 'yaml', 'rich', 'mindspore') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_values_of_a_tensor_with_half_an_element(tmp_path: Path) -> None:
    """What byte mutations of real files found: bytes that are no whole number of elements, heads larger than k, a
    strategy that cuts along an axis that is not there."""
    header = {"model.norm.weight": {"dtype": "F32", "shape": [4], "data_offsets": [0, 15]}}
    (tmp_path / "model.safetensors").write_bytes(safetensors_bytes(header, bytes(15)))
    judged = judge_path(tmp_path, Options(values=True))
    assert not [outcome for outcome in judged.outcomes if outcome.state == "crashed"]
    cut = Cut((2, 2), (7, -1))
    assert cut.full((4, 4)) is None
    assert Cut((0, 2), (0, -1)).full((4, 4)) is None


def test_whole_files_without_a_tensor(tmp_path: Path) -> None:
    empty = safetensors_bytes({"__metadata__": {"format": "pt"}}, b"")
    (tmp_path / "model.safetensors").write_bytes(empty)
    assert "WGT-FILE-005" in found(tmp_path / "model.safetensors")
    torch = write_torch(tmp_path / "pytorch_model.bin", {}, b"\x80\x02}q\x00.")
    assert found(torch) == ["WGT-FILE-005"]


def test_an_index_in_utf_16(tmp_path: Path) -> None:
    """Loaders open it as UTF-8."""
    write_sharded(tmp_path, SPEC, 2)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(index.read_text(), "utf-16")
    assert "WGT-SHARD-008" in found(tmp_path)


def test_pointers_of_git_lfs_are_one_finding(tmp_path: Path) -> None:
    shards = write_sharded(tmp_path, SPEC, 4)
    for shard in shards:
        shard.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:" + "ab" * 32 + "\nsize 60000\n")
    (finding,) = [
        f for outcome in judge_path(tmp_path, Options()).outcomes for f in outcome.findings if f.severity.rank >= 1
    ]
    assert finding.rule == "WGT-FILE-004" and len(finding.evidence) == 4
    assert "3 more files" in finding.message.en and "3 个文件" in finding.message.zh
