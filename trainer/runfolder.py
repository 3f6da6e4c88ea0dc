"""The folder of a run: where each file lies, and the log that is also shown."""

from __future__ import annotations

import fcntl
import json
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, TextIO

from doctor.errors import UsageError
from doctor.finding import Text, plain
from doctor.trainer.stepline import StepRecord, json_line, stamp


@dataclass(frozen=True)
class RunFolder:
    """Paths under `root`. Only `create` touches the disk."""

    root: Path

    @property
    def config(self) -> Path:
        return self.root / "config.yaml"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def end(self) -> Path:
        return self.root / "end.json"

    @property
    def findings(self) -> Path:
        return self.root / "findings.jsonl"

    @property
    def interventions(self) -> Path:
        return self.root / "interventions.jsonl"

    @property
    def stop(self) -> Path:
        """Where rank 0 tells the other workers that the step in hand is the last."""
        return self.root / ".stop"

    @property
    def launcher(self) -> Path:
        """What msrun and its workers say before they have a log of their own."""
        return self.root / "msrun"

    def log(self, rank: int = 0) -> Path:
        return self.root / "log" / f"rank_{rank}.log"

    def metrics(self, rank: int = 0) -> Path:
        return self.root / "metrics" / f"rank_{rank}.jsonl"

    def ranks(self) -> int:
        """Workers of the run so far, by their logs."""
        return sum(1 for _ in self.metrics().parent.glob("rank_*.jsonl"))

    def check_workers(self, workers: int) -> None:
        """Raises UsageError when a run of more workers is to go on with fewer: those that are missing would look dead."""
        if self.ranks() > workers:
            ranks, checkpoints = self.ranks(), self.checkpoints
            raise UsageError(
                Text(
                    f"output_dir {self.root}: this run has {ranks} workers so far, and is to go on with {workers}.",
                    f"output_dir {self.root}：该训练此前有 {ranks} 个 worker，现在要以 {workers} 个继续。",
                ),
                Text(
                    f"Add --workers {ranks}, or go on in another folder: --output-dir DIR --resume {checkpoints}",
                    f"请加 --workers {ranks}，或在新目录继续：--output-dir DIR --resume {checkpoints}",
                ),
            )

    def holds_run(self) -> bool:
        return self.config.exists() or self.log().exists() or self.end.exists()

    def check(self, resume: bool) -> None:
        """Raises UsageError when `root` is a file or when an earlier run would be mixed with this one."""
        if self.root.exists() and not self.root.is_dir():
            raise UsageError(
                Text(f"output_dir {self.root}: this is a file.", f"output_dir {self.root}：这是一个文件。"),
                Text("Name a folder.", "请指定目录。"),
            )
        if self.holds_run() and not resume:
            raise UsageError(
                Text(f"output_dir {self.root} holds a run already.", f"output_dir {self.root} 中已有一次训练。"),
                Text(
                    "Continue it with --resume, or name another folder: --output-dir DIR",
                    "加 --resume 续训，或用 --output-dir DIR 指定其他目录。",
                ),
            )

    def create(self, resume: bool) -> None:
        """Makes the folders. Raises UsageError as `check` does, and when the disk refuses."""
        self.check(resume)
        try:
            self.make()
            for file in (self.findings, self.interventions):
                file.touch()
            for left in (self.end, self.stop):
                left.unlink(missing_ok=True)
        except OSError as error:
            why = error.strerror or str(error)
            raise UsageError(
                Text(f"output_dir {self.root}: {why}.", f"output_dir {self.root}：{why}。"),
                Text("Name a folder you may write to.", "请指定可写的目录。"),
            ) from None

    def make(self) -> None:
        for path in (self.log().parent, self.metrics().parent, self.checkpoints):
            path.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def lock(self, patience: float = 10.0) -> Iterator[None]:
        """Keeps the folder for this process. Raises UsageError when another one has it for longer than `patience`
        seconds (one that is just saving lets go)."""
        handle = os.open(self.root / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            self._wait_for(handle, time.monotonic() + patience)
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
            yield
        finally:
            os.close(handle)

    def _wait_for(self, handle: int, end: float) -> None:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() < end:
                    time.sleep(0.1)
                    continue
            except OSError:
                return  # a file system without locks
            other = os.pread(handle, 32, 0).decode("ascii", "replace").strip() or "?"
            raise UsageError(
                Text(
                    f"output_dir {self.root}: process {other} is training there.",
                    f"output_dir {self.root}：进程 {other} 正在该目录训练。",
                ),
                Text(f"Wait for it or end it: kill {other}", f"请等待其结束，或执行：kill {other}"),
            )


def default_root(name: str, now: Optional[float] = None) -> Path:
    """output/<name>-<time>, the time to the second in local time; a number is added while that is taken."""
    moment = time.strftime("%Y%m%d-%H%M%S", time.localtime(now))
    root = Path("output") / f"{name}-{moment}"
    count = 2
    while root.exists():
        root = Path("output") / f"{name}-{moment}-{count}"
        count += 1
    return root


def write_atomically(path: Path, text: str) -> None:
    """Beside, to disk, renamed: a reader sees the old file or the new one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with beside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def write_end(folder: RunFolder, state: str, code: int, last_step: int, **more: Any) -> None:
    """end.json: ended, failed or interrupted, with the exit code and the last step done."""
    row = {"state": state, "exit_code": code, "last_step": last_step, "time": round(time.time(), 3), **more}
    write_atomically(folder.end, json.dumps(row, ensure_ascii=False, indent=1) + "\n")


class Journal:
    """The run's log: every line goes to ``log/rank_N.log``, to `screen` if given, and steps to ``metrics/rank_N.jsonl``
    as well. Files are opened to append and flushed line by line, so that a reader sees each step when it happens."""

    def __init__(self, folder: RunFolder, screen: Optional[TextIO], rank: int = 0) -> None:
        self.path = folder.log(rank)
        self._log = self.path.open("a", encoding="utf-8", errors="backslashreplace")
        self._read = self.path.open("rb")
        self._lines = 0
        self._metrics = folder.metrics(rank).open("a", encoding="utf-8")
        self._screen = screen
        self._source = f"log/rank_{rank}.log"

    def say(self, message: str, level: str = "INFO") -> None:
        """One line with MindFormers' prefix: time, the place that says it, level."""
        self._write(f"{_prefix(time.time(), level)}{message}\n")

    def step(self, record: StepRecord) -> None:
        prefix = _prefix(record.time, "INFO")
        self._write(f"{prefix}{record.text()}\n")
        self._metrics.write(json_line(record.event(self._source, self._count())))
        self._metrics.flush()
        self._write(f"{prefix}{record.progress()}\n")

    def evaluation(self, step: int, loss: float, seconds: float) -> None:
        """The result of an evaluation, as MindFormers words it, and as an event marked so."""
        perplexity = math.exp(min(loss, 700.0))
        self.say(f"Eval result: {{'loss': {loss:.6f}, 'perplexity': {perplexity:.4f}}}, eval time is {seconds:.6f} s.")
        row = {"event": "metric", "source": self._source, "line": self._count(), "evaluation": True}
        self._metrics.write(json_line({**row, "global_step": step, "step": step, "loss": plain(loss)}))
        self._metrics.flush()

    def _write(self, text: str) -> None:
        self._log.write(text)
        self._log.flush()
        if self._screen is None:
            return
        try:
            self._screen.write(text)
            self._screen.flush()
        except BrokenPipeError:
            # The reader has gone (`| head`). The run is worth more than its echo.
            self._screen = None

    def close(self) -> None:
        self._log.close()
        self._read.close()
        self._metrics.close()

    def _count(self) -> int:
        """Lines of the log so far. MindSpore writes into it too, so they are counted where they stand."""
        while True:
            block = self._read.read(1 << 20)
            if not block:
                return self._lines
            self._lines += block.count(b"\n")


def _prefix(seconds: float, level: str) -> str:
    frame = sys._getframe(2)
    place = f"doctor/trainer/{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
    return f"{stamp(seconds)} - mindformers[{place}] - {level} - "
