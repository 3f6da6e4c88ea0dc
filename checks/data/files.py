"""Can the data set be read, and is all of it there?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Optional

from doctor.check import Skip, check
from doctor.checks.data.subject import Data
from doctor.checks.words import NOT_THERE, size, some
from doctor.escape import visible
from doctor.finding import Evidence, Finding, Severity, Text
from doctor.formats.tensor import Kind, Problem
from doctor.rule import Rule

_AGAIN = Text("Write or copy {name} again.", "重新生成或拷贝 {name}。")


def evidence_of(problem: Problem) -> Evidence:
    """A file's fault; for lines of text `expected` holds the line number."""
    line = problem.expected if _is_text(problem.path) and isinstance(problem.expected, int) else None
    return Evidence(
        kind="file",
        source=str(problem.path),
        line=line,
        offset=problem.offset,
        note=_note(problem),
        observed=problem.observed,
        expected=None if line is not None else problem.expected,
    )


def _note(problem: Problem) -> Optional[Text]:
    return Text(visible(problem.detail.en, 200), visible(problem.detail.zh, 200)) if problem.detail.en else None


def _is_text(path: Path) -> bool:
    return path.suffix.lower() in {".jsonl", ".jsonlines", ".ndjson", ".txt"}


def _by_file(subject: Data, *kinds: Kind) -> Iterator[tuple[Path, list[Problem]]]:
    groups: dict[Path, list[Problem]] = {}
    for problem in subject.set.problems:
        if problem.kind in kinds:
            groups.setdefault(problem.path, []).append(problem)
    for path in sorted(groups):
        yield path, groups[path]


@check(
    Rule(
        id="DAT-FILE-001",
        name="data-file-empty",
        severity=Severity.ERROR,
        category="dataset",
        title=Text("{name} is empty", "{name} 是空文件"),
        why=Text(
            "{name} has 0 bytes: the program that wrote it ended before its first sample.",
            "{name} 为 0 字节：写入程序在写入首个样本前就结束了。",
        ),
        fix=_AGAIN,
        verify="doctor check {path}",
    )
)
def empty(subject: Data) -> Iterator[Finding]:
    for path, problems in _by_file(subject, Kind.EMPTY):
        yield empty.finding(evidence=map(evidence_of, problems), name=path.name, path=subject.path)


@check(
    Rule(
        id="DAT-FILE-002",
        name="data-file-truncated",
        severity=Severity.ERROR,
        category="dataset",
        title=Text("{name} is cut off", "{name} 不完整（被截断）"),
        why=Text(
            "{name}: {detail}{sizes}. Reading stops with an error at the first sample beyond, often hours into a run.",
            "{name}：{detail_zh}{sizes_zh}。读到缺失的样本时才报错，往往已训练数小时。",
        ),
        fix=_AGAIN,
        verify="doctor check {path}",
    )
)
def truncated(subject: Data) -> Iterator[Finding]:
    for path, problems in _by_file(subject, Kind.TRUNCATED):
        first = problems[0]
        both = isinstance(first.observed, int) and isinstance(first.expected, int) and not _is_text(path)
        yield truncated.finding(
            evidence=map(evidence_of, problems),
            name=path.name,
            path=subject.path,
            detail=first.detail.en,
            detail_zh=first.detail.zh,
            sizes=f" ({size(int(str(first.observed)))} of {size(int(str(first.expected)))})" if both else "",
            sizes_zh=f"（{size(int(str(first.observed)))}，应为 {size(int(str(first.expected)))}）" if both else "",
        )


@check(
    Rule(
        id="DAT-FILE-003",
        name="data-file-corrupt",
        severity=Severity.ERROR,
        category="dataset",
        title=Text("{name} cannot be read", "{name} 无法解析"),
        why=Text("{name}: {detail}{more}.", "{name}：{detail_zh}{more_zh}。"),
        fix=_AGAIN,
        verify="doctor check {path}",
    )
)
def corrupt(subject: Data) -> Iterator[Finding]:
    for path, problems in _by_file(subject, Kind.HEADER, Kind.HOSTILE, Kind.LAYOUT):
        first = problems[0]
        rest = len(problems) - 1
        yield corrupt.finding(
            evidence=map(evidence_of, problems[:5]),
            name=path.name,
            path=subject.path,
            detail=visible(first.detail.en, 200),
            detail_zh=visible(first.detail.zh, 200),
            more=f"; {rest} more lines like it" if rest else "",
            more_zh=f"；另有 {rest} 行类似" if rest else "",
        )


@check(
    Rule(
        id="DAT-FILE-004",
        name="mindrecord-index-missing",
        severity=Severity.ERROR,
        category="dataset",
        title=Text("{name} is not there", "缺少 {name}"),
        why=Text(
            "A MindRecord file needs the index of the same name with .db beside it; without it MindDataset says that the file "
            "could not be opened.",
            "MindRecord 文件旁必须有同名加 .db 的索引；缺少时 MindDataset 报文件无法打开。",
        ),
        fix=Text("Copy {name} from where the data set was made.", "从生成数据集的地方拷贝 {name}。"),
        verify="doctor check {path}",
    )
)
def index_missing(subject: Data) -> Iterator[Finding]:
    for path, problems in _by_file(subject, Kind.UNREADABLE):
        if path.suffix == ".db":
            yield index_missing.finding(evidence=map(evidence_of, problems), name=path.name, path=subject.path)


@check(
    Rule(
        id="DAT-FILE-005",
        name="mindrecord-renamed",
        severity=Severity.ERROR,
        category="dataset",
        title=Text("{name} was renamed", "{name} 被改过名"),
        why=Text(
            "Its index says that it belongs to {expected}. MindDataset stops with 'DB file can not match file'.",
            "其索引记录的文件名是 {expected}。MindDataset 会报 DB file can not match file。",
        ),
        fix=Text("Rename the file and its .db back to {expected}.", "将文件及其 .db 改回 {expected}。"),
        verify="doctor check {path}",
    )
)
def renamed(subject: Data) -> Iterator[Finding]:
    if subject.set.format != "mindrecord":
        raise Skip(Text("this is no MindRecord", "不是 MindRecord"))
    for path, problems in _by_file(subject, Kind.NAME):
        yield renamed.finding(
            evidence=map(evidence_of, problems), name=path.name, path=subject.path, expected=problems[0].expected
        )


@check(
    Rule(
        id="DAT-FILE-006",
        name="data-files-missing",
        severity=Severity.ERROR,
        category="dataset",
        title=Text("{count} files of the data set are not there", "数据集缺少 {count} 个文件"),
        why=Text(
            "{names} belong to it by its own header or by the name of its index.",
            "按文件头或索引名称，{names_zh} 属于该数据集。",
        ),
        fix=Text("Copy {names} beside the others.", "将 {names_zh} 拷贝到同一目录。"),
        verify="doctor check {path}",
    )
)
def files_missing(subject: Data) -> Iterator[Finding]:
    if subject.set.missing:
        names = some(subject.set.missing)
        folder = subject.set.files[0].parent if subject.set.files else subject.path
        yield files_missing.finding(
            evidence=[Evidence("file", str(folder / name), observed=NOT_THERE) for name in subject.set.missing[:5]],
            count=len(subject.set.missing),
            names=names.en,
            names_zh=names.zh,
            path=subject.path,
        )


@check(
    Rule(
        id="DAT-FILE-007",
        name="data-not-utf-8",
        severity=Severity.ERROR,
        category="dataset",
        title=Text("{name} is not UTF-8", "{name} 不是 UTF-8 编码"),
        why=Text(
            "{detail}{more}: {kind}. Tokenizers read UTF-8; other bytes become errors or wrong tokens.",
            "{detail_zh}{more_zh}：{kind_zh}。分词器按 UTF-8 读取，其他字节会报错或产生错误 token。",
        ),
        fix=Text(
            "Convert it: iconv -f {encoding} -t utf-8 {name} > NEW",
            "转换编码：iconv -f {encoding} -t utf-8 {name} > NEW",
        ),
        verify="doctor check {path}",
    )
)
def encoding(subject: Data) -> Iterator[Finding]:
    if subject.set.format == "mindrecord":
        raise Skip(Text("a MindRecord holds no raw text", "MindRecord 不含原始文本"))
    for path, problems in _by_file(subject, Kind.NAME):
        rest = len(problems) - 1
        wide = problems[0].observed == "utf-16"
        yield encoding.finding(
            encoding="utf-16" if wide else "gb18030",
            kind="written so by a program of Windows" if wide else "a file in GBK or with damaged bytes",
            kind_zh="由 Windows 程序写成" if wide else "文件是 GBK 编码或字节损坏",
            evidence=map(evidence_of, problems[:5]),
            name=path.name,
            path=subject.path,
            detail=problems[0].detail.en,
            detail_zh=problems[0].detail.zh,
            more=f" and {rest} more" if rest else "",
            more_zh=f"等 {rest + 1} 行" if rest else "",
        )


@check(
    Rule(
        id="DAT-FILE-008",
        name="index-and-data-disagree",
        severity=Severity.ERROR,
        category="dataset",
        title=Text("Index and data of {name} do not belong together", "{name} 的索引与数据不匹配"),
        why=Text(
            "{detail}: {observed} against {expected}. They were written by different runs.",
            "{detail_zh}：{observed} 与 {expected}。两者来自不同次写入。",
        ),
        fix=Text("Write both again in one run.", "在同一次运行中重新生成两者。"),
        verify="doctor check {path}",
    )
)
def disagree(subject: Data) -> Iterator[Finding]:
    for path, problems in _by_file(subject, Kind.SIZE, Kind.TRAILING):
        first = problems[0]
        yield disagree.finding(
            evidence=map(evidence_of, problems),
            name=path.name,
            path=subject.path,
            detail=first.detail.en,
            detail_zh=first.detail.zh,
            observed=first.observed,
            expected=first.expected,
        )


@check(
    Rule(
        id="DAT-FILE-009",
        name="data-path-not-ascii",
        severity=Severity.WARNING,
        category="dataset",
        title=Text("The path of the MindRecord is not ASCII", "MindRecord 路径含非 ASCII 字符"),
        why=Text(
            "{path} holds other characters; several releases of MindSpore cannot open such a MindRecord ('Failed to open file').",
            "{path} 含非 ASCII 字符；部分 MindSpore 版本无法打开（Failed to open file）。",
        ),
        fix=Text("Move the data set to a path of ASCII letters.", "将数据集移到纯 ASCII 路径。"),
        verify="doctor check {path}",
        confidence=0.6,
    )
)
def not_ascii(subject: Data) -> Iterator[Finding]:
    if subject.set.format != "mindrecord":
        raise Skip(Text("this is no MindRecord", "不是 MindRecord"))
    place = str(subject.set.files[0].resolve()) if subject.set.files else str(subject.path)
    if not place.isascii():
        yield not_ascii.finding(evidence=(Evidence("file", place),), path=place)


@check(
    Rule(
        id="DAT-FILE-010",
        name="data-unreadable",
        severity=Severity.ERROR,
        category="permissions",
        title=Text("{name} cannot be opened", "{name} 无法打开"),
        why=Text("{name}: {detail}.", "{name}：{detail_zh}。"),
        fix=Text("Check owner, mode and links: ls -lL {file}", "检查属主、权限和软链接：ls -lL {file}"),
        verify="doctor check {path}",
    )
)
def unreadable(subject: Data) -> Iterator[Finding]:
    for path, problems in _by_file(subject, Kind.UNREADABLE):
        if path.suffix != ".db":
            yield unreadable.finding(
                evidence=map(evidence_of, problems),
                name=path.name,
                file=path,
                path=subject.path,
                detail=problems[0].detail.en,
                detail_zh=problems[0].detail.zh,
            )


@check(
    Rule(
        id="DAT-FILE-011",
        name="data-sets-mixed",
        severity=Severity.ERROR,
        category="dataset",
        title=Text("{name} is of another data set", "{name} 属于另一个数据集"),
        why=Text(
            "{detail}. Files that are read together need the same columns; MindDataset stops when it meets the second.",
            "{detail_zh}。一起读取的文件必须列相同；MindDataset 读到第二个时会报错。",
        ),
        fix=Text("Keep each data set in a folder of its own.", "每个数据集单独放一个目录。"),
        verify="doctor check {path}",
    )
)
def mixed(subject: Data) -> Iterator[Finding]:
    for path, problems in _by_file(subject, Kind.DTYPE):
        detail = problems[0].detail
        yield mixed.finding(
            evidence=map(evidence_of, problems),
            name=path.name,
            path=subject.path,
            detail=visible(detail.en, 200),
            detail_zh=visible(detail.zh, 200),
        )
