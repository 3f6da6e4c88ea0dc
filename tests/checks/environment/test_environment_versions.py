"""Version order, requirements, the table and the solver, against what the field says."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import resources

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from packaging.markers import Marker
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from doctor.checks.environment import pairing, requirements, versions
from doctor.checks.environment.compatibility import BEYOND, NEWER, OK, OLDER, mindspore_cann
from doctor.checks.environment.host import from_document
from doctor.checks.environment.python_checks import python_version_unsupported
from doctor.checks.environment.solver import Installed, Solution, fixes, python_fits, solve
from doctor.checks.environment.subject import Inspection
from doctor.checks.environment.version_checks import mindformers_mindspore_mismatch

TABLE = pairing.table()
A2 = TABLE.card("910B3")

# ------------------------------------------------------------------------------- order

CANN_ORDER = [
    "5.0.1",
    "5.0.4",
    "5.1.RC1",
    "5.1.RC2",
    "6.0.RC1",
    "6.0.1",
    "6.3.RC1",
    "6.3.RC3",
    "7.0.RC1",
    "7.0.0",
    "7.0.1",
    "8.0.T63",
    "8.0.RC1",
    "8.0.RC2.alpha001",
    "8.0.rc2",
    "8.0.RC3.beta1",
    "8.0.RC3",
    "8.0.0",
    "8.1.rc1",
    "8.2.RC1",
    "8.2.RC2",
    "8.3.RC1",
    "8.5.T5.0.B029",
    "8.5.0",
    "8.5.2",
    "9.0.0-beta.1",
    "9.0.0-beta.2",
    "9.0.0",
    "9.1.0-beta.3",
    "9.1.0",
    "9.2.0",
]
DRIVER_ORDER = [
    "21.0.4",
    "22.0.0.2",
    "23.0.rc2",
    "23.0.rc2.3",
    "23.0.rc3",
    "23.0.0",
    "23.0.7",
    "24.1.rc1",
    "24.1.RC3",
    "24.1.rc3.7",
    "24.1.0",
    "24.1.0.3",
    "25.0.RC1",
    "25.2.0",
    "25.5.2",
    "25.6.rc1.b169",
    "25.7.rc1.7",
    "26.0.rc2",
    "26.1.0",
]


@pytest.mark.parametrize("order", [CANN_ORDER, DRIVER_ORDER], ids=["cann", "driver"])
def test_order_of_releases(order: list[str]) -> None:
    keys = [versions.release_key(name) for name in order]
    assert None not in keys
    assert keys == sorted(keys) and len(set(keys)) == len(keys)  # type: ignore[type-var]


def test_spellings_of_one_release() -> None:
    assert versions.same_release("8.0.RC3.beta1", "8.0.rc3")
    assert versions.same_release("7.0.0.beta1", "7.0.0")
    assert versions.same_release("8.5", "8.5.0")
    assert not versions.same_release("8.0.RC3", "8.0.0")
    assert not versions.same_release("", "8.0.0")


PARTS = st.sampled_from(["1", "2.0", "2.7.0", "2.7.1", "2.10.0", "1.26.4", "3.20.3", "0.4", "2.7.1.2"])
SUFFIX = st.sampled_from(
    ["", "rc1", "rc2", "a1", "b3", ".post1", ".dev2", "rc1.dev3", "-rc1", "+local.1", ".post2.dev1"]
)


@given(PARTS, SUFFIX, PARTS, SUFFIX)
def test_package_order_is_that_of_pep_440(a: str, suffix_a: str, b: str, suffix_b: str) -> None:
    first, second = a + suffix_a, b + suffix_b
    mine = versions.package_key(first), versions.package_key(second)
    assert mine[0] is not None and mine[1] is not None
    theirs = [Version(text.split("+")[0]) for text in (first, second)]
    assert (mine[0] < mine[1]) == (theirs[0] < theirs[1])
    assert (mine[0] == mine[1]) == (theirs[0] == theirs[1])


@given(
    PARTS,
    SUFFIX,
    st.sampled_from(["==", "!=", ">=", "<=", ">", "<", "~="]),
    PARTS,
    st.sampled_from(["", "rc1", ".post1"]),
)
def test_specifiers_are_those_of_pep_440(
    version: str, suffix: str, operator: str, bound: str, bound_suffix: str
) -> None:
    if operator == "~=" and "." not in bound:
        return
    installed = version + suffix.split("+")[0]
    wanted = f"{operator}{bound}{bound_suffix}"
    assert versions.satisfies(installed, wanted) == SpecifierSet(wanted).contains(Version(installed), prereleases=True)


@given(st.text(max_size=20))
def test_no_version_raises(text: str) -> None:
    versions.release_key(text)
    versions.satisfies(text, ">=1.0")
    versions.satisfies("1.0", text)
    try:
        Version(text)
    except InvalidVersion:
        return
    assert versions.package_key(text) is not None


ENVIRONMENT = {
    "python_version": "3.11",
    "python_full_version": "3.11.4",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "os_name": "posix",
    "platform_machine": "aarch64",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
}


@pytest.mark.parametrize(
    "marker",
    [
        'python_version < "3.9"',
        'python_version >= "3.10"',
        "sys_platform == 'linux' and platform_machine == 'aarch64'",
        "sys_platform == 'win32' or (python_version > '3.8' and os_name == 'posix')",
        "platform_machine in 'aarch64 arm64'",
        "platform_machine not in 'x86_64'",
        "extra == 'train'",
        "python_version >= '3.8' and extra == 'dev'",
        "implementation_name != 'pypy'",
    ],
)
def test_markers(marker: str) -> None:
    assert requirements.applies(marker, ENVIRONMENT) == Marker(marker).evaluate({**ENVIRONMENT, "extra": ""})


@pytest.mark.parametrize(
    "marker",
    [
        "",
        "x",
        "python_version <",
        "(python_version > '3'",
        "unknown == '1'",
        "'a' ~ 'b'",
        "((((",
        "python_version > '3.8' 'x'",
    ],
)
def test_markers_that_cannot_be_read(marker: str) -> None:
    assert requirements.applies(marker, ENVIRONMENT) is None


def test_requirements() -> None:
    read = requirements.parse
    assert read("numpy<2.0.0,>=1.20.0") == requirements.Requirement("numpy", "<2.0.0,>=1.20.0")
    assert read("rouge_chinese (>=1.0.3)") == requirements.Requirement("rouge-chinese", ">=1.0.3")
    assert read('torch[x]>=2.2 ; extra == "torch"') == requirements.Requirement("torch", ">=2.2", 'extra == "torch"')
    assert read("pkg @ https://example.org/x.whl") is None
    assert read("???") is None


# ------------------------------------------------------------------------------- table


def test_each_row_has_source_date_and_confidence() -> None:
    for section, rows in TABLE.sections.items():
        assert rows, section
        for row in rows:
            assert len(row.source) > 10, row
            assert row.text("date") and row.text("date")[:2] == "20"  # type: ignore[index]
            assert row.confidence in pairing.CONFIDENCES


@pytest.mark.parametrize("missing", ["source", "date", "confidence"])
def test_a_row_without_them_is_refused(missing: str) -> None:
    row = {"version": "2.7.2", "cann": ["8.5.0"], "source": "x", "date": "2026-11-29", "confidence": "high"}
    text = 'snapshot: "2026-11-29"\nmindspore:\n  - ' + json.dumps({k: v for k, v in row.items() if k != missing})
    with pytest.raises(ValueError, match=missing):
        pairing.parse_table(text)


def test_the_table_is_yaml() -> None:
    loaded = yaml.safe_load((resources.files("doctor.rules") / pairing.TABLE).read_bytes())
    assert loaded.pop("snapshot") == TABLE.snapshot
    assert loaded == {name: [dict(row.values) for row in rows] for name, rows in TABLE.sections.items()}


@pytest.mark.parametrize("text", ["mindspore:\n  - {version: 1}\n", "mindspore: 3\n", "mindspore:\n  version: 1\n"])
def test_a_table_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"version-pairing.yaml:\d"):
        pairing.parse_table(text)


def test_confidence_is_one_of_three() -> None:
    with pytest.raises(ValueError, match="confidence"):
        pairing.Row("mindspore", {"source": "x", "date": "2026", "confidence": "sure"})


@pytest.mark.parametrize(
    ("internal", "public"),
    [
        ("7.6.0.1.220", "8.0.0"),
        ("7.6", "8.0.0"),
        ("7.1.0.3.220", "7.0.0"),
        ("7.3.0.1.231", "8.0.RC2"),
        ("6.4.12.1.241", "6.3.RC2"),
        ("1.84.15.1.310", "6.0.1"),
        ("8.5.0.1.215", "8.5"),
        ("9.4.0", "9.4"),
        ("5.9.1", None),
        ("", None),
    ],
)
def test_internal_numbers(internal: str, public: str | None) -> None:
    assert TABLE.public_cann(internal) == public


def test_every_paired_cann_can_be_shown_or_is_old() -> None:
    for name in TABLE.known_cann():
        shown = TABLE.shown(name)
        key = versions.release_key(name)
        assert key is not None
        assert shown is not None or key < versions.release_key("8.0.RC2")  # type: ignore[operator]


@pytest.mark.parametrize(
    ("name", "memory", "physical", "family"),
    [
        ("910B3", 65536, False, "A2"), ("910B4-1", 65536, False, "A2"), ("910B", 32768, False, "910"), ("910B", 65536, False, "A2"),
        ("910ProB", 32768, False, "910"), ("Ascend910", 65536, True, "A3"), ("Ascend910", 32768, False, "910"), ("Ascend910B2C", 65536, False, "A2"),
        ("310P3", 21534, False, "310P"), ("310", 8192, False, "310"), ("310B4", 15609, False, "310B"), ("Ascend950PR", 131072, False, "950"), ("xxx", 32768, False, None),
    ],
)  # fmt: skip
def test_families_of_cards(name: str, memory: int, physical: bool, family: str | None) -> None:
    card = TABLE.card(name, memory, physical)
    assert (card.family if card else None) == family


# ------------------------------------------------------------------------------- pairs


@pytest.mark.parametrize(
    ("mindspore", "cann", "state"),
    [
        ("2.2.10", "7.0.0", OK), ("2.2.10", "7.0.0.beta1", OK), ("2.2.10", "7.0.RC1", OLDER), ("2.2.10", "6.3.RC2", OLDER), ("2.2.0", "7.0.RC1", OK),
        ("2.4.10", "8.0.0", OK), ("2.5.0", "8.0.0", OK), ("2.7.0", "8.1.RC1", OK), ("2.7.0", "8.5.0", NEWER), ("2.7.2", "8.5.0", OK), ("2.7.2", "8.5.2", OK),
        ("2.7.2", "8.3.RC1", OLDER), ("2.9.0", "9.0.0-beta.2", OK), ("2.9.0", "8.5.0", OK), ("2.10.0", "8.0.0", OLDER), ("2.10.0", "9.9.0", BEYOND),
        ("2.7.1.post1", "8.3.RC1", OK), ("1.10.1", "6.0.1", OK), ("3.1.0", "9.1.0", BEYOND),
    ],
)  # fmt: skip
def test_mindspore_and_cann(mindspore: str, cann: str, state: str) -> None:
    assert mindspore_cann(TABLE, mindspore, cann).state == state


def test_the_installed_list_is_believed_before_the_table() -> None:
    assert mindspore_cann(TABLE, "2.7.2", "8.2.RC1", None, ("8.2", "8.5")).state == OK
    assert mindspore_cann(TABLE, "2.7.2", "8.2.RC1", None, ("8.5",)).state == OLDER
    verdict = mindspore_cann(TABLE, "9.9.9", "8.0.0", "7.6", ("8.5", "9.1"))
    assert (verdict.state, verdict.expected) == (OLDER, ("8.5.0", "9.1.0"))


# ------------------------------------------------------------------------------- solver


def changes(solution: Solution) -> list[str]:
    return [f"{change.part} {change.new}" for change in solution.changes]


def test_the_cheapest_way_changes_a_package_and_not_the_system() -> None:
    found = solve(TABLE, Installed(mindspore="2.2.10", cann="6.3.RC2", driver="23.0.rc2", python="3.9.18", card=A2))
    assert changes(found[0]) == ["MindSpore 2.1.1"]
    assert changes(found[1]) == ["driver 23.0.0", "CANN 7.0.0"]
    assert found[0].cost < found[1].cost


def test_mindformers_moves_with_mindspore() -> None:
    found = solve(
        TABLE,
        Installed(mindspore="2.7.2", mindformers="1.8.0", cann="8.2.RC1", driver="25.2.0", python="3.11.4", card=A2),
    )
    assert {tuple(changes(solution)) for solution in found} == {
        ("MindSpore 2.7.0", "MindFormers 1.6.0"),
        ("CANN 8.5.0",),
    }
    for solution in found:
        assert all(row.source for row in solution.rows)


def test_only_one_of_the_pair_is_wrong() -> None:
    found = solve(
        TABLE,
        Installed(mindspore="2.10.0", mindformers="1.8.0", cann="8.5.0", driver="25.5.0", python="3.11.4", card=A2),
    )
    assert {tuple(changes(solution)) for solution in found[:2]} == {("MindSpore 2.7.2",), ("MindFormers 2.0.0",)}


def test_what_may_not_move_stays() -> None:
    machine = Installed(mindspore="2.9.0", mindformers="1.9.0", cann="9.0.0", driver="23.0.7", python="3.11.4", card=A2)
    assert changes(solve(TABLE, machine)[0]) == ["driver 26.0.RC1"]
    fixed = Installed(**{**machine.__dict__, "fixed": frozenset({"driver"})})
    for solution in solve(TABLE, fixed):
        assert "driver" not in {change.part for change in solution.changes}
    assert (
        solve(
            TABLE,
            Installed(
                **{**machine.__dict__, "fixed": frozenset({"driver", "CANN", "MindSpore", "MindFormers", "Python"})}
            ),
        )
        == ()
    )


#: what is installed -> the solutions in order, told by hand from the rows of the table
HAND = [
    # a package before CANN; the released pair before one that is merely accepted (2.9.0 takes 8.3 too)
    (("2.7.2", None, "8.3.RC1", "25.3.RC1"), [["MindSpore 2.7.1"], ["CANN 8.5.0"]]),
    (("2.7.2", "1.8.0", "8.3.RC1", "25.3.RC1"), [["MindSpore 2.7.1", "MindFormers 1.7.0"], ["CANN 8.5.0"]]),
    # MindFormers alone is off
    (("2.7.1", "1.8.0", "8.3.RC1", "25.3.RC1"), [["MindFormers 1.7.0"], ["CANN 8.5.0", "MindSpore 2.7.2"]]),
    (("2.6.0", "1.8.0", "8.1.RC1", "25.0.RC1"), [["MindFormers 1.5.0"], ["CANN 8.5.0", "MindSpore 2.7.2"]]),
    (("2.5.0", "1.3.2", "8.0.0", "24.1.0"), [["MindSpore 2.4.10"]]),
    # MindFormers 1.7.0 declares mindspore~=2.7.1, which takes 2.7.2
    (("2.7.1", "1.7.0", "8.5.0", "25.5.0"), [["MindSpore 2.7.2"], ["CANN 8.3.RC1"]]),
    # CANN moves only as far as MindSpore's own check and the driver ask: 8.2.RC1 runs on driver 24.1.0
    (("2.10.0", None, "8.0.0", "24.1.0"), [["MindSpore 2.5.0"], ["CANN 8.2.RC1"]]),
    (("2.9.0", "1.9.0", "9.1.0", "26.1.0"), [["CANN 9.0.0"], ["MindSpore 2.10.0", "MindFormers 2.0.0"]]),
    (("2.4.10", None, "8.0.RC3", "24.1.rc3"), [["MindSpore 2.4.1"], ["driver 24.1.0", "CANN 8.0.0"]]),
    (("2.2.0", None, "7.0.0", "23.0.0"), [["MindSpore 2.2.10"], ["CANN 7.0.RC1"]]),
    (("2.8.0", None, "9.0.0", "26.0.RC1"), [["MindSpore 2.9.0"], ["CANN 8.5.0"]]),
    (("2.6.0", "1.5.0", "8.2.RC1", "25.2.0"), [["MindSpore 2.7.0", "MindFormers 1.6.0"], ["CANN 8.1.RC1"]]),
    # a candidate or patch of a release that is taken is taken too
    (("2.7.0", "1.6.0", "8.2.RC2", "25.2.0"), [[]]),
    (("2.7.2", "1.8.0", "8.5.1", "25.5.0"), [[]]),
]


@pytest.mark.parametrize(
    ("have", "ways"), HAND, ids=lambda value: "-".join(map(str, value)) if isinstance(value, tuple) else ""
)
def test_smallest_changes_told_by_hand(have: tuple[str, str, str, str], ways: list[list[str]]) -> None:
    mindspore, mindformers, cann, driver = have
    machine = Installed(
        mindspore=mindspore, mindformers=mindformers, cann=cann, driver=driver, python="3.10.12", card=A2
    )
    machine = replace(machine, python="3.9.18") if mindspore < "2.3" else machine
    assert [changes(solution) for solution in solve(TABLE, machine)][: len(ways)] == ways


def test_cann_goes_back_no_further_than_the_driver_asks() -> None:
    machine = Installed(mindspore="2.10.0", cann="9.1.0", driver="25.5.0", python="3.11.4", card=A2)
    fixed = replace(machine, fixed=frozenset({"driver"}))
    assert changes(solve(TABLE, fixed)[0]) == ["CANN 8.5.0"]


def test_a_legal_set_needs_nothing() -> None:
    found = solve(
        TABLE,
        Installed(mindspore="2.7.2", mindformers="1.8.0", cann="8.5.0", driver="25.5.0", python="3.11.4", card=A2),
    )
    assert found[0].changes == () and found[0].cost == 0


def test_a_release_that_cannot_be_had_is_not_proposed() -> None:
    found = solve(TABLE, Installed(mindspore="2.10.0", cann="9.2.0", driver="26.2.RC1", python="3.11.4", card=A2))
    assert all("MindSpore 2.11.0" not in changes(solution) for solution in found)


PAIRS = [
    (row.text("version") or "", cann)
    for row in TABLE.rows("mindspore")
    for cann in row.texts("cann")
    if not (row.text("version") or "").endswith(".x")
]


@given(
    st.sampled_from(PAIRS),
    st.sampled_from(TABLE.known_cann()),
    st.sampled_from(["23.0.0", "24.1.0", "25.5.0", "26.1.0"]),
    st.sampled_from(["3.9.2", "3.11.4"]),
)
def test_every_solution_is_legal_and_minimal(pair: tuple[str, str], cann: str, driver: str, python: str) -> None:
    machine = Installed(mindspore=pair[0], cann=cann, driver=driver, python=python, card=A2)
    found = solve(TABLE, machine)
    assert found
    costs = [solution.cost for solution in found]
    assert costs == sorted(costs)
    for solution in found:
        target = dict(solution.versions)
        assert mindspore_cann(TABLE, target["MindSpore"], target["CANN"]).state == OK
        row = TABLE.driver_row(target["CANN"])
        key = versions.release_key(target["driver"])
        assert row is None or (key is not None and key >= TABLE.oldest_driver(row))
        parts = {change.part for change in solution.changes}
        assert not any({change.part for change in other.changes} < parts for other in found)


def test_python_ranges() -> None:
    assert (
        python_fits("3.11.4", "3.9-3.11")
        and not python_fits("3.12.1", "3.9-3.11")
        and not python_fits("3.8.1", "3.9-3.11")
    )
    assert python_fits("3.9.2", "3.9") and not python_fits("3.10.1", "3.9") and python_fits("3.13.0", None)


@pytest.mark.parametrize(
    ("mindformers", "mindspore", "severity"),
    [
        ("1.2.0", "2.3.1", "warning"),  # a later patch of the series, by the table alone
        ("1.3.2", "2.5.0", "error"),
        ("1.6.0", "2.7.0rc1", None),  # its wheel declares mindspore~=2.7.0rc1
        ("1.7.0", "2.7.2", None),  # and this one ~=2.7.1
    ],
)
def test_mindformers_against_mindspore(mindformers: str, mindspore: str, severity: str | None) -> None:
    facts = {"packages": {"mindformers": mindformers, "mindspore": mindspore}}
    host = from_document(facts, "")
    assert host is not None
    found = list(mindformers_mindspore_mismatch(Inspection((host,), (facts,))))
    assert [finding.severity.value for finding in found] == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("cann", "row"), [("8.5.1", "8.5.0"), ("8.2.RC2", "8.2.RC1"), ("8.4.0", None), ("8.0.T63", None)]
)
def test_a_patch_takes_the_driver_of_its_release(cann: str, row: str | None) -> None:
    found = TABLE.driver_row(cann)
    assert (found.text("cann") if found is not None else None) == row


def test_packages_are_changed_with_the_pip_of_the_examined_interpreter() -> None:
    facts = {
        "packages": {"mindspore": "2.7.1", "mindformers": "1.8.0"},
        "python": {"executable": "/opt/ms/bin/python", "version": "3.11.4"},
    }
    host = from_document({"facts": facts}, "")
    assert host is not None
    commands = [fix.command for fix in fixes(host, verify="true")]
    assert "/opt/ms/bin/python -m pip install mindspore==2.7.2" in commands
    assert not any(command and command.startswith("pip ") for command in commands)


def test_a_final_release_is_taken_before_its_candidate() -> None:
    """CANN 8.1.RC1 was released with MindSpore 2.6.0rc1 and 2.6.0."""
    machine = Installed(mindspore="2.10.0", cann="8.1.RC1", driver="25.0.RC1", python="3.11.4", card=A2)
    changes = [change.new for solution in solve(TABLE, machine) for change in solution.changes]
    assert "2.6.0rc1" not in changes and "2.6.0" in changes


def test_numbers_of_test_builds_are_not_named_as_releases() -> None:
    """MindSpore 2.7.0 accepts 7.7, 7.8 and 8.2; 7.8 was never released under any name."""
    verdict = mindspore_cann(TABLE, "2.7.0", "8.0.0", "7.6", ("7.7", "7.8", "8.2"))
    assert verdict.state == OLDER
    assert verdict.expected[0] == "8.1.RC1" and "8.2.RC1" in verdict.expected and "7.8" not in verdict.expected


def test_what_is_not_installed_is_not_said_to_be_kept() -> None:
    host = from_document({"facts": {"packages": {"mindspore": "2.7.1", "mindformers": "1.8.0"}}}, "")
    assert host is not None
    assert [fix.summary.en.split(". Source")[0] for fix in fixes(host, verify="true")] == [
        "Change MindSpore 2.7.1 -> 2.7.2; keep MindFormers 1.8.0",
        "Change MindFormers 1.8.0 -> 1.7.0; keep MindSpore 2.7.1",
    ]


def test_another_mindspore_may_be_less_than_another_python() -> None:
    """MindSpore 2.9.0 is built for 3.7 to 3.11, 2.10.0 for 3.9 to 3.12; its own check takes CANN 9.0 too."""
    document = {
        "packages": {"mindspore": "2.9.0"},
        "mindspore": {"version": "2.9.0", "accepted_cann": ["8.2", "8.3", "8.5", "9.0"]},
        "cann": {"version": "9.0.0"},
        "python": {"version": "3.12.3", "executable": "/opt/ms/bin/python"},
    }
    host = from_document({"facts": document}, "")
    assert host is not None
    [finding] = python_version_unsupported(Inspection((host,), ({},)))
    assert [fix.summary.en.split(";")[0] for fix in finding.fixes] == [
        "Change MindSpore 2.9.0 -> 2.10.0",
        "Change Python 3.12.3 -> 3.11",
    ]
