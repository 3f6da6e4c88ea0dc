"""What came of two runs, side by side: findings, curves, ending. Says which kinds of outcome differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Optional

from doctor.compare.parting import Parting, parting
from doctor.compare.row import FAILURE, LOSS, MEMORY, SPEED, Row
from doctor.finding import Finding, Severity, Text
from doctor.plan.arithmetic import global_batch
from doctor.session.history import Track
from doctor.session.recorded import Recorded

#: medians that differ by less than this share are the same speed
FASTER = 0.05
#: and memories
LARGER = 0.02
#: values of scale and gradient norm that differ by less are the same
LIKE = 0.1
_GOOD = ("ended", "complete")


@dataclass(frozen=True)
class Outcome:
    """`kinds` are the kinds of outcome that differ (loss, speed, memory, failure); `new` are findings that only B has;
    `regression` says that B's loss is worse: higher beyond noise at equal progress, or not finite where A's is."""

    rows: tuple[Row, ...]
    kinds: frozenset[str]
    new: tuple[Finding, ...]
    gone: tuple[Finding, ...]
    loss: Optional[Parting]
    regression: bool


def compare_outcomes(a: Recorded, b: Recorded) -> Outcome:
    """Pure of two recorded runs."""
    rows: list[Row] = []
    kinds: set[str] = set()
    new, gone = _only(b, a), _only(a, b)
    rows += _finding_rows(a, b)
    for finding in (*new, *gone):
        if finding.severity.at_least(Severity.WARNING):
            kinds.add(_kind(finding))
    loss, regression = None, False
    left, right = a.main, b.main
    if left is not None and right is not None:
        loss = _loss(a, b, left, right)
        rows += _loss_rows(left, right, loss)
        broken_a, broken_b = _broken(left), _broken(right)
        worse = loss is not None and loss.apart and loss.b > loss.a
        regression = (broken_b and not broken_a) or (worse and not broken_a)
        if broken_a != broken_b or (loss is not None and (loss.at is not None or loss.apart)):
            kinds.add(LOSS)
        for row, kind in _figures(left, right):
            rows.append(row)
            if kind:
                kinds.add(kind)
    rows += _ending(a, b)
    if (a.ending.state in _GOOD) != (b.ending.state in _GOOD) and "unknown" not in (a.ending.state, b.ending.state):
        kinds.add(FAILURE)
    return Outcome(tuple(rows), frozenset(kinds), new, gone, loss, regression)


def _only(one: Recorded, other: Recorded) -> tuple[Finding, ...]:
    """Findings whose rule the other run does not have, or has only as a note of what was over."""
    known = {finding.rule: finding.severity for finding in other.findings}
    return tuple(
        finding
        for finding in one.findings
        if finding.rule not in known or (known[finding.rule] is Severity.INFO and finding.severity.rank > 0)
    )


def _kind(finding: Finding) -> str:
    if finding.category in ("nan-overflow", "loss-not-converging"):
        return LOSS
    if finding.category in ("performance", "disk-io"):
        return SPEED
    return MEMORY if finding.category in ("oom-device", "oom-host", "memory-host") else FAILURE


def _finding_rows(a: Recorded, b: Recorded) -> Iterator[Row]:
    left = {finding.rule: finding for finding in a.findings}
    right = {finding.rule: finding for finding in b.findings}
    for rule in (*right, *(rule for rule in left if rule not in right)):
        one, other = left.get(rule), right.get(rule)
        finding = other or one
        assert finding is not None
        if one is not None and other is not None and one.severity is other.severity:
            continue
        yield Row(
            "findings",
            rule,
            finding.title,
            one.severity.value if one is not None else None,
            other.severity.value if other is not None else None,
            (_kind(finding),),
            0.2 + 0.2 * finding.severity.rank + (0.1 if finding.root_cause else 0.0),
        )


def _loss(a: Recorded, b: Recorded, left: Track, right: Track) -> Optional[Parting]:
    one, other = left.points("loss"), right.points("loss")
    if one is None or other is None:
        return None
    tokens = None
    if a.plan is not None and b.plan is not None:
        each, every = global_batch(a.plan).tokens, global_batch(b.plan).tokens
        tokens = (each, every) if each and every else None
    return parting(one, other, tokens)


def _broken(track: Track) -> bool:
    """Whether the loss is no number at the end."""
    series = track.series.get("loss")
    return series is not None and series.ends_bad


def _loss_rows(left: Track, right: Track, loss: Optional[Parting]) -> Iterator[Row]:
    one, other = left.series.get("loss"), right.series.get("loss")
    bad = (one.bad_at if one is not None else None, other.bad_at if other is not None else None)
    if bad[0] != bad[1]:
        label = Text("loss no number from step", "损失变为非数的步")
        yield Row("curves", "loss.not_finite_at", label, bad[0], bad[1], (LOSS,), 0.95)
    if loss is None:
        return
    step = loss.unit == "step"
    if loss.at is not None:
        label = Text("losses part", "损失分开")
        note = Text(
            f"from step {loss.at} on" if step else f"from {loss.at} tokens on, at equal tokens",
            f"从第 {loss.at} 步起" if step else f"从 {loss.at} tokens 起（按等量 token 比）",
        )
        yield Row("curves", "loss.parts_at", label, loss.at, loss.at, (LOSS,), 0.9, note)
    if loss.apart or loss.at is not None:
        label = Text(
            f"loss up to step {loss.up_to}" if step else f"loss up to {loss.up_to} tokens",
            f"截至第 {loss.up_to} 步的损失" if step else f"截至 {loss.up_to} tokens 的损失",
        )
        note = Text(
            f"means of the last {loss.window} points; noise {loss.noise:.2g}",
            f"最后 {loss.window} 点的均值；噪声 {loss.noise:.2g}",
        )
        yield Row("curves", "loss.final", label, _rounded(loss.a), _rounded(loss.b), (LOSS,), 0.8, note)


def _figures(left: Track, right: Track) -> Iterator[tuple[Row, Optional[str]]]:
    """Medians and extremes that differ, each with the kind of outcome that it says differs."""
    yield from _typical(left, right, "step_time_ms", Text("step time, ms", "每步耗时（毫秒）"), FASTER, SPEED)
    unit = left.unit or right.unit
    if left.unit == right.unit:
        named = Text(f"throughput, {unit}" if unit else "throughput", f"吞吐（{unit}）" if unit else "吞吐")
        yield from _typical(left, right, "throughput", named, FASTER, SPEED)
    yield from _typical(left, right, "grad_norm", Text("gradient norm", "梯度范数"), LIKE, None)
    for key, label in (
        ("loss_scale", Text("loss scale at the end", "最终损失缩放")),
        ("lr", Text("rate at the end", "最终学习率")),
    ):
        one, other = left.last(key), right.last(key)
        if one is not None and other is not None and _apart(one, other, LIKE) and left.last_step == right.last_step:
            yield Row("curves", f"{key}.final", label, _rounded(one), _rounded(other), (LOSS,), 0.35), None
    if left.overflows != right.overflows:
        label = Text("steps that overflowed", "溢出的步数")
        yield Row("curves", "overflows", label, left.overflows, right.overflows, (LOSS,), 0.5), None
    one, other = _most(left, "memory_mb"), _most(right, "memory_mb")
    if one is not None and other is not None and _apart(one, other, LARGER):
        label = Text("memory, MB", "显存（MB）")
        yield Row("curves", "memory_mb.max", label, _rounded(one), _rounded(other), (MEMORY,), 0.4), MEMORY


def _typical(
    left: Track, right: Track, key: str, label: Text, share: float, kind: Optional[str]
) -> Iterator[tuple[Row, Optional[str]]]:
    one, other = left.typical(key), right.typical(key)
    if one is not None and other is not None and _apart(one, other, share):
        median = Text(f"{label.en} (median)", f"{label.zh}，中位数")
        bears_on = (kind,) if kind else (LOSS,)
        yield Row("curves", f"{key}.median", median, _rounded(one), _rounded(other), bears_on, 0.45), kind


def _most(track: Track, key: str) -> Optional[float]:
    points = track.points(key)
    return float(points.high.max()) if points is not None else None


def _apart(one: float, other: float, share: float) -> bool:
    return abs(one - other) > share * max(abs(one), abs(other))


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")


def _ending(a: Recorded, b: Recorded) -> Iterator[Row]:
    if a.ending.state != b.ending.state:
        label = Text("ending", "结局")
        yield Row("ending", "state", label, a.ending.state, b.ending.state, (FAILURE,), 0.6)
    if a.ending.step != b.ending.step:
        label = Text("last step", "最后一步")
        yield Row("ending", "last_step", label, a.ending.step, b.ending.step, (FAILURE,), 0.5)
    if a.ending.exit_code != b.ending.exit_code:
        yield Row(
            "ending", "exit_code", Text("exit code", "退出码"), a.ending.exit_code, b.ending.exit_code, (FAILURE,), 0.4
        )
    if len(a.interventions) != len(b.interventions):
        label = Text("interventions", "干预次数")
        yield Row("ending", "interventions", label, len(a.interventions), len(b.interventions), (LOSS,), 0.5)


def figures(run: Recorded) -> dict[str, Any]:
    """The figures of one run under the names of `facts`: what a script wants besides the differences."""
    track = run.main
    row: dict[str, Any] = {"ending": run.ending.to_dict(), "findings": [finding.rule for finding in run.findings]}
    if track is not None:
        row["curves"] = {
            "records": track.records,
            "loss": track.last("loss"),
            "step_time_ms": track.typical("step_time_ms"),
            "throughput": track.typical("throughput"),
            "throughput_unit": track.unit,
            "grad_norm": track.typical("grad_norm"),
            "loss_scale": track.last("loss_scale"),
            "overflows": track.overflows,
            "memory_mb": _most(track, "memory_mb"),
        }
    return row
