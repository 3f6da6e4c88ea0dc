"""Values of the wrong kind: text that looks like a number, quoted booleans, numbers for words."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from doctor.check import check
from doctor.checks.config.judge import MODELS, applies, change, seen, shown
from doctor.finding import Finding, Severity, Text
from doctor.plan.fields import CANONICAL
from doctor.plan.plan import Dialect, Plan
from doctor.plan.schema import FALSE_WORDS, Spec, as_number, fault_of, known_values
from doctor.plan.value import Value
from doctor.rule import Rule

#: settings whose text MindFormers turns into a number itself, or never reads in arithmetic
_HARMLESS_TEXT = frozenset(("layernorm_epsilon",))


def faults(plan: Plan, *kinds: str) -> Iterator[tuple[Value, Spec, str]]:
    """The settings that break their spec in one of these ways."""
    for value, spec, fault in _all_faults(plan):
        if fault in kinds:
            yield value, spec, fault


@lru_cache(maxsize=2)
def _all_faults(plan: Plan) -> tuple[tuple[Value, Spec, str], ...]:
    """Every fault of kind in the file, found once a plan."""
    found = []
    for value, spec in known_values(plan.root, plan.dialect):
        fault = fault_of(value, spec)
        if plan.dialect is Dialect.HUGGINGFACE and (
            fault in _HUGGINGFACE_HABITS or (value.name not in CANONICAL and fault not in _ALWAYS_WRONG)
        ):
            continue
        if fault is not None:
            found.append((value, spec, fault))
    return tuple(found)


#: null is how config.json says "not set", and models of other kinds hold lists where decoders hold one number
_ALWAYS_WRONG = frozenset(("flag-text", "text-for-flag", "number-text"))
_HUGGINGFACE_HABITS = frozenset(("null", "list", "mapping", "not-list", "not-mapping"))


def _yaml_number(value: Value, spec: Spec) -> Any:
    number = as_number(value.value)
    if number is not None and "num" not in spec.kinds and number.is_integer():
        return int(number)
    return number


@check(
    Rule(
        id="CFG-TYP-001",
        name="number-is-text",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key}: {text} is text, not a number", "{key}：{text} 是字符串，不是数字"),
        why=Text(
            "YAML 1.1 reads a number in exponent form only with a dot and a sign: 1e-5 is text, 1.0e-5 a number; quotes make text of any number.",
            "YAML 1.1 中指数写法必须带小数点：1e-5 是字符串，1.0e-5 才是数字；加引号的数字也是字符串。",
        ),
        fix=Text("Write it as a number.", "写成数字。"),
        references=("YAML 1.1 float: https://yaml.org/type/float.html",),
        false_positives=Text(
            "layernorm_epsilon of ChatGLM2 is converted by the model.",
            "ChatGLM2 的 layernorm_epsilon 会由模型自行转换。",
        ),
    )
)
@applies(MODELS)
def number_is_text(plan: Plan) -> Iterator[Finding]:
    for value, spec, _ in faults(plan, "number-text"):
        number = _yaml_number(value, spec)
        yield number_is_text.finding(
            evidence=seen(plan, value, expected=number),
            fixes=(change(plan, value, number, safe=True),),
            severity=Severity.INFO if value.name in _HARMLESS_TEXT else None,
            key=value.key,
            text=shown(value),
        )
    for value in _betas(plan):
        yield number_is_text.finding(
            evidence=seen(plan, value, expected=as_number(value.words)),
            fixes=(change(plan, value, as_number(value.words), safe=True),),
            key=value.key,
            text=shown(value),
        )


def _betas(plan: Plan) -> Iterator[Value]:
    for value in plan.optimizer.betas.sequence:
        if value.text is not None and as_number(value.text) is not None:
            yield value


@check(
    Rule(
        id="CFG-TYP-002",
        name="text-where-number-belongs",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key}: {text} is no number", "{key}：{text} 不是数字"),
        why=Text(
            "The program computes with this setting and fails, late, on a text.",
            "程序要用该值计算，遇到字符串会在后面才报错。",
        ),
        fix=Text("Write a number.", "写成数字。"),
    )
)
@applies(MODELS)
def text_for_number(plan: Plan) -> Iterator[Finding]:
    for value, spec, _ in faults(plan, "text-for-number"):
        yield text_for_number.finding(evidence=seen(plan, value, expected=spec.words), key=value.key, text=shown(value))


@check(
    Rule(
        id="CFG-TYP-003",
        name="fraction-where-whole-number-belongs",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key}: {text} is not a whole number", "{key}：{text} 不是整数"),
        why=Text("The setting counts something.", "该设置表示数量。"),
        fix=Text("Write a whole number.", "写成整数。"),
        false_positives=Text("8.0 counts as 8.", "8.0 视为 8。"),
    )
)
@applies(MODELS)
def fraction(plan: Plan) -> Iterator[Finding]:
    for value, _spec, _ in faults(plan, "fraction"):
        number = round(value.number or 0)
        if value.key == plan.parallel.micro_batches.key:
            number = max(number, plan.parallel.stages)
        yield fraction.finding(
            evidence=seen(plan, value, expected="a whole number"),
            fixes=(change(plan, value, number),),
            key=value.key,
            text=shown(value),
        )


@check(
    Rule(
        id="CFG-TYP-004",
        name="boolean-is-text",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key}: {text} is text, not true or false", "{key}：{text} 是字符串，不是布尔值"),
        why=Text(
            "Any text that is not empty counts as true: a quoted False switches the setting on.",
            "任何非空字符串都当作真：带引号的 False 反而会打开该开关。",
        ),
        fix=Text("Write True or False without quotes.", "写成不带引号的 True 或 False。"),
    )
)
@applies(MODELS)
def boolean_text(plan: Plan) -> Iterator[Finding]:
    from doctor.plan.names import nearest

    for value, spec, fault in faults(plan, "flag-text", "text-for-flag"):
        word = value.words.lower()
        meant = nearest(word, ("true", "false"), 0.6) if fault == "text-for-flag" else None
        off = word in FALSE_WORDS or meant == "false"
        fixes = (change(plan, value, not off),) if fault == "flag-text" or meant else None
        yield boolean_text.finding(
            evidence=seen(plan, value, expected="True or False"),
            fixes=fixes,
            severity=None
            if (fault == "flag-text" and off) or spec.numeric or _typed(plan, value)
            else Severity.WARNING,
            key=value.key,
            text=shown(value),
        )
    judged = {value.key for value, _, _ in _all_faults(plan)}
    switches = {value.key for value, spec in known_values(plan.root, plan.dialect) if "bool" in spec.kinds}
    for value in plan.root.walk():
        word = value.words.lower()
        # The word alone tells where the table knows no kind or takes any text; a correct word may be wanted as text.
        if not 3 <= len(word) <= 6 or value.key in judged:
            continue
        meant = nearest(word, ("true", "false"), 0.74)
        if meant is not None and (word == meant or sorted(word) == sorted(meant) or abs(len(word) - len(meant)) == 1):
            yield boolean_text.finding(
                evidence=seen(plan, value, expected="True or False"),
                fixes=(change(plan, value, meant == "true"),),
                severity=Severity.INFO if word == meant and value.key not in switches else Severity.WARNING,
                key=value.key,
                text=shown(value),
            )


def _typed(plan: Plan, value: Value) -> bool:
    """Whether a data class checks the type of the setting: PyNative's sections but those of model and data do."""
    return plan.dialect is Dialect.PYNATIVE and value.key.partition(".")[0] not in {"model", "train_dataset"}


@check(
    Rule(
        id="CFG-TYP-005",
        name="number-where-boolean-belongs",
        severity=Severity.WARNING,
        category="config",
        title=Text("{key}: {text} stands for a boolean", "{key}：用 {text} 表示布尔值"),
        why=Text(
            "Checks that want a bool refuse 0 and 1; other places take 0 as false and the rest as true.",
            "要求 bool 的检查会拒绝 0 和 1；其他地方把 0 当假、其余当真。",
        ),
        fix=Text("Write True or False.", "写成 True 或 False。"),
    )
)
@applies(MODELS)
def number_for_flag(plan: Plan) -> Iterator[Finding]:
    for value, _, _ in faults(plan, "number-for-flag"):
        yield number_for_flag.finding(
            evidence=seen(plan, value, expected="True or False"),
            fixes=(change(plan, value, bool(value.value), safe=value.value in (0, 1)),),
            key=value.key,
            text=shown(value),
        )


@check(
    Rule(
        id="CFG-TYP-006",
        name="boolean-where-number-belongs",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key}: {text} stands where a number belongs", "{key}：应为数字，却写了 {text}"),
        why=Text(
            "A boolean counts as 0 or 1; the words yes, no, on, off are booleans too.",
            "布尔值会被当作 0 或 1；yes、no、on、off 也是布尔值。",
        ),
        fix=Text("Write the number.", "写成数字。"),
    )
)
@applies(MODELS)
def flag_for_number(plan: Plan) -> Iterator[Finding]:
    for value, spec, _ in faults(plan, "flag-for-number"):
        yield flag_for_number.finding(
            evidence=seen(plan, value, expected=spec.words), key=value.key, text=value.raw or shown(value)
        )


@check(
    Rule(
        id="CFG-TYP-007",
        name="boolean-where-text-belongs",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key}: {text} became a boolean", "{key}：{text} 被解析成布尔值"),
        why=Text(
            "YAML 1.1 reads on, off, yes and no as booleans; the program wants the word.",
            "YAML 1.1 会把 on、off、yes、no 解析成布尔值，而程序需要的是字符串。",
        ),
        fix=Text("Put it in quotes.", "加上引号。"),
    )
)
@applies(MODELS)
def flag_for_text(plan: Plan) -> Iterator[Finding]:
    for value, _, _ in faults(plan, "flag-for-text"):
        word = value.raw or ""
        fixes = (change(plan, value, word, safe=True),) if word.lower() in {"on", "off", "yes", "no"} else None
        yield flag_for_text.finding(
            evidence=seen(plan, value, expected="a text"), fixes=fixes, key=value.key, text=word
        )


@check(
    Rule(
        id="CFG-TYP-008",
        name="number-where-text-belongs",
        severity=Severity.WARNING,
        category="config",
        title=Text("{key}: {text} is a number where a text belongs", "{key}：应为字符串，却是数字 {text}"),
        why=Text(
            "Paths, names and types are texts; a bare number is no text.", "路径、名称、类型都是字符串，裸数字不是。"
        ),
        fix=Text("Put it in quotes if the number is meant.", "如确为该数字，请加引号。"),
    )
)
@applies(MODELS)
def number_for_text(plan: Plan) -> Iterator[Finding]:
    for value, _, _ in faults(plan, "number-for-text"):
        yield number_for_text.finding(
            evidence=seen(plan, value, expected="a text"),
            fixes=(change(plan, value, _as_word(value)),),
            key=value.key,
            text=shown(value),
        )


def _as_word(value: Value) -> str:
    """The number as a text; of a number type its name, by the bits that were written."""
    if value.name.endswith(("_dtype", "_type")) and value.value in (16, 32):
        return f"float{value.value}"
    return str(value.raw if value.raw is not None else value.value)


@check(
    Rule(
        id="CFG-TYP-015",
        name="pasted-python",
        severity=Severity.WARNING,
        category="config",
        title=Text("{key} holds Python code as text", "{key} 中是粘贴的 Python 代码"),
        why=Text(
            "YAML has no annotations and joins no strings: the value is the literal text, quotes and backslash included.",
            "YAML 不支持类型标注和字符串拼接：该值就是字面文本，包含引号和反斜杠。",
        ),
        fix=Text("Write the value alone, in one pair of quotes.", "只保留取值，用一对引号。"),
    )
)
@applies(MODELS)
def pasted_python(plan: Plan) -> Iterator[Finding]:
    section = plan.context.section
    for value in section.mapping.values():
        text = value.words
        if text.startswith("str =") or (text.endswith(("\\", '"')) and ' "--' in text):
            yield pasted_python.finding(evidence=seen(plan, value), key=value.key)
