"""Is each file whole, and is it what its name says?"""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import Skip, check
from doctor.checks.weights.problems import AGAIN, by_file, detail_of, evidence_of
from doctor.checks.weights.subject import Weights
from doctor.checks.words import size
from doctor.finding import Evidence, Finding, Severity, Text
from doctor.formats.tensor import Kind, Problem
from doctor.rule import Rule

#: Checksums of files up to this many bytes together are compared without being asked for.
CHECKED_UNASKED = 256_000_000


@check(
    Rule(
        id="WGT-FILE-001",
        name="weight-file-empty",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text("{name} is empty", "{name} 是空文件"),
        why=Text(
            "{name} has 0 bytes: the copy or the save never wrote anything. MindSpore reports this misleadingly as "
            "an empty parameter dict after filter.",
            "{name} 为 0 字节：拷贝或保存时没有写入任何内容。MindSpore 会误导性地报“过滤后参数字典为空”。",
        ),
        fix=AGAIN,
        verify="doctor check {path}",
    )
)
def empty(subject: Weights) -> Iterator[Finding]:
    for path, problems in by_file(subject, Kind.EMPTY):
        yield empty.finding(evidence=map(evidence_of, problems), name=path.name, path=path)


@check(
    Rule(
        id="WGT-FILE-002",
        name="weight-file-truncated",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text("{name} is cut off", "{name} 不完整（被截断）"),
        why=Text(
            "{name}: {detail}. It holds {observed} of at least {expected}. The download, copy or save stopped early.",
            "{name}：{detail_zh}。文件只有 {observed}，至少应有 {expected}。下载、拷贝或保存中途停止。",
        ),
        fix=AGAIN,
        verify="doctor check {path}",
    )
)
def truncated(subject: Weights) -> Iterator[Finding]:
    for path, problems in by_file(subject, Kind.TRUNCATED):
        first = problems[0]
        expected = first.expected if isinstance(first.expected, int) else None
        observed = first.observed if isinstance(first.observed, int) else 0
        message = None
        if expected is None:
            message = Text(
                "{name} ends in the middle of its content at {observed}: {detail}. The download, copy or save "
                "stopped early.",
                "{name} 在 {observed} 处中断：{detail_zh}。下载、拷贝或保存中途停止。",
            )
        yield truncated.finding(
            message,
            evidence=map(evidence_of, problems[:5]),
            name=path.name,
            path=path,
            **detail_of(first),
            observed=size(observed),
            expected=size(expected or 0),
        )


@check(
    Rule(
        id="WGT-FILE-003",
        name="weight-header-corrupt",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text("The header of {name} cannot be read", "{name} 的文件头无法解析"),
        why=Text(
            "{name}: {detail}. The file is damaged, or a program wrote it that does not follow the format.",
            "{name}：{detail_zh}。文件已损坏，或写入它的程序不符合该格式。",
        ),
        fix=AGAIN,
        verify="doctor check {path}",
    )
)
def corrupt(subject: Weights) -> Iterator[Finding]:
    for path, problems in by_file(subject, Kind.HEADER, Kind.HOSTILE):
        yield corrupt.finding(
            evidence=map(evidence_of, problems[:5]),
            name=path.name,
            path=path,
            **detail_of(problems[0]),
        )


@check(
    Rule(
        id="WGT-FILE-004",
        name="weight-file-is-lfs-pointer",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text("{name} is a Git LFS pointer, not the weights", "{name} 只是 Git LFS 指针，不是权重本身"),
        why=Text(
            "{name} holds {observed} bytes of text that point to the real file of {expected}: the repository was "
            "cloned without Git LFS.{others}",
            "{name} 只有 {observed} 字节文本，指向真正的 {expected} 文件：克隆仓库时没有启用 Git LFS。{others_zh}",
        ),
        fix=Text(
            "In that folder run: git lfs install && git lfs pull", "在该目录执行：git lfs install && git lfs pull"
        ),
        verify="doctor check {path}",
    )
)
def lfs_pointer(subject: Weights) -> Iterator[Finding]:
    """One finding for all: the repository was cloned without Git LFS as a whole."""
    groups = list(by_file(subject, Kind.LFS_POINTER))
    if not groups:
        return
    path, problems = groups[0]
    real = problems[0].expected
    rest = len(groups) - 1
    yield lfs_pointer.finding(
        evidence=[evidence_of(found[0]) for _, found in groups[:5]],
        name=path.name,
        path=path if not rest else subject.path,
        observed=problems[0].observed,
        expected=size(real) if isinstance(real, int) else "?",
        others=f" {rest} more files are pointers too." if rest else "",
        others_zh=f"另有 {rest} 个文件也是指针。" if rest else "",
    )


@check(
    Rule(
        id="WGT-FILE-005",
        name="weight-file-not-weights",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text("{name} does not hold weights", "{name} 不是权重文件"),
        why=Text("{name}: {what}.", "{name}：{what_zh}。"),
        fix=Text(
            "Fetch {name} again from its source, or take it out of the folder.",
            "从源头重新获取 {name}，或将其移出该目录。",
        ),
        verify="doctor check {path}",
    )
)
def not_weights(subject: Weights) -> Iterator[Finding]:
    for path, problems in by_file(subject, Kind.NOT_WEIGHTS, Kind.WEB_PAGE, Kind.ZEROED, Kind.FOREIGN):
        what = _what_it_is(problems[0])
        yield not_weights.finding(
            evidence=map(evidence_of, problems), name=path.name, path=path, what=what.en, what_zh=what.zh
        )

    if not subject.set.tensors and not subject.set.missing:
        for file in subject.set.files:
            if file.readable and not file.problems and not file.scalars:
                yield not_weights.finding(
                    evidence=(Evidence("file", str(file.path), observed=Text("no tensors", "没有张量")),),
                    name=file.path.name,
                    path=file.path,
                    what="it is whole and there is no tensor in it: the save was given an empty model or state",
                    what_zh="文件完整，但其中没有任何张量：保存时传入的模型或状态为空",
                )


def _what_it_is(problem: Problem) -> Text:
    if problem.kind is Kind.WEB_PAGE:
        return Text(
            "a web page or an error answer of a server was saved in its place (log-in, proxy, wrong address)",
            "保存下来的是网页或服务器错误信息（未登录、代理或地址错误）",
        )
    if problem.kind is Kind.ZEROED:
        return Text(
            "it begins with nothing but zero bytes, as after a power loss or a download that only reserved the room",
            "开头全是零字节，常见于断电或只预分配空间而未写入的下载",
        )
    if problem.kind is Kind.FOREIGN:
        return Text(f"its content is of another kind ({problem.detail.en})", f"内容是另一种类型（{problem.detail.zh}）")
    if problem.detail.en == "strategy":
        return Text(
            "it is a parallel strategy file, which has the extension .ckpt but holds no parameters",
            "它是并行策略文件，扩展名虽为 .ckpt，但不含参数",
        )
    return Text("its content is of no known weight format", "内容不属于任何已知的权重格式")


@check(
    Rule(
        id="WGT-FILE-006",
        name="weight-extension-wrong",
        severity=Severity.WARNING,
        category="ckpt-format",
        title=Text("{name} holds {format}, not what its name says", "{name} 的内容是 {format}，与扩展名不符"),
        why=Text(
            "Loaders choose the reader by the extension: {name} will be refused, or reported as damaged, though it is a "
            "readable {format} file.",
            "加载时按扩展名选择解析方式：{name} 会被拒绝或误报损坏，尽管它是可读的 {format} 文件。",
        ),
        fix=Text("Rename it to {wanted}.", "改名为 {wanted}。"),
        verify="doctor check {path}",
    )
)
def extension(subject: Weights) -> Iterator[Finding]:
    suffixes = {
        "safetensors": (".safetensors",),
        "ckpt": (".ckpt",),
        "torch": (".bin", ".pth", ".pt", ".ckpt"),
        "torch-legacy": (".bin", ".pth", ".pt", ".ckpt"),
    }
    for file in subject.set.files:
        wanted = suffixes.get(file.format, ())
        if wanted and file.path.suffix.lower() not in wanted:
            yield extension.finding(
                evidence=(
                    Evidence("file", str(file.path), observed=file.format, expected=file.path.suffix.lstrip(".")),
                ),
                name=file.path.name,
                path=file.path,
                format=file.format,
                wanted=file.path.with_suffix(wanted[0]).name,
            )


@check(
    Rule(
        id="WGT-FILE-011",
        name="weight-file-unreadable",
        severity=Severity.ERROR,
        category="permissions",
        title=Text("{name} cannot be opened", "{name} 无法打开"),
        why=Text("{name}: {detail}.", "{name}：{detail_zh}。"),
        fix=Text(
            "Check owner and mode (MindSpore saves with mode 0400) and where links lead: ls -lL {path}",
            "检查属主、权限（MindSpore 保存的文件权限为 0400）以及软链接指向：ls -lL {path}",
        ),
        verify="doctor check {path}",
    )
)
def unreadable(subject: Weights) -> Iterator[Finding]:
    for path, problems in by_file(subject, Kind.UNREADABLE):
        yield unreadable.finding(
            evidence=map(evidence_of, problems), name=path.name, path=path, **detail_of(problems[0])
        )


@check(
    Rule(
        id="WGT-FILE-012",
        name="weight-file-still-written",
        severity=Severity.WARNING,
        category="ckpt-format",
        title=Text("{name} changed while it was read", "读取过程中 {name} 发生了变化"),
        why=Text(
            "Its size or time changed between two looks: a download, a copy or a save is still going on.",
            "两次查看之间其大小或修改时间变化：下载、拷贝或保存仍在进行。",
        ),
        fix=Text("Wait until the writer has ended, then check again.", "等待写入结束后再检查。"),
        verify="doctor check {path}",
    )
)
def still_written(subject: Weights) -> Iterator[Finding]:
    for path, problems in by_file(subject, Kind.CHANGED):
        yield still_written.finding(evidence=map(evidence_of, problems), name=path.name, path=path)


@check(
    Rule(
        id="WGT-FILE-016",
        name="checksum-mismatch",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text("The content of {name} does not match its checksum", "{name} 的内容与校验和不符"),
        why=Text(
            "CRC-32 is {observed}, the file ends with {expected}: bytes changed after it was saved. MindSpore reports this "
            "misleadingly as 'May not have permission to read it'.",
            "CRC-32 为 {observed}，文件末尾记录为 {expected}：保存之后内容被改动。MindSpore 会误导性地报 May not have permission to read it。",
        ),
        fix=AGAIN,
        verify="doctor check --values {path}",
    )
)
def checksum(subject: Weights) -> Iterator[Finding]:
    with_sum = [file for file in subject.set.files if file.metadata.get("crc")]
    if not with_sum:
        raise Skip(Text("no file carries a checksum (crc_check)", "没有带校验和（crc_check）的文件"))
    if not subject.options.values and sum(file.size for file in with_sum) > CHECKED_UNASKED:
        raise Skip(Text("it reads the whole file; ask for it with --values", "需要读取整个文件；请加 --values"))
    from doctor.formats.ckpt import crc_problem

    for file in with_sum:
        problem = crc_problem(file.path)
        if problem is not None:
            yield checksum.finding(
                evidence=(evidence_of(problem),),
                name=file.path.name,
                path=file.path,
                observed=problem.observed,
                expected=problem.expected,
            )


@check(
    Rule(
        id="WGT-FILE-017",
        name="checkpoint-encrypted",
        severity=Severity.WARNING,
        category="ckpt-format",
        title=Text("{name} is encrypted", "{name} 已加密"),
        why=Text(
            "It was saved with enc_key; without dec_key and the right dec_mode MindSpore says that the file may be corrupted.",
            "它是用 enc_key 保存的；不提供 dec_key 和正确的 dec_mode 时，MindSpore 会报文件可能已损坏。",
        ),
        fix=Text(
            "Load it with dec_key and dec_mode and save it again without enc_key, to have it checked.",
            "用 dec_key、dec_mode 加载后不带 enc_key 重新保存，即可检查。",
        ),
        verify="doctor check {path}",
    )
)
def encrypted(subject: Weights) -> Iterator[Finding]:
    for path, problems in by_file(subject, Kind.ENCRYPTED):
        yield encrypted.finding(evidence=map(evidence_of, problems), name=path.name, path=path)
