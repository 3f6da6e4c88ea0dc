"""doctor: checks, watches and explains LLM training with MindSpore and MindFormers on Ascend NPUs.

The Python face is three functions that return what the commands print, as objects::

    from doctor import check, explain, watch

They are loaded on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from doctor.api import check, explain, watch

__version__ = "0.1.0"
__all__ = ["__version__", "check", "explain", "watch"]


def __getattr__(name: str) -> Any:
    if name in {"check", "explain", "watch"}:
        # by name, so that nothing below this package seems to depend on the commands
        return getattr(importlib.import_module("doctor.api"), name)
    raise AttributeError(f"module 'doctor' has no attribute {name!r}")
