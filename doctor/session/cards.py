"""Asks npu-smi for the cards of this machine, beside a run and without keeping it waiting."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from threading import Thread
from typing import Optional

from doctor.detect.host import Card

#: seconds that npu-smi may take: a healthy one may take several on eight cards
TIME_OUT = 10.0
#: seconds between two askings: each costs the driver some work
EVERY = 30.0


def ask(time_out: float = TIME_OUT) -> Optional[tuple[Card, ...]]:
    """The cards that npu-smi lists; None when it is missing, hangs, fails or lists none that can be read."""
    tool = shutil.which("npu-smi")
    if tool is None:
        return None
    from doctor.checks.environment.sources.npu_smi import parse_info

    try:
        told = subprocess.run(
            [tool, "info"], capture_output=True, timeout=time_out, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if told.returncode != 0:
        return None
    rows = parse_info(told.stdout.decode("utf-8", "replace")).devices
    cards = tuple(
        Card(
            row["npu_id"], row.get("chip_id"), row.get("health"), row.get("memory_used_mb"), row.get("memory_total_mb")
        )
        for row in rows
        if isinstance(row.get("npu_id"), int)
    )
    return cards or None


class CardWatch:
    """Asks now and then in a thread of its own; `take` gives each answer once, None while there is no new one."""

    def __init__(self, ask: Callable[[], Optional[tuple[Card, ...]]] = ask, every: float = EVERY) -> None:
        self._ask = ask
        self._every = every
        self._next = 0.0
        self._thread: Optional[Thread] = None
        self._answer: Optional[tuple[Card, ...]] = None

    def take(self, now: float) -> Optional[tuple[Card, ...]]:
        """`now` in seconds, from a clock that only goes forward."""
        if self._thread is not None and self._thread.is_alive():
            return None
        answer, self._answer = self._answer, None
        if now >= self._next:
            self._next = now + self._every
            self._thread = Thread(target=self._work, name="npu-smi", daemon=True)
            self._thread.start()
        return answer

    def _work(self) -> None:
        self._answer = self._ask()
