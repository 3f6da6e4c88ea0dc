"""Which program reads a config, seen from the sections it holds."""

from __future__ import annotations

import re

from doctor.plan.names import nearest
from doctor.plan.plan import Dialect
from doctor.plan.schema import section_specs
from doctor.plan.value import Value

#: sections and settings at the top of MindFormers' graph-mode files
GRAPH_KEYS = frozenset(
    [
        "runner_config",
        "parallel_config",
        "parallel",
        "context",
        "trainer",
        "model",
        "train_dataset",
        "train_dataset_task",
        "optimizer",
        "lr_schedule",
        "callbacks",
        "runner_wrapper",
        "recompute_config",
        "swap_config",
        "moe_config",
        "processor",
        "eval_dataset",
        "eval_dataset_task",
        "run_mode",
        "load_checkpoint",
        "pretrained_model_dir",
        "use_legacy",
        "base_config",
        "metric",
        "use_parallel",
        "micro_batch_interleave_num",
    ]
)
_PYNATIVE_KEYS = frozenset(("training", "parallelism", "lr_scheduler"))
_PYNATIVE_TRAINING = frozenset(("steps", "local_batch_size", "global_batch_size", "max_norm"))
#: sections of templates that a branch of MindFormers tried and no release reads
_EXPERIMENTAL = frozenset(("distribute_parallel_config", "checkpoint_config", "dataset_config"))
_TRAINING_TEXT = re.compile(
    rb"^(?:runner_config|parallel_config|training_args|train_dataset|optimizer|lr_schedule|lr_scheduler|parallelism"
    rb"|run_mode|trainer|model|model_config|callbacks|base_config|context|moe_config|runner_wrapper|train_dataset_task)"
    rb"[ \t]*:",
    re.MULTILINE,
)
_HUGGINGFACE_TEXT = re.compile(rb'"(?:model_type|architectures)"[ \t]*:')
_HUGGINGFACE_MODEL = frozenset(
    [
        "hidden_size",
        "n_embd",
        "d_model",
        "num_hidden_layers",
        "n_layer",
        "num_layers",
        "vocab_size",
        "padded_vocab_size",
    ]
)


def looks_like_training(head: bytes) -> bool:
    """Whether the beginning of a text file may be a training config."""
    return _TRAINING_TEXT.search(head) is not None


def looks_like_huggingface(head: bytes) -> bool:
    """Whether the beginning of a JSON file is a model's config.json."""
    return head.lstrip()[:1] == b"{" and _HUGGINGFACE_TEXT.search(head) is not None


def dialect_of(root: Value) -> Dialect:
    keys = frozenset(root.mapping)
    if root.get("use_legacy").flag is False and keys & GRAPH_KEYS:
        return Dialect.MCORE
    if (
        keys & _EXPERIMENTAL
        or ("arch" in keys and "trainer" not in keys)
        or ("model_config" in keys and "model" not in keys and "base_config" not in keys)
    ):
        return Dialect.OTHER
    if "runner_config" not in keys and frozenset(root.get("training").mapping) & _PYNATIVE_TRAINING:
        return Dialect.PYNATIVE
    if "runner_config" not in keys and "parallel_config" not in keys:
        if "training_args" in keys or _names_a_model(root):
            return Dialect.TRAINER
        training = frozenset(root.get("training").mapping)
        if "parallelism" in keys or training & _PYNATIVE_TRAINING or {"training", "lr_scheduler"} <= keys:
            return Dialect.PYNATIVE
    if ("model_type" in keys or "architectures" in keys) and keys & _HUGGINGFACE_MODEL and not keys & GRAPH_KEYS:
        return Dialect.HUGGINGFACE
    return Dialect.LEGACY if keys & GRAPH_KEYS and not _of_another_tool(keys) else Dialect.OTHER


#: sections of chat_web/config/config.yaml, which stands among the official files
_OF_THE_CHAT_SERVER = frozenset(("server", "web_demo", "default_generation_args"))


def _of_another_tool(keys: frozenset[str]) -> bool:
    """Whether one section of MindFormers stands among two or more that are nothing like its own, as in the input files
    of MindFormers' own tools (pipeline balance, web chat). Whoever misspells sections keeps some of them right."""
    known = section_specs(Dialect.LEGACY, "").keys() - _OF_THE_CHAT_SERVER
    # time_config is no slip of moe_config: half of the letters alike are the ending.
    stems = {name.replace("_config", "") for name in GRAPH_KEYS}
    strange = [name for name in sorted(keys - known) if nearest(name.replace("_config", ""), stems, 0.85) is None]
    return len(keys & known) <= 1 and len(strange) >= 2


def _names_a_model(root: Value) -> bool:
    """Whether `model` says its type, as only the built-in trainer's does, beside a data set and nothing of MindFormers."""
    model = root.get("model")
    return (
        (model.get("type").given or model.get("family").given)
        and root.get("train_dataset").given
        and not model.get("model_config").given
        and not frozenset(root.mapping) & _RUN_SECTIONS
    )


#: sections that make a file a run of MindFormers
_RUN_SECTIONS = frozenset(
    ("context", "callbacks", "optimizer", "lr_schedule", "training", "parallelism", "use_parallel")
)


def mistaken_pynative(root: Value) -> bool:
    """Whether a file mixes sections of the PyNative and the graph generation."""
    keys = frozenset(root.mapping)
    return bool(keys & _PYNATIVE_KEYS) and bool(keys & {"runner_config", "parallel_config", "lr_schedule"})
