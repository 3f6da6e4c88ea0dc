"""What ``doctor check`` says of the configuration that a run used, put beside what went wrong in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from doctor.errors import UsageError
from doctor.finding import Finding, Severity, Text

#: categories of a run's findings -> those of a config's that may be their cause, besides the same one
_RELATED = {
    "nan-overflow": ("loss-not-converging",),
    "loss-not-converging": ("nan-overflow", "dataset", "tokenizer"),
    "oom-device": ("parallel-strategy",),
    "config": ("loss-not-converging",),
    "hccl-timeout": ("parallel-strategy", "hccl-config"),
    "stall-hang": ("parallel-strategy",),
    "dataset": ("shape",),
    "shape": ("dataset", "parallel-strategy"),
}
#: warnings that are told of one finding
MOST = 2


def warnings_of(config: Path) -> tuple[Finding, ...]:
    """What the checks of a configuration find, errors first; nothing when it is none."""
    from doctor import runner
    from doctor.check import Options

    try:
        judged = runner.judge_path(config, Options())
    except UsageError:
        return ()
    except Exception:  # noqa: BLE001 - the boundary that keeps a bug of the checks from a watch that runs for weeks
        return ()
    return worth_telling(finding for outcome in judged.outcomes for finding in outcome.findings)


def worth_telling(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Causes that are warnings at least, errors first."""
    found = [finding for finding in findings if finding.root_cause and finding.severity.at_least(Severity.WARNING)]
    return tuple(sorted(found, key=lambda finding: (-finding.severity.rank, finding.rule)))


def forewarned(finding: Finding, warnings: Sequence[Finding], printed: bool = False) -> Finding:
    """The finding with the warnings that bear on it: their place in the config as evidence, their edit as a fix. `printed`:
    the configuration is the one that stands in the run's own log."""
    if not finding.severity.at_least(Severity.WARNING):
        return finding
    wanted = {finding.category, *_RELATED.get(finding.category, ())}
    bearing = [warning for warning in warnings if warning.category in wanted][:MOST]
    for warning in bearing:
        places = tuple(replace(item, rank=None) for item in warning.evidence[:1])
        where = "".join(f" ({item.source}:{item.line})" for item in places if item.line)
        said = Text(
            f" `doctor check` says of the configuration that the run printed: {warning.rule}{where}, {warning.title.en}."
            if printed
            else f" `doctor check` warned of this: {warning.rule}{where}, {warning.title.en}.",
            f"对日志中打印的配置，`doctor check` 的提示是：{warning.rule}{where}，{warning.title.zh}。"
            if printed
            else f"`doctor check` 对此有过提示：{warning.rule}{where}，{warning.title.zh}。",
        )
        finding = finding.with_(
            message=Text(finding.message.en + said.en, finding.message.zh + said.zh),
            evidence=(*finding.evidence, *places),
            fixes=(*finding.fixes, *warning.fixes[:1]),
        )
    return finding
