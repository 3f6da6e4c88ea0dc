"""Files of torch.save in all its forms, and pickles that try to do more."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from weight_files import torch_pickle, write_torch

from doctor.formats import pickles
from doctor.formats.read import read_file
from doctor.formats.tensor import WeightFile

MADE = Path(__file__).parent / "reference" / "torch"
#: As make_reference.py built them.
SHAPES = {
    "f32": ("float32", (4, 6)),
    "f16": ("float16", (3, 5)),
    "bf16": ("bfloat16", (7,)),
    "i64": ("int64", (3,)),
    "flag": ("bool", (2,)),
    "scalar": ("float64", ()),
    "transposed": ("float32", (6, 4)),
    "view": ("float32", (2, 6)),
    "shares.a": ("float32", (4, 6)),
    "shares.b": ("float32", (4, 6)),
    "parameter": ("float32", (2, 2)),
    "empty": ("float32", (0, 4)),
    "fp8": ("float8_e4m3", (2, 2)),
}


def kinds(file: WeightFile) -> set[str]:
    return {problem.kind.value for problem in file.problems}


@pytest.mark.parametrize("name", ["new.bin", "legacy.bin", "protocol4.bin", "nested.pth"])
def test_a_file_of_torch_reads_as_it_was_saved(name: str) -> None:
    file = read_file(MADE / name)
    assert not file.problems
    assert {tensor.name: (tensor.dtype, tensor.shape) for tensor in file.tensors} == SHAPES
    raw = (MADE / name).read_bytes()
    by_name = {tensor.name: tensor for tensor in file.tensors}
    at = by_name["f32"].spans[0]
    assert struct.unpack("<24f", raw[at[0] : at[0] + at[1]]) == tuple(range(24))
    at = by_name["view"].spans[0]
    assert struct.unpack("<12f", raw[at[0] : at[0] + at[1]]) == tuple(range(6, 18))
    assert by_name["transposed"].strides == (1, 6) and by_name["transposed"].spans == by_name["shares.a"].spans
    at = by_name["i64"].spans[0]
    assert struct.unpack("<3q", raw[at[0] : at[0] + at[1]]) == (1, -2, 3)


def test_what_stands_beside_the_model_is_kept_apart() -> None:
    assert read_file(MADE / "nested.pth").scalars == {"epoch": 2}


def test_a_pickled_module_is_looked_into() -> None:
    for name in ("ordered.pth", "module.pt"):
        file = read_file(MADE / name)
        assert {tensor.name: tensor.shape for tensor in file.tensors} == {"weight": (2, 3), "bias": (2,)}


@pytest.mark.parametrize("kept", [0.999, 0.9, 0.5, 0.1])
@pytest.mark.parametrize("name", ["new.bin", "legacy.bin"])
def test_a_cut_file_is_torn(tmp_path: Path, name: str, kept: float) -> None:
    raw = (MADE / name).read_bytes()
    path = tmp_path / name
    path.write_bytes(raw[: int(len(raw) * kept)])
    assert kinds(read_file(path)) == {"truncated"}


class _Evil:
    def __init__(self, *call: object) -> None:
        self.call = call

    def __reduce__(self) -> tuple[object, ...]:
        return self.call[0], self.call[1:]


def test_a_pickle_that_would_run_code_is_not_run(tmp_path: Path) -> None:
    import os

    proof = tmp_path / "proof"
    fragments = {
        "os": b"cposix\nsystem\n(" + b"X" + struct.pack("<I", 12) + b"touch proof!" + b"tR",
        "builtins": b"c__builtin__\neval\n(" + b"X\x03\x00\x00\x001+1tR",
    }
    for name, fragment in fragments.items():
        spec = {"a": ("F32", [2])}
        path = write_torch(tmp_path / f"{name}.bin", spec, torch_pickle(spec, fragment))
        file = read_file(path)
        assert kinds(file) == {"code"} and [tensor.name for tensor in file.tensors] == ["a"]
    evil = pickle.dumps({"a": _Evil(os.system, f"touch {proof}")}, protocol=2)
    (tmp_path / "plain.pt").write_bytes(evil)
    assert kinds(read_file(tmp_path / "plain.pt")) == {"code"}
    assert not proof.exists()


@pytest.mark.parametrize("protocol", range(6))
def test_plain_values_come_out_as_pickle_has_them(protocol: int) -> None:
    value = {"a": [1, -5, 2**70, 1.5, None, True], "b": ("x", b"y", ()), "c": {"d": "é" * 300}, "e": (1, 2, 3, 4)}
    found = pickles.follow(io.BytesIO(pickle.dumps(value, protocol=protocol))).value
    if protocol >= 3:
        assert found == value
    else:
        assert {key: found[key] for key in "ace"} == {key: value[key] for key in "ace"}


def test_a_zip_bomb_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.bin"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("archive/data.pkl", "w", force_zip64=True) as part,
    ):
        for _ in range(300):
            part.write(bytes(1 << 20))
    assert path.stat().st_size < 3_000_000
    assert kinds(read_file(path)) == {"hostile"}


def test_a_pickle_of_shared_parts_of_shared_parts_ends(tmp_path: Path) -> None:
    value: object = "x"
    for _ in range(60):
        value = {"a": value, "b": value}
    (tmp_path / "laughs.bin").write_bytes(b"")
    spec = {"w": ("F32", [1])}
    laughs = pickle.dumps(value, protocol=2)[2:-1]
    path = write_torch(tmp_path / "laughs.bin", spec, torch_pickle(spec, laughs))
    assert [tensor.name for tensor in read_file(path).tensors][:1] == ["w"]


def test_a_repacked_file_and_other_zips(tmp_path: Path) -> None:
    spec = {"a": ("F32", [64])}
    assert kinds(read_file(write_torch(tmp_path / "packed.bin", spec, compress=True))) == {"compressed"}
    with zipfile.ZipFile(tmp_path / "other.bin", "w") as archive:
        archive.writestr("readme.txt", "hello")
    assert kinds(read_file(tmp_path / "other.bin")) == {"foreign"}


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (struct.pack("<q", 12), struct.pack("<q", 13), "size"),
        (struct.pack("<q", 3), struct.pack("<q", -3), "shape"),
        (b"FloatStorage", b"CloakStorage", "dtype"),
    ],
)
def test_one_fault_is_named(tmp_path: Path, old: bytes, new: bytes, kind: str) -> None:
    spec = {"a": ("F32", [4, 3])}
    raw = torch_pickle(spec)
    if kind == "size":  # the storage is too small for the shape
        raw = raw.replace(struct.pack("<q", 4), struct.pack("<q", 5))
    else:
        raw = raw.replace(old, new)
    assert kind in kinds(read_file(write_torch(tmp_path / "a.bin", spec, raw)))


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 2100))
def test_no_bytes_make_the_readers_raise(tmp_path_factory: pytest.TempPathFactory, junk: bytes, keep: int) -> None:
    folder = tmp_path_factory.mktemp("f")
    for name in ("new.bin", "legacy.bin"):
        raw = (MADE / name).read_bytes()
        (folder / name).write_bytes(raw[:keep] + junk + raw[keep + len(junk) :])
        read_file(folder / name)
    spec = {"a": ("F32", [2])}
    read_file(write_torch(folder / "made.bin", spec, torch_pickle(spec)[:keep] + junk + b"."))
