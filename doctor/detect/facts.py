"""What is known of a run besides its step lines: from the configuration that it echoed or that was given."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Optional

from doctor.records.record import Metric

#: sizes of the vocabularies of common model families; a first loss at the logarithm of one of them is no accident
KNOWN_VOCABULARIES = (
    30522,
    32000,
    50257,
    50304,
    64000,
    64793,
    65024,
    92544,
    100352,
    102400,
    125696,
    128256,
    129280,
    130528,
    151552,
    151936,
    152064,
    250880,
)


@dataclass
class RunFacts:
    """Unknown is None. Filled by the session while it reads; detectors only look."""

    vocab_size: Optional[int] = None
    warmup_steps: Optional[int] = None
    #: the largest gradient norm that the optimizer lets through
    clip_norm: Optional[float] = None
    pipeline_stages: Optional[int] = None
    learning_rate: Optional[float] = None
    #: weights were loaded before the first step
    loads_weights: Optional[bool] = None
    #: the run goes on from an earlier one
    resumes: Optional[bool] = None
    workers: Optional[int] = None
    sink: Optional[bool] = None
    #: steps after which the run ends, within an epoch or not
    max_steps: Optional[int] = None

    def announced(self, metric: Metric) -> Optional[int]:
        """Steps of the whole run, as its lines and its configuration say."""
        return self.ending(metric.announced)

    def ending(self, steps: Optional[int]) -> Optional[int]:
        """The last of `steps` that are announced: those of whole epochs, in the last of which the run may end."""
        return min(steps, self.max_steps) if steps and self.max_steps else steps

    def uniform_loss(self) -> Optional[float]:
        """Cross entropy in nats of a model that knows nothing: the logarithm of the vocabulary's size."""
        return math.log(self.vocab_size) if self.vocab_size and self.vocab_size > 1 else None
