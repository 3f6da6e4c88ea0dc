"""What was read from rule files is kept; stale, damaged and unwritable caches do no harm."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from doctor.match.cache import cache_folder, read_cached, write_cached
from doctor.match.pack import load_pack, rule_paths, rules_folder
from doctor.match.rulefile import RuleError
from doctor.match.shipped import NAME, shipped_rules, shipped_tables
from doctor.match.shipped import write as write_shipped
from doctor.match.tables import read_tables
from tests.match.packs import rule

ALL_RULES = rules_folder()


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own, and a copy of one origin as the rules of the program."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copytree(rules_folder() / "cann", tmp_path / "rules" / "cann")
    monkeypatch.setattr("doctor.match.pack.rules_folder", lambda: tmp_path / "rules")


def write(path: Path, number: int = 1, name: str = "test-rule") -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(rule(number, name), allow_unicode=True), encoding="utf-8")


def test_cached_rules_are_equal_to_read_ones() -> None:
    read, cached = load_pack(), load_pack()
    assert read.rules == cached.rules
    assert read.key == cached.key and read.atoms == cached.atoms
    assert list(cache_folder().glob("rules-*.json"))


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    write(folder / "a.yaml")
    before = load_pack([folder])
    assert before.get("LOG-TST-001") is not None
    write(folder / "b.yaml", 2, "second")
    after = load_pack([folder])
    assert after.get("LOG-TST-002") is not None and after.key != before.key
    (folder / "a.yaml").unlink()
    assert load_pack([folder]).get("LOG-TST-001") is None


@pytest.mark.parametrize("damage", [b"", b"rubbish", None])
def test_a_damaged_cache_is_made_anew(damage: bytes) -> None:
    rules = load_pack().rules
    for path in cache_folder().iterdir():
        whole = path.read_bytes()
        path.write_bytes(whole[:-40] + b"x" + whole[-39:] if damage is None else damage)
    assert load_pack().rules == rules


def test_an_own_rule_replaces_one_of_the_program(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    row = rule(1, "kernels-package-missing", id="LOG-CANN-002")
    (folder / "x.yaml").write_text(yaml.safe_dump(row, allow_unicode=True), encoding="utf-8")
    found = load_pack([folder]).get("LOG-CANN-002")
    assert found is not None and found.rule.title.en == "Title"


def test_a_wrong_own_rule_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    write(folder / "a.yaml")
    write(folder / "b.yaml", 2, "test-rule")
    with pytest.raises(RuleError, match="name: test-rule is taken by"):
        load_pack([folder])
    with pytest.raises(RuleError, match="no such file"):
        load_pack([tmp_path / "absent"])


def test_no_place_to_write_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    write_cached("x", b"content")
    assert read_cached("x") is None
    assert load_pack().rules


def test_a_warm_start_does_not_import_yaml(tmp_path: Path) -> None:
    script = (
        "import sys; from doctor.match.pack import load_pack; from doctor.match.tables import guess;"
        "load_pack(); list(guess('507011')); print('yaml' in sys.modules)"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    said = [
        subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        ).stdout.strip()
        for _ in range(2)
    ]
    assert said[-1] == "False", "and the first does not either where the rules are shipped as read"


def test_rules_shipped_beside_their_files_are_those_of_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "all"
    shutil.copytree(ALL_RULES, folder, ignore=shutil.ignore_patterns(NAME))
    monkeypatch.setattr("doctor.match.pack.rules_folder", lambda: folder)
    read = load_pack().rules
    assert shipped_rules(folder) is None
    write_shipped(folder)
    assert tuple(sorted(shipped_rules(folder) or (), key=lambda item: item.id)) == read
    assert shipped_tables(folder) == read_tables(folder)


@pytest.mark.parametrize("change", ["edit", "new", "gone", "damage"])
def test_a_shipped_file_that_does_not_fit_its_rules_is_not_used(tmp_path: Path, change: str) -> None:
    folder = tmp_path / "rules"
    shutil.copytree(ALL_RULES / "tables", folder / "tables")
    shipped = write_shipped(folder)
    one = next(iter(sorted((folder / "cann").glob("*.yaml"))))
    if change == "edit":
        one.write_text(one.read_text().replace("confidence: 0.", "confidence: 0.0", 1))
    elif change == "new":
        write(folder / "new.yaml")
    elif change == "gone":
        one.unlink()
    else:
        shipped.write_bytes(shipped.read_bytes()[:-30])
    assert shipped_rules(folder) is None and shipped_tables(folder) is None
    assert len(load_pack().rules) == len(rule_paths(folder))
