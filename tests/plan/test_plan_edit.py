"""Edits change the text of one setting and nothing else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.errors import UsageError
from doctor.finding import Edit
from doctor.plan.edit import apply, diff, edit_text, propose

TEXT = """\
# top of the file
seed: &seed 8   # eight
again: *seed    # the same
section:
  quoted: 'on'   # a word
  list: [*seed, 1, 2]
  misspelt: 3  # keep me
empty:
flow: {k: 1, l: 2}
items:
  - type: A
    steps: 1  # each
  - type: B
rate: 1e-5
deep:
    deeper:
        z: 1

# end of the file
"""


def changed(*edits: tuple[str, Any, Any], text: str = TEXT) -> str:
    return edit_text(text, [Edit("run.yaml", *edit) for edit in edits])


def lines(old: str, new: str) -> list[str]:
    """The lines that came and went."""
    body = diff(Path("run.yaml"), old, new).splitlines()[2:]
    return [line for line in body if line[:1] in "+-"]


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (("seed", 8, 4), ["-seed: &seed 8   # eight", "+seed: &seed 4   # eight"]),
        (("again", 8, 2), ["-again: *seed    # the same", "+again: 2    # the same"]),
        (("section.quoted", "on", "off"), ["-  quoted: 'on'   # a word", "+  quoted: 'off'   # a word"]),
        (("section.list[0]", 8, 4), ["-  list: [*seed, 1, 2]", "+  list: [4, 1, 2]"]),
        (("section.list", [8, 1, 2], [1]), ["-  list: [*seed, 1, 2]", "+  list: [1]"]),
        (("rate", "1e-5", 1e-5), ["-rate: 1e-5", "+rate: 1.0e-5"]),
        (("flow.k", 1, None), ["-flow: {k: 1, l: 2}", "+flow: {l: 2}"]),
        (("flow.l", 2, None), ["-flow: {k: 1, l: 2}", "+flow: {k: 1}"]),
        (("flow.m", None, True), ["-flow: {k: 1, l: 2}", "+flow: {k: 1, l: 2, m: true}"]),
        (("items[0].steps", 1, None), ["-    steps: 1  # each"]),
        (("items[0].type", "A", None), ["-  - type: A", "-    steps: 1  # each", "+  - steps: 1  # each"]),
        (("items[1].steps", None, 500), ["+    steps: 500"]),
        (("deep.deeper.w", None, [1, 2]), ["+        w: [1, 2]"]),
        (("empty.inner", None, 3), ["+  inner: 3"]),
        (("new.section.x", None, 1e-8), ["+new:", "+  section:", "+    x: 1.0e-8"]),
    ],
    ids=lambda item: item[0] if isinstance(item, tuple) else "",
)
def test_only_the_setting_changes(edit: tuple[str, Any, Any], expected: list[str]) -> None:
    new = changed(edit)
    assert lines(TEXT, new) == expected
    yaml.safe_load(new)


def test_a_key_is_renamed_in_its_place() -> None:
    new = changed(("section.misspelt", 3, None), ("section.spelt", None, 3))
    assert lines(TEXT, new) == ["-  misspelt: 3  # keep me", "+  spelt: 3  # keep me"]


def test_a_mapping_takes_the_place_of_a_number() -> None:
    new = changed(("rate", "1e-5", {"type": "Dynamic", "value": 65536}))
    assert yaml.safe_load(new)["rate"] == {"type": "Dynamic", "value": 65536}
    assert "\nrate:\n  type: Dynamic\n  value: 65536\n" in new


def test_an_edit_that_no_longer_fits_is_left_out() -> None:
    assert changed(("seed", 9, 4)) == TEXT
    assert changed(("nowhere[3].x", None, 4)) == TEXT
    assert changed(("seed", 8, 4), ("seed", 8, 5)) == changed(("seed", 8, 4))


def test_booleans_follow_the_style_of_the_file() -> None:
    assert "b: False\n" in changed(("b", True, False), text="a: True\nb: True\n")
    assert "b: false\n" in changed(("b", True, False), text="a: true\nb: true\n")


def test_line_ends_stay_as_they_are() -> None:
    text = "a: 1\r\nb:\r\n  c: 2\r\n"
    assert changed(("b.d", None, 3), text=text) == "a: 1\r\nb:\r\n  c: 2\r\n  d: 3\r\n"


def test_writing_is_whole_and_keeps_the_mode(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(TEXT)
    path.chmod(0o640)
    old, new = propose(path, [Edit(str(path), "seed", 8, 4)])
    apply(path, old, new)
    assert path.read_text() == new
    assert path.stat().st_mode & 0o777 == 0o640
    assert [item.name for item in tmp_path.iterdir()] == ["run.yaml"]
    with pytest.raises(UsageError, match="changed in the meantime"):
        apply(path, old, new)


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "real.yaml", tmp_path / "link.yaml"
    path.write_text(TEXT)
    link.symlink_to(path)
    apply(link, *propose(link, [Edit(str(link), "seed", 8, 4)]))
    assert link.is_symlink()
    assert "seed: &seed 4" in path.read_text()


def test_encoding_and_mark_stay(tmp_path: Path) -> None:
    for raw in ("a: 1 # 中文\n".encode("gb18030"), b"\xef\xbb\xbf" + "a: 1 # 中文\n".encode()):
        path = tmp_path / "run.yaml"
        path.write_bytes(raw)
        apply(path, *propose(path, [Edit(str(path), "a", 1, 2)]))
        assert path.read_bytes() == raw.replace(b"a: 1", b"a: 2")


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
def test_a_read_only_folder_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(TEXT)
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(UsageError, match="cannot be written"):
            apply(path, TEXT, TEXT + "\n")
    finally:
        tmp_path.chmod(0o700)


_names = st.text("abcdefgh", min_size=1, max_size=4)
_scalars = (
    st.integers(-99, 99)
    | st.booleans()
    | st.sampled_from(["on", "1e-5", "a: b", "# no", "", "'q'", "中文", "-x", "null", " s "])
    | st.floats(1e-9, 1e9)
)
_trees = st.recursive(
    _scalars,
    lambda inner: st.dictionaries(_names, inner, min_size=1, max_size=4) | st.lists(inner, min_size=1, max_size=3),
    max_leaves=12,
)


@given(
    st.dictionaries(_names, _trees, min_size=1, max_size=4),
    _scalars,
    st.randoms(use_true_random=False),
    st.sampled_from([True, False, None]),
)
@settings(max_examples=250, deadline=None)
def test_an_edit_does_what_it_says_on_any_tree(data: dict[str, Any], new: Any, rng: Any, flow: Any) -> None:
    text = yaml.safe_dump(data, default_flow_style=flow, allow_unicode=True)
    paths: list[tuple[str, Any]] = []

    def collect(node: Any, path: str) -> None:
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for name, item in items:
            inner = f"{path}[{name}]" if isinstance(node, list) else f"{path}.{name}" if path else str(name)
            paths.append((inner, item))
            collect(item, inner)

    collect(data, "")
    key, old = rng.choice(paths)
    result = edit_text(text, [Edit("x", key, old, new)])
    expected = yaml.safe_load(text)
    found = yaml.safe_load(result)
    if found == expected:
        assert result == text or old == new
        return
    here: Any = found
    steps = key.replace("]", "").replace("[", ".#").split(".")
    for step in steps:
        here = here[int(step[1:])] if step.startswith("#") else here[step]
    assert here == new


def test_a_write_protected_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("seed: 1\n")
    path.chmod(0o444)
    with pytest.raises(UsageError, match="write-protected"):
        apply(path, "seed: 1\n", "seed: 2\n")
    assert path.read_text() == "seed: 1\n"
