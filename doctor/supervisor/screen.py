"""What a person sees of a watched run: a line for some steps, each finding with its fix, each intervention with its diff."""

from __future__ import annotations

import json
import sys
from typing import TextIO

from doctor.escape import visible
from doctor.finding import Text
from doctor.records.record import Metric
from doctor.report.text import finding_lines, paint, width_of
from doctor.report.width import wrap
from doctor.report.write import terminal_width, use_colour
from doctor.session import Event
from doctor.supervisor.care import Intervention

#: of a long run about so many steps are shown, besides the first ones and those around findings
SHOWN_STEPS = 100
FIRST_STEPS = 10


class Screen:
    """`form` is text or jsonl; with `json` only the report at the end is written. Steps are shown as lines, on a terminal
    as one line that is written over."""

    def __init__(self, form: str, lang: str, color: str, verbose: bool, quiet: bool, out: TextIO = sys.stdout) -> None:
        self.form, self.lang, self.verbose, self.quiet, self.out = form, lang, verbose, quiet, out
        self.colour = use_colour(color)
        self.width = width_of(terminal_width())
        self.terminal = form == "text" and out.isatty()
        self.total = 0
        #: of a run that is resumed, the step it goes on from: what its files tell of before was shown then
        self.after = 0
        self._step_line = False
        self._show_next = False
        #: what was shown of each step since the last intervention: the two files of a run may be read one after the other
        self._told: dict[int, set[tuple[bool, str]]] = {}

    def say(self, text: Text) -> None:
        """A line of talk: to stderr, not in the way of the result."""
        if not self.quiet:
            self._end_step_line()
            sys.stderr.write(f"doctor: {visible(text.pick(self.lang))}\n")
            sys.stderr.flush()

    def metric(self, metric: Metric) -> None:
        if self.form == "jsonl":
            self._write(json.dumps(metric.to_event(), ensure_ascii=False) + "\n")
        elif self.form == "text" and not self.quiet:
            self._step(metric)

    def _step(self, metric: Metric) -> None:
        step = metric.at or 0
        if step <= self.after:
            return
        told = (metric.evaluation, "" if metric.loss is None else f"{metric.loss:.4f}")
        if told in self._told.setdefault(step, set()):
            return  # the same step from the other file: text log and JSON lines both tell of it
        self._told[step].add(told)
        self.total = self.total or metric.announced or 0
        every = 1 if self.verbose else max(1, self.total // SHOWN_STEPS)
        shown = metric.evaluation or step <= FIRST_STEPS or step % every == 0 or step == self.total or self._show_next
        if not (shown or self.terminal):
            return
        self._show_next = False
        line = step_words(metric, self.total)
        if self.terminal:
            self._write(f"\r\x1b[K{line[: self.width - 1]}")
            self._step_line = True
        else:
            self._write(line + "\n")

    def event(self, event: Event) -> None:
        if self.form == "jsonl":
            self._write(json.dumps(event.to_dict(self.lang), ensure_ascii=False) + "\n")
            return
        if self.form != "text":
            return
        finding = event.finding
        self._end_step_line()
        if event.kind == "opened":
            self._write("\n")
            for line in finding_lines(finding, self.lang, colour=self.colour, width=self.width, verbose=self.verbose):
                self._write(line + "\n")
            self._write("\n")
            self._show_next = True
        elif event.kind == "resolved":
            word = paint(Text("over", "已恢复").pick(self.lang), "ok", self.colour)
            self._write(f"{word} {finding.rule} {visible(finding.title.pick(self.lang))}\n")

    def intervention(self, done: Intervention) -> None:
        """The fix, the diff of the config, and where the run goes on."""
        self._told.clear()
        self.after = 0
        if self.form == "jsonl":
            row = {
                "event": "intervention",
                "number": done.number,
                "rule": done.finding.rule,
                "summary": done.remedy.summary.pick(self.lang),
                "config": str(done.path),
                "resume": done.resume,
            }
            self._write(json.dumps(row, ensure_ascii=False) + "\n")
        if self.form != "text":
            return
        self._end_step_line()
        head = Text("fix applied: ", "已应用修复：") + done.remedy.summary
        for line in wrap(visible(head.pick(self.lang)), self.width):
            self._write(paint(line, "ok", self.colour) + "\n")
        for line in done.diff.splitlines():
            style = {"+": "ok", "-": "error"}.get(line[:1], "dim")
            self._write(f"    {paint(visible(line), style, self.colour)}\n")
        back = done.checkpoint
        where = (
            Text(f"goes on from step {back.step} ({back.path})", f"从第 {back.step} 步继续（{back.path}）")
            if back is not None
            else Text("starts from the beginning", "从头开始")
        )
        for line in wrap(visible(where.pick(self.lang)), self.width):
            self._write(line + "\n")
        self._write("\n")

    def ask(self, question: Text) -> bool:
        """Asks on the terminal; without one the answer is no."""
        if not sys.stdin.isatty():
            return False
        self._end_step_line()
        sys.stderr.write(visible(question.pick(self.lang)) + " [y/N] ")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in {"y", "yes", "是"}

    def close(self) -> None:
        self._end_step_line()

    def _end_step_line(self) -> None:
        if self._step_line:
            self._write("\n")
            self._step_line = False

    def _write(self, text: str) -> None:
        self.out.write(text)
        self.out.flush()


def step_words(metric: Metric, total: int) -> str:
    """One step in 80 columns, always in the same order and units."""
    count = f"{metric.at or 0:>{len(str(total))}}/{total}" if total else str(metric.at or 0)
    parts = [f"step {count}"]
    if metric.loss is not None:
        parts.append(f"{'evaluation ' if metric.evaluation else ''}loss {metric.loss:.4f}")
    if metric.lr is not None:
        parts.append(f"lr {metric.lr:.2e}")
    if metric.grad_norm is not None:
        parts.append(f"norm {metric.grad_norm:.3g}")
    if metric.loss_scale is not None:
        parts.append(f"scale {metric.loss_scale:g}")
    if metric.overflow:
        parts.append("overflow")
    if metric.step_time_ms is not None:
        parts.append(f"{metric.step_time_ms:.0f} ms")
    if metric.memory_mb is not None:
        parts.append(f"{metric.memory_mb:.0f} MB")
    return "  ".join(parts)
