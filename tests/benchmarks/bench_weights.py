"""Weights: how long headers of 140 GB take, how fast values are scanned, and how fast a conversion runs (goal S7).

    python -m tests.benchmarks.bench_weights [--folder DIR] [--scan-mb 1024]

The 140 GB are sparse files: whole headers of LLaMA-2-70B in 15 shards, tensors that take no room on disk. The
values are real numbers, written once, and read back from the page cache; CPU seconds count user and system time.
"""

from __future__ import annotations

import argparse
import json
import resource
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LAYERS, HIDDEN, FEED, VOCABULARY, KEY = 80, 8192, 28672, 32000, 1024
SHARDS = 15


def shapes() -> dict[str, list[int]]:
    found = {"model.embed_tokens.weight": [VOCABULARY, HIDDEN]}
    for layer in range(LAYERS):
        p = f"model.layers.{layer}."
        found |= {
            p + "self_attn.q_proj.weight": [HIDDEN, HIDDEN],
            p + "self_attn.k_proj.weight": [KEY, HIDDEN],
            p + "self_attn.v_proj.weight": [KEY, HIDDEN],
            p + "self_attn.o_proj.weight": [HIDDEN, HIDDEN],
            p + "mlp.gate_proj.weight": [FEED, HIDDEN],
            p + "mlp.up_proj.weight": [FEED, HIDDEN],
            p + "mlp.down_proj.weight": [HIDDEN, FEED],
            p + "input_layernorm.weight": [HIDDEN],
            p + "post_attention_layernorm.weight": [HIDDEN],
        }
    return {**found, "model.norm.weight": [HIDDEN], "lm_head.weight": [VOCABULARY, HIDDEN]}


def sparse_model(folder: Path) -> int:
    """Writes the shards, the index and config.json; returns the bytes they pretend to hold."""
    table = shapes()
    names = list(table)
    per = -(-len(names) // SHARDS)
    index, total = {}, 0
    for shard in range(SHARDS):
        file = f"model-{shard + 1:05d}-of-{SHARDS:05d}.safetensors"
        header, at = {}, 0
        for name in names[shard * per : (shard + 1) * per]:
            size = 2
            for length in table[name]:
                size *= length
            header[name] = {"dtype": "BF16", "shape": table[name], "data_offsets": [at, at + size]}
            at += size
            index[name] = file
        raw = json.dumps(header).encode()
        with (folder / file).open("wb") as out:
            out.write(struct.pack("<Q", len(raw)) + raw)
            out.truncate(8 + len(raw) + at)
        total += at
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": total}, "weight_map": index})
    )
    (folder / "config.json").write_text(
        json.dumps(
            {
                "model_type": "llama",
                "vocab_size": VOCABULARY,
                "hidden_size": HIDDEN,
                "num_hidden_layers": LAYERS,
                "intermediate_size": FEED,
                "num_attention_heads": 64,
                "num_key_value_heads": 8,
                "tie_word_embeddings": False,
            }
        )
    )
    return total


def dense_file(path: Path, megabytes: int, dtype: str) -> int:
    """A safetensors file of normal numbers; returns its bytes."""
    import numpy as np

    rng = np.random.default_rng(0)
    rows = 4096
    block = rng.standard_normal((rows, 4096), dtype=np.float32) * np.float32(0.02)
    if dtype == "BF16":
        raw = (block.view(np.uint32) >> 16).astype(np.uint16).tobytes()
    else:
        raw = block.astype({"F16": "float16", "F32": "float32"}[dtype]).tobytes()
    count = max(1, megabytes * 1_000_000 // len(raw))
    header = {
        f"model.layers.{n}.w": {
            "dtype": dtype,
            "shape": [rows, 4096],
            "data_offsets": [n * len(raw), (n + 1) * len(raw)],
        }
        for n in range(count)
    }
    text = json.dumps(header).encode()
    with path.open("wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for _ in range(count):
            out.write(raw)
    return count * len(raw)


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def headers(folder: Path) -> None:
    from doctor.formats.recognise import recognise
    from doctor.formats.weightset import open_set

    total = sparse_model(folder)
    walls, cpus = [], []
    for _ in range(3):
        wall, used = time.perf_counter(), cpu()
        found = open_set(folder)
        model = recognise(found.tensors)
        walls.append(time.perf_counter() - wall)
        cpus.append(cpu() - used)
    assert model is not None and model.known is not None
    print(f"headers of {total / 1e9:.0f} GB in {SHARDS} shards: {min(walls) * 1e3:.0f} ms, {min(cpus) * 1e3:.0f} ms CPU "
          f"({len(found.tensors)} tensors, {model.known.name})")  # fmt: skip
    before, wall = children(), time.perf_counter()
    subprocess.run([sys.executable, "-m", "doctor", "check", str(folder)], check=True, stdout=subprocess.DEVNULL)
    print(
        f"doctor check of them: {time.perf_counter() - wall:.2f} s, {children() - before:.2f} CPU s, the program included"
    )


def values(folder: Path, megabytes: int) -> None:
    from doctor.formats.read import read_file
    from doctor.formats.values import scan

    for dtype in ("BF16", "F16", "F32"):
        path = folder / f"{dtype}.safetensors"
        size = dense_file(path, megabytes, dtype)
        file = read_file(path)
        list(scan(path, file.tensors[:1]))
        used = cpu()
        list(scan(path, file.tensors))
        print(f"values of {dtype}: {size / (cpu() - used) / 1e9:.2f} GB per CPU second")
        path.unlink()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of this process, the making of the files included: {peak:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--scan-mb", type=int, default=512)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as place:
        (Path(place) / "sparse").mkdir()
        headers(Path(place) / "sparse")
        values(Path(place), args.scan_mb)


if __name__ == "__main__":
    main()
