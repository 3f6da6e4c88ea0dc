"""Which change of which setting cures which finding, given the config as it is.

A remedy is safe when it cannot make the result worse than that of the run as it was meant (a loss scale that adapts,
half the batch with twice the accumulation), unsafe when it changes what is trained (a lower rate, a batch left out).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Optional

from doctor.errors import UsageError
from doctor.finding import Finding, Text
from doctor.supervisor.edits import batch_key
from doctor.trainer.arguments import LossScale
from doctor.trainer.config import RunConfig

NEWEST, SOUND, BEST, START = "newest", "sound", "best", "start"


@dataclass(frozen=True)
class Remedy:
    """`edits` are dotted keys of the config with their new values. `back` is where the run goes on: with what it has
    (`newest`), with the weights from before the fault (`sound`), with those from before the loss was at its best, as what
    was learnt at too high a rate is worth nothing however finite (`best`), or from the beginning (`start`)."""

    summary: Text
    edits: Mapping[str, Any]
    safe: bool
    back: str = SOUND
    #: the rate among the edits is a guess, and `with_rate` takes one that was measured
    measurable: bool = False


Cure = Callable[[RunConfig, Finding], Optional[Remedy]]


#: what `check` says of a config that is worth a change before the first step: nothing of such a run is worth having
BEFORE = (
    "CFG-LRS-002",
    "CFG-LRS-004",
    "CFG-MOD-017",
    "CFG-OPT-003",
    "CFG-OPT-004",
    "CFG-OPT-005",
    "CFG-OPT-007",
    "CFG-OPT-011",
    "CFG-OPT-017",
    "CFG-OPT-018",
    "CFG-PRC-004",
)


def remedy_for(finding: Finding, config: RunConfig, cores: int) -> Optional[Remedy]:
    """The first cure that the config leaves room for, or None."""
    for cure in _CURES.get(finding.rule) or _CURES_OF_CATEGORY.get(finding.category, ()):
        found = cure(config, finding)
        if found is not None:
            return found
    if finding.rule == "RUN-HOST-003":
        return _fewer_workers(config, cores)
    return None


#: what says that gradients are too small for FP16
_LOST_GRADIENTS = ("CFG-PRC-004", "RUN-MON-001")


def _adaptive_scale(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    """FP16 with a scale that is fixed, or whose overflow is not dropped."""
    scale = config.args.loss_scale
    if scale is None or config.args.dtype != "float16" or (scale.dynamic and scale.drop_overflow):
        return None
    where = f"training_args.{config.spelled('loss_scale')}"
    if isinstance(config.said("loss_scale"), Mapping):
        edits: dict[str, Any] = {f"{where}.type": "dynamic"}
        if not scale.drop_overflow:
            edits[f"{where}.drop_overflow_update"] = True
        if scale.value > LossScale.value or finding.rule in _LOST_GRADIENTS:
            # From where it overflowed it would take a dropped step for each halving, from where nothing is left of a
            # gradient many steps for each doubling.
            edits[_start_of_scale(config)] = int(LossScale.value)
    else:
        edits = {where: "dynamic"}
    return Remedy(
        Text(
            f"Let the loss scale adapt instead of keeping it at {scale.value:g}: an overflow then halves it and drops the step.",
            f"loss scale 不再固定为 {scale.value:g}，改为动态：溢出时减半并跳过该步。",
        ),
        edits,
        safe=True,
    )


def _start_of_scale(config: RunConfig) -> str:
    """The key of the loss scale's first value, where the loss scale is a mapping."""
    start = "init_loss_scale" if "init_loss_scale" in config.said("loss_scale") else "loss_scale_value"
    return f"training_args.{config.spelled('loss_scale')}.{start}"


def _higher_start(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    """FP16 with a scale that adapts, but begins where gradients are lost below the type."""
    scale = config.args.loss_scale
    if scale is None or config.args.dtype != "float16" or not scale.dynamic or scale.value >= LossScale.value:
        return None
    return Remedy(
        Text(
            f"Begin with a loss scale of {LossScale.value:g} instead of {scale.value:g}: below it FP16 has lost gradients.",
            f"loss scale 初始值由 {scale.value:g} 改为 {LossScale.value:g}：现值下 FP16 梯度下溢为 0。",
        ),
        {_start_of_scale(config): int(LossScale.value)},
        safe=True,
    )


def _full_precision(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    if config.args.dtype != "float16":
        return None
    return Remedy(
        Text(
            "Compute in FP32: FP16 overflows although the loss scale adapts.",
            "改用 FP32 计算：loss scale 已是动态，FP16 仍溢出。",
        ),
        {"training_args.mixed_precision": "O0", "training_args.loss_scale": None},
        safe=True,
    )


#: Adam moves each weight by about the rate in a step: at more than this no clipping helps
_ABSURD_RATE = 1e-2
#: below this a rate, or a gradient norm, is none; above this a decay leaves no weights
_NO_RATE, _NO_NORM, _ABSURD_DECAY = 1e-7, 1e-4, 1.0
_LOWEST_BETA2, _HIGHEST_BETA2, _HIGHEST_BETA1, _ABSURD_EPSILON = 0.5, 0.9999, 0.99, 1e-4
#: what the field starts from, when nothing is known but whether there are weights already
_USUAL_RATE, _USUAL_RATE_OF_FINE_TUNING = 3e-4, 2e-5
_USUAL_WARMUP, _LONG_WARMUP = 0.05, 0.7
_USUAL_SPREAD, _NARROW, _WIDE = 0.02, 1e-6, 0.5


def _master_weights(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    """Weights kept in half lose every update that is smaller than a step of the type."""
    if config.args.mixed_precision != "O3":
        return None
    return Remedy(
        Text(
            "Keep the weights in FP32 (O2): in half a small update is rounded away.",
            "权重改用 FP32 保存（O2）：半精度权重会把很小的更新舍掉。",
        ),
        {f"training_args.{config.spelled('mixed_precision')}": "O2"},
        safe=True,
        back=START,
    )


def _no_bfloat16(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    """The device has none, as the trainer said."""
    if config.args.dtype != "bfloat16":
        return None
    edits: dict[str, Any] = {f"training_args.{config.spelled('mixed_precision')}": "O0"}
    if config.said("compute_dtype") is not None:
        edits["training_args.compute_dtype"] = "float32"
    return Remedy(
        Text(
            "Compute in FP32: this device has no bfloat16.",
            "改用 FP32 计算：该设备不支持 bfloat16。",
        ),
        edits,
        safe=True,
        back=NEWEST,
    )


def _turned_off(name: str, value: Any, en: str, zh: str) -> Cure:
    """A cure that takes back a setting which cannot be had here, and without which the training is the same."""

    def cure(config: RunConfig, finding: Finding) -> Optional[Remedy]:
        if getattr(config.args, name) == value:
            return None
        return Remedy(Text(en, zh), {f"training_args.{config.spelled(name)}": value}, safe=True, back=NEWEST)

    return cure


def _clip(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    if config.args.max_grad_norm > 0 or config.args.learning_rate > _ABSURD_RATE:
        return None
    return Remedy(
        Text("Clip the gradient norm at 1: it is not clipped now.", "把梯度范数裁剪到 1：目前没有裁剪。"),
        {f"training_args.{config.spelled('max_grad_norm')}": 1.0},
        safe=False,
        back=BEST,
    )


def _lower_rate(config: RunConfig, finding: Finding) -> Optional[Remedy]:
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


def _lower_absurd_rate(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    """A loss that never falls has many causes; a rate of a hundredth and more is one."""
    return _lower_rate(config, finding) if config.args.learning_rate > _ABSURD_RATE else None


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


def _usual_rate(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    """A rate of next to nothing trains nothing."""
    if config.args.learning_rate > _NO_RATE:
        return None
    if config.load_checkpoint:
        # What a training forgets does not show in its loss: nothing to measure by.
        return _usual(config, "learning_rate", _USUAL_RATE_OF_FINE_TUNING)
    return _rate(config, _USUAL_RATE, START)


def _usual_decay(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    return _usual(config, "weight_decay", 0.1) if config.args.weight_decay >= _ABSURD_DECAY else None


def _usual_clip(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    """Gradients that are clipped to less than Adam's epsilon move nothing."""
    return _usual(config, "max_grad_norm", 1.0) if 0 < config.args.max_grad_norm < _NO_NORM else None


def _usual_betas(config: RunConfig, finding: Finding) -> Optional[Remedy]:
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


def _usual_epsilon(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    return _usual(config, "adam_epsilon", 1e-8) if config.args.adam_epsilon > _ABSURD_EPSILON else None


def _usual_warmup(config: RunConfig, finding: Finding) -> Optional[Remedy]:
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


def _usual_spread(config: RunConfig, finding: Finding) -> Optional[Remedy]:
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


def _room_for_tokens(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    """A model of fewer ids than its tokenizer; one whose weights are loaded has the vocabulary that it has."""
    if config.load_checkpoint:
        return None
    from doctor.trainer.data.tokenizer import load_tokenizer

    try:
        ids = load_tokenizer(config.dataset.tokenizer).vocab_size
    except UsageError:
        return None
    if ids <= config.model.vocab_size:
        return None
    # A multiple of 64, as matrix units like it.
    size = -(-ids // 64) * 64
    return Remedy(
        Text(
            f"Give the model {size} ids instead of {config.model.vocab_size}: its tokenizer has {ids}.",
            f"模型词表由 {config.model.vocab_size} 增至 {size}：tokenizer 的词表大小为 {ids}。",
        ),
        {"model.vocab_size": size},
        safe=False,
        back=START,
    )


def _lower_end(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    """A rate that is to end above where it begins."""
    if config.args.lr_end <= config.args.learning_rate:
        return None
    return _usual(config, "lr_end", 0.0)


def _shift_labels(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    if config.dataset.shift_labels != "never":
        return None
    return Remedy(
        Text(
            "Shift the labels by one: taken as they are, the model only copies its input.",
            "labels 左移一位：目前原样使用，模型只是在复制输入。",
        ),
        {"train_dataset.shift_labels": "auto"},
        safe=True,
        back=START,
    )


def _set_back(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    """Labels that arrive shifted twice; the trainer proves on every sample that they are the next tokens afterwards."""
    if config.dataset.shift_labels == "back":
        return None
    return Remedy(
        Text("Set the labels back by one: they arrive shifted twice.", "把 labels 移回一位：数据中已移位两次。"),
        {"train_dataset.shift_labels": "back"},
        safe=True,
        back=START,
    )


def _skip_rows(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    source = config.dataset.data_loader
    if source.type != "Json" or source.bad_rows == "skip":
        return None
    return Remedy(
        Text("Leave out the lines that cannot be read.", "跳过无法读取的行。"),
        {"train_dataset.data_loader.bad_rows": "skip"},
        safe=False,
        back=START,
    )


def _skip_batch(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    """Leaves out the batches of the step at which the loss jumped, once."""
    step = next((item.step for item in finding.evidence if item.step is not None), None)
    if step is None or step in config.args.skip_steps:
        return None
    steps = sorted({*config.args.skip_steps, step})
    return Remedy(
        Text(f"Leave out the data of step {step}.", f"跳过第 {step} 步的数据。"),
        {"training_args.skip_steps": steps},
        safe=False,
    )


def _smaller_batch(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    """Half the batch with twice the accumulation is the same update in half the activations."""
    args = config.args
    if args.per_device_train_batch_size % 2:
        return None
    half, twice = args.per_device_train_batch_size // 2, args.gradient_accumulation_steps * 2
    return Remedy(
        Text(
            f"Batch {half} with {twice} accumulation steps: the same global batch, half the activations.",
            f"batch {half}、累积 {twice} 步：全局 batch 不变，激活值减半。",
        ),
        {batch_key(config): half, "training_args.gradient_accumulation_steps": twice},
        safe=True,
        back=NEWEST,
    )


def _recompute(config: RunConfig, finding: Finding) -> Optional[Remedy]:
    if config.args.recompute is True:
        return None
    return Remedy(
        Text("Recompute the layers in the backward pass.", "在反向传播中重计算各层。"),
        {f"training_args.{config.spelled('recompute')}": True},
        safe=True,
        back=NEWEST,
    )


def _fewer_workers(config: RunConfig, cores: int) -> Optional[Remedy]:
    workers = config.dataset.num_parallel_workers
    if workers is None or workers <= cores:
        return None
    return Remedy(
        Text(
            f"Read data with {cores} workers: this machine has no more cores.",
            f"数据读取改用 {cores} 个 worker：本机只有这么多核。",
        ),
        {"train_dataset.num_parallel_workers": cores},
        safe=True,
        back=NEWEST,
    )


_NOT_FINITE: tuple[Cure, ...] = (
    _adaptive_scale,
    _master_weights,
    _full_precision,
    _usual_betas,
    _usual_spread,
    _clip,
    _lower_rate,
)
_NOT_LEARNING: tuple[Cure, ...] = (
    _adaptive_scale,
    _master_weights,
    _usual_spread,
    _usual_rate,
    _usual_betas,
    _usual_epsilon,
    _usual_clip,
    _usual_decay,
    _lower_absurd_rate,
)
_OUT_OF_MEMORY: tuple[Cure, ...] = (_recompute, _smaller_batch)
_CURES: Mapping[str, tuple[Cure, ...]] = {
    "RUN-NAN-001": _NOT_FINITE,
    "RUN-NAN-002": _NOT_FINITE,
    "RUN-NAN-003": _NOT_FINITE,
    "RUN-OVF-001": (_adaptive_scale,),
    "RUN-OVF-002": (_full_precision,),
    "RUN-OVF-003": (_adaptive_scale, _full_precision),
    "RUN-LOSS-001": (_usual_betas, _skip_batch, _clip, _lower_rate),
    "RUN-LOSS-003": (_usual_betas, _clip, _lower_rate),
    "RUN-LOSS-005": (_shift_labels,),
    "RUN-LOSS-006": _NOT_LEARNING,
    "RUN-LOSS-007": _NOT_LEARNING,
    "RUN-LOSS-008": (_usual_betas, _lower_rate),
    "RUN-LOSS-009": (_shift_labels,),
    "RUN-GRAD-002": (_usual_betas, _clip, _lower_rate),
    "RUN-GRAD-003": (_usual_betas, _clip, _lower_rate),
    "RUN-GRAD-001": (_usual_clip,),
    "RUN-GRAD-004": (_usual_clip,),
    "RUN-LR-001": (_usual_rate,),
    "RUN-MON-001": (_adaptive_scale, _higher_start, _master_weights, _usual_spread),
    "RUN-MON-005": (_shift_labels,),
    "RUN-MON-002": (_usual_betas, _master_weights),
    "CFG-LRS-001": (_lower_end,),
    "CFG-LRS-002": (_usual_warmup,),
    "CFG-LRS-004": (_usual_warmup,),
    "CFG-MOD-017": (_usual_spread,),
    "CFG-OPT-015": (
        _turned_off(
            "optimizer_offload",
            False,
            "Do not offload the optimizer: there is no device to take it from.",
            "不卸载优化器：本机没有需要卸载的设备。",
        ),
    ),
    "CFG-OPT-017": (_usual_betas,),
    "CFG-OPT-018": (_usual_betas,),
    "CFG-PRC-002": (_no_bfloat16,),
    "CFG-PRC-004": (_adaptive_scale,),
    "CFG-RUN-004": (
        _turned_off("eval_steps", 0, "Do not evaluate: there is no eval_dataset.", "不做评估：没有 eval_dataset。"),
    ),
    "DAT-COL-001": (_skip_rows,),
    "DAT-FILE-007": (_skip_rows,),
    "DAT-LBL-002": (_set_back,),
    "DAT-ROW-002": (_skip_rows,),
    "DAT-TOK-001": (_skip_rows,),
    "DAT-TOK-002": (_skip_rows,),
    "WGT-TOK-001": (_room_for_tokens,),
    "CFG-OPT-003": (_usual_betas,),
    "CFG-OPT-005": (_usual_epsilon,),
    "CFG-OPT-004": (_usual_decay,),
    "CFG-OPT-007": (_lower_absurd_rate,),
    "CFG-OPT-011": (_usual_clip,),
    "RUN-LR-005": (_lower_rate,),
}
#: what a log says of memory is many rules; the cure is the same
_CURES_OF_CATEGORY: Mapping[str, tuple[Cure, ...]] = {
    "oom-device": _OUT_OF_MEMORY,
    "oom-host": _OUT_OF_MEMORY,
    "memory-host": _OUT_OF_MEMORY,
}
