"""MindSpore's formats: files that MindSpore wrote, and hand-made ones with one fault each."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from weight_files import ckpt_value, field, strategy_bytes, varint, with_crc, write_ckpt

from doctor.formats import strategy
from doctor.formats.ckpt import crc_problem
from doctor.formats.read import read_file
from doctor.formats.tensor import Kind, WeightFile

MADE = Path(__file__).parent / "reference" / "mindspore"
SHAPES = {
    "d.weight": ("int32", (1, 4)),
    "b.bf16": ("bfloat16", (3, 2)),
    "f16": ("float16", (3, 2)),
    "scalar": ("float32", ()),
    "flag": ("bool", (2,)),
}


def shapes(file: WeightFile) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {tensor.name: (tensor.dtype, tensor.shape) for tensor in file.tensors}


def read(tmp_path: Path, raw: bytes) -> WeightFile:
    path = tmp_path / "m.ckpt"
    path.write_bytes(raw)
    return read_file(path)


@pytest.mark.parametrize("name", ["plain.ckpt", "crc.ckpt", "plain.safetensors"])
def test_a_file_of_mindspore_reads_as_it_was_saved(name: str) -> None:
    file = read_file(MADE / name)
    assert not file.problems
    found = shapes(file)
    assert {key: found[key] for key in SHAPES} == SHAPES
    weight = next(tensor for tensor in file.tensors if tensor.name == "d.weight")
    ((start, length),) = weight.spans
    assert (MADE / name).read_bytes()[start : start + length] == b"".join(n.to_bytes(4, "little") for n in range(4))


def test_what_append_dict_adds_is_read_as_values() -> None:
    scalars = read_file(MADE / "plain.ckpt").scalars
    assert {key: scalars[key] for key in ("epoch_num", "step_num", "lr", "done", "name", "scalar")} == {
        "epoch_num": 3, "step_num": 7, "lr": 0.5, "done": True, "name": "héllo", "scalar": 2.5,
    }  # fmt: skip


def test_an_encrypted_file_is_known_as_one() -> None:
    assert [problem.kind for problem in read_file(MADE / "encrypted.ckpt").problems] == [Kind.ENCRYPTED]


def test_the_checksum_is_compared(tmp_path: Path) -> None:
    assert crc_problem(MADE / "crc.ckpt") is None and crc_problem(MADE / "plain.ckpt") is None
    raw = bytearray((MADE / "crc.ckpt").read_bytes())
    raw[40] ^= 1
    (tmp_path / "m.ckpt").write_bytes(raw)
    problem = crc_problem(tmp_path / "m.ckpt")
    assert problem is not None and problem.kind is Kind.CRC
    assert with_crc(b"".join([ckpt_value("a", "Bool", [1], b"\x01")]))[-17:-10] == b"crc_num"


@pytest.mark.parametrize("kept", [n for n in range(1, 306, 16) if n != 273])
def test_a_file_cut_anywhere_is_torn(tmp_path: Path, kept: int) -> None:
    """MindSpore's own reader refuses each of these, but for a cut that falls between two parameters."""
    raw = (MADE / "plain.ckpt").read_bytes()[:kept]
    kinds = {problem.kind for problem in read(tmp_path, raw).problems}
    assert kinds <= {Kind.TRUNCATED, Kind.NOT_WEIGHTS} and kinds


def test_a_parameter_in_pieces_is_one(tmp_path: Path) -> None:
    """MindSpore cuts what is larger than 512 MiB into values of one name that each carry the full shape."""
    raw = b"".join(ckpt_value("big", "Float16", [4, 3], bytes(8)) for _ in range(3))
    file = read(tmp_path, raw)
    assert not file.problems
    (tensor,) = file.tensors
    assert (tensor.shape, len(tensor.spans), tensor.bytes) == ((4, 3), 3, 24)


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (ckpt_value("a", "Float32", [2, 2], bytes(12)), Kind.SIZE),
        (ckpt_value("a", "Float32", [2, -2], bytes(16)), Kind.SHAPE),
        (ckpt_value("a", "Float33", [2], bytes(8)), Kind.DTYPE),
        (ckpt_value("a", "Float32", [2], bytes(8)) * 2, Kind.DUPLICATE),
        (
            ckpt_value("a", "Float32", [2], bytes(8)) + ckpt_value("a", "Float32", [3], bytes(12)),
            Kind.DUPLICATE,
        ),
        (ckpt_value("a", "Float32", [1] * 65, bytes(4)), Kind.HEADER),
        (ckpt_value("a", "Float32", [2], bytes(8)) + b"\x12\x02hi", Kind.HEADER),
        (ckpt_value("a", "Float32", [2], bytes(8)) + b"\x0a" + varint(1 << 60) + b"x", Kind.TRUNCATED),
        (ckpt_value("a", "Float32", [1 << 40, 1 << 40], bytes(8)), Kind.SIZE),
        (with_crc(ckpt_value("a", "Float32", [2], bytes(8)))[:-4], Kind.TRUNCATED),
        (field(1, field(1, b"\xff\xfe") + field(2, b"")), Kind.HEADER),
    ],
)
def test_one_fault_is_named(tmp_path: Path, raw: bytes, kind: Kind) -> None:
    assert kind in {problem.kind for problem in read(tmp_path, raw).problems}


def test_a_strategy_file_of_mindspore() -> None:
    path = MADE / "ckpt_strategy_rank_0.ckpt"
    assert [problem.detail.en for problem in read_file(path).problems] == ["strategy"]
    found = strategy.read(path)
    assert found.stage == 1 and not found.problems
    # dev_matrix (2, 4): axis 0 counts from the right, so the first dimension is cut by 4
    assert found.cuts["d.weight"].full((1, 4)) == (4, 4)
    # axis 1 cuts the second dimension by 2, the optimizer shards the first by 2
    assert found.cuts["f16"].full((3, 2)) == (6, 4)
    assert found.cuts["f16"].full((3,)) is None


def test_strategy_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "ckpt_strategy_rank_0.ckpt"
    whole = strategy_bytes(0, {"w": ((2,), (0,), 0)})
    for raw, kind in ((b"", Kind.EMPTY), (whole[:-3], Kind.TRUNCATED), (b"\x0a\x05\x00\x00\x00", Kind.TRUNCATED)):
        path.write_bytes(raw)
        assert [problem.kind for problem in strategy.read(path).problems] == [kind]
    (tmp_path / "s.json").write_text('{"parallel_layout_item": {"w": {"dev_matrix": [2, 2], "tensor_map": [1, -1]}}}')
    assert strategy.read(tmp_path / "s.json").cuts["w"].full((3, 5)) == (6, 5)


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 120))
def test_no_bytes_make_the_readers_raise(tmp_path_factory: pytest.TempPathFactory, junk: bytes, keep: int) -> None:
    path = tmp_path_factory.mktemp("f") / "x.ckpt"
    path.write_bytes((MADE / "plain.ckpt").read_bytes()[:keep] + junk)
    read_file(path)
    strategy.read(path)


@pytest.mark.mindspore
def test_what_mindspore_writes_now_reads_the_same(tmp_path: Path) -> None:
    mindspore = pytest.importorskip("mindspore")
    numpy = pytest.importorskip("numpy")
    rng = numpy.random.default_rng(0)
    arrays = {f"layer.{i}.w": rng.standard_normal((i + 1, 3)).astype("float32") for i in range(20)}
    parameters = [{"name": name, "data": mindspore.Tensor(array)} for name, array in arrays.items()]
    for form in ("ckpt", "safetensors"):
        path = tmp_path / f"m.{form}"
        mindspore.save_checkpoint(parameters, str(path), format=form)
        file = read_file(path)
        raw = path.read_bytes()
        assert not file.problems and len(file.tensors) == 20
        for tensor in file.tensors:
            ((start, length),) = tensor.spans
            assert raw[start : start + length] == arrays[tensor.name].tobytes()


@pytest.mark.mindspore
def test_mindspore_reads_what_the_kit_writes(tmp_path: Path) -> None:
    mindspore = pytest.importorskip("mindspore")
    path = write_ckpt(tmp_path / "m.ckpt", {"a.b": ("F32", [2, 3]), "n": ("I32", [])})
    loaded = mindspore.load_checkpoint(str(path))
    assert {name: tuple(value.shape) for name, value in loaded.items()} == {"a.b": (2, 3), "n": ()}
