"""`doctor report RUN`: one self-contained HTML page about a run, with its curves, findings, settings and surroundings."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from doctor.errors import UsageError
from doctor.finding import Text
from doctor.language import Help

if TYPE_CHECKING:
    from doctor.report.page.content import Intervention, Line, PageContent, Plot, RankRow
    from doctor.session.history import Points, Track
    from doctor.session.recorded import Recorded

DESCRIPTION = Text(
    "Writes one HTML page about a run (folder, logs or bundle): verdict, findings with their fixes, curves, ranks, settings.\n"
    "The page needs no network and no scripts; it opens from a file, prints, and follows the reader's light or dark theme.",
    "把一次训练（目录、日志或诊断包）写成一个 HTML 页面：结论、诊断与修复、曲线、各 rank、配置。\n页面不需要网络和脚本，可直接打开、打印，并跟随浏览器的明暗主题。",
)
EPILOG = Text(
    "examples:\n  doctor report output/run                      writes output/run/report.html\n"
    "  doctor report train.log -o page.html --lang zh\n  doctor report bundle.tar.gz -o page.html\n\n"
    "Curves are drawn by matplotlib: pip install 'mindspore-doctor[report]'. Without it the page\nhas everything else.",
    "示例：\n  doctor report output/run                      写出 output/run/report.html\n"
    "  doctor report train.log -o page.html --lang zh\n  doctor report bundle.tar.gz -o page.html\n\n"
    "曲线由 matplotlib 绘制：pip install 'mindspore-doctor[report]'。没有它时页面仍含其余全部内容。",
)
#: points of a curve on the page, and of those of other ranks
_POINTS, _FEWER = 600, 200
_MOST_RANKS, _MOST_CONFIG = 64, 1 << 20
#: a curve that spans more than this factor above its median is drawn on a logarithmic scale
_WIDE = 12.0
_TITLES = (
    ("loss", Text("Loss", "损失")),
    ("lr", Text("Learning rate", "学习率")),
    ("grad_norm", Text("Gradient norm", "梯度范数")),
    ("loss_scale", Text("Loss scale", "损失缩放")),
    ("step_time_ms", Text("Step time, ms", "每步耗时（毫秒）")),
    ("throughput", Text("Throughput", "吞吐")),
    ("memory_mb", Text("Device memory, MB", "显存（MB）")),
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help=Help("run folder, log or bundle", "训练目录、日志或诊断包"))
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help=Help(
            "where the page goes (default RUN/report.html; - is stdout)",
            "页面路径（默认 RUN/report.html；- 为标准输出）",
        ),
    )


def run(args: argparse.Namespace) -> int:
    from doctor.commands.watching import report_of
    from doctor.match.pack import load_pack
    from doctor.records.packed import opened
    from doctor.report.deliver import check_target, deliver, target_of
    from doctor.report.model import exit_code
    from doctor.report.page.render import is_page, page_of
    from doctor.report.text import verdict
    from doctor.report.write import emit
    from doctor.session.recorded import recorded

    target = target_of(args.run, args.output, "report.html", Text("the page", "页面"))
    if str(target) != "-":
        check_target(target, "report.html", is_page)
        target = target.absolute()
    with opened(args.run) as inside:
        found = recorded(inside, load_pack(args.settings.rules))
        report = report_of(found.session)
        if report.unknown:
            raise _nothing(args.run, found)
        text, drawn = page_of(content_of(found, args.run, report.verdict, verdict(report)), args.lang)
    size = deliver(text.encode("utf-8", "backslashreplace"), target)
    if str(target) == "-":
        return exit_code(report, args.fail_on)
    place = args.output or os.path.join(args.run, "report.html")
    told = _told(report, place, size, drawn, bool(found.tracks))
    if args.format != "text":
        return emit(told, args)
    _write(told, args)
    return exit_code(told, args.fail_on)


def _nothing(run: str, found: Recorded) -> UsageError:
    """No line was read: a page about nothing would look like good news."""
    why = "; ".join(f"{item.source}: {item.detail}" for item in found.session.notices[:3] if item.detail)
    return UsageError(
        Text(
            f"{run}: not one line of a log in it" + (f" ({why})." if why else "."),
            f"{run}：其中没有一行日志" + (f"（{why}）。" if why else "。"),
        ),
        Text("Name a run folder, a log or a bundle.", "请指定训练目录、日志或诊断包。"),
    )


def _told(report: Any, place: str, size: int, drawn: int, has_curves: bool) -> Any:
    """The report of the session with what was written in place of its headline."""
    from dataclasses import replace

    from doctor.report.page.words import NO_PLOTS

    kb = f"{max(1, round(size / 1024))} KB"
    lines = [Text(f"{place}: written, {kb}, {drawn} curves.", f"{place}：已写出，{kb}，{drawn} 条曲线。")]
    if has_curves and not drawn:
        lines.append(NO_PLOTS)
    facts = {"page": {"path": place, "bytes": size, "curves": drawn}}
    return replace(report, command="report", facts=facts, headline=(*lines, *report.headline))


def _write(report: Any, args: argparse.Namespace) -> None:
    """Where the page is, one line a finding, the verdict: the rest is on the page."""
    import sys

    from doctor.escape import visible
    from doctor.report.text import last_line, paint, width_of, word
    from doctor.report.width import wrap
    from doctor.report.write import terminal_width, use_colour

    width, colour = width_of(terminal_width()), use_colour(args.color)
    if not args.quiet:
        for text in report.headline:
            sys.stdout.write("\n".join(wrap(visible(text.pick(args.lang)), width)) + "\n")
    for finding in report.findings:
        label = word(finding.severity.value, args.lang)
        lines = list(wrap(visible(finding.title.pick(args.lang)), width, f"{label} {finding.rule} ", "    "))
        lines[0] = lines[0].replace(label, paint(label, finding.severity.value, colour), 1)
        sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.write(last_line(report, args.lang, colour, args.verbose) + "\n")


def content_of(run: Recorded, name: str, verdict: str, said: Text) -> PageContent:
    """What the page says of a run."""
    from doctor.commands.watching import unread
    from doctor.report.page.content import PageContent, marks_of

    ranks = [_rank_row(track) for track in _told_ranks(run)]
    return PageContent(
        name=name,
        verdict=verdict,
        said=said,
        summary=tuple(_summary(run)),
        findings=run.findings,
        plots=tuple(_plots(run)),
        marks=marks_of(run.findings),
        ranks=tuple(ranks),
        more_ranks=max(0, len(run.tracks) - _MOST_RANKS),
        unit=next((track.unit for track in run.tracks if track.unit), None),
        environment=tuple(run.environment.items()),
        configuration=_configuration(run),
        interventions=tuple(_intervention(row) for row in run.interventions),
        notices=tuple(unread(item) for item in run.session.notices if item.kind in ("unreadable", "damaged")),
    )


def _summary(run: Recorded) -> Iterator[tuple[Text, Text]]:
    from doctor.plan.arithmetic import global_batch

    ending, main = run.ending, run.main
    if ending.step is not None:
        yield Text("Step", "步"), _same(f"{ending.step:,}" + (f" / {ending.of:,}" if ending.of else ""))
    yield Text("Ending", "结局"), ending.said
    if main is not None:
        for key, label, of in (
            ("loss", Text("Last loss", "最终损失"), main.last),
            ("step_time_ms", Text("Step time, ms", "每步耗时（毫秒）"), main.typical),
            ("throughput", Text(main.unit or "Throughput", main.unit or "吞吐"), main.typical),
        ):
            value = of(key)
            if value is not None:
                yield label, _same(f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:,.4g}")
    if run.plan is not None:
        batch = global_batch(run.plan)
        if batch.total is not None:
            yield Text("Global batch", "全局 batch"), _same(str(batch.total))
        if batch.tokens is not None:
            yield Text("Tokens a step", "每步 tokens"), _same(f"{batch.tokens:,}")
    ranks = {track.rank for track in run.tracks}
    if len(ranks) > 1:
        yield Text("Ranks", "rank 数"), _same(str(len(ranks)))


def _same(text: str) -> Text:
    return Text(text, text)


def _plots(run: Recorded) -> Iterator[Plot]:
    from doctor.report.page.content import Plot

    main = run.main
    if main is None:
        return
    tracks = [main, *(track for track in run.tracks if track is not main)]
    last = max(track.last_step or 0 for track in tracks)
    for key, title in _TITLES:
        lines = [line for track in tracks for line in _lines(track, key, track is main)]
        if not lines:
            continue
        first = min(int(line.steps[0]) for line in lines)
        end = max(last, *(int(line.steps[-1]) for line in lines))
        series = main.series.get(key)
        broken = series.bad_at if series is not None and key == "loss" and series.bad_at is not None else None
        if series is not None and not series.ends_bad:
            broken = None  # it came back
        if key == "throughput" and main.unit:
            title = Text(f"{title.en}, {main.unit}", f"{title.zh}（{main.unit}）")
        yield Plot(key, title, tuple(lines), (min(first, broken or first), end), broken, _is_wide(key, lines))


def _lines(track: Track, key: str, is_main: bool) -> Iterator[Line]:
    points = track.points(key, _POINTS if is_main else _FEWER)
    if points is not None:
        yield _line(track, points)
    if is_main:
        series = track.series.get(key)
        for piece in series.left if series is not None else ():
            if len(piece) <= _POINTS:
                yield _line(track, piece, left=True)


def _line(track: Track, points: Points, left: bool = False) -> Line:
    from doctor.report.page.content import Line

    return Line(track.source, points.steps, points.mean, points.low, points.high, left)


def _is_wide(key: str, lines: list[Line]) -> bool:
    """Whether a linear scale would press the usual values flat."""
    import numpy as np

    if key == "lr" or any(float(line.low.min()) <= 0 for line in lines):
        return False
    middle = float(np.median(lines[0].mean))
    return max(float(line.high.max()) for line in lines) > _WIDE * middle or key == "loss_scale"


def _told_ranks(run: Recorded) -> list[Track]:
    """All ranks; of many those that findings name, that got least far or are slowest, then the first ones."""
    if len(run.tracks) <= _MOST_RANKS:
        return list(run.tracks)
    named = {item.rank for finding in run.findings for item in finding.evidence if item.rank is not None}
    few = _MOST_RANKS // 4
    behind = sorted(run.tracks, key=lambda track: track.last_step or 0)[:few]
    slow = sorted(run.tracks, key=lambda track: -(track.typical("step_time_ms") or 0.0))[:few]
    wanted = [track for track in run.tracks if track.rank in named][:few]
    chosen: dict[int, Track] = {}
    for track in (*wanted, *behind, *slow, *run.tracks):
        if len(chosen) < _MOST_RANKS:
            chosen.setdefault(id(track), track)
    return [track for track in run.tracks if id(track) in chosen]


def _rank_row(track: Track) -> RankRow:
    from doctor.report.page.content import RankRow

    return RankRow(
        track.rank,
        track.source,
        track.records,
        track.last_step,
        track.last("loss"),
        track.typical("step_time_ms"),
        track.typical("throughput"),
        track.overflows,
    )


def _configuration(run: Recorded) -> Optional[tuple[str, str]]:
    """The text of the settings and its place; what is secret in it is covered."""
    from doctor.checks.environment.redact import Redactor

    if run.plan is None or run.plan_source is None:
        return None
    text = run.plan.document.text
    if run.session.printed is not None and not Path(run.plan_source).is_file():
        import yaml

        text = yaml.safe_dump(dict(run.session.printed.settings), sort_keys=False, allow_unicode=True)
    return Redactor(addresses=False).text(text[:_MOST_CONFIG]), run.plan_source


def _intervention(row: dict[str, Any]) -> Intervention:
    from doctor.report.page.content import Intervention

    finding, step = row.get("finding"), row.get("step")
    edits = row.get("edits")
    changes = [
        f"{edit.get('key')}: {edit.get('old')} → {edit.get('new')}"
        for edit in (edits if isinstance(edits, list) else [])
        if isinstance(edit, dict)
    ]
    return Intervention(
        step if isinstance(step, int) else None,
        str(finding.get("rule", "")) if isinstance(finding, dict) else "",
        " ".join([str(row.get("why") or ""), *(f"[{change}]" for change in changes)]).strip(),
        str(row.get("checkpoint") or ""),
    )
