"""Step records for detectors: from curve files, from the training lab, from plain lists."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Optional

from doctor.detect import Alarm, Detector, detectors
from doctor.records.record import Metric

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "logs" / "curves"


def from_csv(path: Path) -> Iterator[Metric]:
    """A curve file: a comment line, then columns step, loss, lr, grad_norm and more."""
    with path.open(encoding="utf-8") as lines:
        next(lines)
        for index, row in enumerate(csv.DictReader(lines)):
            step = int(_float(row, "step") or 0)
            yield Metric(
                path.name,
                index + 3,
                0,
                step=step,
                global_step=step,
                loss=_float(row, "loss"),
                lr=_float(row, "lr"),
                grad_norm=_float(row, "grad_norm"),
                loss_scale=_float(row, "loss_scale"),
                overflow=row["overflow"] == "True" if row.get("overflow") else None,
                step_time_ms=_float(row, "step_time_ms"),
            )


def _float(row: dict[str, str], key: str) -> Optional[float]:
    return float(row[key]) if row.get(key) else None


def from_rows(rows: Sequence[dict[str, object]], steps: Optional[int] = None) -> Iterator[Metric]:
    """Rows of the training lab."""
    for index, row in enumerate(rows):
        step = row["step"]
        yield Metric("lab", index + 1, 0, global_step=step, steps=steps or len(rows), **row)  # type: ignore[arg-type]


def from_losses(losses: Iterable[float], **columns: Sequence[object]) -> Iterator[Metric]:
    """Losses from step 1 on; further columns by name."""
    for index, loss in enumerate(losses):
        more = {name: values[index] for name, values in columns.items()}
        yield Metric("list", index + 1, 0, step=index + 1, global_step=index + 1, loss=loss, **more)  # type: ignore[arg-type]


def drive(metrics: Iterable[Metric], given: Optional[Sequence[Detector]] = None) -> list[Alarm]:
    """What all detectors say of a stream, to its end."""
    active = list(given) if given is not None else detectors()
    said: list[Alarm] = []
    for metric in metrics:
        for detector in active:
            said.extend(detector.feed(metric))
    for detector in active:
        said.extend(detector.end())
    return said


def opened(alarms: Iterable[Alarm]) -> list[str]:
    """Ids of the rules that were opened, in order."""
    return [alarm.rule for alarm in alarms if alarm.kind == "opened"]
