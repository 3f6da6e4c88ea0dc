"""Files as chunks of whole lines: nothing lost, offsets and line numbers right, memory bounded."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import math
import os
import random
import re
import struct
import subprocess
import sys
import zipfile
from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.errors import UsageError
from doctor.records.cutter import Cutter
from doctor.records.reader import read
from doctor.records.record import Chunk, Notice


def chunks_of(path: Path, size: int = 1 << 20) -> list[Chunk]:
    return list(read(path, chunk_size=size))


def joined(chunks: list[Chunk]) -> bytes:
    return b"".join(chunk.data for chunk in chunks)


lines = st.lists(st.text(alphabet="ab \r\0é1.", max_size=12).map(str.encode), max_size=20).map(b"\n".join)


@given(data=lines, cuts=st.lists(st.integers(0, 300), max_size=8), limit=st.integers(4, 40))
def test_any_feeding_gives_all_bytes_with_true_offsets_and_lines(data: bytes, cuts: list[int], limit: int) -> None:
    cutter = Cutter("a.log", limit=limit)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    found = [chunk for a, b in zip(edges, edges[1:]) for chunk in cutter.feed(data[a:b])]
    last = cutter.flush()
    found += [last] if last else []
    assert joined(found) == data
    for chunk in found:
        assert data[chunk.offset : chunk.offset + len(chunk.data)] == chunk.data
        assert chunk.first_line == data.count(b"\n", 0, chunk.offset) + 1
        assert max(map(len, re.split(rb"(?<=[\r\n])", chunk.data))) <= limit or not cuts


@given(data=lines, size=st.integers(1, 50))
def test_chunks_end_at_line_ends_unless_the_line_is_too_long(data: bytes, size: int) -> None:
    cutter = Cutter("a.log", limit=1000)
    found = [chunk for at in range(0, len(data), size) for chunk in cutter.feed(data[at : at + size])]
    assert all(chunk.data[-1:] in b"\r\n" for chunk in found)


def test_an_over_long_line_comes_in_pieces_cut_between_words(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    data = b"first\n" + b"key=value, " * 300_000 + b"RuntimeError: the end\nlast\n"
    path.write_bytes(data)
    found = chunks_of(path)
    assert joined(found) == data
    assert max(len(chunk.data) for chunk in found) <= 1 << 20
    pieces = [chunk for chunk in found if chunk.first_line == 2]
    assert len(pieces) >= 3
    assert all(chunk.data.endswith((b" ", b",")) for chunk in pieces[:-1])
    assert found[-1].first_line + found[-1].data.count(b"\n") == 4


def test_a_progress_bar_without_newlines_is_cut_at_carriage_returns(tmp_path: Path) -> None:
    path = tmp_path / "bar.log"
    path.write_bytes(b"".join(b"\r%d/3000 [00:01]" % n for n in range(3000)))
    found = chunks_of(path, size=4096)
    assert len(found) > 5
    assert {chunk.first_line for chunk in found} == {1}
    assert all(chunk.data.endswith(b"\r") for chunk in found[:-1])


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress], ids=["gzip", "bzip2", "xz"])
def test_compressed_parts_are_told_by_content_and_may_have_several_members(tmp_path: Path, pack: object) -> None:
    path = tmp_path / "info.log.1"
    path.write_bytes(pack(b"one\ntwo\n") + pack(b"three\n" * 100_000))  # type: ignore[operator]
    found = chunks_of(path, size=5000)
    assert joined(found) == b"one\ntwo\n" + b"three\n" * 100_000
    assert found[-1].first_line + found[-1].data.count(b"\n") == 100_003


def test_a_compressed_file_cut_short_gives_what_it_holds_and_a_notice(tmp_path: Path) -> None:
    path = tmp_path / "info.log.gz"
    text = b"".join(b"line %d\n" % n for n in range(50_000))
    path.write_bytes(gzip.compress(text)[:-2000])
    told: list[Notice] = []
    found = list(read(path, on_notice=told.append))
    assert text.startswith(joined(found))
    assert len(joined(found)) > 100_000
    assert [notice.kind for notice in told] == ["damaged"]


def test_a_bomb_is_unpacked_in_bounded_blocks(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"\0" * (64 << 20)))
    assert max(len(chunk.data) for chunk in read(path)) <= 1 << 20


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_becomes_utf_8(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "windows.log"
    text = "step 1, loss is 2.5\r\n损失 2.4\r\n" * 50
    path.write_bytes(text.encode(encoding))
    assert joined(chunks_of(path, size=33)).decode().lstrip("\ufeff") == text


@pytest.mark.parametrize(
    ("given", "said"), [("exec 0<&-;", "refused"), ("echo a |", "b'a\\n'")], ids=["closed", "pipe"]
)
def test_standard_input(given: str, said: str) -> None:
    script = (
        "from doctor.errors import UsageError\nfrom doctor.records.reader import read\n"
        "try:\n    print(*[chunk.data for chunk in read('-')])\nexcept UsageError:\n    print('refused')\n"
    )
    command = ["sh", "-c", f'{given} "$@"', "sh", sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == said


def test_nul_blocks_and_gbk_pass_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "mixed.log"
    data = b"a\n" + b"\0" * 4000 + "损失值: 2.5\n".encode("gbk") + b"b"
    path.write_bytes(data)
    assert joined(chunks_of(path)) == data


def _no_text(kind: str) -> bytes:
    """Files that people name by mistake."""
    numbers = array("f", (math.sin(number) for number in range(4000))).tobytes()
    if kind == "random":
        return random.Random(5).randbytes(9000)
    if kind == "weights":
        return struct.pack("<Q", 40) + b'{"w":{"dtype":"F32","shape":[4000]}}'.ljust(40) + numbers
    if kind == "archive":
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("worker_0.log", "".join(f"step {number}\n" for number in range(9000)))
        return out.getvalue()
    return gzip.compress(numbers)


@pytest.mark.parametrize("kind", ["random", "weights", "archive", "compressed weights"])
def test_what_is_no_text_gives_no_line_and_a_notice(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "worker_0.log"
    path.write_bytes(_no_text(kind))
    told: list[Notice] = []
    assert list(read(path, on_notice=told.append)) == []
    assert [(notice.kind, notice.detail) for notice in told] == [("damaged", "binary data, not a log")]


@pytest.mark.parametrize("stray", [b"\0" * 3000, b"\x1b[31m\x08\x0c\a", b"\x01\x02", "错误：显存不足".encode("gbk")])
def test_a_text_with_stray_bytes_is_a_text(tmp_path: Path, stray: bytes) -> None:
    path = tmp_path / "worker_0.log"
    path.write_bytes(b"".join(b"step %d, loss is 2.5 %b\n" % (number, stray) for number in range(90)))
    assert joined(chunks_of(path)) == path.read_bytes()


def test_an_empty_file_has_no_chunks(tmp_path: Path) -> None:
    path = tmp_path / "empty.log"
    path.touch()
    assert chunks_of(path) == []


@pytest.mark.parametrize("name", ["missing.log", "missing\0.log", "folder", "a" * 5000])
def test_what_cannot_be_opened_is_one_clear_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError) as caught:
        read(tmp_path / name)
    for lang in ("en", "zh"):
        line = caught.value.line(lang)
        assert "\n" not in line and "\0" not in line and len(line) < 500


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "secret.log"
    path.touch(mode=0)
    with pytest.raises(UsageError, match="permission"):
        read(path)
