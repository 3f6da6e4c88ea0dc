"""The JSON Schemas of the output: ``report-1.json`` for reports, ``event-1.json`` for a line of watch."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any


def load(name: str) -> dict[str, Any]:
    """The schema called `name` (report-1, event-1)."""
    text = resources.files(__name__).joinpath(f"{name}.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
