"""A step line of any make as names and values: the generic reader, right rather than fast.

``epoch: 1 step: 5, loss is 2.5`` and ``| lm loss: 2.5E+00 | grad norm: 0.24 |`` are read by the same rules: a name is a
run of words before a separator, a value the number (or nan, True, None) behind it, a unit the letters behind
that. `doctor.records.keys` says what a name means; `fields` decides which of them make a record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, Optional, Union

from doctor.records.keys import LOSS_EVAL, LOSS_MEAN, Role, role
from doctor.records.units import megabytes, milliseconds, throughput_unit

#: field of Metric -> value, for one record
Fields = dict[str, Union[float, int, bool, str, None]]

_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)"
_NOT_FINITE = r"[-+]?(?i:nan|inf|infinity)\b"
_WORD = r"[A-Za-z_一-鿿](?:[\w.]*\w)?"

_PAIR = re.compile(
    rf"""
    (?:
      # words, perhaps with a unit in brackets: `elapsed time per iteration (ms)`, `Iter(train)`, `'loss'`
      (?<![A-Za-z_第])(?!第|(?:step|iter|epoch)\d)(?P<key>(?:\w+_loss:(?=loss\b))?{_WORD}(?:[ /]{_WORD}){{0,5}}?(?:\s?\([A-Za-z/\s]{{1,14}}\))?)
      (?:
        # `key: value`, `key = [value`, `key is value`
        ["']?\s*(?:[:=]|(?<=\s)(?:is|为|是)(?=\s))(?P<strong>\s*["'\[(]*\s*)
        (?P<value>{_NUMBER}|{_NOT_FINITE}(?!\s+or\b)|(?:True|False|None|null|true|false|N/A|unavailable)\b)
      |
        # `key[value`, `key value`, `key-value`
        (?P<weak>\s*[\[(]\s*["']?\s*|\s+|-(?=\d))
        (?P<wvalue>{_NUMBER}|{_NOT_FINITE}(?!\s+(?:iter|step|or\b)))
      )
    |
      # attached: `step374`
      (?<![A-Za-z_])(?P<akey>step|iter|epoch)(?P<avalue>\d+)\b(?!\.)
    |
      # the number first: `1epoch 1iter`, `第 120 步`
      (?<![\w.])(?P<nvalue>\d+)(?:(?P<nkey>epoch|iter|step)\b|\s?(?P<zkey>步|轮))
    )
    # `3/ 19`, `[2.1/2.3`, `0 of 62475`
    (?:["']?\s*(?:/|\bof\b)\s*(?P<total>{_NUMBER}|{_NOT_FINITE}))?
    # `ms`, ` imgs/sec`, `T`, `GiB`, `s/it`: only looked at, since the next name looks the same
    (?=["'\])]*\s?(?P<unit>[A-Za-z]+(?:/[A-Za-z]+){{0,3}}))?
    """,
    re.VERBOSE,
)
# What stands behind a number and makes it something else: the rest of a date or a time, more numbers in brackets
_DATE = re.compile(r"[-:]\d|\.\d+\.")
_MORE = re.compile(r"\s+[-+\d.]")
_THOUSANDS = re.compile(r"(?:,\d{3})+(?!\d)")

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_TENSOR = re.compile(r"Tensor\(shape=\[[^\]]*\],\s*dtype=\w+,\s*value=\s*([^)]*?)\s*\)")
# `Epoch [1][50/7330]` counts the step in the second bracket
_BRACKETS = re.compile(r"(?i)(epoch(?:\(\w+\))?\s*\[\s*\d+)\]\s*\[\s*(\d+\s*/\s*\d+)\]")
_WIDE = str.maketrans("：，（）［］＝／｜", ":,()[]=/|")
_TUPLE = re.compile(r"\s*,\s*(True|False)\s*,\s*([\d.]+)\s*\)")

_EVALUATION = re.compile(
    r"(?i)[\[(](?:valid|val|validation|eval|test)[\])]|->validate|\b(?:validation|eval(?:uation)?)[ _](?:result|loss|step|epoch)"
)
_SUMMARY = re.compile(r"(?i)epoch time\b|['\"]?train_runtime|per sink_size step time")
_BARE_RATE = re.compile(
    r"(?<![:=\d.])\s(\d+(?:\.\d+)?) ((?:imgs?|images?|samples?|tokens?|sequences?)/(?:s|sec|second)\b)"
)
_OVERFLOW = re.compile(r"溢出(?!次数|检测)")


class Pair(NamedTuple):
    """One name and its value. `text` is the number or word as printed, `unit` the letters behind it."""

    key: str
    role: Role
    text: str
    total: Optional[str]
    unit: str
    end: int
    bracket: bool


def clean(line: str) -> str:
    """The line without colours, with ASCII punctuation and plain numbers for tensors."""
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    if "\x00" in line:
        line = line.replace("\x00", "")
    if not line.isascii():
        line = line.translate(_WIDE)
    if "Tensor(" in line:
        line = _TENSOR.sub(r"\1", line)
    if "][" in line:
        line = _BRACKETS.sub(r"\1] step [\2]", line)
    return line


def pairs(line: str) -> Iterator[Pair]:
    """The names that mean something, with their values, in order. `line` comes from `clean`."""
    for match in _PAIR.finditer(line):
        key = match["key"] or match["akey"] or match["nkey"] or match["zkey"]
        meaning = role(key)
        if meaning is None:
            continue
        text = match["value"] or match["wvalue"] or match["avalue"] or match["nvalue"]
        end = match.end("total") if match["total"] else max(match.end(name) for name in _VALUES)
        if _DATE.match(line, end) and not match["total"]:
            continue
        bracket = "[" in (match["strong"] or match["weak"] or "")
        if bracket and _MORE.match(line, end):
            # `global_norm: [1 508834]`: a number that was broken in two; neither half is the value
            continue
        if meaning.field == "throughput":
            more = _THOUSANDS.match(line, end)
            if more:
                text, end = text + more.group().replace(",", ""), more.end()
        yield Pair(key, meaning, text, match["total"], match["unit"] or "", end, bracket)


_VALUES = ("value", "wvalue", "avalue", "nvalue")


def number(text: str) -> Optional[float]:
    """A number, nan or inf; None for None, N/A, unavailable and all else. ``9.`` and ``5.e-05`` are numbers."""
    try:
        return float(text)
    except ValueError:
        return None


def integer(text: Optional[str]) -> Optional[int]:
    value = number(text) if text else None
    return int(value) if value is not None and value == value and abs(value) < 2**63 else None


def records(line: str) -> Iterator[Fields]:
    """The records of one line, most often none or one: two when two lines were glued together."""
    text = clean(line)
    found: list[Pair] = []
    for pair in pairs(text):
        # a second count of epochs or steps after a loss begins another record
        if pair.role.field in ("epoch", "step") and _starts_again(found, pair):
            yield from _record(found, text)
            found = []
        found.append(pair)
    yield from _record(found, text)


def _starts_again(found: list[Pair], pair: Pair) -> bool:
    names = [(old.role.field, old.role.quality) for old in found]
    return (pair.role.field, pair.role.quality) in names and any(name == "loss" for name, _ in names)


def _record(found: list[Pair], line: str) -> Iterator[Fields]:
    fields = fields_of(found, line)
    if fields is not None:
        yield fields


def fields_of(found: list[Pair], line: str) -> Optional[Fields]:
    """What the pairs of one record say, or None when they are not a record of training.

    A record needs a loss and something that places it (step, epoch, learning rate, time), or a step and the time
    it took, or the average time of an epoch. A setting that is echoed has none of these.
    """
    best: dict[str, Pair] = {}
    for pair in found:
        old = best.get(pair.role.field)
        if old is None or pair.role.quality < old.role.quality:
            best[pair.role.field] = pair
    fields: Fields = {}
    _counts(best, fields)
    _loss(best.get("loss"), line, fields)
    _plain(best, line, fields)
    _times(best, fields)
    if "overflow" not in fields and not line.isascii() and _OVERFLOW.search(line):
        fields["overflow"] = True
    loss = best.get("loss")
    if "step" not in fields and (_SUMMARY.search(line) or (loss and loss.role.quality == LOSS_MEAN)):
        fields["summary"] = True
    if loss and "train" not in loss.key.lower() and _EVALUATION.search(line):
        fields["evaluation"] = True
    return fields if _is_record(fields, best) else None


def _is_record(fields: Fields, best: dict[str, Pair]) -> bool:
    placed = "step" in fields or "epoch" in fields
    if "loss" in best:
        return placed or "lr" in fields or "step_time_ms" in fields
    return "step_time_ms" in fields and ("step" in fields or "summary" in fields)


def _counts(best: dict[str, Pair], fields: Fields) -> None:
    epoch, step, steps = best.get("epoch"), best.get("step"), best.get("steps")
    if epoch:
        value = number(epoch.text)
        if value is not None and value == value:
            fields["epoch"] = int(value) if value == int(value) else value
        fields["epochs"] = integer(epoch.total)
    if step is None and steps is not None and "epoch_time" not in best and steps.total is None and "loss" in best:
        # DeepSpeed writes `steps: 10 loss: 2.5`; after an epoch, `steps: 625` is its length
        step, steps = steps, None
    if step:
        fields["step"] = integer(step.text)
        fields["steps"] = integer(step.total)
    if steps and fields.get("steps") is None:
        fields["steps"] = integer(steps.text)
    for name in ("epochs", "step", "steps"):
        if name in fields and fields[name] is None:
            del fields[name]


def _loss(pair: Optional[Pair], line: str, fields: Fields) -> None:
    if pair is None:
        return
    value = number(pair.text)
    if value is not None:
        fields["loss"] = value
    if pair.role.quality == LOSS_EVAL:
        fields["evaluation"] = True
    # the model zoo prints the tuple (loss, overflow, scale)
    rest = _TUPLE.match(line, pair.end)
    if rest:
        fields["overflow"] = rest.group(1) == "True"
        fields["loss_scale"] = float(rest.group(2))


def _plain(best: dict[str, Pair], line: str, fields: Fields) -> None:
    for name in ("lr", "grad_norm", "loss_scale"):
        pair = best.get(name)
        value = number(pair.text) if pair else None
        if value is not None:
            fields[name] = value
    norm = best.get("grad_norm")
    if norm and norm.text == "NaN" and norm.key == "grad_norm":
        # MindFormers' PyNative trainer writes the word NaN for "not known"; a number that is not finite is `nan`
        fields.pop("grad_norm", None)
    flag = best.get("overflow")
    if flag and flag.text in ("True", "False", "true", "false", "0", "1"):
        fields["overflow"] = flag.text in ("True", "true", "1")
    memory = best.get("memory_mb")
    if memory:
        size = megabytes(number(memory.text), memory.role.unit or memory.unit)
        if size is not None:
            fields["memory_mb"] = size
    work = best.get("throughput")
    value = number(work.text) if work else None
    if work and value is not None:
        fields["throughput"] = value
        fields["throughput_unit"] = throughput_unit(work.unit, work.role.unit)
    elif work is None:
        bare = _BARE_RATE.search(line)
        if bare:
            fields["throughput"], fields["throughput_unit"] = float(bare.group(1)), bare.group(2)
    skipped = best.get("skipped")
    if skipped:
        fields["skipped"] = integer(skipped.text)


def _times(best: dict[str, Pair], fields: Fields) -> None:
    for name in ("step_time_ms", "data_time_ms"):
        pair = best.get(name)
        if pair is None:
            continue
        unit = pair.role.unit or pair.unit
        # `per step time: 4335.153` is MindSpore's and in ms; a bare `time=9.3` may be anything
        if not unit or milliseconds(1.0, unit) is None:
            unit = (
                "ms"
                if pair.role.quality == 0
                and re.fullmatch(r"(?i)(avg )?per[ _]step[ _]time", pair.key.split(":")[-1].strip())
                else ""
            )
        elif pair.role.quality == 1 and "step" not in fields:
            unit = ""
        value = milliseconds(number(pair.text), unit)
        if value is not None:
            fields[name] = value
