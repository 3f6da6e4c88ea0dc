"""The loss scale: a factor on the loss that keeps small FP16 gradients from becoming zero."""

from __future__ import annotations

from typing import Any, Optional

from doctor.trainer.arguments import LossScale


class LossScaler:
    """The factor on the loss. `update` says after each step whether it was applied and moves a dynamic factor:
    down at once on overflow, up after `window` good steps in a row."""

    def __init__(self, settings: Optional[LossScale]) -> None:
        self.settings = settings or LossScale(value=1.0, dynamic=False, drop_overflow=False)
        self.value = self.settings.value
        self.good_steps = 0

    @property
    def drops_overflow(self) -> bool:
        return self.settings.drop_overflow

    def update(self, overflow: bool) -> None:
        if not self.settings.dynamic:
            return
        if overflow:
            self.value = max(1.0, self.value / self.settings.factor)
            self.good_steps = 0
        else:
            self.good_steps += 1
            if self.good_steps >= self.settings.window:
                self.value = min(2.0**60, self.value * self.settings.factor)
                self.good_steps = 0

    def state(self) -> dict[str, Any]:
        return {"value": self.value, "good_steps": self.good_steps}

    def load(self, state: dict[str, Any]) -> None:
        """Goes on from a saved state; a scale fixed by the config stays what the config says."""
        if self.settings.dynamic:
            self.value = min(float(state["value"]), 2.0**60)
            self.good_steps = int(state["good_steps"])
