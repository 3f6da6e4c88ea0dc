"""Incremental detectors over metrics: ``feed(record)`` and ``tick(now)``, fixed windows, no clock and no I/O of their own."""

from __future__ import annotations

from typing import Optional

from doctor.detect.alarm import Alarm, Detector
from doctor.detect.facts import RunFacts


def detectors(facts: Optional[RunFacts] = None) -> list[Detector]:
    """The detectors for the stream of one rank, in the order in which they are to be fed. `facts` may be filled
    in later; each stream needs a list of its own."""
    from doctor.detect import finite, flat, gradient, jump, low, pace, plateau, rate, rise, scale, swing
    from doctor.detect.level import LossLevel

    known = facts if facts is not None else RunFacts()
    level = LossLevel()
    return [
        level,
        finite.LossNotFinite(),
        finite.NormNotFinite(),
        jump.LossJump(level),
        rise.LossRise(level, known),
        flat.LossZero(known),
        flat.LossConstant(),
        flat.LossNeverFalls(level, known),
        plateau.LossPlateau(level, known),
        swing.LossSwings(level),
        low.LossTooLow(level, known),
        low.FirstLoss(known),
        scale.Overflow(),
        gradient.GradientNorm(level),
        gradient.AlwaysClipped(known),
        rate.LearningRate(level, known),
        pace.StepTime(),
        pace.DataWait(),
        pace.SaveTime(),
        pace.Stall(),
    ]


__all__ = ["Alarm", "Detector", "RunFacts", "detectors"]
