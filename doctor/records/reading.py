"""What the names and values of a line amount to: a step record, or nothing.

Each value keeps the place it was read from, so that `doctor.records.template` can read the next line of the same make
from the same places.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Optional, Union

from doctor.records.keys import LOSS_EVAL, LOSS_MEAN
from doctor.records.tokens import Pair, Span, clean, integer, number, pairs
from doctor.records.units import MILLISECONDS, megabytes, throughput_unit

#: field of Metric -> value, for one record; `skipped` (iterations) beside them
Fields = dict[str, Union[float, int, bool, str, None]]

# Lines about an evaluation that have no `eval_loss` to tell it
_EVALUATION = re.compile(
    r"(?i)[\[(](?:valid|val|validation|eval|test)[\])]|->validate|\b(?:validation|eval(?:uation)?)[ _](?:result|loss|step|epoch)"
)
_SUMMARY = re.compile(r"(?i)epoch time\b|['\"]?train_runtime|per sink_size step time")
_BARE_RATE = re.compile(
    r"(?<![:=\d.])\s(\d+(?:\.\d+)?) ((?:imgs?|images?|samples?|tokens?|sequences?)/(?:s|sec|second)\b)"
)
# `0.30s/it`, `(0.123 sec/step)`
_BARE_TIME = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s?(ms|s|sec)/(?:step|it|iter)\b")
_OVERFLOW = re.compile(r"溢出(?!次数|检测)")
# the tuple (loss, overflow, scale) of the model zoo's loss-scaling cells
_TUPLE = re.compile(r"\s*,\s*(True|False)\s*,\s*([\d.]+)\s*\)")
# MindSpore's own name, in ms also where no unit is printed
_PER_STEP_TIME = re.compile(r"(?i)(?:avg )?per[ _]step[ _]time")
COUNTS = ("epoch", "epochs", "step", "steps", "global_step", "skipped", "rank")


class Place(NamedTuple):
    """Where a field's number stands in the cleaned line, and the factor that makes it the field's value."""

    start: int
    end: int
    factor: float


@dataclass
class Reading:
    """One record: its fields, and the places of those that are numbers in the line."""

    fields: Fields = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)

    def put(self, name: str, span: Span, factor: float = 1.0) -> None:
        """The number at `span` times `factor`; nothing when it is no number (None, N/A, unavailable)."""
        value = integer(span.text) if name in COUNTS and name != "epoch" else number(span.text)
        if value is None:
            return
        if name == "epoch":
            if value != value:
                return
            value = whole(value)
        if name == "overflow":
            value = bool(value)
        self.fields[name] = value * factor if factor != 1.0 else value
        self.places[name] = Place(span.start, span.end, factor)


def whole(value: float) -> float:
    """An int when it is one: epoch 1.0 is epoch 1, and 0.23 stays."""
    return int(value) if abs(value) < 2**53 and value == int(value) else value


def read_line(line: str) -> list[Reading]:
    """The records of one line, most often none or one: two when two lines were glued together."""
    text = clean(line)
    readings: list[Optional[Reading]] = []
    found: list[Pair] = []
    for pair in pairs(text):
        # a second count of epochs or steps after a loss begins another record
        if pair.role.field in ("epoch", "step") and _starts_again(found, pair):
            readings.append(reading_of(found, text))
            found = []
        found.append(pair)
    readings.append(reading_of(found, text))
    return [reading for reading in readings if reading is not None]


def _starts_again(found: list[Pair], pair: Pair) -> bool:
    kinds = [(old.role.field, old.role.quality) for old in found]
    return (pair.role.field, pair.role.quality) in kinds and any(kind == "loss" for kind, _ in kinds)


def reading_of(found: Iterable[Pair], line: str) -> Optional[Reading]:
    """What the pairs of one record say, or None when they are no record of training.

    A record needs a loss and something that places it (step, epoch, learning rate, time), or a step and the time
    it took, or the average time of an epoch. A setting that is echoed has none of these.
    """
    best: dict[str, Pair] = {}
    for pair in found:
        old = best.get(pair.role.field)
        if old is None or pair.role.quality < old.role.quality:
            best[pair.role.field] = pair
    reading = Reading()
    _counts(best, reading)
    _loss(best.get("loss"), line, reading)
    _numbers(best, line, reading)
    _overflow(best, line, reading)
    _times(best, line, reading)
    _kind(best.get("loss"), line, reading.fields)
    return reading if _is_record(reading.fields, "loss" in best) else None


def _is_record(fields: Fields, names_loss: bool) -> bool:
    if names_loss:
        return any(name in fields for name in ("step", "epoch", "lr", "step_time_ms"))
    return "step_time_ms" in fields and ("step" in fields or "summary" in fields)


def _counts(best: dict[str, Pair], reading: Reading) -> None:
    epoch, step, steps = best.get("epoch"), best.get("step"), best.get("steps")
    if epoch:
        reading.put("epoch", epoch.value)
        if epoch.total:
            reading.put("epochs", epoch.total)
    if step is None and steps is not None and "epoch_time" not in best and "loss" in best:
        # DeepSpeed writes `steps: 10 loss: 2.5`; beside the time of an epoch, `steps: 625` is its length
        step, steps = steps, None
    if step:
        reading.put("step", step.value)
        if step.total:
            reading.put("steps", step.total)
    if steps and "steps" not in reading.fields:
        reading.put("steps", steps.value)
    for name in ("skipped", "rank", "global_step"):
        if name in best:
            reading.put(name, best[name].value)
    if "step" not in reading.fields and "global_step" in reading.fields:
        reading.fields["step"], reading.places["step"] = reading.fields["global_step"], reading.places["global_step"]
        del reading.fields["global_step"], reading.places["global_step"]
        if best["global_step"].total and "steps" not in reading.fields:
            reading.put("steps", best["global_step"].total)


def _loss(pair: Optional[Pair], line: str, reading: Reading) -> None:
    if pair is None:
        return
    reading.put("loss", pair.value)
    rest = _TUPLE.match(line, pair.end)
    if rest:
        reading.fields["overflow"] = rest.group(1) == "True"
        reading.put("loss_scale", Span(*rest.span(2), rest.group(2)))


def _numbers(best: dict[str, Pair], line: str, reading: Reading) -> None:
    for name in ("lr", "grad_norm", "loss_scale"):
        pair = best.get(name)
        # MindFormers' PyNative trainer writes the word NaN for "not known"; a norm that is not finite is `nan`
        if pair and not (name == "grad_norm" and pair.key == "grad_norm" and pair.value.text == "NaN"):
            reading.put(name, pair.value)
    memory = best.get("memory_mb")
    if memory:
        factor = megabytes(memory.role.unit or memory.unit)
        if factor is not None:
            reading.put("memory_mb", memory.value, factor)
    work = best.get("throughput")
    bare = None if work else _BARE_RATE.search(line)
    if work:
        reading.put("throughput", work.value)
        unit = throughput_unit(work.unit, work.role.unit)
    elif bare:
        reading.put("throughput", Span(*bare.span(1), bare.group(1)))
        unit = bare.group(2)
    if "throughput" in reading.fields:
        reading.fields["throughput_unit"] = unit


def _overflow(best: dict[str, Pair], line: str, reading: Reading) -> None:
    flag = best.get("overflow")
    if flag and flag.value.text.lower() in ("true", "false"):
        reading.fields["overflow"] = flag.value.text.lower() == "true"
    elif flag:
        reading.put("overflow", flag.value)
    elif "overflow" not in reading.fields and not line.isascii() and _OVERFLOW.search(line):
        reading.fields["overflow"] = True


def _times(best: dict[str, Pair], line: str, reading: Reading) -> None:
    for name in ("step_time_ms", "data_time_ms"):
        pair = best.get(name)
        if pair is None:
            continue
        unit = (pair.role.unit or pair.unit).split("/")[0].lower()
        factor = MILLISECONDS.get(unit)
        if factor is None and _PER_STEP_TIME.fullmatch(pair.key):
            factor = 1.0
        # a bare `time` is that of a step only in a line about a step
        if factor is not None and (pair.role.quality == 0 or "step" in reading.fields):
            reading.put(name, pair.value, factor)
    bare = _BARE_TIME.search(line) if "step_time_ms" not in reading.fields and "step" in reading.fields else None
    if bare:
        reading.put("step_time_ms", Span(*bare.span(1), bare.group(1)), MILLISECONDS[bare.group(2)])


def _kind(loss: Optional[Pair], line: str, fields: Fields) -> None:
    """Marks evaluations, and averages over an epoch or a run."""
    quality = loss.role.quality if loss else None
    if "step" not in fields and (quality == LOSS_MEAN or _SUMMARY.search(line)):
        fields["summary"] = True
    if quality == LOSS_EVAL or (loss and "train" not in loss.key.lower() and _EVALUATION.search(line)):
        fields["evaluation"] = True
