"""Follows the logs of a run while they are written. No threads: the caller asks `Follower.poll` for news.

On local disks inotify tells which files changed, and what comes within 40 ms is taken together. On shared disks, and
where inotify is missing or turned out not to tell, every file is asked each 50 ms. Even where inotify tells, all files
are asked once a second.
"""

from __future__ import annotations

import json
import os
import resource
import select
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional, Union

from doctor.records.discover import LogFile, logs_below
from doctor.records.followed import Followed, Identity, Item, Piped, SavedPlace
from doctor.records.inotify import Watch, sees_all_writes
from doctor.records.reader import STDIN
from doctor.records.record import Chunk, Notice
from doctor.whole import write_whole

#: seconds
COALESCE, ASK, ASK_ALL, LOOK_FOR_NEW = 0.040, 0.050, 1.0, 1.0
#: looking for new logs, and asking all files, may take these parts of the time; with very many files both happen less often
LOOK_SHARE, ASK_SHARE = 0.005, 0.05
#: seconds that it takes to ask one file (measured: 5 to 15 microseconds)
ASK_COST = 1e-5
#: bytes that one `poll` gives out at most (about), so that catching up with long logs stays bounded
MOST_BYTES = 4 << 20
#: part of the files a process may have open that are kept open here; of more, those not read for longest are closed and
#: opened again when they have grown
OPEN_SHARE = 0.5
STATE_VERSION = 1


class Follower:
    """`paths` as for `discover`: folders and globs are looked through again for logs that appear later, and a file that is
    not there yet is waited for. Each log is read from its beginning, older rotated parts first, or from where `state`
    (of `Follower.state`) says. ``-`` is standard input.
    """

    def __init__(
        self, paths: Sequence[Union[str, Path]], state: Optional[dict[str, Any]] = None, use_inotify: bool = True
    ) -> None:
        self._paths = [Path(path) for path in paths]
        #: by their paths; strings, because this is looked into for every line
        self._files: dict[str, Union[Followed, Piped]] = {}
        self._pipe: Optional[Piped] = None
        self._waiting: list[Item] = []
        rows = (state or {}).get("files", ())
        self._saved = {str(row.get("path")): SavedPlace.of(row) for row in rows if isinstance(row, dict)}
        self._own = _own_outputs()
        self._left_out: set[str] = set()
        self._watch = _watch() if use_inotify else None
        #: folder -> whether inotify tells of all changes in it
        self._told: dict[str, bool] = {}
        #: files to look at next, in order
        self._due: dict[str, None] = {}
        #: files that are looked at though inotify told nothing of them
        self._unheard: set[str] = set()
        self._open: dict[str, None] = {}
        self._most_open = int(resource.getrlimit(resource.RLIMIT_NOFILE)[0] * OPEN_SHARE)
        self._asked_all = 0.0
        self._next_ask = 0.0
        self._next_look = 0.0

    def poll(self, timeout: float = 0.2) -> list[Item]:
        """What is new, in order for each source; waits up to `timeout` seconds for something, then gives []."""
        end = time.monotonic() + timeout
        while True:
            items = self._news()
            now = time.monotonic()
            if items or now >= end:
                return items
            self._wait(min(end, self._ask_again(now)) - now)

    def finish(self) -> list[Item]:
        """All that is left, when following ends: what was written last, and last lines without a newline."""
        items: list[Item] = []
        while True:
            self._asked_all = 0.0
            news = self._news()
            if not news:
                break
            items.extend(news)
        for file in self._files.values():
            items.extend(file.finish())
        return items

    @property
    def files(self) -> list[Path]:
        """The logs that are followed now."""
        return [file.path for file in self._files.values()]

    @property
    def behind(self) -> bool:
        """Whether more was known to wait, at the last look, than that look gave out."""
        return bool(self._due)

    @property
    def ended(self) -> bool:
        """Whether nothing more can come: only standard input was followed, and it has ended."""
        return self._pipe is not None and self._pipe.ended and len(self._files) == 1 and len(self._paths) == 1

    def state(self) -> dict[str, Any]:
        """Where each file was read to, as JSON."""
        rows = [file.state() for file in self._files.values()]
        return {"version": STATE_VERSION, "files": [row for row in rows if row is not None]}

    def save(self, path: Path) -> None:
        """Writes `state` to `path`, which holds a whole state at any time. Raises OSError when it cannot be written."""
        write_whole(path, json.dumps(self.state()).encode("utf-8"))

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    # what is due

    def _news(self) -> list[Item]:
        now = time.monotonic()
        if now >= self._next_look:
            self._look_for_new(now)
        self._hear()
        self._ask(now)
        items, self._waiting = self._waiting, []
        given = 0
        for name in list(self._due):
            if given >= MOST_BYTES:
                break
            del self._due[name]
            size = self._look_at(name, items)
            given += size
            if size and name in self._unheard:
                # the word may have come while the file was read
                self._hear()
                if name in self._unheard:
                    self._told[self._files[name].folder] = False
        return items

    def _look_at(self, name: str, items: list[Item]) -> int:
        """Adds what is new in a file to `items` and gives its size in bytes."""
        file = self._files[name]
        size = 0
        for item in file.news():
            items.append(item)
            size += len(item.data) if isinstance(item, Chunk) else 0
        if file.behind():
            self._due[name] = None
        self._open.pop(name, None)
        if file.is_open:
            self._open[name] = None
            if len(self._open) > self._most_open:
                oldest = next(iter(self._open))
                del self._open[oldest]
                self._files[oldest].close()
        return size

    def _ask(self, now: float) -> None:
        """Marks files to be asked: those of which inotify does not tell always, the others once a second."""
        everything = now - self._asked_all >= ASK_ALL
        if not everything and (now < self._next_ask or all(self._told.values())):
            return
        self._next_ask = now + max(ASK, len(self._files) * ASK_COST / ASK_SHARE)
        self._unheard.clear()
        for name, file in self._files.items():
            told = self._told.get(file.folder)
            if name not in self._due and (everything or not told):
                self._due[name] = None
                if told:
                    self._unheard.add(name)
        if everything:
            self._asked_all = now

    def _ask_again(self, now: float) -> float:
        """When files must be asked next though nothing was heard."""
        if self._due:
            return now
        if self._watch is not None and all(self._told.values()):
            return min(self._asked_all + ASK_ALL, self._next_look)
        return min(self._next_ask, self._asked_all + ASK_ALL, self._next_look)

    def _wait(self, timeout: float) -> None:
        poll = select.poll()
        if self._watch is not None:
            poll.register(self._watch.fd, select.POLLIN)
        if self._pipe is not None and not self._pipe.ended:
            poll.register(self._pipe.fd, select.POLLIN)
        if poll.poll(max(timeout, 0.0) * 1000):
            time.sleep(COALESCE)
            if self._pipe is not None:
                self._due[STDIN] = None

    def _hear(self) -> None:
        """Marks the files that inotify says have changed."""
        if self._watch is None:
            return
        for change in self._watch.changes():
            name = os.path.join(change.folder, change.name)
            if change.lost:
                self._asked_all = self._next_look = 0.0
            elif name in self._files:
                self._due[name] = None
                self._unheard.discard(name)
            elif change.appeared:
                self._next_look = min(self._next_look, time.monotonic() + ASK)
            if not change.name:
                self._told.pop(change.folder, None)

    # which files there are

    def _look_for_new(self, now: float) -> None:
        for log in logs_below(self._paths):
            name = str(log.path)
            if name not in self._files and name not in self._left_out:
                self._add(name, log)
        for path in self._paths:
            folder = path if path.is_dir() else path.parent
            if folder.is_dir():
                self._listen(str(folder))
        took = time.monotonic() - now
        self._next_look = now + max(LOOK_FOR_NEW, took / LOOK_SHARE)

    def _add(self, name: str, log: LogFile) -> None:
        self._due[name] = None
        if name == STDIN:
            self._files[name] = self._pipe = Piped()
            self._told[self._pipe.folder] = True
            return
        if _identity(log.path) in self._own:
            del self._due[name]
            self._left_out.add(name)
            self._waiting.append(Notice("own-output", name, log.rank))
            return
        place = self._saved.pop(name, None)
        file = Followed(log.path, log.rank, () if place else log.parts[:-1])
        self._files[name] = file
        self._listen(file.folder)
        if place:
            self._waiting.extend(file.resume(place))

    def _listen(self, folder: str) -> None:
        """Has inotify tell of `folder`, where that can be relied on."""
        if folder not in self._told:
            self._told[folder] = self._watch is not None and sees_all_writes(folder) and self._watch.add(folder)


def _watch() -> Optional[Watch]:
    try:
        return Watch()
    except OSError:
        return None


def _identity(path: Path) -> Optional[Identity]:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino)


def _own_outputs() -> set[Optional[Identity]]:
    """The files that this process writes to: reading them would feed the doctor with its own words."""
    found: set[Optional[Identity]] = set()
    for fd in (1, 2):
        try:
            status = os.fstat(fd)
        except OSError:
            continue
        found.add((status.st_dev, status.st_ino))
    return found
