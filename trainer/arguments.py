"""`TrainingArguments`: every setting of a run but its model and its data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional, Union

from doctor.errors import UsageError
from doctor.finding import Text
from doctor.trainer.fields import (
    Choice,
    Flag,
    Kind,
    Many,
    Maybe,
    Number,
    Place,
    Words,
    read_section,
    setting,
    unknown_key,
    wrong,
)

_COUNT = Number(1, 10**9, integer=True)
_SIZE = Number(0, 10**12, integer=True)
_BATCH = Number(1, 10**9, integer=True, rule="CFG-BAT-001")
_ACCUMULATION = Number(1, 10**9, integer=True, rule="CFG-BAT-003")
_RATE = Number(0, 1e9, rule="CFG-OPT-006")
_BETA = Number(0, 1, below=True, rule="CFG-OPT-001")


@dataclass(frozen=True)
class LossScale:
    """How FP16 gradients are kept above underflow. `dynamic` halves on overflow (`factor`) and doubles after `window`
    good steps; `drop_overflow` leaves the weights alone in a step whose gradients are not finite."""

    value: float = 65536.0
    dynamic: bool = True
    factor: float = 2.0
    window: int = 1000
    drop_overflow: bool = True


class _LossScaleKind(Kind):
    """`dynamic`, a fixed number, or MindFormers' mapping with type and loss_scale_value."""

    _POSITIVE = Number(0, 2.0**60, above=True, rule="CFG-PRC-005")
    _TYPES: Mapping[str, bool] = {
        "DynamicLossScaleUpdateCell": True,
        "DynamicLossScaleManager": True,
        "dynamic": True,
        "FixedLossScaleUpdateCell": False,
        "FixedLossScaleManager": False,
        "fixed": False,
    }

    def read(self, value: Any, place: Place) -> Optional[LossScale]:
        if value is None or value is False or isinstance(value, LossScale):
            return value or None
        if isinstance(value, str) and value.lower() == "dynamic":
            return LossScale()
        if isinstance(value, Mapping):
            return self._mapping(value, place)
        return LossScale(value=self._POSITIVE.read(value, place), dynamic=False)

    def _mapping(self, value: Mapping[str, Any], place: Place) -> LossScale:
        known = ("type", "loss_scale_value", "init_loss_scale", "scale_factor", "scale_window", "drop_overflow_update")
        for key in value:
            if key not in known:
                raise unknown_key(place.at(str(key)), str(key), known)
        kind = Choice(tuple(self._TYPES)).read(value.get("type", "DynamicLossScaleUpdateCell"), place.at("type"))
        start = value.get("loss_scale_value", value.get("init_loss_scale", 65536))
        return LossScale(
            value=self._POSITIVE.read(start, place.at("loss_scale_value")),
            dynamic=self._TYPES[kind],
            factor=Number(1, 1e6, above=True, rule="CFG-PRC-006").read(
                value.get("scale_factor", 2), place.at("scale_factor")
            ),
            window=_COUNT.read(value.get("scale_window", 1000), place.at("scale_window")),
            drop_overflow=Flag().read(value.get("drop_overflow_update", True), place.at("drop_overflow_update")),
        )


class _CheckpointKind(Kind):
    """`checkpoint_callback`: a mapping with MindFormers' names, a number of steps, or false."""

    _NAMES: Mapping[str, str] = {
        "save_checkpoint_steps": "save_steps",
        "save_steps": "save_steps",
        "keep_checkpoint_max": "save_total_limit",
        "save_total_limit": "save_total_limit",
        "checkpoint_format": "save_format",
        "save_best": "save_best",
    }

    def read(self, value: Any, place: Place) -> Mapping[str, Any]:
        if value is None:
            return {}
        if value is False:
            return {"save_steps": 0}
        if isinstance(value, int) and not isinstance(value, bool):
            return {"save_steps": value}
        if not isinstance(value, Mapping):
            expected = Text("a mapping such as {save_steps: 500}", "形如 {save_steps: 500} 的映射")
            raise wrong(place, value, expected, rule="CFG-TYP-009")
        plain = {key: item for key, item in value.items() if key not in {"type", "prefix"}}
        for key in plain:
            if key not in self._NAMES:
                raise unknown_key(place.at(str(key)), str(key), self._NAMES)
        return {self._NAMES[key]: item for key, item in plain.items()}


class _RecomputeKind(Kind):
    """true, false, "selective", or the numbers of the layers to recompute."""

    def read(self, value: Any, place: Place) -> Union[bool, str, tuple[int, ...]]:
        if isinstance(value, bool):
            return value
        if isinstance(value, Mapping):
            return self._mapping(value, place)
        if isinstance(value, str):
            return self._word(value, place)
        layers = Many(Number(0, 10**6, integer=True)).read(value, place)
        return tuple(sorted(set(layers)))

    def _word(self, value: str, place: Place) -> str:
        if value.lower() == "selective":
            return "selective"
        expected = Text('true, false, "selective" or numbers of layers', 'true、false、"selective" 或层号')
        raise wrong(place, value, expected, rule="CFG-KEY-015")

    def _mapping(self, value: Mapping[str, Any], place: Place) -> Union[bool, str]:
        known = ("recompute", "select_recompute")
        for key, item in value.items():
            if key not in known:
                raise unknown_key(place.at(str(key)), str(key), known)
            Flag().read(item, place.at(str(key)))
        return True if value.get("recompute") else ("selective" if value.get("select_recompute") else False)


class _ParallelKind(Kind):
    """`parallel_config`: sizes, by which `assemble` refuses what is for several devices; the rest is kept as given."""

    _SIZES = (
        "data_parallel",
        "model_parallel",
        "tensor_parallel",
        "tensor_model_parallel_size",
        "pipeline_stage",
        "pipeline_stages",
        "pipeline_model_parallel_size",
        "context_parallel",
        "expert_parallel",
        "device_num",
    )
    _KEPT = (
        "parallel_mode",
        "micro_batch_num",
        "micro_batch_interleave_num",
        "use_seq_parallel",
        "vocab_emb_dp",
        "optimizer_shard",
        "enable_parallel_optimizer",
        "gradient_aggregation_group",
        "gradients_mean",
        "full_batch",
    )

    def read(self, value: Any, place: Place) -> Mapping[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise wrong(place, value, Text("a mapping", "映射"), rule="CFG-TYP-009")
        size = Maybe(Number(1, 10**6, integer=True, rule="CFG-PAR-008"))
        for key, item in value.items():
            if key in self._SIZES:
                size.read(item, place.at(key))
            elif key not in self._KEPT:
                raise unknown_key(place.at(str(key)), str(key), (*self._SIZES, *self._KEPT))
        return dict(value)


PRECISION = Choice(
    ("O0", "O1", "O2", "O3"),
    {"fp32": "O0", "float32": "O0", "no": "O0", "fp16": "O2", "float16": "O2", "bf16": "O2", "bfloat16": "O2"},
    "CFG-PRC-011",
)


def _type_of_precision(values: Mapping[str, Any]) -> dict[str, str]:
    """``mixed_precision: bf16`` names a level and a type: the type, unless one is given."""
    asked = values.get("mixed_precision")
    if isinstance(asked, str) and asked.lower() in {"bf16", "bfloat16"} and values.get("compute_dtype") is None:
        return {"compute_dtype": "bfloat16"}
    return {}


@dataclass(frozen=True)
class TrainingArguments:
    """Settings of a run; batches count sequences, rates are per update. Raises UsageError for a value out of range."""

    output_dir: Optional[str] = setting(None, Maybe(Words()))
    run_name: Optional[str] = setting(None, Maybe(Words()))
    seed: int = setting(42, Number(0, 2**32 - 1, integer=True))

    num_train_epochs: float = setting(1.0, Number(0, 1e6, above=True, rule="CFG-RUN-001"), "epochs")
    max_steps: Optional[int] = setting(None, Maybe(Number(-1, 10**9, integer=True, rule="CFG-LRS-007")), "total_steps")
    per_device_train_batch_size: int = setting(8, _BATCH, "batch_size")
    gradient_accumulation_steps: int = setting(1, _ACCUMULATION)

    learning_rate: float = setting(3e-4, _RATE)
    lr_scheduler: str = setting(
        "cosine",
        Choice(
            ("cosine", "linear", "constant", "range_test"),
            {
                "cosinewithwarmuplr": "cosine",
                "linearwithwarmuplr": "linear",
                "constantwarmuplr": "constant",
                "constant_with_warmup": "constant",
            },
        ),
        "lr_scheduler_type",
    )
    lr_end: float = setting(0.0, _RATE)
    warmup_steps: int = setting(0, Number(0, 10**12, integer=True, rule="CFG-LRS-006"))
    warmup_ratio: float = setting(0.0, Number(0, 1, rule="CFG-LRS-003"))
    adam_beta1: float = setting(0.9, _BETA)
    adam_beta2: float = setting(0.95, _BETA)
    adam_epsilon: float = setting(1e-8, Number(0, 1, above=True, rule="CFG-OPT-005"))
    weight_decay: float = setting(0.1, Number(0, 10, rule="CFG-OPT-004"))
    max_grad_norm: float = setting(1.0, Number(0, 1e30, rule="CFG-OPT-011"))

    mixed_precision: str = setting("O0", PRECISION)
    compute_dtype: Optional[str] = setting(
        None,
        Maybe(
            Choice(
                ("float32", "float16", "bfloat16"),
                {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"},
                "CFG-PRC-001",
            )
        ),
    )
    loss_scale: Optional[LossScale] = setting(None, _LossScaleKind(), "scale_sense")  # noqa: RUF009 - frozen

    recompute: Union[bool, str, tuple[int, ...]] = setting(False, _RecomputeKind())
    optimizer_offload: bool = setting(False, Flag())
    use_parallel: bool = setting(False, Flag())
    parallel_config: Mapping[str, Any] = setting(None, _ParallelKind())

    checkpoint_callback: Mapping[str, Any] = setting(None, _CheckpointKind())
    save_steps: int = setting(500, Number(0, 10**12, integer=True, rule="CFG-CKP-004"))
    save_total_limit: int = setting(3, Number(1, 10**9, integer=True, rule="CFG-CKP-006"))
    save_best: bool = setting(False, Flag())
    save_format: str = setting("safetensors", Choice(("safetensors", "ckpt"), rule="CFG-CKP-009"))

    #: steps whose data are left out: a batch known to be bad
    skip_steps: tuple[int, ...] = setting((), Many(_COUNT), "skip_batches")
    eval_steps: int = setting(0, _SIZE)
    logging_steps: int = setting(1, _COUNT)
    #: TensorBoard event files are written there
    summary_dir: Optional[str] = setting(None, Maybe(Words()), "logging_dir")
    #: look in each step whether it did what it ought to (`doctor.trainer.monitors`)
    monitors: bool = setting(True, Flag())
    mode: str = setting("graph", Choice(("graph", "pynative"), {"0": "graph", "1": "pynative"}, "CFG-CTX-001"))
    jit_level: str = setting("O0", Choice(("O0", "O1"), rule="CFG-CTX-009"))
    device_target: str = setting("auto", Choice(("auto", "CPU", "Ascend"), rule="CFG-CTX-002"))
    device_id: Optional[int] = setting(None, Maybe(Number(0, 1023, integer=True, rule="CFG-CTX-004")))
    #: names of settings that the caller gave, for the echo
    given: tuple[str, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        values = {item.name: getattr(self, item.name) for item in dataclasses.fields(self) if item.metadata}
        values.update(_type_of_precision(values))
        place = Place(key="TrainingArguments")
        for item in dataclasses.fields(self):
            if item.metadata:
                read = item.metadata["kind"].read(values[item.name], place.at(item.name))
                object.__setattr__(self, item.name, read)
        for name, value in self.checkpoint_callback.items():
            kind: Kind = type(self).__dataclass_fields__[name].metadata["kind"]
            object.__setattr__(self, name, kind.read(value, place.at("checkpoint_callback").at(name)))
        object.__setattr__(self, "checkpoint_callback", {})
        if self.mixed_precision != "O0" and self.loss_scale is None and self.dtype == "float16":
            object.__setattr__(self, "loss_scale", LossScale())

    @property
    def dtype(self) -> str:
        """What the matrices are multiplied in: float32, float16 or bfloat16."""
        if self.mixed_precision == "O0":
            return self.compute_dtype or "float32"
        return self.compute_dtype or "float16"

    @classmethod
    def read(cls, raw: Mapping[str, Any], place: Place) -> TrainingArguments:
        """From a section of a config. Raises UsageError with file, line and key."""
        return read_section(cls, {**raw, **_type_of_precision(raw)}, place, {"given": tuple(raw)})

    def effective(self) -> dict[str, Any]:
        """Every setting as used, in plain values, for the record and for `read`."""
        row: dict[str, Any] = {}
        for item in dataclasses.fields(self):
            if not item.metadata or item.name == "checkpoint_callback":
                continue
            value = getattr(self, item.name)
            if isinstance(value, LossScale):
                value = {
                    "type": "dynamic" if value.dynamic else "fixed",
                    "loss_scale_value": value.value,
                    "scale_factor": value.factor,
                    "scale_window": value.window,
                    "drop_overflow_update": value.drop_overflow,
                }
            row[item.name] = list(value) if isinstance(value, tuple) else value
        return row

    def check_together(self, place: Place) -> None:
        """What single values cannot show. Raises UsageError."""
        if self.lr_end > self.learning_rate and self.lr_scheduler != "constant":
            raise wrong(
                place.at("lr_end"),
                self.lr_end,
                Text(
                    f"at most learning_rate ({self.learning_rate:g})",
                    f"不大于 learning_rate（{self.learning_rate:g}）的值",
                ),
                rule="CFG-LRS-001",
            )
        if self.max_steps == 0:
            key = "total_steps" if "total_steps" in self.given else "max_steps"
            raise wrong(place.at(key), 0, Text("-1 or > 0", "-1 或大于 0 的整数"), rule="CFG-LRS-007")
        if self.warmup_steps and self.warmup_ratio:
            raise UsageError(
                Text(
                    f"{place.at('warmup_ratio')}: warmup_steps and warmup_ratio are both given.",
                    f"{place.at('warmup_ratio')}：同时给出了 warmup_steps 与 warmup_ratio。",
                ),
                Text("Keep one of the two.", "请只保留其中一个。"),
                "CFG-LRS-005",
            )
