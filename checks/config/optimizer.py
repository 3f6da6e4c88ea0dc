"""Optimizer: ranges that fail, ranges that do not learn, clipping, offload."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import check
from doctor.checks.config.judge import (
    GRAPH,
    MINDFORMERS,
    RUNS,
    advice,
    applies,
    because,
    change,
    changes,
    seen,
    shown,
)
from doctor.finding import Finding, Severity, Text
from doctor.plan.plan import Dialect, Plan
from doctor.plan.value import Value
from doctor.rule import Rule

_LANGUAGE = (
    "llama",
    "qwen",
    "glm",
    "baichuan",
    "internlm",
    "yi",
    "mixtral",
    "deepseek",
    "telechat",
    "gpt",
    "bloom",
    "pangu",
    "codegeex",
)


def language_model(plan: Plan) -> bool:
    """Whether the model is one of the large language-model families."""
    words = f"{plan.model.type.words} {plan.model.architecture.words} {plan.model.name.words}".lower()
    return any(name in words for name in _LANGUAGE)


@check(
    Rule(
        id="CFG-OPT-001",
        name="beta-out-of-range",
        severity=Severity.ERROR,
        category="config",
        title=Text("{key} {value} is not in [0, 1)", "{key} 为 {value}，不在 [0, 1) 内"),
        why=Text(
            "A beta is the share of the running mean that is kept: 1 or more never forgets, below 0 alternates.",
            "beta 是滑动平均的保留比例：≥ 1 永不遗忘，< 0 会震荡。",
        ),
        fix=Text("Use 0.9 and 0.95.", "使用 0.9 和 0.95。"),
    )
)
@applies(RUNS, training=True)
def beta_range(plan: Plan) -> Iterator[Finding]:
    for value, usual in ((plan.optimizer.beta1, 0.9), (plan.optimizer.beta2, 0.95)):
        if value.given and value.number is not None and not 0 <= value.number < 1:
            yield beta_range.finding(
                evidence=seen(plan, value, *_list_of(plan, value), expected="0 <= beta < 1"),
                fixes=(change(plan, value, usual),),
                key=value.key,
                value=shown(value),
            )


def _list_of(plan: Plan, value: Value) -> tuple[Value, ...]:
    """The list that a beta stands in, so that both places are shown."""
    return (plan.optimizer.betas,) if "[" in value.key else ()


@check(
    Rule(
        id="CFG-OPT-002",
        name="betas-shape",
        severity=Severity.ERROR,
        category="config",
        title=Text("betas is no list of two numbers", "betas 不是两个数的列表"),
        why=Text(
            "Adam keeps two running means: betas: [beta1, beta2].", "Adam 维护两个滑动平均：betas: [beta1, beta2]。"
        ),
        fix=Text("Write betas: [0.9, 0.95].", "写成 betas: [0.9, 0.95]。"),
    )
)
@applies(MINDFORMERS, training=True)
def betas_shape(plan: Plan) -> Iterator[Finding]:
    value = plan.optimizer.betas
    wrong = value.is_sequence and (
        len(value.sequence) != 2 or any(item.number is None and item.text is None for item in value.sequence)
    )
    if value.given and (wrong or (value.is_scalar and value.value is not None)):
        yield betas_shape.finding(
            because(betas_shape, f"{value.key} is {shown(value)}.", f"{value.key} 为 {shown(value)}。"),
            evidence=seen(plan, value, expected="[0.9, 0.95]"),
            fixes=(change(plan, value, [0.9, 0.95]),),
        )


@check(
    Rule(
        id="CFG-OPT-003",
        name="second-beta-high-for-pretraining",
        severity=Severity.INFO,
        category="loss-not-converging",
        title=Text("beta2 {value} in pre-training", "预训练中 beta2 为 {value}"),
        why=Text(
            "Large language models are pre-trained with 0.95: 0.999 remembers a spike for a thousand steps.",
            "大模型预训练常用 0.95：0.999 会让一次尖峰影响上千步。",
        ),
        fix=Text("Use 0.95.", "使用 0.95。"),
        false_positives=Text("Usual outside language models and in fine-tuning.", "非语言模型或微调中属常见取值。"),
    )
)
@applies(RUNS, training=True)
def second_beta(plan: Plan) -> Iterator[Finding]:
    value = plan.optimizer.beta2
    if (
        value.given
        and (value.number or 0) >= 0.99
        and plan.pretrains
        and language_model(plan)
        and (value.number or 0) < 1
    ):
        yield second_beta.finding(
            evidence=seen(plan, value, *_list_of(plan, value), expected=0.95),
            fixes=(change(plan, value, 0.95),),
            value=shown(value),
        )


@check(
    Rule(
        id="CFG-OPT-017",
        name="first-beta-remembers-too-long",
        severity=Severity.WARNING,
        category="loss-not-converging",
        title=Text("beta1 {value} averages gradients over {steps} steps", "beta1 为 {value}，梯度在 {steps} 步上平均"),
        why=Text(
            "Adam moves along that mean: gradients of long ago, of other weights, outweigh those of now. Usual: 0.9.",
            "Adam 沿该均值更新：很久以前、针对旧权重的梯度会压过当前梯度。常用 0.9。",
        ),
        fix=Text("Use 0.9.", "使用 0.9。"),
        references=("Kingma & Ba 2015, arXiv 1412.6980, section 2: the mean reaches back 1 / (1 - beta1) steps",),
    )
)
@applies(RUNS, training=True)
def first_beta(plan: Plan) -> Iterator[Finding]:
    value = plan.optimizer.beta1
    if value.given and value.number is not None and 0.99 < value.number < 1:
        yield first_beta.finding(
            evidence=seen(plan, value, *_list_of(plan, value), expected=0.9),
            fixes=(change(plan, value, 0.9),),
            value=shown(value),
            steps=round(1 / (1 - value.number)),
        )


@check(
    Rule(
        id="CFG-OPT-018",
        name="second-beta-forgets-too-soon",
        severity=Severity.WARNING,
        category="loss-not-converging",
        title=Text(
            "beta2 {value} averages squared gradients over {steps} steps",
            "beta2 为 {value}，平方梯度只在 {steps} 步上平均",
        ),
        why=Text(
            "Adam divides by the root of that mean: of a few steps it is mostly noise, and so is the size of each update. Usual: 0.95 to 0.999.",
            "Adam 以该均值的平方根为除数：只看几步时它多半是噪声，更新幅度也随之抖动。常用 0.95 到 0.999。",
        ),
        fix=Text("Use 0.95.", "使用 0.95。"),
        references=("Kingma & Ba 2015, arXiv 1412.6980, section 2: the mean reaches back 1 / (1 - beta2) steps",),
    )
)
@applies(RUNS, training=True)
def second_beta_low(plan: Plan) -> Iterator[Finding]:
    value = plan.optimizer.beta2
    if value.given and value.number is not None and 0 <= value.number < 0.5:
        yield second_beta_low.finding(
            evidence=seen(plan, value, *_list_of(plan, value), expected=0.95),
            fixes=(change(plan, value, 0.95),),
            value=shown(value),
            steps=f"{1 / (1 - value.number):.2g}",
        )


@check(
    Rule(
        id="CFG-OPT-004",
        name="weight-decay-out-of-range",
        severity=Severity.ERROR,
        category="config",
        title=Text("weight_decay {value} is out of range", "weight_decay {value} 超出范围"),
        why=Text(
            "It pulls weights to zero: negative pushes them away, above 1 erases them within steps. Usual: 0.1 to 0.01.",
            "它把权重拉向零：负值会推离，大于 1 会很快抹掉权重。常用 0.1 到 0.01。",
        ),
        fix=Text("Use 0.1.", "使用 0.1。"),
    )
)
@applies(RUNS, training=True)
def weight_decay(plan: Plan) -> Iterator[Finding]:
    value = plan.optimizer.weight_decay
    number = value.number
    if value.given and number is not None and (number < 0 or number > 0.5):
        yield weight_decay.finding(
            evidence=seen(plan, value, expected="0 to 0.5, usually 0.1"),
            fixes=(change(plan, value, 0.1),),
            severity=None if number < 0 or number >= 1 else Severity.WARNING,
            value=shown(value),
        )


@check(
    Rule(
        id="CFG-OPT-005",
        name="epsilon-out-of-range",
        severity=Severity.ERROR,
        category="nan-overflow",
        title=Text("eps {value} is out of range", "eps {value} 超出范围"),
        why=Text(
            "It keeps Adam from dividing by zero: 0 or less gives NaN at the first zero gradient, a large one stops learning. Usual: 1e-8.",
            "它防止 Adam 除零：≤ 0 遇到零梯度即 NaN，过大则学不动。常用 1e-8。",
        ),
        fix=Text("Use 1.e-8.", "使用 1.e-8。"),
    )
)
@applies(RUNS, training=True)
def epsilon(plan: Plan) -> Iterator[Finding]:
    value = plan.optimizer.epsilon
    number = value.number
    if value.given and number is not None and (number <= 0 or number > 1e-4):
        yield epsilon.finding(
            evidence=seen(plan, value, expected="above 0, usually 1e-8"),
            fixes=(change(plan, value, 1e-8),),
            severity=None if number <= 0 else Severity.WARNING,
            value=shown(value),
        )


@check(
    Rule(
        id="CFG-OPT-011",
        name="gradients-clipped-to-nothing",
        severity=Severity.WARNING,
        category="loss-not-converging",
        title=Text("Gradients are clipped at {value}", "梯度被裁剪到 {value}"),
        why=Text(
            "A limit near zero scales every gradient down to almost nothing: the loss stays flat. Usual: 1.0.",
            "接近零的上限会把所有梯度缩到几乎为零，损失不动。常用 1.0。",
        ),
        fix=Text("Use 1.0.", "使用 1.0。"),
    )
)
@applies(RUNS, training=True)
def clip_small(plan: Plan) -> Iterator[Finding]:
    value = plan.optimizer.clip_norm
    number = value.number
    if not value.given or number is None or (plan.optimizer.clip.value is False and plan.dialect.graph):
        return
    off = number == 0 and plan.dialect is Dialect.TRAINER
    if number < 0.01 and not off:
        turned = Text(
            "A limit below zero turns every gradient round, or is refused: the loss rises. Usual: 1.0.",
            "上限小于零会使梯度反向，或直接报错：损失会上升。常用 1.0。",
        )
        # pynative/trainer/utils.py _calculate_global_grad_norm of 2.0 and 2.1 scales by max_norm / norm whatever the
        # limit is, and trainer.py calls it in every step: the comment "if value > 0" of its config is not what it does
        nothing = Text(
            "PyNative multiplies every gradient by limit / norm: a limit of 0 makes all of them 0, it does not switch "
            "clipping off. Usual: 1.0.",
            "PyNative 会把所有梯度乘以 上限/范数：上限为 0 时梯度全部变 0，并不表示关闭裁剪。常用 1.0。",
        )
        yield clip_small.finding(
            turned if number < 0 else nothing if number == 0 and plan.dialect is Dialect.PYNATIVE else None,
            evidence=seen(plan, value, expected=1.0),
            fixes=(change(plan, value, 1.0),),
            severity=Severity.ERROR if number < 0 or (number == 0 and _stops_all(plan)) else None,
            value=shown(value),
        )


def _stops_all(plan: Plan) -> bool:
    """Whether a limit of 0 is known to make every gradient 0 in the release of the file."""
    return plan.dialect.graph or (plan.release.certain and plan.release.before("2.2"))


@check(
    Rule(
        id="CFG-OPT-012",
        name="gradients-not-clipped",
        severity=Severity.INFO,
        category="loss-not-converging",
        title=Text("Gradients are not clipped", "没有裁剪梯度"),
        why=Text(
            "One bad batch can throw a large model off; clipping at 1.0 is usual in language models.",
            "一个异常批次就可能让大模型跑偏；语言模型一般按 1.0 裁剪。",
        ),
        fix=Text("Set runner_wrapper.use_clip_grad: True.", "设置 runner_wrapper.use_clip_grad: True。"),
    )
)
@applies(GRAPH, training=True)
def clip_off(plan: Plan) -> Iterator[Finding]:
    value = plan.optimizer.clip
    if value.value is False and value.given and language_model(plan):
        yield clip_off.finding(evidence=seen(plan, value, expected=True), fixes=(change(plan, value, True),))


@check(
    Rule(
        id="CFG-OPT-013",
        name="clip-limit-large",
        severity=Severity.INFO,
        category="loss-not-converging",
        title=Text("Gradients are clipped at {value} only", "梯度仅在 {value} 处裁剪"),
        why=Text("So high a limit never acts; 1.0 is usual.", "上限过高等于不裁剪；常用 1.0。"),
        fix=Text("Use 1.0.", "使用 1.0。"),
    )
)
@applies(RUNS, training=True)
def clip_large(plan: Plan) -> Iterator[Finding]:
    value = plan.optimizer.clip_norm
    if value.given and (value.number or 0) > 100:
        yield clip_large.finding(
            evidence=seen(plan, value, expected=1.0),
            fixes=(change(plan, value, 1.0),),
            severity=Severity.WARNING if (value.number or 0) > 1000 else None,
            value=shown(value),
        )


@check(
    Rule(
        id="CFG-OPT-014",
        name="muon-needs-latent-attention",
        severity=Severity.ERROR,
        category="config",
        title=Text("Muon is for models with multi-latent attention", "Muon 仅支持 MLA 模型"),
        why=Text(
            "MindFormers' Muon groups the matrices of multi-latent attention and refuses other models.",
            "MindFormers 的 Muon 按 MLA 的矩阵分组，不支持其他模型。",
        ),
        fix=Text("Use AdamW.", "使用 AdamW。"),
        references=("mindformers/core/optim/muon.py",),
    )
)
@applies((Dialect.MCORE, Dialect.PYNATIVE), training=True)
def muon(plan: Plan) -> Iterator[Finding]:
    latent = plan.model.section.get("multi_latent_attention")
    if plan.optimizer.type.words == "Muon" and latent.value is False:
        yield muon.finding(
            evidence=seen(plan, plan.optimizer.type, latent, expected="AdamW"),
            fixes=(change(plan, plan.optimizer.type, "AdamW"),),
        )


@check(
    Rule(
        id="CFG-OPT-015",
        name="state-offload-slow",
        severity=Severity.INFO,
        category="performance",
        title=Text("Optimizer states are moved to the host", "优化器状态卸载到主机"),
        why=Text(
            "Each update moves 8 bytes a parameter over the bus and back: the last resort when memory is short.",
            "每次更新都要在总线上往返搬运每参数 8 字节：显存不足时的最后手段。",
        ),
        fix=Text(
            "First try recompute, a smaller batch, enable_parallel_optimizer.",
            "先试重计算、减小批次、enable_parallel_optimizer。",
        ),
    )
)
@applies(RUNS, training=True)
def offload(plan: Plan) -> Iterator[Finding]:
    value = plan.optimizer.offload
    if value.on:
        yield offload.finding(
            evidence=seen(plan, value),
            fixes=(
                advice(plan, "doctor estimate shows what fits without it.", "doctor estimate 可查看不卸载时能否放下。"),
            ),
        )


@check(
    Rule(
        id="CFG-OPT-016",
        name="betas-swapped",
        severity=Severity.WARNING,
        category="loss-not-converging",
        title=Text("beta1 {first} is above beta2 {second}", "beta1 {first} 大于 beta2 {second}"),
        why=Text(
            "The mean of the squares is kept longer than the mean: beta1 0.9, beta2 0.95. The other way round steps overshoot.",
            "二阶矩应比一阶矩保留更久：beta1 0.9、beta2 0.95。反过来步长会过冲。",
        ),
        fix=Text("Swap them.", "交换两者。"),
    )
)
@applies(RUNS, training=True)
def betas_swapped(plan: Plan) -> Iterator[Finding]:
    first, second = plan.optimizer.beta1, plan.optimizer.beta2
    low, high = first.number, second.number
    if low is None or high is None or not (first.given and second.given) or not 0 <= high < low < 1:
        return
    pairs = [(first, high), (second, low)]
    yield betas_swapped.finding(
        evidence=(*seen(plan, first, second), *seen(plan, *_list_of(plan, first))),
        fixes=(changes(plan, pairs),),
        first=shown(first),
        second=shown(second),
    )
