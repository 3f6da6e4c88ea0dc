"""A rule file is read with errors that say where and what to write instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from doctor.match.examples import failures
from doctor.match.rulefile import RuleError, read_rule
from doctor.match.validate import check_pack
from tests.match.packs import built, rule


def test_a_rule_is_read_whole() -> None:
    row = rule(
        1,
        title={"en": "{what} wants {size:bytes}", "zh": "{what} 需要 {size:bytes}"},
        match={
            "line": [{"regex": r"alloc (?P<size>\d+) for (?P<what>\w+)"}, {"text": "No Memory", "nocase": True}],
            "all": ["first condition"],
            "none": [{"text": "retry ok", "where": "after", "within": 3, "rank": "any"}],
            "within": 7,
            "facts": {"cann": "< 8.0"},
        },
        defaults={"size": "?", "what": {"en": "the graph", "zh": "计算图"}},
        examples={"match": ["alloc 12 for w\nfirst condition"], "no_match": ["x"]},
    )
    item = built(row)
    match = item.rule.match
    assert match is not None
    assert match.line[1].nocase and match.line[1].literals == ("no memory",)
    assert match.all[0].within == 7 and match.none[0].within == 3
    assert match.none[0].where == "after" and match.none[0].rank == "any"
    assert match.facts == (("cann", "< 8.0"),)
    assert not list(failures(item))


@pytest.mark.parametrize(
    ("change", "key", "words"),
    [
        ({"id": "X-1"}, "", "FAMILY-AREA-NNN"),
        ({"category": "memory"}, "category", "must be one of"),
        ({"severity": "bad"}, "severity", "must be one of"),
        ({"tittle": 1}, "tittle", "did you mean `title`"),
        ({"title": "text"}, "title", "must be a mapping"),
        ({"title": {"en": "标题", "zh": "标题"}}, "title.en", "holds Chinese"),
        ({"title": {"en": "Title", "zh": "Title"}}, "title.zh", "holds no Chinese"),
        ({"title": {"en": '"Title"', "zh": "标题"}}, "title.en", "quoted twice"),
        ({"title": {"en": "{size}", "zh": "{size} 大"}}, "title.en", "which not every `line` pattern captures"),
        ({"match": {"line": [{"regex": "("}]}}, "match.line[0]", "is not a regular expression"),
        ({"match": {"line": [{"regex": "(a+)+xyz"}]}}, "match.line[0]", "exponential"),
        ({"match": {"line": [{"regex": "step"}]}}, "match.line[0]", "ordinary lines"),
        ({"match": {"line": [{"text": "a", "regex": "b"}]}}, "match.line[0]", "either"),
        ({"match": {"lines": ["abc"]}}, "match.lines", "did you mean `line`"),
        ({"match": {"line": ["abcdef"], "all": [{"text": "x y z", "where": "left"}]}}, "match.all[0].where", "one of"),
        ({"match": {"line": ["abcdef"], "within": -1}}, "match.within", "number of lines"),
        ({"detector": "LossNotFinite"}, "", "needs `match`"),
        ({"confidence": 2}, "confidence", "above 0"),
        ({"examples": {"match": ["x"]}}, "examples.no_match", "at least one"),
        ({"examples": {"match": [{"txt": 1}], "no_match": ["x"]}}, "examples.match[0].txt", "did you mean `text`"),
        ({"role": "root"}, "role", "cause, symptom, generic"),
        ({"table": "codes"}, "table", "must be one of"),
    ],
)
def test_faults_are_named(change: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(RuleError) as caught:
        built(rule(1, **change))
    assert caught.value.key == key
    assert words in str(caught.value)
    assert str(caught.value).startswith("test.yaml: ")


def test_missing_keys() -> None:
    row = rule()
    del row["fix"]
    with pytest.raises(RuleError, match="fix: is missing"):
        built(row)


def test_broken_yaml_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("id: LOG-TST-001\nname: [a\nseverity: error\n", encoding="utf-8")
    with pytest.raises(RuleError, match="line 3: is not YAML"):
        read_rule(path)


@pytest.mark.parametrize("content", [b"\x00\xff\xfe", b"", b"- 1\n", b"x: &a [*a]\n", b"\xff\xfeid"])
def test_rubbish_is_an_error_not_a_crash(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(content)
    with pytest.raises(RuleError):
        read_rule(path)


def test_folded_chinese_has_no_blanks(tmp_path: Path) -> None:
    assert (
        built(rule(why={"en": "a b", "zh": "先报错， 然后退出 exit 了"})).rule.rule.why.zh == "先报错，然后退出 exit 了"
    )


def test_examples_that_do_not_hold_are_told() -> None:
    row = rule(
        match={"line": [{"regex": r"needle (?P<kind>\w+)"}]},
        examples={
            "match": [{"text": "x\nneedle a", "line": 1}, {"text": "needle b", "values": {"kind": "c"}}, "nothing"],
            "no_match": ["needle here"],
        },
    )
    told = list(failures(built(row)))
    assert told == [
        "examples.match[0] is matched at line 2, not at line 1",
        "examples.match[1] gives kind = 'b', not 'c'",
        "examples.match[2] is not matched",
        "examples.no_match[0] is matched at line 1: b'needle here'",
    ]


def test_check_pack_tells_all_faults(tmp_path: Path) -> None:
    import yaml

    for name, row in {"a": rule(1), "b": rule(1, "other-name"), "c": rule(3, severity="x")}.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(row, allow_unicode=True), encoding="utf-8")
    files, faults = check_pack(tmp_path)
    assert len(files) == 2
    assert [Path(fault.path).name for fault in faults] == ["b.yaml", "c.yaml"]
    assert "LOG-TST-001 is taken by" in faults[0].what
