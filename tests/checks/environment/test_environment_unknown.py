"""What is not known is skipped: a part taken out of a document neither passes a check nor raises a finding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from doctor import registry
from doctor.check import Check, Skip
from doctor.checks.environment.host import from_document
from doctor.checks.environment.subject import Inspection

HOSTS = sorted((Path(__file__).resolve().parents[2] / "fixtures" / "hosts").glob("*.json"))
CHECKS = {check.rule.id: check for check in registry.checks("environment")}

#: (rule, part): the rule still judges by another part that says the same
JUDGED_OTHERWISE = {
    ("ENV-CANN-002", "cann"),  # MindSpore's version is judged too
    ("ENV-LAUN-004", "devices"),  # the rank table by itself
}
#: (rule, part): the part is what kept the finding away
EXCUSED = {("ENV-DRV-001", "driver")}


def state(check: Check[Any], facts: dict[str, Any]) -> str:
    host = from_document(facts, "")
    assert host is not None
    try:
        return "found" if list(check(Inspection((host,), (facts,)))) else "passed"
    except Skip as skip:
        assert skip.reason.en and skip.reason.zh
        return "skipped"


def judge(rule: str, facts: dict[str, Any]) -> list[str]:
    host = from_document(facts, "")
    assert host is not None
    return [finding.title.en for finding in CHECKS[rule](Inspection((host,), (facts,)))]


def test_a_tool_that_cannot_be_started_is_told_on_any_machine() -> None:
    """A script of another format on the PATH is not "no npu-smi": somebody meant it to run."""
    npu = {
        "devices": [],
        "error": "npu-smi could not be started: [Errno 8] Exec format error",
        "error_kind": "not-startable",
    }
    assert judge("ENV-NPU-005", {"npu": npu}) == ["npu-smi cannot be run on this machine"]


@pytest.mark.parametrize(("exists", "is_folder"), [(False, False), (True, False)])
def test_a_home_folder_that_is_none(exists: bool, is_folder: bool) -> None:
    disk = {"path": "/gone", "purpose": "home", "exists": exists, "is_folder": is_folder, "writable": exists or None}
    root = {"path": "/", "purpose": "root", "exists": True, "is_folder": True, "writable": False}
    assert judge("ENV-SYS-002", {"host": {"disks": [root, disk]}}) == ["/gone (home) is not writable"]


def test_a_single_reading_of_the_version_is_compared_with_nothing() -> None:
    """The package record is empty: only the folder's name is left, which agrees with itself."""
    cann = {"version": "8.2.RC1", "path": "/c", "readings": [{"source": "/c/8.2.RC1", "version": "8.2.RC1"}]}
    assert state(CHECKS["ENV-CANN-008"], {"cann": cann}) == "skipped"


@pytest.mark.parametrize(
    ("env", "titles"),
    [
        ({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "99999"}, ["Launcher variables: MASTER_PORT=99999 is not a port"]),
        ({"WORLD_SIZE": "eight"}, ["Launcher variables: WORLD_SIZE=eight is not a number of workers"]),
        ({"MASTER_PORT": "29500", "WORLD_SIZE": "8"}, []),
    ],
)
def test_variables_of_other_launchers(env: dict[str, str], titles: list[str]) -> None:
    assert judge("ENV-LAUN-001", {"env": env, "host": {}}) == titles


@pytest.mark.parametrize(
    ("error", "title"),
    [
        (
            "npu-smi: error while loading shared libraries: libc_sec.so: cannot open shared object file",
            "libc_sec.so is not found",
        ),
        (
            "npu-smi: /lib64/libc.so.6: version `GLIBC_2.28' not found (required by npu-smi)",
            "libc.so.6 lacks GLIBC_2.28",
        ),
        ("npu-smi: symbol lookup error: /usr/lib64/libdcmi.so: undefined symbol: dcmi_x", "libdcmi.so lacks a symbol"),
    ],
)
def test_libraries_that_npu_smi_misses(error: str, title: str) -> None:
    npu = {"devices": [], "error": error, "error_kind": "library-missing"}
    assert judge("ENV-NPU-003", {"npu": npu}) == [f"npu-smi does not start: {title}"]


@pytest.mark.parametrize(
    ("rule", "second", "expected"),
    [
        ("ENV-NPU-011", {"health": None}, "skipped"),
        ("ENV-NPU-011", {"health": "NA"}, "skipped"),
        ("ENV-NPU-011", {"health": "Offline"}, "found"),
        ("ENV-NPU-010", {"memory_used_mb": None}, "skipped"),
        ("ENV-NPU-010", {"memory_used_mb": 60000}, "found"),
    ],
)
def test_one_card_that_tells_nothing_is_not_called_well(rule: str, second: dict[str, Any], expected: str) -> None:
    card = {"npu_id": 0, "name": "910B3", "health": "OK", "memory_used_mb": 3300, "memory_total_mb": 65536}
    facts = {"npu": {"devices": [card, {**card, "npu_id": 1, **second}]}}
    assert state(CHECKS[rule], facts) == expected


def load(path: Path) -> tuple[dict[str, Any], list[str]]:
    document = json.loads(path.read_text(encoding="utf-8"))
    return document["facts"], sorted(document["expect"])


@pytest.mark.parametrize("path", HOSTS, ids=lambda path: path.stem)
def test_a_finding_without_its_part_is_not_a_pass(path: Path) -> None:
    facts, rules = load(path)
    for part in facts:
        rest = {key: value for key, value in facts.items() if key != part}
        for rule in rules:
            if state(CHECKS[rule], rest) == "passed":
                assert (rule, part) in JUDGED_OTHERWISE, f"{rule} passes without {part}"


@pytest.mark.parametrize("name", ["fresh_800t_a2", "a3_superpod_node", "container_without_devices", "old_910"])
def test_a_part_that_is_missing_raises_nothing(name: str) -> None:
    path = next(path for path in HOSTS if name in path.stem)
    facts, rules = load(path)
    for part in facts:
        rest = {key: value for key, value in facts.items() if key != part}
        found = {rule for rule, check in CHECKS.items() if state(check, rest) == "found"}
        assert {(rule, part) for rule in found - set(rules)} <= EXCUSED


@pytest.mark.parametrize(
    "facts",
    [
        {"host": {}},
        {"host": None, "python": None, "packages": None, "cann": None, "driver": None, "npu": None},
        {"driver": {"version": "25.5.0"}},
        {"driver": {"version": "25.5.0"}, "npu": {"devices": [], "error": None}},
    ],
)
def test_a_document_that_says_nothing_passes_nothing(facts: dict[str, Any]) -> None:
    assert [rule for rule, check in CHECKS.items() if state(check, facts) != "skipped"] == []


@pytest.mark.parametrize(
    ("packages", "titles"),
    [
        ({"mindspore": "2.7.2"}, ["mindspore 2.7.2 needs numpy; it is not installed"]),
        (
            {"mindspore": "2.7.2", "numpy": "1.18.5"},
            ["mindspore 2.7.2 needs numpy>=1.20.0,<2.0.0; installed is 1.18.5"],
        ),
        ({"mindspore": "2.7.2", "numpy": "1.26.4"}, []),
        ({"mindspore": "2.7.2", "numpy": "2.1.0"}, []),  # told by ENV-PKG-001
    ],
)
def test_numpy_that_is_missing_or_too_old(packages: dict[str, str], titles: list[str]) -> None:
    distributions = {"mindspore": {"version": "2.7.2", "requires": ["numpy>=1.20.0,<2.0.0"]}}
    facts = {"packages": packages, "distributions": distributions, "python": {"version": "3.11.4"}}
    assert judge("ENV-PKG-002", facts) == titles


def test_mindformers_without_mindspore() -> None:
    distributions = {"mindformers": {"version": "1.8.0", "requires": ["mindspore~=2.7.2"]}}
    facts = {"packages": {"mindformers": "1.8.0"}, "distributions": distributions, "python": {"version": "3.11.4"}}
    assert judge("ENV-PKG-002", facts) == ["mindformers 1.8.0 needs mindspore; it is not installed"]
