"""``python -m tests.benchmarks.bench_position``: one cause among millions of healthy lines, at any place, in any kind of file.

The cause is put at the beginning, at the end, across the borders of blocks and at random places; the log is a file, a
compressed one, one that was rotated, or that of one of eight ranks. Found means: it is the first finding, and the evidence is
the line where it stands.
"""

from __future__ import annotations

import argparse
import gzip
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

_STEP = (
    "2026-03-01 10:00:00,000 - mindformers/log[mindformers/core/callback/callback.py:523] - INFO - {{ Epoch:[  1/  1], "
    "step:[{step:5d}/900000], loss: {loss:5.3f}, per_step_time: {ms}ms, lr: 1.000000e-04, overflow cond: False, "
    "loss_scale: 65536.0, global_norm: [1.2345], train_throughput_per_npu: 155.000T\n"
)
CAUSE = "RuntimeError: Device(id:3) memory isn't enough and alloc failed, kernel name: Default/MatMul-op1, alloc size: 2147483648B.\n"
RULE_CATEGORY = "oom-device"
BORDER = 1 << 20


def healthy(size: int) -> bytes:
    rng = random.Random(4)
    lines, done, step = [], 0, 0
    while done < size:
        step += 1
        line = _STEP.format(step=step, loss=2 + 8 / (1 + step / 300) + rng.gauss(0, 0.01), ms=1000 + rng.randrange(20))
        lines.append(line)
        done += len(line)
    return "".join(lines).encode()


def places(log: bytes, count: int) -> Iterator[int]:
    """Offsets of line beginnings: the ends, those nearest to borders of blocks, and random ones."""
    rng = random.Random(8)
    wanted = [0, len(log)]
    wanted += [border + shift for border in range(BORDER, len(log), 4 * BORDER) for shift in (-60, 0, 60)]
    wanted += [rng.randrange(len(log)) for _ in range(count)]
    for at in wanted:
        yield log.rfind(b"\n", 0, at) + 1


def _plain(folder: Path, data: bytes, place: int) -> Path:
    (folder / "info.log").write_bytes(data)
    return folder / "info.log"


def _gzipped(folder: Path, data: bytes, place: int) -> Path:
    (folder / "info.log.gz").write_bytes(gzip.compress(data, 1))
    return folder / "info.log.gz"


def _rotated(folder: Path, data: bytes, place: int) -> Path:
    third = data.find(b"\n", len(data) // 3) + 1
    two = data.find(b"\n", 2 * len(data) // 3) + 1
    (folder / "info.log.2.gz").write_bytes(gzip.compress(data[:third], 1))
    (folder / "info.log.1").write_bytes(data[third:two])
    (folder / "info.log").write_bytes(data[two:])
    return folder


def _ranks(folder: Path, data: bytes, place: int) -> Path:
    guilty, rest = place % 8, data.replace(CAUSE.encode(), b"")[: 1 << 20]
    for rank in range(8):
        (folder / f"rank_{rank}").mkdir()
        (folder / f"rank_{rank}" / "info.log").write_bytes(data if rank == guilty else rest)
    return folder


KINDS: dict[str, Callable[[Path, bytes, int], Path]] = {
    "file": _plain,
    "gzip": _gzipped,
    "rotated": _rotated,
    "8 ranks": _ranks,
}


def main() -> None:
    from doctor.match.pack import load_pack
    from doctor.session import DiagnosisSession
    from doctor.session.reading import read_run

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=float, default=9)
    parser.add_argument("--random", type=int, default=8, help="random places, besides the ends and the borders")
    args = parser.parse_args()
    pack, log = load_pack(), healthy(int(args.mb * (1 << 20)))
    for name, write in KINDS.items():
        found, missed = 0, []
        for at in places(log, args.random):
            data = log[:at] + CAUSE.encode() + log[at:]
            with tempfile.TemporaryDirectory() as scratch:
                session = DiagnosisSession(pack)
                read_run(session, [str(write(Path(scratch), data, at))], lambda event: None)
                first = session.findings()[:1]
            text = CAUSE.strip()[:60]
            right = any(item.category == RULE_CATEGORY and text in (item.evidence[0].text or "") for item in first)
            found += right
            if not right:
                missed.append((at, [item.rule for item in first]))
        print(
            f"{name:<8} {found}/{found + len(missed)} places found in {args.mb:g} MB   goal all   {missed[:4] or ''}",
            flush=True,
        )


if __name__ == "__main__":
    main()
