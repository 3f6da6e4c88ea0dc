"""The self-test for people: a line a part within 80 columns; with -v a line a kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from doctor.finding import Text
from doctor.report.width import cell_width
from doctor.selftest.measure import Measured
from doctor.selftest.rows import Part, Row, quantile

_ON = {
    "watch": Text("short real trainings", "真实短训练"),
    "explain": Text("rule examples in logs", "规则示例置入日志"),
    "config": Text("training configs", "训练配置"),
    "weights": Text("weight folders", "权重目录"),
    "data": Text("data sets", "数据集"),
    "live": Text("logs as they are written", "实时写入的日志"),
}
_HEAD = (
    Text("part", "部分"),
    Text("found", "检出"),
    Text("delay", "延迟"),
    Text("false alarms", "误报"),
    Text("on", "对象"),
)
_UNIT = {"steps": Text("steps", "步"), "lines": Text("lines", "行")}
_WIDTHS = (9, 12, 20, 14)


def lines(measured: Measured, verbose: bool, width: int = 80) -> Iterator[Text]:
    """The table, cut at `width` cells, and below it what a reader must know of how it was measured."""
    yield _line(_HEAD, width)
    for part in measured.parts:
        if part.skipped is not None:
            yield Text(f"{part.name:<9}skipped: {part.skipped.en}", f"{part.name:<9}跳过：{part.skipped.zh}")
            continue
        yield _line((*_cells(part.whole, Text(part.name, part.name)), _ON[part.name]), width)
        if verbose:
            for row in part.rows:
                yield _line((*_cells(row, Text(f"  {row.kind}", f"  {row.kind}")), _beside(row)), width, 27)
    hidden = sum(part.whole.hidden for part in measured.parts)
    if hidden:
        yield Text(
            f"{hidden} trainings do not count: nothing of the fault is to be seen in their logs.",
            f"另有 {hidden} 次训练不计：日志中看不出其故障。",
        )
    if measured.folder is not None and any(part.name == "live" and part.skipped is None for part in measured.parts):
        yield _way(measured)


def _way(measured: Measured) -> Text:
    if measured.inotify:
        return Text(
            f"{measured.folder}: the kernel tells of writes (inotify).",
            f"{measured.folder}：由内核通知写入（inotify）。",
        )
    return Text(
        f"{measured.folder}: no inotify there; each log is asked every 50 ms.",
        f"{measured.folder}：此处没有 inotify，每 50 ms 逐个查询日志。",
    )


def _cells(row: Row, name: Text) -> tuple[Text, ...]:
    found = f"{row.found}/{row.planted}" if row.planted else "-"
    alarms = f"{len(row.alarmed)}/{row.healthy}" if row.healthy else "-"
    return (name, Text(found, found), _delay(row), Text(alarms, alarms))


def _delay(row: Row) -> Text:
    ms = row.delays_ms
    if ms:
        said = f"{quantile(ms, 0.5):.0f} ms, p99 {quantile(ms, 0.99):.0f}"
        return Text(said, said)
    unit = {"watch": "steps", "explain": "lines"}.get(row.part)
    if row.delay is None or unit is None:
        return Text("-", "-")
    word = _UNIT[unit]
    return Text(f"{row.delay:g} {word.en}", f"{row.delay:g} {word.zh}")


def _beside(row: Row) -> Text:
    missed = ", ".join(item.trial.case for item in row.missed[:3])
    return Text(f"missed {missed}", f"漏报 {missed}") if missed else Text("", "")


def _line(cells: tuple[Text, ...], width: int, first: Optional[int] = None) -> Text:
    widths = (first or _WIDTHS[0], *_WIDTHS[1:])
    return Text(*(_within("".join(_cells_of(cells, widths, lang)).rstrip(), width) for lang in ("en", "zh")))


def _within(line: str, width: int) -> str:
    """The line within the width; what is wider would be wrapped, and no table then."""
    while cell_width(line) > width:
        line = line[:-2] + "…"
    return line


def _cells_of(cells: tuple[Text, ...], widths: tuple[int, ...], lang: str) -> Iterator[str]:
    for number, cell in enumerate(cells):
        text = cell.pick(lang)
        yield text + " " * max(1, widths[number] - cell_width(text)) if number < len(widths) else text


def total(parts: tuple[Part, ...]) -> Text:
    """What all parts together come to."""
    planted, found = sum(part.whole.planted for part in parts), sum(part.whole.found for part in parts)
    alarms, healthy = sum(len(part.whole.alarmed) for part in parts), sum(part.whole.healthy for part in parts)
    return Text(
        f"{found} of {planted} planted faults found, {alarms} false alarms on {healthy} healthy inputs.",
        f"植入 {planted} 个故障，检出 {found} 个；{healthy} 个正常输入中误报 {alarms} 个。",
    )
