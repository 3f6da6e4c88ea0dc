"""The references made with torch (references/make.py), as values."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

REFERENCES = Path(__file__).parent / "references"


def _maker() -> Any:
    """`references/make.py`, for the rule by which it filled the weights."""
    spec = importlib.util.spec_from_file_location("make_references", REFERENCES / "make.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Reference:
    """One file of `references/make.py`."""

    name: str
    config: dict[str, Any]
    weights: dict[str, Any]
    gradients: dict[str, Any]
    ids: Any
    logits: Any
    loss: float

    @classmethod
    def load(cls, name: str) -> Reference:
        made = _maker()
        with np.load(REFERENCES / f"{name}.npz") as file:
            shapes = json.loads(str(file["shapes"]))
            return cls(
                name=name,
                config=json.loads(str(file["config"])),
                weights={key: made.values(key, tuple(shape)) for key, shape in shapes.items()},
                gradients={key: file[f"gradient.{key}"] for key in shapes},
                ids=made.ids().astype(np.int32),
                logits=file["logits"],
                loss=float(file["loss"]),
            )

    @staticmethod
    def path(name: str) -> Path:
        return REFERENCES / f"{name}.npz"
