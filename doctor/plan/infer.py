"""Infers the releases of MindFormers that can read a config, from the names and settings that it uses."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.plan.names import registered, releases, version_key
from doctor.plan.plan import Dialect
from doctor.plan.release import Release, inferred
from doctor.plan.value import Value

#: where a registered name stands in graph-mode files: path, kind
NAME_PATHS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("trainer", "type"), "trainer"),
    (("optimizer", "type"), "optimizer"),
    (("lr_schedule", "type"), "lr"),
    (("runner_wrapper", "type"), "wrapper"),
    (("runner_wrapper", "scale_sense", "type"), "wrapper"),
    (("train_dataset_task", "type"), "dataset"),
    (("train_dataset", "data_loader", "type"), "dataset_loader"),
    (("eval_dataset_task", "type"), "dataset"),
    (("eval_dataset", "data_loader", "type"), "dataset_loader"),
    (("model", "model_config", "type"), "config"),
    (("model", "arch", "type"), "models"),
    (("metric", "type"), "metric"),
)
#: settings that came with a release
_SINCE: tuple[tuple[tuple[str, ...], str], ...] = (
    (("use_legacy",), "1.6.0"),
    (("pretrained_model_dir",), "1.6.0"),
    (("monitor_config",), "1.6.0"),
    (("swap_config",), "1.6.0"),
    (("checkpoint",), "2.0.0"),
    (("load_ckpt_format",), "1.3.0"),
    (("parallel_config", "seq_split_num"), "1.6.0"),
    (("parallel_config", "context_parallel"), "1.2.0"),
    (("auto_trans_ckpt",), "0.8.0"),
    (("optimizer", "betas"), "1.2.0"),
)
#: settings that went with a release
_UNTIL: tuple[tuple[tuple[str, ...], str], ...] = (
    (("base_config",), "0.3.0"),
    (("resume_or_finetune_checkpoint",), "0.8.0"),
)


def named_values(root: Value) -> Iterator[tuple[Value, str]]:
    """Every place of a graph-mode file that names a registered class, with the kind of the name."""
    for path, kind in NAME_PATHS:
        value = root.get(*path)
        if value.given:
            yield value, kind
    for section in ("callbacks", "eval_callbacks"):
        for item in root.get(section).sequence:
            value = item.get("type")
            if value.given:
                yield value, "callback"


def infer_release(root: Value, dialect: Dialect) -> Release:
    known = releases()
    if dialect is Dialect.PYNATIVE:
        return inferred(item for item in known if version_key(item) >= (1, 9, 0))
    if not dialect.graph:
        return inferred(known)
    newest_first = list(reversed(known))
    possible = [item for item in newest_first if dialect is not Dialect.MCORE or version_key(item) >= (1, 6, 0)]
    score = dict.fromkeys(possible, 0)
    for value, kind in named_values(root):
        name = registered(kind).get(value.words)
        if name is not None and name.releases:
            for item in possible:
                score[item] += 3 * (item in name.releases)
    for path, version in _SINCE:
        if root.get(*path).given:
            for item in possible:
                score[item] += version_key(item) >= version_key(version)
    for path, version in _UNTIL:
        if root.get(*path).given:
            for item in possible:
                score[item] += version_key(item) <= version_key(version)
    best = max(score.values())
    return inferred(item for item in possible if score[item] == best)
