"""Writes the rules into one file that needs no YAML to be read, whenever the package is built."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class RulePack(BuildHookInterface):  # type: ignore[type-arg]
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        sys.path.insert(0, self.root)
        try:
            from doctor.match.shipped import write

            write(Path(self.root) / "rules")
        finally:
            sys.path.remove(self.root)
