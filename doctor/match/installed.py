"""Rule packs that installed Python packages bring along, found by an entry point and read without importing them.

A package says in its ``pyproject.toml`` where its rule files stand::

    [project.entry-points."mindspore_doctor.rules"]
    acme = "acme_rules.logs"        # the folder acme_rules/logs beside the package's modules
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Optional

GROUP = "mindspore_doctor.rules"
_GROUP = re.compile(rf"^\[\s*{re.escape(GROUP)}\s*\]\s*$(?P<lines>(?:\n(?!\[).*)*)", re.MULTILINE)
_LINE = re.compile(r"^\s*[\w.-]+\s*=\s*(?P<module>[A-Za-z_][\w.]*)", re.MULTILINE)


def installed_packs(path: Optional[Sequence[str]] = None) -> tuple[Path, ...]:
    """The folders of rules that the distributions on `path` (the interpreter's own by default) name, in a fixed order;
    one that is not there is left out."""
    found: dict[str, Path] = {}
    for entry in sys.path if path is None else path:
        for text in _entry_points(entry or os.curdir):
            for group in _GROUP.finditer(text):
                for line in _LINE.finditer(group["lines"]):
                    folder = Path(entry or os.curdir, *line["module"].split("."))
                    if line["module"] not in found and folder.is_dir():
                        found[line["module"]] = folder
    return tuple(found[name] for name in sorted(found))


def _entry_points(folder: str) -> Iterator[str]:
    """The texts of entry_points.txt below a folder of installed packages that speak of our group."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith((".dist-info", ".egg-info")))
    except OSError:  # a zip file, or not there
        return
    for name in names:
        try:
            with open(os.path.join(folder, name, "entry_points.txt"), "rb") as file:
                raw = file.read()
        except OSError:
            continue
        if GROUP.encode() in raw:
            yield raw.decode("utf-8", "replace")
