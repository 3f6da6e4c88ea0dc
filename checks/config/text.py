"""The text itself: conflict markers, tabs, duplicate keys, anchors, tags, encoding, depth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Union

from doctor.check import check
from doctor.checks.config.expectations import both
from doctor.checks.config.judge import GRAPH, MINDFORMERS, advice, applies, because, quote, remove
from doctor.finding import Evidence, Finding, Severity, Text
from doctor.plan.plan import Dialect, Plan
from doctor.plan.reader import Problem
from doctor.plan.value import Value
from doctor.rule import Rule

#: MindFormers' limit (tools/check_rules.py YAML_MAX_NESTING_DEPTH)
MAX_MAPPINGS = 10


def _problems(plan: Plan, kind: str) -> list[Problem]:
    return [problem for problem in plan.document.problems if problem.kind == kind]


def _where(plan: Plan, problem: Problem, expected: Union[str, Text]) -> tuple[Evidence, ...]:
    first = Evidence.at(
        problem.location,
        "value",
        text=quote(plan, problem.location),
        observed=problem.text or None,
        expected=both(expected) if isinstance(expected, str) else expected,
    )
    if problem.first is None:
        return (first,)
    return (first, Evidence.at(problem.first, "value", text=quote(plan, problem.first)))


@check(
    Rule(
        id="CFG-YML-001",
        name="merge-conflict-markers",
        severity=Severity.ERROR,
        category="config",
        title=Text("The file holds a merge conflict", "文件中有未解决的合并冲突"),
        why=Text(
            "Lines of <<<<<<<, ======= and >>>>>>> are left from a merge: the file is no YAML until one side is chosen.",
            "文件里残留 <<<<<<<、=======、>>>>>>> 标记：选定一方之前不是合法 YAML。",
        ),
        fix=Text("Keep one side and delete the marker lines.", "保留其中一方并删除标记行。"),
    )
)
@applies(readable=False)
def merge_conflict(plan: Plan) -> Iterator[Finding]:
    found = _problems(plan, "conflict")
    if found:
        lines = ", ".join(str(problem.location.line) for problem in found)
        yield merge_conflict.finding(
            because(merge_conflict, f"Markers on lines {lines}.", f"标记位于第 {lines} 行。"),
            evidence=tuple(item for problem in found for item in _where(plan, problem, "no marker")),
            fixes=(advice(plan, "Keep one side and delete the marker lines.", "保留其中一方并删除标记行。"),),
        )


@check(
    Rule(
        id="CFG-YML-002",
        name="tab-indentation",
        severity=Severity.ERROR,
        category="config",
        title=Text("The file is indented with a tab", "文件使用了制表符缩进"),
        why=Text("YAML forbids tabs in indentation; the parser stops.", "YAML 禁止用制表符缩进，解析会失败。"),
        fix=Text("Replace tabs by blanks.", "把制表符替换为空格。"),
    )
)
@applies(readable=False)
def tab_indentation(plan: Plan) -> Iterator[Finding]:
    for problem in _problems(plan, "tab"):
        path = plan.document.path
        yield tab_indentation.finding(
            evidence=_where(plan, problem, "blanks"),
            fixes=(
                advice(
                    plan,
                    f"Replace tabs by blanks: expand -t 2 {path} > fixed.yaml",
                    f"把制表符替换为空格：expand -t 2 {path} > fixed.yaml",
                ),
            ),
        )


@check(
    Rule(
        id="CFG-YML-003",
        name="duplicate-key",
        severity=Severity.WARNING,
        category="config",
        title=Text("{key} is given twice", "{key} 重复出现"),
        why=Text(
            "The parser keeps the last one without a word; the first has no effect.",
            "解析器默默保留最后一个，前面的不起作用。",
        ),
        fix=Text("Delete one of the two.", "删除其中一个。"),
    )
)
@applies(readable=False)
def duplicate_key(plan: Plan) -> Iterator[Finding]:
    for problem in _problems(plan, "duplicate"):
        yield duplicate_key.finding(evidence=_where(plan, problem, "one"), key=problem.location.key or problem.text)


@check(
    Rule(
        id="CFG-YML-004",
        name="anchor-contains-itself",
        severity=Severity.ERROR,
        category="config",
        title=Text("An anchor contains itself", "锚点引用了自身"),
        why=Text("The value would be endless; nothing can read it.", "该值会无限嵌套，无法读取。"),
        fix=Text("Remove the alias from below its own anchor.", "从锚点内部删除对它自身的别名。"),
    )
)
@applies(readable=False)
def recursive_anchor(plan: Plan) -> Iterator[Finding]:
    for problem in _problems(plan, "recursion"):
        yield recursive_anchor.finding(evidence=_where(plan, problem, "no alias of an enclosing anchor"))


@check(
    Rule(
        id="CFG-YML-005",
        name="tag-not-understood",
        severity=Severity.ERROR,
        category="config",
        title=Text("The tag {tag} is refused", "标签 {tag} 会被拒绝"),
        why=Text(
            "MindFormers loads YAML safely: tags that build Python objects stop the loader.",
            "MindFormers 使用安全加载：构造 Python 对象的标签会导致加载失败。",
        ),
        fix=Text("Write the plain value.", "写成普通值。"),
    )
)
@applies()
def unknown_tag(plan: Plan) -> Iterator[Finding]:
    for problem in _problems(plan, "tag"):
        yield unknown_tag.finding(evidence=_where(plan, problem, "no tag"), tag=problem.text)


@check(
    Rule(
        id="CFG-YML-006",
        name="key-not-a-word",
        severity=Severity.ERROR,
        category="config",
        title=Text("A key or merge is no plain word", "键或合并项不是普通单词"),
        why=Text(
            "Settings have names; a list or mapping as a key (often a brace too many) is refused.",
            "设置项都有名称；以列表或映射为键（常因多写花括号）会被拒绝。",
        ),
        fix=Text(
            "Write `name: value`; put templates such as {{path}} in quotes.",
            "写成“名称: 值”；{{path}} 之类的模板请加引号。",
        ),
    )
)
@applies()
def odd_key(plan: Plan) -> Iterator[Finding]:
    for problem in _problems(plan, "key"):
        yield odd_key.finding(evidence=_where(plan, problem, "a name"))


@check(
    Rule(
        id="CFG-YML-007",
        name="file-not-utf8",
        severity=Severity.ERROR,
        category="config",
        title=Text("The file is {encoding}, not UTF-8", "文件编码是 {encoding}，不是 UTF-8"),
        why=Text(
            "MindFormers opens configs as UTF-8 and stops at the first Chinese character of another encoding.",
            "MindFormers 以 UTF-8 打开配置，遇到其他编码的中文字符会报错。",
        ),
        fix=Text("Save it as UTF-8.", "另存为 UTF-8。"),
        references=("mindformers/tools/register/config.py _file2dict",),
    )
)
@applies()
def not_utf8(plan: Plan) -> Iterator[Finding]:
    for problem in _problems(plan, "encoding"):
        path = plan.document.path
        yield not_utf8.finding(
            evidence=_where(plan, problem, "UTF-8"),
            fixes=(
                advice(
                    plan,
                    f"iconv -f GB18030 -t UTF-8 {path} > fixed.yaml",
                    f"iconv -f GB18030 -t UTF-8 {path} > fixed.yaml",
                ),
            ),
            encoding="GBK",
        )


@check(
    Rule(
        id="CFG-YML-008",
        name="nested-too-deep",
        severity=Severity.ERROR,
        category="config",
        title=Text("Sections nest {depth} deep", "配置嵌套达 {depth} 层"),
        why=Text(
            "MindFormers 1.5 and later refuse more than 10 mappings inside each other.",
            "MindFormers 1.5 起不允许映射嵌套超过 10 层。",
        ),
        fix=Text("Flatten the section.", "减少嵌套层数。"),
        references=("mindformers/tools/check_rules.py check_yaml_depth_before_loading",),
    )
)
@applies(MINDFORMERS)
def too_deep(plan: Plan) -> Iterator[Finding]:
    depth = plan.document.depth
    if depth > MAX_MAPPINGS and not plan.release.before("1.5.0"):
        deepest = _deepest(plan.root)
        yield too_deep.finding(
            evidence=(
                Evidence.at(
                    deepest.location,
                    "value",
                    text=quote(plan, deepest.location),
                    observed=depth,
                    expected=both(f"at most {MAX_MAPPINGS}"),
                ),
            ),
            depth=depth,
        )


def _deepest(root: Value) -> Value:
    best, best_depth = root, 0
    stack = [(root, 0)]
    seen: set[int] = set()
    while stack:
        value, depth = stack.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if depth > best_depth:
            best, best_depth = value, depth
        stack.extend((item, depth + 1) for item in value.mapping.values())
    return best


@check(
    Rule(
        id="CFG-YML-009",
        name="empty-section",
        severity=Severity.WARNING,
        category="config",
        title=Text("{key} is an empty section", "{key} 是空配置段"),
        why=Text(
            "MindFormers takes its defaults (and warns from 1.6); often the indentation of the lines below was lost.",
            "MindFormers 会使用默认值（1.6 起打 warning）；常见原因是下方各行的缩进丢失。",
        ),
        fix=Text("Indent its settings, or remove the line.", "给其设置项加缩进，或删除该行。"),
    )
)
@applies((*GRAPH, Dialect.PYNATIVE))
def empty_section(plan: Plan) -> Iterator[Finding]:
    for name in _SECTIONS:
        value = plan.root.get(*name.split("."))
        if value.given and (value.value is None or value.value == {}) and name not in _OFTEN_EMPTY:
            yield empty_section.finding(
                evidence=(
                    Evidence.at(value.location, "value", text=quote(plan, value.location), expected=both("settings")),
                ),
                fixes=(remove(plan, value),) if name not in _NEEDED else None,
                severity=Severity.ERROR if name in _NEEDED and plan.complete else None,
                key=name,
            )


_SECTIONS = (
    "runner_config",
    "optimizer",
    "lr_schedule",
    "lr_scheduler",
    "runner_wrapper",
    "parallel",
    "parallel_config",
    "parallelism",
    "recompute_config",
    "context",
    "model",
    "model.model_config",
    "trainer",
    "training",
    "train_dataset",
    "train_dataset_task",
    "callbacks",
    "moe_config",
    "processor",
)
_NEEDED = frozenset(("model", "trainer"))
#: official files of tasks without text data leave these empty
_OFTEN_EMPTY = frozenset(("train_dataset", "train_dataset_task"))


@check(
    Rule(
        id="CFG-YML-010",
        name="not-yaml",
        severity=Severity.ERROR,
        category="config",
        title=Text("Line {line} is no YAML", "第 {line} 行不是合法的 YAML"),
        why=Text("No program can read the file before this is corrected.", "改正之前任何程序都无法读取该文件。"),
        fix=Text("Correct the line.", "改正该行。"),
        references=("https://yaml.org/spec/1.1/",),
    )
)
@applies(readable=False)
def not_yaml(plan: Plan) -> Iterator[Finding]:
    for problem in _problems(plan, "syntax"):
        what, todo = _SLIPS.get(problem.text, _SLIPS["other"])
        expected = Text(todo.en.rstrip("."), todo.zh.rstrip("。"))
        yield not_yaml.finding(
            because(not_yaml, what.en, what.zh),
            evidence=_where(plan, replace(problem, text=""), expected),
            fixes=(advice(plan, todo.en, todo.zh),),
            line=problem.location.line,
        )


_SLIPS = {
    "missing-blank": (
        Text("A blank is missing after the colon.", "冒号后缺少空格。"),
        Text("Write `name: value`, with a blank after the colon.", "写成“name: value”，冒号后加空格。"),
    ),
    "missing-colon": (
        Text("The line has a name and a value but no colon between them.", "该行有名称和值，但中间没有冒号。"),
        Text("Write `name: value`.", "写成“name: value”。"),
    ),
    "full-width": (
        Text(
            "A full-width colon, comma or quote stands where YAML wants the ASCII one.",
            "使用了全角的冒号、逗号或引号，YAML 只认半角。",
        ),
        Text("Type the ASCII character, and a blank after the colon.", "改为半角符号，冒号后加空格。"),
    ),
    "open-quote": (
        Text("A quote opens here and does not close.", "此处的引号没有闭合。"),
        Text("Close the quote on its line.", "在同一行闭合引号。"),
    ),
    "open-bracket": (
        Text("A bracket or brace opens here and does not close.", "此处的括号没有闭合。"),
        Text("Close the bracket.", "补上右括号。"),
    ),
    "indentation": (
        Text(
            "The line is indented unlike its neighbours: it belongs to no section.",
            "该行缩进与上下行不一致，不属于任何配置段。",
        ),
        Text("Indent it as the other settings of its section.", "与同段其他设置项的缩进对齐。"),
    ),
    "unknown-alias": (
        Text(
            "The alias has no anchor: `*name` needs an `&name` above it.",
            "别名没有对应的锚点：“*name”之前须有“&name”。",
        ),
        Text("Correct the name of the alias, or define the anchor above.", "改正别名，或在前面定义该锚点。"),
    ),
    "conflict": (
        Text("A marker of a merge conflict was left in the file.", "文件中残留了合并冲突标记。"),
        Text("Delete the marker line and keep one side.", "删除标记行，只保留一方。"),
    ),
    "json-comma": (
        Text("JSON takes no comma before a closing bracket.", "JSON 的右括号前不能有逗号。"),
        Text("Delete the comma.", "删除该逗号。"),
    ),
    "json-no-comma": (
        Text("A comma is missing after this line.", "该行末尾缺少逗号。"),
        Text("Add the comma.", "补上逗号。"),
    ),
    "json": (
        Text("The file is no JSON from here on.", "从此处起不是合法的 JSON。"),
        Text(
            "Correct it; python -m json.tool FILE shows the place too.", "请改正；python -m json.tool 文件 也可定位。"
        ),
    ),
    "other": (
        Text("The line cannot be read as YAML.", "该行无法按 YAML 解析。"),
        Text(
            "Look at the line and the one above it: indentation, a colon, an open quote or bracket.",
            "请检查该行及其上一行：缩进、冒号、未闭合的引号或括号。",
        ),
    ),
}
