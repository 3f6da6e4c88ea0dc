"""A short run of a config in a process and a folder of its own, for what can only be measured."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from doctor.trainer.config import RunConfig
from doctor.trainer.runfolder import RunFolder

#: seconds
PATIENCE = 900.0


class TrialFailed(Exception):
    """There is nothing to measure; the words are the trainer's own."""


def trial(config: RunConfig, root: Path, stop: Callable[[], bool] = lambda: False) -> list[dict[str, Any]]:
    """The step records of a run to its last step, without checkpoints and evaluation, in a new folder under `root`.

    Raises TrialFailed when it does not end well, takes longer than `PATIENCE`, or `stop` says so.
    """
    args = replace(config.args, save_steps=0, eval_steps=0, logging_steps=1, output_dir=None, summary_dir=None)
    short = replace(config, args=args, eval_dataset=None)
    folder = RunFolder(root / str(len(list(root.iterdir()))))
    path = root / f"{folder.root.name}.yaml"
    path.write_text(yaml.safe_dump(short.effective(), sort_keys=False, allow_unicode=True), encoding="utf-8")
    command = [sys.executable, "-m", "doctor.trainer", str(path), "--output-dir", str(folder.root)]
    words = root / f"{folder.root.name}.txt"
    with words.open("wb") as said:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said)
        _await(child, stop)
    if child.returncode:
        lines = words.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise TrialFailed(lines[-1].removeprefix("doctor: ") if lines else f"exit code {child.returncode}")
    return [json.loads(line) for line in folder.metrics().read_text(encoding="utf-8").splitlines()]


def _await(child: subprocess.Popen[bytes], stop: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    try:
        while not stop():
            try:
                child.wait(0.2)
                return
            except subprocess.TimeoutExpired:
                if time.monotonic() > end:
                    raise TrialFailed(f"no end after {PATIENCE:.0f} s") from None
        raise TrialFailed("stopped")
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
