"""`doctor explain -`: what comes through a pipe is read as a file is: any size in bounded memory, compressed or not."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Optional

import pytest

from doctor.diagnosis import diagnose_chunks, diagnose_paths
from doctor.errors import UsageError
from doctor.match.document import by_header
from doctor.records.record import Chunk
from tests.conftest import Run
from tests.match.packs import pack, rule

ERROR = (
    b"RuntimeError: Device(id:3) memory isn't enough and alloc failed, "
    b"kernel name: Default/MatMul-op88, alloc size: 2147483648B.\n"
)


def explained(content: bytes, folder: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "doctor", "explain", "-", "--format", "json"],
        input=content,
        capture_output=True,
        cwd=folder,
        timeout=60,
        check=False,
    )
    assert b"Traceback" not in done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def quiet(size: int) -> bytes:
    return b"".join(b"[INFO] reading shard %06d of the corpus\n" % number for number in range(size // 40))


def test_a_long_pipe_keeps_ranks_lines_and_offsets(tmp_path: Path) -> None:
    head = quiet(1_500_000) + b"==> log/worker_3.log <==\n" + quiet(600_000)
    (cause, *_) = explained(head + ERROR + quiet(100_000), tmp_path)["findings"]
    (place, *_) = cause["evidence"]
    assert cause["rule"] == "LOG-MS-001"
    assert (place["source"], place["rank"]) == ("<stdin>", 3)
    assert (place["line"], place["offset"]) == (head.count(b"\n") + 1, len(head))


@pytest.mark.parametrize("size", [400, 900_000])
def test_a_compressed_pipe_is_read(tmp_path: Path, size: int) -> None:
    (cause, *_) = explained(gzip.compress(quiet(size) + ERROR), tmp_path)["findings"]
    assert cause["rule"] == "LOG-MS-001"
    assert cause["evidence"][0]["line"] == quiet(size).count(b"\n") + 1


def test_chunks_are_let_go() -> None:
    alive: list[int] = []
    needle = pack(rule(match={"line": ["needle in a haystack"]}))

    class Watched(bytes):
        def __init__(self, *_: object) -> None:
            alive.append(1)

        def __del__(self) -> None:
            alive.pop()

    most = 0

    def source() -> Any:
        nonlocal most
        for number in range(50):
            most = max(most, len(alive))
            yield Chunk("-", Watched(b"hay of the field\n" * 4096), number * 4096 * 17, number * 4096 + 1)

    diagnose_chunks(source(), needle)
    assert most < 10


def test_a_header_changes_the_rank_of_what_follows() -> None:
    first = Chunk("-", b"a\n==> rank_1.log <==\nb\n", 0, 1)
    second = Chunk("-", b"c\n==> rank_2.log <==\nd\n", first.offset + len(first.data), 4)
    parts = [(part.data, part.offset, part.first_line, part.rank) for part in by_header([first, second])]
    assert parts == [
        (b"a\n", 0, 1, None),
        (b"==> rank_1.log <==\nb\n", 2, 2, 1),
        (b"c\n", 23, 4, 1),
        (b"==> rank_2.log <==\nd\n", 25, 5, 2),
    ]


@pytest.mark.parametrize(("name", "before"), [("collected.log", None), ("worker_7.log", 7)])
def test_a_file_of_several_logs_has_the_ranks_of_its_headers(tmp_path: Path, name: str, before: Optional[int]) -> None:
    header = b"==> log/worker_3.log <==\n"
    (tmp_path / name).write_bytes(quiet(400) + header + quiet(3_000_000) + ERROR)
    assert diagnose_paths([tmp_path / name]).findings[0].evidence[0].rank == 3
    (tmp_path / name).write_bytes(ERROR + header + quiet(400))
    assert diagnose_paths([tmp_path / name]).findings[0].evidence[0].rank == before


def test_a_file_whose_compression_is_broken_is_refused(doctor: Run, tmp_path: Path) -> None:
    (tmp_path / "job.log.gz").write_bytes(b"\x1f\x8b\x08\x00" + bytes(range(60)))
    done = doctor("explain", "job.log.gz")
    assert done.returncode == 2
    assert "job.log.gz" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not done.stdout


def test_usage_errors_are_in_both_languages(tmp_path: Path) -> None:
    from doctor.diagnosis import diagnose_paths

    (tmp_path / "x.log.gz").write_bytes(b"\x1f\x8b\x08\x00" + bytes(range(60)))
    with pytest.raises(UsageError) as raised:
        diagnose_paths([tmp_path / "x.log.gz"])
    assert raised.value.what.zh != raised.value.what.en
