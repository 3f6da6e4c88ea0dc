"""Planted faults in weights, first round; the expectations were written before `doctor check` saw any of them."""

from __future__ import annotations

import json
import random
import shutil
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
from weight_files import strategy_bytes

Said = Any
ROUND = Collection()
fault, healthy = ROUND.fault, ROUND.healthy
GATED = ("llama", "qwen2", "qwen3")


def layered(tensors: dict[str, Any], layer: int) -> list[str]:
    return [name for name in tensors if is_in_layer(name, layer)]


# Names ----------------------------------------------------------------------------------------------------


@fault("a parameter of one layer lost", "WGT-KEY-001", "WGT-KEY-011", times=5)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng)
    tensors.pop(rng.choice(layered(tensors, rng.randrange(1, LAYERS))))
    write(folder, config, tensors)


@fault("the final norm lost", "WGT-KEY-001", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED)
    tensors.pop("model.norm.weight")
    write(folder, config, tensors)


@fault("the embedding lost", "WGT-KEY-001", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, "llama", "qwen", "chatglm", "deepseek_v3")
    tensors.pop(next(name for name in tensors if "embed" in name or "wte" in name))
    write(folder, config, tensors)


@fault("a layer in the middle lost", "WGT-KEY-003", times=3)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng)
    for name in layered(tensors, rng.randrange(1, LAYERS - 1)):
        tensors.pop(name)
    write(folder, config, tensors)


@fault("layers counted from one", "WGT-KEY-003", "WGT-KEY-004", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED, "chatglm2", "bloom")
    moved = {}
    for name, array in tensors.items():
        for layer in range(LAYERS):
            if is_in_layer(name, layer):
                name = name.replace(f".{layer}.", f".{layer + 1}.", 1)
                break
        moved[name] = array
    write(folder, config, moved)


@fault("layer numbers with leading zeros", "WGT-KEY-001", "WGT-KEY-002", "WGT-KEY-005", "WGT-KEY-013")
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED)
    write(folder, config, {name.replace("layers.", "layers.0"): array for name, array in tensors.items()})


@fault("half of the keys renamed", "WGT-KEY-001", "WGT-KEY-002", "WGT-KEY-003", "WGT-KEY-005", times=3)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED)
    new = rng.choice([("self_attn", "attention"), ("mlp", "feed_forward"), ("input_layernorm", "attn_norm")])
    write(
        folder,
        config,
        {
            name.replace(*new) if any(is_in_layer(name, i) for i in (2, 3, 4)) else name: a
            for name, a in tensors.items()
        },
    )


@fault("a wrapper's prefix on every name", "WGT-KEY-005", times=5)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED, "qwen", "chatglm2", "gpt2", "bloom", "deepseek_v3")
    prefix = rng.choice(["module.", "_orig_mod.", "network.", "base_model.model.", "_backbone.", "network.model."])
    write(folder, config, {prefix + name: array for name, array in tensors.items()})


@fault("the prefix twice", "WGT-KEY-005", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED)
    write(folder, config, {f"model.{name}" if name.startswith("model.") else name: a for name, a in tensors.items()})


@fault("the prefix lost", "WGT-KEY-005", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED)
    write(folder, config, {name.replace("model.", "", 1): array for name, array in tensors.items()})


@fault("a prefix on half of the layers", "WGT-KEY-001", "WGT-KEY-002", "WGT-KEY-003", "WGT-KEY-005")
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED)
    write(
        folder, config, {f"module.{n}" if is_in_layer(n, 1) or is_in_layer(n, 3) else n: a for n, a in tensors.items()}
    )


@fault("q, k and v fused under another name", "WGT-KEY-001", "WGT-KEY-002", "WGT-KEY-009", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, "llama")
    for layer in range(LAYERS):
        p = f"model.layers.{layer}.self_attn."
        parts = [tensors.pop(f"{p}{letter}_proj.weight") for letter in "qkv"]
        tensors[p + rng.choice(["W_pack.weight"])] = np.concatenate(parts)
    write(folder, config, tensors)


@fault("the head under Meta's name", "WGT-KEY-001", "WGT-KEY-002", "WGT-KEY-007", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED)
    tensors["output.weight"] = tensors.pop("lm_head.weight")
    write(folder, config, tensors)


@fault("the head lost of an untied model", "WGT-KEY-007", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED, "deepseek_v3")
    tensors.pop("lm_head.weight")
    write(folder, config, tensors)


@fault("biases lost", "WGT-KEY-001", "WGT-KEY-008", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, "qwen2", "gpt2", "qwen", "chatglm2")
    write(folder, config, {name: a for name, a in tensors.items() if not (name.endswith("bias") and a.ndim == 1)})


@fault("biases that the model has not", "WGT-KEY-002", "WGT-KEY-008")
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, "llama", "qwen3")
    for layer in range(LAYERS):
        tensors[f"model.layers.{layer}.self_attn.o_proj.bias"] = np.zeros(32, "float32")
    write(folder, config, tensors)


@fault("an expert lost", "WGT-KEY-011", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, "deepseek_v3")
    layer, expert = rng.randrange(1, LAYERS), rng.randrange(4)
    gone = f"model.layers.{layer}.mlp.experts.{expert}."
    write(folder, config, {name: a for name, a in tensors.items() if not name.startswith(gone)})


@fault("a router lost", "WGT-KEY-001", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, "deepseek_v3")
    tensors.pop(f"model.layers.{rng.randrange(1, LAYERS)}.mlp.gate.weight")
    write(folder, config, tensors)


@fault("a parameter of the prediction layer lost", "WGT-KEY-001", "WGT-KEY-011", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, "deepseek_v3")
    tensors.pop(f"model.layers.{LAYERS}.{rng.choice(['enorm', 'self_attn.o_proj', 'eh_proj', 'mlp.gate'])}.weight")
    write(folder, config, tensors)


@fault("adapters without the base", "WGT-KEY-010", times=3)
def _(folder: Path, rng: random.Random) -> Said:
    _, tensors = pick(rng, *GATED)
    ends = rng.choice(
        [("lora_A.weight", "lora_B.weight"), ("mindpet_delta_lora_a", "mindpet_delta_lora_b"), ("lora_a", "lora_b")]
    )
    adapters = {}
    for name in matrices(tensors):
        if "_proj" in name:
            rows, columns = tensors[name].shape
            stem = name.rpartition(".weight")[0]
            adapters[f"{stem}.{ends[0]}"] = np.ones((4, columns), "float32")
            adapters[f"{stem}.{ends[1]}"] = np.ones((rows, 4), "float32")
    if rng.random() < 0.5:
        adapters = {f"base_model.model.{name}": a for name, a in adapters.items()}
    write(folder, None, adapters, "adapter_model.safetensors")


@fault("optimizer states alone", "WGT-KEY-010", "WGT-KEY-012", "WGT-KEY-001", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    tensors = values_of(MINDFORMERS["llama"])
    states = {
        f"{kind}.{name}": a
        for name, a in tensors.items()
        for kind in rng.choice([("adam_m", "adam_v"), ("moment1", "moment2")])
    }
    states["global_step"] = np.array([100], "int32")
    return {"path": write(folder, None, states, rng.choice(["opt.ckpt", "opt.safetensors"]))}


@fault("MindFormers' names for an mcore config", "WGT-KEY-006")
def _(folder: Path, rng: random.Random) -> Said:
    write(folder, None, values_of(MCORE["llama"]), "model.ckpt")
    return {"against": legacy_yaml(folder)}


@fault("Hugging Face names in a checkpoint", "WGT-KEY-006", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    write(folder, None, values_of(HUGGINGFACE["llama"][1]), "model.ckpt")
    return {"against": legacy_yaml(folder)}


@fault("split weights for a fused config", "WGT-KEY-009", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    write(folder, None, values_of(MINDFORMERS["llama"]), rng.choice(["m.ckpt", "m.safetensors"]))
    return {"against": legacy_yaml(folder, ", qkv_concat: True")}


@fault("weights of another family", "WGT-KEY-008", "WGT-KEY-002", times=4)
def _(folder: Path, rng: random.Random) -> Said:
    mine, other = rng.choice(
        [("llama", "qwen3"), ("qwen2", "chatglm2"), ("gpt2", "bloom"), ("qwen3", "llama"), ("deepseek_v3", "qwen3")]
    )
    write(folder, dict(HUGGINGFACE[other][0]), values_of(HUGGINGFACE[mine][1]))


# Shapes ---------------------------------------------------------------------------------------------------


@fault("one matrix transposed", "WGT-SHP-007", times=5)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng)
    name = rng.choice(matrices(tensors, rng.randrange(LAYERS)))
    tensors[name] = tensors[name].T
    write(folder, config, tensors)


@fault("one kind of matrix transposed everywhere", "WGT-SHP-007", "WGT-SHP-001", times=3)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED)
    kind = rng.choice(["mlp.down_proj", "mlp.up_proj", "mlp.gate_proj"])
    write(folder, config, {name: a.T if kind in name else a for name, a in tensors.items()})


@fault("the embedding transposed", "WGT-SHP-007", "WGT-SHP-001", "WGT-SHP-008", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED)
    tensors["model.embed_tokens.weight"] = tensors["model.embed_tokens.weight"].T
    write(folder, config, tensors)


@fault("Bloom's matrices not turned for MindFormers", "WGT-SHP-007", "WGT-SHP-001")
def _(folder: Path, rng: random.Random) -> Said:
    tensors = values_of(MINDFORMERS["bloom"])
    write(folder, None, {n: a.T if ".output." in n and a.ndim == 2 else a for n, a in tensors.items()}, "m.ckpt")


@fault("KV heads wrong in the config", "WGT-SHP-005", times=3)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED)
    config["num_key_value_heads"] = rng.choice([1, 4])
    write(folder, config, tensors)


@fault("KV heads left out of the config", "WGT-SHP-005", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED)
    del config["num_key_value_heads"]
    write(folder, config, tensors)


@fault("head size left out of the config", "WGT-SHP-001", "WGT-SHP-002", "WGT-SHP-005")
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, "qwen3")
    del config["head_dim"]
    write(folder, config, tensors)


@fault("vocabulary padded in the weights", "WGT-SHP-003", times=3)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED, "bloom")
    rows = rng.choice([62, 64, 128])
    for name, array in tensors.items():
        if array.shape[:1] == (61,):
            tensors[name] = np.concatenate([array, np.zeros((rows - 61, array.shape[1]), array.dtype)])
    write(folder, config, tensors)


@fault("only the embedding was resized", "WGT-SHP-008", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED)
    name = rng.choice(["model.embed_tokens.weight", "lm_head.weight"])
    tensors[name] = np.concatenate([tensors[name], tensors[name][:3]])
    write(folder, config, tensors)


@fault("feed-forward width wrong in the config", "WGT-SHP-004", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED, "chatglm2")
    key = "ffn_hidden_size" if "ffn_hidden_size" in config else "intermediate_size"
    config[key] = rng.choice([40, 64, 96])
    write(folder, config, tensors)


@fault("positions of another length", "WGT-SHP-006")
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, "gpt2")
    config["n_positions"] = rng.choice([20, 80])
    write(folder, config, tensors)


@fault("the config of a larger model", "WGT-SHP-002", times=4)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED, "chatglm2", "bloom", "gpt2")
    for key in ("hidden_size", "n_embd"):
        if key in config:
            config[key] = 64
    for key in ("num_hidden_layers", "num_layers", "n_layer"):
        if key in config:
            config[key] = LAYERS + 3
    write(folder, config, tensors)


@fault("fewer layers in the config", "WGT-KEY-004", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED, "chatglm2")
    key = "num_layers" if "num_layers" in config else "num_hidden_layers"
    config[key] = LAYERS - rng.choice([1, 2])
    write(folder, config, tensors)


@fault("more layers in the config", "WGT-KEY-003", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED, "qwen")
    config["num_hidden_layers"] = LAYERS + rng.choice([1, 4])
    write(folder, config, tensors)


@fault("gate and down swapped in a layer", "WGT-SHP-007", "WGT-SHP-001")
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED)
    p = f"model.layers.{rng.randrange(LAYERS)}.mlp."
    a, b = p + "gate_proj.weight", p + "down_proj.weight"
    tensors[a], tensors[b] = tensors[b], tensors[a]
    write(folder, config, tensors)


@fault("q and k swapped in a layer", "WGT-SHP-001")
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED)
    p = f"model.layers.{rng.randrange(LAYERS)}.self_attn."
    a, b = p + "q_proj.weight", p + "k_proj.weight"
    tensors[a], tensors[b] = tensors[b], tensors[a]
    write(folder, config, tensors)


@fault("a layer of a larger model", "WGT-SHP-001", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED)
    for name in layered(tensors, rng.randrange(LAYERS)):
        tensors[name] = np.concatenate([tensors[name]] * 2)
    write(folder, config, tensors)


@fault("an expert of another width", "WGT-SHP-001")
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, "deepseek_v3")
    name = f"model.layers.{rng.randrange(1, LAYERS)}.mlp.experts.2.up_proj.weight"
    tensors[name] = tensors[name][:8]
    write(folder, config, tensors)


@fault("sizes of a training config", "WGT-SHP-003", "WGT-SHP-004", "WGT-SHP-005", "WGT-KEY-003", "WGT-KEY-004", times=4)
def _(folder: Path, rng: random.Random) -> Said:
    write(folder, None, values_of(MINDFORMERS["llama"]), "m.ckpt")
    key, value = rng.choice([("vocabulary", 64), ("groups", 4), ("feed", 64), ("layers", 7), ("layers", 3)])
    return {"against": legacy_yaml(folder, **{key: value})}


# Types ----------------------------------------------------------------------------------------------------


@fault("one tensor in another type", "WGT-DTY-001", times=3)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng)
    name = rng.choice(matrices(tensors, rng.randrange(1, LAYERS)))
    tensors[name] = tensors[name].astype(rng.choice(["float16", "float64"]))
    write(folder, config, tensors)


@fault("quantised weights", "WGT-DTY-002", also=["WGT-KEY-001", "WGT-KEY-002"], times=2)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED)
    if rng.random() < 0.5:
        tensors = {n: a.astype("int8") if "_proj.weight" in n else a for n, a in tensors.items()}
    else:
        for name in [name for name in tensors if "_proj.weight" in name]:
            stem = name.rpartition(".weight")[0]
            array = tensors.pop(name)
            tensors[stem + ".qweight"] = np.zeros((array.shape[1] // 8, array.shape[0]), "int32")
            tensors[stem + ".scales"] = np.ones((1, array.shape[0]), "float16")
    write(folder, config, tensors)


# Shards ---------------------------------------------------------------------------------------------------


@fault("a shard lost", "WGT-SHARD-001", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    files, _ = sharded(folder, *pick(rng))
    rng.choice(files).unlink()


@fault("one shard copied over another", "WGT-SHARD-003", "WGT-SHARD-005", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    files, _ = sharded(folder, *pick(rng))
    one, other = rng.sample(files, 2)
    shutil.copy(one, other)


@fault("a shard of another model", "WGT-SHP-001", "WGT-SHARD-007", "WGT-SHP-002", also=["WGT-SHARD-003"], times=2)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED)
    files, index = sharded(folder, config, tensors)
    place = files[1].name
    names = [name for name, home in index["weight_map"].items() if home == place]
    write(folder, None, {n: np.concatenate([tensors[n]] * 2, axis=-1) for n in names}, place)


@fault("a shard of another save in another type", "WGT-DTY-001", also=["WGT-SHARD-007"])
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED)
    files, index = sharded(folder, config, tensors)
    place = rng.choice(files).name
    write(
        folder,
        None,
        {n: tensors[n].astype("float16") for n, home in index["weight_map"].items() if home == place},
        place,
    )


@fault("an index with other names", "WGT-SHARD-003", also=["WGT-SHARD-004"], times=2)
def _(folder: Path, rng: random.Random) -> Said:
    _, index = sharded(folder, *pick(rng, *GATED))
    index["weight_map"] = {n.replace("self_attn", "attention"): home for n, home in index["weight_map"].items()}
    write_index(folder, index)


@fault("an index with shards exchanged", "WGT-SHARD-003")
def _(folder: Path, rng: random.Random) -> Said:
    files, index = sharded(folder, *pick(rng))
    a, b = files[0].name, files[1].name
    index["weight_map"] = {n: {a: b, b: a}.get(home, home) for n, home in index["weight_map"].items()}
    write_index(folder, index)


@fault("an index of another size", "WGT-SHARD-007")
def _(folder: Path, rng: random.Random) -> Said:
    _, index = sharded(folder, *pick(rng))
    index["metadata"]["total_size"] *= 2
    write_index(folder, index)


@fault("an index that misses tensors", "WGT-SHARD-004")
def _(folder: Path, rng: random.Random) -> Said:
    _, index = sharded(folder, *pick(rng))
    for name in rng.sample(sorted(index["weight_map"]), 3):
        del index["weight_map"][name]
    write_index(folder, index)


@fault("an index cut off", "WGT-SHARD-008", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    sharded(folder, *pick(rng))
    path = folder / "model.safetensors.index.json"
    text = path.read_text()
    path.write_text(text[: rng.randrange(1, len(text) - 1)])


@fault("no index", "WGT-SHARD-002")
def _(folder: Path, rng: random.Random) -> Said:
    sharded(folder, *pick(rng))
    (folder / "model.safetensors.index.json").unlink()


@fault("shards of two totals", "WGT-SHARD-006", also=["WGT-SHARD-005", "WGT-SHARD-004"])
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng)
    files, _ = sharded(folder, config, tensors, 4)
    sharded(folder, config, tensors, 3)
    for file in files[1:3]:
        file.unlink()


# Files ----------------------------------------------------------------------------------------------------


def damaged(folder: Path, rng: random.Random) -> Path:
    config, tensors = pick(rng)
    return write(folder, config, tensors, rng.choice(["model.safetensors", "model.ckpt"]))


@fault("cut off", "WGT-FILE-002", "WGT-FILE-003", times=5)
def _(folder: Path, rng: random.Random) -> Said:
    path = damaged(folder, rng)
    raw = path.read_bytes()
    path.write_bytes(raw[: rng.randrange(10, len(raw) - 1)])


@fault("empty", "WGT-FILE-001")
def _(folder: Path, rng: random.Random) -> Said:
    damaged(folder, rng).write_bytes(b"")


@fault("all zero bytes", "WGT-FILE-005")
def _(folder: Path, rng: random.Random) -> Said:
    path = damaged(folder, rng)
    path.write_bytes(bytes(path.stat().st_size))


@fault("a log-in page saved", "WGT-FILE-005", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    damaged(folder, rng).write_text(
        rng.choice(["<!DOCTYPE html><html><body>Login", '{"error":"Repository not found"}'])
    )


@fault("a pointer of Git LFS", "WGT-FILE-004")
def _(folder: Path, rng: random.Random) -> Said:
    damaged(folder, rng).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:ab12\nsize 4976698672\n")


@fault("the wrong extension", "WGT-FILE-006", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng)
    path = write(folder, config, tensors)
    return {"path": path.rename(path.with_suffix(rng.choice([".ckpt", ".bin"])))}


@fault("bytes appended", "WGT-FILE-013")
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng)
    path = write(folder, config, tensors)
    path.write_bytes(path.read_bytes() + rng.randbytes(rng.randrange(1, 5000)))


@fault(
    "a header edited by hand",
    "WGT-FILE-007",
    "WGT-FILE-008",
    "WGT-FILE-003",
    "WGT-FILE-009",
    also=["WGT-FILE-013", "WGT-SHP-001", "WGT-DTY-001", "WGT-FILE-002"],
    times=4,
)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng)
    path = write(folder, config, tensors)
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    entry = header[rng.choice([name for name in header if name != "__metadata__"])]
    change = rng.randrange(4)
    if change == 0:
        entry["shape"] = [*entry["shape"], 3]
    elif change == 1:
        entry["dtype"] = "Q4_K"
    elif change == 2:
        entry["data_offsets"] = [entry["data_offsets"][0] + 4, entry["data_offsets"][1] + 4]
    else:
        entry["shape"] = [-1, *entry["shape"][1:]]
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + raw[8 + length :])


@fault("a save interrupted", "WGT-FILE-014")
def _(folder: Path, rng: random.Random) -> Said:
    damaged(folder, rng)
    (folder / rng.choice(["model.ckpt.tmp", ".tmpAb3dX", "model.safetensors.incomplete"])).write_bytes(b"\x0a" * 40)


@fault("a link to nowhere", "WGT-FILE-011")
def _(folder: Path, rng: random.Random) -> Said:
    write(folder, HUGGINGFACE["llama"][0], {"x": np.zeros(1, "float32")}).unlink()
    (folder / "model.safetensors").symlink_to("../blobs/0123456789")


@fault("a parameter saved twice", "WGT-FILE-010")
def _(folder: Path, rng: random.Random) -> Said:
    tensors = values_of(MINDFORMERS["llama"])
    name = rng.choice(sorted(tensors))
    path = folder / "m.ckpt"
    path.write_bytes(ckpt_bytes(tensors) + ckpt_bytes({name: tensors[name]}))
    return {"path": path}


@fault("a name with control characters", "WGT-FILE-018", also=["WGT-KEY-002", "WGT-KEY-001"])
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED)
    tensors["model.\x1b[31mevil"] = np.zeros((2, 2), "float32")
    write(folder, config, tensors)


# Beside the weights ---------------------------------------------------------------------------------------


@fault("config.json cut off", "WGT-CFG-002")
def _(folder: Path, rng: random.Random) -> Said:
    write(folder, *pick(rng))
    path = folder / "config.json"
    path.write_text(path.read_text()[:40])


@fault("config.json lost", "WGT-CFG-001")
def _(folder: Path, rng: random.Random) -> Said:
    write(folder, *pick(rng))
    (folder / "config.json").unlink()


@fault("config.json without a size", "WGT-CFG-003")
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED)
    del config[rng.choice(["hidden_size", "num_attention_heads", "num_hidden_layers", "vocab_size"])]
    write(folder, config, tensors)


@fault("the tokenizer of another model", "WGT-TOK-001", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    write(folder, *pick(rng, *GATED))
    words = {f"w{number}": number for number in range(rng.choice([62, 500]))}
    if rng.random() < 0.5:
        (folder / "vocab.json").write_text(json.dumps(words))
    else:
        (folder / "tokenizer.json").write_text(
            json.dumps({"model": {"type": "BPE", "vocab": words}, "added_tokens": []})
        )


@fault("added tokens beyond the embedding", "WGT-TOK-001")
def _(folder: Path, rng: random.Random) -> Said:
    write(folder, *pick(rng, *GATED))
    added = [{"id": 61 + number, "content": f"<extra_{number}>"} for number in range(3)]
    words = {f"w{number}": number for number in range(61)}
    (folder / "tokenizer.json").write_text(
        json.dumps({"model": {"type": "BPE", "vocab": words}, "added_tokens": added})
    )


# Devices --------------------------------------------------------------------------------------------------

RANKS = 4


def ranks(folder: Path, step: str = "1_100") -> dict[int, Path]:
    """Matrices cut by rows over two devices, copied over two more; strategies beside them."""
    tensors = values_of(MINDFORMERS["llama"])
    (folder / "strategy").mkdir()
    files = {}
    for rank in range(RANKS):
        place = folder / "checkpoint" / f"rank_{rank}"
        place.mkdir(parents=True)
        mine, cuts = {}, {}
        for name, array in tensors.items():
            cut = array.ndim == 2 and array.shape[0] % 2 == 0
            mine[name] = np.split(array, 2)[rank % 2] if cut else array
            cuts[name] = ((2, 2), [0, -1] if cut else [-1] * array.ndim, 0)
        files[rank] = place / f"llama_rank_{rank}-{step}.ckpt"
        files[rank].write_bytes(ckpt_bytes(mine))
        (folder / "strategy" / f"ckpt_strategy_rank_{rank}.ckpt").write_bytes(strategy_bytes(0, cuts))
    return files


@fault("a rank of four lost", "WGT-RANK-001", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    files = ranks(folder)
    shutil.rmtree(files[rng.choice([0, 1, 2])].parent)
    return {"path": folder / "checkpoint"}


@fault("the last ranks lost", "WGT-RANK-001", "WGT-RANK-006", "WGT-RANK-011")
def _(folder: Path, rng: random.Random) -> Said:
    files = ranks(folder)
    for rank in (2, 3):
        shutil.rmtree(files[rank].parent)
    return {"path": folder / "checkpoint"}


@fault("a rank without its file", "WGT-RANK-002")
def _(folder: Path, rng: random.Random) -> Said:
    ranks(folder)[rng.randrange(RANKS)].unlink()
    return {"path": folder / "checkpoint"}


@fault("a rank one save behind", "WGT-RANK-003")
def _(folder: Path, rng: random.Random) -> Said:
    file = ranks(folder)[rng.randrange(RANKS)]
    file.rename(file.with_name(file.name.replace("1_100", "1_50")))
    return {"path": folder / "checkpoint"}


@fault("strategies of another run", "WGT-RANK-006", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    files = ranks(folder)
    other = rng.choice(["names", "cuts"])
    for rank in files:
        cuts = {}
        for name, array in values_of(MINDFORMERS["llama" if other == "cuts" else "bloom"]).items():
            cuts[name] = ((8, 1), [1, -1] if array.ndim == 2 else [-1], 0)
        (folder / "strategy" / f"ckpt_strategy_rank_{rank}.ckpt").write_bytes(strategy_bytes(0, cuts))
    return {"path": folder / "checkpoint"}


@fault("no strategies", "WGT-RANK-005")
def _(folder: Path, rng: random.Random) -> Said:
    ranks(folder)
    shutil.rmtree(folder / "strategy")
    return {"path": folder / "checkpoint"}


@fault("one rank's file copied to another", "WGT-RANK-012", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    files = ranks(folder)
    files[1].write_bytes(files[0].read_bytes())
    return {"path": folder / "checkpoint", "values": True}


@fault("a torn rank", "WGT-FILE-002", "WGT-FILE-003")
def _(folder: Path, rng: random.Random) -> Said:
    file = ranks(folder)[rng.randrange(RANKS)]
    raw = file.read_bytes()
    file.write_bytes(raw[: rng.randrange(100, len(raw) - 1)])
    return {"path": folder / "checkpoint"}


# Values ---------------------------------------------------------------------------------------------------


def changed(folder: Path, rng: random.Random, change: Any) -> Said:
    config, tensors = pick(rng)
    name = rng.choice(matrices(tensors, rng.randrange(1, LAYERS)))
    tensors[name] = tensors[name].copy()
    change(tensors, name)
    write(folder, config, tensors)
    return {"values": True}


@fault("one NaN", "WGT-VAL-001", times=3)
def _(folder: Path, rng: random.Random) -> Said:
    return changed(folder, rng, lambda t, n: t[n].reshape(-1).__setitem__(rng.randrange(t[n].size), np.nan))


@fault("one infinity", "WGT-VAL-002", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    return changed(folder, rng, lambda t, n: t[n].reshape(-1).__setitem__(rng.randrange(t[n].size), np.inf))


@fault("a matrix never written", "WGT-VAL-003", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    return changed(folder, rng, lambda t, n: t[n].fill(0))


@fault("rows never written", "WGT-VAL-004", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    return changed(folder, rng, lambda t, n: t[n][: t[n].shape[0] // 3].fill(0))


@fault("a layer copied over another", "WGT-VAL-007", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED, "chatglm2", "bloom")
    a, b = rng.sample(range(1, LAYERS), 2)
    for name in layered(tensors, a):
        tensors[name] = tensors[name.replace(f".{a}.", f".{b}.", 1)].copy()
    write(folder, config, tensors)
    return {"values": True}


@fault("a scale applied twice", "WGT-VAL-010", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    return changed(folder, rng, lambda t, n: t[n].__imul__(256))


@fault("a tied head with values of its own", "WGT-VAL-011", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED)
    config["tie_word_embeddings"] = True
    write(folder, config, tensors)
    return {"values": True}


@fault("weights saved before training", "WGT-VAL-009")
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED)
    wild = np.random.default_rng(0)
    fresh = {
        n: np.ones_like(a) if "norm" in n else wild.normal(0, 0.02, a.shape).astype("float32")
        for n, a in tensors.items()
    }
    write(folder, config, fresh)
    return {"values": True}


# Healthy --------------------------------------------------------------------------------------------------


def _plain(family: str, form: str) -> Any:
    def build(folder: Path, rng: random.Random) -> Said:
        write(folder, HUGGINGFACE[family][0], values_of(HUGGINGFACE[family][1]), form)
        return {"values": True}

    return build


for _family in HUGGINGFACE:
    healthy(f"{_family} of Hugging Face")(_plain(_family, "model.safetensors"))


def _legacy(family: str) -> Any:
    def build(folder: Path, rng: random.Random) -> Said:
        write(folder, None, values_of(MINDFORMERS[family]), rng.choice(["m.ckpt", "m.safetensors"]))
        return {"values": True}

    return build


for _family in MINDFORMERS:
    healthy(f"{_family} of MindFormers")(_legacy(_family))


def _core(family: str) -> Any:
    def build(folder: Path, rng: random.Random) -> Said:
        prefix = rng.choice(["", "model."])
        tensors = values_of(MCORE[family])
        write(folder, None, {prefix + n: a for n, a in tensors.items()}, rng.choice(["m.ckpt", "m.safetensors"]))
        return {"values": True}

    return build


for _family in MCORE:
    healthy(f"{_family} of mcore")(_core(_family))


@healthy("shards with an index", times=4)
def _(folder: Path, rng: random.Random) -> Said:
    sharded(folder, *pick(rng), count=rng.choice([2, 3, 5]))


@healthy("a tied model without a head", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED)
    config["tie_word_embeddings"] = True
    tensors.pop("lm_head.weight")
    write(folder, config, tensors)


@healthy("a tied model with its head stored too")
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED)
    config["tie_word_embeddings"] = True
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].copy()
    write(folder, config, tensors)
    return {"values": True}


@healthy("norms in float32 beside matrices in float16", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED, "chatglm2")
    write(folder, config, {n: a.astype("float16") if a.ndim == 2 else a for n, a in tensors.items()})
    return {"values": True}


@healthy("rotary tables beside the weights")
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, "llama")
    for layer in range(LAYERS):
        tensors[f"model.layers.{layer}.self_attn.rotary_emb.inv_freq"] = np.ones(4, "float32")
    write(folder, config, tensors)


@healthy("optimizer states and counters beside the weights", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    tensors = values_of(MINDFORMERS["llama"])
    for kind in ("adam_m", "adam_v"):
        tensors.update({f"{kind}.{n}": np.zeros_like(a) for n, a in values_of(MINDFORMERS["llama"]).items()})
    for name in ("global_step", "epoch_num", "step_num"):
        tensors[name] = np.array([7], "int32")
    tensors["loss_scale"] = np.array([65536], "float32")
    write(folder, None, tensors, rng.choice(["m.ckpt", "m.safetensors"]))
    return {"values": True}


@healthy("an adapter merged beside its base")
def _(folder: Path, rng: random.Random) -> Said:
    tensors = values_of(MINDFORMERS["llama"])
    for layer in range(LAYERS):
        tensors[f"model.layers.{layer}.attention.wq.mindpet_delta_lora_a"] = np.ones((4, 32), "float32")
        tensors[f"model.layers.{layer}.attention.wq.mindpet_delta_lora_b"] = np.zeros((32, 4), "float32")
    write(folder, None, tensors, "m.ckpt")
    return {"values": True}


@healthy("a padded vocabulary that the config knows", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, *GATED)
    config["vocab_size"] = 64
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        tensors[name] = np.concatenate([tensors[name], np.zeros((3, 32), "float32")])
    write(folder, config, tensors)
    words = {f"w{number}": number for number in range(61)}
    (folder / "vocab.json").write_text(json.dumps(words))
    return {"values": True}


@healthy("four ranks with strategies", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    ranks(folder)
    return {"path": folder / "checkpoint", "values": rng.random() < 0.5}


@healthy("one rank that holds all")
def _(folder: Path, rng: random.Random) -> Said:
    write(folder / "rank_0", None, values_of(MINDFORMERS["qwen2"]), "qwen_rank_0-1_100.ckpt")


@healthy("weights for a training config", times=3)
def _(folder: Path, rng: random.Random) -> Said:
    write(folder, None, values_of(MINDFORMERS["llama"]), rng.choice(["m.ckpt", "m.safetensors"]))
    return {"against": legacy_yaml(folder)}


@healthy("a block-quantised model's scales in another type")
def _(folder: Path, rng: random.Random) -> Said:
    config, tensors = pick(rng, "deepseek_v3")
    write(
        folder,
        config,
        {n: a if n.endswith(("_bias", "gate.weight")) else a.astype("float16") for n, a in tensors.items()},
    )
    return {"values": True}


@healthy("several checkpoints of one run", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    for step in (50, 100, 150):
        write(folder, None, values_of(MINDFORMERS["llama"], step), f"llama-1_{step}.ckpt")


@healthy("a file of one shard given by itself")
def _(folder: Path, rng: random.Random) -> Said:
    files, _ = sharded(folder, *pick(rng))
    return {"path": rng.choice(files)}
