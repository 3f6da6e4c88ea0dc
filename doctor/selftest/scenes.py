"""What is written while ``doctor watch`` follows: which lines, when, into which files, and what must be told of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from doctor.finding import Severity
from doctor.match.pack import Pack
from doctor.match.rulefile import RuleError, read_rule
from doctor.selftest.logs import healthy_lines

#: alerts whose delay is measured, and seconds between two of them
ALERTS, PAUSE = 60, (0.03, 0.11)
_OVER = "2026-03-01 11:00:00,000 - mindformers[trainer/base_trainer.py:700] - INFO - Training Over!"


@dataclass
class Scene:
    """A plan of `doctor.selftest.writer` below `folder`; `told` are the marks with the rule that must be told after each,
    `at_end` the rules that must be told when the writer is gone."""

    kind: str
    folder: Path
    rng: random.Random
    plan: list[list[Any]] = field(default_factory=list)
    told: dict[str, str] = field(default_factory=dict)
    at_end: tuple[str, ...] = ()
    step: int = 1

    def write(self, text: str, pause: float = 0.0, log: str = "rank_0.log", mark: str = "") -> None:
        self.plan.append([pause, "write", str(self.folder / log), text, mark])

    def steps(self, count: int, pause: float = 0.0, log: str = "rank_0.log") -> None:
        lines = healthy_lines(self.rng, "graph", count, self.step)
        self.step += count
        self.write("".join(line + "\n" for line in lines), pause, log)

    def fault(self, line: FaultyLine, pause: float = 0.05, log: str = "rank_0.log") -> None:
        mark = f"{self.kind}-{len(self.told)}"
        self.told[mark] = line.rule
        self.write(line.text + "\n", pause, log, mark)

    def act(self, action: str, log: str, to: str = "", pause: float = 0.0) -> None:
        self.plan.append([pause, action, str(self.folder / log), str(self.folder / to) if to else "", ""])

    def over(self, pause: float = 0.2) -> None:
        self.write(_OVER + "\n", pause)


@dataclass(frozen=True)
class FaultyLine:
    rule: str
    text: str


def faulty_lines(pack: Pack, rng: random.Random, alone: Callable[[str, str], bool]) -> Iterator[FaultyLine]:
    """Lines of the rules' own examples that show their fault by themselves, in a drawn order; `alone` says whether the rule
    alone is told of a text."""
    rules = [
        rule
        for rule in pack.rules
        if rule.match is not None
        and rule.role == "cause"
        and rule.rule.severity.at_least(Severity.ERROR)
        and not (rule.match.all or rule.match.any or rule.match.none or rule.match.facts or rule.table)
    ]
    rng.shuffle(rules)
    for rule in rules:
        try:
            examples = read_rule(Path(rule.path)).must_match
        except RuleError:
            continue
        for example in examples:
            text = example.text.strip("\n")
            if "\n" not in text and example.cause is None and alone(rule.id, text):
                yield FaultyLine(rule.id, text)
                break


Make = Callable[[Scene, Iterator[FaultyLine]], None]
SCENES: dict[str, Make] = {}


def _scene(kind: str) -> Callable[[Make], Make]:
    def keep(make: Make) -> Make:
        SCENES[kind] = make
        return make

    return keep


@_scene("line")
def _line(scene: Scene, lines: Iterator[FaultyLine]) -> None:
    """Faulty lines one after the other among healthy ones: these are timed."""
    for _ in range(ALERTS):
        line = next(lines, None)
        if line is None:
            break
        scene.steps(2, scene.rng.uniform(*PAUSE))
        scene.fault(line, 0.0)
    scene.over()


@_scene("rotation")
def _rotation(scene: Scene, lines: Iterator[FaultyLine]) -> None:
    """The log is moved away right after a fault and begun anew; later it is emptied in place."""
    scene.fault(next(lines), 0.3)
    scene.act("move", "rank_0.log", "rank_0.log.1")
    scene.steps(3, 0.1)
    scene.fault(next(lines), 0.3)
    scene.steps(3, 0.6)
    scene.act("truncate", "rank_0.log", pause=1.5)
    scene.steps(3, 1.2)
    scene.fault(next(lines), 0.3)
    scene.over()


@_scene("new-log")
def _new_log(scene: Scene, lines: Iterator[FaultyLine]) -> None:
    """The logs of further ranks appear later, a fault in their first line."""
    scene.steps(3, 0.5)
    scene.fault(next(lines), 0.3, "rank_1.log")
    scene.steps(3, 0.5)
    scene.fault(next(lines), 0.3, "rank_2.log")
    scene.over(1.5)


@_scene("torn-line")
def _torn_line(scene: Scene, lines: Iterator[FaultyLine]) -> None:
    """A line comes in pieces, as from a full buffer."""
    for _ in range(3):
        line = next(lines)
        cut = scene.rng.randrange(1, len(line.text))
        scene.write(line.text[:cut], 0.2)
        scene.fault(FaultyLine(line.rule, line.text[cut:]), 0.25)
    scene.over()


@_scene("killed-writer")
def _killed(scene: Scene, lines: Iterator[FaultyLine]) -> None:
    """The writer is killed in the middle of a line; nothing says why."""
    for _ in range(4):
        scene.steps(4, 0.8)
    scene.write("2026-03-01 10:59:5", 0.2)
    scene.act("die", "rank_0.log", pause=0.2)
    scene.at_end = ("RUN-END-001",)


def healthy(scene: Scene) -> None:
    """A run that ends well, its log rotated once."""
    for _ in range(3):
        scene.steps(6, 0.3)
    scene.act("move", "rank_0.log", "rank_0.log.1")
    scene.steps(6, 0.2)
    scene.over()


def scene_of(kind: str, case: str, folder: Path, lines: Optional[Iterator[FaultyLine]]) -> Scene:
    """A scene with the first lines of its log; `lines` None makes the healthy one."""
    scene = Scene(kind, folder, random.Random(f"{kind} {case}"))
    if lines is None:
        healthy(scene)
    else:
        SCENES[kind](scene, lines)
    return scene
