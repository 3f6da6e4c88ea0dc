"""A config with some settings changed, as text: its own, comments and layout kept, where that can be edited as meant."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from doctor.finding import Edit
from doctor.plan.edit import edit_text
from doctor.plan.reader import parse
from doctor.trainer.config import RunConfig


def edited(config: RunConfig, edits: Mapping[str, Any]) -> tuple[str, str]:
    """The config's text before and after: its own, with comments and layout, where that can be edited as meant; else the
    sections written anew. `edits` are dotted keys with their new values."""
    if config.text is not None:
        wanted = [Edit(config.source, key, at(config.raw, key), value) for key, value in edits.items()]
        text = edit_text(config.text, wanted)
        read = parse(text.encode("utf-8"), Path(config.source)).root.plain()
        if all(at(read, key) == value for key, value in edits.items()):
            return config.text, text
    changed = _copy(config.raw)
    for key, value in edits.items():
        *parents, last = key.split(".")
        section = changed
        for name in parents:
            inner = section.get(name)
            section[name] = inner if isinstance(inner, dict) else {}
            section = section[name]
        section[last] = value
    return _dump(config.raw), _dump(changed)


def at(raw: Mapping[str, Any], key: str) -> Any:
    """The value under a dotted key, or None."""
    here: Any = raw
    for name in key.split("."):
        here = here.get(name) if isinstance(here, Mapping) else None
    return here


def batch_key(config: RunConfig) -> str:
    """The key that holds the batch size of a device, or would."""
    if config.dataset.batch_size:
        return "train_dataset.batch_size"
    return f"training_args.{config.spelled('per_device_train_batch_size')}"


def _dump(raw: Mapping[str, Any]) -> str:
    return yaml.safe_dump(_copy(raw), sort_keys=False, allow_unicode=True)


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, (list, tuple)) else value
