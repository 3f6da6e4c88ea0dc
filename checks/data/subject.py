"""What the data checks judge. No format is recognised yet: every path is left to the other families."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

from doctor.check import Options
from doctor.errors import UsageError
from doctor.finding import Text


def recognises(path: Path) -> bool:
    """Whether `path` is a data set."""
    return False


def load(path: Optional[Path], options: Options) -> Any:
    """Raises UsageError: no data format is read yet."""
    raise UsageError(Text(f"{path}: no known data set.", f"{path}：不是已知的数据集。"))


def facts(subject: Any) -> dict[str, Any]:
    """Of the data set."""
    return {}
