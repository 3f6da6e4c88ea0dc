"""Is it known how the parameters were cut over the devices, and do the slices agree?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from doctor.check import Skip, check
from doctor.checks.weights.ranks import rank_set
from doctor.checks.weights.subject import Weights
from doctor.checks.words import NOT_THERE, ranges, shape, some
from doctor.finding import Evidence, Finding, Severity, Text
from doctor.formats.layers import is_state
from doctor.rule import Rule


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
    ranks = rank_set(subject)
    if len(ranks.ranks) < 2 or ranks.strategies:
        return
    yield no_strategy.finding(
        evidence=(Evidence("file", str(subject.path / "strategy"), observed=NOT_THERE),),
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
    ranks = rank_set(subject)
    if not ranks.strategies:
        raise Skip(Text("there are no strategy files", "没有策略文件"))
    broken = [item for item in ranks.strategies if item.problems]
    if broken:
        first = broken[0].problems[0]
        yield strategy_fits.finding(
            evidence=[Evidence("file", str(item.path), note=item.problems[0].detail) for item in broken[:5]],
            what=f"{broken[0].path.name} cannot be read: {first.detail.en}",
            what_zh=f"{broken[0].path.name} 无法读取：{first.detail.zh}",
            path=subject.path,
        )
        return
    if not ranks.counted:
        there, devices = ranks.ranks[-1].number + 1, ranks.stage_devices
        yield strategy_fits.finding(
            evidence=(
                Evidence(
                    "file",
                    str(ranks.strategies[0].path),
                    observed=Text(f"{devices} devices", f"{devices} 个设备"),
                    expected=there,
                ),
            ),
            what=f"they cut over {devices} devices a stage, and there are {there} ranks",
            what_zh=f"策略文件每个 stage 切分到 {devices} 个设备，而这里有 {there} 个 rank",
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
                    Evidence(
                        "file",
                        str(plan.path),
                        rank=rank.number,
                        key=sample,
                        observed=Text("not in the strategy", "不在策略文件中"),
                    ),
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
    whole = [rank for rank in rank_set(subject).ranks if rank.file is not None and not rank.file.problems]
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
    for rank in rank_set(subject).ranks:
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
        id="WGT-RANK-014",
        name="rank-types-differ",
        severity=Severity.ERROR,
        category="ckpt-format",
        title=Text("{name} has different types in different ranks", "{name} 在各 rank 中数据类型不同"),
        why=Text(
            "{usual} in most ranks, {other} in rank {ranks}: files of two runs or of two conversions were mixed. Merged or resumed, "
            "the ranks compute with different precision.",
            "多数 rank 为 {usual}，rank {ranks} 为 {other}：混入了两次训练或两次转换的文件。合并或续训后各 rank 的计算精度不同。",
        ),
        fix=Text("Put the files of one run into a folder of their own.", "将同一次训练的文件放到单独的目录。"),
        verify="doctor check {path}",
    )
)
def types_differ(subject: Weights) -> Iterator[Finding]:
    seen: dict[str, dict[str, list[int]]] = {}
    for rank in rank_set(subject).ranks:
        for tensor in rank.file.tensors if rank.file is not None else ():
            seen.setdefault(tensor.name, {}).setdefault(tensor.dtype, []).append(rank.number)
    for name, types in seen.items():
        if len(types) > 1:
            ordered = sorted(types, key=lambda item: (-len(types[item]), item))
            odd = [number for item in ordered[1:] for number in types[item]]
            yield types_differ.finding(
                evidence=[
                    Evidence(
                        "value", str(subject.path), key=name, rank=number, observed=ordered[1], expected=ordered[0]
                    )
                    for number in odd[:5]
                ],
                name=name,
                usual=ordered[0],
                other=ordered[1],
                ranks=ranges(odd),
                path=subject.path,
            )
            return
