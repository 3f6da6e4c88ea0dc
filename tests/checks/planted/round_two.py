"""Planted faults of other kinds, second round; the expectations were written before `doctor check` saw any of them."""

from __future__ import annotations

import json
import random
import shutil
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from planting import (
    HUGGINGFACE,
    LAYERS,
    MCORE,
    MINDFORMERS,
    Collection,
    ckpt_bytes,
    is_in_layer,
    legacy_yaml,
    matrices,
    pick,
    sharded,
    values_of,
    write,
    write_index,
)
from round_one_data import config, record, seed
from round_one_weights import GATED, ranks
from weight_files import strategy_bytes, torch_pickle, with_crc, write_torch

from doctor.selftest.datafiles import LEGACY, LM, lm_rows, write_megatron, write_mindrecord
from doctor.selftest.datafiles import MCORE as MCORE_YAML

Said = Any
WEIGHTS, DATA = Collection(), Collection()
fault, healthy = WEIGHTS.fault, WEIGHTS.healthy


# Torch and other files ------------------------------------------------------------------------------------


def torch_spec(rng: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    family = rng.choice(GATED)
    fields, shapes = HUGGINGFACE[family]
    return dict(fields), {name: ("F32", shape) for name, shape in shapes.items()}


@fault("a torch file cut off", "WGT-FILE-002", "WGT-FILE-003", times=3)
def _(folder: Path, rng: random.Random) -> Said:
    fields, spec = torch_spec(rng)
    (folder / "config.json").write_text(json.dumps(fields))
    path = write_torch(folder / "pytorch_model.bin", spec)
    raw = path.read_bytes()
    path.write_bytes(raw[: rng.randrange(100, len(raw) - 1)])


@fault("a torch file that would run a command", "WGT-FILE-015", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    fields, spec = torch_spec(rng)
    (folder / "config.json").write_text(json.dumps(fields))
    call = rng.choice([b"cposix\nsystem\n(X\x02\x00\x00\x00idtR", b"cbuiltins\neval\n(X\x03\x00\x00\x001+1tR"])
    write_torch(folder / "pytorch_model.bin", spec, torch_pickle(spec, call))


@fault("a torch file packed again", "WGT-FILE-019")
def _(folder: Path, rng: random.Random) -> Said:
    fields, spec = torch_spec(rng)
    (folder / "config.json").write_text(json.dumps(fields))
    write_torch(folder / "pytorch_model.bin", spec, compress=True)


@fault("a parameter lost in a torch file", "WGT-KEY-001", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    fields, spec = torch_spec(rng)
    (folder / "config.json").write_text(json.dumps(fields))
    spec.pop(rng.choice([name for name in spec if is_in_layer(name, 2)]))
    write_torch(folder / "pytorch_model.bin", spec)


@fault("a storage lost in a torch file", "WGT-FILE-002", "WGT-FILE-003", "WGT-FILE-008")
def _(folder: Path, rng: random.Random) -> Said:
    fields, spec = torch_spec(rng)
    (folder / "config.json").write_text(json.dumps(fields))
    path = write_torch(folder / "whole.bin", spec)
    gone = f"archive/data/{rng.randrange(len(spec))}"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(folder / "pytorch_model.bin", "w") as new:
        for item in old.infolist():
            if item.filename != gone:
                new.writestr(item, old.read(item))
    path.unlink()


@fault("a quantised file of llama.cpp", "WGT-FILE-005")
def _(folder: Path, rng: random.Random) -> Said:
    (folder / "model.safetensors").write_bytes(b"GGUF\x03\x00\x00\x00" + bytes(600))
    (folder / "config.json").write_text(json.dumps(HUGGINGFACE["llama"][0]))


@fault("a packed archive under a weight's name", "WGT-FILE-005", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    path = folder / rng.choice(["model.safetensors", "model.ckpt"])
    path.write_bytes(rng.choice([b"\x1f\x8b\x08\x00", b"BZh9", b"\xfd7zXZ\x00"]) + rng.randbytes(900))


@fault("a strategy file taken for a checkpoint", "WGT-FILE-005")
def _(folder: Path, rng: random.Random) -> Said:
    path = folder / "ckpt_strategy_rank_0.ckpt"
    path.write_bytes(strategy_bytes(0, {"model.norm_out.weight": ((2, 2), [-1], 0)}))
    return {"path": path}


@fault("bytes flipped behind a checksum", "WGT-FILE-016")
def _(folder: Path, rng: random.Random) -> Said:
    raw = bytearray(with_crc(ckpt_bytes(values_of(MINDFORMERS["llama"]))))
    raw[-5000] ^= 0x10
    (folder / "m.ckpt").write_bytes(raw)
    return {"path": folder / "m.ckpt"}


@fault("an encrypted checkpoint", "WGT-FILE-017")
def _(folder: Path, rng: random.Random) -> Said:
    (folder / "m.ckpt").write_bytes(b"\xd8\x5e\x3a\x7f" + rng.randbytes(2000))
    return {"path": folder / "m.ckpt"}


@fault("a header that claims 2^60 bytes", "WGT-FILE-003")
def _(folder: Path, rng: random.Random) -> Said:
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", 1 << 60) + b'{"a":{"dtype":"F32"' + bytes(900))


@fault("a name twice in a header", "WGT-FILE-010")
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng, "llama")
    path = write(folder, fields, tensors)
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    text = raw[8 : 8 + length].rstrip()
    entry = json.dumps(json.loads(text)["model.norm.weight"])
    text = text[:-1] + b',"model.norm.weight":' + entry.encode() + b"}"
    path.write_bytes(len(text).to_bytes(8, "little") + text + raw[8 + length :])


# Names and families ---------------------------------------------------------------------------------------


@fault("LayerNorm names of another era", "WGT-KEY-001", "WGT-KEY-002", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng, "bloom", "chatglm", "gpt2")
    new = {}
    for name, array in tensors.items():
        if "norm" in name or "ln_" in name:
            name = name.replace(".weight", ".gamma").replace(".bias", ".beta")
        new[name] = array
    write(folder, fields, new)


@fault("the embedding under the name of another era", "WGT-KEY-001", "WGT-KEY-002")
def _(folder: Path, rng: random.Random) -> Said:
    tensors = values_of(MINDFORMERS["llama"])
    tensors["model.tok_embeddings.embedding_table"] = tensors.pop("model.tok_embeddings.embedding_weight")
    write(folder, None, tensors, "m.ckpt")
    return {"against": legacy_yaml(folder)}


@fault("fused in some layers, split in others", "WGT-KEY-001", "WGT-KEY-002", "WGT-KEY-009", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    tensors = values_of(MINDFORMERS["llama"])
    for layer in (1, 3):
        p = f"model.layers.{layer}.attention."
        tensors[p + "w_qkv.weight"] = np.concatenate([tensors.pop(f"{p}w{letter}.weight") for letter in "qkv"])
    write(folder, None, tensors, "m.ckpt")
    return {"against": legacy_yaml(folder)}


@fault("the first stage of a pipeline saved alone", "WGT-KEY-001", "WGT-KEY-003", "WGT-KEY-007", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng, *GATED)
    keep = {n: a for n, a in tensors.items() if "embed" in n or any(is_in_layer(n, layer) for layer in (0, 1))}
    write(folder, fields, keep)


@fault("a reward model's head", "WGT-KEY-002", "WGT-KEY-007")
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng, *GATED)
    tensors.pop("lm_head.weight")
    tensors["score.weight"] = np.ones((1, 32), "float32")
    write(folder, fields, tensors)


@fault("norms of q and k lost", "WGT-KEY-001", "WGT-KEY-008")
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng, "qwen3")
    write(folder, fields, {n: a for n, a in tensors.items() if "q_norm" not in n and "k_norm" not in n})


@fault("norms of q and k of the hidden size", "WGT-SHP-001")
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng, "qwen3")
    for name in [name for name in tensors if "q_norm" in name]:
        tensors[name] = np.ones(64, "float32")
    write(folder, fields, tensors)


@fault("the second generation's config for the first", "WGT-KEY-008")
def _(folder: Path, rng: random.Random) -> Said:
    write(folder, HUGGINGFACE["chatglm2"][0], values_of(HUGGINGFACE["chatglm"][1]))


@fault("layers of another model behind its own", "WGT-KEY-004", "WGT-SHP-001")
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng, *GATED)
    more = {n.replace(".4.", ".5.", 1): a for n, a in tensors.items() if is_in_layer(n, 4)}
    write(folder, fields, {**tensors, **more})


@fault("more experts in the config", "WGT-KEY-011", "WGT-SHP-001", "WGT-SHP-002", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng, "deepseek_v3")
    fields["n_routed_experts"] = rng.choice([8, 16])
    write(folder, fields, tensors)


@fault("a larger model's training config", "WGT-SHP-002")
def _(folder: Path, rng: random.Random) -> Said:
    write(folder, None, values_of(MINDFORMERS["llama"]), "m.ckpt")
    return {"against": legacy_yaml(folder, hidden=64, layers=8, feed=128)}


@fault("a config padded and the weights not", "WGT-SHP-003", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng, *GATED, "bloom", "gpt2")
    fields["vocab_size"] = rng.choice([64, 128])
    write(folder, fields, tensors)


@fault("tokens added after the embedding was saved", "WGT-TOK-001")
def _(folder: Path, rng: random.Random) -> Said:
    write(folder, *pick(rng, *GATED))
    (folder / "added_tokens.json").write_text(json.dumps({"<pad>": 61, "<tool>": 62}))


# Sets -----------------------------------------------------------------------------------------------------


@fault("an index that leaves its folder", "WGT-SHARD-008", also=["WGT-SHARD-001", "WGT-SHARD-004"])
def _(folder: Path, rng: random.Random) -> Said:
    _, index = sharded(folder, *pick(rng, *GATED))
    name = next(iter(index["weight_map"]))
    index["weight_map"][name] = "../../etc/passwd"
    write_index(folder, index)


@fault("a map of MindSpore with a file lost", "WGT-SHARD-001")
def _(folder: Path, rng: random.Random) -> Said:
    tensors = values_of(MINDFORMERS["llama"])
    names = list(tensors)
    table = {}
    for number, part in enumerate((names[:20], names[20:])):
        write(folder, None, {n: tensors[n] for n in part}, f"part_{number}.safetensors")
        table.update(dict.fromkeys(part, f"part_{number}.safetensors"))
    (folder / "param_name_map.json").write_text(json.dumps(table))
    (folder / "part_1.safetensors").unlink()


@fault("the index of the files before conversion", "WGT-SHARD-001", "WGT-SHARD-002", "WGT-SHARD-003")
def _(folder: Path, rng: random.Random) -> Said:
    _, index = sharded(folder, *pick(rng, *GATED))
    (folder / "model.safetensors.index.json").unlink()
    index["weight_map"] = {
        n: home.replace("model-", "pytorch_model-").replace(".safetensors", ".bin")
        for n, home in index["weight_map"].items()
    }
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))


@fault("ranks in different types", "WGT-RANK-008", "WGT-DTY-001", "WGT-RANK-014")
def _(folder: Path, rng: random.Random) -> Said:
    files = ranks(folder)
    tensors = {
        n: np.split(a, 2)[1] if a.ndim == 2 and a.shape[0] % 2 == 0 else a
        for n, a in values_of(MINDFORMERS["llama"]).items()
    }
    files[3].write_bytes(ckpt_bytes({n: a.astype("float16") for n, a in tensors.items()}))
    return {"path": folder / "checkpoint"}


@fault("copies that drifted apart", "WGT-RANK-013", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    files = ranks(folder)
    rank = rng.randrange(4)
    other = values_of(MINDFORMERS["llama"], 0)
    for name, array in other.items():
        cut = array.ndim == 2 and array.shape[0] % 2 == 0
        array = np.split(array, 2)[rank % 2] if cut else array
        other[name] = array + np.float32(1e-4) * (np.arange(array.size, dtype="float32").reshape(array.shape) % 7)
    files[rank].write_bytes(ckpt_bytes(other))
    return {"path": folder / "checkpoint", "values": True}


@fault(
    "a second stage that is the first again",
    "WGT-KEY-001",
    "WGT-KEY-003",
    "WGT-RANK-007",
    "WGT-RANK-012",
    also=["WGT-RANK-005", "WGT-KEY-007"],
)
def _(folder: Path, rng: random.Random) -> Said:
    fields = dict(HUGGINGFACE["llama"][0])
    tensors = values_of(MINDFORMERS["llama"])
    first = {n: a for n, a in tensors.items() if "embed" in n or any(is_in_layer(n, layer) for layer in (0, 1, 2))}
    for rank in range(2):
        write(folder / f"rank_{rank}", None, first, f"llama_rank_{rank}-1_10.ckpt")
    (folder / "config.json").write_text(json.dumps(fields))


@fault("whole files beside rank folders", "WGT-RANK-009")
def _(folder: Path, rng: random.Random) -> Said:
    ranks(folder)
    write(folder / "checkpoint", None, values_of(MINDFORMERS["llama"]), "llama.ckpt")
    return {"path": folder / "checkpoint"}


@fault("a record of a checkpoint that is gone", "WGT-RANK-010")
def _(folder: Path, rng: random.Random) -> Said:
    files = ranks(folder)
    record_of = {"last_epoch": 1, "last_step": 200, "last_ckpt_file": "llama_rank_1-1_200.ckpt"}
    (files[1].parent / "meta.json").write_text(json.dumps(record_of))
    return {"path": folder / "checkpoint"}


def iteration(folder: Path, parts: int = 2) -> Path:
    """MindFormers 2.x: matrices cut by rows, as its metadata.json describes them."""
    place = folder / "iteration_00000040"
    place.mkdir(parents=True)
    table: dict[str, Any] = {"state_dict_metadata": {}, "storage_data": {}}
    for rank in range(parts):
        file = f"qwen-model-{rank:07d}-{parts:07d}.safetensors"
        mine = {}
        for name, array in values_of(MCORE["qwen3"]).items():
            cut = parts if array.ndim == 2 and array.shape[0] % parts == 0 else 1
            piece = np.split(array, cut)[rank % cut]
            mine[name] = piece
            entry = table["state_dict_metadata"].setdefault(
                name,
                {"global_shape": list(array.shape), "axis_fragmentations": [cut, *[1] * (array.ndim - 1)], "chunk": []},
            )
            chunk = {"global_offset": [rank % cut], "local_shape": list(piece.shape)}
            if chunk not in entry["chunk"]:
                entry["chunk"].append(chunk)
            table["storage_data"].setdefault(f"('{name}', ({rank % cut},))", []).append(
                {"file_name": file, "storage_rank": rank}
            )
        write(place, None, mine, file)
    (place / "metadata.json").write_text(json.dumps(table))
    (place / "common.json").write_text(json.dumps({"epoch_num": 1, "step_num": 40, "global_step": 40}))
    (folder / "latest_checkpointed_iteration.txt").write_text("40")
    return place


@fault("an iteration with a node's file lost", "WGT-SHARD-001")
def _(folder: Path, rng: random.Random) -> Said:
    (iteration(folder) / "qwen-model-0000001-0000002.safetensors").unlink()


@fault("a tracker that names no iteration", "WGT-ITER-001", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    iteration(folder)
    (folder / "latest_checkpointed_iteration.txt").write_text(rng.choice(["80", "release", ""]))


@fault("metadata that lacks a piece", "WGT-ITER-003")
def _(folder: Path, rng: random.Random) -> Said:
    path = iteration(folder) / "metadata.json"
    table = json.loads(path.read_text())
    table["state_dict_metadata"]["embedding.word_embeddings.weight" if rng.random() < 0 else
                                 "decoder.layers.2.mlp.linear_fc1.weight"]["chunk"].pop()  # fmt: skip
    path.write_text(json.dumps(table))


@fault("an iteration without its counters", "WGT-ITER-002")
def _(folder: Path, rng: random.Random) -> Said:
    (iteration(folder) / "common.json").unlink()


# Values ---------------------------------------------------------------------------------------------------


@fault("NaN in a norm or a bias", "WGT-VAL-001", times=3)
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng)
    name = rng.choice([n for n, a in tensors.items() if a.ndim == 1 and is_in_layer(n)])
    tensors[name][rng.randrange(tensors[name].size)] = np.nan
    write(folder, fields, tensors, rng.choice(["model.safetensors", "model.ckpt"]))
    return {"values": True}


@fault("NaN in one shard", "WGT-VAL-001")
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng)
    name = rng.choice(matrices(tensors, 4))
    tensors[name][0, 0] = np.nan
    sharded(folder, fields, tensors)
    return {"values": True}


@fault("a norm a hundred times too large", "WGT-VAL-008")
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng, *GATED)
    tensors[f"model.layers.{rng.randrange(1, LAYERS)}.input_layernorm.weight"] *= 100
    write(folder, fields, tensors)
    return {"values": True}


@fault("values beyond float16 for a float16 config", "WGT-VAL-006", also=["WGT-VAL-010"])
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng, *GATED)
    fields["torch_dtype"] = "float16"
    tensors[f"model.layers.{rng.randrange(LAYERS)}.mlp.down_proj.weight"][0, 0] = 9e4
    write(folder, fields, tensors)
    return {"values": True}


@fault("everything scaled into denormals", "WGT-VAL-005", also=["WGT-VAL-010"])
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng, *GATED)
    write(
        folder,
        fields,
        {n: (a * 1e-4).astype("float16") if a.ndim == 2 else a.astype("float16") for n, a in tensors.items()},
    )
    return {"values": True}


@fault("tokens in the middle of the embedding never written", "WGT-VAL-004")
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng, *GATED)
    tensors["model.embed_tokens.weight"][20:40] = 0
    write(folder, fields, tensors)
    return {"values": True}


@fault("an expert copied over another", "WGT-VAL-007", "WGT-VAL-012")
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng, "deepseek_v3")
    for name in [name for name in tensors if ".layers.2.mlp.experts.1." in name]:
        tensors[name] = tensors[name.replace("experts.1.", "experts.3.")].copy()
    write(folder, fields, tensors)
    return {"values": True}


@fault("k copied over v", "WGT-VAL-007", "WGT-VAL-012")
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng, *GATED)
    for layer in range(LAYERS):
        p = f"model.layers.{layer}.self_attn."
        tensors[p + "v_proj.weight"] = tensors[p + "k_proj.weight"].copy()
    write(folder, fields, tensors)
    return {"values": True}


# Healthy weights ------------------------------------------------------------------------------------------


@healthy("a torch file", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    fields, spec = torch_spec(rng)
    (folder / "config.json").write_text(json.dumps(fields))
    write_torch(folder / "pytorch_model.bin", spec)


@healthy("torch shards with their index")
def _(folder: Path, rng: random.Random) -> Said:
    fields, spec = torch_spec(rng)
    (folder / "config.json").write_text(json.dumps(fields))
    names = list(spec)
    table = {}
    for number, part in enumerate((names[:25], names[25:])):
        file = f"pytorch_model-{number + 1:05d}-of-00002.bin"
        write_torch(folder / file, {n: spec[n] for n in part})
        table.update(dict.fromkeys(part, file))
    size = sum(4 * int(np.prod(shape)) for _, shape in spec.values())
    (folder / "pytorch_model.bin.index.json").write_text(
        json.dumps({"metadata": {"total_size": size}, "weight_map": table})
    )


@healthy("a checkpoint with a checksum")
def _(folder: Path, rng: random.Random) -> Said:
    (folder / "m.ckpt").write_bytes(with_crc(ckpt_bytes(values_of(MINDFORMERS[rng.choice(sorted(MINDFORMERS))]))))
    return {"path": folder / "m.ckpt", "values": True}


@healthy("an iteration", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    iteration(folder, rng.choice([1, 2]))


@healthy("two stages of a pipeline")
def _(folder: Path, rng: random.Random) -> Said:
    tensors = values_of(MINDFORMERS["llama"])
    for rank in range(2):
        mine = {
            n: a for n, a in tensors.items() if any(is_in_layer(n, i) for i in ((0, 1, 2) if rank == 0 else (3, 4)))
        }
        mine.update({n: a for n, a in tensors.items() if not is_in_layer(n) and ("embed" in n) == (rank == 0)})
        write(folder / "checkpoint" / f"rank_{rank}", None, mine, f"llama_rank_{rank}-1_10.ckpt")
        (folder / "strategy").mkdir(exist_ok=True)
        cuts = {n: ((1, 1), [-1] * a.ndim, 0) for n, a in mine.items()}
        (folder / "strategy" / f"ckpt_strategy_rank_{rank}.ckpt").write_bytes(strategy_bytes(rank, cuts))
    return {"path": folder / "checkpoint", "values": True}


@healthy("four ranks whose copies are equal")
def _(folder: Path, rng: random.Random) -> Said:
    ranks(folder)
    return {"path": folder / "checkpoint", "values": True}


@healthy("a Mistral, a Yi", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng, "llama")
    fields["model_type"] = rng.choice(["mistral", "yi"])
    write(folder, fields, tensors)


@healthy("MTP layers left out")
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng, "deepseek_v3")
    write(folder, fields, {n: a for n, a in tensors.items() if not is_in_layer(n, LAYERS)})


@healthy("DeepSeek after conversion", times=3)
def _(folder: Path, rng: random.Random) -> Said:
    from test_formats_convert import convert

    fields, tensors = pick(rng, "deepseek_v3")
    write(folder / "hf", fields, tensors)
    layout, variant = rng.choice(
        [("mindformers", ""), ("mindformers", "no gmm"), ("mcore", ""), ("mcore", "mla_qkv_concat")]
    )
    convert(folder / "hf", folder / "m.safetensors", layout, variant)
    shutil.rmtree(folder / "hf")
    return {"path": folder / "m.safetensors", "values": True}


@healthy("old and new files of one model")
def _(folder: Path, rng: random.Random) -> Said:
    fields, spec = torch_spec(rng)
    write_torch(folder / "pytorch_model.bin", spec)
    write(folder, fields, values_of({n: shape for n, (_, shape) in spec.items()}))


@healthy("a vocabulary padded with rows of zeros")
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng, *GATED)
    fields["vocab_size"] = 128
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        tensors[name] = np.concatenate([tensors[name], np.zeros((67, 32), "float32")])
    write(folder, fields, tensors)
    return {"values": True}


@healthy("zero biases and untouched adapters")
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng, "qwen2", "gpt2", "bloom")
    write(
        folder, fields, {n: np.zeros_like(a) if n.endswith("bias") and a.ndim == 1 else a for n, a in tensors.items()}
    )
    return {"values": True}


# Data -----------------------------------------------------------------------------------------------------

data_fault, data_healthy = DATA.fault, DATA.healthy


@data_fault("labels one higher than the tokens", "DAT-LBL-006")
def _(folder: Path, rng: random.Random) -> Said:
    rows = [
        {"input_ids": r["input_ids"], "labels": r["input_ids"] + 1}
        for r in lm_rows(length=32, vocabulary=400, seed=seed(rng))
    ]
    return {"path": record(folder, rows), "against": config(folder, MCORE_YAML)}


@data_fault("labels reversed", "DAT-LBL-006")
def _(folder: Path, rng: random.Random) -> Said:
    rows = [
        {"input_ids": r["input_ids"], "labels": r["input_ids"][::-1].copy()} for r in lm_rows(length=32, seed=seed(rng))
    ]
    return {"path": record(folder, rows), "against": config(folder, MCORE_YAML)}


@data_fault("prompt and answer exchanged in the mask", "DAT-LBL-004", "DAT-LBL-008", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    # all that is left to learn is one token of a sample
    rows = lm_rows(length=32, seed=seed(rng))
    for row in rows:
        row["labels"][1:] = -100
    return {"path": record(folder, rows), "against": config(folder, MCORE_YAML)}


@data_fault("a loss mask of zeros", "DAT-LBL-004", "DAT-MSK-001", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    schema = {**LM, "loss_mask": {"type": "int32", "shape": [-1]}}
    rows = [{**row, "loss_mask": np.zeros(32, "int32")} for row in lm_rows(length=32, seed=seed(rng))]
    return {"path": record(folder, rows, schema), "against": config(folder, MCORE_YAML)}


@data_fault("an attention mask of zeros", "DAT-MSK-001", "DAT-MSK-002")
def _(folder: Path, rng: random.Random) -> Said:
    schema = {**LM, "attention_mask": {"type": "int32", "shape": [-1]}}
    rows = [{**row, "attention_mask": np.zeros(32, "int32")} for row in lm_rows(length=32, seed=seed(rng))]
    return {"path": record(folder, rows, schema), "against": config(folder, MCORE_YAML)}


@data_fault("nothing but padding", "DAT-SEQ-004", "DAT-TOK-003", also=["DAT-LBL-004", "DAT-SEQ-003", "DAT-SEQ-005"])
def _(folder: Path, rng: random.Random) -> Said:
    rows = [{"input_ids": np.zeros(32, "int32"), "labels": np.full(32, -100, "int32")} for _ in range(40)]
    return {"path": record(folder, rows), "against": config(folder, MCORE_YAML)}


@data_fault("ids of 2^31", "DAT-TOK-001")
def _(folder: Path, rng: random.Random) -> Said:
    schema = {name: {"type": "int64", "shape": [-1]} for name in ("input_ids", "labels")}
    rows = [{name: array.astype("int64") for name, array in row.items()} for row in lm_rows(length=32, seed=seed(rng))]
    rows[3]["input_ids"][4] = 1 << 40
    return {"path": record(folder, rows, schema), "against": config(folder, MCORE_YAML)}


@data_fault("files of two lengths in one set", "DAT-SEQ-001", "DAT-SEQ-002")
def _(folder: Path, rng: random.Random) -> Said:
    names = ["lm.mindrecord0", "lm.mindrecord1"]
    for number, name in enumerate(names):
        write_mindrecord(folder / "data" / name, LM, lm_rows(length=32 + 16 * number, seed=number), names, number)
    return {"path": folder / "data", "against": config(folder, MCORE_YAML)}


@data_fault("a column of the config that the file has not", "DAT-COL-001")
def _(folder: Path, rng: random.Random) -> Said:
    names = '["input_ids", "labels", "rewards"]'
    return {
        "path": record(folder, lm_rows(length=32, seed=seed(rng))),
        "against": config(folder, MCORE_YAML, columns=names),
    }


@data_fault("fewer rows than accumulated steps take", "DAT-ROW-001")
def _(folder: Path, rng: random.Random) -> Said:
    path = record(folder, lm_rows(count=20, length=33, offset=0, seed=seed(rng)))
    text = LEGACY.replace("sink_mode: False}}", "sink_mode: False, gradient_accumulation_steps: 8}}")
    return {"path": path, "against": config(folder, text, batch=4)}


@data_fault("an index of a newer version", "DAT-FILE-003")
def _(folder: Path, rng: random.Random) -> Said:
    stem = write_megatron(folder / "c", [np.arange(20) + n for n in range(30)])
    path = stem.with_suffix(".idx")
    raw = bytearray(path.read_bytes())
    raw[9] = 2
    path.write_bytes(raw)
    return {"path": stem.with_suffix(".bin")}


@data_fault("lengths below zero", "DAT-FILE-003", also=["DAT-FILE-008"])
def _(folder: Path, rng: random.Random) -> Said:
    stem = write_megatron(folder / "c", [np.arange(20) + n for n in range(30)])
    path = stem.with_suffix(".idx")
    raw = bytearray(path.read_bytes())
    raw[34 + 4 * 7 : 34 + 4 * 8] = struct.pack("<i", -20)
    path.write_bytes(raw)
    return {"path": stem.with_suffix(".bin")}


@data_fault("empty documents", "DAT-SEQ-004")
def _(folder: Path, rng: random.Random) -> Said:
    documents = [np.arange(20) + n if n % 4 else np.zeros(0, int) for n in range(40)]
    return {"path": write_megatron(folder / "c", documents).with_suffix(".bin")}


@data_fault("JSON lines in UTF-16", "DAT-FILE-007", "DAT-FILE-003")
def _(folder: Path, rng: random.Random) -> Said:
    path = folder / "train.jsonl"
    path.write_bytes("".join(json.dumps({"text": f"number {n}"}) + "\n" for n in range(40)).encode("utf-16"))
    return {"path": path}


@data_fault("JSON written over several lines", "DAT-FILE-003", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    path = folder / "train.jsonl"
    path.write_text(
        "\n".join(json.dumps({"text": f"number {n}", "id": n}, indent=rng.choice([1, 4])) for n in range(20))
    )
    return {"path": path}


@data_fault("a JSON array cut off", "DAT-FILE-002", "DAT-FILE-003")
def _(folder: Path, rng: random.Random) -> Said:
    path = folder / "train.json"
    text = json.dumps([{"instruction": f"q {n}", "output": f"a {n}"} for n in range(60)])
    path.write_text(text[: rng.randrange(50, len(text) - 1)])
    return {"path": path}


@data_fault("an array under the name of lines", "DAT-FILE-003")
def _(folder: Path, rng: random.Random) -> Said:
    path = folder / "train.jsonl"
    path.write_text(json.dumps([{"text": f"number {n}"} for n in range(40)]))
    return {"path": path}


@data_fault("an empty array", "DAT-SEQ-004", "DAT-FILE-001", "DAT-FILE-003", "DAT-ROW-001", "DAT-ROW-003")
def _(folder: Path, rng: random.Random) -> Said:
    path = folder / "train.json"
    path.write_text('[{"text": ""}]')
    return {"path": path}


@data_fault("zero bytes in lines", "DAT-FILE-003", "DAT-FILE-007")
def _(folder: Path, rng: random.Random) -> Said:
    path = folder / "train.jsonl"
    rows = [json.dumps({"text": f"number {n}"}).encode() for n in range(60)]
    rows[20] = bytes(40)
    path.write_bytes(b"\n".join(rows) + b"\n")
    return {"path": path}


@data_healthy("loss masks that cover prompts")
def _(folder: Path, rng: random.Random) -> Said:
    schema = {**LM, "loss_mask": {"type": "int32", "shape": [-1]}}
    mask = (np.arange(32) > 10).astype("int32")
    rows = [{**row, "loss_mask": mask} for row in lm_rows(length=32, seed=seed(rng))]
    return {"path": record(folder, rows, schema), "against": config(folder, MCORE_YAML)}


@data_healthy("attention masks of padded samples")
def _(folder: Path, rng: random.Random) -> Said:
    schema = {**LM, "attention_mask": {"type": "int32", "shape": [-1]}}
    rows = [
        {**r, "attention_mask": (np.arange(32) < 24).astype("int32")}
        for r in lm_rows(length=32, padded=8, seed=seed(rng))
    ]
    return {"path": record(folder, rows, schema), "against": config(folder, MCORE_YAML)}


@data_healthy("short answers")
def _(folder: Path, rng: random.Random) -> Said:
    rows = lm_rows(length=32, seed=seed(rng))
    for row in rows:
        row["labels"][: rng.randrange(20, 28)] = -100
    return {"path": record(folder, rows), "against": config(folder, MCORE_YAML)}


@data_healthy("answers of one token in a few samples")
def _(folder: Path, rng: random.Random) -> Said:
    rows = lm_rows(length=32, seed=seed(rng))
    for row in rows[::6]:
        row["labels"][:-2] = -100
    return {"path": record(folder, rows), "against": config(folder, MCORE_YAML)}


@data_healthy("input left empty by design")
def _(folder: Path, rng: random.Random) -> Said:
    path = folder / "alpaca.json"
    path.write_text(json.dumps([{"instruction": f"do {n}", "input": "", "output": f"done {n}"} for n in range(50)]))
    return {"path": path}


@data_healthy("turns of a system, a tool and an assistant")
def _(folder: Path, rng: random.Random) -> Said:
    path = folder / "chat.jsonl"
    rows = []
    for n in range(40):
        turns = [{"role": "system", "content": "You help."}, {"role": "user", "content": f"q {n}"},
                 {"role": "assistant", "content": f"a {n}"}]  # fmt: skip
        if n % 3 == 0:
            turns += [{"role": "tool", "content": ""}, {"role": "assistant", "content": "so it is"}]
        rows.append({"messages": turns})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"path": path}


@data_healthy("lines of many languages")
def _(folder: Path, rng: random.Random) -> Said:
    path = folder / "train.jsonl"
    path.write_text(
        "".join(json.dumps({"text": f"第 {n} 行 – número {n} 🙂"}, ensure_ascii=False) + "\n" for n in range(60))
    )
    return {"path": path}


@data_healthy("documents of one token")
def _(folder: Path, rng: random.Random) -> Said:
    documents = [np.arange(rng.randrange(1, 30)) + n for n in range(60)]
    return {"path": write_megatron(folder / "c", documents).with_suffix(".bin")}
