"""Conversion: against the order of rows that the frameworks document, and back again to the same bits."""

from __future__ import annotations

import json
import os
import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from doctor.formats import modelconfig
from doctor.formats.arrays import Array, cast, overflows, read_array, unscale
from doctor.formats.convert import Conversion, ConversionError, plan
from doctor.formats.deliver import Target, deliver, files_of, refuse
from doctor.formats.families import FAMILIES
from doctor.formats.recognise import recognise
from doctor.formats.weightset import open_set

REFERENCE = Path(__file__).parent / "reference"
MODELS = sorted(path.parent.name for path in REFERENCE.glob("*/config.json"))
TARGETS = [
    (family.id, layout.id, layout.variant)
    for family in FAMILIES
    if family.id in MODELS
    for layout in family.layouts
    if layout.id != "huggingface"
]
Tensors = dict[str, np.ndarray]


def convert(
    source: Path,
    path: Path,
    layout: str,
    variant: str = "",
    dtype: str | None = None,
    shard: int | None = None,
    config: Path | None = None,
    untie: bool = False,
) -> Conversion:
    found = open_set(source)
    read = modelconfig.read(config or source / "config.json")
    model = recognise(found.tensors, read.family)
    assert model is not None and read.sizes is not None
    chosen = next(item for item in model.family.layouts if (item.id, item.variant) == (layout, variant))
    conversion = plan(found, model, chosen, read.sizes.symbols, dtype, untie)
    target = Target(path, path.suffix == "", path.suffix[1:] or "safetensors", shard)
    refuse(conversion, target, source)
    deliver(conversion, found, target)
    return conversion


def values(path: Path) -> Tensors:
    """Everything in a file or folder, by this package's own reader of bytes."""
    found = open_set(path)
    out: Tensors = {}
    for file in found.files:
        assert not file.problems
        with file.path.open("rb", buffering=0) as handle:
            out.update({tensor.name: read_array(handle, tensor).values for tensor in file.tensors})
    return out


@pytest.mark.parametrize("form", ["safetensors", "ckpt", "folder"])
@pytest.mark.parametrize(("family", "layout", "variant"), TARGETS)
def test_there_and_back_gives_the_same_bits(tmp_path: Path, family: str, layout: str, variant: str, form: str) -> None:
    there = tmp_path / ("there" if form == "folder" else f"there.{form}")
    convert(REFERENCE / family, there, layout, variant, shard=20_000 if form == "folder" else None)
    convert(there, tmp_path / "back", "huggingface", config=REFERENCE / family / "config.json", shard=30_000)
    before, after = load_file(REFERENCE / family / "model.safetensors"), values(tmp_path / "back")
    assert before.keys() == after.keys()
    for name, array in before.items():
        assert array.dtype == after[name].dtype and array.tobytes() == after[name].tobytes(), name


def test_row_by_row_grouped_and_interleaved(tmp_path: Path) -> None:
    """MindFormers from 1.4 on, ``qkv_concat: True``, and mcore: for each KV group its query heads, k, v; gate and up
    rows in turn (utils/convert_utils.py: qkv_concat_hf2mg, ffn_concat_hf2mg)."""
    hf = load_file(REFERENCE / "llama/model.safetensors")
    heads, groups, size = 4, 2, 8
    convert(REFERENCE / "llama", tmp_path / "m.safetensors", "mindformers", "qkv_concat")
    fused = values(tmp_path / "m.safetensors")
    for layer in range(3):
        p = f"model.layers.{layer}."
        q, k, v = (hf[f"{p}self_attn.{letter}_proj.weight"] for letter in "qkv")
        rows = []
        for group in range(groups):
            per = heads // groups
            rows += [q[(group * per + head) * size + row] for head in range(per) for row in range(size)]
            rows += [k[group * size + row] for row in range(size)]
            rows += [v[group * size + row] for row in range(size)]
        assert np.array_equal(fused[p + "attention.w_qkv.weight"], np.stack(rows))
        gate, up = hf[p + "mlp.gate_proj.weight"], hf[p + "mlp.up_proj.weight"]
        both = fused[p + "feed_forward.w_gate_hidden.weight"]
        assert np.array_equal(both[0::2], gate) and np.array_equal(both[1::2], up)


def test_row_by_row_experts(tmp_path: Path) -> None:
    """mcore: per expert [hidden, 2 x width], transposed, gate beside up; the experts one below the other."""
    hf = load_file(REFERENCE / "qwen3_moe/model.safetensors")
    convert(REFERENCE / "qwen3_moe", tmp_path / "m.safetensors", "mcore")
    packed = values(tmp_path / "m.safetensors")
    first, second = (packed[f"decoder.layers.1.mlp.experts.weight{n}"] for n in (1, 2))
    hidden, width = 24, 12
    assert first.shape == (4 * hidden, 2 * width) and second.shape == (4 * width, hidden)
    for expert in range(4):
        p = f"model.layers.1.mlp.experts.{expert}."
        block = first[expert * hidden : (expert + 1) * hidden]
        assert np.array_equal(block[:, :width], hf[p + "gate_proj.weight"].T)
        assert np.array_equal(block[:, width:], hf[p + "up_proj.weight"].T)
        assert np.array_equal(second[expert * width : (expert + 1) * width], hf[p + "down_proj.weight"].T)


def test_row_by_row_bloom_and_gpt2(tmp_path: Path) -> None:
    """Bloom's fused rows are (head, q/k/v, row); MindFormers splits them and keeps the feed-forward [in, out]. GPT-2's
    Conv1D keeps [in, 3 x out]."""
    hf = load_file(REFERENCE / "bloom/model.safetensors")
    convert(REFERENCE / "bloom", tmp_path / "b.ckpt", "mindformers")
    ms = values(tmp_path / "b.ckpt")
    fused = hf["transformer.h.1.self_attention.query_key_value.weight"].reshape(4, 3, 8, 32)
    for part in range(3):
        want = np.concatenate([fused[head, part] for head in range(4)])
        assert np.array_equal(ms[f"transformer.blocks.1.attention.dense{part + 1}.weight"], want)
    assert np.array_equal(
        ms["transformer.blocks.0.output.mapping.weight"], hf["transformer.h.0.mlp.dense_h_to_4h.weight"].T
    )
    hf = load_file(REFERENCE / "gpt2/model.safetensors")
    convert(REFERENCE / "gpt2", tmp_path / "g.ckpt", "mindformers")
    ms = values(tmp_path / "g.ckpt")
    for part in range(3):
        want = hf["transformer.h.1.attn.c_attn.weight"][:, part * 32 : (part + 1) * 32].T
        assert np.array_equal(ms[f"backbone.blocks.1.attention.dense{part + 1}.weight"], want)


def test_row_by_row_meta(tmp_path: Path) -> None:
    """transformers' convert_llama_weights_to_hf permutes Meta's rows: view(heads, size/2, 2, dim).transpose(1, 2)."""
    hf = load_file(REFERENCE / "llama/model.safetensors")
    convert(REFERENCE / "llama", tmp_path / "m.safetensors", "meta")
    meta = values(tmp_path / "m.safetensors")
    for letter, heads in (("q", 4), ("k", 2)):
        rows = meta[f"layers.0.attention.w{letter}.weight"]
        permuted = rows.reshape(heads, 4, 2, 32).transpose(0, 2, 1, 3).reshape(heads * 8, 32)
        assert np.array_equal(permuted, hf[f"model.layers.0.self_attn.{letter}_proj.weight"])
    assert np.array_equal(meta["layers.0.attention.wv.weight"], hf["model.layers.0.self_attn.v_proj.weight"])


def test_chatglm2_split(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sizes = {"hidden_size": 16, "num_layers": 2, "num_attention_heads": 4, "kv_channels": 4, "multi_query_group_num": 2,
             "ffn_hidden_size": 24, "padded_vocab_size": 40, "model_type": "chatglm"}  # fmt: skip
    tensors: Tensors = {
        "transformer.embedding.word_embeddings.weight": rng.random((40, 16), "float32"),
        "transformer.encoder.final_layernorm.weight": rng.random(16, "float32"),
        "transformer.output_layer.weight": rng.random((40, 16), "float32"),
        "transformer.rotary_pos_emb.inv_freq": rng.random(1, "float32"),
    }
    for i in range(2):
        p = f"transformer.encoder.layers.{i}."
        shapes = {"self_attention.query_key_value.weight": (32, 16), "self_attention.query_key_value.bias": (32,),
                  "self_attention.dense.weight": (16, 16), "mlp.dense_h_to_4h.weight": (48, 16),
                  "mlp.dense_4h_to_h.weight": (16, 24), "input_layernorm.weight": (16,),
                  "post_attention_layernorm.weight": (16,)}  # fmt: skip
        tensors.update({p + name: rng.random(shape, "float32") for name, shape in shapes.items()})
    folder = tmp_path / "glm"
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(sizes))
    conversion = convert(folder, tmp_path / "m.ckpt", "mindformers", "split, mlp split")
    assert conversion.left == ("transformer.rotary_pos_emb.inv_freq",)
    split = values(tmp_path / "m.ckpt")
    fused = tensors["transformer.encoder.layers.1.self_attention.query_key_value.weight"]
    assert np.array_equal(split["transformer.encoder.layers.1.self_attention.wq.weight"], fused[:16])
    assert np.array_equal(split["transformer.encoder.layers.1.self_attention.wv.weight"], fused[24:])
    both = tensors["transformer.encoder.layers.0.mlp.dense_h_to_4h.weight"]
    assert np.array_equal(split["transformer.encoder.layers.0.mlp.dense_right.weight"], both[24:])
    convert(tmp_path / "m.ckpt", tmp_path / "back.safetensors", "huggingface", config=folder / "config.json")
    back = load_file(tmp_path / "back.safetensors")
    assert all(np.array_equal(back[name], array) for name, array in tensors.items() if "inv_freq" not in name)


# Types -----------------------------------------------------------------------------------------------------


def test_bfloat16_rounds_to_the_nearest_even() -> None:
    """1 + 2**-8 lies half way between 1 and 1 + 2**-7 and goes to the even one; 1 + 3 * 2**-8 goes up."""
    wide = np.array([1.0, 1 + 2**-8, 1 + 3 * 2**-8, np.nan, np.inf, -0.0, 3.4e38], "float32")
    bits = cast(Array(wide, "float32"), "bfloat16").values
    assert [hex(int(value)) for value in bits[:3]] == ["0x3f80", "0x3f80", "0x3f82"]
    back = cast(Array(bits, "bfloat16"), "float32").values
    assert np.isnan(back[3]) and np.isinf(back[4]) and np.signbit(back[5]) and np.isinf(back[6])


def test_every_float16_and_bfloat16_goes_to_float32_and_back() -> None:
    codes = np.arange(65536, dtype=np.uint16)
    for dtype in ("float16", "bfloat16"):
        raw = codes.view(np.float16) if dtype == "float16" else codes
        back = cast(cast(Array(raw, dtype), "float32"), dtype).values.view(np.uint16)
        exponent = 0x7C00 if dtype == "float16" else 0x7F80
        number = (codes & 0x7FFF) <= exponent
        assert np.array_equal(back[number], codes[number])


def test_overflow_to_float16_is_counted() -> None:
    array = Array(np.array([1.0, 65519.0, 65520.0, -1e9, np.inf], "float32"), "float32")
    assert overflows(array, "float16") == 2 and overflows(array, "bfloat16") == 0
    assert int(np.isinf(cast(array, "float16").values).sum()) == 3


def test_block_scales_of_deepseek() -> None:
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 120, (200, 150)).astype(np.uint8)
    scale = rng.random((2, 2)).astype("float32")
    wide = unscale(Array(codes, "float8_e4m3"), Array(scale, "float32")).values
    one = cast(Array(codes, "float8_e4m3"), "float32").values
    assert np.array_equal(wide[:128, :128], one[:128, :128] * scale[0, 0])
    assert np.array_equal(wide[128:, 128:], one[128:, 128:] * scale[1, 1])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_type_of_the_target(tmp_path: Path, dtype: str) -> None:
    convert(REFERENCE / "llama", tmp_path / "m.ckpt", "mindformers", dtype=dtype)
    found = open_set(tmp_path / "m.ckpt")
    assert {tensor.dtype for tensor in found.tensors.values()} == {dtype}


# Files -----------------------------------------------------------------------------------------------------


def test_shards_hold_whole_steps_and_an_index(tmp_path: Path) -> None:
    conversion = convert(REFERENCE / "llama", tmp_path / "out", "mcore", shard=30_000)
    index = json.loads((tmp_path / "out/model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == conversion.bytes
    files = sorted(path.name for path in (tmp_path / "out").glob("*.safetensors"))
    assert files == sorted(set(index["weight_map"].values())) and len(files) > 2
    assert all(path.stat().st_size < 40_000 for path in (tmp_path / "out").glob("*.safetensors"))
    assert not open_set(tmp_path / "out").missing


def test_nothing_is_replaced_unasked_and_nothing_half_done_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.ckpt"
    path.write_bytes(b"the only checkpoint")
    with pytest.raises(ConversionError, match="is there already"):
        convert(REFERENCE / "llama", path, "mindformers")
    assert path.read_bytes() == b"the only checkpoint"

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        convert(REFERENCE / "llama", tmp_path / "out", "mindformers", shard=20_000)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_lost_parameter_and_an_odd_shape_stop_the_conversion(tmp_path: Path) -> None:
    folder = tmp_path / "llama"
    folder.mkdir()
    (folder / "config.json").write_text((REFERENCE / "llama/config.json").read_text())
    whole = load_file(REFERENCE / "llama/model.safetensors")
    lost = {name: array for name, array in whole.items() if name != "model.layers.1.self_attn.k_proj.weight"}
    save_file(lost, folder / "model.safetensors")
    with pytest.raises(ConversionError, match=r"layers\.1\.self_attn\.k_proj"):
        convert(folder, tmp_path / "m.ckpt", "mcore")
    save_file({**whole, "lm_head.weight": np.zeros((60, 32), "float32")}, folder / "model.safetensors")
    with pytest.raises(ConversionError, match="does not fit"):
        convert(folder, tmp_path / "m.ckpt", "mindformers")


def test_without_a_config_the_head_size_is_asked_for(tmp_path: Path) -> None:
    found = open_set(REFERENCE / "llama/model.safetensors")
    model = recognise(found.tensors)
    assert model is not None
    layouts = {(layout.id, layout.variant): layout for layout in model.family.layouts}
    plan(found, model, layouts["mindformers", ""], {})
    with pytest.raises(ConversionError, match="head size"):
        plan(found, model, layouts["mcore", ""], {})


def test_a_tied_head_is_stored_on_request(tmp_path: Path) -> None:
    convert(REFERENCE / "qwen2", tmp_path / "tied.safetensors", "mindformers")
    assert "lm_head.weight" not in values(tmp_path / "tied.safetensors")
    convert(REFERENCE / "qwen2", tmp_path / "both.safetensors", "mindformers", untie=True)
    both = values(tmp_path / "both.safetensors")
    assert np.array_equal(both["lm_head.weight"], both["model.tok_embeddings.embedding_weight"])


def test_a_plan_for_140_gigabytes_needs_no_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import struct
    import sys

    sys.path.insert(0, str(Path(__file__).parents[1] / "checks/weights"))
    from official import LLAMA_70B, llama_hf

    header, at = {}, 0
    for name, shape in llama_hf(*LLAMA_70B).items():
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    raw = json.dumps(header).encode()
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(raw)) + raw)
        file.truncate(8 + len(raw) + at)
    found = open_set(tmp_path / "model.safetensors")
    model = recognise(found.tensors)
    assert model is not None and model.known is not None
    layout = next(item for item in model.family.layouts if item.variant == "qkv_concat")
    conversion = plan(found, model, layout, {"D": model.known.head}, "float16")
    assert conversion.bytes == 137_953_296_384 and len(conversion.entries) == 80 * 6 + 3
    target = Target(tmp_path / "out", True, "safetensors", 5 * 10**9)
    sizes = [sum(entry.bytes for step in steps for entry in step.entries) for _, steps in files_of(conversion, target)]
    assert sum(sizes) == conversion.bytes and max(sizes) <= 5 * 10**9 and len(sizes) in range(28, 32)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=100 * 10**9))
    with pytest.raises(ConversionError, match="are free at"):
        refuse(conversion, target, tmp_path)
    largest = max(sum(entry.bytes for entry in step.entries) for step in conversion.steps)
    assert largest == 2 * 8192 * 28672 * 2


@pytest.mark.mindspore
def test_mindspore_loads_what_is_written(tmp_path: Path) -> None:
    mindspore = pytest.importorskip("mindspore")
    convert(REFERENCE / "llama", tmp_path / "m.ckpt", "mindformers", dtype="float16")
    loaded = mindspore.load_checkpoint(str(tmp_path / "m.ckpt"))
    mine = values(tmp_path / "m.ckpt")
    assert loaded.keys() == mine.keys()
    for name, parameter in loaded.items():
        assert np.array_equal(parameter.asnumpy(), mine[name])


def test_a_cast_takes_little_more_memory_than_its_result() -> None:
    """Float32 to bfloat16: 4 bytes read, 2 written, and blocks of a few MB, not several arrays of the whole size."""
    values = np.linspace(-70000, 70000, 1 << 24, dtype=np.float32).reshape(1 << 12, -1)
    tracemalloc.start()
    try:
        out = cast(Array(values, "float32"), "bfloat16")
        lost = overflows(Array(values, "float32"), "float16")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < values.nbytes // 2 + 40_000_000
    assert lost == np.count_nonzero(np.abs(values) >= 65520)
    assert out.values.shape == values.shape


def test_a_source_that_changes_while_it_is_read_gives_no_target(tmp_path: Path) -> None:
    source = tmp_path / "model.safetensors"
    shutil.copy(REFERENCE / "llama" / "model.safetensors", source)
    found = open_set(source)
    model = recognise(found.tensors)
    assert model is not None
    layout = next(layout for layout in model.family.layouts if layout.id == "mindformers")

    def change(done: int, total: int) -> None:
        with source.open("r+b") as file:
            file.seek(-8, os.SEEK_END)
            file.write(bytes(8))
        os.utime(source, ns=(1, 1))

    with pytest.raises(ConversionError, match="changed while it was read"):
        deliver(plan(found, model, layout, {"D": 8}), found, Target(tmp_path / "out.ckpt", False, "ckpt"), change)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.safetensors"]
