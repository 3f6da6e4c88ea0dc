"""MindFormers' YAML as the trainer's sections, where it says the same thing in other words.

What the trainer has no use for (callbacks, profiling, infra of a cluster) is left out and named in the notes; what
changes the training and cannot be done here (LoRA, several devices) is refused by whoever runs it, not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from doctor.errors import UsageError
from doctor.finding import Text
from doctor.plan.dialect import dialect_of
from doctor.plan.plan import Dialect
from doctor.plan.value import Value
from doctor.trainer.data.settings import FOREIGN
from doctor.trainer.fields import Place
from doctor.trainer.models.config import ModelConfig

#: a file is MindFormers' when it has one of these and none of our own
MARKS = ("runner_config", "lr_schedule", "runner_wrapper", "train_dataset_task")

#: theirs (dotted) -> our setting in training_args
_ARGUMENTS: Mapping[str, str] = {
    "seed": "seed",
    "output_dir": "output_dir",
    "runner_config.epochs": "num_train_epochs",
    "runner_config.batch_size": "per_device_train_batch_size",
    "runner_config.gradient_accumulation_steps": "gradient_accumulation_steps",
    "optimizer.learning_rate": "learning_rate",
    "optimizer.eps": "adam_epsilon",
    "optimizer.weight_decay": "weight_decay",
    "lr_schedule.type": "lr_scheduler",
    "lr_schedule.learning_rate": "learning_rate",
    "lr_schedule.lr_end": "lr_end",
    "lr_schedule.warmup_steps": "warmup_steps",
    "lr_schedule.warmup_ratio": "warmup_ratio",
    "lr_schedule.total_steps": "max_steps",
    "runner_wrapper.scale_sense": "loss_scale",
    "runner_wrapper.max_grad_norm": "max_grad_norm",
    "recompute_config": "recompute",
    "context.mode": "mode",
    "context.device_target": "device_target",
}
#: sizes that mean something to `ModelConfig`, beside its own names
_MODEL_EXTRA = ("multiple_of", "ffn_dim_multiplier", "compute_dtype", "rotary_dtype", "type")
_SCHEDULES = ("CosineWithWarmUpLR", "LinearWithWarmUpLR", "ConstantWarmUpLR")
_LOADERS = ("MindDataset",)
_OF_THE_MODEL = ("moe_config", "pet_config", "mtp_depth", "multi_latent_attention")
_RECOMPUTE = ("recompute", "select_recompute")


def is_mindformers(raw: Mapping[str, Any]) -> bool:
    return "training_args" not in raw and any(mark in raw for mark in MARKS)


#: what our own files have and nobody else's
_OURS = frozenset(("training_args", "versions"))
_SHARED = frozenset(("model", "trainer", "train_dataset", "eval_dataset"))


def refuse_others(root: Value, raw: Mapping[str, Any], source: str) -> None:
    """Raises UsageError for a file that another program reads and that cannot be translated: a misspelt setting of ours is
    the least that is wrong with it."""
    keys = frozenset(str(key) for key in raw)
    dialect = dialect_of(root)
    foreign = sorted(keys - _OURS - _SHARED)
    if is_mindformers(raw) or keys & _OURS or len(foreign) < 2 or isinstance(raw.get("model"), str):
        return  # ours, at most with a section misspelt
    if dialect is Dialect.PYNATIVE:
        what = Text(
            "a PyNative config of MindFormers, which this trainer does not translate",
            "这是 MindFormers 的 PyNative 配置，本训练器不做转换",
        )
    elif "base_config" in keys:
        what = Text(
            "a config of MindFormers 0.3 that is put together from other files (base_config)",
            "这是由其他文件拼成的 MindFormers 0.3 配置（base_config）",
        )
    elif dialect in (Dialect.LEGACY, Dialect.MCORE):
        what = Text(
            f"a MindFormers config that trains nothing: it has no {', '.join(MARKS[:2])}",
            f"这是不用于训练的 MindFormers 配置：没有 {'、'.join(MARKS[:2])}",
        )
    elif dialect is Dialect.HUGGINGFACE:
        what = Text("the config.json of a Hugging Face model", "这是 Hugging Face 模型的 config.json")
    elif keys & _SHARED:
        return
    else:
        listed = ", ".join(foreign[:4])
        what = Text(f"no training config: its sections are {listed}", f"这不是训练配置：其中的段为 {listed}")
    raise UsageError(
        Text(f"{source}: {what.en}.", f"{source}：{what.zh}。"),
        Text(
            "A config of this trainer has model, train_dataset and training_args: doctor train --help. To have yours checked: "
            f"doctor check {source}",
            "训练器的配置包含 model、train_dataset 与 training_args：doctor train --help。检查该文件："
            f"doctor check {source}",
        ),
        "CFG-KEY-019" if "model" not in keys else None,
    )


def of_another_model(error: UsageError, translated: Mapping[str, Any], place: Place) -> UsageError:
    """The error itself, or, where the model of a MindFormers file is none of ours, one that does not guess at its name."""
    name = (translated.get("model") or {}).get("type")
    if error.rule not in ("CFG-REG-001", "CFG-KEY-019"):
        return error
    from doctor.trainer.models.families import families

    ours = ", ".join(families())
    what = Text(f"the model is {name}", f"模型为 {name}") if name else Text("it names no model", "未指定模型")
    return UsageError(
        Text(
            f"{place.source}: {what.en}; this trainer has decoders of the families {ours}.",
            f"{place.source}：{what.zh}；本训练器只有这些系列的解码器：{ours}。",
        ),
        Text(
            f"Train it with MindFormers. To have the config checked: doctor check {place.source}",
            f"请用 MindFormers 训练。检查该配置：doctor check {place.source}",
        ),
        error.rule,
    )


def translate(raw: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Our sections, and the dotted names of what was left out."""
    left_out: list[str] = []
    arguments: dict[str, Any] = {}
    for theirs, ours in _ARGUMENTS.items():
        value = _at(raw, theirs)
        if value is None or value == "":
            continue
        if ours == "recompute":
            value = {key: bool(value.get(key)) for key in _RECOMPUTE} if isinstance(value, Mapping) else value
        arguments[ours] = value
    _adjust(arguments, raw, left_out)
    model, model_left = _model(raw)
    left_out += model_left
    used = {name.split(".")[0] for name in _ARGUMENTS} | {
        "model",
        "trainer",
        "train_dataset",
        "train_dataset_task",
        "eval_dataset",
        "callbacks",
        "run_mode",
        "load_checkpoint",
        "use_parallel",
        "parallel_config",
        "optimizer",
    }
    if (_at(raw, "moe_config.expert_num") or 1) == 1:
        used.add("moe_config")  # stands in every file
    left_out += sorted(str(key) for key in raw if key not in used)
    # First what makes another model of it.
    left_out.sort(key=lambda name: name.rsplit(".", 1)[-1] not in _OF_THE_MODEL)
    sections: dict[str, Any] = {
        "model": model,
        "trainer": {"load_checkpoint": raw.get("load_checkpoint") or None},
        "train_dataset": _dataset(raw, left_out),
        "training_args": arguments,
    }
    return sections, tuple(left_out)


def _adjust(arguments: dict[str, Any], raw: Mapping[str, Any], left_out: list[str]) -> None:
    """What is not one setting for one setting."""
    schedule = arguments.get("lr_scheduler")
    if schedule is not None and schedule not in _SCHEDULES:
        left_out.append(f"lr_schedule.type {schedule}")
        del arguments["lr_scheduler"]
    betas = _at(raw, "optimizer.betas")
    if isinstance(betas, (list, tuple)) and len(betas) == 2:
        arguments["adam_beta1"], arguments["adam_beta2"] = betas
    if _at(raw, "runner_wrapper.use_clip_grad") is False:
        arguments["max_grad_norm"] = 0.0
    if arguments.get("device_target") == "GPU":
        arguments.pop("device_target")
    scale = arguments.get("loss_scale")
    compute = _at(raw, "model.model_config.compute_dtype")
    if compute in {"float16", "bfloat16"}:
        arguments["mixed_precision"], arguments["compute_dtype"] = "O2", compute
    elif scale is not None and not isinstance(scale, (int, float)):
        # A loss scale on an FP32 model does nothing but multiply and divide.
        arguments.pop("loss_scale")
    for callback in raw.get("callbacks") or ():
        if not isinstance(callback, Mapping):
            continue
        if callback.get("type") in {"CheckpointMonitor", "CheckpointMointor"}:
            if callback.get("save_checkpoint_steps"):
                arguments["save_steps"] = callback["save_checkpoint_steps"]
            if callback.get("keep_checkpoint_max"):
                arguments["save_total_limit"] = callback["keep_checkpoint_max"]
        elif callback.get("type") != "MFLossMonitor":
            left_out.append(f"callbacks {callback.get('type')}")


def _model(raw: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    section = raw.get("model") if isinstance(raw.get("model"), Mapping) else {}
    inner = section.get("model_config") if isinstance(section, Mapping) else None
    sizes = dict(inner) if isinstance(inner, Mapping) else {}
    known = set()
    for item in ModelConfig.__dataclass_fields__.values():
        if item.metadata:
            known |= {item.name, *item.metadata["also"]}
    kept = {key: _number(value) for key, value in sizes.items() if key in known and value is not None}
    multiple = sizes.get("multiple_of")
    if "intermediate_size" not in kept and isinstance(multiple, int) and isinstance(kept.get("hidden_size"), int):
        kept["intermediate_size"] = _ffn(kept["hidden_size"], multiple, sizes.get("ffn_dim_multiplier"))
    arch = section.get("arch") if isinstance(section, Mapping) else None
    name = (arch.get("type") if isinstance(arch, Mapping) else None) or _at(raw, "trainer.model_name")
    left_out = sorted(f"model.model_config.{key}" for key in sizes if key not in known and key not in _MODEL_EXTRA)
    return {"type": name, **kept}, left_out


def _number(value: Any) -> Any:
    """``layernorm_epsilon: 1e-5`` is a string in YAML 1.1 and stands so in MindFormers' own files."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _ffn(hidden: int, multiple: int, factor: Any) -> int:
    """LLaMA's rule: two thirds of 4 hidden, times the factor, rounded up to the multiple."""
    wide = int(2 * 4 * hidden / 3)
    if isinstance(factor, (int, float)) and not isinstance(factor, bool):
        wide = int(factor * wide)
    return multiple * -(-wide // multiple)


def _dataset(raw: Mapping[str, Any], left_out: list[str]) -> dict[str, Any]:
    section = raw.get("train_dataset")
    if not isinstance(section, Mapping):
        return {}
    loader = section.get("data_loader")
    loader = dict(loader) if isinstance(loader, Mapping) else {}
    path = loader.get("dataset_dir") or loader.get("dataset_files")
    kind = loader.get("type", "MindDataset")
    kept: dict[str, Any] = {"type": kind} if kind in _LOADERS else {"type": FOREIGN, "field": str(kind)}
    if path:
        kept["dataset_dir"] = path
    if isinstance(loader.get("shuffle"), bool):
        kept["shuffle"] = loader["shuffle"]
    result: dict[str, Any] = {"data_loader": kept}
    for key in ("input_columns", "num_parallel_workers", "drop_remainder"):
        if section.get(key) is not None:
            result[key] = section[key]
    length = _at(raw, "model.model_config.seq_length")
    if isinstance(length, int):
        result["max_length"] = length
    skipped = set(section) - {"data_loader", "input_columns", "num_parallel_workers", "drop_remainder", "batch_size"}
    left_out += sorted(f"train_dataset.{key}" for key in skipped)
    return result


def _at(raw: Mapping[str, Any], key: str) -> Any:
    here: Any = raw
    for name in key.split("."):
        here = here.get(name) if isinstance(here, Mapping) else None
    return here
