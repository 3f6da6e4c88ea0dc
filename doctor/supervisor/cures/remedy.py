"""What a cure is: the change of which settings, where the run goes on afterwards, and whether it may be made unasked.

A remedy is safe when it cannot make the result worse than that of the run as it was meant (a loss scale that adapts,
half the batch with twice the accumulation), unsafe when it changes what is trained (a lower rate, a batch left out).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Optional

from doctor.finding import Finding, Text
from doctor.trainer.config import RunConfig

NEWEST, SOUND, BEST, START = "newest", "sound", "best", "start"


@dataclass(frozen=True)
class Remedy:
    """`edits` are dotted keys of the config with their new values. `back` is where the run goes on: with what it has
    (`newest`), with the weights from before the fault (`sound`), with those from before the loss was at its best, as what
    was learnt at too high a rate is worth nothing however finite (`best`), or from the beginning (`start`)."""

    summary: Text
    edits: Mapping[str, Any]
    safe: bool
    back: str = SOUND
    #: the rate among the edits is a guess, and `with_rate` takes one that was measured
    measurable: bool = False


Cure = Callable[[RunConfig, Finding], Optional[Remedy]]
