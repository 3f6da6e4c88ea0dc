"""Cures of what is read: labels, rows and batches, and a vocabulary with room for the tokenizer's."""

from __future__ import annotations

from typing import Optional

from doctor.errors import UsageError
from doctor.finding import Finding, Text
from doctor.supervisor.cures.remedy import NEWEST, START, Remedy
from doctor.trainer.config import RunConfig


def shift_labels(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    if config.dataset.shift_labels != "never":
        return None
    return Remedy(
        Text(
            "Shift the labels by one: taken as they are, the model only copies its input.",
            "labels 左移一位：目前原样使用，模型只是在复制输入。",
        ),
        {"train_dataset.shift_labels": "auto"},
        safe=True,
        back=START,
    )


def set_back(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    """Labels that arrive shifted twice; the trainer proves on every sample that they are the next tokens afterwards."""
    if config.dataset.shift_labels == "back":
        return None
    return Remedy(
        Text("Set the labels back by one: they arrive shifted twice.", "把 labels 移回一位：数据中已移位两次。"),
        {"train_dataset.shift_labels": "back"},
        safe=True,
        back=START,
    )


def skip_rows(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    source = config.dataset.data_loader
    if source.type != "Json" or source.bad_rows == "skip":
        return None
    return Remedy(
        Text("Leave out the lines that cannot be read.", "跳过无法读取的行。"),
        {"train_dataset.data_loader.bad_rows": "skip"},
        safe=False,
        back=START,
    )


def skip_batch(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    """Leaves out the batches of the step at which the loss jumped, once."""
    step = next((item.step for item in finding.evidence if item.step is not None), None)
    if step is None or step in config.args.skip_steps:
        return None
    steps = sorted({*config.args.skip_steps, step})
    return Remedy(
        Text(f"Leave out the data of step {step}.", f"跳过第 {step} 步的数据。"),
        {"training_args.skip_steps": steps},
        safe=False,
    )


def room_for_tokens(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    """A model of fewer ids than its tokenizer; one whose weights are loaded has the vocabulary that it has."""
    if config.load_checkpoint:
        return None
    from doctor.trainer.data.tokenizer import load_tokenizer

    try:
        ids = load_tokenizer(config.dataset.tokenizer).vocab_size
    except UsageError:
        return None
    if ids <= config.model.vocab_size:
        return None
    # A multiple of 64, as matrix units like it.
    size = -(-ids // 64) * 64
    return Remedy(
        Text(
            f"Give the model {size} ids instead of {config.model.vocab_size}: its tokenizer has {ids}.",
            f"模型词表由 {config.model.vocab_size} 增至 {size}：tokenizer 的词表大小为 {ids}。",
        ),
        {"model.vocab_size": size},
        safe=False,
        back=START,
    )


def fewer_workers(config: RunConfig, cores: int) -> Optional[Remedy]:
    workers = config.dataset.num_parallel_workers
    if workers is None or workers <= cores:
        return None
    return Remedy(
        Text(
            f"Read data with {cores} workers: this machine has no more cores.",
            f"数据读取改用 {cores} 个 worker：本机只有这么多核。",
        ),
        {"train_dataset.num_parallel_workers": cores},
        safe=True,
        back=NEWEST,
    )
