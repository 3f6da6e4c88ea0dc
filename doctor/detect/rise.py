"""Losses that rise slowly: below the notice of any short window, but away from the best level reached."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import sub
from typing import Optional

from doctor.detect.alarm import QUIET, Alarm, Detector, number, seen
from doctor.detect.facts import RunFacts
from doctor.detect.flat import FIRST_STEPS, UNTRAINED
from doctor.detect.level import LossLevel
from doctor.detect.window import MAD_TO_SIGMA, mean, median, rise_of, slope
from doctor.finding import Severity
from doctor.records.record import Metric

#: steps in a block; windows are made of whole blocks
BLOCK = 8
#: blocks in a window -> (rise over the best earlier window, in standard errors of the window's mean, that is too much).
#: The 15 public healthy curves, 600 to 20,000 steps long, reach 0.14 / 12, 0.10 / 11, 0.06 / 9 and 0.04 / 9.
TOO_MUCH = {2: (0.25, 13.0), 4: (0.13, 13.0), 8: (0.08, 12.0), 16: (0.06, 12.0)}
#: The more windows there were, the lower the best of them is by chance. In runs up to the first number of steps these
#: shares of the bounds are enough; from the second on the whole of them is needed.
SHORT, LONG = 600, 2000
SHORT_RISE, SHORT_ERRORS = 0.5, 0.6
#: A straight line through the blocks of a window rises: by this many of its standard errors, and by this share of the
#: level. In windows of 32 steps and more the 21 public healthy curves, 20,000 steps long, reach 5.1 errors.
TREND = (4, 6, 8, 12, 16)
TREND_ERRORS, TREND_RISE = 6.5, 0.02
#: and in standard errors from the scatter of eight blocks or more, and of fewer
SCATTER, SCATTER_FEW = 4.0, 3.0
#: the rate may not stand above its lowest value within the window by more than this: a warm-up or a restart lifts the loss by itself
RATE_RISE = 1.02
#: blocks from whose differences the noise of a block's mean is told, and how many it takes. Batches that resemble those
#: before them make means noisier than their losses say, and a short window may be calm by chance
NOISE_BLOCKS, NOISE_FEWEST = 64, 24
#: steps before the first verdict
GRACE = 24
#: at that step the losses from the ninth on must not be above the first one: by a share of it, and in sigmas
START_RISE, START_SIGMAS = 0.02, 4.5
#: or all of them are above it, and by this share on average
WILD_RISE = 0.25


@dataclass
class _Best:
    """The lowest window of one length so far; the windows that still overlap the present one wait."""

    value: float = float("inf")
    sigma: float = 0.0
    step: Optional[int] = None
    waiting: deque[tuple[float, float, Optional[int]]] = field(default_factory=deque)


class LossRise(Detector):
    """RUN-LOSS-003: the mean over 16, 32, 64 or 128 steps has left the best such mean reached before."""

    rules = ("RUN-LOSS-003",)

    def __init__(self, level: LossLevel, facts: RunFacts) -> None:
        self.level = level
        self.facts = facts
        self.begin: Optional[int] = None
        self.total = 0.0
        self.count = 0
        self.squares = 0.0
        self.blocks: deque[float] = deque(maxlen=max(TOO_MUCH))
        #: of each block: variance of its losses, the rate at its end and its first step
        self.details: deque[tuple[float, Optional[float], Optional[int]]] = deque(maxlen=max(TOO_MUCH))
        #: differences of neighbouring blocks
        self.moves: deque[float] = deque(maxlen=NOISE_BLOCKS)
        self.first: Optional[int] = None
        self.best = {blocks: _Best() for blocks in TOO_MUCH}
        self.opened: Optional[Alarm] = None
        self.low = 0.0

    def feed(self, metric: Metric) -> Sequence[Alarm]:
        level = self.level
        if not level.fresh or level.signed:
            return QUIET
        if level.count == 1:
            self.begin = metric.at
        # A hard batch must not weigh more than a batch can.
        ceiling = level.middle + 3 * level.sigma
        value = min(level.value, ceiling) if level.count > 8 else level.value
        if not self.count:
            self.first = metric.at
        self.total += value
        self.squares += value * value
        self.count += 1
        if self.count < BLOCK:
            return QUIET
        average = self.total / BLOCK
        variance = max(0.0, (self.squares - BLOCK * average * average) / (BLOCK - 1))
        if self.blocks:
            self.moves.append(average - self.blocks[-1])
        self.blocks.append(average)
        self.details.append((variance, metric.lr, self.first))
        self.total, self.squares, self.count = 0.0, 0.0, 0
        if level.count < GRACE:
            return QUIET
        if level.count == GRACE and self.opened is None:
            return self._from_start(metric)
        if self.opened is not None:
            return self._recovery(metric)
        if level.jumping:
            return QUIET
        return self._judge(metric)

    def _from_start(self, metric: Metric) -> Sequence[Alarm]:
        """A run that begins with untrained weights and whose loss goes up from its first value instead of down."""
        first = self.level.first[0]
        if first < UNTRAINED or self.begin is None or self.begin > FIRST_STEPS or self.facts.loads_weights:
            return QUIET
        present = sum(list(self.blocks)[-2:]) / 2
        over = present - first
        wild = over > WILD_RISE * first and min(self.level.recent(16)) > first
        if over < max(START_RISE * first, START_SIGMAS * self.level.sigma) and not wild:
            return QUIET
        self.low = first
        return (self._open(metric, _Best(first, self.level.sigma, 0), present),)

    def _judge(self, metric: Metric) -> Sequence[Alarm]:
        values = list(self.blocks)
        grown = min(1.0, max(0.0, (self.level.count - SHORT) / (LONG - SHORT)))
        of_rise = SHORT_RISE + (1 - SHORT_RISE) * grown
        of_errors = SHORT_ERRORS + (1 - SHORT_ERRORS) * grown
        scatter = self._scatter()
        found: Sequence[Alarm] = QUIET
        for blocks, (rise, errors) in TOO_MUCH.items():
            if len(values) < blocks:
                continue
            present = sum(values[-blocks:]) / blocks
            best = self.best[blocks]
            sigma = max(best.sigma, 0.003 * best.value)
            over = present - best.value
            error = max(sigma / BLOCK**0.5, scatter) / blocks**0.5
            enough = max(of_rise * rise * best.value, of_errors * errors * error)
            if not found and over > enough:
                self.low = best.value
                found = (self._open(metric, best, present),)
            best.waiting.append((present, self.level.sigma, metric.at))
            if len(best.waiting) > blocks:
                value, noise, step = best.waiting.popleft()
                if value < best.value:
                    best.value, best.sigma, best.step = value, noise, step
        return found or self._trend(metric, values, scatter)

    def _scatter(self) -> float:
        """Standard deviation of a block's mean, from second differences, which no trend and no bend of the curve widens; 0
        when there are too few."""
        if len(self.moves) < NOISE_FEWEST:
            return 0.0
        moves = list(self.moves)
        return MAD_TO_SIGMA * median(list(map(abs, map(sub, moves[1:], moves)))) / 6**0.5

    def _trend(self, metric: Metric, values: list[float], scatter: float) -> Sequence[Alarm]:
        """A steady climb, however small its steps."""
        for count in TREND:
            if len(values) < count:
                break
            means = values[-count:]
            if not _rises(means):  # nearly always; the rest costs more
                continue
            details = list(self.details)[-count:]
            known = [rate for _, rate, _ in details if rate is not None]
            if known and known[-1] > RATE_RISE * min(known):
                continue
            if _surely(means, max(sum(item[0] for item in details) / count, BLOCK * scatter**2)):
                self.low = means[0]
                return (self._open(metric, _Best(self.low, 0.0, details[0][2]), values[-1]),)
        return QUIET

    def _open(self, metric: Metric, best: _Best, present: float) -> Alarm:
        onset = None if best.step is None else best.step + 1
        self.opened = Alarm(
            "opened",
            "RUN-LOSS-003",
            onset,
            (seen(metric, "loss", f"at most about {number(best.value)}"),),
            (
                ("step", "?" if metric.at is None else metric.at),
                ("since", "?" if onset is None else onset),
                ("before", number(best.value)),
                ("value", number(present)),
            ),
        )
        return self.opened

    def _recovery(self, metric: Metric) -> Sequence[Alarm]:
        assert self.opened is not None
        last = list(self.blocks)[-2:]
        if sum(last) / len(last) > 1.03 * self.low:
            return QUIET
        opened, self.opened = self.opened, None
        for best in self.best.values():
            best.waiting.clear()
        return (Alarm("resolved", opened.rule, opened.onset, opened.evidence, opened.values, Severity.INFO),)


def _rises(means: Sequence[float]) -> bool:
    """Whether a line through means of blocks rises by as much as matters."""
    return rise_of(means) * len(means) >= TREND_RISE * abs(mean(means))


def _surely(means: Sequence[float], variance: float) -> bool:
    """Whether it does so beyond doubt, where single losses within the blocks have that variance."""
    count = len(means)
    middle = (count - 1) / 2
    rise, surely = slope(means)
    error = (variance / BLOCK / sum((at - middle) ** 2 for at in range(count))) ** 0.5
    if rise <= 0:
        return False
    # What the blocks scatter about the line counts too, but few blocks tell little of it.
    return rise > TREND_ERRORS * error and surely > (SCATTER if count >= 8 else SCATTER_FEW)
