"""The commands as functions: the same findings, as objects.

>>> from doctor import check, explain, watch
>>> report = check("config.yaml", devices=8)        # check() judges this machine
>>> [finding.rule for finding in report.findings]
>>> explain("EI0006").findings[0].message.en
>>> watch("output/").verdict                        # reads to the end, as --once does
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Union

from doctor.report.model import Report

PathLike = Union[str, "os.PathLike[str]"]


def check(*targets: PathLike, only: tuple[str, ...] = (), ignore: tuple[str, ...] = (), **options: Any) -> Report:
    """Judges configs, weights, data sets or run folders; without a target this machine.

    `options` are the fields of `doctor.check.Options` (devices, mindformers, weights, …).
    Raises UsageError when a target cannot be read.
    """
    from doctor import runner
    from doctor.check import Options
    from doctor.commands.check import build_report
    from doctor.commands.folders import is_run, judge_run

    selection = runner.Selection(only, ignore)
    chosen = Options(**options)
    judged: list[runner.Judged] = []
    for path in map(Path, targets):
        judged += judge_run(path, chosen, selection) if is_run(path) else [runner.judge_path(path, chosen, selection)]
    return build_report(judged or [runner.judge_host(chosen, selection)])


def explain(text: Union[str, bytes]) -> Report:
    """The cause of an error text, a code or a rule id; ``unknown`` is set when nothing fits."""
    from doctor.commands.explain import build_report

    return build_report(text)


def watch(*paths: PathLike) -> Report:
    """Reads the logs of a run, or a bundle of one, to their end and gives what was found."""
    from doctor.commands.watching import report_of
    from doctor.match.pack import load_pack
    from doctor.records.packed import opened_all
    from doctor.session import DiagnosisSession
    from doctor.session.reading import read_run

    session = DiagnosisSession(load_pack())
    with opened_all([os.fspath(path) for path in paths]) as inside:
        read_run(session, inside, lambda event: None)
        return report_of(session)
