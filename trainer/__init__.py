"""The built-in MindSpore trainer. MindSpore is imported here and nowhere else in the program.

What a script uses is loaded on first use, so that reading a config costs no import of MindSpore::

    from doctor.trainer import Trainer, TrainingArguments

    Trainer(
        task="text_generation",
        model={"type": "llama", "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 257},
        args=TrainingArguments(max_steps=50, learning_rate=3e-3),
        train_dataset={"data_loader": {"type": "Json", "dataset_dir": "data.jsonl"}, "max_length": 64},
    ).train()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from doctor.trainer.arguments import LossScale, TrainingArguments
    from doctor.trainer.auto import AutoModelForCausalLM, AutoTokenizer, ModelLoader
    from doctor.trainer.callbacks import Callback
    from doctor.trainer.summary import SummaryCollector
    from doctor.trainer.training import Trainer, build_dataset

__all__ = [
    "AutoModelForCausalLM",
    "AutoTokenizer",
    "Callback",
    "LossScale",
    "ModelLoader",
    "SummaryCollector",
    "Trainer",
    "TrainingArguments",
    "build_dataset",
]

_HOMES = {
    "AutoModelForCausalLM": "auto",
    "AutoTokenizer": "auto",
    "Callback": "callbacks",
    "LossScale": "arguments",
    "ModelLoader": "auto",
    "SummaryCollector": "summary",
    "Trainer": "training",
    "TrainingArguments": "arguments",
    "build_dataset": "training",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'doctor.trainer' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"doctor.trainer.{_HOMES[name]}"), name)
