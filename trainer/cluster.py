"""Several workers that train one model on different data: data parallelism through MindSpore's msrun.

msrun starts `size` workers and a scheduler, each with the same command and its part in environment variables. All workers
make the same batches, of which each takes its share, and add up their gradients once per update; so they hold the same
weights at every step, and one of them, rank 0, keeps the log's end record, the config and the checkpoints.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from doctor.errors import UsageError
from doctor.finding import Text


@dataclass(frozen=True)
class Cluster:
    """`rank` of `size` workers; one alone is no cluster."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Rank 0 writes what is written once."""
        return self.rank == 0

    @property
    def shared(self) -> bool:
        return self.size > 1

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] = os.environ) -> Cluster:
        """The part that msrun gave this process."""
        if environment.get("MS_ROLE") != "MS_WORKER":
            return cls()
        return cls(int(environment.get("RANK_ID", "0")), int(environment.get("MS_WORKER_NUM", "1")))

    def share(self, rows: Any) -> Any:
        """This worker's part of the rows of a batch of all workers."""
        part = len(rows) // self.size
        return rows[self.rank * part : (self.rank + 1) * part]


ALONE = Cluster()


def schedules(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this process is msrun's scheduler, which trains nothing."""
    return environment.get("MS_ROLE") == "MS_SCHED"


def schedule() -> int:
    """Brings the workers together and waits until they have ended."""
    import mindspore as ms
    from mindspore.communication import init

    ms.set_device("CPU")
    init()
    return 0


def join() -> None:
    """Meets the other workers; the device is set already. Returns when all are there."""
    from mindspore.communication import init

    init()


def command(workers: int, port: int, logs: str, words: list[str]) -> list[str]:
    """msrun with `workers` of ``python -m doctor.trainer``, which it looks for by the name python on PATH."""
    launcher = [sys.executable, "-m", "mindspore.parallel.cluster.run", f"--worker_num={workers}"]
    launcher += [f"--local_worker_num={workers}", "--master_addr=127.0.0.1", f"--master_port={port}"]
    launcher += [f"--log_dir={logs}", "--join=True", "--cluster_time_out=120"]
    return [*launcher, "python", "-m", "doctor.trainer", *words]


def refuse_workers(workers: int, cores: int) -> None:
    """Raises UsageError for more workers than there are cores to run them on, and where msrun would not find this Python."""
    if workers > cores:
        raise UsageError(
            Text(
                f"--workers {workers}: this machine has {cores} cores, and each worker needs one of its own.",
                f"--workers {workers}：本机只有 {cores} 核，而每个 worker 至少需要一个核。",
            ),
            Text(f"At most: --workers {cores}", f"最多：--workers {cores}"),
        )
    here = Path(sys.executable).parent
    if not (here / "python").exists():
        raise UsageError(
            Text(
                f"--workers: msrun starts `python`, and there is none beside {sys.executable}.",
                f"--workers：msrun 以 python 为名启动进程，而 {sys.executable} 旁没有该文件。",
            ),
            Text(f"ln -s {sys.executable} {here}/python", f"ln -s {sys.executable} {here}/python"),
        )


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
