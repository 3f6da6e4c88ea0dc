"""A real ``doctor watch`` follows logs that a real process writes: is each fault told, how soon, and does it end by itself?"""

from __future__ import annotations

import json
import os
import random
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from doctor.finding import Evidence
from doctor.records.inotify import Watch, sees_all_writes
from doctor.selftest.scenes import SCENES, FaultyLine, Scene, faulty_lines, scene_of
from doctor.selftest.trial import HEALTHY, Raised, Result, Room, Trial, anywhere

#: seconds after which a fault that was not told is missed; the program's own aim is a second
PATIENCE = 10.0
#: seconds in which a watch must have begun, and have ended after the writer is gone
_BEGIN, _END = 30.0, 25.0
TIMED = "line"
_LOG = "rank_0.log"


def trials(seed: int) -> Iterator[Trial]:
    """One of each scene."""
    for kind in (*SCENES, HEALTHY):
        yield Trial("live", kind, str(seed), seed)


def told_at_once(folder: Path) -> Optional[bool]:
    """Whether the kernel tells of each write to `folder`; else every file is asked again and again."""
    if not sees_all_writes(str(folder)):
        return False
    try:
        Watch().close()
    except OSError:
        return False
    return True


def perform_live(trials: Sequence[Trial], room: Room, done: Callable[[int], None]) -> Iterator[Result]:
    """The scene that is timed by itself, then all others at once."""
    over = 0
    for group in ([t for t in trials if t.kind == TIMED], [t for t in trials if t.kind != TIMED]):
        with _Stage(room) as stage:
            for trial in group:
                stage.begin(trial)
            yield from stage.play()
        over += len(group)
        done(over)


@dataclass
class _Show:
    """A scene that is played: who writes, who watches, what was heard of both."""

    trial: Trial
    scene: Scene
    watch: subprocess.Popen[bytes]
    begun: float
    writer: Optional[subprocess.Popen[bytes]] = None
    #: mark -> when it was written, rule -> when it was told (nanoseconds)
    written: dict[str, int] = field(default_factory=dict)
    told: dict[str, int] = field(default_factory=dict)
    findings: list[dict[str, Any]] = field(default_factory=list)
    rest: dict[int, bytes] = field(default_factory=dict)
    writer_gone: Optional[float] = None
    over: bool = False
    ended_by_itself: bool = False


class _Stage:
    """Plays scenes together. Leaves no process behind."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.shows: list[_Show] = []
        self.selector = selectors.DefaultSelector()

    def __enter__(self) -> _Stage:
        return self

    def __exit__(self, *reason: object) -> None:
        for show in self.shows:
            for process in (show.writer, show.watch):
                if process is not None:
                    if process.poll() is None:
                        process.kill()
                    process.wait()
                    for stream in (process.stdin, process.stdout, process.stderr):
                        if stream is not None:
                            stream.close()
        self.selector.close()

    def begin(self, trial: Trial) -> None:
        """Starts the watch on a log that holds its first lines."""
        folder = self.room.folder / f"live-{trial.kind}"
        folder.mkdir()
        lines = None if trial.kind == HEALTHY else self._lines(trial)
        scene = scene_of(trial.kind, trial.case, folder, lines)
        first = Scene("first", folder, random.Random(trial.seed))
        first.steps(8)
        (folder / _LOG).write_text(first.plan[0][3], encoding="utf-8")
        settings = ["--config", self.room.settings] if self.room.settings else []
        words = ["doctor", "watch", str(folder), "--format", "jsonl", "--metrics", "--lang", "en", *settings]
        watch = _start(words, self.room.folder)
        show = _Show(trial, scene, watch, time.monotonic())
        self._listen(show, watch)
        self.shows.append(show)

    def _lines(self, trial: Trial) -> Iterator[FaultyLine]:
        from doctor.selftest.explain import told_of

        def alone(rule: str, text: str) -> bool:
            return told_of(text, self.room) == {rule}

        return faulty_lines(self.room.pack, random.Random(f"{trial.kind} {trial.case}"), alone)

    def _listen(self, show: _Show, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        self.selector.register(process.stdout, selectors.EVENT_READ, (show, process))

    def play(self) -> Iterator[Result]:
        while any(not show.over for show in self.shows):
            for key, _ in self.selector.select(0.05):
                show, process = key.data
                self._hear(show, process, key.fd)
            for show in self.shows:
                self._look(show)
        for show in self.shows:
            yield from (anywhere(result, show.scene.folder) for result in results(show))

    def _hear(self, show: _Show, process: subprocess.Popen[bytes], fd: int) -> None:
        now = time.monotonic_ns()
        data = os.read(fd, 1 << 16)
        if not data:
            self.selector.unregister(fd)
            if process is show.writer:
                show.writer_gone = time.monotonic()
            else:
                show.over, show.ended_by_itself = True, True
            return
        *lines, show.rest[fd] = (show.rest.get(fd, b"") + data).split(b"\n")
        for line in lines:
            if process is show.writer:
                mark, at = line.split()
                show.written[mark.decode()] = int(at)
            else:
                self._event(show, json.loads(line), now)

    def _event(self, show: _Show, event: dict[str, Any], now: int) -> None:
        if event["event"] == "metric" and show.writer is None:
            # It has read the first lines: from now on it is awake.
            show.writer = _start(["doctor.selftest.writer"], self.room.folder, stdin=subprocess.PIPE)
            self._listen(show, show.writer)
            assert show.writer.stdin is not None
            show.writer.stdin.write(json.dumps(show.scene.plan).encode())
            show.writer.stdin.close()
        elif event["event"] in ("opened", "updated"):
            show.told.setdefault(event["finding"]["rule"], now)
            if event["event"] == "opened":
                show.findings.append(event["finding"])

    def _look(self, show: _Show) -> None:
        now = time.monotonic()
        late = show.writer is None and now - show.begun > _BEGIN
        if late or (show.writer_gone is not None and now - show.writer_gone > _END):
            show.over = True


def _start(words: Sequence[str], folder: Path, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    """A module of this very program, whatever stands in the current folder."""
    import doctor

    place = str(Path(doctor.__file__).resolve().parents[1])
    path = os.pathsep.join(part for part in (place, os.environ.get("PYTHONPATH", "")) if part)
    return subprocess.Popen(
        [sys.executable, "-m", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"},
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def results(show: _Show) -> Iterator[Result]:
    """What came of a scene: a result for each fault, for the end, or for the healthy run."""
    trial, scene = show.trial, show.scene
    raised = [finding for finding in show.findings if finding["severity"] in ("warning", "error", "fatal")]
    if trial.kind == HEALTHY:
        yield Result(trial, alarms=tuple(map(_raised, raised)))
    for mark, rule in scene.told.items():
        case = Trial("live", trial.kind, mark.rpartition("-")[2], trial.seed)
        written, told = show.written.get(mark), show.told.get(rule)
        ms = (told - written) / 1e6 if written is not None and told is not None else None
        found = ms is not None and ms <= PATIENCE * 1000
        yield Result(case, (rule,), found, delays_ms=(ms,) if found and ms is not None else ())
    for rule in scene.at_end:
        yield Result(trial, (rule,), rule in show.told)
    if not show.ended_by_itself:
        why = "the watch did not begin" if show.writer is None else "the watch did not end by itself"
        yield Result(Trial("live", trial.kind, "end", trial.seed), (), False, instead=(why,))


def _raised(finding: dict[str, Any]) -> Raised:
    first = (finding["evidence"] or [{}])[0]
    place = Evidence("log", str(first.get("source", "-")), line=first.get("line"), text=first.get("text"))
    return Raised(finding["rule"], finding["severity"], place)
