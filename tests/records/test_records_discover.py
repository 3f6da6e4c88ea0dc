"""The logs of a run, their ranks and the order of their parts, from what the user names."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Optional

import pytest

from doctor.errors import UsageError
from doctor.records.discover import discover
from doctor.records.ranks import rank_of_environment, rank_of_path


def make(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def names(folder: Path, *paths: str) -> list[tuple[str, str, Optional[int]]]:
    found = discover([folder / path for path in paths] or [folder])
    return [(str(log.path.relative_to(folder)), log.kind, log.rank) for log in found]


def test_a_mindformers_output_folder(tmp_path: Path) -> None:
    make(
        tmp_path,
        "output/log/rank_10/info.log",
        "output/log/rank_2/info.log",
        "output/log/rank_2/error.log",
        "output/msrun_log/worker_2.log",
        "output/msrun_log/scheduler.log",
        "output/checkpoint/rank_2/train.log",
        "output/strategy/ckpt_strategy_rank_0.ckpt",
        "run.yaml",
    )
    assert names(tmp_path) == [
        ("output/msrun_log/scheduler.log", "scheduler", None),
        ("output/log/rank_2/info.log", "steps", 2),
        ("output/msrun_log/worker_2.log", "worker", 2),
        ("output/log/rank_2/error.log", "error", 2),
        ("output/log/rank_10/info.log", "steps", 10),
    ]


def test_our_own_run_folder(tmp_path: Path) -> None:
    make(
        tmp_path,
        "log/rank_0.log",
        "log/rank_1.log",
        "metrics/rank_0.jsonl",
        "end.json",
        "config.yaml",
        "findings.jsonl",
    )
    assert names(tmp_path) == [
        ("metrics/rank_0.jsonl", "metrics", 0),
        ("log/rank_0.log", "steps", 0),
        ("log/rank_1.log", "steps", 1),
    ]


def test_rotated_parts_in_order_of_age(tmp_path: Path) -> None:
    make(
        tmp_path,
        "info.log",
        "info.log.1",
        "info.log.2",
        "info.log.10",
        "info.log.3.gz",
        "info.log.2024-05-06",
        "info.log-20240507.gz",
    )
    (log,) = discover([tmp_path])
    assert [part.name for part in log.parts] == [
        "info.log.2024-05-06",
        "info.log-20240507.gz",
        "info.log.10",
        "info.log.3.gz",
        "info.log.2",
        "info.log.1",
        "info.log",
    ]
    assert log.path.name == "info.log"


def test_a_named_file_is_taken_with_its_parts_whatever_its_name(tmp_path: Path) -> None:
    make(tmp_path, "oddly named", "info.log", "info.log.1", "info.logic")
    (odd,) = discover([tmp_path / "oddly named"])
    assert odd.parts == (tmp_path / "oddly named",)
    (info,) = discover([tmp_path / "info.log"])
    assert [part.name for part in info.parts] == ["info.log.1", "info.log"]
    (part,) = discover([tmp_path / "info.log.1"])
    assert [item.name for item in part.parts] == ["info.log.1"]


def test_globs_and_doubles(tmp_path: Path) -> None:
    make(tmp_path, "worker_0.log", "worker_1.log", "worker_10.log")
    found = discover([str(tmp_path / "worker_*.log"), tmp_path / "worker_1.log"])
    assert [log.rank for log in found] == [0, 1, 10]


def test_a_thousand_ranks(tmp_path: Path) -> None:
    for rank in range(1024):
        make(tmp_path, f"log/rank_{rank}/info.log")
    assert [log.rank for log in discover([tmp_path])] == list(range(1024))


@pytest.mark.parametrize("name", ["missing", "missing*.log", "empty", "a\0b"])
def test_nothing_there_is_one_clear_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "weights.safetensors").touch()
    with pytest.raises(UsageError) as caught:
        discover([str(tmp_path / name)])
    for lang in ("en", "zh"):
        assert "\n" not in caught.value.line(lang)


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    make(tmp_path, "a/run.log")
    (tmp_path / "a" / "again").symlink_to(tmp_path, target_is_directory=True)
    assert names(tmp_path) == [("a/run.log", "log", None)]


@pytest.mark.parametrize(
    ("path", "rank"),
    [
        ("output/log/rank_3/info.log", 3),
        ("log/rank_12.log", 12),
        ("msrun_log/worker_7.log", 7),
        ("worker-1/rank-0.txt", 0),
        ("train_parallel1/log", 1),
        ("device3/train.log", 3),
        ("logs/npu_5.log", 5),
        ("log_4.txt", 4),
        ("run-2024/llama2_7b.log", None),
        ("rank_table_8p/train.log", None),
        ("mf18_healthy.log", None),
    ],
)
def test_ranks_of_paths(path: str, rank: Optional[int]) -> None:
    assert rank_of_path(PurePath(path)) == rank


def test_ranks_of_processes() -> None:
    assert rank_of_environment({"RANK_ID": "5", "RANK": "1"}) == 5
    assert rank_of_environment({"OMPI_COMM_WORLD_RANK": "2"}) == 2
    assert rank_of_environment({"RANK": "x"}) is None
