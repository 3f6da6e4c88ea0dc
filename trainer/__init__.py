"""The built-in MindSpore trainer. MindSpore is imported here and nowhere else in the program.

What a script uses is loaded on first use, so that reading a config costs no import of MindSpore::

    from doctor.trainer import Trainer, TrainingArguments
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from doctor.trainer.arguments import TrainingArguments

__all__ = ["TrainingArguments"]

_HOMES = {"TrainingArguments": "doctor.trainer.arguments"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'doctor.trainer' has no attribute {name!r}")
