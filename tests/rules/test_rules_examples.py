"""Every rule file of the pack stands by itself: schema, examples, ids. ``pytest tests/rules -k NAME-OR-ID``."""

from __future__ import annotations

from pathlib import Path

import pytest

from doctor.match.examples import failures
from doctor.match.pack import rule_paths, rules_folder
from doctor.match.rulefile import read_rule

FILES = rule_paths(rules_folder())
#: rule ids of an origin carry its area
AREAS = {
    "mindspore": "MS",
    "mindformers": "MF",
    "cann": "CANN",
    "hccl": "HCCL",
    "driver": "DRV",
    "data": "DATA",
    "launcher": "LNCH",
    "system": "SYS",
    "python": "PY",
    "training": None,
    "questions": "ASK",
}


def _name(path: Path) -> str:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("id:"):
            return f"{line[3:].strip()}-{path.stem}"
    return path.stem


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_rule_file(path: Path) -> None:
    item = read_rule(path)
    assert not list(failures(item))
    rule = item.rule.rule
    assert path.stem in (rule.name, rule.id), "the file is called by its rule's name"
    area = AREAS[path.parent.name]
    if area is not None:
        assert rule.id.split("-")[:2] == ["LOG", area], f"rules of {path.parent.name} are LOG-{area}-NNN"


def test_ids_and_names_are_not_shared() -> None:
    keys = [key for path in FILES for rule in [read_rule(path).rule.rule] for key in (rule.id, rule.name)]
    assert len(keys) == len(set(keys))
