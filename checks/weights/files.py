"""Is each file whole, and is it what its name says?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from doctor.check import Skip, check
from doctor.checks.weights.subject import Weights
from doctor.checks.words import size, some
from doctor.escape import visible
from doctor.finding import Evidence, Finding, Severity, Text
from doctor.formats.tensor import Kind, Problem
from doctor.rule import Rule

#: Checksums of files up to this many bytes together are compared without being asked for.
CHECKED_UNASKED = 256_000_000
_AGAIN = Text(
    "Copy or download {name} again and compare its size and checksum with the source.",
    "重新拷贝或下载 {name}，并与源文件核对大小和校验和。",
)


def _evidence(problem: Problem) -> Evidence:
    return Evidence(
        kind="file",
        source=str(problem.path),
        offset=problem.offset,
        key=problem.tensor if problem.tensor is None else visible(problem.tensor, 200),
        text=visible(problem.detail.en, 200) or None,
        observed=problem.observed,
        expected=problem.expected,
    )


def _detail(problem: Problem) -> dict[str, str]:
    return {"detail": visible(problem.detail.en, 200), "detail_zh": visible(problem.detail.zh, 200)}


def _by_file(subject: Weights, *kinds: Kind) -> Iterator[tuple[Path, list[Problem]]]:
    """Problems of these kinds, one group a file, in the order of the file names."""
    groups: dict[Path, list[Problem]] = {}
    for problem in subject.set.problems:
        if problem.kind in kinds:
            groups.setdefault(problem.path, []).append(problem)
    for path in sorted(groups):
        yield path, groups[path]


def _names(problems: Iterable[Problem]) -> Text:
    return some([problem.tensor for problem in problems if problem.tensor is not None])


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
        fix=_AGAIN,
        verify="doctor check {path}",
    )
)
def empty(subject: Weights) -> Iterator[Finding]:
    for path, problems in _by_file(subject, Kind.EMPTY):
        yield empty.finding(evidence=map(_evidence, problems), name=path.name, path=path)


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
        fix=_AGAIN,
        verify="doctor check {path}",
    )
)
def truncated(subject: Weights) -> Iterator[Finding]:
    for path, problems in _by_file(subject, Kind.TRUNCATED):
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
            evidence=map(_evidence, problems[:5]),
            name=path.name,
            path=path,
            **_detail(first),
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
        fix=_AGAIN,
        verify="doctor check {path}",
    )
)
def corrupt(subject: Weights) -> Iterator[Finding]:
    for path, problems in _by_file(subject, Kind.HEADER, Kind.HOSTILE):
        yield corrupt.finding(
            evidence=map(_evidence, problems[:5]),
            name=path.name,
            path=path,
            **_detail(problems[0]),
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
            "cloned without Git LFS.",
            "{name} 只有 {observed} 字节文本，指向真正的 {expected} 文件：克隆仓库时没有启用 Git LFS。",
        ),
        fix=Text(
            "In that folder run: git lfs install && git lfs pull", "在该目录执行：git lfs install && git lfs pull"
        ),
        verify="doctor check {path}",
    )
)
def lfs_pointer(subject: Weights) -> Iterator[Finding]:
    for path, problems in _by_file(subject, Kind.LFS_POINTER):
        real = problems[0].expected
        yield lfs_pointer.finding(
            evidence=map(_evidence, problems),
            name=path.name,
            path=path,
            observed=problems[0].observed,
            expected=size(real) if isinstance(real, int) else "?",
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
    for path, problems in _by_file(subject, Kind.NOT_WEIGHTS, Kind.WEB_PAGE, Kind.ZEROED, Kind.FOREIGN):
        what = _what_it_is(problems[0])
        yield not_weights.finding(
            evidence=map(_evidence, problems), name=path.name, path=path, what=what.en, what_zh=what.zh
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
        id="WGT-FILE-007",
        name="tensor-bytes-mismatch",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text("{count} tensors of {name} have the wrong number of bytes", "{name} 中 {count} 个张量的字节数不对"),
        why=Text(
            "{tensor} is {detail}: {expected} bytes by shape and type, {observed} are stored. The header and the data "
            "were not written together.",
            "{tensor} 为 {detail_zh}：按形状和类型应为 {expected} 字节，实际存储 {observed} 字节。文件头与数据不匹配。",
        ),
        fix=_AGAIN,
        verify="doctor check {path}",
    )
)
def tensor_bytes(subject: Weights) -> Iterator[Finding]:
    for path, problems in _by_file(subject, Kind.SIZE):
        first = problems[0]
        yield tensor_bytes.finding(
            evidence=map(_evidence, problems[:5]),
            name=path.name,
            path=path,
            count=len(problems),
            tensor=visible(first.tensor or "", 120),
            **_detail(first),
            expected=first.expected,
            observed=first.observed,
        )


@check(
    Rule(
        id="WGT-FILE-008",
        name="tensor-layout-broken",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text("Tensors of {name} overlap or leave gaps", "{name} 中张量的位置重叠或有空洞"),
        why=Text(
            "{tensor}: {detail}. {count} tensors are affected; a loader refuses the file, or reads one tensor's bytes "
            "as another's.",
            "{tensor}：{detail_zh}。共 {count} 个张量受影响；加载会被拒绝，或把一个张量的数据读成另一个。",
        ),
        fix=_AGAIN,
        verify="doctor check {path}",
    )
)
def layout(subject: Weights) -> Iterator[Finding]:
    for path, problems in _by_file(subject, Kind.LAYOUT, Kind.SHAPE):
        first = problems[0]
        yield layout.finding(
            evidence=map(_evidence, problems[:5]),
            name=path.name,
            path=path,
            count=len(problems),
            tensor=visible(first.tensor or "", 120),
            **_detail(first),
        )


@check(
    Rule(
        id="WGT-FILE-009",
        name="tensor-type-unknown",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text("{name} holds tensors of a type no loader knows", "{name} 含有无法识别的数据类型"),
        why=Text(
            "{names}: {observed}. Neither MindSpore nor the format defines this type.",
            "{names_zh}：{observed}。MindSpore 与该格式均未定义此类型。",
        ),
        fix=Text(
            "Save the model again as bfloat16, float16 or float32.", "请以 bfloat16、float16 或 float32 重新保存。"
        ),
        verify="doctor check {path}",
    )
)
def unknown_type(subject: Weights) -> Iterator[Finding]:
    for path, problems in _by_file(subject, Kind.DTYPE):
        names = _names(problems)
        yield unknown_type.finding(
            evidence=map(_evidence, problems[:5]),
            name=path.name,
            path=path,
            names=names.en,
            names_zh=names.zh,
            observed=visible(str(problems[0].observed), 40),
        )


@check(
    Rule(
        id="WGT-FILE-010",
        name="tensor-name-twice",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text("{name} holds a tensor twice", "{name} 中有重名张量"),
        why=Text(
            "{names}: {detail}. Which one is loaded depends on the loader.",
            "{names_zh}：{detail_zh}。实际加载哪一个取决于加载程序。",
        ),
        fix=Text("Save the file again from the program that wrote it.", "用生成它的程序重新保存。"),
        verify="doctor check {path}",
    )
)
def name_twice(subject: Weights) -> Iterator[Finding]:
    for path, problems in _by_file(subject, Kind.DUPLICATE):
        names = _names(problems)
        yield name_twice.finding(
            evidence=map(_evidence, problems[:5]),
            name=path.name,
            path=path,
            names=names.en,
            names_zh=names.zh,
            **_detail(problems[0]),
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
    for path, problems in _by_file(subject, Kind.UNREADABLE):
        yield unreadable.finding(evidence=map(_evidence, problems), name=path.name, path=path, **_detail(problems[0]))


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
    for path, problems in _by_file(subject, Kind.CHANGED):
        yield still_written.finding(evidence=map(_evidence, problems), name=path.name, path=path)


@check(
    Rule(
        id="WGT-FILE-013",
        name="bytes-after-last-tensor",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text("{name} has bytes after its last tensor", "{name} 在最后一个张量之后还有多余字节"),
        why=Text(
            "{observed} bytes follow the last tensor. The safetensors library refuses such a file "
            "(MetadataIncompleteBuffer); it was appended to, or two downloads were joined.",
            "最后一个张量之后还有 {observed} 字节。safetensors 库会拒绝加载（MetadataIncompleteBuffer）；"
            "文件被追加过，或两次下载被拼接。",
        ),
        fix=_AGAIN,
        verify="doctor check {path}",
    )
)
def trailing(subject: Weights) -> Iterator[Finding]:
    for path, problems in _by_file(subject, Kind.TRAILING):
        yield trailing.finding(
            evidence=map(_evidence, problems), name=path.name, path=path, observed=problems[0].observed
        )


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
        id="WGT-FILE-015",
        name="pickle-runs-code",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text("Loading {name} would run code", "加载 {name} 会执行代码"),
        why=Text(
            "{detail}: a file of tensors has no reason to. It was read here without being executed.",
            "{detail_zh}：存放张量的文件不需要这样做。此处只解析、未执行。",
        ),
        fix=Text(
            "Do not load it. Get the model from its publisher, as safetensors if you can.",
            "不要加载它。请从发布者处获取模型，尽量使用 safetensors。",
        ),
        verify="doctor check {path}",
    )
)
def runs_code(subject: Weights) -> Iterator[Finding]:
    for path, problems in _by_file(subject, Kind.CODE):
        yield runs_code.finding(evidence=map(_evidence, problems), name=path.name, path=path, **_detail(problems[0]))


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
        fix=_AGAIN,
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
                evidence=(_evidence(problem),),
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
    for path, problems in _by_file(subject, Kind.ENCRYPTED):
        yield encrypted.finding(evidence=map(_evidence, problems), name=path.name, path=path)


@check(
    Rule(
        id="WGT-FILE-018",
        name="tensor-name-unprintable",
        severity=Severity.WARNING,
        category="ckpt-format",
        title=Text(
            "{count} tensor names hold control characters or are no names", "有 {count} 个张量名含控制字符或不合法"
        ),
        why=Text(
            "{names}: no framework writes such names; the file is damaged or made to confuse a terminal.",
            "{names_zh}：没有框架会写出这样的名称；文件已损坏，或意在干扰终端。",
        ),
        fix=Text("Get the model from its publisher again.", "重新从发布者处获取模型。"),
        verify="doctor check {path}",
    )
)
def unprintable(subject: Weights) -> Iterator[Finding]:
    wrong = [name for name in subject.set.tensors if not name.strip() or len(name) > 1000 or visible(name) != name]
    if wrong:
        names = some([name or "''" for name in wrong])
        yield unprintable.finding(
            evidence=[Evidence("value", str(subject.path), key=visible(name, 200)) for name in wrong[:5]],
            count=len(wrong),
            names=names.en,
            names_zh=names.zh,
            path=subject.path,
        )


@check(
    Rule(
        id="WGT-FILE-019",
        name="tensors-compressed",
        severity=Severity.WARNING,
        category="ckpt-format",
        title=Text("{name} was packed again with compression", "{name} 被重新压缩打包"),
        why=Text(
            "torch.save stores tensors uncompressed; {count} of this file are compressed and cannot be mapped or read at "
            "their place. An archive program wrote it anew.",
            "torch.save 不压缩张量；该文件有 {count} 个被压缩，无法直接映射读取。它被压缩软件重新打包过。",
        ),
        fix=Text("Use the original file.", "使用原始文件。"),
        verify="doctor check {path}",
    )
)
def compressed(subject: Weights) -> Iterator[Finding]:
    for path, problems in _by_file(subject, Kind.COMPRESSED):
        yield compressed.finding(evidence=map(_evidence, problems[:5]), name=path.name, path=path, count=len(problems))


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
