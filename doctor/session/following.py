"""A run that is followed live, until it ends or the user has seen enough."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

from doctor.records.follow import Follower
from doctor.records.record import Chunk
from doctor.session.cards import CardWatch
from doctor.session.diagnosis import DiagnosisSession
from doctor.session.incidents import Event
from doctor.session.reading import end_record, settle
from doctor.session.sampling import sample
from doctor.session.writers import written_now

#: seconds between two looks at the clock, at whether anyone still writes, and at the machine
TICK, LOOK, SAMPLE = 0.5, 2.0, 10.0
#: part of the time that looking for who writes may take: on a machine with many processes it happens less often
LOOK_SHARE = 0.005
#: a run whose logs say that it is over is over when nothing was written for this long
QUIET = 2.0
#: and one whose writers were seen and are gone, for this long
GONE = 4.0
#: a gap between two looks, in seconds, by which this process must have been stopped
STOPPED = 20.0


class RunWatch:
    """The loop of ``doctor watch``: `step` reads what is new and gives its events; `over` tells when to stop."""

    def __init__(self, session: DiagnosisSession, paths: Sequence[str], state: Optional[dict[str, Any]] = None) -> None:
        self.session = session
        self.paths = [Path(path) for path in paths]
        self.follower = Follower(paths, state)
        self._ticked = self._next_look = self._sampled = 0.0
        self._cards = CardWatch()
        self._written_at = time.monotonic()
        self._writer_seen = False
        self._writer_gone = False
        self._settled: set[Path] = set()
        #: whether the run is held on purpose: no step comes, and that is no stall
        self.held = False
        #: seconds in which nobody could look (held, or this process was stopped), and when it was last looked
        self._blind = 0.0
        self._stepped: Optional[float] = None
        self.reads_input = any(str(path) == "-" for path in paths)

    def step(self, timeout: float = 0.2) -> list[Event]:
        """What came in within `timeout` seconds, judged."""
        events: list[Event] = []
        self._stopped_between(time.monotonic())
        for item in self.follower.poll(timeout):
            if isinstance(item, Chunk):
                self._written_at = time.monotonic()
            events.extend(self.session.feed(item))
        now = time.monotonic()
        if self.held and self._stepped is not None:
            self._blind += now - self._stepped
        self._stepped = now
        if now - self._ticked >= TICK and not self.held:
            self._ticked = now
            events.extend(self.session.tick(now - self._blind))
        if now >= self._next_look:
            self._look()
            self._next_look = now + max(LOOK, (time.monotonic() - now) / LOOK_SHARE)
        if self._writer_seen and not self._writer_gone and now - self._sampled >= SAMPLE:
            # The run is on this machine: someone here writes its logs.
            self._sampled = now
            looked = replace(sample(self.paths, now), cards=self._cards.take(now))
            events.extend(self.session.host(looked))
        return events

    def _stopped_between(self, now: float) -> None:
        """Ctrl-Z, a closed lid, a paused training: while this process stood still, so may have the run. That time counts for
        no stall."""
        if self._stepped is not None and now - self._stepped > STOPPED:
            self._blind += now - self._stepped
            self._stepped = now

    @property
    def behind(self) -> bool:
        """Whether more is known to wait in the logs than was read."""
        return self.follower.behind

    @property
    def over(self) -> bool:
        """Whether the run has ended: standard input has, or the run says so and falls silent, or the processes that
        wrote its logs are gone."""
        if self.reads_input:
            return self.follower.ended
        quiet = time.monotonic() - self._written_at
        if quiet < QUIET:
            return False
        return self.session.run_ended or (self._writer_seen and self._writer_gone and quiet >= GONE)

    def close(self, follow_up: bool = True) -> list[Event]:
        """Reads what is left and ends the session. Gives the last events."""
        events: list[Event] = []
        for item in self.follower.finish():
            events.extend(self.session.feed(item))
        # A run may have written its end since the last look.
        self._take_end_records()
        over = self.over or not written_now(self.follower.files)
        events.extend(self.session.end(over=over and follow_up))
        self.follower.close()
        return events

    def _look(self) -> None:
        for path in self.paths:
            if path not in self._settled and (path / "config.yaml").exists():
                self._settled.add(path)
                settle(self.session, path)
        self._take_end_records()
        if os.path.isdir("/proc/self/fd") and not self.reads_input:
            writing = written_now(self.follower.files)
            self._writer_seen = self._writer_seen or writing
            self._writer_gone = not writing

    def _take_end_records(self) -> None:
        if any(end_record(path) is not None for path in self.paths):
            self.session.traces.all_finished = True


def follow(watch: RunWatch, tell: Callable[[Sequence[Event]], None]) -> None:
    """Runs the loop until the run is over; whoever calls handles the interrupt."""
    while not watch.over:
        events = watch.step()
        if events:
            tell(events)
