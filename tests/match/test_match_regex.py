"""Regular expressions of rules: the common subset, bounded time, and the literals that make scanning fast."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.match import regex


@pytest.mark.parametrize(
    ("source", "literals"),
    [
        (r"EI0008: .*local_version \[(?P<local>[^\]]+)\]", {"local_version ["}),
        (r"(?:abc|abd)efgh", {"abcefgh", "abdefgh"}),
        (r"[Nn]o space left on (?:device|disk)", {"No space left on device", "no space left on disk"}),
        (r"(?i)Out Of Memory", {"out of memory"}),
        (r"内存不足|显存不足", {"内存不足", "显存不足"}),
        (r"Cannot find bin(?:ary)? of", {"Cannot find bin of", "Cannot find binary of"}),
        # the parser takes the text that alternatives have in common out of them
        (r"Engine core \S+ died|EngineDeadError", {"Engine core ", "EngineDeadError"}),
    ],
)
def test_required_literals(source: str, literals: set[str]) -> None:
    assert not list(regex.problems(source))
    assert literals <= set(regex.required(source))


@pytest.mark.parametrize(
    "source",
    [
        r"(a+)+needle",
        r"(?:a|b+)*needle",
        r"(?:\w*x\w*)*needle",
        r"\s*\s*needle",
        r"needle.*.*end",
        r"needle(?=foo)",
        r"(?<!x)needle",
        r"(x)needle\1",
        r"needle(?i:x)",
        r"\Aneedle",
        r"needle\Z",
        r"nee\ dle",
        r"needle{1,5000}",
        r"\d+",
        r"(?:.*x.*)?",
        r"needle(",
        r".*a.*b.*c.*d.*e.*f.*needle",
        r"loss",
        r"step:\[",
    ],
)
def test_what_is_refused(source: str) -> None:
    assert list(regex.problems(source))


def test_a_repeated_group_with_a_fence_is_fine() -> None:
    assert not list(regex.problems(r"lib\w+\.so(?:\.\d+)*: cannot open shared"))


_PARTS = st.sampled_from(
    [
        "needle",
        "Needle",
        "x[ab]y",
        r"\d+",
        r"\w",
        ".",
        ".{0,3}",
        "(?:one|two)",
        "(?:one|two|th?ree)?",
        "(?P<name>kernel)",
        r"(?:unit \d+ died|unitless)",
        "[^x]",
        "(?:left right)+",
        "内存",
        r"\[",
        "a?",
    ]
)


@given(st.lists(_PARTS, min_size=1, max_size=5), st.booleans(), st.data())
@settings(max_examples=200, deadline=None)
def test_every_match_contains_a_required_literal(parts: list[str], nocase: bool, data: st.DataObject) -> None:
    source = "".join(dict.fromkeys(parts))
    source = f"(?i){source}" if nocase else source
    if list(regex.problems(source)):
        return
    body, _ = regex.split_case(source)
    drawn: str = data.draw(st.from_regex(re.compile(body, re.ASCII | (re.IGNORECASE if nocase else 0))))
    text = drawn.encode("utf-8", "replace")
    found = regex.compile_bytes(source).search(text)
    if found is None:  # a character class may match part of a character in bytes only
        return
    literals = [literal.encode() for literal in regex.required(source)]
    matched = found.group().lower() if nocase else found.group()
    assert any(literal in matched for literal in literals), (source, text, literals)
    lower = found.group().lower()
    for texts in regex.needs(source):
        assert any(word.encode() in lower for word in texts), (source, text, texts)


@pytest.mark.parametrize(
    ("source", "needs"),
    [
        (r"EI0006.{0,80}[Gg]etting socket times out", (("ei0006",),)),
        (r"[Pp]arameter.{0,80}(?:duplicate|repeat)(?:d|s)?", (("parameter",),)),
        (r"(?:ab)?needle.{0,8}(?:x|yy)?", ()),
    ],
)
def test_what_else_every_match_holds(source: str, needs: tuple[tuple[str, ...], ...]) -> None:
    assert regex.needs(source) == needs


def test_a_literal_that_holds_another_says_nothing_more() -> None:
    assert regex.required("unknown tokens?") == ("unknown token",)
    assert regex.required("(?:out of memory|not out of memory)") == ("out of memory",)


@pytest.mark.parametrize("text", [b"a" * 8192, b"x needle " * 900, b"\t" * 8192, b"needle" + b"0" * 8192])
def test_an_accepted_expression_ends_on_a_long_line(text: bytes) -> None:
    for source in (r"needle.*x.*y.*z.*q", r"(?:\.\d+)*needle \d+ end", r"needle[^\n]{0,80}end", r"\w+ needle"):
        assert not list(regex.problems(source))
        regex.compile_bytes(source).search(text)


def test_group_names() -> None:
    assert regex.group_names(r"(?P<a>x)(?P<b>y)zzz") == {"a", "b"}
    assert re.search(regex.compile_bytes("(?i)ABC"), b"xabc")
