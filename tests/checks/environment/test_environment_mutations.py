"""No document, however wrong, makes a check raise: wrong types, missing parts, huge and hostile values."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor import registry, runner
from doctor.check import CheckOutcome
from doctor.checks.environment.host import Host, from_document
from doctor.checks.environment.redact import redact
from doctor.checks.environment.subject import Inspection

HOSTS = sorted((Path(__file__).resolve().parents[2] / "fixtures" / "hosts").glob("*.json"))
DOCUMENTS = [json.loads(path.read_text(encoding="utf-8")) for path in HOSTS]


def judge(*documents: Any) -> tuple[CheckOutcome, ...]:
    hosts = [from_document(document, f"n{number}", 8) for number, document in enumerate(documents)]
    known: list[Host] = [host for host in hosts if host is not None]
    return runner.run_checks(registry.checks("environment"), Inspection(tuple(known), tuple(documents)))


def crashes(outcomes: tuple[CheckOutcome, ...]) -> list[str]:
    return [f"{outcome.rule}: {outcome.reason}" for outcome in outcomes if outcome.state == "crashed"]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to each value inside, parents first."""
    found = [path] if path else []
    if isinstance(value, dict):
        for key, item in value.items():
            found += places(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            found += places(item, (*path, number))
    return found


def put(document: Any, path: tuple[Any, ...], value: Any) -> None:
    for step in path[:-1]:
        document = document[step]
    document[path[-1]] = value


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.text(max_size=30),
    st.sampled_from(
        [
            "",
            "0",
            "-1",
            "9" * 30,
            "٣",
            "²",
            "8.5",
            "{x}",
            "{0}",
            "[",
            "1.2.3.4",
            "\x1b[31m",
            "=",
            ",",
            "2.7.2",
            "RC1",
            "v",
        ]
    ),
    st.lists(
        st.one_of(st.none(), st.text(max_size=5), st.dictionaries(st.text(max_size=5), st.integers(), max_size=2)),
        max_size=3,
    ),
    st.dictionaries(st.text(max_size=8), st.one_of(st.none(), st.text(max_size=5), st.integers()), max_size=3),
)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_no_mutation_raises(data: st.DataObject) -> None:
    document = copy.deepcopy(data.draw(st.sampled_from(DOCUMENTS)))
    document.pop("expect", None)
    for _ in range(data.draw(st.integers(1, 4))):
        spots = places(document["facts"])
        path = data.draw(st.sampled_from(spots))
        put(document["facts"], path, data.draw(VALUES))
    assert not crashes(judge(document, DOCUMENTS[0]))
    redact(document)


@pytest.mark.parametrize("key", sorted(DOCUMENTS[0]["facts"]))
@pytest.mark.parametrize("value", [None, [], {}, "x", 3, True, [1], [{}], {"a": 1}], ids=repr)
def test_no_part_is_needed(key: str, value: Any) -> None:
    document = copy.deepcopy(DOCUMENTS[HOSTS.index(next(path for path in HOSTS if path.stem == "fresh_800t_a2"))])
    document["facts"][key] = value
    assert not crashes(judge(document))
    del document["facts"][key]
    assert not crashes(judge(document))


def test_every_value_of_a_machine_may_be_null() -> None:
    document = DOCUMENTS[HOSTS.index(next(path for path in HOSTS if path.stem == "fresh_800t_a2"))]
    for path in places(document["facts"]):
        changed = copy.deepcopy(document)
        put(changed["facts"], path, None)
        assert not crashes(judge(changed)), path


def test_facts_written_by_hand_are_judged_too() -> None:
    outcomes = judge({"packages": {"mindspore": "2.2.10"}, "cann": "6.3.RC2", "driver": "23.0.rc2"})
    assert {o.rule for o in outcomes if o.state == "found"} >= {"ENV-CANN-001"}
    assert judge({"packages": {"mindspore": "2.4.10"}, "cann": {"version": "7.6"}})[0].state == "passed"
