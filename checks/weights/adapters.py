"""Is there a model in the file at all?"""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import check
from doctor.checks.weights.subject import Weights
from doctor.finding import Evidence, Finding, Severity, Text
from doctor.rule import Rule


@check(
    Rule(
        id="WGT-KEY-010",
        name="adapter-without-base",
        severity=Severity.WARNING,
        category="weights-mismatch",
        title=Text("Only adapter weights are here", "这里只有适配器（LoRA）权重"),
        why=Text(
            "All {count} tensors belong to an adapter ({sample}); loaded as a model they leave every parameter random.",
            "全部 {count} 个张量都属于适配器（{sample}）；直接当作模型加载会使所有参数保持随机。",
        ),
        fix=Text(
            "Load the base model's weights too, or merge the adapter into them.",
            "同时加载基座权重，或先将适配器合并进基座。",
        ),
        verify="doctor check {path}",
    )
)
def adapter_only(subject: Weights) -> Iterator[Finding]:
    from doctor.formats.layers import is_lora

    names = list(subject.set.tensors)
    adapters = [name for name in names if is_lora(name)]
    if adapters and len(adapters) == len(names):
        yield adapter_only.finding(
            evidence=(Evidence("value", str(subject.path), key=adapters[0]),),
            count=len(adapters),
            sample=adapters[0],
            path=subject.path,
        )


@check(
    Rule(
        id="WGT-KEY-012",
        name="states-without-parameters",
        severity=Severity.ERROR,
        category="weights-mismatch",
        title=Text("Only states of an optimizer are here", "这里只有优化器状态"),
        why=Text(
            "All {count} tensors are states or counters ({sample}); none is a parameter. Loaded as a model they leave every "
            "parameter random, with a warning only.",
            "全部 {count} 个张量都是状态或计数器（{sample}），没有模型参数。当作模型加载时所有参数保持随机，且只有警告。",
        ),
        fix=Text(
            "Give the file of the parameters (in MindFormers 2.x the -model- files beside the -opt- files).",
            "请给出保存参数的文件（MindFormers 2.x 中与 -opt- 文件并列的 -model- 文件）。",
        ),
        verify="doctor check {path}",
    )
)
def states_only(subject: Weights) -> Iterator[Finding]:
    from doctor.formats.layers import is_state

    names = list(subject.set.tensors)
    states = [name for name in names if is_state(name)]
    if states and len(states) == len(names) and any("." in name for name in states):
        yield states_only.finding(
            evidence=(Evidence("value", str(subject.path), key=states[0]),),
            count=len(states),
            sample=states[0],
            path=subject.path,
        )
