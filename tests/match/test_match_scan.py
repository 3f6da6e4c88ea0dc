"""Scanning: conditions, ranks, encodings, and equal hits however a text is cut and whichever finder looks."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Optional

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.diagnosis import diagnose_text
from doctor.match import regex
from doctor.match.blind import blind, shrunk
from doctor.match.finder import make_finder
from doctor.match.line import level_of
from doctor.match.pack import Pack, load_pack
from doctor.match.scan import MOST_HITS, Hit, Scanner
from doctor.records.record import Chunk
from doctor.selftest.logs import KINDS, chatter
from tests.match.packs import pack, rule

FINDERS = ("hyperscan", "aho-corasick", "standard library", "shapes")


def finder(name: str) -> str:
    if name == "hyperscan":
        pytest.importorskip("hyperscan")
    return name


def chunks(data: bytes, cuts: list[int], source: str = "x", rank: Optional[int] = None) -> Iterator[Chunk]:
    """The data in chunks of whole lines, cut after the given numbers of lines."""
    lines = data.splitlines(keepends=True) if b"\r" not in data else [x + b"\n" for x in data.split(b"\n")]
    start, offset = 0, 0
    for end in [*sorted(set(cuts)), len(lines)]:
        part = b"".join(lines[start:end])
        if part:
            yield Chunk(source, part, offset, start + 1, rank)
        start, offset = max(start, end), offset + len(part)


def scan(rules: Pack, text: str | bytes, cuts: list[int] | None = None, name: Optional[str] = None) -> list[Hit]:
    data = text.encode() if isinstance(text, str) else text
    scanner = Scanner(rules, finder=name)
    found = [hit for chunk in chunks(data, cuts or []) for hit in scanner.scan(chunk)]
    return sorted([*found, *scanner.finish()], key=lambda hit: (hit.line, hit.rule))


def lines_of(rules: Pack, text: str | bytes) -> list[int]:
    return [hit.line for hit in scan(rules, text)]


def conditional(**conditions: Any) -> Pack:
    return pack(rule(1, match={"line": [{"regex": r"fault (?P<kind>\w+) came"}], "within": 3, **conditions}))


def test_a_hit_has_its_place_and_values() -> None:
    rules = pack(rule(1, match={"line": [{"regex": r"needle (?P<kind>\w+)"}]}))
    hit = scan(rules, "first\nsecond needle gold\n")[0]
    assert (hit.line, hit.offset, hit.text) == (2, 6, b"second needle gold")
    assert hit.groups == {"kind": "gold"}


def test_values_come_from_all_patterns_on_the_line() -> None:
    rules = pack(
        rule(1, match={"line": [{"regex": r"size=(?P<size>\d+) big"}, {"regex": r"big needle (?P<kind>\w+)"}]})
    )
    assert [hit.groups for hit in scan(rules, "size=3 big needle gold")] == [{"size": "3", "kind": "gold"}]


def test_all_within_some_lines() -> None:
    rules = conditional(all=["the reason"])
    assert lines_of(rules, "the reason\n\n\nfault a came") == [4]
    assert lines_of(rules, "the reason\n\n\n\nfault a came") == []
    assert lines_of(rules, "fault a came\n\n\nthe reason") == [1]
    assert lines_of(rules, "fault a came, the reason") == [1]


def test_a_condition_gives_its_values() -> None:
    rules = pack(
        rule(
            1,
            title={"en": "{why}", "zh": "{why} 因"},
            match={"line": ["fault came"], "all": [{"regex": r"reason: (?P<why>\w+)"}]},
        )
    )
    assert scan(rules, "reason: far\n\nreason: near\nfault came")[0].groups == {"why": "near"}


def test_any_of_several() -> None:
    rules = conditional(any=["one reason", {"text": "other reason", "where": "before"}])
    assert lines_of(rules, "fault a came") == []
    assert lines_of(rules, "other reason\nfault a came") == [2]
    assert lines_of(rules, "fault a came\nother reason") == []
    assert lines_of(rules, "fault a came\none reason") == [1]


def test_none_near() -> None:
    rules = conditional(none=[{"text": "retry succeeded", "where": "after"}])
    assert lines_of(rules, "fault a came\nretry succeeded") == []
    assert lines_of(rules, "retry succeeded\nfault a came") == [2]
    assert lines_of(rules, "fault a came\n\n\n\nretry succeeded") == [1]


def test_same_line() -> None:
    rules = conditional(none=[{"text": "GPU", "where": "same-line"}])
    assert lines_of(rules, "fault a came on GPU 0\nGPU\nfault a came on 1") == [3]


def test_other_ranks() -> None:
    rules = conditional(all=[{"text": "ran out", "rank": "other"}])
    assert lines_of(rules, "[rank3]: ran out\n[rank3]: fault a came") == []
    assert lines_of(rules, "[rank5]: ran out\n[rank3]: fault a came") == [2]
    same = conditional(all=["ran out"])
    assert lines_of(same, "[rank5]: ran out\n[rank3]: fault a came") == []
    assert lines_of(same, "[rank3]: ran out\n[rank3]: fault a came") == [2]


def test_another_rank_in_another_file() -> None:
    scanner = Scanner(conditional(all=[{"text": "ran out", "rank": "other"}]))
    assert not scanner.scan(Chunk("rank_3.log", b"fault a came\n", 0, 1, 3))
    assert not scanner.scan(Chunk("rank_5.log", b"ran out\n", 0, 1, 5))
    assert [(hit.source, hit.rank) for hit in scanner.finish()] == [("rank_3.log", 3)]


def test_interleaved_ranks_stretch_the_window() -> None:
    text = "[rank0]: the reason\n" + "".join(f"[rank{n % 4}]: fault b came\n" for n in range(1, 9))
    rules = conditional(all=["the reason"])
    assert lines_of(rules, text) == [5, 9]


def test_facts() -> None:
    rules = conditional(facts={"cann": "< 8.0", "device.family": "910A | 910B"})
    for facts, wanted in (
        ({}, 1),
        ({"cann": "7.0.0"}, 1),
        ({"cann": "8.0.RC1"}, 1),
        ({"cann": "8.0"}, 0),
        ({"cann": "7.0", "device": {"family": "310P"}}, 0),
    ):
        scanner = Scanner(rules, facts)
        assert len(scanner.scan(Chunk("x", b"fault a came", 0, 1))) == wanted, facts


@pytest.mark.parametrize(
    "data",
    [
        "第一行\n设备内存不足了".encode("gb18030"),
        "\x1b[31m第一行\x1b[0m\n设备\x1b[1;31m内存\x1b[0m不足了\n".encode(),
        b"x\n\x00\x00" + "设备内存不足了".encode() + b"\x00\r\n",
        b"a\n" + b"z" * 2_000_000 + "设备内存不足了".encode() + b"y" * 2_000_000,
        b"0%|\r10%|\r" + "设备内存不足了".encode() + b"\r20%|\n",
        "设备内存不足了".encode() + b"\xff\xfe\xfa broken",
    ],
    ids=["gbk", "ansi", "nul", "long", "bars", "torn"],
)
@pytest.mark.parametrize("name", FINDERS)
def test_every_encoding_and_length(data: bytes, name: str) -> None:
    rules = pack(rule(1, match={"line": ["内存不足"]}))
    hits = scan(rules, data, name=finder(name))
    assert len(hits) == 1
    assert len(hits[0].text) <= 8192
    start = data.rfind(b"\n", 0, data.rfind(b"\n") if data.endswith(b"\n") else len(data)) + 1
    assert hits[0].offset == start


def test_a_hot_rule_is_capped_and_counted() -> None:
    scanner = Scanner(pack(rule(1)))
    hits = scanner.scan(Chunk("x", b"needle in a haystack\n" * 500, 0, 1))
    assert len(hits) == MOST_HITS
    tally = scanner.tallies[("LOG-TST-001", "x")]
    assert (tally.count, tally.last_line) == (500, 500)


_LINES = st.sampled_from(
    [
        "ordinary line 12",
        "[rank1]: fault a came",
        "[rank2]: fault b came",
        "fault c came",
        "the reason",
        "[rank2]: the reason",
        "Retry Succeeded",
        "",
        "  indented",
        "内存 fault 来 came",
    ]
)


@given(st.lists(_LINES, max_size=40), st.lists(st.integers(0, 40), max_size=6))
@settings(max_examples=150, deadline=None)
def test_cuts_do_not_matter(lines: list[str], cuts: list[int]) -> None:
    rules = pack(
        rule(1, match={"line": [{"regex": r"fault \w+ came"}], "all": ["the reason"], "within": 4}),
        rule(
            2,
            "two",
            match={"line": [{"regex": r"fault \w+ came"}], "none": [{"text": "retry succeeded", "nocase": True}]},
        ),
        rule(3, "three", match={"line": ["fault a came"], "any": [{"text": "the reason", "rank": "other"}]}),
    )
    text = "\n".join(lines)
    assert scan(rules, text, cuts) == scan(rules, text)


def _texts() -> list[bytes]:
    own = [path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.log"))]
    rows = [part for file in _files() for part in (*file.must_match, *file.must_not_match)]
    return [*own, "\n".join(part.text for part in rows).encode()]


@cache
def _wanted(text: bytes) -> list[Hit]:
    return scan(load_pack(), text, name="standard library")


def _files() -> list[Any]:
    from doctor.match.pack import read_files, rules_folder

    return read_files(rules_folder(), strict=False)


@pytest.mark.heavy
@pytest.mark.parametrize("name", FINDERS[:2])
def test_finders_agree_on_all_examples(name: str) -> None:
    rules = load_pack()
    for text in _texts():
        assert _wanted(text)
        assert scan(rules, text, [100, 101, 500], name=finder(name)) == _wanted(text)


def test_shapes_agree_whatever_digits_came_first() -> None:
    """What was learnt from lines with other digits holds for these: error codes differ in their digits only."""
    rules = load_pack()
    shapes = Scanner(rules, finder="shapes")
    for number, text in enumerate(_texts()):
        for digit in b"07":
            table = bytes(digit if 48 <= byte < 58 else byte for byte in range(256))
            shapes.finder.find(text.translate(table))
        found = [*shapes.scan(Chunk(str(number), text, 0, 1)), *shapes.finish(str(number))]
        assert sorted((hit.line, hit.rule) for hit in found) == [(hit.line, hit.rule) for hit in _wanted(text)]


def test_lines_that_differ_in_their_thread_are_told_apart_by_the_rest() -> None:
    """MindSpore names the thread in hexadecimal; a healthy line of one thread says nothing of what others report."""
    shapes = Scanner(load_pack(), finder="shapes")
    head = (
        "[{level}] {module}(3071,{thread},python):2026-03-01-10:00:00.001.002 [mindspore/ccsrc/x.cc:12] Run] {words}\n"
    )
    threads = ("7f01ab22", "ffff8c2d1120", "7fab", "00000000", "deadbeef", "7f2a9c")
    words = ("E39999: Inner Error!", "EI0006: Getting socket times out.", "stream 3 is ready, 12 us")
    lines = [
        head.format(level=level, module=module, thread=thread, words=text)
        for text in words
        for thread in threads
        for level, module in (("INFO", "DEVICE"), ("ERROR", "DEVICE"), ("ERROR", "HCCL_ADPT"))
    ]
    text = "".join(lines).encode()
    found = [*shapes.scan(Chunk("log", text, 0, 1)), *shapes.finish("log")]
    assert sorted((hit.line, hit.rule) for hit in found) == [(hit.line, hit.rule) for hit in _wanted(text)]
    assert len({hit.line for hit in found}) >= 24


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                *(
                    r"\bE\d{4}\b",
                    r"E[1-4]0\d",
                    r"ret\[107001\]",
                    r"[^5]9999",
                    r"(?i)code (?:5|x7)1",
                    r"a\w{2}b",
                    r"x\D\d+y",
                ),
                *(r"^ab \d\d?c$", r"fail.{0,3}[0-24-9]z", r"(?:12|34)5[a-f0]", r"\b9\b code"),
                *(r"\d{3}", r"\w{4}b", r"(?:a\d){2}", r"x[^a]{3,9}y", r"\d\D\d\d?$", r"(?P<n>\d+)(?: |b\d)c?", r"\B5"),
            ]
        ),
        min_size=1,
        max_size=1,
    ),
    st.text(alphabet="0123456789 abcexyzEXfilcodret[]", max_size=40),
    st.text(alphabet="0123456789", min_size=40, max_size=40),
)
def test_a_pattern_blind_to_digits_misses_no_line(sources: list[str], line: str, digits: str) -> None:
    for source in sources:
        shape = "".join("0" if char.isdigit() else char for char in line).encode()
        other = "".join(new if char.isdigit() else char for char, new in zip(line, digits)).encode()
        if regex.compile_bytes(source).search(other):
            assert blind(source).search(shape)
            view = shrunk(source)
            assert view is None or view.search(re.sub(b"00+", b"0", shape))


def test_finders_agree_on_public_logs(shared: Path) -> None:
    pytest.importorskip("hyperscan")
    rules = load_pack()
    paths = [shared / "corpus/errors.yaml", *sorted((shared / "logs/samples").glob("*"))]
    data = b"\n".join(path.read_bytes() for path in paths)
    assert scan(rules, data, name="hyperscan") == scan(rules, data, name="aho-corasick")


def test_no_pattern_matches_the_chatter_of_a_healthy_run() -> None:
    """Each line that one matches has to be looked at whole, however little the rule makes of it: patterns of conditions,
    which raise nothing by themselves, would cost as much as all the rest."""
    rng = random.Random(3)
    lines = [
        line
        for step_line, shapes in KINDS.values()
        for number in range(400)
        for line in (chatter(rng, shapes), step_line(rng, number + 1))
    ]
    rules = load_pack()
    text = ("\n".join(lines) + "\n").encode()
    matched = {
        rules.atoms[atom].regex: data[:200]
        for place, atom in make_finder(rules, "shapes").find(text)
        if (data := text[place : text.find(b"\n", place)]) and regex.compile_bytes(rules.atoms[atom].regex).search(data)
    }
    assert not matched


def test_an_expression_is_not_compiled_for_lines_that_lack_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    real = regex.compile_bytes

    def compile_bytes(source: str) -> Any:
        compiled.append(source)
        return real(source)

    sources = (r"needle .{0,20}thread", r"needle .{0,20}hay")
    rules = pack(*(rule(number, match={"line": [{"regex": source}]}) for number, source in enumerate(sources)))
    scanner = Scanner(rules)
    monkeypatch.setattr(regex, "compile_bytes", compile_bytes)
    assert [hit.rule for hit in scanner.scan(Chunk("x", b"a needle in the hay\n", 0, 1))] == ["LOG-TST-001"]
    assert compiled == [sources[1]]


@pytest.mark.parametrize("prefix", ["[rank3]: ", "[default2]:", "[1,3]<stderr>:", "  3: "])
def test_what_a_launcher_puts_before_a_line_hides_neither_its_beginning_nor_its_level(prefix: str) -> None:
    frame = "mindspore/ops/infer/ops_func_impl//frob.cc:57 CheckFrob"
    told = diagnose_text(f"{prefix}ValueError: the frobnicator refuses 3\n{prefix}\n{prefix}{frame}", pack=load_pack())
    assert "LOG-MS-314" in [finding.rule for finding in told.findings]
    assert level_of(f"{prefix}INFO Resize: done".encode()) == "INFO"
