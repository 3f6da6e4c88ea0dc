"""From hits to a diagnosis: what is the cause, what is its consequence, what only looks like a fault.

A rule that hit is a candidate. Hits that cannot count (INFO lines, quoted data, source lines in a traceback,
faults after which training went on) are put aside with the reason. Of the rest, one candidate explains
another when its rule says so, when it says what failed and the other only that something did, or when faults
of its kind are known to have the other's as consequence. What nothing explains is a root; roots are ordered by how surely
and how early they stand in the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Optional

from doctor.escape import decode, visible
from doctor.finding import Evidence, Finding, Fix, Severity, Text
from doctor.match.aside import Aside, Progress, sift, went_on
from doctor.match.pack import Pack
from doctor.match.scan import Hit
from doctor.match.textrule import TextRule
from doctor.match.words import Value, filled, filled_line, values_of

if TYPE_CHECKING:
    from doctor.match.tables import Code

_ROLE_WEIGHT = {"cause": 1.0, "symptom": 0.55, "generic": 0.25}
_SEVERITY_WEIGHT = {Severity.FATAL: 1.0, Severity.ERROR: 1.0, Severity.WARNING: 0.55, Severity.INFO: 0.3}
_ROLE_ORDER = ("cause", "symptom", "generic")
#: weights this near to each other count as equal: the earlier line decides
_BAND = 0.12
#: a symptom so many lines before a cause on the same rank may still be its consequence: logs are buffered
_BUFFERED_LINES = 200
_BUFFERED_SECONDS = 60.0
#: how much less a fault counts that the run got over
_OVER = 0.6
_WENT_ON = Text(" Training went on after it, so it may be over.", "其后训练仍在继续，可能已经恢复。")
_MOST_EVIDENCE = 5
#: lines of one rank this near to each other tell of one event
_ONE_EVENT = 20

#: faults of one kind that bring about others, whatever the rules say: category -> categories
_BRINGS: Mapping[str, frozenset[str]] = {
    "hardware-fault": frozenset(
        ("operator-execution", "hccl-timeout", "stall-hang", "distributed-launch", "network-link")
    ),
    "oom-device": frozenset(("hccl-timeout", "stall-hang", "distributed-launch")),
    "oom-host": frozenset(("hccl-timeout", "stall-hang", "distributed-launch", "dataset")),
    "memory-host": frozenset(("hccl-timeout", "stall-hang", "distributed-launch", "dataset")),
    "disk-io": frozenset(("ckpt-format", "hccl-timeout", "distributed-launch")),
    "network-link": frozenset(("hccl-timeout", "stall-hang", "distributed-launch")),
}


@dataclass(frozen=True)
class Candidate:
    """A rule with its hits, the most telling first. `order` is the place of the first hit in the whole text."""

    rule: TextRule
    hits: tuple[Hit, ...]
    #: how likely it is the answer, for ordering
    weight: float
    #: how sure it is when it is the answer
    sure: float
    order: int
    finding: Optional[Finding] = None
    #: what the captured code means, for a rule with a table
    code: Optional[Code] = None
    #: the fault ends a run, but training went on after it: it may be over
    over: bool = False

    @property
    def category(self) -> str:
        return self.code.category if self.code is not None else self.rule.rule.category

    @property
    def first(self) -> Optional[Hit]:
        return self.hits[0] if self.hits else None


def reason(
    hits: Iterable[Hit],
    pack: Pack,
    others: Sequence[Finding] = (),
    progress: Optional[Progress] = None,
    counts: Optional[Mapping[str, int]] = None,
) -> tuple[Finding, ...]:
    """Findings in the order of likelihood, the root cause first, its consequences after the roots.

    `others` are findings made elsewhere (of detectors on the numbers), to be ordered among these. `progress`
    tells where training steps were printed. `counts` says how often a rule hit when not all hits are given.
    """
    kept, aside = sift(sorted(hits, key=_place), pack, progress)
    candidates = _that_say_more(_candidates(kept, pack, others, progress))
    if not candidates:
        return ()
    causes = {
        item.rule.id: [other for other in candidates if other is not item and _explains(item, other)]
        for item in candidates
    }
    explained = {other.rule.id for found in causes.values() for other in found}
    roots = [item for item in candidates if item.rule.id not in explained]
    if not roots:  # a circle: the best candidate is the root
        roots = [max(candidates, key=lambda item: (item.weight, -item.order))]
    roots.sort(key=_likelihood)
    rest = sorted((item for item in candidates if item not in roots), key=lambda item: item.order)
    found = []
    for place, item in enumerate(roots + rest):
        consequences = _all_explained(item, causes)
        sure = item.sure if item in roots else item.sure * 0.5
        if 0 < place < len(roots):
            sure *= 0.7
        out = ruled_out(item, rest, aside, pack) if place == 0 else ()
        root = item in roots and place == 0
        found.append(_finding(item, sure, root, consequences, out, (counts or {}).get(item.rule.id, 0)))
    return tuple(found)


def _that_say_more(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Without the generic rules all of whose lines a rule with a better answer has found as well."""
    told = {place for item in candidates if item.rule.role != "generic" for place in map(_line_of, item.hits)}
    return [
        item
        for item in candidates
        if item.rule.role != "generic"
        or item.rule.table is not None
        or not item.hits
        or not told.issuperset(map(_line_of, item.hits))
    ]


def _line_of(hit: Hit) -> tuple[str, int]:
    return (hit.source, hit.line)


def _place(hit: Hit) -> tuple[str, int, str]:
    return (hit.source, hit.line, hit.rule)


def _candidates(
    hits: Sequence[Hit], pack: Pack, others: Sequence[Finding], progress: Optional[Progress]
) -> list[Candidate]:
    times = [hit.setting.time for hit in hits]
    timed = bool(times) and all(time is not None for time in times) and len({hit.source for hit in hits}) > 1
    ordered = sorted(hits, key=lambda hit: (hit.setting.time or 0.0, *_place(hit))) if timed else list(hits)
    by_rule: dict[str, list[tuple[int, Hit]]] = {}
    for order, hit in enumerate(ordered):
        by_rule.setdefault(hit.rule, []).append((order, hit))
    places = {id(hit): order for order, hit in enumerate(ordered)}
    out = []
    for rule_id in sorted(by_rule):
        rule = pack.get(rule_id)
        assert rule is not None
        found = by_rule[rule_id]
        best = min(found, key=lambda pair: (pair[1].setting.code, pair[0]))
        first = [best[1], *(hit for _, hit in found if hit is not best[1])]
        sure = rule.rule.confidence * (0.5 if best[1].setting.code else 1.0)
        weight = sure * _ROLE_WEIGHT[rule.role] * _SEVERITY_WEIGHT[rule.rule.severity]
        over = rule.rule.severity is Severity.FATAL and all(went_on(hit, progress) for hit in first)
        if over:
            sure, weight = sure * _OVER, weight * _OVER
        code = _code(rule, best[1])
        out.append(Candidate(rule, tuple(first), weight, sure, places[id(best[1])], code=code, over=over))
    for finding in others:
        rule = pack.get(finding.rule)
        if rule is not None and rule.id not in by_rule:
            weight = finding.confidence * _ROLE_WEIGHT[rule.role] * _SEVERITY_WEIGHT[finding.severity]
            order = _order_of(finding, ordered)
            out.append(Candidate(rule, (), weight, finding.confidence, order, finding))
    return out


def _values_of_event(first: Hit, hits: Sequence[Hit]) -> dict[str, str]:
    """What the lines of one event hold together: the values of the first line, filled up from those near it."""
    values = dict(first.groups)
    for hit in hits:
        place = (hit.source, hit.rank) == (first.source, first.rank)
        if place and abs(hit.line - first.line) <= _ONE_EVENT:
            values = {**hit.groups, **values}
    return values


def _code(rule: TextRule, hit: Hit) -> Optional[Code]:
    """What the code that a hit captured means, for a rule with a table."""
    if rule.table is None:
        return None
    from doctor.match.tables import lookup

    return lookup(rule.table, _code_captured(hit) or "")


def _code_captured(hit: Hit) -> Optional[str]:
    """The code in a line; of an NPU event that is printed by its parts, the id that they make up: 0x80000000, the
    type of the node from bit 17, the type of the sensor from bit 9, the state in the bits below."""
    code, node, sensor = (hit.groups.get(name) for name in ("code", "node", "sensor"))
    if code or not node or not sensor:
        return code
    try:
        parts = [int(part, 0) for part in (node, sensor, hit.groups.get("state") or "0")]
    except ValueError:
        return None
    return f"0x{(0x80000000 | parts[0] << 17 | parts[1] << 9 | parts[2]) & 0xFFFFFFFF:08x}"


def _order_of(finding: Finding, ordered: Sequence[Hit]) -> int:
    """The place among the hits at which a finding made elsewhere begins."""
    place = finding.place
    if place is None or place.line is None:
        return len(ordered)
    return sum(1 for hit in ordered if hit.source == place.source and hit.line < place.line)


def _explains(cause: Candidate, effect: Candidate) -> bool:
    if _says(cause, effect):
        return not _says(effect, cause) or (cause.order, cause.rule.id) < (effect.order, effect.rule.id)
    if _says(effect, cause):
        return False
    if cause.weight < 0.25 * effect.weight or not _can_precede(cause, effect):
        return False
    if _same_line(cause, effect) and effect.rule.table is not None and cause.rule.table is None:
        return _ROLE_ORDER.index(cause.rule.role) <= _ROLE_ORDER.index(effect.rule.role)
    higher = _ROLE_ORDER.index(cause.rule.role) - _ROLE_ORDER.index(effect.rule.role)
    if higher:
        return higher < 0 and cause.rule.rule.severity.at_least(Severity.ERROR)
    brings = _BRINGS.get(cause.category, frozenset())
    return effect.category in brings and cause.order <= effect.order


def _same_line(one: Candidate, other: Candidate) -> bool:
    """Whether both stand on one line: a rule made for the line then says more than one that looks a code up."""
    first, second = one.first, other.first
    return first is not None and second is not None and (first.source, first.line) == (second.source, second.line)


def _says(cause: Candidate, effect: Candidate) -> bool:
    named = cause.rule.rule.explains
    rule = effect.rule.rule
    if rule.id in named or rule.name in named:
        return True
    return effect.category in named and effect.category != cause.category


def _can_precede(cause: Candidate, effect: Candidate) -> bool:
    """A cause does not come long after its effect; a little after is how buffered and native logs are written."""
    first, then = cause.first, effect.first
    if first is None or then is None:
        return True
    if first.setting.time is not None and then.setting.time is not None:
        return first.setting.time <= then.setting.time + _BUFFERED_SECONDS
    if first.source == then.source and first.rank == then.rank:
        return first.line <= then.line + _BUFFERED_LINES
    return True


def _likelihood(item: Candidate) -> tuple[int, int, float, int, str]:
    span = item.first.span if item.first else 0
    return (
        -int(item.weight / _BAND),
        item.order if not item.first else item.first.line,
        -item.weight,
        -span,
        item.rule.id,
    )


def _all_explained(item: Candidate, causes: Mapping[str, Sequence[Candidate]]) -> tuple[str, ...]:
    """Ids of everything that follows from a candidate, directly or not, in the order of the text."""
    seen: dict[str, int] = {}
    todo = [item.rule.id]
    while todo:
        for other in causes.get(todo.pop(), ()):
            if other.rule.id not in seen and other.rule.id != item.rule.id:
                seen[other.rule.id] = other.order
                todo.append(other.rule.id)
    return tuple(sorted(seen, key=lambda key: (seen[key], key)))


def _finding(
    item: Candidate, sure: float, root: bool, consequences: tuple[str, ...], out: tuple[Text, ...], count: int
) -> Finding:
    confidence = round(max(0.05, min(0.99, sure if item.finding is None else min(sure, item.finding.confidence))), 2)
    if item.finding is not None:
        return item.finding.with_(confidence=confidence, root_cause=root, explains=consequences, ruled_out=out)
    first = item.hits[0]
    more: dict[str, Value] = {"line": first.line, "count": max(count, len(item.hits))}
    if first.rank is not None:
        more["rank"] = first.rank
    code = _code_captured(first)
    if code and "code" not in first.groups:
        more["code"] = code
    evidence = [evidence_of(hit) for hit in item.hits[:_MOST_EVIDENCE]]
    found = finding_of(item.rule, values_of(item.rule, _values_of_event(first, item.hits), **more), evidence, item.code)
    if item.over:
        found = found.with_(severity=Severity.WARNING, message=found.message + _WENT_ON)
    return found.with_(confidence=confidence, root_cause=root, explains=consequences, ruled_out=out)


def finding_of(
    rule: TextRule, values: Mapping[str, Value], evidence: Iterable[Evidence] = (), code: Optional[Code] = None
) -> Finding:
    """A finding of a text rule with its texts filled; `code` is what a captured code means."""
    base = rule.rule
    if rule.table is not None:
        unknown = Text("not in the tables", "不在错误码表中")
        values = {
            "meaning": code.meaning if code else unknown,
            "action": code.action if code else Text("", ""),
            **values,
        }
    command = filled_line(rule.command, values) if rule.command else (code.command if code else None)
    fix = Fix(
        filled(base.fix, values),
        command=command or None,
        verify=filled_line(base.verify, values) if base.verify else None,
    )
    return Finding(
        rule=base.id,
        name=base.name,
        severity=base.severity,
        category=code.category if code else base.category,
        title=filled(base.title, values),
        message=filled(base.why, values),
        confidence=base.confidence,
        evidence=tuple(evidence),
        fixes=(fix,),
        references=base.references,
    )


def evidence_of(hit: Hit) -> Evidence:
    text = visible(decode(hit.text).strip(), 400)
    return Evidence("log", hit.source, line=hit.line, offset=hit.offset, text=text, rank=hit.rank)


def ruled_out(root: Candidate, rest: Sequence[Candidate], aside: Sequence[Aside], pack: Pack) -> tuple[Text, ...]:
    """Why what else stands in the text is not the answer."""
    out: list[Text] = []
    for item in rest[:4]:
        if item.first is not None and item.rule.id != root.rule.id:
            name, line = item.rule.rule.name, item.first.line
            out.append(Text(f"{name} (line {line}): a consequence", f"{name}（第 {line} 行）：属于后果，不是根因"))
    out.extend(item.text(pack) for item in aside[:4])
    return tuple(out)
