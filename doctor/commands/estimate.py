"""`doctor estimate CONFIG`: memory per device and stage, batch arithmetic, and what would fit."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

from doctor.checks.config.memory import exceeds
from doctor.checks.config.text import merge_conflict, not_yaml, recursive_anchor, tab_indentation
from doctor.commands.check import count, size
from doctor.errors import UsageError
from doctor.examples import example
from doctor.finding import Text
from doctor.language import Help
from doctor.plan.arithmetic import GlobalBatch, global_batch
from doctor.plan.build import load_plan
from doctor.plan.memory.advise import Step, Strategy, steps_to_fit, strategy
from doctor.plan.memory.estimate import Estimate, estimate, largest_batch
from doctor.plan.memory.layout import Layout
from doctor.plan.memory.reading import Card, NotKnown, card_of, describe, keys_of, layout_of, shape_of
from doctor.plan.memory.shape import ModelShape, human
from doctor.plan.plan import Dialect, Plan
from doctor.report.model import Report
from doctor.report.write import emit

DESCRIPTION = Text(
    "Peak memory of each pipeline stage, global batch, and what would fit: arithmetic, without a device.",
    "估算各流水线 stage 的显存峰值、全局 batch 以及能放得下的方案：纯计算，不需要设备。",
)
EPILOG = Text(
    "example:\n  doctor estimate finetune.yaml --devices 8 --device-memory 64GB",
    "示例：\n  doctor estimate finetune.yaml --devices 8 --device-memory 64GB",
)
GB = 2**30


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "config",
        metavar="CONFIG",
        help=Help("training YAML or a model's config.json", "训练 YAML 或模型的 config.json"),
    )
    parser.add_argument(
        "--devices", type=count, metavar="N", help=Help("how many NPUs the run will use", "训练使用的 NPU 数量")
    )
    parser.add_argument("--device-memory", type=size, metavar="64GB", help=Help("memory of one NPU", "单个 NPU 的显存"))
    parser.add_argument(
        "--mindformers",
        metavar="VERSION",
        help=Help("release that will read the config", "读取该配置的 MindFormers 版本"),
    )
    parser.add_argument(
        "--batch",
        type=count,
        metavar="N",
        help=Help("sequences a device, instead of the file's", "每卡 batch size，替代文件中的值"),
    )
    parser.add_argument(
        "--sequence",
        type=count,
        metavar="N",
        help=Help("tokens a sequence, instead of the file's", "序列长度，替代文件中的值"),
    )
    parser.add_argument(
        "--profile",
        choices=("fused", "unfused"),
        default="fused",
        help=Help("operators: Ascend's fused ones, or step by step", "算子：昇腾融合算子，或逐步实现"),
    )
    parser.add_argument(
        "--formula", action="store_true", help=Help("show how each figure is made", "显示每个数字的计算过程")
    )


def run(args: argparse.Namespace) -> int:
    return emit(build_report(args), args)


def build_report(args: argparse.Namespace) -> Report:
    path = Path(args.config)
    if not path.exists():
        path = example(args.config) or path
    plan = load_plan(
        path, devices=args.devices, device_memory=args.device_memory, mindformers=args.mindformers, forgiving=True
    )
    _stop_at_slips(plan)
    shape, layout = _inputs(plan, args)
    card = card_of(plan)
    result = estimate(shape, layout, card.size)
    steps: tuple[Step, ...] = ()
    if card.size is not None and result.fits is not True:
        steps = steps_to_fit(shape, layout, card.size, keys_of(plan))
    best = _best(plan, shape, layout, card)
    batch = _batch(plan, layout, args)
    findings = (exceeds(result, steps, args.config, plan),) if result.fits is False else ()
    return Report(
        command="estimate",
        findings=findings,
        facts=_facts(plan, shape, layout, batch, result, card, best),
        headline=tuple(_headline(shape, layout, batch, result, card, best, steps, args.formula)),
        next_command=f"doctor check {args.config}",
    )


def _stop_at_slips(plan: Plan) -> None:
    """Raises UsageError with the line and what is wrong there when the text is no YAML yet, as check finds it."""
    if plan.document.readable:
        return
    for rule in (merge_conflict, tab_indentation, recursive_anchor, not_yaml):
        for found in rule(plan):
            line = found.evidence[0].line
            raise UsageError(
                Text(
                    f"{plan.document.path}:{line}: cannot estimate: {found.title.en}. {found.message.en}",
                    f"{plan.document.path}:{line}：无法估算：{found.title.zh}。{found.message.zh}",
                ),
                found.fixes[0].summary if found.fixes else None,
            )


def _inputs(plan: Plan, args: argparse.Namespace) -> tuple[ModelShape, Layout]:
    try:
        shape = shape_of(plan)
        layout = layout_of(plan, shape, batch=args.batch, sequence=args.sequence)
    except NotKnown as missing:
        raise UsageError(
            Text(
                f"{args.config}: cannot estimate: {missing.reason.en}.",
                f"{args.config}：无法估算：{missing.reason.zh}。",
            ),
            missing.todo,
        ) from None
    return shape, replace(layout, profile=args.profile)


def _batch(plan: Plan, layout: Layout, args: argparse.Namespace) -> GlobalBatch:
    batch = global_batch(plan)
    if args.batch is None and args.sequence is None:
        return batch
    return batch.at(layout.micro_batch, layout.sequence, fixed=plan.dialect is Dialect.PYNATIVE)


def _best(plan: Plan, shape: ModelShape, layout: Layout, card: Card) -> Optional[Strategy]:
    if card.size is None:
        return None
    devices = plan.devices or layout.devices
    return strategy(shape, layout, devices, card.size)


def _facts(
    plan: Plan,
    shape: ModelShape,
    layout: Layout,
    batch: GlobalBatch,
    result: Estimate,
    card: Card,
    best: Optional[Strategy],
) -> dict[str, Any]:
    sizes = batch.to_dict()
    if sizes["per_device"] is None:
        sizes["per_device"] = layout.micro_batch
    return {
        "model": describe(plan, shape),
        "batch": sizes,
        "memory": {
            "stages": [stage.to_dict() for stage in result.stages],
            "device": card.size,
            "device_known_from": card.how,
            "fits": result.fits,
            "error_bar": result.error_bar,
            "reserve": None if result.device is None or result.room is None else result.device - result.room,
            "largest_batch": largest_batch(shape, layout, card.size) if card.size is not None else None,
            "profile": layout.profile,
        },
        "suggestion": _suggestion(best),
    }


def _suggestion(best: Optional[Strategy]) -> Optional[dict[str, Any]]:
    if best is None:
        return None
    layout = best.layout
    return {
        "data_parallel": layout.data_parallel,
        "model_parallel": layout.tensor_parallel,
        "pipeline_stage": layout.pipeline_stages,
        "expert_parallel": layout.expert_parallel,
        "recompute": layout.recompute,
        "per_device_batch": layout.micro_batch,
        "micro_batch_num": layout.micro_batches,
        "sequence_parallel": layout.sequence_parallel,
        "optimizer_parallel": layout.shard_optimizer,
        "reason": best.reason.en,
    }


def _headline(
    shape: ModelShape,
    layout: Layout,
    batch: GlobalBatch,
    result: Estimate,
    card: Card,
    best: Optional[Strategy],
    steps: tuple[Step, ...],
    formula: bool,
) -> Iterator[Text]:
    size = human(shape.parameters)
    yield Text(
        f"{shape.family or 'model'}, {size} parameters ({shape.parameters:,}), {shape.layers} layers",
        f"{shape.family or '模型'}，{size} 参数（{shape.parameters:,}），{shape.layers} 层",
    )
    tokens = f"{batch.tokens:,}" if batch.tokens else "?"
    yield Text(
        f"global batch = per device x data_parallel x accumulation = {batch.equation}; {tokens} tokens a step",
        f"全局 batch = 单卡 batch x 数据并行 x 累积 = {batch.equation}；每步 {tokens} tokens",
    )
    yield Text("", "")
    yield Text(
        f"{'stage':>5} {'weights':>8} {'grads':>7} {'optim':>7} {'activ':>7} {'buffers':>8} {'total GB':>9}",
        f"{'stage':>5} {'权重':>6} {'梯度':>5} {'优化器':>4} {'激活':>5} {'缓冲':>6} {'合计GB':>7}",
    )
    for stage in result.stages:
        figures = (
            f"{stage.stage:>5} {stage.weights / GB:>8.1f} {stage.gradients / GB:>7.1f} {stage.optimizer / GB:>7.1f} "
            f"{stage.activations / GB:>7.1f} {stage.buffers / GB:>8.1f} {stage.total / GB:>9.1f}"
        )
        yield Text(figures, figures)
    if formula:
        yield from _formula(layout)
    yield Text("", "")
    yield _fit(result, card)
    if card.size is not None:
        most = largest_batch(shape, layout, card.size)
        yield Text(f"largest batch a device that fits: {most}", f"单卡放得下的最大 batch：{most}")
    for step in steps if result.fits is None else ():
        yield Text(
            f"to be sure: {step.change.en} -> {step.peak / GB:.1f} GB",
            f"为保险起见：{step.change.zh} -> {step.peak / GB:.1f} GB",
        )
    if best is not None:
        yield Text("suggestion: ", "建议：") + best.reason


def _fit(result: Estimate, card: Card) -> Text:
    peak, bar = result.peak / GB, result.error_bar
    if card.size is None or result.room is None:
        return Text(
            f"peak {peak:.1f} GB (+-{bar:.0%}); the size of the card is not known: give --device-memory 64GB",
            f"峰值 {peak:.1f} GB（±{bar:.0%}）；未知单卡显存大小，请指定 --device-memory 64GB",
        )
    room = result.room / GB
    words = {
        True: Text("fits", "放得下"),
        False: Text("does not fit", "放不下"),
        None: Text("too close to call", "临界，无法断定"),
    }[result.fits]
    assumed = (
        Text("", "") if card.how == "given" else Text(" (from max_device_memory)", "（由 max_device_memory 推断）")
    )
    return Text(
        f"peak {peak:.1f} GB (+-{bar:.0%}) of {room:.1f} GB free on a {card.size / GB:.0f} GB card{assumed.en}: {words.en}",
        f"峰值 {peak:.1f} GB（±{bar:.0%}），{card.size / GB:.0f} GB 卡可用 {room:.1f} GB{assumed.zh}：{words.zh}",
    )


def _formula(layout: Layout) -> Iterator[Text]:
    c = layout.compute_bytes
    yield Text("", "")
    yield Text(
        f"weights {c} B a parameter; gradients {c} B (+4 B when accumulated); optimizer (master 4 + moments 8 B) / "
        f"{layout.shard}; activations by operator ({layout.profile}), micro batches in flight min(stages - i, micro "
        "batches); buffers 200 MB a communicator",
        f"权重每参数 {c} 字节；梯度 {c} 字节（累积时另加 4 字节）；优化器状态（主权重 4 + 动量 8 字节）/ {layout.shard}；"
        f"激活逐算子计算（{layout.profile}），同时在途的 micro batch 为 min(stages - i, micro batches)；每个通信域缓冲 200 MB",
    )
