"""The two READMEs: the same commands, the same sections, pictures that are there; the hook for pre-commit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
if not (ROOT / "README.zh.md").exists():
    pytest.skip("not a checkout", allow_module_level=True)
ENGLISH, CHINESE = ((ROOT / name).read_text("utf-8") for name in ("README.md", "README.zh.md"))


def blocks(text: str) -> dict[str, str]:
    return dict(re.findall(r"<!-- command: (\w+) -->\n```sh\n(.*?)```", text, re.DOTALL))


def test_both_name_the_same_two_commands() -> None:
    assert blocks(ENGLISH) == blocks(CHINESE) and set(blocks(ENGLISH)) == {"demo", "test"}


def test_both_have_the_same_sections_and_commands() -> None:
    assert len(re.findall(r"^## ", ENGLISH, re.MULTILINE)) == len(re.findall(r"^## ", CHINESE, re.MULTILINE))
    for text, other in ((ENGLISH, CHINESE), (CHINESE, ENGLISH)):
        for command in set(re.findall(r"`(doctor [a-z]+)", text)):
            assert command in other, command


def test_pictures_and_links_are_there() -> None:
    for text in (ENGLISH, CHINESE):
        for name in re.findall(r"\]\(([^):]+)\)", text):
            assert (ROOT / name).exists(), name


def test_the_chinese_one_is_punctuated_as_chinese() -> None:
    prose = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", "", CHINESE, flags=re.DOTALL)
    slips = re.findall(r"[\u4e00-\u9fff][,;:?!](?:\s|[\u4e00-\u9fff]|$)", prose)
    assert not slips


def test_the_hook_judges_yaml_with_a_command_that_is_there() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["id"] == "doctor-check" and hook["types"] == ["yaml"] and hook["entry"].startswith("doctor check")


def test_a_hook_passes_foreign_yaml_and_stops_a_faulty_config(doctor, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "ci.yaml").write_text("on: push\njobs: {a: {steps: []}}\n")
    config = (ROOT / "tests" / "benchmarks" / "llama2_7b.yaml").read_text()
    (tmp_path / "run.yaml").write_text(config.replace("num_heads: 32", "num_heads: 30"))
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    words = hook["entry"].split()[1:]
    assert doctor(*words, str(tmp_path / "ci.yaml")).returncode == 0
    assert doctor(*words, str(tmp_path / "ci.yaml"), str(tmp_path / "run.yaml")).returncode == 1
