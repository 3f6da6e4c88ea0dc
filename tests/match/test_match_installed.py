"""Rule packs of installed packages: found by their entry point, read without being imported."""

from __future__ import annotations

from pathlib import Path

import pytest

from doctor.match.explain import explain
from doctor.match.installed import installed_packs
from doctor.match.pack import load_pack

RULE = """\
id: LOG-ACM-{number}
name: acme-{name}
severity: error
category: other
title: {{en: Acme {name}, zh: 甲}}
why: {{en: a, zh: 甲}}
fix: {{en: a, zh: 甲}}
match:
  line: ["{line}"]
examples: {{match: ["{line}"], no_match: ["x"]}}
"""


def install(site: Path, entry: str = "acme = acme_rules.logs\n") -> Path:
    folder = site / "acme_rules" / "logs"
    folder.mkdir(parents=True)
    (site / "acme_rules" / "__init__.py").write_text("raise SystemExit('must not be imported')", encoding="utf-8")
    (folder / "one.yaml").write_text(
        RULE.format(number="001", name="one", line="acme frobnicator burst"), encoding="utf-8"
    )
    info = site / "acme_rules-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text(
        f"[console_scripts]\nacme = acme:main\n\n[mindspore_doctor.rules]\n{entry}\n[other]\nx = y\n", encoding="utf-8"
    )
    return folder


def test_the_folder_is_found(tmp_path: Path) -> None:
    folder = install(tmp_path)
    assert installed_packs([str(tmp_path), str(tmp_path / "none"), __file__]) == (folder,)


@pytest.mark.parametrize("entry", ["", "acme = acme_rules.gone\n", "= \n", "acme acme_rules.logs\n"])
def test_what_names_no_folder_is_left_out(tmp_path: Path, entry: str) -> None:
    install(tmp_path, entry)
    assert installed_packs([str(tmp_path)]) == ()


def test_its_rules_answer_and_a_wrong_file_takes_no_other_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = install(tmp_path / "site")
    (folder / "two.yaml").write_text("id: [", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = explain("E: acme frobnicator burst", pack=load_pack()).findings
    assert [item.rule for item in found] == ["LOG-ACM-001"]


def test_a_folder_of_the_project_comes_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "site")
    own = tmp_path / "own"
    own.mkdir()
    (own / "one.yaml").write_text(
        RULE.format(number="001", name="mine", line="acme frobnicator burst"), encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rule = load_pack([own]).get("LOG-ACM-001")
    assert rule is not None and rule.rule.name == "acme-mine"
