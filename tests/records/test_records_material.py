"""Public samples and real logs that stand beside the project where it is developed; skipped where they do not."""

from __future__ import annotations

import json
import math
import re
from hashlib import sha256
from pathlib import Path
from typing import Any, Optional

import pytest

from doctor.records.discover import discover
from doctor.records.metrics import MetricReader
from doctor.records.reader import read
from doctor.records.record import Chunk, Metric

LOGS = Path(__file__).resolve().parents[2] / "../shared/logs"
pytestmark = pytest.mark.skipif(not LOGS.is_dir(), reason="the samples are not here")

# what the samples call the fields of Metric; those mapped to "" are none
NAMES = {
    "tflops_per_npu": "throughput",
    "samples_per_s": "throughput",
    "loss_mean": "",
    "epoch_time_ms": "",
    "match": "",
}


def metrics(path: Path) -> list[Metric]:
    reader = MetricReader()
    return [metric for chunk in read(path) for metric in reader.feed(chunk)]


def expectations() -> list[Any]:
    if not LOGS.is_dir():
        return []
    import yaml

    rows = yaml.safe_load((LOGS / "samples/expected.yaml").read_text(encoding="utf-8"))
    return [
        pytest.param(name, item, id=f"{name}:{number}")
        for name, row in sorted(rows.items())
        for number, item in enumerate(row["expect"])
    ]


@pytest.mark.parametrize(("name", "item"), expectations())
def test_samples_give_the_expected_values(name: str, item: dict[str, Any]) -> None:
    path = LOGS / "samples" / name
    places = [
        line.start() for line in re.finditer(rb"[^\r\n]+", path.read_bytes()) if item["match"].encode() in line.group()
    ]
    (metric, *_) = [metric for metric in metrics(path) if metric.offset == places[0]]
    for key, value in item.items():
        field = NAMES.get(key, key)
        if field:
            assert getattr(metric, field) == value, key


# The first line of a make: (epoch, step, loss) as a person reads it, by the beginning of the line's SHA-256. Where a line
# names several losses and no main one, the first counts.
SHAPES: dict[str, tuple[Optional[int], Optional[int], Optional[float]]] = {
    "666d0cdc": (1, 5004, 4.8995576),
    "5a5e9267": (1, 195, 1.9601055),
    "a27cad0a": (1, 1, 5.00443),
    "3b24b5fe": (0, 5003, 4.367),
    "74b77d2e": (1, None, 5.814),
    "c04b1e6e": (1, 1, 76.25),
    "4c87b251": (494, None, 0.6885321),
    "bc33854d": (None, 1, 0.7011719),
    "9f6340c1": (1, 97, 1.9060308),
    "90f71917": (1, 12, 34696.242),
    "d799ad4e": (1, 982, 0.52109),
    "7fee17ef": (1, 2505, 0.04977),
    "876117f6": (0, None, 1.98709),
    "719516b0": (1, None, 5.401),
    "041773db": (1, 1, 1.3433),
    "7088dd99": (2, 149, 0.60761726),
    "cca321b1": (2, 390, 1.0897788),
    "53baff57": (0, 20, 68.1912),
    "93a0b7bb": (None, 250, 19.7810001373291),
    "b3c9330c": (2, 97, 1.6003821),
    "6eec2e7c": (1, 3450, 0.58619386),
    "5670d462": (None, 970, 2.4038),
    "0d67003c": (11, 7393, 0.54054),
    "221ce8f6": (1, None, 1.95373),
    "671db18d": (2, 79, 0.72336304),
    "4637eaaf": (0, None, 1.98498),
    "49f19c2e": (None, 374, 0.951583),
    "7ff2f0d2": (50, 1172, -16.564177),
    "fa1c1366": (0, 719000, 1.1664),
    "a0b8945d": (0, 10, 43.314265),
    "1993b68d": (30, 6, 0.7916494),
    "675e9c28": (1, 123384, 0.00069705985),
    "55c451fa": (1, 7393, 0.92218),
    "b58caebd": (1, 10, 1.487435),
    "c0b8c307": (1, 150, 15.9977),
    "8b85b975": (1, None, 0.343),
    "1523d14f": (2, 38, 1671.5763),
    "6a9c4bba": (1, 0, 1271.8345947265625),
    "dcce5364": (2, 48, 1.4023874),
    "a4452261": (0, 0, 7826.489258),
    "aaf61302": (1, None, 0.444),
    "fd1cfc80": (319, 146553, 19.998569),
    "5ff00774": (1, 1, 27.5),
    "b7bfa2e9": (None, None, 5.258),
    "796f39a3": (0, None, 6.738676),
    "d1ff83f1": (None, 0, 4.116372515040315),
    "ebd26769": (10, 31, 0.68408),
    "05f5b486": (0, 100, 0.18872623),
    "c669b1c6": (1, 12, 7.957302093505859),
    "ce77eb5a": (1, None, 2.4842823),
    "c48cb0bf": (0, 0, 639.3672),
    "8ebbb4b9": (1, 48, 1.4302931),
    "674ea493": (2, None, 1.906899),
    "f639d583": (2, 40, 0.77951),
    "3be5406b": (2, 40, 0.77951),
    "01b1e19a": (1, 76742, 0.3277069926261902),
    "baa4f294": (0, 20, 6.940182),
    "1503e0e6": (None, 1080, 1.3731),
    "84525f11": (None, None, None),
    "18746e3a": (0, 0, 2.2297878),
    "ae63eeeb": (0, 250, 0.3929835),
}


def test_line_shapes_are_read_as_a_person_reads_them() -> None:
    wrong = []
    lines = [json.loads(line)["line"] for line in (LOGS / "line-shapes.jsonl").read_text(encoding="utf-8").splitlines()]
    known = [line for line in lines if sha256(line.encode()).hexdigest()[:8] in SHAPES]
    for line in known:
        found = MetricReader().feed(Chunk("zoo.log", (line + "\n").encode(), 0, 1))
        got = (found[0].epoch, found[0].step, found[0].loss) if found else (None, None, None)
        if got != SHAPES[sha256(line.encode()).hexdigest()[:8]]:
            wrong.append((line, got))
    assert len(known) >= 60
    assert wrong == []


@pytest.mark.parametrize(
    ("name", "steps", "first", "last"),
    [
        ("mf18_healthy.log", 64, 6.245903, 4.019808),
        ("mf18_fp16_overflow.log", 64, 6.245903, 4.083289),
        ("mf18_killed9.log", 20, 6.245903, 5.293940),
        ("mf18_load_ok.log", 64, 3.975551, 2.240926),
        ("mf18_lr1e6_nan.log", 64, 6.245903, math.nan),
        ("mf18_bf16_cpu.log", 0, 0, 0),
        ("mf18_fail_rmsnorm_cpu.log", 0, 0, 0),
        ("mf18_numworkers8.log", 0, 0, 0),
        ("msrun_dead/worker_1.log", 0, 0, 0),
        ("msrun_dp/scheduler.log", 0, 0, 0),
    ],
)
def test_real_logs_of_mindformers(name: str, steps: int, first: float, last: float) -> None:
    found = metrics(LOGS / "mindformers-on-cpu" / name)
    assert [metric.step for metric in found] == list(range(1, steps + 1))
    if steps:
        assert found[0].loss == first
        assert found[-1].loss == last or (math.isnan(last) and math.isnan(found[-1].loss or 0.0))
        assert found[0].step_time_ms is not None and found[0].step_time_ms > 10 * (found[-1].step_time_ms or 0.0)
        assert all(a.time < b.time for a, b in zip(found, found[1:]) if a.time and b.time)


def test_the_real_overflow_run_overflows_eight_times() -> None:
    found = metrics(LOGS / "mindformers-on-cpu" / "mf18_fp16_overflow.log")
    assert [metric.overflow for metric in found].count(True) == 8
    assert found[0].loss_scale == 134217730.0 and math.isnan(found[0].grad_norm or 0.0)


def test_a_real_msrun_folder() -> None:
    found = discover([LOGS / "mindformers-on-cpu/msrun_hang"])
    assert [(log.path.name, log.rank, log.kind) for log in found] == [
        ("scheduler.log", None, "scheduler"),
        ("worker_0.log", 0, "worker"),
        ("worker_1.log", 1, "worker"),
    ]


def test_error_texts_of_the_corpus_hold_no_step_lines() -> None:
    """Reports of faults: tracebacks, device logs, codes. What does look like a step line must be one."""
    import yaml

    corpus = LOGS.parent / "corpus"
    for name in ("errors.yaml", "healthy-lines.yaml"):
        rows = yaml.safe_load((corpus / name).read_text(encoding="utf-8"))
        for row in rows:
            text = json.dumps(row, ensure_ascii=False).replace("\\n", "\n") if isinstance(row, dict) else str(row)
            for metric in MetricReader().feed(Chunk(name, (text + "\n").encode(), 0, 1)):
                assert metric.step is not None or metric.epoch is not None, metric.text
