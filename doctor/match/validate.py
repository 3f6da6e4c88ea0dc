"""`doctor rules check`: is a rule pack right by itself? Every file is looked at, not only the first wrong one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from doctor.match.examples import failures
from doctor.match.pack import rule_paths
from doctor.match.rulefile import RuleError, read_rule
from doctor.match.textrule import RuleFile


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with one file."""

    path: str
    what: str


def check_pack(folder: Path) -> tuple[list[RuleFile], list[Fault]]:
    """The readable rule files under `folder`, and all faults in the order of files."""
    files: list[RuleFile] = []
    faults: list[Fault] = []
    owners: dict[str, str] = {}
    for path in rule_paths(folder):
        try:
            item = read_rule(path)
        except RuleError as error:
            faults.append(Fault(str(path), f"{error.key}: {error.fault}" if error.key else error.fault))
            continue
        files.append(item)
        faults.extend(Fault(str(path), what) for what in failures(item))
        for key in (item.rule.id, item.rule.rule.name):
            other = owners.setdefault(key, str(path))
            if other != str(path):
                faults.append(Fault(str(path), f"{key} is taken by {other}"))
    return files, faults


def unknown_consequences(files: Iterable[RuleFile], known: Iterable[str]) -> list[Fault]:
    """`explains` entries that name no rule and no category."""
    names = set(known)
    return [
        Fault(item.rule.path, f"explains: {name!r} is no rule id, no rule name and no category")
        for item in files
        for name in item.rule.rule.explains
        if name not in names
    ]
