"""Checkpoints of many devices: are all ranks there, of one step and one run, and is the way they were cut known?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from doctor.check import Skip, check
from doctor.checks.weights.subject import Weights
from doctor.checks.words import ranges, shape, some
from doctor.finding import Evidence, Finding, Severity, Text
from doctor.formats.layers import is_state
from doctor.rule import Rule

if TYPE_CHECKING:
    from doctor.formats.iteration import Iteration
    from doctor.formats.ranks import Rank, RankSet


def _ranks(subject: Weights) -> RankSet:
    if subject.set.ranks is None:
        raise Skip(Text("these are no rank folders", "不是 rank 目录"))
    return subject.set.ranks


def _iteration(subject: Weights) -> Iteration:
    if subject.set.iteration is None:
        raise Skip(Text("this is no checkpoint of MindFormers 2.x", "不是 MindFormers 2.x 的权重目录"))
    return subject.set.iteration


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
    ranks = _ranks(subject)
    lost = ranks.missing
    if lost:
        yield missing.finding(
            evidence=[
                Evidence("file", str(subject.path / f"rank_{number}"), observed="not there", rank=number)
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
    empty = [rank for rank in _ranks(subject).ranks if rank.file is None]
    if empty:
        yield without.finding(
            evidence=[
                Evidence("file", str(rank.folder), rank=rank.number, observed="no weights") for rank in empty[:5]
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
    ranks = [rank for rank in _ranks(subject).ranks if rank.step is not None]
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
    ranks = [rank for rank in _ranks(subject).ranks if rank.prefix]
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
        id="WGT-RANK-005",
        name="strategy-files-missing",
        severity=Severity.WARNING,
        category="ckpt-format",
        title=Text("There are no strategy files for these slices", "没有与这些切片对应的策略文件"),
        why=Text(
            "{count} ranks each hold a part of the model; how it was cut is written in strategy files only "
            "(output/strategy/ckpt_strategy_rank_N.ckpt). Without them the parts cannot be merged or loaded with another "
            "parallel layout ('`src_strategy` should not be None when `src_checkpoint` is sliced.').",
            "{count} 个 rank 各存模型的一部分；如何切分只记录在策略文件中（output/strategy/ckpt_strategy_rank_N.ckpt）。"
            "没有它们就无法合并，也无法以其他并行方式加载（`src_strategy` should not be None when `src_checkpoint` is sliced.）。",
        ),
        fix=Text(
            "Copy the strategy folder of that run beside the rank folders; set only_save_strategy: True to write it anew.",
            "将该次训练的 strategy 目录拷贝到 rank 目录旁；也可设 only_save_strategy: True 重新生成。",
        ),
        verify="doctor check {path}",
        confidence=0.8,
    )
)
def no_strategy(subject: Weights) -> Iterator[Finding]:
    ranks = _ranks(subject)
    if len(ranks.ranks) < 2 or ranks.strategies:
        return
    yield no_strategy.finding(
        evidence=(Evidence("file", str(subject.path / "strategy"), observed="not there"),),
        count=len(ranks.ranks),
        path=subject.path,
    )


@check(
    Rule(
        id="WGT-RANK-006",
        name="strategy-does-not-fit",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text("The strategy files are not of these checkpoints", "策略文件与这些权重不匹配"),
        why=Text("{what}.", "{what_zh}。"),
        fix=Text("Use the strategy files that the same run wrote.", "使用同一次训练写出的策略文件。"),
        verify="doctor check {path}",
    )
)
def strategy_fits(subject: Weights) -> Iterator[Finding]:
    ranks = _ranks(subject)
    if not ranks.strategies:
        raise Skip(Text("there are no strategy files", "没有策略文件"))
    broken = [item for item in ranks.strategies if item.problems]
    if broken:
        first = broken[0].problems[0]
        yield strategy_fits.finding(
            evidence=[Evidence("file", str(item.path), text=item.problems[0].detail.en) for item in broken[:5]],
            what=f"{broken[0].path.name} cannot be read: {first.detail.en}",
            what_zh=f"{broken[0].path.name} 无法读取：{first.detail.zh}",
            path=subject.path,
        )
        return
    for rank in ranks.ranks:
        plan = ranks.strategy_of(rank.number)
        if plan is None or rank.file is None:
            continue
        names = {tensor.name: tensor for tensor in rank.file.tensors if not is_state(tensor.name)}
        known = names.keys() & plan.cuts.keys()
        wrong = [name for name in sorted(known) if plan.cuts[name].full(names[name].shape) is None]
        # The master weights and states of an optimizer are named after the parameters: none of them known is another model.
        if names and plan.cuts and not known:
            sample = next(iter(names))
            yield strategy_fits.finding(
                evidence=(
                    Evidence("file", str(plan.path), rank=rank.number, key=sample, observed="not in the strategy"),
                ),
                what=f"{plan.path.name} knows none of the parameters of rank {rank.number}, such as {sample}",
                what_zh=f"{plan.path.name} 不含 rank {rank.number} 的任何参数，例如 {sample}",
                path=subject.path,
            )
            return
        if wrong:
            name = wrong[0]
            yield strategy_fits.finding(
                evidence=(
                    Evidence("file", str(plan.path), rank=rank.number, key=name, observed=shape(names[name].shape)),
                ),
                what=f"{name} of rank {rank.number} has {len(names[name].shape)} dimensions, {plan.path.name} cuts "
                f"{len(plan.cuts[name].axes)}",
                what_zh=f"rank {rank.number} 的 {name} 有 {len(names[name].shape)} 维，而 {plan.path.name} 切分 "
                f"{len(plan.cuts[name].axes)} 维",
                path=subject.path,
            )
            return


@check(
    Rule(
        id="WGT-RANK-007",
        name="rank-parameters-differ",
        severity=Severity.ERROR,
        category="weights-mismatch",
        title=Text("Rank {rank} lacks parameters that its peers have", "rank {rank} 缺少同组其他 rank 都有的参数"),
        why=Text(
            "{names} stand in the checkpoints of rank {peers} and not in that of rank {rank}.",
            "{names_zh} 存在于 rank {peers} 的权重中，而 rank {rank} 没有。",
        ),
        fix=Text(
            "Copy the checkpoint of rank {rank} again, or go back one step.",
            "重新拷贝 rank {rank} 的权重，或退回上一步。",
        ),
        verify="doctor check {path}",
    )
)
def parameters_differ(subject: Weights) -> Iterator[Finding]:
    whole = [rank for rank in _ranks(subject).ranks if rank.file is not None and not rank.file.problems]
    names = {rank.number: frozenset(tensor.name for tensor in rank.file.tensors) for rank in whole if rank.file}
    groups = Counter(names.values())
    for rank in whole:
        mine = names[rank.number]
        if groups[mine] > 1 or not mine:
            continue
        # A stage of a pipeline has layers of its own; a rank that shares most names with a larger group belongs to it.
        for other, _ in sorted(groups.items(), key=lambda item: (-item[1], sorted(item[0])[:1])):
            lost = other - mine
            if lost and len(mine & other) > 0.5 * len(other) and not mine - other:
                listed = some(sorted(lost))
                yield parameters_differ.finding(
                    evidence=[
                        Evidence("value", str(rank.file.path), key=name, rank=rank.number) for name in sorted(lost)[:5]
                    ]
                    if rank.file
                    else [],
                    rank=rank.number,
                    names=listed.en,
                    names_zh=listed.zh,
                    peers=ranges(number for number, has in names.items() if has == other),
                    path=subject.path,
                )
                break


@check(
    Rule(
        id="WGT-RANK-008",
        name="rank-shapes-differ",
        severity=Severity.ERROR,
        category="weights-mismatch",
        title=Text("{name} has different shapes in different ranks", "{name} 在各 rank 中形状不同"),
        why=Text(
            "{usual} in most ranks, {other} in rank {ranks}: slices of one parameter are always equal, so these are of runs with "
            "different parallel sizes.",
            "多数 rank 为 {usual}，rank {ranks} 为 {other}：同一参数的切片大小总是相等，因此来自并行度不同的训练。",
        ),
        fix=Text("Put the files of one run into a folder of their own.", "将同一次训练的文件放到单独的目录。"),
        verify="doctor check {path}",
    )
)
def shapes_differ(subject: Weights) -> Iterator[Finding]:
    seen: dict[str, dict[tuple[int, ...], list[int]]] = {}
    for rank in _ranks(subject).ranks:
        for tensor in rank.file.tensors if rank.file is not None else ():
            seen.setdefault(tensor.name, {}).setdefault(tensor.shape, []).append(rank.number)
    for name, shapes in seen.items():
        if len(shapes) > 1:
            ordered = sorted(shapes, key=lambda item: (-len(shapes[item]), item))
            odd = [number for item in ordered[1:] for number in shapes[item]]
            yield shapes_differ.finding(
                evidence=[
                    Evidence("value", str(subject.path), key=name, rank=number, observed=shape(ordered[1]))
                    for number in odd[:5]
                ],
                name=name,
                usual=shape(ordered[0]),
                other=shape(ordered[1]),
                ranks=ranges(odd),
                path=subject.path,
            )
            return


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
    ranks = _ranks(subject)
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
    for rank in _ranks(subject).ranks:
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
                evidence=(Evidence("file", str(path), rank=rank.number, text=what.en),),
                rank=rank.number,
                what=what.en,
                what_zh=what.zh,
                path=subject.path,
            )


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
            evidence=(Evidence("file", str(found.path), observed=found.said, text=found.problem.en),),
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
    found = _iteration(subject)
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
            evidence=(Evidence("file", str(found.folder / name), text=what.en),),
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
    found = _iteration(subject)
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
