"""The records that flow from bytes to detectors. Values only; no I/O and no clock."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Optional

from doctor.finding import plain
from doctor.records.lines import count_lines, line_ends

if TYPE_CHECKING:
    from doctor.records.columns import Ints


@dataclass(frozen=True)
class Chunk:
    """Whole lines of one source, as bytes. `offset` is the byte offset of ``data[0]`` in the source and
    `first_line` the number (from 1) of its first line. The last chunk of a source may lack its newline.
    """

    source: str
    data: bytes
    offset: int
    first_line: int
    rank: Optional[int] = None

    @cached_property
    def ends(self) -> Ints:
        """The places of its newlines, found once for all who ask."""
        return line_ends(self.data)

    @property
    def lines(self) -> int:
        """How many lines end in it."""
        return len(self.ends) if "ends" in self.__dict__ else count_lines(self.data)


_EVENT_FIELDS = (
    "rank",
    "epoch",
    "step",
    "global_step",
    "loss",
    "lr",
    "grad_norm",
    "loss_scale",
    "overflow",
    "step_time_ms",
    "data_time_ms",
    "throughput",
    "throughput_unit",
    "memory_mb",
)


@dataclass(frozen=True)
class Metric:
    """One step line. Losses and norms as printed, `step_time_ms` per step in milliseconds, `throughput` in the
    unit printed beside it. `step` is as printed; `global_step` counts over epochs where their length is known.
    Values that a line does not hold are None. `overflow` is True when the step was skipped for overflow."""

    source: str
    line: int
    offset: int
    rank: Optional[int] = None
    #: as printed; a fraction where the trainer prints one (0.23 of the first epoch)
    epoch: Optional[float] = None
    step: Optional[int] = None
    global_step: Optional[int] = None
    #: steps in all, or steps in the epoch, when the line says so (``step:[ 3/ 19]`` has 19)
    steps: Optional[int] = None
    epochs: Optional[int] = None
    loss: Optional[float] = None
    lr: Optional[float] = None
    grad_norm: Optional[float] = None
    loss_scale: Optional[float] = None
    overflow: Optional[bool] = None
    step_time_ms: Optional[float] = None
    data_time_ms: Optional[float] = None
    throughput: Optional[float] = None
    throughput_unit: Optional[str] = None
    memory_mb: Optional[float] = None
    #: seconds since the epoch, from the line's own time stamp
    time: Optional[float] = None
    evaluation: bool = False
    #: an average over an epoch or a run (`avg loss`, `per step time` at its end), not one step
    summary: bool = False
    text: str = ""

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Metric:
        """The metric of these fields, which the dict belongs to from now on; those not named have their defaults. For
        millions of metrics: the constructor takes ten times as long."""
        metric = object.__new__(cls)
        object.__setattr__(metric, "__dict__", fields)
        return metric

    @property
    def at(self) -> Optional[int]:
        """The step to order by: global when known, else as printed."""
        return self.global_step if self.global_step is not None else self.step

    @property
    def announced(self) -> Optional[int]:
        """Steps of the whole run, when the line says so: whole epochs, wherever in the last one the run is to end."""
        return self.steps * (self.epochs or 1) if self.steps else None

    def to_event(self) -> dict[str, Any]:
        """The ``metric`` event of ``watch --format jsonl``; absent values are left out."""
        event: dict[str, Any] = {"event": "metric", "source": self.source, "line": self.line}
        for name in _EVENT_FIELDS:
            value = getattr(self, name)
            if value is not None:
                event[name] = plain(value)
        return event


@dataclass(frozen=True)
class Notice:
    """What happened to a source rather than in it: opened, rotated, truncated, vanished, unreadable, ended."""

    kind: str
    source: str
    rank: Optional[int] = None
    offset: int = 0
    detail: str = ""
