"""The loop of `doctor train`: start, watch, and while there are cures and consent, intervene and go on."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Optional

from doctor import registry, runner
from doctor.check import Options
from doctor.errors import EXIT_FINDINGS, EXIT_OK, EXIT_USAGE
from doctor.escape import visible
from doctor.finding import Edit, Finding, Fix, Severity, Text
from doctor.match.explain import explain
from doctor.match.pack import load_pack
from doctor.session import DiagnosisSession, Event
from doctor.session.following import RunWatch
from doctor.supervisor.care import Intervention, intervene
from doctor.supervisor.child import Child, Workers
from doctor.supervisor.cures.optimizer import with_rate
from doctor.supervisor.cures.remedy import Remedy
from doctor.supervisor.edits import at
from doctor.supervisor.rates import STEPS, bearable_rate
from doctor.supervisor.remedies import BEFORE, remedy_for
from doctor.supervisor.screen import Screen
from doctor.supervisor.steer import booked
from doctor.trainer import runtime
from doctor.trainer.config import RunConfig
from doctor.trainer.runfolder import RunFolder, write_end

#: steps for which a finding that was answered may outlive the intervention
_GRACE = 5


@dataclass(frozen=True)
class Plan:
    """How a run is to be cared for. `consent` is none, safe, or all; asking happens on a terminal only."""

    config: RunConfig
    #: what the trainer is given: a path or the name of an example
    word: str
    folder: RunFolder
    resume: Optional[str]
    lang: str
    auto_fix: bool = False
    unsafe: bool = False
    most_interventions: int = 3
    workers: int = 1
    #: folders of the user's own rules
    rules: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Watched:
    """How it went: exit code of `doctor train`, what stands at the end, what was done on the way."""

    code: int
    findings: tuple[Finding, ...]
    interventions: tuple[Intervention, ...]
    last_step: Optional[int]
    loss: Optional[float]


class Supervisor:
    """One run with all its attempts; one diagnosis goes through all of them."""

    def __init__(self, plan: Plan, screen: Screen, before: Sequence[Intervention] = ()) -> None:
        self.plan, self.screen = plan, screen
        self.session = DiagnosisSession(
            load_pack(plan.rules), eager=True, place=str(plan.folder.root), on_metric=self._metric
        )
        #: what was done, beginning with what made the config readable
        self.interventions: list[Intervention] = list(before)
        self._declined: set[str] = set()
        #: rules of the log that stood when something was done about them: a line stays in the log, cured or not
        self._done_about: set[str] = set()
        #: findings that an intervention answered -> the step from which on they count again if they still stand
        self._answered: dict[str, int] = {}
        self._config = plan.config
        self._metric_seen: Any = None
        self._signalled = 0
        self._child: Optional[Child] = None
        self._watch: Optional[RunWatch] = None

    def run(self) -> Watched:
        config, word, resume = self.plan.config, self.plan.word, self.plan.resume
        watch = self._watch = RunWatch(self.session, [str(self.plan.folder.root)])
        wanted = self._cure_before(config)
        with self._signals():
            while wanted is not None:
                config, word, resume = self._intervene(config, *wanted)
                wanted = self._cure_before(config)
            while True:
                self._child = self._start(word, resume)
                wanted = self._attend(watch, config)
                if wanted is None:
                    break
                self._child.discard()
                self._tell(watch.step(0.0))
                # Until the next attempt has made a step, that none comes is no stall: it starts and compiles anew.
                watch.held = True
                config, word, resume = self._intervene(config, *wanted)
            self._tell(watch.close())
        self.screen.close()
        if self._child.code != EXIT_OK and self._child.last_words:
            sys.stderr.write(visible(self._child.last_words) + "\n")
        return self._outcome()

    def _start(self, word: str, resume: Optional[str]) -> Child:
        root, lang = self.plan.folder.root, self.plan.lang
        if self.plan.workers > 1:
            return Workers(word, root, resume, lang, self.plan.workers)
        return Child(word, root, resume, lang)

    def _intervene(
        self, config: RunConfig, finding: Finding, remedy: Remedy, consent: str
    ) -> tuple[RunConfig, str, str]:
        """Config, its path and the checkpoint with which the run goes on."""
        if remedy.measurable:
            self.screen.say(
                Text(
                    f"{finding.rule}: trying a few times {STEPS} steps, the first with a rising rate, to see what the model bears.",
                    f"{finding.rule}：试跑数次各 {STEPS} 步（第一次学习率逐步升高），测量模型能承受的学习率。",
                )
            )
            rate = bearable_rate(config, lambda: bool(self._signalled))
            remedy = with_rate(remedy, config, rate) if rate is not None else remedy
        number = len(booked(self.plan.folder)) + 1
        done = intervene(number, finding, remedy, config, self.plan.folder, consent)
        self.interventions.append(done)
        self._answer()
        self.screen.intervention(done)
        self._config = done.config
        return done.config, str(done.path), done.resume

    def _cure_before(self, config: RunConfig) -> Optional[tuple[Finding, Remedy, str]]:
        """What `check` says of the config that would spoil the run from its first step."""
        path = Path(config.source)
        if not self.plan.auto_fix or self.plan.resume is not None or not path.is_file():
            return None
        judged = runner.judge_path(path, Options(), runner.Selection(only=BEFORE))
        found = [finding for outcome in judged.outcomes for finding in outcome.findings]
        # Said of the config a warning; said of a run that is about to begin, and that a change would save, more.
        return self._chosen(config, [item.with_(severity=Severity.ERROR) for item in found])

    def _attend(self, watch: RunWatch, config: RunConfig) -> Optional[tuple[Finding, Remedy, str]]:
        """Watches until the child ends (None) or until something should be done about a finding."""
        assert self._child is not None
        if self._signalled:
            # It came while there was no child, or while the last one was being replaced.
            self._child.signal(signal.SIGTERM)
        while self._child.running:
            self._tell(watch.step(0.1))
            if self.plan.auto_fix and not self._signalled:
                wanted = self._cure(config)
                if wanted is not None:
                    return wanted
        self._tell(watch.step(0.0))
        if not self.plan.auto_fix or self._signalled or self._child.code == EXIT_OK:
            return None
        if self._child.code == EXIT_USAGE:
            return self._cure_of_start(config)
        return self._chosen(config, self._died_of()) or self._cure(config)

    def _died_of(self) -> tuple[Finding, ...]:
        """What the child's own last words are explained by: a fault that was answered once may come again."""
        try:
            reason = json.loads(self.plan.folder.end.read_text(encoding="utf-8")).get("reason", "")
        except (OSError, ValueError):
            return ()  # killed: it has said nothing
        return explain(reason, source=str(self.plan.folder.end)).findings

    def _cure_of_start(self, config: RunConfig) -> Optional[tuple[Finding, Remedy, str]]:
        """What the trainer refuses before it begins, so that no step line can tell of it: it has named the rule."""
        try:
            said = json.loads(self.plan.folder.end.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        rule = registry.rule(str(said.get("rule") or "-"))
        if rule is None:
            return None
        words = Text(str(said.get("reason", "")), str(said.get("reason", "")))
        finding = rule.finding(severity=Severity.ERROR).with_(title=words, message=words)
        return self._chosen(config, [finding])

    def _cure(self, config: RunConfig) -> Optional[tuple[Finding, Remedy, str]]:
        """A cure of what stands and was not answered yet."""
        standing = self.session.open_findings()
        return self._chosen(config, [item for item in standing if not self._still_answered(item.rule)])

    def _chosen(self, config: RunConfig, findings: Sequence[Finding]) -> Optional[tuple[Finding, Remedy, str]]:
        """The first finding that is a cause and has a remedy that is consented to."""
        for finding in findings:
            if finding.rule in self._declined or not finding.root_cause:
                continue
            remedy = remedy_for(finding, config, runtime.cores())
            if remedy is None:
                continue
            # What may be wrong is worth a change that cannot do harm; one that may wants something that is wrong.
            if not finding.severity.at_least(Severity.WARNING if remedy.safe else Severity.ERROR):
                continue
            if len(self.interventions) >= self.plan.most_interventions:
                self._declined.add(finding.rule)
                count = self.plan.most_interventions
                self.screen.say(
                    Text(
                        f"{finding.rule}: {count} interventions were made already; no more.",
                        f"{finding.rule}：已干预 {count} 次，不再继续。",
                    )
                )
                continue
            consent = self._consent(finding, remedy)
            if consent is not None:
                return finding, remedy, consent
            self._declined.add(finding.rule)
        return None

    def _answer(self) -> None:
        """What is open now is known: it calls for a second answer only when it outlives the first by some steps."""
        at = (self._metric_seen.at or 0) if self._metric_seen is not None else 0
        standing = [finding.rule for finding in self.session.open_findings()]
        self._answered = dict.fromkeys(standing, at + _GRACE)
        self._done_about |= {rule for rule in standing if rule.startswith("RUN-MON-") or not rule.startswith("RUN-")}

    def _still_answered(self, rule: str) -> bool:
        until = self._answered.get(rule)
        at = (self._metric_seen.at or 0) if self._metric_seen is not None else 0
        return until is not None and at < until

    def _consent(self, finding: Finding, remedy: Remedy) -> Optional[str]:
        return consented(finding, remedy, self.plan.unsafe, self.screen)

    def _metric(self, metric: Any) -> None:
        if self._watch is not None:
            self._watch.held = False
        if not metric.evaluation:
            self._metric_seen = metric
        self.screen.metric(metric)

    def _tell(self, events: Sequence[Event]) -> None:
        if not events:
            return
        with self.plan.folder.findings.open("a", encoding="utf-8") as file:
            for event in events:
                row = {"time": round(time.time(), 3), **event.to_dict("en")}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        for event in events:
            if event.kind != "updated" or not event.finding.rule.startswith("RUN-"):
                # Over, open anew after having been over, or said again in the log: the answer to the earlier is spent.
                self._answered.pop(event.finding.rule, None)
            self.screen.event(replace(event, finding=self._with_remedy(event.finding)))

    def _with_remedy(self, finding: Finding) -> Finding:
        """The finding with the edit of this very config that cures it, before the general advice."""
        remedy = remedy_for(finding, self._config, runtime.cores())
        if remedy is None or not finding.severity.at_least(Severity.WARNING):
            return finding
        path = self._config.source
        edits = tuple(Edit(path, key, at(self._config.raw, key), new) for key, new in remedy.edits.items())
        fix = Fix(remedy.summary, edits=edits, applicability="safe" if remedy.safe else "unsafe")
        return finding.with_(fixes=(fix, *finding.fixes))

    def _outcome(self) -> Watched:
        assert self._child is not None
        code = self._code(self._child.code)
        findings = tuple(self._with_remedy(item) for item in self.session.findings())
        if code == EXIT_OK:
            findings = tuple(
                item.with_(severity=Severity.INFO) if item.rule in self._done_about else item for item in findings
            )
        if code == EXIT_OK and any(item.severity.at_least(Severity.ERROR) for item in findings):
            # It made its last step, but not with weights that are worth anything.
            code = EXIT_FINDINGS
        metric = self._metric_seen
        return Watched(
            code,
            findings,
            tuple(self.interventions),
            metric.at if metric is not None else None,
            metric.loss if metric is not None else None,
        )

    def _code(self, child: int) -> int:
        """Ours from the child's. Writes end.json for a child that could not: killed, or stopped before it was set up."""
        if self._signalled and child != EXIT_OK:
            code, state = 128 + (self._signalled if self._signalled != signal.SIGHUP else signal.SIGTERM), "interrupted"
        else:
            code, state = (child if child in (EXIT_OK, EXIT_FINDINGS, EXIT_USAGE) else EXIT_FINDINGS), "failed"
        if child != EXIT_OK and not self.plan.folder.end.exists():
            step = (self._metric_seen.at or 0) if self._metric_seen is not None else 0
            write_end(self.plan.folder, state, child, step)
        return code

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """What is sent to us goes on to the child, which saves and ends; then so do we."""

        def pass_on(number: int, _frame: Any) -> None:
            self._signalled = number
            if self._child is None:
                return
            if number == signal.SIGINT:
                self._child.interrupt()
            else:
                self._child.signal(signal.SIGTERM)

        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        before = {number: signal.signal(number, pass_on) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def consented(finding: Finding, remedy: Remedy, unsafe: bool, screen: Screen) -> Optional[str]:
    """Who agreed to a remedy: safe (nobody needs to), yes (said before), asked; None when nobody did, which is said."""
    if remedy.safe:
        return "safe"
    if unsafe:
        return "yes"
    if screen.ask(
        Text(f"{finding.rule}: {remedy.summary.en} Apply?", f"{finding.rule}：{remedy.summary.zh}是否应用？")
    ):
        return "asked"
    screen.say(
        Text(
            f"{finding.rule}: not applied, it changes what is trained: {remedy.summary.en} (--unsafe-fixes allows it)",
            f"{finding.rule}：未应用，因为会改变训练：{remedy.summary.zh}（加 --unsafe-fixes 允许）",
        )
    )
    return None
