"""The reader keeps the place of every value, and bounds what hostile text can cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.errors import UsageError
from doctor.plan import reader
from doctor.plan.reader import Document, parse
from doctor.plan.value import Value

PATH = Path("run.yaml")


def read(text: str, encoding: str = "utf-8") -> Document:
    return parse(text.encode(encoding), PATH)


def test_every_value_knows_line_column_offset_and_key() -> None:
    text = "a: 1\n# 注释\nb:\n  c: [x, 'y']\n"
    root = read(text).root
    item = root.get("b", "c").sequence[1]
    assert (item.value, item.quoted, item.key) == ("y", True, "b.c[1]")
    assert (item.location.line, item.location.column) == (4, 10)
    raw = text.encode()
    assert raw[item.location.offset or 0 :].startswith(b"'y'")


def test_byte_offsets_count_bytes_in_the_files_own_encoding() -> None:
    text = "键: 1 # 中文\nb: 2\n"
    for encoding in ("utf-8", "gb18030", "utf-8-sig"):
        raw = text.encode(encoding)
        value = parse(raw, PATH).root.get("b")
        assert raw[value.location.offset or 0 :].startswith(b"2"), encoding


def test_an_alias_shows_its_use_and_its_anchor() -> None:
    root = read("dp: &dp 8\nparallel_config:\n  data_parallel: *dp\n").root
    value = root.get("parallel_config", "data_parallel")
    assert value.whole == 8
    assert (value.location.line, value.key) == (3, "parallel_config.data_parallel")
    assert value.origin is not None
    assert (value.origin.line, value.origin.key) == (1, "dp")


def test_an_aliased_section_keeps_the_place_where_it_is_written() -> None:
    root = read("train: &t\n  batch_size: 2\ntask:\n  config: *t\n").root
    assert root.get("task", "config", "batch_size").key == "train.batch_size"


def test_a_merge_brings_values_in_and_own_ones_win() -> None:
    root = read("base: &b {x: 1, y: 2}\nown:\n  <<: *b\n  y: 3\n").root
    assert root.get("own", "x").location.line == 1
    assert (root.get("own", "y").whole, root.get("own", "y").location.line) == (3, 4)


def test_scalars_resolve_as_mindformers_safe_load_does() -> None:
    text = "a: 1e-5\nb: 1.e-5\nc: on\nd: None\ne: 0x10\nf: 1_000\ng: 12:30\nh: ~\ni: 2024-01-01\nj: .inf\n"
    expected = yaml.safe_load(text)
    expected["i"] = "2024-01-01"
    assert read(text).root.plain() == expected


def test_what_is_absent_stands_at_the_nearest_section() -> None:
    value = read("a:\n  b:\n    c: 1\n").root.get("a", "b", "d", "e")
    assert not value.given
    assert (value.key, value.location.line) == ("a.b.d.e", 2)


@pytest.mark.parametrize(
    ("text", "kind", "line"),
    [
        ("a: 1\na: 2\n", "duplicate", 2),
        ("a: &x [*x]\n", "recursion", 1),
        ("a: !!python/name:os.system x\n", "tag", 1),
        ("{a: 1}: 2\n", "key", 1),
        ("a:\n\tb: 1\n", "tab", 2),
        ("a: 1\n<<<<<<< ours\nb: 1\n=======\nb: 2\n>>>>>>> theirs\n", "conflict", 2),
    ],
)
def test_faults_of_the_text_are_kept_with_their_line(text: str, kind: str, line: int) -> None:
    problems = read(text).problems
    assert (problems[0].kind, problems[0].location.line) == (kind, line)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "empty"),
        (b"   \n", "empty"),
        (b"# only a comment\n", "empty"),
        (b"\x7fELF\x00\x01\x02", "binary"),
        (b"\xff\xfe\x00a", "binary"),
        (b"- a\n- b\n", ":1: not a mapping"),
        (b"just words\n", ":1: not a mapping"),
        (b"a: [1, 2\nb: 3\n", ":2:"),
        (b"a: 'open\nb: 3\n", ":1:"),
        (b"a: 1\n  b: 2\n", ":2:"),
        (b"a: 1\n---\nb: 2\n", ":2:"),
        (b"a: *nowhere\n", ":1:"),
        (b"[" * 200 + b"]" * 200, ":1:"),
        (b"{a: " * 300 + b"1" + b"}" * 300, ":1:"),
        (b"[" * 100_000, ":1:"),
    ],
)
def test_what_is_no_config_is_one_clear_line(raw: bytes, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(raw, PATH)
    assert words in caught.value.line("en")
    assert "\n" not in caught.value.line("zh")


def test_a_bomb_is_refused_and_not_expanded() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * 10) + "]" for n in range(1, 12)]
    with pytest.raises(UsageError, match="bomb"):
        read("\n".join(lines) + "\n")


def test_ten_thousand_keys_are_read() -> None:
    text = "train:\n" + "".join(f"  key_{n}: {n}\n" for n in range(10_000))
    assert read(text).root.get("train", "key_9999").location.line == 10_001


def test_a_huge_file_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "big.yaml"
    path.write_text("a: 1\n" * 100)
    monkeypatch.setattr(reader, "MAX_BYTES", 64)
    with pytest.raises(UsageError, match="limit"):
        reader.read_document(path)


def test_an_unreadable_path_is_one_clear_line(tmp_path: Path) -> None:
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(UsageError):
            reader.read_document(path)


def test_the_pure_parser_gives_the_same_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: &x 1\nb: [*x, 'q']\nc:\n  <<: {d: 2}\n  e: 1e-5\n"
    fast = [(v.key, v.plain(), v.location) for v in read(text).root.walk()]
    monkeypatch.setattr(reader, "_loader", lambda: yaml.SafeLoader)
    assert [(v.key, v.plain(), v.location) for v in read(text).root.walk()] == fast


def test_json_numbers_need_no_dot() -> None:
    assert parse(b'{"eps": 1e-06, "name": "1e-06"}', Path("config.json")).root.plain() == {"eps": 1e-6, "name": "1e-06"}


_plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abcxyz_", min_size=1, max_size=6), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.text("abcxyz_", min_size=1, max_size=6), _plain, min_size=1, max_size=5))
@settings(max_examples=150, deadline=None)
def test_reading_equals_yamls_own_loader(data: dict[str, Any]) -> None:
    text = yaml.safe_dump(data, allow_unicode=True)
    document = read(text)
    assert document.root.plain() == yaml.safe_load(text)
    for value in document.root.walk():
        assert isinstance(value, Value)
        assert value.location.line is not None


@given(st.text(max_size=200))
@settings(max_examples=300, deadline=None)
def test_any_text_is_a_document_or_a_clear_line(text: str) -> None:
    try:
        read(text.encode("utf-8", "replace").decode())
    except UsageError as error:
        assert error.line("en")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_utf16_is_named(encoding: str) -> None:
    mark = b"\xfe\xff" if encoding == "utf-16-be" else b""
    with pytest.raises(UsageError, match="UTF-16"):
        parse(mark + "seed: 1\n".encode(encoding), Path("config.yaml"))


def test_an_alias_of_a_section_has_the_place_of_its_use_and_remembers_the_anchor() -> None:
    document = parse(b"a: &s\n  b: 1\nc:\n  d: *s\n", Path("run.yaml"))
    used = document.root.get("c", "d")
    assert (used.key, used.location.line) == ("c.d", 4)
    assert used.origin is not None and used.origin.line == 1
    inner = used.get("b")
    assert (inner.key, inner.location.line) == ("a.b", 2)
    assert [item.key for item in document.root.walk()].count("a.b") == 1
