"""Reads from the code of MindFormers' wheels, without running it, which classes each release registers:
`python tests/tables/read_names.py WHEEL... [--write]` prints (or writes into rules/tables/mindformers-names.json, part
"registered") kind -> name -> releases.

`model_type` is no kind of the register (transformers' AutoConfig holds it) and stays as it was read by hand.
"""

from __future__ import annotations

import ast
import json
import sys
import warnings
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from read_mindformers import TABLE, written
from read_sections import release_of, spans

#: kind in the table -> member of MindFormerModuleType
KINDS = {
    "callback": "CALLBACK",
    "config": "CONFIG",
    "dataset": "DATASET",
    "dataset_loader": "DATASET_LOADER",
    "loss": "LOSS",
    "lr": "LR",
    "metric": "METRIC",
    "models": "MODELS",
    "optimizer": "OPTIMIZER",
    "processor": "PROCESSOR",
    "tokenizer": "TOKENIZER",
    "trainer": "TRAINER",
    "transforms": "TRANSFORMS",
    "wrapper": "WRAPPER",
}


def registered(code: str) -> Iterator[tuple[str, str]]:
    """Kind and name of every class or function that a module registers, by its alias where it has one."""
    kinds = {member: kind for kind, member in KINDS.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some modules have odd escapes in their texts
        tree = ast.parse(code)
    for node in ast.walk(tree):
        if not isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            continue
        for item in node.decorator_list:
            if not isinstance(item, ast.Call) or not item.args or not isinstance(item.args[0], ast.Attribute):
                continue
            kind = kinds.get(item.args[0].attr)
            aliases = [word.value for word in item.keywords if word.arg == "alias"]
            name = next((alias.value for alias in aliases if isinstance(alias, ast.Constant)), node.name)
            if kind is not None:
                yield kind, str(name)


def names_of(wheels: Iterable[Path]) -> dict[str, dict[str, str]]:
    """Kind -> name -> the releases that register it."""
    ordered = sorted(wheels, key=lambda wheel: [int(part) for part in release_of(wheel).split(".")])
    releases = [release_of(wheel) for wheel in ordered]
    found: dict[str, dict[str, set[str]]] = {}
    for wheel in ordered:
        with zipfile.ZipFile(wheel) as archive:
            for path in archive.namelist():
                if not path.startswith("mindformers/") or not path.endswith(".py"):
                    continue
                code = archive.read(path).decode("utf-8")
                if "MindFormerModuleType" in code:
                    for kind, name in registered(code):
                        found.setdefault(kind, {}).setdefault(name, set()).add(release_of(wheel))
    return {
        kind: {name: spans([release in have for release in releases], releases) for name, have in sorted(names.items())}
        for kind, names in sorted(found.items())
    }


def main(words: list[str]) -> None:
    found = names_of(Path(word) for word in words if word != "--write")
    if "--write" not in words:
        print(json.dumps(found, indent=1))
        return
    table = json.loads(TABLE.read_text("utf-8"))
    table["registered"].update(found)
    written(table)


if __name__ == "__main__":
    main(sys.argv[1:])
