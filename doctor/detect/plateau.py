"""Losses that fell at first and then stand still, far above what text allows."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Optional

from doctor.detect.alarm import QUIET, Alarm, Detector, number, seen
from doctor.detect.facts import RunFacts
from doctor.detect.flat import FIRST_STEPS
from doctor.detect.level import LossLevel
from doctor.detect.window import mean, slope
from doctor.finding import Severity
from doctor.records.record import Metric

#: losses in a block; levels are means of blocks
BLOCK = 16
#: a curve that begins below this has a vocabulary of some hundred at most: what is far down for it cannot be told
START = 7.0
#: where a model of text is stuck: below the first it has learnt more than how often each token comes, above the second nothing
LOWEST, HIGHEST = 0.45, 0.95
#: the level has moved when a block is below it by this share
MOVED = 0.01
#: steps for which it has not moved, and the share of the run so far; where the rate is printed, and where not
STILL, STILL_BLIND, SHARE = 300, 450, 0.6
#: share of its peak that the rate has had all the time: a decayed rate moves nothing
RATE = 0.3
#: noise of single losses, at most, as a share of the level
CALM = 0.03
#: blocks through which a line is laid, and how surely it may fall, in its standard errors
LINE, SURELY = 16, 2.5


class LossPlateau(Detector):
    """RUN-LOSS-010: an untrained model of tokens that fell to about what the frequencies of single tokens give, and no
    further for most of the run, at a rate that is up.

    The 15 public healthy curves, 1,875 to 20,344 steps long, are below 45 % of their start within 704 steps.
    """

    rules = ("RUN-LOSS-010",)

    def __init__(self, level: LossLevel, facts: RunFacts) -> None:
        self.level = level
        self.facts = facts
        self.begin: Optional[int] = None
        self.block: list[float] = []
        self.blocks: deque[float] = deque(maxlen=LINE)
        #: the level that counts, and the record at which it was reached
        self.mark = float("inf")
        self.since: Optional[Metric] = None
        self.peak = 0.0
        self.opened: Optional[Alarm] = None

    def feed(self, metric: Metric) -> Sequence[Alarm]:
        level = self.level
        if self.done or not level.fresh or metric.at is None:
            return QUIET
        if self.begin is None:
            self.begin = metric.at
            self.done = self.begin > FIRST_STEPS
        if metric.lr is not None:
            self.peak = max(self.peak, metric.lr)
            if metric.lr < RATE * self.peak:
                # from here on the schedule explains it
                self.block, self.since = [], None
                self.mark = float("inf")
                return QUIET
        self.block.append(level.value)
        if len(self.block) < BLOCK:
            return QUIET
        present, self.block = mean(self.block), []
        self.blocks.append(present)
        if present < LOWEST * level.start or level.start < START:
            self.done = True
            return self._end()
        if present < (1 - MOVED) * self.mark:
            self.mark, self.since = present, metric
            return self._end()
        return self._judge(metric, present)

    def _judge(self, metric: Metric, present: float) -> Sequence[Alarm]:
        level, since = self.level, self.since
        assert metric.at is not None
        if self.opened is not None or since is None or since.at is None or level.jumping:
            return QUIET
        if self.facts.loads_weights or self.facts.resumes:
            self.done = True
            return QUIET
        still = metric.at - since.at
        if still < (STILL if metric.lr is not None else STILL_BLIND) or still < SHARE * metric.at:
            return QUIET
        if not LOWEST * level.start < present < HIGHEST * level.start or level.sigma > CALM * present:
            return QUIET
        if present > (1 + MOVED) * self.mark + level.sigma:  # rising is another fault
            return QUIET
        _, surely = slope(list(self.blocks))
        if len(self.blocks) < LINE or surely < -SURELY:
            return QUIET
        self.opened = Alarm(
            "opened",
            self.rules[0],
            since.at,
            (seen(since, "loss"), seen(metric, "loss", f"clearly below {number(self.mark)}")),
            (
                ("step", since.at),
                ("now", metric.at),
                ("steps", still),
                ("before", number(level.start)),
                ("value", number(present)),
                *((("lr", number(metric.lr)),) if metric.lr is not None else ()),
            ),
        )
        return (self.opened,)

    def _end(self) -> Sequence[Alarm]:
        opened, self.opened = self.opened, None
        if opened is None:
            return QUIET
        return (Alarm("resolved", opened.rule, opened.onset, opened.evidence, opened.values, Severity.INFO),)
