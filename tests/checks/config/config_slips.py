"""What an engineer in the field gets wrong in a config, one slip at a time: the text with it, and what a linter must say.

Other kinds than config_mutations has: slips of the editor (indentation, quotes, brackets, full-width signs), settings in
the wrong section, stale ones of another release, swapped values, wrong shapes, missing parts, contradictions between
sections. The expectation (category, key, line) is part of the slip and was written before the linter saw it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Optional

import yaml
from config_mutations import Config, Scalar, get, pynative, scalars, trains

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

CONFIG = frozenset(("config",))
PARALLEL = frozenset(("parallel-strategy", "config"))
DATA = frozenset(("dataset", "config", "shape"))
RATES = frozenset(("config", "loss-not-converging", "nan-overflow"))
WEIGHTS = frozenset(("weights-mismatch", "ckpt-format", "config"))
MODEL = frozenset(("config", "parallel-strategy", "shape", "weights-mismatch", "tokenizer"))


@dataclass(frozen=True)
class Slip:
    kind: str
    text: str
    #: lines of which one must be named
    lines: frozenset[int]
    #: keys of which one must be named; none where the text is no YAML any more
    keys: frozenset[str]
    categories: frozenset[str]
    note: str


@dataclass(frozen=True)
class Block:
    """A mapping in block style: the line of its name (0 at the top), of its first and last entry, and their indent."""

    header: int
    first: int
    last: int
    indent: int


@dataclass
class Page:
    """A config that waits for its slip."""

    text: str
    release: tuple[int, ...]
    config: Config = field(init=False)
    keys: dict[str, Scalar] = field(init=False)
    blocks: dict[str, Block] = field(init=False)

    def __post_init__(self) -> None:
        self.config = yaml.load(self.text, _LOADER)
        self.keys = scalars(self.text)
        self.blocks = blocks_of(self.text)
        self.rows = self.text.split("\n")

    @property
    def trains(self) -> bool:
        return trains(self.config)

    @property
    def torch(self) -> bool:
        return pynative(self.config)

    @property
    def mcore(self) -> bool:
        return get(self.config, "use_legacy") is False

    @property
    def model(self) -> str:
        return "model" if self.torch else "model.model_config"

    def whole(self, key: str) -> int:
        """The integer under a key, 0 when there is none."""
        value = get(self.config, key)
        return value if isinstance(value, int) and not isinstance(value, bool) else 0

    def first(self, *names: str) -> Optional[str]:
        """The first of these keys that stands in the text as a scalar."""
        return next((name for name in names if name in self.keys), None)

    def alone(self, key: str) -> bool:
        """Whether a setting has its line for itself, in block style."""
        item = self.keys.get(key)
        return item is not None and bool(re.match(r"^ *[\w.]+ *:", self.rows[item.line - 1]))


def blocks_of(text: str) -> dict[str, Block]:
    found: dict[str, Block] = {}

    def walk(node: Any, path: str, header: int) -> None:
        if isinstance(node, yaml.MappingNode) and not node.flow_style and node.value:
            first, last = node.value[0][0].start_mark, node.value[-1][0].start_mark
            found.setdefault(path, Block(header, first.line + 1, last.line + 1, first.column))
            for name, value in node.value:
                walk(value, f"{path}.{name.value}" if path else str(name.value), name.start_mark.line + 1)

    walk(yaml.compose(text, _LOADER), "", 0)
    return found


Found = tuple[str, frozenset[int], frozenset[str], str]
Kind = Callable[[Page, random.Random], Iterator[Optional[Found]]]
KINDS: dict[str, tuple[Kind, frozenset[str], int]] = {}


def kind(categories: frozenset[str], series: int = 1) -> Callable[[Kind], Kind]:
    def wrap(function: Kind) -> Kind:
        KINDS[function.__name__] = (function, categories, series)
        return function

    return wrap


def slips(page: Page, name: str, rng: random.Random) -> list[Slip]:
    """Every slip of one kind that a config offers."""
    function, categories, _ = KINDS[name]
    made = []
    for found in function(page, rng):
        if found is not None and found[0] != page.text:
            text, lines, keys, note = found
            made.append(Slip(name, text, lines, keys, categories, note))
    return made


# ---- ways to change a text ----


def put(page: Page, key: Optional[str], new: str) -> Optional[Found]:
    """Another value."""
    item = page.keys.get(key or "")
    if item is None or str(item.value) == new:
        return None
    glue = " " if item.start == item.end else ""
    text = page.text[: item.start] + glue + new + page.text[item.end :]
    return text, frozenset((item.line,)), frozenset((item.key,)), f"{key}: {item.value} -> {new}"


def put_all(page: Page, pairs: dict[str, str], *told: str) -> Optional[Found]:
    """Several values at once; one of `told` (all by default) must be named."""
    items = [page.keys.get(key) for key in pairs]
    if any(item is None for item in items):
        return None
    text = page.text
    for item in sorted((item for item in items if item is not None), key=lambda item: -item.start):
        glue = " " if item.start == item.end else ""
        text = text[: item.start] + glue + pairs[item.key] + text[item.end :]
    named = told or tuple(pairs)
    return text, frozenset(page.keys[key].line for key in named), frozenset(named), f"{pairs}"


def call(page: Page, key: Optional[str], new: str) -> Optional[Found]:
    """Another name for a setting."""
    item = page.keys.get(key or "")
    if item is None:
        return None
    section = item.key.rpartition(".")[0]
    full = f"{section}.{new}" if section else new
    if get(page.config, full) is not None:
        return None
    text = page.text[: item.key_start] + new + page.text[item.key_end :]
    return text, frozenset((item.line,)), frozenset((full,)), f"{key} -> {new}"


def add(page: Page, section: str, row: str, *also: str) -> Optional[Found]:
    """One more line at the head of a section."""
    block = page.blocks.get(section)
    name = row.partition(":")[0]
    full = f"{section}.{name}" if section else name
    if block is None or full in page.keys or get(page.config, full) is not None:
        return None
    rows = list(page.rows)
    rows.insert(block.first - 1, " " * block.indent + row)
    return "\n".join(rows), frozenset((block.first,)), frozenset((full, *also)), f"{section}: + {row}"


def drop(page: Page, key: str, *keys: str) -> Optional[Found]:
    """One line less; the section that lacks it must be named."""
    item = page.keys.get(key)
    if item is None or not page.alone(key):
        return None
    section = key.rpartition(".")[0]
    block = page.blocks.get(section)
    if block is None or block.first == block.last:
        return None
    rows = list(page.rows)
    del rows[item.line - 1]
    near = {block.header, block.header + 1, item.line, item.line - 1, block.first}
    return "\n".join(rows), frozenset(near), frozenset((key, section, *keys)), f"- {key}"


def move(page: Page, key: str, section: str) -> Optional[Found]:
    """A line that went to another section."""
    item, block = page.keys.get(key), page.blocks.get(section)
    name = key.rpartition(".")[2]
    full = f"{section}.{name}" if section else name
    home = page.blocks.get(key.rpartition(".")[0])
    if item is None or block is None or home is None or home.first == home.last or not page.alone(key):
        return None
    if get(page.config, full) is not None:
        return None
    rows = list(page.rows)
    row = rows.pop(item.line - 1).strip()
    place = block.first - 1 - (1 if item.line < block.first else 0)
    rows.insert(place, " " * block.indent + row)
    return "\n".join(rows), frozenset((place + 1,)), frozenset((full,)), f"{key} moved to {section or 'the top'}"


def row_as(page: Page, key: str, change: Callable[[str], str], lines: int = 0) -> Optional[Found]:
    """The line of a setting in another form, that is no YAML any more (or says something else)."""
    item = page.keys.get(key)
    if item is None or not page.alone(key):
        return None
    rows = list(page.rows)
    new = change(rows[item.line - 1])
    if new == rows[item.line - 1]:
        return None
    rows[item.line - 1] = new
    return "\n".join(rows), frozenset(range(item.line, item.line + lines + 1)), frozenset(), f"{key}: {new.strip()!r}"


def inner(page: Page, rng: random.Random, *sections: str) -> Optional[str]:
    """Some setting with a line of its own, neither first nor last of its section."""
    offered = []
    for key, item in page.keys.items():
        section = key.rpartition(".")[0]
        block = page.blocks.get(section)
        if block is None or not block.first < item.line < block.last or not page.alone(key):
            continue
        if "[" not in key and section and (not sections or section in sections):
            offered.append(key)
    return rng.choice(sorted(offered)) if offered else None


RUN = (
    "runner_config",
    "parallel_config",
    "context",
    "parallel",
    "lr_schedule",
    "optimizer",
    "recompute_config",
    "train_dataset",
    "model.model_config",
    "training",
    "parallelism",
    "lr_scheduler",
    "model",
)


#: settings that count something
COUNTS = (
    "runner_config.epochs",
    "runner_config.batch_size",
    "parallel_config.data_parallel",
    "parallel_config.micro_batch_num",
    "training.steps",
    "training.local_batch_size",
    "parallelism.tensor_parallel",
    "lr_schedule.total_steps",
    "lr_schedule.warmup_steps",
    "train_dataset.num_parallel_workers",
    "train_dataset.prefetch_size",
    "runner_config.sink_size",
)


def some(page: Page, rng: random.Random, *names: str) -> Optional[str]:
    here = [name for name in names if name in page.keys]
    return rng.choice(here) if here else None


def line_of_section(page: Page, section: str) -> int:
    block = page.blocks.get(section)
    return block.header if block else len(page.rows) + 1
