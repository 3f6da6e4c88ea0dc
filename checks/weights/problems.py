"""What the readers found wrong with a file, as evidence and words for the checks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Optional

from doctor.checks.weights.subject import Weights
from doctor.checks.words import some
from doctor.escape import visible
from doctor.finding import Evidence, Text
from doctor.formats.tensor import Kind, Problem

AGAIN = Text(
    "Copy or download {name} again and compare its size and checksum with the source.",
    "重新拷贝或下载 {name}，并与源文件核对大小和校验和。",
)


def evidence_of(problem: Problem) -> Evidence:
    return Evidence(
        kind="file",
        source=str(problem.path),
        offset=problem.offset,
        key=problem.tensor if problem.tensor is None else visible(problem.tensor, 200),
        note=_note(problem),
        observed=problem.observed,
        expected=problem.expected,
    )


def _note(problem: Problem) -> Optional[Text]:
    return Text(visible(problem.detail.en, 200), visible(problem.detail.zh, 200)) if problem.detail.en else None


def detail_of(problem: Problem) -> dict[str, str]:
    return {"detail": visible(problem.detail.en, 200), "detail_zh": visible(problem.detail.zh, 200)}


def by_file(subject: Weights, *kinds: Kind) -> Iterator[tuple[Path, list[Problem]]]:
    """Problems of these kinds, one group a file, in the order of the file names."""
    groups: dict[Path, list[Problem]] = {}
    for problem in subject.set.problems:
        if problem.kind in kinds:
            groups.setdefault(problem.path, []).append(problem)
    for path in sorted(groups):
        yield path, groups[path]


def names_of(problems: Iterable[Problem]) -> Text:
    return some([problem.tensor for problem in problems if problem.tensor is not None])
