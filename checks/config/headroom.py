"""Whether the memory pool leaves room on the card for what lies outside it: driver, and HCCL's buffers."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import Skip, check
from doctor.checks.config.judge import RUNS, applies, change, seen
from doctor.checks.config.precision import gigabytes
from doctor.finding import Finding, Severity, Text
from doctor.plan.plan import Plan
from doctor.rule import Rule

#: GB in use on an idle card: npu-smi shows 2.9 to 3.4 GB on 64 GB cards, a few MB on the first generation
_IDLE, _IDLE_SMALL = 3.4, 0.3
#: GB that HCCL takes for each communication group: one buffer to send and one to receive, 200 MB each (HCCL_BUFFSIZE)
_GROUP = 2 * 200 / 1024


@check(
    Rule(
        id="CFG-MEM-002",
        name="no-room-for-communication",
        severity=Severity.WARNING,
        category="oom-device",
        title=Text(
            "max_device_memory {pool:g}GB leaves {left:.1f} GB of the card for communication",
            "max_device_memory {pool:g}GB 只给通信留下 {left:.1f} GB 显存",
        ),
        why=Text(
            "Outside of the pool the driver holds about {idle:g} GB of the {card:.0f} GB, and HCCL takes some {need:.1f} GB for {groups} "
            'communication groups (twice HCCL_BUFFSIZE, 200 MB, for each): making the groups fails with "device memory not enough" '
            "or HcclCommInitRootInfo, however small the model is.",
            "在内存池之外，{card:.0f} GB 显存中驱动约占 {idle:g} GB，{groups} 个通信域的 HCCL 缓冲约需 {need:.1f} GB（每个通信域为 HCCL_BUFFSIZE 即 200 MB 的两倍）："
            "模型再小，建立通信域时也会报 “device memory not enough” 或 HcclCommInitRootInfo 失败。",
        ),
        fix=Text("Leave room: {good:g}GB.", "预留空间：设为 {good:g}GB。"),
        references=("https://www.mindspore.cn/docs/en/stable/faq/distributed_parallel.html",),
        confidence=0.7,
        false_positives=Text(
            "MindSpore takes less than max_device_memory when less is free, and some jobs run so.",
            "空闲显存不足时 MindSpore 实际取得的会小于 max_device_memory，部分任务因此仍可运行。",
        ),
    )
)
@applies(RUNS)
def no_room_for_communication(plan: Plan) -> Iterator[Finding]:
    pool = gigabytes(plan.context.max_memory)
    if pool is None:
        raise Skip(Text("max_device_memory is not in the file", "文件中没有 max_device_memory"))
    if plan.device_memory is None:
        raise Skip(
            Text(
                "the size of a card is not known: give --device-memory 64GB or --host host.json",
                "未知单卡显存：请指定 --device-memory 64GB 或 --host host.json",
            )
        )
    devices = plan.devices or plan.parallel.product or 1
    if devices < 2:
        raise Skip(Text("a single device does not communicate", "单设备没有通信"))
    card = plan.device_memory / 2**30
    if pool > card - 1:
        return  # CFG-CTX-006: the pool does not fit the card at all
    idle = _IDLE if card > 40 else _IDLE_SMALL
    groups = 1 + sum((size.count or 1) > 1 for size in (*plan.parallel.sizes, plan.parallel.expert))
    left, need = card - idle - pool, groups * _GROUP
    if left >= need:
        return
    good = int(card - idle - need)
    yield no_room_for_communication.finding(
        evidence=seen(plan, plan.context.max_memory, expected=f"<= {good}GB"),
        # As long as something is left, MindSpore and HCCL may come to terms.
        severity=Severity.WARNING if left <= 0 else Severity.INFO,
        fixes=(change(plan, plan.context.max_memory, f"{good}GB"),),
        pool=pool,
        left=max(left, 0.0),
        idle=idle,
        card=card,
        need=need,
        groups=groups,
        good=good,
    )
