"""One fault at a time, put into the text of a real config: what was changed, and what a linter must say about it.

A kind is a function that looks at a parsed config and offers places to change; the change is made in the text itself, so
that the line and everything around it stay as they were. Half of the kinds were used while rules were written
(`WRITTEN_FOR`), the other half (`HELD_OUT`) only ever scores them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Optional

import yaml

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

PARALLEL = frozenset(("parallel-strategy", "config"))
CONFIG = frozenset(("config",))
NUMBERS = frozenset(("config", "nan-overflow"))
RATES = frozenset(("config", "loss-not-converging", "nan-overflow"))
DATA = frozenset(("dataset", "config", "shape"))
SHAPES = frozenset(("shape", "config", "dataset", "parallel-strategy"))
WEIGHTS = frozenset(("weights-mismatch", "ckpt-format", "config"))
DISK = frozenset(("disk-io", "config", "ckpt-format"))


@dataclass(frozen=True)
class Scalar:
    """A scalar of the text: its key path, value, and where it and its key stand (characters from 0, lines from 1)."""

    key: str
    value: Any
    start: int
    end: int
    line: int
    key_start: int
    key_end: int


@dataclass(frozen=True)
class Mutation:
    kind: str
    text: str
    key: str
    line: int
    categories: frozenset[str]
    note: str


Config = dict[str, Any]
Kind = Callable[[Config, dict[str, Scalar], random.Random], Iterator[tuple[str, str]]]


def scalars(text: str) -> dict[str, Scalar]:
    """Scalars that stand in the text themselves (not through an alias), by key path."""
    found: dict[str, Scalar] = {}
    seen: set[int] = set()

    def walk(node: Any, path: str) -> None:
        if id(node) in seen:
            return
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            for name, value in node.value:
                key = f"{path}.{name.value}" if path else str(name.value)
                if isinstance(value, yaml.ScalarNode) and id(value) not in seen and value.style not in ("|", ">"):
                    seen.add(id(value))
                    if "&" in text[name.end_mark.index : value.start_mark.index + 1]:
                        continue
                    item = yaml.load(text[value.start_mark.index : value.end_mark.index] or "null", _LOADER)
                    found[key] = Scalar(
                        key,
                        item,
                        value.start_mark.index,
                        value.end_mark.index,
                        value.start_mark.line + 1,
                        name.start_mark.index,
                        name.end_mark.index,
                    )
                else:
                    walk(value, key)
        elif isinstance(node, yaml.SequenceNode):
            for place, item in enumerate(node.value):
                walk(item, f"{path}[{place}]")

    walk(yaml.compose(text, _LOADER), "")
    return found


def get(config: Config, key: str, default: Any = None) -> Any:
    here: Any = config
    for part in key.split("."):
        if not isinstance(here, dict) or part not in here:
            return default
        here = here[part]
    return here


def trains(config: Config) -> bool:
    return get(config, "run_mode", "train") in ("train", "finetune")


def pynative(config: Config) -> bool:
    return "parallelism" in config or "training" in config


def semi_auto(config: Config) -> bool:
    return pynative(config) or get(config, "parallel.parallel_mode", 1) in (1, "SEMI_AUTO_PARALLEL")


def size(config: Config, name: str) -> int:
    graph = {
        "tp": "model_parallel",
        "pp": "pipeline_stage",
        "dp": "data_parallel",
        "cp": "context_parallel",
        "ep": "expert_parallel",
    }
    torch = {
        "tp": "tensor_parallel",
        "pp": "pipeline_parallel",
        "cp": "context_parallel",
        "ep": "expert_parallel",
        "dp": "data_parallel_shard",
    }
    value = get(config, f"parallelism.{torch[name]}" if pynative(config) else f"parallel_config.{graph[name]}", 1)
    return value if isinstance(value, int) else 1


def devices_of(config: Config) -> int:
    """The device count that a config is written for."""
    if pynative(config):
        return max(8, size(config, "tp") * size(config, "pp") * size(config, "cp"))
    return size(config, "dp") * size(config, "tp") * size(config, "pp") * size(config, "cp")


def model_key(config: Config, *names: str) -> Optional[str]:
    section = "model" if pynative(config) else "model.model_config"
    for name in names:
        if isinstance(get(config, f"{section}.{name}"), int):
            return f"{section}.{name}"
    return None


_KINDS: dict[str, tuple[Kind, frozenset[str]]] = {}


def kind(categories: frozenset[str]) -> Callable[[Kind], Kind]:
    def wrap(function: Kind) -> Kind:
        _KINDS[function.__name__] = (function, categories)
        return function

    return wrap


def _set(keys: dict[str, Scalar], pairs: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, str]]:
    for key, value in pairs:
        if key in keys and str(keys[key].value) != str(value):
            yield key, str(value)


# ---- sizes that must multiply and divide ----


@kind(PARALLEL)
def product(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    if semi_auto(config) and devices_of(config) > 1 and not pynative(config):
        key = rng.choice(
            ("parallel_config.data_parallel", "parallel_config.pipeline_stage", "parallel_config.model_parallel")
        )
        yield key, str(get(config, key, 1) * rng.choice((2, 3, 5)))


@kind(PARALLEL)
def heads_by_tensor(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    key, tensor = model_key(config, "num_heads", "num_attention_heads"), size(config, "tp")
    if key and tensor > 1 and semi_auto(config):
        yield key, str(get(config, key) + 1)


@kind(PARALLEL)
def hidden_by_heads(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    section = "model" if pynative(config) else "model.model_config"
    key, heads = model_key(config, "hidden_size"), model_key(config, "num_heads", "num_attention_heads")
    own = any(
        get(config, f"{section}.{name}")
        for name in ("head_dim", "kv_channels", "q_lora_rank", "multi_latent_attention")
    )
    if key and heads and get(config, heads) > 1 and not own:
        yield key, str(get(config, key) + 1)


@kind(PARALLEL)
def kv_heads(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    key, heads = (
        model_key(config, "n_kv_heads", "num_key_value_heads"),
        model_key(config, "num_heads", "num_attention_heads"),
    )
    if key and heads:
        yield key, str(next(item for item in (3, 5, 7, 11, 13) if get(config, heads) % item))


@kind(PARALLEL)
def micro_batches(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    if size(config, "pp") > 1 and trains(config) and semi_auto(config):
        yield "parallel_config.micro_batch_num", str(size(config, "pp") - 1)


@kind(PARALLEL)
def layers_by_stages(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    key = model_key(config, "num_layers", "num_hidden_layers")
    if key and size(config, "pp") > 1 and trains(config) and semi_auto(config):
        yield key, str(get(config, key) + 1)


@kind(PARALLEL)
def offset_sum(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    layers = model_key(config, "num_layers", "num_hidden_layers")
    if layers and size(config, "pp") > 1 and trains(config) and semi_auto(config) and not pynative(config):
        yield "model.model_config.offset", "1"


@kind(PARALLEL)
def experts_by_parallel(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    experts = (
        get(config, "moe_config.expert_num")
        or get(config, "model.model_config.n_routed_experts")
        or get(config, "model.n_routed_experts")
    )
    if isinstance(experts, int) and experts > 1:
        yield ("parallelism" if pynative(config) else "parallel_config") + ".expert_parallel", "7"


@kind(PARALLEL)
def global_batch(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    if pynative(config):
        yield "training.global_batch_size", "7"


@kind(PARALLEL)
def sequence_off(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    experts = get(config, "model.model_config.n_routed_experts") or get(config, "model.model_config.num_experts")
    if get(config, "use_legacy") is False and trains(config) and size(config, "tp") > 1 and experts:
        yield "parallel_config.use_seq_parallel", "False"


@kind(PARALLEL)
def context_by_sequence(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    if trains(config) and semi_auto(config) and model_key(config, "seq_length"):
        yield ("parallelism" if pynative(config) else "parallel_config") + ".context_parallel", "3"


# ---- kinds of values ----


@kind(NUMBERS)
def rate_is_text(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    for key in ("lr_schedule.learning_rate", "lr_scheduler.learning_rate", "optimizer.learning_rate"):
        if key in keys:
            yield key, rng.choice(("1e-5", "3e-4", '"0.001"', "5E-5"))


@kind(NUMBERS)
def epsilon_is_text(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    yield "optimizer.eps", rng.choice(("1e-8", "1e-6"))


@kind(CONFIG)
def flag_is_text(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    flags = [
        key
        for key, item in keys.items()
        if isinstance(item.value, bool)
        and key.split(".")[0]
        in ("parallel_config", "recompute_config", "runner_config", "parallel", "context", "train_dataset")
    ]
    if flags:
        yield rng.choice(sorted(flags)), rng.choice(("'False'", '"True"', "Ture", "flase"))


@kind(CONFIG)
def size_is_word(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    for key in ("runner_config.epochs", "runner_config.batch_size", "training.steps", "parallel_config.model_parallel"):
        if key in keys:
            yield key, rng.choice(("two", "'8'", "1.5", "auto"))


@kind(CONFIG)
def section_is_scalar(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    yield "train_dataset.input_columns", "input_ids"


# ---- ranges ----


@kind(PARALLEL)
def size_not_positive(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    for key in (
        "parallel_config.data_parallel",
        "parallel_config.pipeline_stage",
        "parallelism.tensor_parallel",
        "parallelism.pipeline_parallel",
    ):
        if key in keys:
            yield key, rng.choice(("0", "-1"))


@kind(CONFIG)
def batch_not_positive(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    for key in ("runner_config.batch_size", "training.local_batch_size"):
        if key in keys:
            yield key, rng.choice(("0", "-4"))


@kind(CONFIG)
def epochs_not_positive(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    if trains(config):
        for key in ("runner_config.epochs", "training.steps"):
            if key in keys:
                yield key, rng.choice(("0", "-1"))


@kind(RATES)
def rate_negative(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    if trains(config):
        for key in ("lr_schedule.learning_rate", "lr_scheduler.learning_rate"):
            if key in keys:
                yield key, "-1.e-5"


@kind(RATES)
def rate_huge(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    if trains(config):
        for key in ("lr_schedule.learning_rate", "lr_scheduler.learning_rate"):
            if key in keys:
                yield key, rng.choice(("1.0", "0.5", "10"))


@kind(RATES)
def beta_beyond(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    if trains(config):
        yield "optimizer.beta2", rng.choice(("1.0", "1.5", "-0.9"))


@kind(RATES)
def decay_negative(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    if trains(config):
        yield "optimizer.weight_decay", rng.choice(("-0.1", "5.0"))


@kind(RATES)
def end_above_start(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    rate = get(config, "lr_schedule.learning_rate")
    if trains(config) and isinstance(rate, float):
        yield "lr_schedule.lr_end", str(rate * 10) if "." in str(rate * 10) else f"{rate * 10:.7f}"


@kind(RATES)
def warmup_ratio(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    if trains(config):
        yield "lr_schedule.warmup_ratio", rng.choice(("1.5", "-0.1", "30"))


@kind(RATES)
def warmup_steps(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    if trains(config):
        yield "lr_schedule.warmup_steps", "-100"


@kind(DATA)
def workers(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    yield "train_dataset.num_parallel_workers", rng.choice(("0", "-8"))


@kind(CONFIG)
def sink_size(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    if trains(config) and get(config, "runner_config.sink_mode") is True:
        yield "runner_config.sink_size", rng.choice(("0", "-2"))


@kind(DISK)
def save_interval(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    if trains(config):
        for key in sorted(keys):
            if key.endswith((".save_checkpoint_steps", ".save_interleaved_steps")):
                yield key, rng.choice(("0", "-1", "1"))


@kind(DISK)
def kept(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    if trains(config):
        for key in sorted(keys):
            if key.endswith((".keep_checkpoint_max", ".save_max")) and get(config, "checkpoint.enable_save", True):
                yield key, rng.choice(("0", "-1"))


@kind(RATES)
def loss_scale(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    if trains(config):
        yield "runner_wrapper.scale_sense.loss_scale_value", rng.choice(("0", "-1"))


@kind(CONFIG)
def accumulation(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    if trains(config):
        yield "runner_config.gradient_accumulation_steps", rng.choice(("0", "-2", "1.5"))


# ---- words ----


@kind(CONFIG)
def run_mode(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    yield "run_mode", rng.choice(("trian", "finetun", "training", "pretrain"))


@kind(CONFIG)
def trainer_type(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    if get(config, "trainer.type") == "CausalLanguageModelingTrainer":
        yield (
            "trainer.type",
            rng.choice(
                ("CausalLanguageModelTrainer", "CausalLanguageModellingTrainer", "CausalLanguageModelingTrainr")
            ),
        )


@kind(CONFIG)
def optimizer_type(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    value = get(config, "optimizer.type")
    if trains(config) and isinstance(value, str) and len(value) > 4:
        place = rng.randrange(2, len(value) - 1)
        yield "optimizer.type", value[:place] + value[place + 1 :]


@kind(CONFIG)
def schedule_type(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    value = get(config, "lr_schedule.type")
    if trains(config) and isinstance(value, str) and len(value) > 8:
        place = rng.randrange(3, len(value) - 2)
        yield "lr_schedule.type", value[:place] + value[place + 1] + value[place] + value[place + 2 :]


@kind(CONFIG)
def callback_type(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    for key, item in keys.items():
        if trains(config) and key.startswith("callbacks[") and key.endswith(".type") and item.value == "MFLossMonitor":
            yield key, rng.choice(("MFLosMonitor", "MFLossMoniter", "LossMFMonitor"))


@kind(CONFIG)
def dtype(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    for key in ("model.model_config.compute_dtype", "model.model_config.param_init_type", "model.compute_dtype"):
        if key in keys:
            yield key, rng.choice(('"bfloat61"', '"float15"', '"flaot16"', '"half precision"'))


@kind(CONFIG)
def parallel_mode(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    yield "parallel.parallel_mode", rng.choice(("5", '"semi_auto"', "-1"))


@kind(CONFIG)
def device_target(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    yield "context.device_target", rng.choice(('"ascend"', '"NPU"', '"Ascent"'))


@kind(CONFIG | {"oom-device"})
def device_memory(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    yield "context.max_device_memory", rng.choice(('"58G"', '"58 GB"', "58", '"fifty"', '"640GB"'))


@kind(CONFIG)
def jit_level(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    yield "context.jit_config.jit_level", rng.choice(('"O9"', '"o1"', '"01"'))


@kind(CONFIG)
def context_mode(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    yield "context.mode", rng.choice(("2", "-1", '"graph_mode"'))


@kind(CONFIG)
def precision_mode(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    yield "context.ascend_config.precision_mode", rng.choice(('"keep_origin_dtype"', '"fp16"'))


@kind(WEIGHTS)
def load_format(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    yield "load_ckpt_format", rng.choice(('"safetensor"', '"bin"', '"pt"'))


# ---- lengths, tokens, resuming ----


@kind(SHAPES)
def data_sequence(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    model = model_key(config, "seq_length")
    if model:
        for key in ("train_dataset.data_loader.config.seq_length", "train_dataset.dataloader.config.seq_length"):
            if key in keys:
                yield key, str(get(config, model) // 2)


@kind(CONFIG | {"tokenizer"})
def token_beyond(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    vocabulary = model_key(config, "vocab_size", "padded_vocab_size")
    if vocabulary:
        yield "model.model_config.eos_token_id", str(get(config, vocabulary) + 5000)


@kind(CONFIG)
def vocabulary_zero(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    key = model_key(config, "vocab_size", "hidden_size", "seq_length", "num_layers")
    if key:
        yield key, rng.choice(("0", "-32"))


@kind(WEIGHTS)
def resume(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    named = get(config, "model.model_config.checkpoint_name_or_path")
    if trains(config) and get(config, "load_checkpoint") == "" and not named:
        yield "resume_training", "True"


@kind(PARALLEL)
def recompute_list(config: Config, keys: dict[str, Scalar], rng: random.Random) -> Iterator[tuple[str, str]]:
    if trains(config) and not pynative(config):
        yield "recompute_config.recompute", "[" + ", ".join(["1"] * (size(config, "pp") + 2)) + "]"


# ---- names of settings: the key itself is changed ----


def _misspelt(name: str, rng: random.Random) -> str:
    place = rng.randrange(1, max(len(name) - 1, 2))
    if rng.random() < 0.5 or name[place : place + 1] == name[place + 1 : place + 2]:
        return name[:place] + name[place + 1 :]
    return name[:place] + name[place + 1 : place + 2] + name[place : place + 1] + name[place + 2 :]


_RENAMED: dict[str, tuple[tuple[str, ...], frozenset[str]]] = {
    "key_in_parallel_config": (("parallel_config.", "parallelism."), CONFIG),
    "key_in_recompute_config": (("recompute_config.",), CONFIG),
    "key_in_runner_config": (("runner_config.",), CONFIG),
    "key_in_schedule": (("lr_schedule.",), CONFIG),
    "key_in_optimizer": (("optimizer.",), CONFIG),
    "key_in_model": (("model.model_config.",), CONFIG),
    "key_in_context": (("context.",), CONFIG),
    "key_in_dataset": (("train_dataset.",), CONFIG),
}

WRITTEN_FOR = (
    "product",
    "heads_by_tensor",
    "micro_batches",
    "layers_by_stages",
    "offset_sum",
    "rate_is_text",
    "flag_is_text",
    "size_not_positive",
    "batch_not_positive",
    "rate_negative",
    "beta_beyond",
    "end_above_start",
    "warmup_ratio",
    "workers",
    "save_interval",
    "run_mode",
    "trainer_type",
    "callback_type",
    "dtype",
    "parallel_mode",
    "device_memory",
    "data_sequence",
    "resume",
    "recompute_list",
    "key_in_parallel_config",
    "key_in_model",
    "key_in_context",
)
HELD_OUT = tuple(sorted(({*_KINDS} | {*_RENAMED}) - set(WRITTEN_FOR)))


def mutations(text: str, name: str, rng: random.Random) -> list[Mutation]:
    """Every mutation of one kind that a config offers."""
    try:
        config = yaml.load(text, _LOADER)
        keys = scalars(text)
    except (yaml.YAMLError, ValueError):
        return []
    if not isinstance(config, dict):
        return []
    if name in _RENAMED:
        return _renamed(text, keys, name, rng)
    function, categories = _KINDS[name]
    made = []
    for key, new in function(config, keys, rng):
        item = keys.get(key)
        if item is None or str(item.value) == new:
            continue
        glue = " " if item.start == item.end else ""
        changed = text[: item.start] + glue + new + text[item.end :]
        made.append(Mutation(name, changed, key, item.line, categories, f"{key}: {item.value} -> {new}"))
    return made


def _renamed(text: str, keys: dict[str, Scalar], name: str, rng: random.Random) -> list[Mutation]:
    prefixes, categories = _RENAMED[name]
    names = sorted(
        key for key in keys if key.startswith(prefixes) and key.count(".") == prefixes[0].count(".") and "[" not in key
    )
    names = [key for key in names if len(key.rpartition(".")[2]) > 5]
    if not names:
        return []
    key = rng.choice(names)
    item = keys[key]
    section, _, old = key.rpartition(".")
    new = _misspelt(old, rng)
    if new == old or f"{section}.{new}" in keys:
        return []
    changed = text[: item.key_start] + new + text[item.key_end :]
    return [Mutation(name, changed, f"{section}.{new}", item.line, categories, f"{key} -> {new}")]
