"""What every config check needs: when it applies, how evidence quotes the file, how a fix becomes an edit."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Optional

from doctor.check import Check, Skip
from doctor.checks.config.expectations import both
from doctor.checks.config.following import followed
from doctor.escape import visible
from doctor.finding import Edit, Evidence, Finding, Fix, Location, Text, fill, number_text
from doctor.plan.plan import Dialect, Plan
from doctor.plan.value import Value

GRAPH = (Dialect.LEGACY, Dialect.MCORE)
MINDFORMERS = (*GRAPH, Dialect.PYNATIVE)
RUNS = (*MINDFORMERS, Dialect.TRAINER)
MODELS = (*RUNS, Dialect.HUGGINGFACE)
ALL = tuple(Dialect)

_DIALECT_NAMES = {
    Dialect.LEGACY: Text("MindFormers legacy", "MindFormers legacy"),
    Dialect.MCORE: Text("MindFormers mcore", "MindFormers mcore"),
    Dialect.PYNATIVE: Text("MindFormers PyNative", "MindFormers PyNative"),
    Dialect.TRAINER: Text("built-in trainer", "内置训练器"),
    Dialect.HUGGINGFACE: Text("Hugging Face", "Hugging Face"),
    Dialect.OTHER: Text("unknown", "未知"),
}
_UNREADABLE = Text("the file could not be read as YAML; see CFG-YML", "文件无法按 YAML 解析，见 CFG-YML")
_NO_TRAINING = Text("the run does not train (run_mode)", "该任务不训练（run_mode）")
_TRAINING = Text("the run trains (run_mode)", "该任务是训练（run_mode）")
_FRAGMENT = Text("a fragment that other files complete", "只是由其他文件补全的片段")

Judge = Callable[[Plan], Iterator[Finding]]


def applies(
    dialects: Iterable[Dialect] = ALL,
    *,
    training: Optional[bool] = None,
    complete: bool = False,
    readable: bool = True,
    since: Optional[str] = None,
    before: Optional[str] = None,
) -> Callable[[Judge], Judge]:
    """Makes a judge skip, with the reason, what it is not about: other dialects, runs that do not train (`training`
    True) or that do (False), fragments (`complete`), text that could not be read, other releases."""
    wanted = frozenset(dialects)

    def wrap(judge: Judge) -> Judge:
        @functools.wraps(judge)
        def judged(plan: Plan) -> Iterator[Finding]:
            reason = _why_not(plan)
            if reason is not None:
                raise Skip(reason)
            return judge(plan)

        def _why_not(plan: Plan) -> Optional[Text]:
            if readable and not plan.document.readable:
                return _UNREADABLE
            if plan.dialect not in wanted:
                mine = _DIALECT_NAMES[plan.dialect]
                return Text(f"not for {mine.en} configs", f"不适用于 {mine.zh} 配置")
            if training is not None and plan.trains is not training:
                return _NO_TRAINING if training else _TRAINING
            if complete and not plan.complete:
                return _FRAGMENT
            if since is not None and not plan.release.since(since):
                return Text(f"only from MindFormers {since}", f"仅适用于 MindFormers {since} 及以后")
            if before is not None and not plan.release.before(before):
                return Text(f"only before MindFormers {before}", f"仅适用于 MindFormers {before} 之前")
            return None

        return judged

    return wrap


def need(*values: Value) -> tuple[int, ...]:
    """The counts (integers above zero) of settings. Raises Skip, naming the first that has none."""
    counts = []
    for value in values:
        count = value.count
        if count is None:
            raise Skip(
                Text(f"{value.key or 'a setting'} is not known here", f"此处不知道 {value.key or '某个设置'} 的值")
            )
        counts.append(count)
    return tuple(counts)


def unknown(key: str) -> Skip:
    """The reason when a rule needs a setting that the file does not hold."""
    return Skip(Text(f"{key} is not in the file", f"文件中没有 {key}"))


def seen(plan: Plan, *values: Value, expected: Any = None) -> tuple[Evidence, ...]:
    """Evidence for settings, the first with what was `expected`. An alias shows its use and its anchor."""
    rows: list[Evidence] = []
    for value in values:
        for place in value.places():
            if place.line is None and rows:
                continue
            rows.append(
                Evidence.at(
                    place,
                    "value",
                    text=quote(plan, place),
                    observed=_short(value),
                    expected=(both(expected) if isinstance(expected, str) else expected) if not rows else None,
                )
            )
    return tuple(rows)


def quote(plan: Plan, place: Location) -> Optional[str]:
    """The line of the file, without blanks at its ends."""
    if place.line is None or place.source != str(plan.document.path):
        return None
    line = _lines(plan.document.text)[place.line - 1 : place.line]
    return visible(line[0].strip(), 120) if line else None


@functools.lru_cache(maxsize=2)
def _lines(text: str) -> list[str]:
    return text.split("\n")


def _short(value: Value) -> Any:
    if value.is_mapping:
        return both(f"mapping with {len(value.mapping)} keys")
    if value.is_sequence:
        plain = value.plain()
        return plain if len(repr(plain)) <= 160 else both(f"list of {len(plain)}")
    return visible(value.value, 80) if isinstance(value.value, str) else value.value


def because(check: Check[Any], en: str, zh: str) -> Text:
    """What is wrong with the user's numbers, and then why that matters."""
    why = check.rule.why
    return Text(f"{en} {why.en}", f"{zh}{why.zh}")


def worded(finding: Finding, **values: Text) -> Finding:
    """Fills placeholders of the title, and of the message, whose values are sentences in two languages."""

    def filled(text: Text) -> Text:
        en = fill(text.en, {name: value.en for name, value in values.items()})
        return Text(en, fill(text.zh, {name: value.zh for name, value in values.items()}))

    return finding.with_(title=filled(finding.title), message=filled(finding.message))


def shown(value: Value) -> str:
    """A value as it may stand in a sentence."""
    if value.value is None:
        return "null"
    if isinstance(value.value, bool):
        return "true" if value.value else "false"
    if isinstance(value.value, str):
        return repr(visible(value.value, 40))
    return visible(str(value.plain()), 60)


def edit(value: Value, new: Any) -> Edit:
    """The change of one setting; one that is not in the file is added."""
    old = value.plain() if value.given else None
    return Edit(value.location.source, value.key, old, new)


def change(plan: Plan, value: Value, new: Any, *, safe: bool = False, summary: Optional[Text] = None) -> Fix:
    """Sets one setting, and what must follow it. `safe` only when no result can become worse by it."""
    return changes(plan, ((value, new),), safe=safe, summary=summary)


def changes(
    plan: Plan, pairs: Iterable[tuple[Value, Any]], *, safe: bool = False, summary: Optional[Text] = None
) -> Fix:
    edits = tuple(edit(value, new) for value, new in followed(plan, pairs))
    if summary is None:
        listed = ", ".join(f"{item.key}: {_yaml(item.new)}" for item in edits)
        summary = Text(f"Set {listed}", f"改为 {listed}")
    return Fix(summary, edits=edits, applicability="safe" if safe else "unsafe", verify=verify(plan))


def remove(plan: Plan, value: Value, summary: Optional[Text] = None, *, safe: bool = True) -> Fix:
    """Takes a setting out of the file: its `new` is None."""
    summary = summary or Text(f"Remove {value.key}", f"删除 {value.key}")
    removed = Edit(value.location.source, value.key, value.plain(), None)
    return Fix(summary, edits=(removed,), applicability="safe" if safe else "unsafe", verify=verify(plan))


def rename(plan: Plan, value: Value, new_name: str, *, safe: bool = False) -> Fix:
    """Renames a key: takes the old one out and puts its value under the new one (`doctor.plan.edit` keeps the line)."""
    summary = Text(f"Rename {value.name} to {new_name}", f"把 {value.name} 改名为 {new_name}")
    section = value.key[: len(value.key) - len(value.name)]
    source, plain = value.location.source, value.plain()
    edits = (Edit(source, value.key, plain, None), Edit(source, section + new_name, None, plain))
    return Fix(summary, edits=edits, applicability="safe" if safe else "unsafe", verify=verify(plan))


def advice(plan: Plan, en: str, zh: str) -> Fix:
    """What only a person can do."""
    return Fix(Text(en, zh), applicability="manual", verify=verify(plan))


def verify(plan: Plan) -> str:
    path = str(plan.document.path)
    quoted = path if path.isascii() and " " not in path else f"'{path}'"
    tail = f" --devices {plan.devices}" if plan.devices is not None else ""
    return f"doctor check {quoted}{tail}"


def _yaml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return number_text(value) if isinstance(value, float) else "null" if value is None else str(value)


def divisors(number: int) -> list[int]:
    """All divisors of a number up to ten million, ascending; of larger ones only those up to 4,096."""
    if number < 1:
        return []
    limit = math.isqrt(number) if number <= 10_000_000 else 4096
    low = [item for item in range(1, min(limit, math.isqrt(number)) + 1) if number % item == 0]
    high = [number // item for item in reversed(low) if item * item != number]
    return low + (high if number <= 10_000_000 else [])


def closest(options: Iterable[int], wanted: int, count: int) -> list[int]:
    """The legal values nearest to the one that was wanted, the nearest first: the first fix is the one that is applied."""
    return sorted(set(options), key=lambda item: (abs(item - wanted), item))[:count]


def near(options: Iterable[int], wanted: int, count: int = 4) -> list[int]:
    """The same in ascending order, to be listed."""
    return sorted(closest(options, wanted, count))


def listed(options: Iterable[Any]) -> str:
    return ", ".join(str(item) for item in options)


def multiples(step: int, wanted: int) -> list[int]:
    """The multiples of `step` around a value."""
    low = max(wanted // step, 1) * step
    return [low, low + step] if low != wanted else [low]


def same_file(plan: Plan, path: str) -> Path:
    """A path of the config, relative ones from the folder of the file."""
    place = Path(path)
    return place if place.is_absolute() else plan.document.path.parent / place
