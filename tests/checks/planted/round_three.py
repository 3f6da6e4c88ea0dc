"""Planted faults of a third round, written after the misses of the first two were mended and before this was run."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from planting import (
    LAYERS,
    MINDFORMERS,
    Collection,
    is_in_layer,
    legacy_yaml,
    matrices,
    pick,
    sharded,
    values_of,
    write,
)
from round_one_data import config, dump, record, seed
from round_one_weights import GATED, ranks
from round_two import iteration

from doctor.selftest.datafiles import LEGACY, LM, MCORE, lm_rows, write_megatron, write_mindrecord

Said = Any
WEIGHTS, DATA = Collection(), Collection()
fault, healthy = WEIGHTS.fault, WEIGHTS.healthy
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:ab12\nsize 4976698672\n"


@fault("heads wrong in the config", "WGT-SHP-005", "WGT-SHP-001", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng, "llama", "qwen2")
    fields["num_attention_heads"] = rng.choice([2, 8])
    write(folder, fields, tensors)


@fault("head size wrong in the config", "WGT-SHP-001", "WGT-SHP-002", "WGT-SHP-005")
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng, "qwen3")
    fields["head_dim"] = 8
    write(folder, fields, tensors)


@fault("a parameter without elements", "WGT-SHP-001")
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng, *GATED)
    tensors[rng.choice(matrices(tensors, 2))] = np.zeros((0, 32), "float32")
    write(folder, fields, tensors)


@fault("a norm with a dimension too many", "WGT-SHP-001", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng, *GATED, "chatglm2")
    name = rng.choice([n for n, a in tensors.items() if a.ndim == 1 and "norm" in n and is_in_layer(n)])
    tensors[name] = tensors[name].reshape(rng.choice([(1, -1), (-1, 1)]))
    write(folder, fields, tensors)


@fault("a router transposed", "WGT-SHP-007", "WGT-SHP-001")
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng, "deepseek_v3")
    tensors["model.layers.3.mlp.gate.weight"] = tensors["model.layers.3.mlp.gate.weight"].T
    write(folder, fields, tensors)


@fault("one shard is a pointer of Git LFS", "WGT-FILE-004")
def _(folder: Path, rng: random.Random) -> Said:
    files, _ = sharded(folder, *pick(rng))
    rng.choice(files).write_text(POINTER)


@fault("all shards are pointers of Git LFS", "WGT-FILE-004")
def _(folder: Path, rng: random.Random) -> Said:
    files, _ = sharded(folder, *pick(rng))
    for file in files:
        file.write_text(POINTER)


@fault("one shard is empty", "WGT-FILE-001")
def _(folder: Path, rng: random.Random) -> Said:
    files, _ = sharded(folder, *pick(rng))
    rng.choice(files).write_bytes(b"")


@fault("one shard is cut off", "WGT-FILE-002", "WGT-FILE-003", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    files, _ = sharded(folder, *pick(rng))
    file = rng.choice(files)
    raw = file.read_bytes()
    file.write_bytes(raw[: rng.randrange(20, len(raw) - 1)])


@fault("the tokenizer is a pointer of Git LFS", "WGT-TOK-001", "WGT-TOK-002", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    write(folder, *pick(rng, *GATED))
    (folder / rng.choice(["tokenizer.json", "tokenizer.model"])).write_text(POINTER)


@fault("the tokenizer is cut off", "WGT-TOK-001", "WGT-TOK-002")
def _(folder: Path, rng: random.Random) -> Said:
    write(folder, *pick(rng, *GATED))
    text = json.dumps({"model": {"type": "BPE", "vocab": {f"w{n}": n for n in range(61)}}, "added_tokens": []})
    (folder / "tokenizer.json").write_text(text[: rng.randrange(20, len(text) - 1)])


@fault("a web page in place of the config", "WGT-CFG-002")
def _(folder: Path, rng: random.Random) -> Said:
    write(folder, *pick(rng))
    (folder / "config.json").write_text("<!DOCTYPE html><html>404</html>")


@fault("a wrapper's prefix on parameters and states", "WGT-KEY-005")
def _(folder: Path, rng: random.Random) -> Said:
    tensors = values_of(MINDFORMERS["llama"])
    named = {f"network.{n}": a for n, a in tensors.items()}
    named.update({f"adam_m.network.{n}": a for n, a in tensors.items()})
    write(folder, None, named, "m.ckpt")


@fault("names of two layouts in one file", "WGT-KEY-002", "WGT-KEY-006")
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng, "llama")
    write(folder, fields, {**tensors, **values_of(MINDFORMERS["llama"])})


@fault("layers of two types", "WGT-DTY-001", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng)
    cut = rng.randrange(1, LAYERS)
    write(
        folder,
        fields,
        {n: a.astype("float16") if any(is_in_layer(n, i) for i in range(cut)) else a for n, a in tensors.items()},
    )


@fault("rank 0 lost", "WGT-RANK-001")
def _(folder: Path, rng: random.Random) -> Said:
    shutil.rmtree(ranks(folder)[0].parent)
    return {"path": folder / "checkpoint"}


@fault("a record cut off", "WGT-RANK-010")
def _(folder: Path, rng: random.Random) -> Said:
    (ranks(folder)[2].parent / "meta.json").write_text('{"last_epoch": 1, "las')
    return {"path": folder / "checkpoint"}


@fault("the tracker lost", "WGT-ITER-001")
def _(folder: Path, rng: random.Random) -> Said:
    iteration(folder)
    (folder / "latest_checkpointed_iteration.txt").unlink()


@fault("metadata cut off", "WGT-ITER-002", also=["WGT-SHP-001", "WGT-KEY-001"])
def _(folder: Path, rng: random.Random) -> Said:
    path = iteration(folder) / "metadata.json"
    text = path.read_text()
    path.write_text(text[: rng.randrange(10, len(text) - 1)])


@fault("NaN in the embedding or the head", "WGT-VAL-001", times=2)
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng, *GATED)
    tensors[rng.choice(["model.embed_tokens.weight", "lm_head.weight"])][rng.randrange(61), 3] = np.nan
    write(folder, fields, tensors)
    return {"values": True}


@fault("a head of zeros", "WGT-VAL-003")
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng, *GATED)
    tensors["lm_head.weight"][:] = 0
    write(folder, fields, tensors)
    return {"values": True}


@fault("a slice of tensor parallelism in a whole", "WGT-VAL-004")
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng, *GATED)
    for layer in range(LAYERS):
        tensors[f"model.layers.{layer}.self_attn.q_proj.weight"][16:] = 0
    write(folder, fields, tensors)
    return {"values": True}


@fault("a layer of the training config too few", "WGT-KEY-004")
def _(folder: Path, rng: random.Random) -> Said:
    write(folder, None, values_of(MINDFORMERS["llama"]), "m.safetensors")
    return {"against": legacy_yaml(folder, layers=LAYERS - 1)}


@healthy("a folder with everything people keep beside")
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng, *GATED)
    write(folder, {**fields, "torch_dtype": "float32", "rope_scaling": None, "architectures": ["X"]}, tensors)
    for name in ("README.md", "LICENSE", ".gitattributes", "generation_config.json", "tokenizer_config.json"):
        (folder / name).write_text("{}")
    words = {f"w{n}": n for n in range(61)}
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"type": "BPE", "vocab": words}, "added_tokens": []}))
    (folder / "training_args.bin").write_bytes(b"PK\x03\x04" + bytes(60))
    return {"values": True}


@healthy("a tokenizer smaller than the embedding")
def _(folder: Path, rng: random.Random) -> Said:
    write(folder, *pick(rng, *GATED))
    (folder / "vocab.json").write_text(json.dumps({f"w{n}": n for n in range(50)}))


@healthy("one checkpoint of MindSpore beside its graph")
def _(folder: Path, rng: random.Random) -> Said:
    write(folder, None, values_of(MINDFORMERS["chatglm2"]), "glm2-1_100.ckpt")
    (folder / "glm2-graph.meta").write_bytes(b"\x0a\x03abc" * 40)
    return {"values": True}


@healthy("float32 norms and routers in a float16 model of experts")
def _(folder: Path, rng: random.Random) -> Said:
    fields, tensors = pick(rng, "deepseek_v3")
    write(
        folder, fields, {n: a if "norm" in n or ".mlp.gate." in n else a.astype("float16") for n, a in tensors.items()}
    )
    return {"values": True}


data_fault, data_healthy = DATA.fault, DATA.healthy


@data_fault("a token that is the vocabulary's size", "DAT-TOK-001")
def _(folder: Path, rng: random.Random) -> Said:
    rows = lm_rows(length=32, vocabulary=490, seed=seed(rng))
    rows[rng.randrange(len(rows))]["input_ids"][5] = 500
    return {"path": record(folder, rows), "against": config(folder, MCORE)}


@data_fault("shifted samples of the bare length for a model that cuts", "DAT-LBL-002", "DAT-SEQ-001")
def _(folder: Path, rng: random.Random) -> Said:
    return {"path": record(folder, lm_rows(length=32, offset=1, seed=seed(rng))), "against": config(folder, LEGACY)}


@data_fault("one sample over and over", "DAT-SEQ-005")
def _(folder: Path, rng: random.Random) -> Said:
    return {"path": record(folder, lm_rows(count=1, length=32, seed=seed(rng)) * 40), "against": config(folder, MCORE)}


@data_fault("a tenth of the lines twice", "DAT-SEQ-005")
def _(folder: Path, rng: random.Random) -> Said:
    rows = [{"text": f"story number {n} of many"} for n in range(100)]
    return dump(folder / "a.jsonl", rows + rows[:10])


@data_fault("answers that are numbers in some lines", "DAT-COL-003", "DAT-COL-005")
def _(folder: Path, rng: random.Random) -> Said:
    rows = [{"instruction": f"add {n}", "output": f"{n}" if n % 10 else n} for n in range(100)]
    return dump(folder / "a.jsonl", rows)


@data_fault("zero bytes in plain text", "DAT-FILE-003", "DAT-FILE-007")
def _(folder: Path, rng: random.Random) -> Said:
    path = folder / "a.txt"
    path.write_bytes(b"some words\n" * 100 + bytes(500) + b"more words\n" * 50)
    return {"path": path}


@data_fault("tokens of no bytes", "DAT-FILE-001", "DAT-FILE-002")
def _(folder: Path, rng: random.Random) -> Said:
    stem = write_megatron(folder / "c", [np.arange(30) + n for n in range(20)])
    stem.with_suffix(".bin").write_bytes(b"")
    return {"path": stem.with_suffix(".bin")}


@data_fault("an index of no bytes", "DAT-FILE-001", "DAT-FILE-002", "DAT-FILE-003")
def _(folder: Path, rng: random.Random) -> Said:
    stem = write_megatron(folder / "c", [np.arange(30) + n for n in range(20)])
    stem.with_suffix(".idx").write_bytes(b"")
    return {"path": stem.with_suffix(".idx")}


@data_fault("two data sets in one folder", "DAT-FILE-011", "DAT-COL-003", "DAT-SEQ-001", "DAT-SEQ-002", "DAT-COL-001")
def _(folder: Path, rng: random.Random) -> Said:
    write_mindrecord(folder / "data" / "a.mindrecord", LM, lm_rows(length=32, seed=1))
    other = {"tokens": {"type": "int32", "shape": [-1]}}
    rows = [{"tokens": row["input_ids"]} for row in lm_rows(length=48, seed=2)]
    write_mindrecord(folder / "data" / "b.mindrecord", other, rows)
    return {"path": folder / "data", "against": config(folder, MCORE)}


@data_fault("too few rows for sixty-four cards", "DAT-ROW-001")
def _(folder: Path, rng: random.Random) -> Said:
    path = record(folder, lm_rows(count=100, length=32, seed=seed(rng)))
    return {"path": path, "against": config(folder, MCORE, batch=2, data=64)}


@data_healthy("labels ignored by -1")
def _(folder: Path, rng: random.Random) -> Said:
    rows = lm_rows(length=32, seed=seed(rng))
    for row in rows:
        row["labels"][row["labels"] == -100] = -1
        row["labels"][:6] = -1
    return {"path": record(folder, rows), "against": config(folder, MCORE)}


@data_healthy("classes for labels")
def _(folder: Path, rng: random.Random) -> Said:
    rows = [{"text": f"film number {n} was fine", "label": n % 2} for n in range(80)]
    return dump(folder / "a.jsonl", rows)


@data_healthy("preferences")
def _(folder: Path, rng: random.Random) -> Said:
    rows = [{"prompt": f"q {n}", "chosen": f"good {n}", "rejected": f"bad {n}"} for n in range(80)]
    return dump(folder / "a.jsonl", rows)


@data_healthy("code with empty lines in plain text")
def _(folder: Path, rng: random.Random) -> Said:
    path = folder / "a.txt"
    path.write_text("".join(f"def f{n}():\n    return {n}\n\n\n" for n in range(60)))
    return {"path": path}
