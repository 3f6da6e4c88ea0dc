"""A run read beside the screen: its curves, ranks and findings as far as they are known. Of long logs the ends come
first; what the whole says takes their place when it has been read."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Optional

from doctor.errors import UsageError
from doctor.finding import Finding, Text
from doctor.tui.runview import RunView

if TYPE_CHECKING:
    from doctor.session.following import RunWatch
    from doctor.tui.services import Services

#: seconds that one look waits for news
PATIENCE = 0.2
#: seconds for the screen to show what the ends say, before reading takes a processor for itself
SHOW = 0.3
Cancelled = Callable[[], bool]
Changed = Callable[[], None]


class Feed:
    """`read` is for a worker; the screen reads the attributes when it paints. `state` is the word for it: loading, live,
    gone (the logs were taken away) or ended. While long logs are caught up with, `share` tells how much of `size` bytes was read; else it is None."""

    def __init__(self, paths: Sequence[str] = ()) -> None:
        self.paths = list(paths)
        self.view = RunView()
        self.findings: tuple[Finding, ...] = ()
        self.state = "loading"
        self.share: Optional[float] = None
        self.size = 0
        self.problem: Optional[Text] = None
        #: the run is paused on purpose: its silence is no stall
        self.held = False

    def read(self, services: Services, cancelled: Cancelled, changed: Changed) -> None:
        """Follows the run until it is over or `cancelled`. `changed` is called when other findings stand."""
        try:
            ends = services.ends(self.paths)
            if ends is not None:
                self._glance(ends, cancelled, changed)
                time.sleep(SHOW)
            whole = services.watch(self.paths)
        except UsageError as error:
            self.problem = Text(error.line("en"), error.line("zh"))
            changed()
            return
        self.state = "live"
        if ends is None:
            _listen(whole, self.view)
        else:
            self._catch_up(whole, ends, cancelled, changed)
        while not cancelled() and not whole.over:
            whole.held = self.held
            if whole.step(PATIENCE):
                self._put(whole.session.findings(), changed)
            files = whole.follower.files
            self.state = "gone" if files and not any(path.exists() for path in files) else "live"
        if not cancelled():
            whole.close()
            self.state = "ended"
            self._put(whole.session.findings(), changed)

    def _glance(self, ends: RunWatch, cancelled: Cancelled, changed: Changed) -> None:
        """Reads the ends of the logs."""
        from doctor.session.tail import size_of, without_lines

        _listen(ends, self.view)
        ends.step(0.0)
        while ends.behind and not cancelled():
            ends.step(0.0)
        self.size, self.share, self.state = size_of(ends.follower.files), 0.0, "live"
        self._put(without_lines(ends.session.findings()), changed)

    def _catch_up(self, whole: RunWatch, ends: RunWatch, cancelled: Cancelled, changed: Changed) -> None:
        """Reads the whole, block by block, and what is written meanwhile at the ends; then the whole takes over."""
        from doctor.session.tail import without_lines

        view = RunView()
        _listen(whole, view)
        whole.step(0.0)
        while whole.behind and not cancelled():
            self.share = min(1.0, whole.session.bytes / max(1, self.size))
            if ends.step(0.0):
                self._put(without_lines(ends.session.findings()), changed)
            whole.step(0.0)
        ends.follower.close()
        if not cancelled():
            self.view, self.share = view, None
            self._put(whole.session.findings(), changed)

    def _put(self, findings: tuple[Finding, ...], changed: Changed) -> None:
        self.findings = findings
        changed()


def _listen(run: RunWatch, view: RunView) -> None:
    run.session.on_metric, run.session.on_block = view.add, view.add_block
    view.facts = run.session.facts
