"""One fault is one incident, however many ranks say it and however often: alarms become findings here."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Optional

from doctor.detect.alarm import Alarm
from doctor.finding import Evidence, Finding, Severity, Text
from doctor.match.pack import Pack
from doctor.match.reason import finding_of
from doctor.match.words import Value, values_of

#: who raised an alarm: log and rank; comparisons of ranks have a log of their own name
Origin = tuple[str, Optional[int]]

MOST_EVIDENCE = 6
#: incidents that are over and still told of at the end
MOST_CLOSED = 50
_SPACES = re.compile(r"  +")


@dataclass(frozen=True)
class Event:
    """`kind` is opened, updated or resolved; `times` how often the fault has come by now, over what was resolved between."""

    kind: str
    finding: Finding
    times: int = 1

    @property
    def is_news(self) -> bool:
        """Whether a reader wants to hear of it: of what comes again and again the first three times, then the 5th, 10th,
        20th, 50th, 100th and so on."""
        digits = str(self.times)
        return self.times <= 3 or (digits[0] in "125" and not digits[1:].strip("0"))

    def to_dict(self, lang: str) -> dict[str, object]:
        again = {} if self.times == 1 else {"times": self.times}
        return {"event": self.kind, **again, "finding": self.finding.to_dict(lang)}


@dataclass
class Incident:
    """A rule and everyone who raises it."""

    rule: str
    alarms: dict[Origin, Alarm] = field(default_factory=dict)

    def primary(self) -> tuple[Origin, Alarm]:
        """The earliest by step, then the lowest rank: the one that a reader should look at first."""
        return min(self.alarms.items(), key=_earliest)

    def evidence(self) -> tuple[Evidence, ...]:
        """The primary's own lines, then one of each further rank."""
        origin, alarm = self.primary()
        found = list(alarm.evidence)
        ranks = {origin[1]}
        for other, more in sorted(self.alarms.items(), key=_earliest):
            if other[1] not in ranks and more.evidence and len(found) < MOST_EVIDENCE:
                ranks.add(other[1])
                found.append(more.evidence[0])
        return tuple(found)


def _earliest(item: tuple[Origin, Alarm]) -> tuple[float, int, str]:
    (source, rank), alarm = item
    onset = float("inf") if alarm.onset is None else float(alarm.onset)
    return (onset, -1 if rank is None else rank, source)


class Incidents:
    """Takes alarms, gives events; knows what is open and what is over."""

    def __init__(self, pack: Pack) -> None:
        self.pack = pack
        self._open: dict[str, Incident] = {}
        self._times: Counter[str] = Counter()
        self._closed: deque[Finding] = deque(maxlen=MOST_CLOSED)

    def take(self, origin: Origin, alarm: Alarm) -> Iterator[Event]:
        """The event of an alarm, or none when another rank has said the same already."""
        if self.pack.get(alarm.rule) is None:
            return
        incident = self._open.get(alarm.rule)
        if alarm.kind == "resolved":
            if incident is not None and origin in incident.alarms:
                incident.alarms[origin] = alarm
                yield from self._close(incident, origin)
            return
        if incident is None:
            incident = self._open[alarm.rule] = Incident(alarm.rule, {origin: alarm})
            self._times[alarm.rule] += 1
            yield Event("opened", self.finding(incident), self._times[alarm.rule])
            return
        known = incident.alarms.get(origin)
        before = incident.primary()[0]
        incident.alarms[origin] = alarm
        if known is not None or incident.primary()[0] != before:
            yield Event("updated", self.finding(incident), self._times[alarm.rule])

    def _close(self, incident: Incident, origin: Origin) -> Iterator[Event]:
        if len(incident.alarms) > 1:
            del incident.alarms[origin]
            return
        del self._open[incident.rule]
        finding = self.finding(incident).with_(severity=Severity.INFO)
        self._closed.append(finding)
        yield Event("resolved", finding, self._times[incident.rule])

    def forget(self, origin: Origin) -> None:
        """Takes back what `origin` has raised and not resolved: another log speaks for it from now on."""
        for rule in list(self._open):
            alarms = self._open[rule].alarms
            alarms.pop(origin, None)
            if not alarms:
                del self._open[rule]

    def onset(self, rule: str) -> Optional[int]:
        incident = self._open.get(rule)
        return incident.primary()[1].onset if incident is not None else None

    def open(self) -> list[Finding]:
        return [self._counted(self.finding(self._open[rule])) for rule in sorted(self._open)]

    def closed(self) -> list[Finding]:
        """What was over before the end, each rule once, the first of it."""
        seen: dict[str, Finding] = {}
        for finding in self._closed:
            seen.setdefault(finding.rule, finding)
        return [self._counted(seen[rule]) for rule in sorted(seen) if rule not in self._open]

    def _counted(self, finding: Finding) -> Finding:
        times = self._times[finding.rule]
        if times < 2:
            return finding
        en, zh = finding.message.en, finding.message.zh
        return finding.with_(message=Text(f"{en} It came {times} times in all.", f"{zh}共出现 {times} 次。"))

    def finding(self, incident: Incident) -> Finding:
        rule = self.pack.get(incident.rule)
        assert rule is not None
        origin, alarm = incident.primary()
        values: dict[str, Value] = {
            name: value if isinstance(value, (str, int, Text)) else str(value) for name, value in alarm.values
        }
        if origin[1] is not None:
            values.setdefault("rank", origin[1])
        finding = finding_of(rule, values_of(rule, {}, **values), incident.evidence())
        finding = finding.with_(title=_tidy(finding.title), message=_tidy(alarm.message or finding.message))
        if alarm.severity is not None:
            finding = finding.with_(severity=alarm.severity)
        if alarm.confidence is not None:
            finding = finding.with_(confidence=alarm.confidence)
        return finding


def _tidy(text: Text) -> Text:
    """Parts of a sentence that had nothing to say leave double spaces."""
    return Text(_SPACES.sub(" ", text.en).strip(), _SPACES.sub(" ", text.zh).strip())
