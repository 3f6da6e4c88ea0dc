"""Reads from the code of MindFormers' wheels, without running it, which keys the sections take that refuse any other:
`python tests/tables/read_sections.py WHEEL... [--write]` prints (or writes into rules/tables/config-keys.json, part
"refusing") section -> key -> releases.

Before 1.6 a section is passed to a constructor (core/parallel_config.py build_parallel_config), whose arguments it may
hold; from 1.6 on the class attributes of tools/register/template.py are the keys.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Optional

TABLE = Path(__file__).parents[2] / "rules" / "tables" / "config-keys.json"
#: class that is built from the section -> the section
BUILT = {
    "TransformerOpParallelConfig": "parallel_config",
    "TransformerRecomputeConfig": "recompute_config",
    "MoEConfig": "moe_config",
}
#: class of the template -> the section
TEMPLATE = {
    "ParallelConfig": "parallel_config",
    "RecomputeConfig": "recompute_config",
    "MoEConfig": "moe_config",
    "RunnerConfig": "runner_config",
    "SwapConfig": "swap_config",
    "MonitorConfig": "monitor_config",
}
#: what build_parallel_config sets or takes out itself, before the constructor sees the section
HANDLED = {"recompute"}


def release_of(wheel: Path) -> str:
    return wheel.name.split("-")[1]


def sections_of(wheel: Path) -> dict[str, set[str]]:
    """Section -> the keys that it may hold in one release."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        template = "mindformers/tools/register/template.py"
        if template in names:
            return _templated(archive.read(template).decode("utf-8"))
        found: dict[str, set[str]] = {}
        for name in sorted(names):
            if re.fullmatch(r"mindformers/modules/transformer/\w+\.py", name):
                for owner, keys in _constructed(archive.read(name).decode("utf-8")):
                    found.setdefault(owner, set()).update(keys)
        popped = _popped(archive.read("mindformers/core/parallel_config.py").decode("utf-8"))
        for section in found:
            found[section] = (
                (found[section] | popped.get(section, set())) - HANDLED
                if section == "parallel_config"
                else found[section]
            )
        return found


def _templated(code: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for node in ast.parse(code).body:
        if not isinstance(node, ast.ClassDef):
            continue
        values = {
            target.id: item.value
            for item in node.body
            if isinstance(item, ast.Assign)
            for target in item.targets
            if isinstance(target, ast.Name)
        }
        name = values.get("_name")
        if isinstance(name, ast.Constant) and name.value in TEMPLATE.values():
            found[str(name.value)] = {key for key in values if not key.startswith("_")}
    return found


def _constructed(code: str) -> Iterable[tuple[str, set[str]]]:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ClassDef) and node.name in BUILT:
            made = next(
                (item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"), None
            )
            if made is not None:
                yield BUILT[node.name], {arg.arg for arg in (*made.args.args, *made.args.kwonlyargs)} - {"self"}


def _popped(code: str) -> dict[str, set[str]]:
    """Keys that build_parallel_config takes out of a section before it is passed on."""
    found: dict[str, set[str]] = {}
    for section, key in re.findall(r"config\.(\w+)\.pop\(\s*['\"](\w+)['\"]", code):
        found.setdefault(section, set()).add(key)
    return found


def refusing(wheels: Iterable[Path]) -> dict[str, dict[str, str]]:
    """Section -> key -> the releases that take it, as `1.0.0-1.3.2,2.0.0`."""
    ordered = sorted(wheels, key=lambda wheel: [int(part) for part in release_of(wheel).split(".")])
    releases = [release_of(wheel) for wheel in ordered]
    takes = {release_of(wheel): sections_of(wheel) for wheel in ordered}
    found: dict[str, dict[str, str]] = {}
    for section in sorted({*BUILT.values(), *TEMPLATE.values()}):
        keys = sorted({key for release in releases for key in takes[release].get(section, ())})
        if keys:
            found[section] = {
                key: spans([key in takes[release].get(section, ()) for release in releases], releases) for key in keys
            }
    return found


def spans(have: list[bool], releases: list[str]) -> str:
    found: list[str] = []
    start: Optional[int] = None
    for place, one in enumerate([*have, False]):
        if one and start is None:
            start = place
        elif not one and start is not None:
            found.append(releases[start] if place - 1 == start else f"{releases[start]}-{releases[place - 1]}")
            start = None
    return ",".join(found)


def main(words: list[str]) -> None:
    found = refusing(Path(word) for word in words if word != "--write")
    if "--write" in words:
        table = json.loads(TABLE.read_text("utf-8"))
        table["refusing"] = found
        TABLE.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    else:
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
