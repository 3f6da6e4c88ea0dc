"""The safetensors reader against the library that owns the format, and against hostile headers."""

from __future__ import annotations

import json
import struct
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from weight_files import header_of, safetensors_bytes, write_safetensors

from doctor.formats.read import read_file
from doctor.formats.tensor import Kind, WeightFile


def kinds(file: WeightFile) -> set[str]:
    return {problem.kind.value for problem in file.problems}


def read_bytes(tmp_path: Path, raw: bytes) -> WeightFile:
    path = tmp_path / "model.safetensors"
    path.write_bytes(raw)
    return read_file(path)


def test_a_file_of_the_library_reads_as_the_library_wrote_it(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    library = pytest.importorskip("safetensors.numpy")
    arrays = {
        "a.weight": numpy.arange(6, dtype="float32").reshape(2, 3),
        "b": numpy.zeros((), "float16"),
        "empty": numpy.zeros((0, 4), "int64"),
        "flag": numpy.ones(3, "bool"),
    }
    path = tmp_path / "model.safetensors"
    library.save_file(arrays, str(path), metadata={"format": "np"})
    file = read_file(path)
    assert not file.problems and file.format == "safetensors" and file.metadata == {"format": "np"}
    assert {t.name: (t.dtype, t.shape) for t in file.tensors} == {
        name: (str(array.dtype), array.shape) for name, array in arrays.items()
    }
    raw = path.read_bytes()
    for tensor in file.tensors:
        ((start, length),) = tensor.spans
        assert raw[start : start + length] == arrays[tensor.name].tobytes()


HEADER = header_of({"a": ("F32", [2, 3]), "b": ("BF16", [4])})


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda h: h["a"].update(data_offsets=[0, 20]), Kind.SIZE),
        (lambda h: h["b"].update(data_offsets=[20, 28]), Kind.LAYOUT),
        (lambda h: h["b"].update(data_offsets=[32, 40]), Kind.LAYOUT),
        (lambda h: h["b"].update(data_offsets=[32, 24]), Kind.LAYOUT),
        (lambda h: h["a"].update(shape=[2, -3]), Kind.SHAPE),
        (lambda h: h["a"].update(shape=[2, 3.0]), Kind.SHAPE),
        (lambda h: h["a"].update(shape=[True, 6]), Kind.SHAPE),
        (lambda h: h["a"].update(shape="2x3"), Kind.SHAPE),
        (lambda h: h["a"].update(dtype="Q4_K"), Kind.DTYPE),
        (lambda h: h["a"].update(dtype=["F32"]), Kind.DTYPE),
        (lambda h: h.update(c=[1, 2]), Kind.HEADER),
        (lambda h: h["a"].update(data_offsets=[1 << 59, 1 << 60], shape=[1 << 58]), Kind.TRUNCATED),
        (lambda h: h["a"].update(shape=[1 << 60]), Kind.SIZE),
    ],
)
def test_one_fault_in_the_header_is_named(tmp_path: Path, change: Any, kind: Kind) -> None:
    header = json.loads(json.dumps(HEADER))
    change(header)
    body = bytes(32)
    assert kind.value in kinds(read_bytes(tmp_path, safetensors_bytes(header, body)))


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b"", Kind.EMPTY),
        (struct.pack("<Q", 1 << 60) + b'{"a":' + bytes(100), Kind.HOSTILE),
        (struct.pack("<Q", 5000) + b'{"a": {"dtype"' + bytes(100), Kind.TRUNCATED),
        (struct.pack("<Q", 16) + b'{"a": nonsense!}', Kind.HEADER),
        (struct.pack("<Q", 60_009) + b'{"a": ' + b"[" * 60_003, Kind.HEADER),
        (struct.pack("<Q", 20_012) + b'{"a": ' + b"9" * 20_005 + b"}", Kind.HEADER),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4000000000\n", Kind.LFS_POINTER),
        (b"<!DOCTYPE html><html>", Kind.WEB_PAGE),
        (b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>', Kind.WEB_PAGE),
        (bytes(4096), Kind.ZEROED),
        (b"GGUF\x03\x00\x00\x00" + bytes(64), Kind.FOREIGN),
        (bytes(range(7, 256)) * 4, Kind.NOT_WEIGHTS),
    ],
)
def test_what_is_no_model_is_said_to_be_none(tmp_path: Path, raw: bytes, kind: Kind) -> None:
    file = read_bytes(tmp_path, raw)
    assert kinds(file) == {kind.value} and not file.tensors


def test_a_cut_file_keeps_its_names_and_says_how_much_is_gone(tmp_path: Path) -> None:
    whole = safetensors_bytes(HEADER)
    file = read_bytes(tmp_path, whole[:-5])
    (problem,) = file.problems
    assert problem.kind is Kind.TRUNCATED and problem.tensor == "b"
    assert (problem.observed, problem.expected) == (len(whole) - 5, len(whole))
    assert [t.name for t in file.tensors] == ["a", "b"]


def test_bytes_behind_the_last_tensor_and_a_doubled_name(tmp_path: Path) -> None:
    assert kinds(read_bytes(tmp_path, safetensors_bytes(HEADER) + b"more")) == {"trailing"}
    raw = b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
    file = read_bytes(tmp_path, struct.pack("<Q", len(raw)) + raw + b"\x00")
    assert [(p.kind, p.tensor) for p in file.problems] == [(Kind.DUPLICATE, "a")]


def test_a_fifo_a_loop_and_a_folder_are_not_waited_for(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "a.safetensors")
    (tmp_path / "b.safetensors").symlink_to("b.safetensors")
    (tmp_path / "c.safetensors").mkdir()
    for name in "abc":
        assert kinds(read_file(tmp_path / f"{name}.safetensors")) == {"unreadable"}


def test_a_shard_that_grows_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from doctor.formats import read

    path = write_safetensors(tmp_path / "m.safetensors", {"a": ("F32", [4])})
    reader = read._READERS["safetensors"]

    def slow(target: Path) -> WeightFile:
        found = reader(target)
        time.sleep(0.01)
        with target.open("ab") as file:
            file.write(b"more")
        return found

    monkeypatch.setitem(read._READERS, "safetensors", slow)
    assert kinds(read_file(path)) == {"changed"}


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=400), st.integers(0, 60))
def test_no_bytes_make_the_reader_raise(tmp_path_factory: pytest.TempPathFactory, junk: bytes, keep: int) -> None:
    path = tmp_path_factory.mktemp("f") / "x.safetensors"
    path.write_bytes(safetensors_bytes(HEADER)[:keep] + junk)
    read_file(path)
