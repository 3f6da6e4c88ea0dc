"""What may listen to a run: called with each step's record, each evaluation and each checkpoint."""

from __future__ import annotations

from pathlib import Path

from doctor.trainer.stepline import StepRecord


class Callback:
    """Override what is wanted; what a callback raises ends the run."""

    def begin(self, total_steps: int) -> None:
        """Before the first step."""

    def step(self, record: StepRecord) -> None:
        """After each step that is logged."""

    def evaluated(self, step: int, loss: float) -> None:
        """After each evaluation; `loss` is the mean over the tokens of the evaluation set."""

    def saved(self, step: int, path: Path) -> None:
        """After each checkpoint."""

    def end(self, step: int) -> None:
        """After the last step, also of a run that was stopped."""
