"""The lines on which rules were found: those that are kept, which of them failed a process, and what they mean together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from doctor.finding import Finding, Severity
from doctor.match.aside import Progress, only_warns, sift
from doctor.match.pack import Pack
from doctor.match.reason import reason
from doctor.match.scan import Hit, Tally
from doctor.session.traces import Traces

#: hits that are kept for reasoning; a run that fails a thousand times over fails for the first reasons
MOST_HITS = 4000
#: but as many of each rule, whatever came before
RARE = 8
#: categories of errors that say that a peer did not come
_WAITS = frozenset(("hccl-timeout", "network-link"))


class Kept:
    """`traces` hear of each line that says that its process failed."""

    def __init__(self, pack: Pack, traces: Traces) -> None:
        self.pack = pack
        self.traces = traces
        self.hits: list[Hit] = []
        #: rule -> hits of it that are kept
        self._of_rule: dict[str, int] = {}

    def add(self, hits: Iterable[Hit]) -> None:
        for hit in hits:
            rule = self.pack.get(hit.rule)
            if rule is not None and self._is_error(hit):
                waits = rule.rule.category in _WAITS
                # What a symptom says is not yet why the process failed.
                if waits or rule.role == "cause":
                    self.traces.said(hit.source, hit.rank, waits)
            # Of a thousand ranks that all complain the one with the cause may come last.
            kept = self._of_rule.get(hit.rule, 0)
            if len(self.hits) < MOST_HITS or kept < RARE:
                self.hits.append(hit)
                self._of_rule[hit.rule] = kept + 1

    def failures(self, progress: Progress) -> Iterator[Hit]:
        """The lines that say that their process failed, and were not contradicted by the steps behind them."""
        kept, _ = sift(self.hits, self.pack, progress)
        return filter(self._is_error, kept)

    def reasoned(
        self, alarms: Sequence[Finding], progress: Progress, tallies: Mapping[tuple[str, str], Tally]
    ) -> tuple[Finding, ...]:
        """What the lines mean together with what the numbers raised, the likeliest cause first; `tallies` are the scanner's."""
        counts: dict[str, int] = {}
        for (rule, _), tally in tallies.items():
            counts[rule] = counts.get(rule, 0) + tally.count
        found = reason(self.hits, self.pack, alarms, progress, counts)
        follows = {rule for finding in found for rule in finding.explains}
        # Two faults of the numbers that have nothing to do with each other are two causes.
        return tuple(
            finding.with_(root_cause=True) if finding.rule[:4] == "RUN-" and finding.rule not in follows else finding
            for finding in found
        )

    def _is_error(self, hit: Hit) -> bool:
        """Whether a line says that its process failed: one that warns, as of a link that is tried again, does not."""
        rule = self.pack.get(hit.rule)
        return rule is not None and rule.rule.severity.at_least(Severity.ERROR) and not only_warns(hit, self.pack)
