"""Reads from the code of MindFormers' wheels, without running it, what rules/tables/mindformers-names.json says of the
constructors of its classes. `python tests/tables/read_mindformers.py WHEEL... [--write]` prints (or writes into the table)
the arguments of the kinds in `KINDS`, all releases together.

read_names.py reads the registered names by release, read_sections.py the keys of sections that refuse any other. The
rest (MindSpore's own names, those of research folders; kinds and bounds of settings in config-keys.json) was read once
from the same wheels and from the YAML files of the repository, as the tables' `source` says; tests/checks/config/test_config_official.py holds both against every official YAML.
"""

from __future__ import annotations

import ast
import json
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Optional

TABLE = Path(__file__).parents[2] / "rules" / "tables" / "mindformers-names.json"
#: kind in the table -> member of MindFormerModuleType
KINDS = {"config": "CONFIG"}


def constructors(code: str, member: str) -> Iterator[tuple[str, list[str]]]:
    """The classes of a module that are registered as a kind, with their constructor's arguments."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ClassDef) and any(_registers(item, member) for item in node.decorator_list):
            made = next(
                (item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"), None
            )
            if made is not None:
                names = [arg.arg for arg in (*made.args.posonlyargs, *made.args.args, *made.args.kwonlyargs)]
                yield node.name, [name for name in names if name != "self"]


def _registers(decorator: ast.expr, member: str) -> bool:
    if not isinstance(decorator, ast.Call) or not decorator.args:
        return False
    first = decorator.args[0]
    return isinstance(first, ast.Attribute) and first.attr == member


def arguments_of(wheels: Iterable[Path], kind: str) -> dict[str, str]:
    """Class -> its arguments in any of the releases, in order of the alphabet, in one line."""
    found: dict[str, set[str]] = {}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.startswith("mindformers/") and name.endswith(".py"):
                    code = archive.read(name).decode("utf-8")
                    if KINDS[kind] in code:
                        for owner, names in constructors(code, KINDS[kind]):
                            found.setdefault(owner, set()).update(names)
    return {owner: " ".join(sorted(names)) for owner, names in sorted(found.items()) if names}


def main(words: list[str]) -> Optional[str]:
    wheels = [Path(word) for word in words if word != "--write"]
    table = json.loads(TABLE.read_text("utf-8"))
    for kind in KINDS:
        table["arguments"][kind] = arguments_of(wheels, kind)
    if "--write" in words:
        return written(table)
    print(json.dumps({kind: table["arguments"][kind] for kind in KINDS}, indent=1))
    return None


def written(table: dict[str, object]) -> str:
    """The table as it is kept: one space of indentation, lists on one line."""
    lists: list[str] = []

    def folded(value: object) -> object:
        if isinstance(value, list):
            lists.append(json.dumps(value, ensure_ascii=False))
            return f"\0{len(lists) - 1}\0"
        return {key: folded(item) for key, item in value.items()} if isinstance(value, dict) else value

    text = json.dumps(folded(table), indent=1, ensure_ascii=False)
    for number, line in enumerate(lists):
        text = text.replace(f'"\\u0000{number}\\u0000"', line)
    TABLE.write_text(text + "\n", encoding="utf-8")
    return text


if __name__ == "__main__":
    main(sys.argv[1:])
