"""Which files of a folder make up the weights, by their names alone, in the order in which loaders look.

Hugging Face: ``model.safetensors``, its index, ``pytorch_model.bin``, its index. Shards are numbered
``NAME-00001-of-00003.EXT``. Meta: ``consolidated.00.pth`` and on. MindSpore: ``PREFIX-EPOCH_STEP.ckpt``,
``NAME-model-0000000-0000008.safetensors``, and anything that ``param_name_map.json`` lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Optional

SHARD = re.compile(
    r"(?P<stem>.+?)[-_](?P<number>\d{3,})-of-(?P<total>\d{3,})\."
    r"(?P<ext>safetensors|bin|ckpt|pth|pt|parquet|arrow)"
)
MINDSPORE_SHARD = re.compile(r"(?P<stem>(?:.+-)?model)-(?P<number>\d{7})-(?P<total>\d{7})\.(?P<ext>safetensors)")
META_SHARD = re.compile(r"consolidated\.(?P<number>\d{2})\.pth")
STEP = re.compile(
    r"(?P<prefix>.+?)(?:_rank_(?P<rank>\d+))?(?:_(?P<rerun>\d+))?-(?P<epoch>\d+)_(?P<step>\d+)\.(?P<ext>ckpt|safetensors)"
)
INDEX_ORDER = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
SINGLE_ORDER = ("model.safetensors", "pytorch_model.bin")
#: Tables of data sets are counted from 0.
_TABLES = frozenset({"parquet", "arrow"})
#: Files that training leaves beside the weights and that hold no model.
BESIDE = re.compile(
    r"training_args\.bin|optimizer\.(pt|bin|ckpt|safetensors)|scheduler\.(pt|bin)|rng_state.*\.pth|random_states.*"
    r"|scaler\.pt|hyper_param\.safetensors|.*strategy.*\.ckpt|(?:.+-)?opt-\d{7}-\d{7}\.safetensors|zero_pp_rank_.*"
    r"|.*optim_states\.pt"
)
#: What an interrupted save or download leaves behind.
LEFTOVER = re.compile(
    r"(\.tmp[A-Za-z0-9_]{4,}|.*\.(tmp|part|partial|incomplete|aria2|crdownload|downloading|filepart|lock))",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Shards:
    """Files numbered ``n of total``. `missing` are the names that the numbering calls for."""

    stem: str
    ext: str
    total: int
    names: tuple[str, ...]
    missing: tuple[str, ...]


def shards(names: Iterable[str]) -> tuple[Shards, ...]:
    """Groups numbered files by stem, extension and total; numbering starts at 1, or at 0 where a 0 is there."""
    groups: dict[tuple[str, str, str, str], dict[int, str]] = {}
    for name in sorted(names):
        match = SHARD.fullmatch(name) or MINDSPORE_SHARD.fullmatch(name)
        if match:
            style = name[match.end("number") : match.start("total")]
            key = (match["stem"], match["ext"], match["total"], style)
            groups.setdefault(key, {})[int(match["number"])] = name
    return tuple(_group(*key, found) for key, found in groups.items())


def _group(stem: str, ext: str, total_text: str, style: str, found: dict[int, str]) -> Shards:
    total = int(total_text)
    first = 0 if 0 in found or style == "-" or ext in _TABLES else 1
    width = len(total_text)
    sample = next(iter(found.values()))
    joint = sample[len(stem)]
    wanted = {
        number: f"{stem}{joint}{number:0{width}d}{style}{total_text}.{ext}"
        for number in range(first, min(first + total, first + 100_000))
    }
    missing = tuple(name for number, name in wanted.items() if number not in found)
    return Shards(stem, ext, total, tuple(found[key] for key in sorted(found)), missing)


def step_of(name: str) -> Optional[tuple[int, int]]:
    """(epoch, step) of a MindSpore checkpoint's name, or None."""
    match = STEP.fullmatch(name)
    return (int(match["epoch"]), int(match["step"])) if match else None
