"""From results to findings: what is missed, what is raised in vain, and what of it is whose fault."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from doctor.check import CheckOutcome
from doctor.finding import Evidence, Finding, Severity, Text
from doctor.match.rulefile import RuleError
from doctor.selftest.rows import Part, quantile
from doctor.selftest.rules import DAMAGED, FALSE_ALARM, LATE, MISSED, OWN_RULE, REPLACED
from doctor.selftest.trial import INSTALLED, OWN, Raised, Result

#: of the planted trainings, and of the healthy ones, so large a share may be missed or raise something, and at least one:
#: noise decides at the border. Measured on seeds that no rule was made with: 1.5 % of 400 healthy ones raise something.
MAY_MISS, MAY_ALARM = 0.05, 0.03
#: a kind that is missed in all of so many trainings is no matter of noise
ALL_OF = 3
#: seconds within which 99 of 100 alerts must come
SOON = 3.0


def findings(
    parts: Sequence[Part], folder: str, own: Mapping[str, str], seed: int = 0, runs: int = 1
) -> Iterator[Finding]:
    """What is wrong with this installation or with the user's own rules; `own` gives the files of the latter by id."""
    yield from _own_rules(parts, own)
    for part in parts:
        missed = [item for item in part.whole.missed if item.trial.kind not in (OWN, INSTALLED)]
        if missed:
            yield _missed(part, missed, seed, runs)
        alarmed = [(item, alarm) for item, alarm in _alarms(part) if alarm.rule not in own]
        if alarmed:
            yield _false_alarm(part, alarmed, seed, runs)
        yield from _replaced(part)
        delays = part.whole.delays_ms
        if delays and quantile(delays, 0.99) > SOON * 1000:
            p99 = f"{quantile(delays, 0.99) / 1000:.1f}"
            place = Evidence("value", folder, key="live", observed=f"{p99} s")
            yield LATE.finding(evidence=[place], p99=p99, folder=folder)


def broken_rules(errors: Iterable[RuleError]) -> Iterator[Finding]:
    """Own rule files that cannot be read."""
    for error in errors:
        what = f"{error.key}: {error.fault}" if error.key else error.fault
        place = Evidence("file", error.path, key=error.key or None, text=what)
        yield _own(error.path, Text(f"cannot be read ({what})", f"无法读取（{what}）"), [place])


def damaged_files(files: tuple[str, ...]) -> Finding:
    shown = ", ".join(files[:3]) + (", …" if len(files) > 3 else "")
    return DAMAGED.finding(evidence=[Evidence("file", file) for file in files], count=len(files), files=shown)


def outcome_of(part: Part, found: bool) -> CheckOutcome:
    """passed, found, skipped or crashed."""
    if part.skipped is not None:
        return CheckOutcome(MISSED.id, "skipped", part.skipped, target=part.name)
    if part.crash is not None:
        return CheckOutcome(MISSED.id, "crashed", Text(part.crash, part.crash), target=part.name)
    return CheckOutcome(MISSED.id, "found" if found else "passed", target=part.name)


def tolerated(part: Part) -> bool:
    """Whether misses of trainings are no more than noise explains."""
    if part.name != "watch":
        return False
    whole = part.whole
    wholly = any(row.planted >= ALL_OF and not row.found for row in part.rows)
    return not wholly and len(whole.missed) <= max(1, MAY_MISS * whole.planted)


def _missed(part: Part, missed: list[Result], seed: int, runs: int) -> Finding:
    kinds = sorted({item.trial.kind for item in missed})
    shown = ", ".join(kinds[:4]) + (", …" if len(kinds) > 4 else "")
    allowed = tolerated(part)
    message = None
    if allowed:
        message = Text(
            "Short trainings are noisy: up to one in twenty may be missed ({kinds}), as on the machines on which the rules were made.",
            "短训练有噪声：每二十次允许漏报一次（{kinds}），与制定规则时所用的机器一致。",
        )
    return MISSED.finding(
        message,
        evidence=[_evidence(item) for item in missed],
        severity=Severity.INFO if allowed else None,
        part=part.name,
        missed=len(missed),
        planted=part.whole.planted,
        kinds=shown,
        seed=seed,
        runs=runs,
    )


def _evidence(item: Result) -> Evidence:
    """Which trial, what ought to have been named, and what was."""
    told = item.crash or ", ".join(item.instead) or "-"
    return Evidence(
        "value",
        "selftest",
        key=f"{item.trial.part}/{item.trial.kind} {item.trial.case}",
        expected=" | ".join(item.rules) or None,
        observed=told,
    )


def _alarms(part: Part) -> Iterator[tuple[Result, Raised]]:
    for item in part.whole.alarmed:
        for alarm in item.alarms:
            yield item, alarm


def _false_alarm(part: Part, alarmed: list[tuple[Result, Raised]], seed: int, runs: int) -> Finding:
    rules = sorted({alarm.rule for _, alarm in alarmed})
    count, healthy = len({item.trial for item, _ in alarmed}), part.whole.healthy
    allowed = part.name == "watch" and count <= max(1, MAY_ALARM * healthy)
    return FALSE_ALARM.finding(
        evidence=[alarm.place for _, alarm in alarmed],
        severity=Severity.INFO if allowed else None,
        part=part.name,
        count=count,
        healthy=healthy,
        rules=", ".join(rules[:4]) + (", …" if len(rules) > 4 else ""),
        seed=seed,
        runs=runs,
    )


def _own_rules(parts: Sequence[Part], own: Mapping[str, str]) -> Iterator[Finding]:
    """One finding for each file of the user whose rule misses its own examples or is raised on what is healthy."""
    missed: dict[str, list[Result]] = {}
    raised: dict[str, list[Evidence]] = {}
    for part in parts:
        for item in part.results:
            if item.trial.kind in (OWN, INSTALLED) and item.found is False and item.source is not None:
                missed.setdefault(item.source, []).append(item)
        for _, alarm in _alarms(part):
            if alarm.rule in own:
                raised.setdefault(own[alarm.rule], []).append(alarm.place)
    for path in sorted({*missed, *raised}):
        lost, lines = missed.get(path, []), raised.get(path, [])
        en, zh = [], []
        if lost:
            names = ", ".join(item.trial.case for item in lost[:3])
            en.append(f"misses its own examples ({names})")
            zh.append(f"漏掉了自身的示例（{names}）")
        if lines:
            en.append(f"is raised on {len(lines)} healthy lines")
            zh.append(f"在 {len(lines)} 行正常日志上触发")
        yield _own(path, Text("; ".join(en), "；".join(zh)), [*map(_evidence, lost), *lines])


def _own(path: str, what: Text, evidence: list[Evidence]) -> Finding:
    name = Path(path).name
    found = OWN_RULE.finding(evidence=evidence, path=path)
    return found.with_(title=Text(f"{name}: {what.en}", f"{name}：{what.zh}"))


def _replaced(part: Part) -> Iterator[Finding]:
    """Rules of the program whose id an own rule has taken, with what is lost by it."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for item in part.results:
        if item.found is not None and item.replaced is not None:
            groups.setdefault((item.rules[0], item.replaced), []).append(item)
    for (rule, path), items in groups.items():
        lost = [item for item in items if not item.found]
        if lost:
            evidence = [Evidence("file", path), *map(_evidence, lost)]
            yield REPLACED.finding(
                evidence=evidence, file=Path(path).name, rule=rule, missed=len(lost), planted=len(items)
            )
