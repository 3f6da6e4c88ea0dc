"""A comparison for people: two columns within 80, the likeliest cause first, the verdict last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from doctor.compare.order import CAUSES, Comparison
from doctor.compare.parting import Parting
from doctor.compare.row import LOSS, Row, shown
from doctor.compare.subject import CONFIG, HOST, RUN, Subject
from doctor.escape import visible
from doctor.finding import Text
from doctor.plan.arithmetic import global_batch
from doctor.report.text import paint, word
from doctor.report.width import cell_width, wrap
from doctor.session.recorded import Ending

#: rows of one section before the rest is only counted
SHOWN = 8
_GAP = 2
_KINDS = {
    "loss": Text("loss", "损失"),
    "speed": Text("speed", "速度"),
    "memory": Text("memory", "显存"),
    "failure": Text("failure", "失败"),
}


def lines(comparison: Comparison, lang: str, *, width: int, colour: bool, verbose: bool, quiet: bool) -> Iterator[str]:
    """The text form; the last line is not in it (see `verdict`)."""
    if not quiet:
        for letter, subject in (("A", comparison.a), ("B", comparison.b)):
            yield from wrap(visible(_told(subject).pick(lang)), width, f"{letter}  ", "   ")
        for text in comparison.missing:
            yield from wrap(visible(text.pick(lang)), width, Text("not compared: ", "未比较：").pick(lang), "    ")
        yield ""
    causes = [row for row in comparison.rows if row.part in CAUSES and row.explains]
    came = [row for row in comparison.rows if row.part not in CAUSES]
    others = [row for row in comparison.rows if row.part in CAUSES and not row.explains]
    sections = (
        (Text("May explain it, the likeliest first", "可能的原因（最可能的在前）"), causes),
        (Text("What came of it", "结果差异") if comparison.kind == RUN else Text("Findings", "诊断差异"), came),
        (Text("Differs too", "其他差异") if causes or came else Text("Differs", "差异"), others),
    )
    for title, rows in sections:
        if rows:
            yield from _table(title.pick(lang), rows, lang, width, colour, verbose)
            yield ""


def _told(subject: Subject) -> Text:
    """What the subject is, in one line."""
    if subject.kind == RUN and subject.run is not None:
        run = subject.run
        parts, said = [], []
        if run.ending.step is not None:
            of = f" of {run.ending.of}" if run.ending.of else ""
            parts.append(f"step {run.ending.step}{of}")
            said.append(f"第 {run.ending.step}{f'/{run.ending.of}' if run.ending.of else ''} 步")
        loss = run.main.last("loss") if run.main is not None else None
        if loss is not None:
            parts.append(f"loss {loss:.4g}")
            said.append(f"损失 {loss:.4g}")
        state = run.ending.said
        return Text(
            f"{subject.name}: {', '.join([*parts, state.en])}", f"{subject.name}：{'，'.join([*said, state.zh])}"
        )
    if subject.kind == CONFIG and subject.plan is not None:
        plan = subject.plan
        batch = global_batch(plan)
        family = f", {plan.model.family}" if plan.model.family else ""
        total = f", global batch {batch.equation}" if batch.total else ""
        zh = f"，全局 batch {batch.equation}" if batch.total else ""
        return Text(
            f"{subject.name}: {plan.dialect.value} config{family}{total}",
            f"{subject.name}：{plan.dialect.value} 配置{family.replace(', ', '，')}{zh}",
        )
    return Text(f"{subject.name}: facts of a machine", f"{subject.name}：机器信息")


def _table(title: str, rows: Sequence[Row], lang: str, width: int, colour: bool, verbose: bool) -> Iterator[str]:
    column = (width - 2 * _GAP - 2) // 4
    first = width - 2 * column - 2 * _GAP
    head = _padded(title, first) if cell_width(title) < first else title + " "
    yield paint(f"{head}{_padded('A', column + _GAP)}B".rstrip(), "dim", colour)
    chosen = rows if verbose else rows[:SHOWN]
    for row in chosen:
        yield from _row(row, lang, first, column, width, verbose)
    if len(rows) > len(chosen):
        count = len(rows) - len(chosen)
        yield Text(f"  … and {count} more: add -v to see all.", f"  ……另有 {count} 条：加 -v 查看全部。").pick(lang)


def _row(row: Row, lang: str, first: int, column: int, width: int, verbose: bool) -> Iterator[str]:
    label = visible(row.label.pick(lang))
    if row.part == "findings":
        yield _finding(row, label, lang, width)
        return
    note = visible(row.note.pick(lang)) if row.note is not None else ""
    if row.a == row.b and note:
        yield f"  {_padded(_cut(label, first - 3), first - 2)}{_cut(note, width - first)}"
    else:
        a, b = (visible(_value(row, value, lang)) for value in (row.a, row.b))
        if verbose and max(cell_width(a), cell_width(b)) > column:
            yield f"  {label}"
            yield f"    A {a}"
            yield f"    B {b}"
        else:
            yield f"  {_padded(_cut(label, first - 3), first - 2)}{_padded(_cut(a, column), column + _GAP)}{_cut(b, column)}".rstrip()
        if verbose and note:
            yield from wrap(note, width, "    ", "    ")
    if verbose:
        for letter, spot in (("A", row.place_a), ("B", row.place_b)):
            if spot is not None:
                yield f"    {letter} {Text('at', '位置').pick(lang)} {visible(spot)}"


def _value(row: Row, value: Any, lang: str) -> str:
    if (row.part, row.key) == ("ending", "state"):
        return Ending(str(value), None, None, None).said.pick(lang)
    return shown(value)


def _finding(row: Row, title: str, lang: str, width: int) -> str:
    """Who has it, how bad it is, which rule and what it says."""
    if row.a is None or row.b is None:
        who = Text("only A", "仅 A") if row.b is None else Text("only B", "仅 B")
        severity = word(str(row.b if row.a is None else row.a), lang)
    else:
        who, severity = Text("both", "两者"), f"{word(str(row.a), lang)} -> {word(str(row.b), lang)}"
    return _cut(f"  {_padded(who.pick(lang), 7)}{severity} {row.key} {title}", width)


def _padded(text: str, cells: int) -> str:
    return text + " " * max(0, cells - cell_width(text))


def _cut(text: str, cells: int) -> str:
    """The text in at most so many cells; what is left out of the middle is dots: paths differ at their ends."""
    if cell_width(text) <= cells:
        return text
    room = max(1, cells - 1)
    head, tail = "", ""
    for char in text:
        if cell_width(head + char) > room - room // 2:
            break
        head += char
    for char in reversed(text):
        if cell_width(char + tail) > room // 2:
            break
        tail = char + tail
    return f"{head}…{tail}"


def verdict(comparison: Comparison) -> Text:
    """One sentence or two: what came out differently, and what explains it or that nothing does."""
    if comparison.kind != RUN:
        return _still(comparison)
    outcome = comparison.outcome
    assert outcome is not None
    said_en, said_zh = [], []
    loss = outcome.loss
    if comparison.regression and loss is not None and loss.apart:
        said_en.append(f"B is worse: loss {loss.b:.4g} against {loss.a:.4g} at equal {loss.unit}")
        said_zh.append(f"B 更差：相同{_unit(loss.unit)}时损失 {loss.b:.4g}，A 为 {loss.a:.4g}")
    elif comparison.regression:
        said_en.append("B is worse: its loss is no longer a number")
        said_zh.append("B 更差：其损失已不是数值")
    elif loss is not None and loss.apart:
        said_en.append(f"B is better: loss {loss.b:.4g} against {loss.a:.4g} at equal {loss.unit}")
        said_zh.append(f"B 更好：相同{_unit(loss.unit)}时损失 {loss.b:.4g}，A 为 {loss.a:.4g}")
    serious = [finding for finding in comparison.new if finding.severity.rank > 0]
    if serious:
        named = ", ".join(finding.rule for finding in serious[:3])
        said_en.append(f"only B has {named}")
        said_zh.append(f"只有 B 出现 {named}")
    if not outcome.kinds:
        return _alike(comparison)
    others = sorted(kind for kind in outcome.kinds if kind != LOSS or not said_en)
    if not said_en:
        said_en.append(f"they differ in {' and '.join(_KINDS[kind].en for kind in others)}")
        said_zh.append(f"两者在{'、'.join(_KINDS[kind].zh for kind in others)}上不同")
    en, zh = f"{_capital('; '.join(said_en))}.", f"{'；'.join(said_zh)}。"
    if comparison.causes:
        first = comparison.causes[0]
        en += f" Likeliest cause: {first.label.en}."
        zh += f"最可能的原因：{first.label.zh}。"
    else:
        en += f" {_unexplained(comparison).en}"
        zh += _unexplained(comparison).zh
    return Text(en, zh)


def _unexplained(comparison: Comparison) -> Text:
    if comparison.missing:
        return Text(
            "What was recorded does not explain it, and not all was (see above).",
            "已有记录不足以解释，且部分信息缺失（见上）。",
        )
    return Text(
        f"Nothing recorded explains it ({comparison.compared} settings are equal): look at data, code and hardware.",
        f"记录中没有可解释的差异（{comparison.compared} 项配置相同）：请检查数据、代码与硬件。",
    )


def _alike(comparison: Comparison) -> Text:
    loss = comparison.outcome.loss if comparison.outcome is not None else None
    if loss is not None and loss.identical:
        return Text(
            f"They came out alike: the losses are equal up to {_point(loss).en}.",
            f"结果一致：截至{_point(loss).zh}，损失完全相同。",
        )
    if loss is not None:
        return Text(
            f"They came out alike: the losses differ by no more than noise up to {_point(loss).en}.",
            f"结果一致：截至{_point(loss).zh}，损失之差不超过噪声。",
        )
    return Text("No difference in outcome is recorded.", "记录中没有结果差异。")


def _point(loss: Parting) -> Text:
    """How far both runs were compared."""
    if loss.unit == "step":
        return Text(f"step {loss.up_to}", f"第 {loss.up_to} 步")
    return Text(f"{loss.up_to} tokens", f" {loss.up_to} tokens ")


def _unit(unit: str) -> str:
    return "步数" if unit == "step" else " tokens "


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _still(comparison: Comparison) -> Text:
    """Of two configurations or machines: how many differences, and what they bear on."""
    rows = [row for row in comparison.rows if row.part in CAUSES]
    new = [finding for finding in comparison.new if finding.severity.rank > 0]
    more = Text("", "")
    if new:
        named = ", ".join(finding.rule for finding in new[:3])
        more = Text(f" Only B has {named}.", f"只有 B 有 {named}。")
    if not rows:
        return Text("No difference that matters.", "没有实质差异。") + more
    counts = {kind: sum(1 for row in rows if kind in row.bears_on) for kind in _KINDS}
    en = ", ".join(f"{count} on {_KINDS[kind].en}" for kind, count in counts.items() if count)
    zh = "，".join(f"影响{_KINDS[kind].zh} {count} 项" for kind, count in counts.items() if count)
    number = len(rows)
    noun = "difference" if number == 1 else "differences"
    return (
        Text(f"{number} {noun}" + (f" ({en})." if en else "."), f"{number} 处差异" + (f"（{zh}）。" if zh else "。"))
        + more
    )


def next_command(comparison: Comparison) -> str:
    """What to run now; empty when there is nothing to do."""
    import shlex

    a, b = shlex.quote(comparison.a.name), shlex.quote(comparison.b.name)
    if comparison.kind == RUN:
        if any(finding.severity.rank > 0 for finding in comparison.new):
            return f"doctor watch --once {b}"
        return f"doctor report {b}" if comparison.regression else ""
    if comparison.kind == HOST:
        return f"doctor check --host {a} --host {b}" if comparison.rows else ""
    return f"doctor check {b}" if any(finding.severity.rank > 0 for finding in comparison.new) else ""
