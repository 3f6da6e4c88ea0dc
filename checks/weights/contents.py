"""Do the tensors of a file agree with its header, and is there nothing in it that does not belong?"""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import check
from doctor.checks.weights.problems import AGAIN, by_file, detail_of, evidence_of, names_of
from doctor.checks.weights.subject import Weights
from doctor.checks.words import some
from doctor.escape import visible
from doctor.finding import Evidence, Finding, Severity, Text
from doctor.formats.tensor import Kind
from doctor.rule import Rule


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
        fix=AGAIN,
        verify="doctor check {path}",
    )
)
def tensor_bytes(subject: Weights) -> Iterator[Finding]:
    for path, problems in by_file(subject, Kind.SIZE):
        first = problems[0]
        yield tensor_bytes.finding(
            evidence=map(evidence_of, problems[:5]),
            name=path.name,
            path=path,
            count=len(problems),
            tensor=visible(first.tensor or "", 120),
            **detail_of(first),
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
        fix=AGAIN,
        verify="doctor check {path}",
    )
)
def layout(subject: Weights) -> Iterator[Finding]:
    for path, problems in by_file(subject, Kind.LAYOUT, Kind.SHAPE):
        first = problems[0]
        yield layout.finding(
            evidence=map(evidence_of, problems[:5]),
            name=path.name,
            path=path,
            count=len(problems),
            tensor=visible(first.tensor or "", 120),
            **detail_of(first),
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
    for path, problems in by_file(subject, Kind.DTYPE):
        names = names_of(problems)
        yield unknown_type.finding(
            evidence=map(evidence_of, problems[:5]),
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
    for path, problems in by_file(subject, Kind.DUPLICATE):
        names = names_of(problems)
        yield name_twice.finding(
            evidence=map(evidence_of, problems[:5]),
            name=path.name,
            path=path,
            names=names.en,
            names_zh=names.zh,
            **detail_of(problems[0]),
        )


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
        fix=AGAIN,
        verify="doctor check {path}",
    )
)
def trailing(subject: Weights) -> Iterator[Finding]:
    for path, problems in by_file(subject, Kind.TRAILING):
        yield trailing.finding(
            evidence=map(evidence_of, problems), name=path.name, path=path, observed=problems[0].observed
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
    for path, problems in by_file(subject, Kind.CODE):
        yield runs_code.finding(
            evidence=map(evidence_of, problems), name=path.name, path=path, **detail_of(problems[0])
        )


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
    for path, problems in by_file(subject, Kind.COMPRESSED):
        yield compressed.finding(
            evidence=map(evidence_of, problems[:5]), name=path.name, path=path, count=len(problems)
        )
