"""What the Train screen asks for: how a training starts, how it goes on, what was done to it."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    from doctor.tui.services import Saved, Training


def training(word: str, auto_fix: bool = False) -> Training:
    """How a config or an example is trained, or the run of a folder gone on with; a run that goes on without us is taken
    as it is. Raises UsageError when there is no such file."""
    from doctor.errors import UsageError
    from doctor.examples import example
    from doctor.finding import Text
    from doctor.tui.services import Training

    path = Path(word).expanduser()
    if path.is_dir():
        pid = running(path)
        return Training((), path, pid) if pid is not None else steered(path, auto_fix)
    if not path.is_file() and example(word) is None:
        raise UsageError(Text(f"{word}: no such file or example.", f"{word}：没有这样的文件或示例。"))
    base = Path("output") / f"{path.stem}-{time.strftime('%Y%m%d-%H%M%S')}"
    folder, count = base, 2
    while folder.exists():
        folder, count = base.with_name(f"{base.name}-{count}"), count + 1
    return _command(word, folder, auto_fix)


def running(folder: Path) -> Optional[int]:
    """The process that trains into a folder: the one that watches the trainer, or else the trainer. A trainer always
    names its folder in its command line; those of other users are not seen."""
    import psutil

    wanted = folder.resolve()
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            if "doctor.trainer" not in words or "--output-dir" not in words[:-1]:
                continue
            named = Path(process.cwd(), words[words.index("--output-dir") + 1])
            if named.resolve() == wanted and process.status() != psutil.STATUS_ZOMBIE:
                parent = words[words.index("--parent") + 1] if "--parent" in words[:-1] else ""
                return int(parent) if parent == str(process.ppid()) else process.pid
        except (psutil.Error, OSError):
            continue
    return None


def steered(folder: Path, auto_fix: bool, *, step: Optional[int] = None, text: Optional[str] = None) -> Training:
    """How the stopped run of a folder goes on. Raises UsageError when it cannot."""
    from doctor.supervisor import steer
    from doctor.trainer.runfolder import RunFolder

    run = RunFolder(folder)
    if step is not None:
        way = steer.roll_back(run, step)
    elif text is not None:
        way = steer.edit(run, text)
    else:
        way = steer.go_on(run)
    return _command(str(way.config), folder, auto_fix, "--resume", way.resume)


def checkpoints(folder: Path) -> list[Saved]:
    """The whole checkpoints of a run, the oldest first."""
    from doctor.trainer.checkpoint import whole
    from doctor.trainer.runfolder import RunFolder
    from doctor.tui.services import Saved

    found = []
    for item in whole(RunFolder(folder).checkpoints):
        try:
            when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(item.path.stat().st_mtime))
        except OSError:
            continue
        found.append(Saved(item.step, when, item.sound))
    return found


def config(folder: Path) -> tuple[str, str]:
    """Path and text of the config that a run was last given. Raises UsageError when it cannot be read."""
    from doctor.plan.edit import propose
    from doctor.supervisor.steer import current_config
    from doctor.trainer.runfolder import RunFolder

    path = current_config(RunFolder(folder))
    return str(path), propose(path, ())[0]


def readable(folder: Path, text: str) -> None:
    """Raises UsageError when a run cannot go on with this text as its config: it is not to be stopped for that."""
    from doctor.trainer.config import load_config
    from doctor.trainer.runfolder import write_atomically

    path = folder / ".config.edited.yaml"
    write_atomically(path, text)
    try:
        load_config(str(path))
    finally:
        path.unlink()


def interventions(folder: Path) -> list[dict[str, Any]]:
    """What was done to a run, by the supervisor or by hand, the oldest first."""
    from doctor.supervisor.steer import booked
    from doctor.trainer.runfolder import RunFolder

    return booked(RunFolder(folder))


def _command(config: str, folder: Path, auto_fix: bool, *more: str) -> Training:
    from doctor.tui.services import Training

    words = ["train", config, "--output-dir", str(folder), "--color", "never", *more]
    if auto_fix:
        words.append("--auto-fix")
    return Training((sys.executable, "-m", "doctor", *words), folder)
