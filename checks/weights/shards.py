"""Do the files of a sharded model belong together, and are all of them there?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from doctor.check import Skip, check
from doctor.checks.weights.subject import Weights
from doctor.checks.words import NOT_THERE, ranges, size, some
from doctor.finding import Evidence, Finding, Severity, Text
from doctor.formats import locate
from doctor.formats.layers import place
from doctor.rule import Rule

if TYPE_CHECKING:
    from doctor.formats.index import ShardIndex

_NO_INDEX = Text("these weights have no shard index", "这些权重没有分片索引")


def _index(subject: Weights) -> ShardIndex:
    index = subject.set.index
    if index is None:
        raise Skip(_NO_INDEX)
    if not index.weight_map:
        raise Skip(Text("the shard index cannot be read", "分片索引无法读取"))
    return index


@check(
    Rule(
        id="WGT-SHARD-001",
        name="shard-missing",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text("{count} of {total} shards are not there", "{total} 个分片中缺少 {count} 个"),
        why=Text(
            "{names} should stand in {folder}: {because}. {gone}Parameters in it would be missing, or left at random "
            "values without an error.",
            "{folder} 中应有 {names_zh}：{because_zh}。{gone_zh}其中的参数会缺失，或在没有报错的情况下保持随机初始化。",
        ),
        fix=Text("Download or copy {names} into {folder}.", "将 {names_zh} 下载或拷贝到 {folder}。"),
        verify="doctor check {path}",
    )
)
def missing(subject: Weights) -> Iterator[Finding]:
    lost = subject.set.missing
    if not lost:
        return
    names = some(lost)
    index = subject.set.index
    lost_tensors = [] if index is None else [name for name, home in index.weight_map.items() if home in set(lost)]
    gone = _what_is_gone(subject, lost_tensors)
    because = Text("the numbering of the other files calls for it", "按其余文件的编号应当存在")
    if index is not None and lost_tensors:
        because = Text(
            f"{index.path.name} lists {len(lost_tensors)} parameters there",
            f"{index.path.name} 中有 {len(lost_tensors)} 个参数位于其中",
        )
    elif locate.META_SHARD.fullmatch(lost[0]):
        because = Text("the matrices of the other files are slices of the model", "其余文件中的矩阵只是整个模型的切片")
    folder = subject.path if subject.path.is_dir() else subject.path.parent
    yield missing.finding(
        evidence=[
            Evidence("file", str(folder / name), observed=NOT_THERE, expected=Text("a shard", "一个分片"))
            for name in lost[:5]
        ],
        count=len(lost),
        total=len(lost) + len(subject.set.files),
        names=names.en,
        names_zh=names.zh,
        because=because.en,
        because_zh=because.zh,
        gone=gone.en,
        gone_zh=gone.zh,
        folder=folder,
        path=subject.path,
    )


def _what_is_gone(subject: Weights, lost: list[str]) -> Text:
    """Which layers that is: by the index, or by what is left over of the model."""
    model = subject.model
    if lost:
        gone = {at.layer for at in map(place, lost) if at.layer is not None}
        rest = {at.layer for at in map(place, subject.set.tensors) if at.layer is not None}
    elif model is not None and subject.diagnosis is not None:
        gone, rest = set(subject.diagnosis.missing_layers), set()
    else:
        return Text("", "")
    layers = ranges(gone - rest)
    if not layers:
        return Text("", "")
    return Text(f"Layers {layers} are in it. ", f"第 {layers} 层在其中。")


@check(
    Rule(
        id="WGT-SHARD-002",
        name="shard-index-missing",
        severity=Severity.WARNING,
        category="ckpt-format",
        title=Text("{count} shards without an index", "{count} 个分片没有索引文件"),
        why=Text(
            "Loaders find the shards through {wanted}; without it from_pretrained reports that no weights are there.",
            "加载时通过 {wanted} 查找各分片；缺少它时 from_pretrained 会报告找不到权重。",
        ),
        fix=Text("Copy {wanted} from the source of the model.", "从模型来源处拷贝 {wanted}。"),
        verify="doctor check {path}",
    )
)
def index_missing(subject: Weights) -> Iterator[Finding]:
    found = subject.set
    if found.index is not None or found.partial or not found.groups or len(found.files) < 2:
        return
    group = found.groups[0]
    if group.ext not in {"safetensors", "bin"} or group.stem.endswith("-model"):
        return
    wanted = f"{group.stem}.{group.ext}.index.json"
    yield index_missing.finding(
        evidence=(Evidence("file", str(found.root / wanted), observed=NOT_THERE),),
        count=len(found.files),
        wanted=wanted,
        path=subject.path,
    )


@check(
    Rule(
        id="WGT-SHARD-003",
        name="index-lists-absent-tensor",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text(
            "The index lists {count} tensors that are not in their shard", "索引中有 {count} 个张量不在对应分片里"
        ),
        why=Text(
            "{index} says that {names} stand in {shard}, and they do not{elsewhere}. The index and the shards are of "
            "different saves.",
            "{index} 称 {names_zh} 位于 {shard}，实际不在{elsewhere_zh}。索引与分片不是同一次保存的结果。",
        ),
        fix=Text(
            "Take the index and all shards from one source, or write the index anew from the shards.",
            "从同一来源获取索引与全部分片，或根据分片重新生成索引。",
        ),
        verify="doctor check {path}",
    )
)
def index_absent(subject: Weights) -> Iterator[Finding]:
    index = _index(subject)
    homes = {name: [file.path.name for file in files if file.readable] for name, files in subject.set.homes.items()}
    # A shard that is cut off inside its header has lost its own list: its own finding says so.
    wrong = subject.set.disagreeing
    if not wrong:
        return
    names = some(wrong)
    other = sorted({home for name in wrong for home in homes.get(name, [])})
    elsewhere = some(other)
    yield index_absent.finding(
        evidence=[
            Evidence(
                "file",
                str(index.path),
                key=name,
                observed=", ".join(homes.get(name, [])) or Text("in no shard", "不在任何分片中"),
                expected=index.weight_map[name],
            )
            for name in wrong[:5]
        ],
        count=len(wrong),
        index=index.path.name,
        names=names.en,
        names_zh=names.zh,
        shard=index.weight_map[wrong[0]],
        elsewhere=f" (they stand in {elsewhere.en})" if other else "",
        elsewhere_zh=f"（而在 {elsewhere.zh}）" if other else "",
        path=subject.path,
    )


@check(
    Rule(
        id="WGT-SHARD-004",
        name="tensor-not-in-index",
        severity=Severity.WARNING,
        category="ckpt-format",
        title=Text("{count} tensors are in no index entry", "有 {count} 个张量未列入索引"),
        why=Text(
            "{names} stand in the shards but {index} does not list them: loaders that go by the index leave them out.",
            "{names_zh} 在分片中，但 {index} 未列出：按索引加载时会漏掉它们。",
        ),
        fix=Text(
            "Take the index and all shards from one source, or write the index anew from the shards.",
            "从同一来源获取索引与全部分片，或根据分片重新生成索引。",
        ),
        verify="doctor check {path}",
    )
)
def not_in_index(subject: Weights) -> Iterator[Finding]:
    index = _index(subject)
    listed = set(index.files)
    extra = sorted(
        name
        for name, files in subject.set.homes.items()
        if name not in index.weight_map and any(file.path.name in listed for file in files)
    )
    if extra:
        names = some(extra)
        yield not_in_index.finding(
            evidence=[
                Evidence("file", str(index.path), key=name, observed=Text("not listed", "未列出")) for name in extra[:5]
            ],
            count=len(extra),
            names=names.en,
            names_zh=names.zh,
            index=index.path.name,
            path=subject.path,
        )


@check(
    Rule(
        id="WGT-SHARD-005",
        name="tensor-in-two-shards",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text("{count} tensors stand in more than one shard", "有 {count} 个张量出现在多个分片中"),
        why=Text(
            "{names} are in {files}: shards of two saves were mixed, and which value is loaded depends on the order.",
            "{names_zh} 同时存在于 {files_zh}：混入了两次保存的分片，加载到哪个值取决于读取顺序。",
        ),
        fix=Text("Empty the folder and copy one complete set.", "清空目录，重新拷贝一套完整的分片。"),
        verify="doctor check {path}",
    )
)
def in_two_shards(subject: Weights) -> Iterator[Finding]:
    twice = sorted(name for name, files in subject.set.homes.items() if len(files) > 1)
    if not twice or subject.set.parallel:
        return
    names = some(twice)
    files = some(file.path.name for file in subject.set.homes[twice[0]])
    yield in_two_shards.finding(
        evidence=[
            Evidence("file", str(file.path), key=name) for name in twice[:2] for file in subject.set.homes[name][:3]
        ],
        count=len(twice),
        names=names.en,
        names_zh=names.zh,
        files=files.en,
        files_zh=files.zh,
        path=subject.path,
    )


@check(
    Rule(
        id="WGT-SHARD-006",
        name="shards-of-two-saves",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text("Shards of different totals stand in one folder", "同一目录中混有不同总数的分片"),
        why=Text(
            "{stem} is numbered of {totals}: two saves or downloads of different shard counts were mixed.",
            "{stem} 的分片总数同时有 {totals}：混入了两次分片数不同的保存或下载。",
        ),
        fix=Text("Keep the files of one total and remove the others.", "只保留一种总数的文件，移走其余文件。"),
        verify="doctor check {path}",
    )
)
def two_saves(subject: Weights) -> Iterator[Finding]:
    totals: dict[tuple[str, str], list[int]] = {}
    for group in subject.set.groups:
        totals.setdefault((group.stem, group.ext), []).append(group.total)
    for (stem, _), found in sorted(totals.items()):
        if len(found) > 1:
            yield two_saves.finding(
                evidence=[
                    Evidence("file", str(subject.set.root / group.names[0]), observed=group.total)
                    for group in subject.set.groups
                    if group.stem == stem
                ],
                stem=stem,
                totals=", ".join(str(total) for total in sorted(found)),
                path=subject.path,
            )


@check(
    Rule(
        id="WGT-SHARD-007",
        name="index-size-disagrees",
        severity=Severity.WARNING,
        category="ckpt-format",
        title=Text("The index states another total size", "索引中的总大小与实际不符"),
        why=Text(
            "{index} states {expected}, the tensors have {observed}. The index and the shards are of different saves, "
            "or the type was converted without writing the index anew.",
            "{index} 中写的是 {expected}，张量实际为 {observed}。索引与分片不是同一次保存的结果，或转换类型后没有更新索引。",
        ),
        fix=Text("Take the index and all shards from one source.", "从同一来源获取索引与全部分片。"),
        verify="doctor check {path}",
        confidence=0.7,
    )
)
def index_size(subject: Weights) -> Iterator[Finding]:
    index = _index(subject)
    if index.total_size is None:
        raise Skip(Text("the index states no total size", "索引未写总大小"))
    if not subject.set.complete:
        raise Skip(Text("not all shards could be read", "并非所有分片都能读取"))
    if subject.set.disagreeing:
        raise Skip(Text("the index and the shards are of different saves", "索引与分片不是同一次保存的结果"))
    actual = sum(tensor.bytes for tensor in subject.set.tensors.values())
    # Some writers count tied tensors twice, some count parameters and not bytes.
    elements = sum(tensor.elements for tensor in subject.set.tensors.values())
    if index.total_size in {actual, elements} or abs(index.total_size - actual) <= max(4096, actual // 1000):
        return
    largest = max((tensor.bytes for tensor in subject.set.tensors.values()), default=0)
    if index.total_size - actual == largest:
        return
    yield index_size.finding(
        evidence=(
            Evidence("file", str(index.path), key="metadata.total_size", observed=index.total_size, expected=actual),
        ),
        index=index.path.name,
        expected=size(index.total_size),
        observed=size(actual),
        path=subject.path,
    )


@check(
    Rule(
        id="WGT-SHARD-008",
        name="shard-index-unreadable",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text("{index} cannot be used", "{index} 无法使用"),
        why=Text("{index}: {detail}.", "{index}：{detail_zh}。"),
        fix=Text("Copy {index} again from the source of the model.", "从模型来源处重新拷贝 {index}。"),
        verify="doctor check {path}",
    )
)
def index_unreadable(subject: Weights) -> Iterator[Finding]:
    index = subject.set.index
    if index is not None and index.problems:
        first = index.problems[0]
        yield index_unreadable.finding(
            evidence=[
                Evidence("file", str(index.path), key=problem.tensor, note=problem.detail, observed=problem.observed)
                for problem in index.problems[:5]
            ],
            index=index.path.name,
            detail=first.detail.en,
            detail_zh=first.detail.zh,
            path=subject.path,
        )
