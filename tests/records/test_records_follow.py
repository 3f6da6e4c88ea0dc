"""Following logs that are written, rotated, truncated, replaced and deleted under us: each byte once, in order."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.records.follow import Follower
from doctor.records.followed import Item
from doctor.records.record import Chunk, Notice


@pytest.fixture(params=[True, False], ids=["inotify", "polling"])
def follow(request: pytest.FixtureRequest) -> Iterator[Callable[..., Follower]]:
    opened: list[Follower] = []

    def make(*paths: Path, **more: Any) -> Follower:
        opened.append(Follower(paths, use_inotify=request.param, **more))
        return opened[-1]

    yield make
    for follower in opened:
        follower.close()


def collect(follower: Follower, until: Callable[[list[Item]], bool], seconds: float = 10.0) -> list[Item]:
    """What the follower gives until `until` is satisfied; fails the test when that takes too long."""
    items: list[Item] = []
    end = time.monotonic() + seconds
    while not until(items):
        assert time.monotonic() < end, items
        items.extend(follower.poll(0.2))
    return items


def text(items: list[Item], name: str = "") -> bytes:
    return b"".join(item.data for item in items if isinstance(item, Chunk) and item.source.endswith(name))


def kinds(items: list[Item]) -> list[str]:
    return [item.kind for item in items if isinstance(item, Notice)]


def having(data: bytes) -> Callable[[list[Item]], bool]:
    return lambda items: data in text(items)


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as out:
        out.write(data)


def test_lines_come_when_they_are_whole(tmp_path: Path, follow: Callable[..., Follower]) -> None:
    log = tmp_path / "worker_3.log"
    log.write_bytes(b"old\n")
    follower = follow(log)
    first = collect(follower, having(b"old\n"))
    assert [item.rank for item in first] == [3, 3] and kinds(first) == ["opened"]
    append(log, b"half")
    assert follower.poll(0.15) == []
    append(log, b" whole\nnext")
    items = collect(follower, having(b"whole"))
    (chunk,) = items
    assert isinstance(chunk, Chunk)
    assert (chunk.data, chunk.offset, chunk.first_line) == (b"half whole\n", 4, 2)
    (rest,) = follower.finish()
    assert isinstance(rest, Chunk) and rest.data == b"next"


def test_another_process_writes_and_nothing_is_lost(tmp_path: Path, follow: Callable[..., Follower]) -> None:
    log = tmp_path / "run.log"
    script = (
        "import sys, time\n"
        "with open(sys.argv[1], 'w') as out:\n"
        "    for n in range(300):\n"
        "        out.write(f'epoch: 1 step: {n}, loss is 2.5\\n'); out.flush()\n"
        "        time.sleep(0.002)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(log)]) as child:
        items = collect(follow(log), having(b"step: 299,"))
        assert child.wait(10) == 0
    expected = b"".join(b"epoch: 1 step: %d, loss is 2.5\n" % n for n in range(300))
    assert text(items) == expected


def test_files_and_folders_that_appear_later_are_found(tmp_path: Path, follow: Callable[..., Follower]) -> None:
    follower = follow(tmp_path, tmp_path / "later.log")
    assert follower.poll(0.05) == []
    folder = tmp_path / "output" / "log" / "rank_5"
    folder.mkdir(parents=True)
    (folder / "info.log").write_bytes(b"one\n")
    (tmp_path / "later.log").write_bytes(b"two\n")
    items = collect(follower, lambda items: b"one\n" in text(items) and b"two\n" in text(items))
    assert {item.rank for item in items if item.source.endswith("info.log")} == {5}


def test_rotation_reads_the_old_file_to_its_end_and_then_the_new_one(
    tmp_path: Path, follow: Callable[..., Follower]
) -> None:
    log = tmp_path / "info.log"
    log.write_bytes(b"1\n")
    follower = follow(log)
    collect(follower, having(b"1\n"))
    append(log, b"2\n")
    log.rename(tmp_path / "info.log.1")
    append(tmp_path / "info.log.1", b"3\n")
    log.write_bytes(b"4\n")
    items = collect(follower, having(b"4\n"))
    assert text(items) == b"2\n3\n4\n"
    new = items[-1]
    assert isinstance(new, Chunk) and (new.offset, new.first_line) == (0, 1)


@pytest.mark.parametrize("again", [b"new\n", b"new and longer than before it was\n"], ids=["shorter", "longer"])
def test_truncation_begins_again(tmp_path: Path, follow: Callable[..., Follower], again: bytes) -> None:
    log = tmp_path / "run.log"
    log.write_bytes(b"a line before\n")
    follower = follow(log)
    collect(follower, having(b"before\n"))
    log.write_bytes(again)  # the same inode: opened with O_TRUNC
    items = collect(follower, having(again))
    assert kinds(items) == ["truncated", "opened"]
    assert text(items) == again


def test_replacement_by_another_file(tmp_path: Path, follow: Callable[..., Follower]) -> None:
    log, new = tmp_path / "run.log", tmp_path / "new"
    log.write_bytes(b"the same\n")
    follower = follow(log)
    collect(follower, having(b"same\n"))
    new.write_bytes(b"the same\n")
    new.replace(log)
    items = collect(follower, having(b"same\n"))
    assert kinds(items) == ["replaced", "opened"]


def test_a_deleted_file_is_told_and_waited_for(tmp_path: Path, follow: Callable[..., Follower]) -> None:
    log = tmp_path / "run.log"
    log.write_bytes(b"1\nunfinished")
    follower = follow(log)
    collect(follower, having(b"1\n"))
    log.unlink()
    items = collect(follower, lambda items: "vanished" in kinds(items))
    assert text(items) == b"unfinished"
    log.write_bytes(b"2\n")
    assert kinds(collect(follower, having(b"2\n"))) == ["opened"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_one_file_without_permission_does_not_stop_the_others(tmp_path: Path, follow: Callable[..., Follower]) -> None:
    (tmp_path / "worker_0.log").write_bytes(b"zero\n")
    (tmp_path / "worker_1.log").touch(mode=0)
    items = collect(follow(tmp_path), lambda items: b"zero\n" in text(items) and "unreadable" in kinds(items))
    assert kinds(items).count("unreadable") == 1


def test_a_folder_in_the_place_of_a_log_is_unreadable_once(tmp_path: Path, follow: Callable[..., Follower]) -> None:
    log = tmp_path / "run.log"
    log.write_bytes(b"1\n")
    follower = follow(log)
    collect(follower, having(b"1\n"))
    log.unlink()
    log.mkdir()
    items = collect(follower, lambda items: "unreadable" in kinds(items))
    assert follower.poll(0.2) == []
    assert kinds(items) == ["replaced", "opened", "unreadable"]


def test_older_parts_come_first(tmp_path: Path, follow: Callable[..., Follower]) -> None:
    (tmp_path / "info.log.2.gz").write_bytes(gzip.compress(b"1\n"))
    (tmp_path / "info.log.1").write_bytes(b"2\n")
    (tmp_path / "info.log").write_bytes(b"3\n")
    items = collect(follow(tmp_path), having(b"3\n"))
    assert text(items) == b"1\n2\n3\n"
    assert [Path(item.source).name for item in items if isinstance(item, Chunk)] == [
        "info.log.2.gz",
        "info.log.1",
        "info.log",
    ]


def test_catching_up_is_bounded(tmp_path: Path, follow: Callable[..., Follower]) -> None:
    data = b"".join(b"line %d\n" % n for n in range(1_000_000))
    (tmp_path / "a.log").write_bytes(data)
    (tmp_path / "b.log").write_bytes(data)
    follower = follow(tmp_path)
    rounds: list[list[Item]] = []
    collect(follower, lambda items: bool(rounds.append(items[-1:])) or text(items).count(b"line 999999\n") == 2)
    assert text(rounds[-1]) != b""


def test_a_stop_and_a_resume_lose_and_repeat_nothing(tmp_path: Path, follow: Callable[..., Follower]) -> None:
    log, saved = tmp_path / "run.log", tmp_path / "state.json"
    log.write_bytes(b"1\n2\nhal")
    follower = follow(log)
    collect(follower, having(b"2\n"))
    follower.save(saved)
    append(log, b"f\n3\n")
    log.rename(tmp_path / "run.log.1")
    log.write_bytes(b"4\n")
    again = follow(log, state=load(saved))
    items = collect(again, having(b"4\n"))
    assert text(items) == b"half\n3\n4\n"
    assert kinds(items) == ["resumed", "replaced", "opened"]
    first = next(item for item in items if isinstance(item, Chunk))
    assert (first.offset, first.first_line) == (4, 3)


def test_a_resume_on_another_file_reads_it_all(tmp_path: Path, follow: Callable[..., Follower]) -> None:
    log, saved = tmp_path / "run.log", tmp_path / "state.json"
    log.write_bytes(b"1\n2\n")
    follower = follow(log)
    collect(follower, having(b"2\n"))
    follower.save(saved)
    log.write_bytes(b"another run\nof more lines\n")
    assert text(collect(follow(log, state=load(saved)), having(b"lines\n"))) == b"another run\nof more lines\n"


@pytest.mark.parametrize("state", [{}, {"files": [1, {"path": "x"}, {"path": "run.log", "offset": "z"}]}])
def test_a_damaged_state_is_no_state(tmp_path: Path, follow: Callable[..., Follower], state: dict[str, Any]) -> None:
    log = tmp_path / "run.log"
    log.write_bytes(b"1\n")
    assert text(collect(follow(log, state=state), having(b"1\n"))) == b"1\n"


def test_saving_where_nothing_can_be_written_raises_and_leaves_nothing(
    tmp_path: Path, follow: Callable[..., Follower]
) -> None:
    with pytest.raises(OSError):
        follow(tmp_path).save(tmp_path / "missing" / "state.json")


def test_more_files_than_may_be_open(tmp_path: Path, follow: Callable[..., Follower], monkeypatch: Any) -> None:
    monkeypatch.setattr("doctor.records.follow.resource.getrlimit", lambda which: (64, 64))
    for rank in range(80):
        (tmp_path / f"worker_{rank}.log").write_bytes(b"%d\n" % rank)
    follower = follow(tmp_path)
    before = len(list(Path("/proc/self/fd").iterdir()))
    items = collect(follower, lambda items: len([i for i in items if isinstance(i, Chunk)]) == 80)
    append(tmp_path / "worker_0.log", b"more\n")
    append(tmp_path / "worker_79.log", b"more\n")
    items = collect(follower, lambda items: len(items) == 2)
    assert {item.rank for item in items} == {0, 79}
    assert len(list(Path("/proc/self/fd").iterdir())) - before <= 32


def test_inotify_that_tells_is_relied_on_and_one_that_does_not_is_not(tmp_path: Path, monkeypatch: Any) -> None:
    logs = [tmp_path / f"worker_{rank}.log" for rank in range(20)]
    for log in logs:
        log.write_bytes(b"0\n")
    with Follower([tmp_path]) as follower:
        collect(follower, lambda items: text(items).count(b"\n") == 20)
        if not follower._told[str(tmp_path)]:
            pytest.skip("no inotify here")
        for number in range(30):
            for log in logs:
                append(log, b"%d\n" % number)
            follower.poll(0.05)
        assert follower._told[str(tmp_path)]
        monkeypatch.setattr(follower._watch, "changes", lambda: iter(()))
        append(logs[0], b"unheard\n")
        collect(follower, having(b"unheard\n"))
        assert not follower._told[str(tmp_path)]


def test_our_own_output_is_not_read(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom doctor.records.follow import Follower\n"
        "f = Follower([sys.argv[1]])\n"
        "for _ in range(5):\n    print(*[i.kind for i in f.poll(0.1)], flush=True)\n"
    )
    out = tmp_path / "own.log"
    with out.open("wb") as sink:
        subprocess.run([sys.executable, "-c", script, str(tmp_path)], stdout=sink, check=True, timeout=30)
    assert out.read_text().split() == ["own-output"]


def test_standard_input_is_followed_to_its_end() -> None:
    script = (
        "from doctor.records.follow import Follower\n"
        "f = Follower(['-'])\n"
        "while not f.ended:\n    print([getattr(i, 'data', None) or i.kind for i in f.poll(1)], flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(b"one\ntw")
        child.stdin.flush()
        assert child.stdout.readline() == b"[b'one\\n']\n"
        child.stdin.close()
        rest = child.stdout.read()
        assert b"b'tw'" in rest and b"ended" in rest
        assert child.wait(10) == 0


@settings(max_examples=25, deadline=None)
@given(parts=st.lists(st.binary(max_size=30), max_size=12), resume_at=st.integers(0, 12))
def test_whatever_is_appended_and_wherever_it_is_resumed_the_bytes_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], resume_at: int
) -> None:
    log = tmp_path_factory.mktemp("f") / "run.log"
    log.write_bytes(b"start\n")
    follower = Follower([log], use_inotify=False)
    got: list[Item] = []
    for number, part in enumerate(parts):
        append(log, part)
        got += follower.poll(0)
        if number == resume_at:
            state = follower.state()
            follower.close()
            follower = Follower([log], state=state, use_inotify=False)
    got += follower.finish()
    follower.close()
    whole = b"start\n" + b"".join(parts)
    assert text(got) == whole
    for item in got:
        if isinstance(item, Chunk):
            assert whole[item.offset : item.offset + len(item.data)] == item.data
            assert item.first_line == whole.count(b"\n", 0, item.offset) + 1


def load(path: Path) -> Any:
    import json

    return json.loads(path.read_text())
