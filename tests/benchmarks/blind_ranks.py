"""``python -m tests.benchmarks.blind_ranks``: which rank failed first, in runs whose logs are as they are found in the field.

One rank fails and the others complain later. Clocks of the nodes differ by seconds, the log of an innocent rank may be missing,
ranks may stand in one file with prefixes only, or in worker logs beside a scheduler's. The expectation is drawn with the fault:
the rank that the first finding names, or for a dead scheduler that the finding says so.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

_BASE = 1_780_000_000.0
SCHEDULER = -1


@dataclass
class Incident:
    """`own` are the lines with which the guilty rank ends, `others` those of each other one; `delay` seconds lie between."""

    rng: random.Random
    ranks: int
    guilty: int
    steps: int
    own: list[str]
    delay: float
    waits: bool = True
    nan: bool = False
    slow: bool = False
    scheduler: tuple[str, ...] = ()
    finished: bool = False


def _clock(at: float, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    return time.strftime(form, time.gmtime(at)) + f",{int(at * 1000) % 1000:03d}"


def _traceback(*last: str) -> list[str]:
    return [
        "Traceback (most recent call last):",
        '  File "/home/ma-user/work/run_mindformer.py", line 264, in <module>',
        "    main(config_)",
        '  File "/home/ma-user/work/mindformers/trainer/base_trainer.py", line 1061, in training_process',
        "    model.train(config.runner_config.epochs, dataset, callbacks=callbacks)",
        *last,
    ]


Make = Callable[[random.Random, int, int, int], Incident]
KINDS: dict[str, Make] = {}


def _kind(name: str) -> Callable[[Make], Make]:
    def add(make: Make) -> Make:
        KINDS[name] = make
        return make

    return add


@_kind("device memory")
def _oom(rng: random.Random, ranks: int, guilty: int, steps: int) -> Incident:
    size = rng.randrange(10**8, 10**10)
    own = rng.choice(
        [
            f"RuntimeError: Device(id:{guilty % 8}) memory isn't enough and alloc failed, kernel name: Default/network-TrainOneStep/AdamW-op{size % 97}, alloc size: {size}B.",
            f"RuntimeError: Allocate memory failed, memory isn't enough and alloc failed, kernel name: kernel_graph_1, alloc size: {size}B.",
            f"torch.OutOfMemoryError: NPU out of memory. Tried to allocate {size / 1e9:.2f} GiB (NPU {guilty % 8}; 60.96 GiB total capacity; 57.11 GiB already allocated)",
        ]
    )
    return Incident(rng, ranks, guilty, steps, _traceback(own), rng.uniform(60, 1836))


@_kind("killed")
def _killed(rng: random.Random, ranks: int, guilty: int, steps: int) -> Incident:
    lines = (f"The node: {guilty} is timed out. It may exit with exception, please check this node's log.",)
    return Incident(rng, ranks, guilty, steps, [], rng.uniform(20, 300), scheduler=lines)


@_kind("hung")
def _hung(rng: random.Random, ranks: int, guilty: int, steps: int) -> Incident:
    return Incident(rng, ranks, guilty, steps, [], 1836.0)


@_kind("nan on one rank")
def _nan(rng: random.Random, ranks: int, guilty: int, steps: int) -> Incident:
    return Incident(rng, ranks, guilty, steps, [], 0, waits=False, nan=True, finished=True)


@_kind("slow")
def _slow(rng: random.Random, ranks: int, guilty: int, steps: int) -> Incident:
    return Incident(rng, ranks, guilty, steps, [], 0, waits=False, slow=True, finished=True)


@_kind("disk full")
def _disk(rng: random.Random, ranks: int, guilty: int, steps: int) -> Incident:
    place = f"/data/output/checkpoint/rank_{guilty}/llama-{steps}_1.ckpt"
    own = rng.choice(
        [
            f"OSError: [Errno 28] No space left on device: '{place}'",
            f"RuntimeError: Failed to save the checkpoint file {place}. Maybe don't have the permission to write files, or the disk space is insufficient and so on.",
        ]
    )
    return Incident(rng, ranks, guilty, steps, _traceback(own), rng.uniform(100, 1836))


@_kind("data")
def _data(rng: random.Random, ranks: int, guilty: int, steps: int) -> Incident:
    own = f"RuntimeError: Exception thrown from dataset pipeline. Refer to 'Dataset Pipeline Error Message'. Invalid file, failed to open file: /data/part_{guilty}.mindrecord, the file is not exist or has been removed."
    return Incident(rng, ranks, guilty, steps, _traceback(own), rng.uniform(100, 1836))


@_kind("hardware")
def _hardware(rng: random.Random, ranks: int, guilty: int, steps: int) -> Incident:
    own = f"RuntimeError: Call rt api rtStreamSynchronize failed, ret: 507054. The device {guilty % 8} HBM has multi-bit ECC error."
    return Incident(rng, ranks, guilty, steps, _traceback(own), rng.uniform(30, 1836))


@_kind("segmentation fault")
def _segfault(rng: random.Random, ranks: int, guilty: int, steps: int) -> Incident:
    own = ["Fatal Python error: Segmentation fault", "", "Thread 0x00007f8d2b7fe700 (most recent call first):", "  <no Python frame>"]  # fmt: skip
    return Incident(rng, ranks, guilty, steps, own, rng.uniform(30, 1836))


@_kind("a user's code")
def _code(rng: random.Random, ranks: int, guilty: int, steps: int) -> Incident:
    own = rng.choice(
        ["KeyError: 'attention_mask'", "AssertionError: sample 8812 is empty", "ZeroDivisionError: division by zero"]
    )
    return Incident(rng, ranks, guilty, steps, _traceback(own), rng.uniform(100, 1836))


@_kind("scheduler dead")
def _scheduler(rng: random.Random, ranks: int, guilty: int, steps: int) -> Incident:
    return Incident(rng, ranks, SCHEDULER, steps, [], 30)


def _waits(incident: Incident, rank: int, at: float) -> Iterator[str]:
    """What an innocent rank says when a peer does not come."""
    stamp = _clock(at, "%Y-%m-%d-%H:%M:%S").replace(",", ".")
    pid = 20000 + rank
    if incident.guilty == SCHEDULER:
        for number in range(3):
            later = _clock(at + 5 * number, "%Y-%m-%d-%H:%M:%S").replace(",", ".")
            yield f"[WARNING] DISTRIBUTED({pid},ffff1,python):{later}.001 [mindspore/ccsrc/distributed/cluster/topology/compute_graph_node.cc:194] Heartbeat] Failed to send heartbeat message to meta server node and try to reconnect to the meta server."
        yield f"[ERROR] DISTRIBUTED({pid},ffff1,python):{stamp}.002 [mindspore/ccsrc/distributed/cluster/cluster_context.cc:120] Retry to reconnect to the meta server: 3 failed."
        return
    yield f"[ERROR] HCCL({pid},python):{stamp}.120 [task_exception_handler.cc:598] [{pid}][TaskExceptionHandler]Task run failed, base information is streamID:[5], taskID[20], taskType[Notify Wait], tag[AllReduce_1], timeout[1836s]"
    yield from _traceback("RuntimeError: Call rt api rtStreamSynchronize failed, ret: 507048")
    yield "EI0002: The wait execution of the Notify register times out. Reason: The Notify register has not received the Notify record from remote rank."


def lines_of(incident: Incident, rank: int, skew: float) -> Iterator[tuple[float, str]]:
    """The lines of a rank, each with the time at which it was printed, without the skew of its clock."""
    for at, line in _told(incident, rank, skew):
        yield at - skew, line


def _told(incident: Incident, rank: int, skew: float) -> Iterator[tuple[float, str]]:
    rng, at = incident.rng, _BASE + skew
    guilty = rank == incident.guilty

    def head(place: str) -> str:
        return f"{_clock(at)} - mindformers/output/log[mindformers/{place}] - INFO - "

    if incident.guilty == SCHEDULER or incident.scheduler:
        yield (
            at,
            f"[INFO] DISTRIBUTED({20000 + rank},ffff1,python):2026-05-28-20:26:40.001.001 [mindspore/ccsrc/distributed/cluster/cluster_context.cc:95] This node {rank} rank id: {rank}",
        )
    yield at, head("trainer/base_trainer.py:434") + ".........Build Dataset From Config.........."
    end = incident.steps - (1 if guilty and not incident.own and not incident.finished else 0)
    for step in range(1, end + 1):
        ms = 2100 + rng.randrange(40)
        if guilty and incident.slow and step > incident.steps // 2:
            ms *= 3
        at += 2.1
        loss = (
            "nan"
            if guilty and incident.nan and step > incident.steps - 20
            else f"{2.3 + 8 / (1 + step / 9) + rng.gauss(0, 0.01):5.3f}"
        )
        yield (
            at,
            head("core/callback/callback.py:529")
            + (
                f"{{ Epoch:[  1/  2], step:[{step:5d}/{incident.steps if incident.finished else 5000:5d}], loss: {loss}, per_step_time: {ms}ms, lr: 9.8e-05, "
                f"overflow cond: False, loss_scale: 65536.0, global_norm: [{1 + rng.random() / 9:.5f}], train_throughput_per_npu: 155.000T"
            ),
        )
    if incident.finished:
        yield at, head("core/callback/callback.py:700") + "Training Over!"
    elif guilty:
        yield from ((at + 1, line) for line in incident.own)
    elif incident.waits:
        later = at + incident.delay + rng.uniform(0, 3)
        yield from ((later, line) for line in _waits(incident, rank, later))


def write(folder: Path, incident: Incident, prefixes: bool) -> None:
    """The logs of the run below `folder`."""
    rng = incident.rng
    skews = [rng.uniform(-6, 6) for _ in range(incident.ranks)]
    texts = {rank: list(lines_of(incident, rank, skews[rank])) for rank in range(incident.ranks)}
    if prefixes:
        # Several ranks write at once: lines come in the order of time, but for a few hundredths of a second.
        told = [(at + rng.uniform(0, 0.05), rank, line) for rank, lines in texts.items() for at, line in lines]
        told.sort(key=lambda item: item[0])
        (folder / "train.out").write_text("".join(f"[rank{rank}]: {line}\n" for _, rank, line in told))
        return
    missing: Optional[int] = None
    if incident.ranks > 4 and rng.random() < 0.3:
        missing = rng.choice([rank for rank in range(incident.ranks) if rank != incident.guilty])
    for rank, lines in texts.items():
        if rank != missing:
            (folder / f"worker_{rank}.log").write_text("".join(f"{line}\n" for _, line in lines))
    if incident.scheduler or incident.guilty == SCHEDULER:
        stamp = "2026-05-28-20:40:00.001.001"
        said = [f"[WARNING] DISTRIBUTED(999,fffe,python):{stamp} [mindspore/ccsrc/distributed/cluster/topology/meta_server_node.cc:98] The new node: {rank}(role: MS_WORKER), rank id: {rank}, device id: {rank % 8}, hostname: node{rank // 8}, ip: 10.0.0.{rank // 8} is registered successfully." for rank in range(incident.ranks)]  # fmt: skip
        said += [f"[ERROR] DISTRIBUTED(999,fffe,python):{stamp} [mindspore/ccsrc/distributed/cluster/topology/meta_server_node.cc:461] UpdateTopoState] {line}" for line in incident.scheduler]  # fmt: skip
        (folder / "scheduler.log").write_text("\n".join(said) + "\n")


def judge(folder: Path, incident: Incident) -> tuple[bool, str]:
    """Whether the first finding names what is guilty, and what it says."""
    from doctor.match.pack import load_pack
    from doctor.session import DiagnosisSession
    from doctor.session.reading import read_run

    session = DiagnosisSession(load_pack())
    read_run(session, [str(folder)], lambda event: None)
    first = next(iter(session.findings()), None)
    if first is None:
        return False, "nothing"
    rank = first.evidence[0].rank if first.evidence else None
    said = f"{first.rule} {first.title.en} (rank {rank})"
    return (first.rule == "RUN-END-003" if incident.guilty == SCHEDULER else rank == incident.guilty), said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=6, help="incidents of each kind")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    args = parser.parse_args()
    right = count = 0
    for name, make in KINDS.items():
        good, wrong = 0, []
        for seed in range(args.first, args.first + args.each):
            rng = random.Random(f"{name} {seed}")
            ranks = rng.choice([2, 4, 8, 16, 64])
            if name == "slow":
                ranks = max(ranks, 4)
            incident = make(rng, ranks, rng.randrange(ranks), rng.randrange(40, 90))
            prefixes = rng.random() < 0.3 and not incident.scheduler and incident.guilty != SCHEDULER
            with tempfile.TemporaryDirectory() as scratch:
                write(Path(scratch), incident, prefixes)
                well, said = judge(Path(scratch), incident)
            good += well
            if not well:
                wrong.append(
                    f"seed {seed}, {ranks} ranks{', one file' if prefixes else ''}, guilty {incident.guilty}: {said}"
                )
        right, count = right + good, count + args.each
        print(f"{name:<20} {good}/{args.each}", *wrong, sep="\n    " if wrong else "", flush=True)
    print(f"first rank named by the first finding: {right} of {count}, {100 * right / count:.0f} %")


if __name__ == "__main__":
    main()
