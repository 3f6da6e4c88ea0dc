"""What else stands in the folder of the weights?"""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import check
from doctor.checks.weights.subject import Weights
from doctor.checks.words import some
from doctor.finding import Evidence, Finding, Severity, Text
from doctor.rule import Rule


@check(
    Rule(
        id="WGT-FILE-014",
        name="save-left-unfinished",
        severity=Severity.WARNING,
        category="ckpt-format",
        title=Text("{count} unfinished files beside the weights", "权重旁有 {count} 个未完成的文件"),
        why=Text(
            "{names}: a save or a download was interrupted. MindSpore removes the old file before the new one is "
            "whole, so the last good checkpoint may be gone.",
            "{names_zh}：保存或下载被中断。MindSpore 会先删除旧文件再写新文件，上一个完好的权重可能已丢失。",
        ),
        fix=Text(
            "Check that the newest complete file is the one you mean, then delete the leftovers.",
            "确认最新的完整文件就是需要的那个，然后删除残留文件。",
        ),
        verify="doctor check {path}",
    )
)
def leftovers(subject: Weights) -> Iterator[Finding]:
    found = subject.set.leftovers
    if found:
        names = some([path.name for path in found])
        yield leftovers.finding(
            evidence=[Evidence("file", str(path)) for path in found[:5]],
            count=len(found),
            names=names.en,
            names_zh=names.zh,
            path=subject.path,
        )


@check(
    Rule(
        id="WGT-FILE-020",
        name="two-sets-in-one-folder",
        severity=Severity.INFO,
        category="ckpt-format",
        title=Text("Other weights stand in the same folder", "同一目录中还有其他权重"),
        why=Text(
            "{chosen} is judged here, as a loader would take it; {names} are left aside. MindFormers' conversion takes the "
            "first or newest file of the folder.",
            "此处按加载程序的选择检查 {chosen}；{names_zh} 未参与。MindFormers 转换时取目录中的第一个或最新文件。",
        ),
        fix=Text("Keep one set in a folder, or name the file.", "每个目录只放一套权重，或直接指定文件。"),
        verify="doctor check {path}",
    )
)
def two_sets(subject: Weights) -> Iterator[Finding]:
    others = [file for file in subject.set.others if file.readable]
    if not others or not subject.set.files:
        return
    names = some(file.path.name for file in others)
    yield two_sets.finding(
        evidence=[Evidence("file", str(file.path), observed=file.format) for file in others[:5]],
        chosen=subject.set.files[0].path.name,
        names=names.en,
        names_zh=names.zh,
        path=subject.path,
    )
