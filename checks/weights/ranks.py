"""Checkpoints of many devices: are all ranks there, of one step and one run?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from doctor.check import Skip, check
from doctor.checks.weights.subject import Weights
from doctor.checks.words import NOT_THERE, ranges, some
from doctor.finding import Evidence, Finding, Severity, Text
from doctor.rule import Rule

if TYPE_CHECKING:
    from doctor.formats.ranks import Rank, RankSet


def rank_set(subject: Weights) -> RankSet:
    if subject.set.ranks is None:
        raise Skip(Text("these are no rank folders", "不是 rank 目录"))
    return subject.set.ranks


_BY_STRATEGY = Text(
    "{there} rank folders are there, the strategy files are of {of} ranks: those of rank {missing} were not copied. Resuming "
    "on all devices needs them.",
    "只有 {there} 个 rank 目录，而策略文件属于 {of} 个 rank：rank {missing} 的目录没有拷贝过来。在全部设备上续训需要它们。",
)


@check(
    Rule(
        id="WGT-RANK-001",
        name="rank-folder-missing",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text("Rank {missing} is missing", "缺少 rank {missing}"),
        why=Text(
            "{there} rank folders are there, up to rank {top}, but not those of rank {missing}. Merging or resuming needs every "
            "rank from 0 on ('The rank_N folder was not found under src_checkpoint folder.').",
            "共有 {there} 个 rank 目录，最大为 {top}，但缺少 rank {missing}。合并或断点续训要求从 0 开始的全部 rank"
            "（The rank_N folder was not found under src_checkpoint folder.）。",
        ),
        fix=Text(
            "Copy the missing folders from the nodes that wrote them (each node saves its own when the disk is not shared).",
            "从写出它们的节点拷贝缺少的目录（非共享盘时各节点只保存自己的部分）。",
        ),
        verify="doctor check {path}",
    )
)
def missing(subject: Weights) -> Iterator[Finding]:
    ranks = rank_set(subject)
    lost = ranks.missing
    if not lost and ranks.unsaved and ranks.counted:
        yield missing.finding(
            _BY_STRATEGY,
            severity=Severity.WARNING,
            evidence=[
                Evidence("file", str(subject.path / f"rank_{number}"), observed=NOT_THERE, rank=number)
                for number in ranks.unsaved[:5]
            ],
            missing=ranges(ranks.unsaved),
            there=len(ranks.ranks),
            of=len(ranks.ranks) + len(ranks.unsaved),
            path=subject.path,
        )
    if lost:
        yield missing.finding(
            evidence=[
                Evidence("file", str(subject.path / f"rank_{number}"), observed=NOT_THERE, rank=number)
                for number in lost[:5]
            ],
            missing=ranges(lost),
            there=len(ranks.ranks),
            top=ranks.ranks[-1].number,
            path=subject.path,
        )


@check(
    Rule(
        id="WGT-RANK-002",
        name="rank-without-checkpoint",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text("Rank {ranks} has no checkpoint", "rank {ranks} 没有权重文件"),
        why=Text(
            "The folder is there and holds no .ckpt or .safetensors: that rank died before it saved, or its file was not copied.",
            "目录存在但没有 .ckpt 或 .safetensors：该 rank 在保存前退出，或文件没有拷贝过来。",
        ),
        fix=Text("Go back to the last step that all ranks have.", "退回到所有 rank 都有的最近一步。"),
        verify="doctor check {path}",
    )
)
def without(subject: Weights) -> Iterator[Finding]:
    empty = [rank for rank in rank_set(subject).ranks if rank.file is None]
    if empty:
        yield without.finding(
            evidence=[
                Evidence("file", str(rank.folder), rank=rank.number, observed=Text("no weights", "没有权重"))
                for rank in empty[:5]
            ],
            ranks=ranges(rank.number for rank in empty),
            path=subject.path,
        )


@check(
    Rule(
        id="WGT-RANK-003",
        name="ranks-at-different-steps",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text("The newest checkpoints are of different steps", "各 rank 最新权重的步数不同"),
        why=Text(
            "Most ranks have epoch {epoch} step {step}, rank {ranks} {other}: the run ended while it saved. Resuming loads the "
            "newest file of each rank, and so a mixture of two states.{common}",
            "多数 rank 为 epoch {epoch} step {step}，rank {ranks} 为 {other}：训练在保存过程中结束。断点续训会加载各 rank 最新的文件，"
            "即两个状态的混合。{common_zh}",
        ),
        fix=Text(
            "Delete what is newer than the last common step, or name the checkpoint to resume from.",
            "删除晚于最近公共步的文件，或明确指定续训所用的权重。",
        ),
        verify="doctor check {path}",
    )
)
def steps(subject: Weights) -> Iterator[Finding]:
    ranks = [rank for rank in rank_set(subject).ranks if rank.step is not None]
    counted = Counter(rank.step for rank in ranks)
    if len(counted) < 2:
        return
    usual = min(counted, key=lambda step: (-counted[step], step or (0, 0)))
    odd = [rank for rank in ranks if rank.step != usual]
    shared = set.intersection(*(set(rank.steps) for rank in ranks))
    last = max(shared, default=None)
    assert usual is not None
    yield steps.finding(
        evidence=[_newest(rank, expected=f"{usual[0]}_{usual[1]}") for rank in odd[:5]],
        epoch=usual[0],
        step=usual[1],
        ranks=ranges(rank.number for rank in odd),
        other=", ".join(sorted({f"{rank.step[0]}_{rank.step[1]}" for rank in odd if rank.step})),
        common=f" The last step that all have is {last[0]}_{last[1]}." if last else " No step is common to all.",
        common_zh=f"所有 rank 都有的最近一步是 {last[0]}_{last[1]}。" if last else "没有所有 rank 都有的一步。",
        path=subject.path,
    )


def _newest(rank: Rank, expected: str) -> Evidence:
    assert rank.file is not None
    step = f"{rank.step[0]}_{rank.step[1]}" if rank.step else "?"
    return Evidence("file", str(rank.file.path), rank=rank.number, observed=step, expected=expected)


@check(
    Rule(
        id="WGT-RANK-004",
        name="checkpoints-of-two-runs",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text("The newest checkpoints are of different runs", "各 rank 最新权重来自不同次训练"),
        why=Text(
            "A second run into the same folder does not overwrite: MindSpore adds _1 to the prefix. Rank {ranks} has {other}, the "
            "others {usual}.",
            "在同一目录第二次训练不会覆盖：MindSpore 会在前缀后加 _1。rank {ranks} 为 {other}，其余为 {usual}。",
        ),
        fix=Text("Move the files of one run into a folder of their own.", "将同一次训练的文件移到单独的目录。"),
        verify="doctor check {path}",
    )
)
def runs(subject: Weights) -> Iterator[Finding]:
    ranks = [rank for rank in rank_set(subject).ranks if rank.prefix]
    counted = Counter(rank.prefix for rank in ranks)
    if len(counted) < 2:
        return
    usual = min(counted, key=lambda prefix: (-counted[prefix], prefix))
    odd = [rank for rank in ranks if rank.prefix != usual]
    yield runs.finding(
        evidence=[
            Evidence(
                "file", str(rank.file.path), rank=rank.number, observed=_prefix(rank.prefix), expected=_prefix(usual)
            )
            for rank in odd[:5]
            if rank.file is not None
        ],
        ranks=ranges(rank.number for rank in odd),
        other=", ".join(sorted({_prefix(rank.prefix) for rank in odd})),
        usual=_prefix(usual),
        path=subject.path,
    )


def _prefix(word: str) -> str:
    name, _, rerun = word.partition("#")
    return f"{name}_{rerun}" if rerun else name


@check(
    Rule(
        id="WGT-RANK-009",
        name="files-beside-rank-folders",
        severity=Severity.WARNING,
        category="ckpt-format",
        title=Text("Weight files stand beside rank folders", "rank 目录旁还有权重文件"),
        why=Text(
            "{names} are in the folder too. MindFormers takes the rank folders and leaves these ('Find both ckpt files and rank "
            "folder').",
            "目录中还有 {names_zh}。MindFormers 会使用 rank 目录并忽略它们（Find both ckpt files and rank folder）。",
        ),
        fix=Text("Keep either the rank folders or the whole files.", "rank 目录与完整权重文件只保留一种。"),
        verify="doctor check {path}",
    )
)
def beside(subject: Weights) -> Iterator[Finding]:
    ranks = rank_set(subject)
    if ranks.beside:
        names = some(ranks.beside)
        yield beside.finding(
            evidence=[Evidence("file", str(subject.path / name)) for name in ranks.beside[:5]],
            names=names.en,
            names_zh=names.zh,
            path=subject.path,
        )


@check(
    Rule(
        id="WGT-RANK-010",
        name="resume-record-wrong",
        severity=Severity.WARNING,
        category="ckpt-format",
        title=Text("meta.json of rank {rank} does not fit its checkpoints", "rank {rank} 的 meta.json 与其权重不符"),
        why=Text(
            "{what}. MindFormers reads the step to resume from in it.", "{what_zh}。MindFormers 从中读取续训的步数。"
        ),
        fix=Text(
            "Correct last_ckpt_file, last_epoch and last_step to the newest checkpoint that all ranks have.",
            "将 last_ckpt_file、last_epoch、last_step 改为所有 rank 都有的最新权重。",
        ),
        verify="doctor check {path}",
    )
)
def record(subject: Weights) -> Iterator[Finding]:
    for rank in rank_set(subject).ranks:
        path = rank.folder / "meta.json"
        what = None
        if rank.meta_error is not None:
            what = Text(f"it cannot be read ({rank.meta_error})", f"无法读取（{rank.meta_error}）")
        elif rank.meta is not None:
            name = rank.meta.get("last_ckpt_file")
            if isinstance(name, str) and name and not (rank.folder / name.rpartition("/")[2]).exists():
                what = Text(f"it names {name}, which is not there", f"其中的 {name} 不存在")
        if what is not None:
            yield record.finding(
                evidence=(Evidence("file", str(path), rank=rank.number, note=what),),
                rank=rank.number,
                what=what.en,
                what_zh=what.zh,
                path=subject.path,
            )
