"""Settings that take one of a few words (data: rules/tables/config-choices), and texts that are regular expressions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Optional

from doctor.check import check
from doctor.checks.config.judge import MINDFORMERS, applies, because, change, seen, shown
from doctor.finding import Finding, Severity, Text
from doctor.plan.names import nearest, read_table
from doctor.plan.plan import Dialect, Plan
from doctor.plan.value import Value
from doctor.rule import Rule

#: a longer text is no pattern that a person wrote, and need not be compiled
_LONGEST = 2000


@check(
    Rule(
        id="CFG-KEY-023",
        name="value-not-among-choices",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key}: there is no {value}", "{key}：没有 {value} 这个取值"),
        why=Text("The code knows these words only and stops at another.", "代码只认这几个取值，其他取值会报错退出。"),
        fix=Text("Use one of them.", "使用其中之一。"),
        references=("rules/tables/config-choices.json: each row names the code that reads the setting",),
    )
)
@applies(MINDFORMERS)
def not_among_choices(plan: Plan) -> Iterator[Finding]:
    program = "graph" if plan.dialect.graph else "pynative"
    for row in read_table("config-choices")["rows"]:
        if program not in row["programs"].split():
            continue
        words = tuple(row["words"].split())
        for value in (value for key in row["keys"].split() for value in _at(plan.root, key)):
            if not value.given or not value.words or value.words in words:
                continue
            # `Flase` and quoted booleans have their own rule
            truth = words == ("True", "False") and value.words.lower() in {"true", "false"}
            if truth or _read_later(plan, value):
                continue
            yield _no_choice(plan, value, words, refused=row["kind"] == "refused", code=row["code"])


def _at(root: Value, path: str) -> Iterator[Value]:
    """The settings under a key path; `name[]` stands for each item of a list."""
    outer, _, inner = path.partition("[].")
    here = root.get(*outer.split("."))
    if not inner:
        yield here
        return
    for item in here.sequence:
        yield item.get(*inner.split("."))


def _no_choice(plan: Plan, value: Value, words: tuple[str, ...], *, refused: bool, code: str) -> Finding:
    listed = ", ".join(words)
    hint = next((word for word in words if word.lower() == value.words.lower()), None)
    hint = hint or nearest(value.words, words, 0.5)
    truth = {"True": True, "False": False}
    why = because(not_among_choices, f"It takes {listed}.", f"可取 {listed}。")
    if not refused:
        why = Text(
            f"It takes {listed}. Nobody compares the word with these: another one changes what is meant without an error.",
            f"可取 {listed}。没有代码核对该取值：写成其他词不会报错，但含义已变。",
        )
    return not_among_choices.finding(
        why,
        evidence=seen(plan, value, expected=hint or listed),
        fixes=(change(plan, value, truth.get(hint, hint)),) if hint else None,
        severity=None if refused else Severity.WARNING,
        key=value.key,
        value=shown(value),
        code=code,
    )


def _read_later(plan: Plan, value: Value) -> bool:
    """Whether the run passes the setting over: a pipeline's words in training, an evaluation that is off."""
    section = value.key.partition(".")[0]
    if section == "eval_dataset":
        return plan.trains and not plan.root.get("do_eval").on
    if section == "processor":
        return plan.trains
    # A research folder's optimizer or data set has words of its own.
    return section in {"optimizer", "train_dataset"} and (not plan.trains or _foreign(plan, section))


def _foreign(plan: Plan, section: str) -> bool:
    return plan.root.get(section, "auto_register").given


#: settings whose text is compiled or matched as a regular expression (freeze_include and freeze_exclude are not:
#: mindpet compares them with fnmatch, where `*wte*` is right)
_PATTERNS = ("target_modules", "exclude_layers", "cell_skip")


@check(
    Rule(
        id="CFG-KEY-024",
        name="pattern-invalid",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} is no regular expression", "{key} 不是合法的正则表达式"),
        why=Text(
            "The names of layers are matched with it: `re.error` when the network is built.",
            "该值用于匹配网络层名称，构建网络时会报 `re.error`。",
        ),
        fix=Text("Correct it: `.*` stands for any text, `|` for or.", "请改正：`.*` 表示任意文本，`|` 表示或。"),
        references=("mindformers/pet/tuners/lora_adapter.py", "mindformers/pynative/config/config.py LoraConfig"),
    )
)
@applies(MINDFORMERS)
def bad_pattern(plan: Plan) -> Iterator[Finding]:
    for value in _patterns(plan):
        fault = _fault(value.words)
        if fault is None:
            continue
        hint = _as_pattern(value.words)
        yield bad_pattern.finding(
            because(bad_pattern, f"{shown(value)}: {fault}.", f"{shown(value)}：{fault}。"),
            evidence=seen(plan, value, expected=hint or "a regular expression"),
            fixes=(change(plan, value, hint),) if hint else None,
            key=value.key,
        )


def _patterns(plan: Plan) -> Iterator[Value]:
    """Texts that are matched against names of layers or parameters."""
    adapter = plan.model.adapter
    for name in _PATTERNS:
        value = adapter.get(name)
        yield from (item for item in value.sequence or (value,) if item.words)
    if plan.dialect is Dialect.PYNATIVE:
        return
    section = plan.recompute.section
    for name in (
        "select_recompute",
        "select_comm_recompute",
        "select_recompute_exclude",
        "select_comm_recompute_exclude",
    ):
        value = section.get(name)
        yield from (item for item in value.sequence if item.words)
        for key, item in value.mapping.items():
            spot = item.named or item.location
            yield Value(key, spot, raw=key, named=item.named)


def _fault(text: str) -> Optional[str]:
    """What keeps a text from being a pattern; None when it is one."""
    if len(text) > _LONGEST:
        return None
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        return str(error)
    return None


def _as_pattern(text: str) -> Optional[str]:
    """The pattern that a shell's wildcards, or a bracket too few, most likely meant."""
    dotted = re.sub(r"(?<![.\])\w])\*", ".*", text)
    for tried in (dotted, f"{text})", f"{text}]", text.rstrip("([\\")):
        if tried != text and tried and _fault(tried) is None:
            return tried
    return None
