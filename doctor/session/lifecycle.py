"""Lines that tell how a run lives rather than what fails: settings, weights loaded, saves, the end, lost processes.

They are found by the same scan as the rules (`marks` are rules without a text of their own) and become
`Mark` values; what they say of the run goes into `RunFacts`, what they say of one log into `Trace`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Optional

from doctor.detect.facts import RunFacts
from doctor.finding import Severity, Text
from doctor.match import regex
from doctor.match.pack import Pack
from doctor.match.scan import Hit
from doctor.match.textrule import Match, Pattern, TextRule
from doctor.rule import Rule

_PREFIX = "RUN-MARK-"

#: name -> patterns. Settings are looked for as Python prints dicts, as YAML and as JSON.
_SETTING = r"""['"]?\s*[:=]\s*"""
_MARKS: Mapping[str, tuple[str, ...]] = {
    "loads": (
        r"[Ss]tart load checkpoint from",
        r"[Ll]oading checkpoint from",
        r"[Ll]oading weights from",
        r"loading weights file ",
        r"[Ll]oad checkpoint .{1,300} (?:success|done|finish)",
    ),
    "loads-nothing": (r"model built, but weights is unloaded",),
    "resumes": (
        r"['\"]resume_training['\"]:\s*(?:True|true|['\"]\S)",
        r"[Rr]esum(?:e|ed|ing) (?:the )?(?:training )?from ",
        r"Resume dataset ",
        r"Start load resume context from",
    ),
    "saved": (
        r"Finish saving ckpt of epoch (?P<epoch>\d+) step (?P<step>\d+) using (?P<seconds>[\d.]+) seconds",
        r"Checkpoint saved at step (?P<step>\d+) to (?P<path>[^ ,]+)",
        r"successfully saved checkpoint at iteration +(?P<step>\d+) to (?P<path>\S+)",
        r"Saving model checkpoint to (?P<path>\S+checkpoint-(?P<step>\d+))",
    ),
    "vocabulary": (rf"\bvocab_size{_SETTING}(?P<vocab_size>\d+)",),
    "warmup": (rf"\bwarmup_steps{_SETTING}(?P<warmup_steps>\d+)",),
    "clip": (rf"\b(?:max_grad_norm|clip_grad_norm|clip_norm){_SETTING}(?P<clip_norm>\d[\d.e+-]*)",),
    "stages": (rf"\bpipeline_stages?{_SETTING}(?P<pipeline_stages>\d+)",),
    # Step lines of other trainers print the rate of the step under the same name: only a setting by itself, or one that
    # stands with others, is the configured one.
    "rate": (
        rf"^[ \t-]*['\"]?learning_rate{_SETTING}(?P<learning_rate>\d[\d.e+-]*)[,\s]*(?:#.*)?$",
        rf"\blearning_rate{_SETTING}(?P<learning_rate>\d[\d.e+-]*).{{0,600}}\b(?:warmup_|weight_decay|lr_scheduler)",
        rf"\b(?:warmup_|weight_decay|lr_scheduler).{{0,600}}\blearning_rate{_SETTING}(?P<learning_rate>\d[\d.e+-]*)",
    ),
    "workers": (rf"\bnum_parallel_workers{_SETTING}(?P<workers>\d+)",),
    "ended": (
        r"Training Over!",
        r"Training completed",
        r"All workers successfully exit",
        r"['\"]train_runtime['\"]:",
        r"\[after training is done\]|exiting program at iteration",
        r"training process cannot continue, terminating training",
        r"set train process early stop at",
    ),
    "config-printed": (r"Starting Init Train Model", r"Current config: \{\s*$"),
    "part-printed": (r"initial (?P<part>\w+_config) from dict: (?P<settings>\{.+\})\s*$",),
    # behind what a launcher puts in front: `[rank3]: `, `[1,3]<stderr>:`, `3: `
    "traceback": (
        r"^(?:\[[\w -]{1,24}\]:? ?|\[\d{1,6},\d{1,6}\]<std(?:out|err)>: ?| {0,4}\d{1,5}: )?Traceback \(most recent call last\)",
    ),
    "node": (
        r"(?:\((?P<pid>\d+),)?.{0,160}This node (?P<node>\d+) rank id: (?P<rank>\d+)",
        r"The new node: (?P<node>\d+)\(role: MS_WORKER\), rank id: (?P<rank>\d+)",
    ),
    "node-timed-out": (r"The node: (?P<node>\d+) is timed out",),
    "nodes-alive": (r"Cluster currently has (?P<alive>\d+) alive nodes",),
    "node-left": (r"Node (?P<node>\d+) has unregistered",),
    "peer-lost": (r"Client connected end of file! Peer",),
    "peer-waited-for": (r"wait receiving \S+ failed",),
    "scheduler-lost": (
        r"Failed to send heartbeat message to meta server node",
        r"Retry to reconnect to the meta server",
        r"[Hh]eartbeat.{0,60}(?:scheduler|meta server).{0,40}(?:timed? ?out|failed|lost)",
    ),
    "worker-exit": (r"Worker process (?P<pid>\d+) exit with exception\. Error code: (?P<code>-?\d+)",),
    "scheduler-exit": (r"Scheduler process (?P<pid>\d+) exit with exception",),
    "worker-start": (r"Start worker process with rank id: ?(?P<rank>\d+), log file:(?P<log>\S+?worker_\d+\.log)",),
    "evaluating": (r"[Ss]tart(?:ing)? (?:to )?evaluat", r"Eval result", r"\.Start Evaluate"),
}


@dataclass(frozen=True)
class Mark:
    """A line of the life of a run; `values` are the texts that it holds."""

    name: str
    hit: Hit

    def text(self, key: str) -> Optional[str]:
        return self.hit.groups.get(key)

    def integer(self, key: str) -> Optional[int]:
        value = self.hit.groups.get(key)
        return int(value) if value and value.isdigit() else None

    def real(self, key: str) -> Optional[float]:
        try:
            return float(self.hit.groups[key])
        except (KeyError, ValueError):
            return None


@lru_cache(maxsize=2)
def with_marks(pack: Pack) -> Pack:
    """The pack together with the marks, to be scanned for in one go."""
    return Pack([*pack.rules, *_mark_rules()], key=f"{pack.key}+marks-{_fingerprint()}" if pack.key else "")


def split(hits: Iterable[Hit]) -> tuple[list[Mark], list[Hit]]:
    """Marks and the hits of real rules."""
    marks: list[Mark] = []
    rest: list[Hit] = []
    for hit in hits:
        if hit.rule.startswith(_PREFIX):
            marks.append(Mark(_names()[hit.rule], hit))
        else:
            rest.append(hit)
    return marks, rest


def mark_id(name: str) -> str:
    """The id under which the scanner counts a mark."""
    return next(rule.id for rule in _mark_rules() if rule.rule.name == name)


@cache
def _mark_rules() -> tuple[TextRule, ...]:
    return tuple(_rules())


def _rules() -> Iterator[TextRule]:
    nothing = Text("a mark", "标记")
    for number, (name, sources) in enumerate(sorted(_MARKS.items()), 1):
        rule = Rule(f"{_PREFIX}{number:03d}", name, Severity.INFO, "other", nothing, nothing, nothing)
        patterns = tuple(Pattern(source, regex.required(source), needs=regex.needs(source)) for source in sources)
        yield TextRule(rule, "training", match=Match(patterns))


@cache
def _names() -> dict[str, str]:
    return {rule.id: rule.rule.name for rule in _mark_rules()}


def _fingerprint() -> str:
    import hashlib

    return hashlib.blake2b(repr(sorted(_MARKS.items())).encode(), digest_size=6).hexdigest()


def note(facts: RunFacts, mark: Mark) -> None:
    """Takes over what a mark says of the run. The first value of a setting counts: later ones are those of evaluation."""
    name = mark.name
    if name == "loads":
        facts.loads_weights = True
    elif name == "loads-nothing":
        facts.loads_weights = bool(facts.loads_weights)
    elif name == "resumes":
        facts.resumes = True
    elif name in ("vocabulary", "warmup", "stages", "workers"):
        for key in mark.hit.groups:
            if getattr(facts, key) is None:
                setattr(facts, key, mark.integer(key))
    elif name in ("clip", "rate"):
        for key in mark.hit.groups:
            if getattr(facts, key) is None:
                setattr(facts, key, mark.real(key))
