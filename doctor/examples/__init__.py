"""Packaged examples, found by name: ``doctor train tiny-llama``, ``doctor check tiny-llama``."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

FOLDER = Path(__file__).parent


def examples() -> dict[str, Path]:
    """The files of the examples by their names, in the order of the names."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.yaml"))}


def example(name: str) -> Optional[Path]:
    """The file of the example called `name`, or None. Names are plain words: nothing outside the folder is found."""
    return examples().get(name)
