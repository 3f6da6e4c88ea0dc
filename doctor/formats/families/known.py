"""Published models by their sizes, so that a checkpoint can be called by its name.

From each model's public config.json (or params.json). Columns: name, family, layers, hidden, heads, KV heads,
head size, feed-forward width (for experts: of one), vocabulary, tied head.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Optional


class Known(NamedTuple):
    """One published size."""

    name: str
    family: str
    layers: int
    hidden: int
    heads: int
    groups: int
    head: int
    feed: int
    vocabulary: int
    tied: bool


def _rows(family: str, tied: bool, *lines: str) -> tuple[Known, ...]:
    found = []
    for line in lines:
        name, *numbers = line.split()
        layers, hidden, heads, groups, head, feed, vocabulary = map(int, numbers)
        found.append(Known(name.replace("_", " "), family, layers, hidden, heads, groups, head, feed, vocabulary, tied))
    return tuple(found)


KNOWN: tuple[Known, ...] = (
    *_rows(
        "llama",
        False,
        "LLaMA-7B/LLaMA-2-7B 32 4096 32 32 128 11008 32000",
        "LLaMA-13B/LLaMA-2-13B 40 5120 40 40 128 13824 32000",
        "LLaMA-33B 60 6656 52 52 128 17920 32000",
        "LLaMA-65B 80 8192 64 64 128 22016 32000",
        "LLaMA-2-70B 80 8192 64 8 128 28672 32000",
        "CodeLlama-7B 32 4096 32 32 128 11008 32016",
        "CodeLlama-13B 40 5120 40 40 128 13824 32016",
        "CodeLlama-34B 48 8192 64 8 128 22016 32000",
        "LLaMA-3-8B 32 4096 32 8 128 14336 128256",
        "LLaMA-3-70B 80 8192 64 8 128 28672 128256",
        "LLaMA-3.1-405B 126 16384 128 8 128 53248 128256",
        "TinyLlama-1.1B 22 2048 32 4 64 5632 32000",
        "Mistral-7B 32 4096 32 8 128 14336 32000",
        "Mistral-7B-v0.3 32 4096 32 8 128 14336 32768",
        "Yi-6B 32 4096 32 4 128 11008 64000",
        "Yi-34B 60 7168 56 8 128 20480 64000",
        "DeepSeek-7B 30 4096 32 32 128 11008 102400",
        "DeepSeek-67B 95 8192 64 8 128 22016 102400",
    ),
    *_rows(
        "llama",
        True,
        "LLaMA-3.2-1B 16 2048 32 8 64 8192 128256",
        "LLaMA-3.2-3B 28 3072 24 8 128 8192 128256",
    ),
    *_rows(
        "qwen",
        False,
        "Qwen-1.8B 24 2048 16 16 128 5504 151936",
        "Qwen-7B 32 4096 32 32 128 11008 151936",
        "Qwen-14B 40 5120 40 40 128 13696 152064",
        "Qwen-72B 80 8192 64 64 128 24576 152064",
    ),
    *_rows(
        "qwen2",
        False,
        "Qwen1.5-1.8B 24 2048 16 16 128 5504 151936",
        "Qwen1.5-4B 40 2560 20 20 128 6912 151936",
        "Qwen1.5-7B 32 4096 32 32 128 11008 151936",
        "Qwen1.5-14B 40 5120 40 40 128 13696 152064",
        "Qwen1.5-32B 64 5120 40 8 128 27392 152064",
        "Qwen1.5-72B 80 8192 64 64 128 24576 152064",
        "Qwen1.5-110B 80 8192 64 8 128 49152 152064",
        "Qwen2-7B/Qwen2.5-7B 28 3584 28 4 128 18944 152064",
        "Qwen2-72B/Qwen2.5-72B 80 8192 64 8 128 29568 152064",
        "Qwen2.5-14B 48 5120 40 8 128 13824 152064",
        "Qwen2.5-32B 64 5120 40 8 128 27648 152064",
    ),
    *_rows(
        "qwen2",
        True,
        "Qwen1.5-0.5B 24 1024 16 16 64 2816 151936",
        "Qwen2-0.5B/Qwen2.5-0.5B 24 896 14 2 64 4864 151936",
        "Qwen2-1.5B/Qwen2.5-1.5B 28 1536 12 2 128 8960 151936",
        "Qwen2.5-3B 36 2048 16 2 128 11008 151936",
    ),
    *_rows(
        "qwen3",
        True,
        "Qwen3-0.6B 28 1024 16 8 128 3072 151936",
        "Qwen3-1.7B 28 2048 16 8 128 6144 151936",
        "Qwen3-4B 36 2560 32 8 128 9728 151936",
    ),
    *_rows(
        "qwen3",
        False,
        "Qwen3-8B 36 4096 32 8 128 12288 151936",
        "Qwen3-14B 40 5120 40 8 128 17408 151936",
        "Qwen3-32B 64 5120 64 8 128 25600 151936",
    ),
    *_rows(
        "qwen3_moe",
        False,
        "Qwen3-30B-A3B 48 2048 32 4 128 768 151936",
        "Qwen3-235B-A22B 94 4096 64 4 128 1536 151936",
    ),
    *_rows(
        "chatglm2",
        False,
        "ChatGLM2-6B/ChatGLM3-6B 28 4096 32 2 128 13696 65024",
        "GLM-4-9B 40 4096 32 2 128 13696 151552",
    ),
    *_rows("glm", False, "GLM-4-9B 40 4096 32 2 128 13696 151552"),
    *_rows(
        "glm4",
        False,
        "GLM-4-9B-0414 40 4096 32 2 128 13696 151552",
        "GLM-4-32B-0414 61 6144 48 2 128 23040 151552",
        "GLM-4-32B-0414 61 6144 48 8 128 23040 151552",
    ),
    *_rows(
        "glm4_moe",
        False,
        "GLM-4.5-Air 46 4096 96 8 128 1408 151552",
        "GLM-4.5 92 5120 96 8 128 1536 151552",
    ),
    *_rows("chatglm", False, "ChatGLM-6B 28 4096 32 32 128 16384 130528"),
    *_rows(
        "bloom",
        True,
        "Bloom-560M 24 1024 16 16 64 4096 250880",
        "Bloom-1B1 24 1536 16 16 96 6144 250880",
        "Bloom-1B7 24 2048 16 16 128 8192 250880",
        "Bloom-3B 30 2560 32 32 80 10240 250880",
        "Bloom-7B1 30 4096 32 32 128 16384 250880",
        "Bloom-176B 70 14336 112 112 128 57344 250880",
    ),
    *_rows(
        "gpt2",
        True,
        "GPT-2-124M 12 768 12 12 64 3072 50257",
        "GPT-2-355M 24 1024 16 16 64 4096 50257",
        "GPT-2-774M 36 1280 20 20 64 5120 50257",
        "GPT-2-1.5B 48 1600 25 25 64 6400 50257",
        "GPT-2-13B 40 5120 40 40 128 20480 50257",
    ),
    *_rows("deepseek_v3", False, "DeepSeek-V3-671B 61 7168 128 128 192 2048 129280"),
)


def lookup(family: str, layers: int, symbols: Mapping[str, int]) -> Optional[Known]:
    """The published size with these layers, hidden and feed-forward sizes; the vocabulary and the KV heads decide
    between several. None when there is none."""
    feed = symbols.get("M", symbols.get("F"))
    found = [
        row
        for row in KNOWN
        if row.family == family and row.layers == layers and row.hidden == symbols.get("H") and row.feed == feed
    ]
    rows = symbols.get("K")
    exact = [row for row in found if rows in {None, row.groups * row.head}]
    by_vocabulary = [row for row in exact or found if row.vocabulary == symbols.get("V")]
    for choice in (by_vocabulary, exact, found):
        if choice:
            return choice[0]
    return None


def nearest(family: str, symbols: Mapping[str, int]) -> Optional[Known]:
    """The published size with this hidden size and feed-forward width, whatever its layers: a cut-down model."""
    feed = symbols.get("M", symbols.get("F"))
    for row in KNOWN:
        if row.family == family and row.hidden == symbols.get("H") and row.feed == feed:
            return row
    return None
