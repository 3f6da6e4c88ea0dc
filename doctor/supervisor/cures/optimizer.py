"""Cures of the optimizer's settings: the rate and its schedule, clipping, Adam's own, and how weights begin."""

from __future__ import annotations

from typing import Any, Optional

from doctor.finding import Finding, Text
from doctor.supervisor.cures.remedy import BEST, START, Remedy
from doctor.trainer.config import RunConfig

#: Adam moves each weight by about the rate in a step: at more than this no clipping helps
_ABSURD_RATE = 1e-2
#: below this a rate, or a gradient norm, is none; above this a decay leaves no weights
_NO_RATE, _NO_NORM, _ABSURD_DECAY = 1e-7, 1e-4, 1.0
_LOWEST_BETA2, _HIGHEST_BETA2, _HIGHEST_BETA1, _ABSURD_EPSILON = 0.5, 0.9999, 0.99, 1e-4
#: what the field starts from, when nothing is known but whether there are weights already
_USUAL_RATE, _USUAL_RATE_OF_FINE_TUNING = 3e-4, 2e-5
_USUAL_WARMUP, _LONG_WARMUP = 0.05, 0.7
_USUAL_SPREAD, _NARROW, _WIDE = 0.02, 1e-6, 0.5


def clip(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    if config.args.max_grad_norm > 0 or config.args.learning_rate > _ABSURD_RATE:
        return None
    return Remedy(
        Text("Clip the gradient norm at 1: it is not clipped now.", "把梯度范数裁剪到 1：目前没有裁剪。"),
        {f"training_args.{config.spelled('max_grad_norm')}": 1.0},
        safe=False,
        back=BEST,
    )


def lower_rate(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    rate = config.args.learning_rate
    return _rate(config, min(rate / 10, 1e-3), BEST) if rate > 1e-6 else None


def with_rate(remedy: Remedy, config: RunConfig, rate: float) -> Remedy:
    """The `measurable` remedy with a rate that was measured; one that broke the run is left well behind in any case."""
    now = config.args.learning_rate
    return _rate(config, min(rate, now / 3) if now > _NO_RATE else rate, remedy.back, measured=True)


def _rate(config: RunConfig, rate: float, back: str, measured: bool = False) -> Remedy:
    args, rate = config.args, float(f"{rate:.3g}")
    edits: dict[str, Any] = {f"training_args.{config.spelled('learning_rate')}": rate}
    if args.lr_end > rate:
        edits[f"training_args.{config.spelled('lr_end')}"] = rate / 10
    words = Text(
        f"Set the learning rate to {rate:g}; it is {args.learning_rate:g}"
        + (": in a short run with a rising rate the loss fell until well above that." if measured else "."),
        f"学习率设为 {rate:g}，目前为 {args.learning_rate:g}"
        + ("：短时试跑中学习率逐步升高，超过该值后 loss 仍在下降。" if measured else "。"),
    )
    if not args.max_grad_norm:
        edits[f"training_args.{config.spelled('max_grad_norm')}"] = 1.0
        words += Text(" Clip the gradient norm at 1.", "梯度范数裁剪到 1。")
    return Remedy(words, edits, safe=False, back=back, measurable=not measured)


def lower_absurd_rate(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    """A loss that never falls has many causes; a rate of a hundredth and more is one."""
    return lower_rate(config, finding) if config.args.learning_rate > _ABSURD_RATE else None


def _usual(config: RunConfig, name: str, value: float) -> Remedy:
    """That setting as the field has it, if not the best."""
    now = getattr(config.args, name)
    key = config.spelled(name)
    return Remedy(
        Text(
            f"Set {key} to {value:g}, as is usual: it is {now:g}.", f"把 {key} 设为常用的 {value:g}：目前为 {now:g}。"
        ),
        {f"training_args.{key}": value},
        safe=False,
        back=START,
    )


def usual_rate(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    """A rate of next to nothing trains nothing."""
    if config.args.learning_rate > _NO_RATE:
        return None
    if config.load_checkpoint:
        # What a training forgets does not show in its loss: nothing to measure by.
        return _usual(config, "learning_rate", _USUAL_RATE_OF_FINE_TUNING)
    return _rate(config, _USUAL_RATE, START)


def usual_decay(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    return _usual(config, "weight_decay", 0.1) if config.args.weight_decay >= _ABSURD_DECAY else None


def usual_clip(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    """Gradients that are clipped to less than Adam's epsilon move nothing."""
    return _usual(config, "max_grad_norm", 1.0) if 0 < config.args.max_grad_norm < _NO_NORM else None


def usual_betas(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    """Means over all of the run, or over one step, of which FP32 may not even hold the share that is new."""
    first, second = config.args.adam_beta1, config.args.adam_beta2
    edits: dict[str, Any] = {}
    if first > _HIGHEST_BETA1:
        edits[f"training_args.{config.spelled('adam_beta1')}"] = 0.9
    if not _LOWEST_BETA2 <= second <= _HIGHEST_BETA2:
        edits[f"training_args.{config.spelled('adam_beta2')}"] = 0.95
    if not edits:
        return None
    return Remedy(
        Text(
            f"Set Adam's betas to what is usual, 0.9 and 0.95: they are {first:g} and {second:g}.",
            f"把 Adam 的 beta 设为常用的 0.9 与 0.95：目前为 {first:g} 与 {second:g}。",
        ),
        edits,
        safe=False,
        back=START,
    )


def usual_epsilon(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    return _usual(config, "adam_epsilon", 1e-8) if config.args.adam_epsilon > _ABSURD_EPSILON else None


def usual_warmup(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    """A warm-up longer than the run, which the trainer refuses, or than is left for the training itself."""
    args = config.args
    if args.warmup_ratio:
        edits: dict[str, Any] = {f"training_args.{config.spelled('warmup_ratio')}": _USUAL_WARMUP}
        if args.warmup_ratio <= _LONG_WARMUP:
            return None
    elif args.max_steps is not None and args.max_steps > 0:
        edits = {f"training_args.{config.spelled('warmup_steps')}": max(1, int(args.max_steps * _USUAL_WARMUP))}
        if args.warmup_steps <= args.max_steps * _LONG_WARMUP:
            return None
    else:
        # The number of steps follows from the data: a share of it can be said all the same.
        edits = {
            f"training_args.{config.spelled('warmup_steps')}": 0,
            f"training_args.{config.spelled('warmup_ratio')}": _USUAL_WARMUP,
        }
        if finding.rule != "CFG-LRS-002":
            return None
    return Remedy(
        Text(
            f"Warm up for {_USUAL_WARMUP:.0%} of the steps, as is usual, instead of "
            + (f"{args.warmup_ratio:.0%}." if args.warmup_ratio else f"{args.warmup_steps} steps."),
            f"预热取总步数的 {_USUAL_WARMUP:.0%}（常用比例），而不是"
            + (f" {args.warmup_ratio:.0%}。" if args.warmup_ratio else f" {args.warmup_steps} 步。"),
        ),
        edits,
        safe=False,
        back=START,
    )


def lower_end(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    """A rate that is to end above where it begins."""
    if config.args.lr_end <= config.args.learning_rate:
        return None
    return _usual(config, "lr_end", 0.0)


def usual_spread(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    """Weights that begin at zero or far from it; those that are loaded begin where they were."""
    now = config.model.initializer_range
    if config.load_checkpoint or _NARROW <= now <= _WIDE:
        return None
    # Nguyen & Salazar 2019 (arXiv 1910.05895) for narrow models; from a width of a thousand on everybody takes 0.02.
    usual = max(_USUAL_SPREAD, float(f"{(2 / (5 * config.model.hidden_size)) ** 0.5:.2g}"))
    return Remedy(
        Text(
            f"Begin with weights of a spread of {usual:g}, as is usual for this width, instead of {now:g}.",
            f"初始权重的标准差取该宽度常用的 {usual:g}，而不是 {now:g}。",
        ),
        {"model.initializer_range": usual},
        safe=False,
        back=START,
    )
