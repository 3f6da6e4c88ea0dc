"""The normalised training plan: what a config asks for, whatever dialect it is written in.

Every field is a `Value` that knows its place. A setting that the file does not hold carries the default of
its release, with `given` False. Sizes that are the wrong type count as unknown in all arithmetic
(`Value.count` is None); the rules on types report them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Optional

from doctor.plan.reader import Document
from doctor.plan.release import Release
from doctor.plan.value import Value


class Dialect(str, Enum):
    """Which program reads the file."""

    #: MindFormers 0.3 to 1.5, and `use_legacy: True` up to 2.1
    LEGACY = "legacy"
    #: MindFormers 1.6 to 2.1 with `use_legacy: False`
    MCORE = "mcore"
    #: MindFormers 1.9 to 2.1, section `training`
    PYNATIVE = "pynative"
    #: the built-in trainer, section `training_args`
    TRAINER = "trainer"
    #: a Hugging Face config.json
    HUGGINGFACE = "huggingface"
    #: a YAML file of the project that is no run: conversion lists, experimental templates
    OTHER = "other"

    @property
    def graph(self) -> bool:
        """Read by MindFormers' graph-mode trainer."""
        return self in (Dialect.LEGACY, Dialect.MCORE)


class ParallelMode(str, Enum):
    STAND_ALONE = "stand_alone"
    DATA = "data_parallel"
    SEMI_AUTO = "semi_auto_parallel"
    AUTO = "auto_parallel"
    HYBRID = "hybrid_parallel"
    #: the mode is written in a way that MindSpore does not know
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Model:
    """The network. `fields` holds settings under MindFormers' mcore names (num_layers, hidden_size,
    num_attention_heads, num_query_groups, ffn_hidden_size, …), whatever spelling the file uses."""

    section: Value
    fields: Mapping[str, Value]
    type: Value
    architecture: Value
    name: Value
    #: LoRA, p-tuning and the like; not given when all weights are trained
    adapter: Value
    #: where a Hugging Face config.json completes the file
    pretrained: Value

    def field(self, name: str) -> Value:
        """The setting under its mcore name, or one that is not given."""
        found = self.fields.get(name)
        return found if found is not None else self.section.absent(name)

    @property
    def layers(self) -> Value:
        return self.field("num_layers")

    @property
    def hidden(self) -> Value:
        return self.field("hidden_size")

    @property
    def heads(self) -> Value:
        return self.field("num_attention_heads")

    @property
    def kv_heads(self) -> Value:
        return self.field("num_query_groups")

    @property
    def ffn(self) -> Value:
        return self.field("ffn_hidden_size")

    @property
    def vocabulary(self) -> Value:
        return self.field("vocab_size")

    @property
    def sequence(self) -> Value:
        return self.field("seq_length")

    @property
    def positions(self) -> Value:
        return self.field("max_position_embeddings")

    @property
    def experts(self) -> Value:
        return self.field("num_moe_experts")

    @property
    def flash_attention(self) -> Value:
        return self.field("use_flash_attention")

    @property
    def is_moe(self) -> bool:
        return (self.experts.count or 0) > 1

    @property
    def family(self) -> str:
        """A short name of the model's kind in lower case: llama, chatglm2, deepseek_v3; empty when unknown."""
        word = self.type.words or self.architecture.words or self.name.words
        lowered = word.lower()
        for tail in ("config", "forcausallm", "forconditionalgeneration", "lmheadmodel", "model"):
            if lowered.endswith(tail) and len(lowered) > len(tail):
                lowered = lowered[: -len(tail)]
                break
        return lowered


@dataclass(frozen=True)
class Parallel:
    """How the devices share the work. Sizes default to 1."""

    section: Value
    context_section: Value
    enabled: Value
    mode: ParallelMode
    mode_value: Value
    data: Value
    tensor: Value
    pipeline: Value
    context: Value
    expert: Value
    sequence: Value
    micro_batches: Value
    #: chunks of layers a stage holds
    interleave: Value
    #: extra layers of stages, as MindFormers writes them
    offset: Value
    sequence_split: Value
    scheduler: Value
    context_method: Value
    ulysses: Value
    optimizer: Value
    optimizer_shard_size: Value
    full_batch: Value
    dataset_strategy: Value
    gradients_mean: Value
    vocabulary_data_parallel: Value

    @property
    def sizes(self) -> tuple[Value, ...]:
        """The factors of the device count, in the order of MindFormers' equation."""
        return (self.data, self.tensor, self.context, self.pipeline)

    @property
    def product(self) -> Optional[int]:
        """Devices asked for, or None when a size is unknown (data parallel -1: all that remain)."""
        counts = [size.count for size in self.sizes]
        return None if None in counts else math.prod(count for count in counts if count)

    @property
    def stages(self) -> int:
        return self.pipeline.count or 1

    @property
    def distributed(self) -> bool:
        """Whether some size is above one."""
        return any((size.count or 1) > 1 for size in self.sizes)


@dataclass(frozen=True)
class Batch:
    """Sequences per device and step, and what multiplies them."""

    per_device: Value
    accumulation: Value
    #: copies that run interleaved (MindFormers' double copy)
    interleave: Value
    #: PyNative names the product itself
    global_size: Value
    #: the batch size written in the data section, which the runner's overrides
    dataset: Value


@dataclass(frozen=True)
class Precision:
    compute: Value
    parameters: Value
    softmax: Value
    norm: Value
    rotary: Value
    router: Value
    #: a number or a mapping with a type
    loss_scale: Value
    #: O0 to O3
    level: Value


@dataclass(frozen=True)
class Recompute:
    section: Value
    full: Value
    select: Value
    communication: Value
    slice_activation: Value
    swap: Value


@dataclass(frozen=True)
class Optimizer:
    section: Value
    type: Value
    betas: Value
    beta1: Value
    beta2: Value
    epsilon: Value
    weight_decay: Value
    learning_rate: Value
    clip: Value
    clip_norm: Value
    wrapper: Value
    offload: Value


@dataclass(frozen=True)
class Schedule:
    section: Value
    type: Value
    learning_rate: Value
    end: Value
    warmup_steps: Value
    warmup_ratio: Value
    warmup_epochs: Value
    warmup_start: Value
    total_steps: Value
    epochs: Value
    #: steps of the run when the file fixes them
    steps: Value
    #: one schedule per group of parameters takes the place of the schedule
    grouped: Value


@dataclass(frozen=True)
class Data:
    section: Value
    task: Value
    loader: Value
    loader_type: Value
    path: Value
    columns: Value
    construct_columns: Value
    sequence: Value
    workers: Value
    drop_remainder: Value
    shuffle: Value
    tokenizer: Value
    sink_mode: Value
    sink_size: Value


@dataclass(frozen=True)
class Checkpoint:
    load: Value
    load_format: Value
    transform: Value
    resume: Value
    #: section or callback that saves; not given when nothing saves
    saver: Value
    save_steps: Value
    keep: Value
    prefix: Value
    save_format: Value
    remove_redundancy: Value
    output: Value


@dataclass(frozen=True)
class Context:
    section: Value
    mode: Value
    device_target: Value
    device_id: Value
    max_memory: Value
    save_graphs: Value
    jit_level: Value
    callbacks: Value
    seed: Value


@dataclass(frozen=True, eq=False)
class Plan:
    """A config as rules see it."""

    document: Document
    dialect: Dialect
    release: Release
    run_mode: Value
    #: False for a fragment that other files complete: what is absent is no fault there
    complete: bool
    model: Model
    parallel: Parallel
    batch: Batch
    precision: Precision
    recompute: Recompute
    optimizer: Optimizer
    schedule: Schedule
    data: Data
    checkpoint: Checkpoint
    context: Context
    #: devices of the run, when the user said how many
    devices: Optional[int] = None
    #: bytes of one device, when the user said so
    device_memory: Optional[int] = None

    @property
    def root(self) -> Value:
        return self.document.root

    @property
    def trains(self) -> bool:
        """Whether the run updates weights (a run mode that nobody knows counts as training)."""
        return self.run_mode.words not in {"predict", "eval", "export", "predict_with_train_model"}

    @property
    def pretrains(self) -> bool:
        """Whether weights start at random: training without any checkpoint to load."""
        return self.run_mode.words == "train" and not self.checkpoint.load.words and not self.checkpoint.load.on
