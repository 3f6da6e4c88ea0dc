"""From hits to a diagnosis: cause before consequence, earliest first, what cannot count put aside."""

from __future__ import annotations

from typing import Any

import pytest

from doctor.finding import Finding, Severity
from doctor.match.aside import Progress
from doctor.match.explain import explain
from doctor.match.pack import Pack
from doctor.match.reason import reason
from doctor.match.scan import Scanner
from doctor.records.record import Chunk
from tests.match.packs import pack, rule


def simple(number: int, text: str, **more: Any) -> dict[str, Any]:
    return rule(number, match={"line": [text]}, **more)


RULES = pack(
    simple(1, "ran out of device memory", category="oom-device", severity="fatal", confidence=0.9),
    simple(2, "peer did not come", category="hccl-timeout", role="symptom", severity="fatal", confidence=0.6),
    simple(3, "inner error E9", category="operator-execution", role="generic", confidence=0.4),
    simple(4, "card has an ECC error", category="hardware-fault", severity="fatal", confidence=0.9),
    simple(5, "kernel failed on core", category="operator-execution", confidence=0.8),
    simple(6, "is deprecated here", category="other", severity="warning", confidence=0.9),
    simple(7, "dataset file is broken", category="dataset", confidence=0.9, explains=["test-rule-5"]),
    simple(8, "argument count is wrong", category="config", confidence=0.9),
    simple(9, "exact argument count is wrong", category="shape", confidence=0.95),
)


def findings(text: str, rules: Pack = RULES, **more: Any) -> tuple[Finding, ...]:
    scanner = Scanner(rules)
    hits = [*scanner.scan(Chunk("x", text.encode(), 0, 1)), *scanner.finish()]
    return reason(hits, rules, **more)


def ids(found: tuple[Finding, ...]) -> list[int]:
    return [int(finding.rule[-3:]) for finding in found]


def test_a_cause_comes_before_its_symptom_wherever_it_stands() -> None:
    found = findings("peer did not come\nran out of device memory\ninner error E9")
    assert ids(found) == [1, 2, 3]
    assert [finding.root_cause for finding in found] == [True, False, False]
    assert found[0].explains == ("LOG-TST-002", "LOG-TST-003")
    assert found[1].confidence < found[0].confidence


def test_a_generic_code_is_never_first_beside_a_specific_line() -> None:
    text = "inner error E9\n" * 5 + "x\n" * 30 + "kernel failed on core\n"
    assert ids(findings(text)) == [5, 3]
    assert ids(findings("inner error E9")) == [3]


def test_kinds_of_faults_bring_others_about() -> None:
    assert ids(findings("card has an ECC error\nkernel failed on core")) == [4, 5]
    found = findings("dataset file is broken\nkernel failed on core")
    assert ids(found) == [7, 5] and found[0].explains == ("LOG-TST-005",)


def test_the_earlier_of_two_causes_comes_first() -> None:
    assert ids(findings("argument count is wrong\nran out of device memory")) == [8, 1]
    assert ids(findings("ran out of device memory\nx\nargument count is wrong")) == [1, 8]


def test_a_warning_is_not_the_cause_of_an_error() -> None:
    found = findings("is deprecated here\nkernel failed on core")
    assert ids(found)[0] == 5


def test_of_two_rules_on_one_line_the_surer_and_longer_wins() -> None:
    assert ids(findings("exact argument count is wrong"))[0] == 9


def test_a_cause_long_after_the_symptom_is_another_matter() -> None:
    text = "2025-01-01 10:00:00,000 peer did not come\n2025-01-01 10:30:00,000 argument count is wrong\n"
    found = findings(text)
    assert "LOG-TST-002" not in found[0].explains


def test_time_orders_files_of_several_ranks() -> None:
    scanner = Scanner(RULES)
    hits = [
        *scanner.scan(Chunk("a/rank_0.log", b"2025-01-01 10:30:00,000 argument count is wrong\n", 0, 1, 0)),
        *scanner.scan(Chunk("b/rank_5.log", b"2025-01-01 10:00:00,000 ran out of device memory\n", 0, 1, 5)),
    ]
    found = reason(hits, RULES)
    assert ids(found) == [1, 8]
    place = found[0].place
    assert place is not None and (place.rank, place.source) == (5, "b/rank_5.log")


@pytest.mark.parametrize(
    "line",
    [
        "[INFO] x: ran out of device memory",
        "2025-01-01 10:00:00,000 - mindformers - INFO - ran out of device memory",
        '{"instruction": "explain: ran out of device memory", "output": "x"}',
        "# ran out of device memory",
        "> ran out of device memory",
        "export LIMIT=3  # else: ran out of device memory",
        "Fixed: ran out of device memory when the mask is empty",
        'assert free > 0, "ran out of device memory"',
    ],
)
def test_what_only_quotes_a_fault_is_put_aside(line: str) -> None:
    assert not findings(line)
    found = findings(f"{line}\nkernel failed on core")
    assert ids(found) == [5]
    assert any("test-rule-1 (line 1)" in text.en for text in found[0].ruled_out)


def test_source_code_in_a_traceback_counts_less_than_the_message() -> None:
    text = (
        'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    raise E("ran out of device memory")\n'
        "E: ran out of device memory\n"
    )
    found = findings(text)
    assert found[0].place is not None and found[0].place.line == 4
    assert found[0].confidence == 0.9


def test_a_fault_that_the_run_got_over() -> None:
    progress = Progress({("x", None): [5, 6, 7]})
    found = findings("ran out of device memory", progress=progress)
    assert found[0].severity is Severity.WARNING and "went on" in found[0].message.en
    assert not findings("inner error E9", progress=progress)
    assert findings("x\n" * 9 + "inner error E9", progress=progress)


def test_chained_exceptions_begin_with_the_first() -> None:
    text = (
        "Traceback (most recent call last):\nValueError: dataset file is broken\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        "Traceback (most recent call last):\nRuntimeError: argument count is wrong\n"
    )
    assert ids(findings(text))[0] == 7


def test_a_circle_has_a_first_all_the_same() -> None:
    rules = pack(
        simple(1, "one fault", explains=["LOG-TST-002"]),
        simple(2, "two fault", explains=["LOG-TST-001"]),
    )
    assert ids(findings("two fault\none fault", rules)) == [2, 1]


def test_findings_of_detectors_take_part() -> None:
    numbers = rule(2, category="nan-overflow", detector="LossNotFinite", confidence=0.95)
    del numbers["match"], numbers["examples"]
    rules = pack(simple(1, "card has an ECC error", category="hardware-fault", explains=["nan-overflow"]), numbers)
    detected = Finding("LOG-TST-002", "x", Severity.ERROR, "nan-overflow", *[rules.rules[1].rule.title] * 2)
    assert ids(findings("x", rules, others=[detected])) == [2]
    assert ids(findings("card has an ECC error", rules, others=[detected])) == [1, 2]


def test_repeated_lines_are_one_finding_with_a_count() -> None:
    rules = pack(simple(1, "frobnication", title={"en": "{count} times", "zh": "{count} 次"}))
    found = findings("frobnication\n" * 300, rules, counts={"LOG-TST-001": 300})
    assert len(found) == 1 and found[0].title.en == "300 times"
    assert len(found[0].evidence) == 5


def test_evidence_quotes_line_and_offset_in_the_whole_text() -> None:
    text = "==> log/rank_0/info.log <==\nfine\n==> log/rank_3/info.log <==\nran out of device memory\n"
    found = explain(text, "paste", pack=RULES).findings
    place = found[0].place
    assert place is not None
    assert (place.source, place.line, place.rank) == ("paste", 4, 3)
    assert text.encode()[place.offset or 0 :].startswith(b"ran out")


def test_equal_input_gives_equal_findings() -> None:
    text = "\n".join(["peer did not come", "inner error E9", "kernel failed on core", "argument count is wrong"] * 7)
    assert findings(text) == findings(text)


WARNED = "2025-01-01 10:00:00,000 - trainer - WARNING - a needle in a haystack"


def test_a_line_that_only_warns_shows_no_fault_by_itself() -> None:
    assert explain(WARNED, pack=pack(rule())).findings == ()
    assert explain("x.py:6: UserWarning: a needle in a haystack", pack=pack(rule())).findings == ()


def test_an_error_that_a_logger_of_warnings_hands_on_is_one() -> None:
    text = "[W compiler_depend.ts:38] Warning: E40021: a needle in a haystack"
    assert [item.rule for item in explain(text, pack=pack(rule())).findings] == ["LOG-TST-001"]


def test_what_a_warning_says_that_it_passed_over_is_no_error() -> None:
    text = "2026-01-01 10:00:00 WARNING skipped 2 samples: ValueError: a needle in a haystack"
    assert explain(text, pack=pack(rule())).findings == ()


def test_a_generic_rule_adds_nothing_to_a_line_that_another_explains() -> None:
    by_words = rule(2, role="generic", match={"line": [{"regex": r"Error: .{0,40}haystack"}]}, category="config")
    found = explain("ValueError: a needle in a haystack", pack=pack(rule(), by_words)).findings
    assert [item.rule for item in found] == ["LOG-TST-001"]
    found = explain("ValueError: straw in a haystack", pack=pack(rule(), by_words)).findings
    assert [item.rule for item in found] == ["LOG-TST-002"]


def test_an_event_printed_by_its_parts_is_looked_up_by_its_id() -> None:
    parts = rule(
        table="event",
        match={"line": [{"regex": r"node_type=(?P<node>\w+) sensor_type=(?P<sensor>\w+) state=(?P<state>\d)"}]},
        title={"en": "{code}: {meaning}", "zh": "{code}：{meaning}"},
        examples={"match": ["node_type=1 sensor_type=2 state=0"], "no_match": ["x"]},
    )
    found = explain("node_type=0x7d sensor_type=0x27 state=0", pack=pack(parts)).findings
    assert found[0].title.en.startswith("0x80fa4e00: ")
    assert "not in the tables" not in found[0].title.en


def test_a_rule_may_say_that_a_warning_shows_its_fault() -> None:
    warns = rule(match={"line": ["needle in a haystack"], "level": "warning"})
    assert [item.rule for item in explain(WARNED, pack=pack(warns)).findings] == ["LOG-TST-001"]


def test_a_warning_counts_where_an_error_stands_too() -> None:
    other = rule(2, match={"line": ["a broken straw"]}, examples={"match": ["a broken straw"], "no_match": ["x"]})
    found = explain(f"{WARNED}\n[ERROR] a broken straw", pack=pack(rule(), other)).findings
    assert sorted(item.rule for item in found) == ["LOG-TST-001", "LOG-TST-002"]
