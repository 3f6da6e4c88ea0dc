"""MindFormers 2.x checkpoints: do the side files and the pieces make up a whole?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from doctor.check import Skip, check
from doctor.checks.weights.subject import Weights
from doctor.checks.words import ranges, shape, some
from doctor.finding import Evidence, Finding, Severity, Text
from doctor.rule import Rule

if TYPE_CHECKING:
    from doctor.formats.iteration import Iteration


def iteration_of(subject: Weights) -> Iteration:
    if subject.set.iteration is None:
        raise Skip(Text("this is no checkpoint of MindFormers 2.x", "不是 MindFormers 2.x 的权重目录"))
    return subject.set.iteration


@check(
    Rule(
        id="WGT-ITER-001",
        name="iteration-tracker-wrong",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text("latest_checkpointed_iteration.txt is of no use", "latest_checkpointed_iteration.txt 不可用"),
        why=Text(
            "{what}; iterations {there} are in the folder. Loading stops with 'No tracker file found' or 'Can not find the "
            "latest iteration weight path'.",
            "{what_zh}；目录中有 iteration {there}。加载会报 No tracker file found 或 Can not find the latest iteration weight path。",
        ),
        fix=Text(
            "Write the number of the newest whole iteration into it: echo {newest} > {file}",
            "将最新完整迭代的编号写入：echo {newest} > {file}",
        ),
        verify="doctor check {path}",
    )
)
def tracker(subject: Weights) -> Iterator[Finding]:
    found = subject.set.tracker
    if found is None:
        raise Skip(
            Text("one iteration was given, the tracker is in the folder above", "给出的是单个迭代，跟踪文件在上级目录")
        )
    if found.problem is not None:
        yield tracker.finding(
            evidence=(Evidence("file", str(found.path), observed=found.said, note=found.problem),),
            what=found.problem.en,
            what_zh=found.problem.zh,
            there=ranges(found.there),
            newest=max(found.there),
            file=found.path,
            path=subject.path,
        )


@check(
    Rule(
        id="WGT-ITER-002",
        name="iteration-record-broken",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text("{name} of the checkpoint cannot be used", "权重目录的 {name} 不可用"),
        why=Text("{name}: {what}.", "{name}：{what_zh}。"),
        fix=Text("Copy the iteration again from where it was saved.", "从保存处重新拷贝该迭代目录。"),
        verify="doctor check {path}",
    )
)
def iteration_record(subject: Weights) -> Iterator[Finding]:
    found = iteration_of(subject)
    problems = list(found.problems)
    if found.common is None and not any(name == "common.json" for name, _ in problems):
        problems.append(
            (
                "common.json",
                Text(
                    "it is not there, so the run cannot be resumed (No common.json found)",
                    "文件不存在，无法断点续训（No common.json found）",
                ),
            )
        )
    for name, what in problems:
        yield iteration_record.finding(
            evidence=(Evidence("file", str(found.folder / name), note=what),),
            name=name,
            what=what.en,
            what_zh=what.zh,
            path=subject.path,
        )


@check(
    Rule(
        id="WGT-ITER-003",
        name="pieces-do-not-cover-parameter",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text("{count} parameters are not there in full", "有 {count} 个参数不完整"),
        why=Text(
            "{names}: metadata.json describes {whole}, the pieces in the files hold {pieces} elements of it.",
            "{names_zh}：metadata.json 中形状为 {whole}，文件中的切片只含 {pieces} 个元素。",
        ),
        fix=Text("Copy the files of every node into one folder.", "将各节点的文件都拷贝到同一目录。"),
        verify="doctor check {path}",
    )
)
def pieces(subject: Weights) -> Iterator[Finding]:
    found = iteration_of(subject)
    if not found.wholes:
        raise Skip(Text("there is no metadata.json", "没有 metadata.json"))
    short = []
    for name, whole in found.wholes.items():
        total = 1
        for length in whole.shape:
            total *= length
        if whole.pieces and whole.covered < total:
            short.append((name, whole))
    if short:
        names = some([name for name, _ in short])
        first = short[0][1]
        yield pieces.finding(
            evidence=[Evidence("file", str(found.folder / "metadata.json"), key=name) for name, _ in short[:5]],
            count=len(short),
            names=names.en,
            names_zh=names.zh,
            whole=shape(first.shape),
            pieces=first.covered,
            path=subject.path,
        )
