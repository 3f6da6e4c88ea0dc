"""A slip in YAML or JSON is found on its own line, whatever line the parser stopped at."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.errors import UsageError
from doctor.plan.reader import Document, parse

_BEFORE = "run_mode: train\noptimizer:\n  type: AdamW\n"
_AFTER = "  eps: 1.e-8\n# a comment\n\ncontext:\n  mode: 0\n"


def broken(line: str, name: str = "run.yaml") -> Document:
    return parse((_BEFORE + line + "\n" + _AFTER).encode("utf-8"), Path(name), forgiving=True)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("  weight_decay:0.1", "missing-blank"),
        ("  weight_decay 0.1", "missing-colon"),
        ("  weight_decay = 0.1", "missing-colon"),
        ("  schedule\n    decay: 0.1", "missing-colon"),
        ("  weight_decay：0.1", "full-width"),
        ("  weight_decay: “0.1", None),
        ('  weight_decay: "0.1', "open-quote"),
        ("  betas: [0.9, 0.95", "open-bracket"),
        ("   weight_decay: 0.1", "indentation"),
        (" weight_decay: 0.1", "indentation"),
        ("  weight_decay: *wd", "unknown-alias"),
        ("<<<<<<< HEAD", "conflict"),
    ],
)
def test_the_line_and_the_kind_of_a_slip(line: str, kind: str | None) -> None:
    document = broken(line)
    if kind is None:
        assert document.readable
        return
    (problem,) = document.problems
    assert (problem.kind, problem.text, problem.location.line) == ("syntax", kind, 4)
    assert not document.readable


@pytest.mark.parametrize(
    ("text", "kind", "line"),
    [
        ('{\n  "a": 1,\n  "b": 2,\n}\n', "json-comma", 3),
        ('{\n  "a": 1\n  "b": 2\n}\n', "json-no-comma", 2),
        ('{\n  "a": 1,\n  b: 2\n}\n', "json", 3),
    ],
)
def test_json_is_held_to_its_own_grammar(text: str, kind: str, line: int) -> None:
    (problem,) = parse(text.encode(), Path("config.json"), forgiving=True).problems
    assert (problem.text, problem.location.line) == (kind, line)


def test_without_forgiveness_a_slip_is_one_clear_line() -> None:
    with pytest.raises(UsageError, match="not YAML"):
        parse((_BEFORE + "  weight_decay:0.1\n" + _AFTER).encode(), Path("run.yaml"))


@given(
    st.text(st.sampled_from("ab:-#[]{}'\"*&<= \n\t，：1,|>"), max_size=120),
    st.sampled_from(("run.yaml", "config.json")),
)
@settings(max_examples=300, deadline=None)
def test_any_text_has_its_slip_inside_the_file(text: str, name: str) -> None:
    try:
        document = parse(("a: 1\n" + text).encode("utf-8"), Path(name), forgiving=True)
    except UsageError as error:
        assert error.line("en")
        return
    for problem in document.problems:
        assert 1 <= (problem.location.line or 0) <= text.count("\n") + 2


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        # a setting fell out of its section; the parser stops at the next one
        (["a:", "  b: 1", "c: 2", "  d: 3", "  e: 4"], 3),
        (["a:", "b: 1", "  c: 2", "  d: 3"], 2),
        (["a: &a", "b: 1  # of a", "  c: 2"], 2),
        (["x: 1", "a:", "  p:", "    b: 1", "  c: 2", "    d: 3"], 5),
        # a setting went too deep
        (["a:", "  b: 1", "    c: 2", "  d: 3"], 3),
        (["a:", "    b: 1", "  c: 2", "  d: 3"], 2),
        (["x: 1", "  y: 2", "z: 3"], 2),
        # two went in, one stayed
        (["a:", "    b: 1", "    c: 2", "  d: 3", "e: 4"], 4),
        # a second colon
        (["a:", "  b: 1 (old: 4)", "  c: 2"], 2),
        (["a:", "  # note", "  b: 1", "", "c: 2", "  # more", "  d: 3"], 5),
    ],
)
def test_a_slip_of_indentation_is_named_where_it_is(rows: list[str], line: int) -> None:
    document = parse("\n".join(rows).encode(), Path("run.yaml"), forgiving=True)
    (problem,) = document.problems
    assert problem.location.line == line
