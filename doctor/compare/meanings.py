"""What the settings of a training plan mean, whatever dialect they are written in: the names under which two configurations
are compared, what each bears on, and how often it is why two runs came out differently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from doctor.compare.row import FAILURE, LOSS, MEMORY, SPEED
from doctor.finding import Text
from doctor.plan.plan import Plan
from doctor.plan.value import Value


class Meaning(NamedTuple):
    """`of` gives the setting of a plan; `weight` orders causes: what changes the numbers at once comes first."""

    key: str
    label: Text
    bears_on: tuple[str, ...]
    weight: float
    of: Callable[[Plan], Value]


def _meaning(key: str, en: str, zh: str, bears_on: tuple[str, ...], weight: float, of: Any) -> Meaning:
    return Meaning(key, Text(en, zh), bears_on, weight, of)


_ALL = (LOSS, SPEED, MEMORY, FAILURE)
_SIZES = (SPEED, MEMORY, FAILURE)

MEANINGS: tuple[Meaning, ...] = (
    _meaning("schedule.learning_rate", "learning rate", "学习率", (LOSS,), 0.95, lambda p: p.schedule.learning_rate),
    _meaning("schedule.type", "schedule", "学习率策略", (LOSS,), 0.8, lambda p: p.schedule.type),
    _meaning("schedule.end", "last rate", "最终学习率", (LOSS,), 0.55, lambda p: p.schedule.end),
    _meaning("schedule.warmup_steps", "warm-up steps", "预热步数", (LOSS,), 0.75, lambda p: p.schedule.warmup_steps),
    _meaning("schedule.warmup_ratio", "warm-up ratio", "预热比例", (LOSS,), 0.74, lambda p: p.schedule.warmup_ratio),
    _meaning("schedule.warmup_epochs", "warm-up epochs", "预热轮数", (LOSS,), 0.73, lambda p: p.schedule.warmup_epochs),
    _meaning("schedule.warmup_start", "first rate", "初始学习率", (LOSS,), 0.5, lambda p: p.schedule.warmup_start),
    _meaning(
        "schedule.total_steps", "steps of the schedule", "策略总步数", (LOSS,), 0.6, lambda p: p.schedule.total_steps
    ),
    _meaning("schedule.epochs", "epochs", "轮数", (LOSS,), 0.5, lambda p: p.schedule.epochs),
    _meaning("schedule.steps", "steps", "步数", (LOSS,), 0.5, lambda p: p.schedule.steps),
    _meaning("precision.compute", "compute type", "计算精度", _ALL, 0.9, lambda p: p.precision.compute),
    _meaning("precision.level", "mixed precision", "混合精度", _ALL, 0.9, lambda p: p.precision.level),
    _meaning("precision.parameters", "type of weights", "参数精度", _ALL, 0.7, lambda p: p.precision.parameters),
    _meaning("precision.softmax", "softmax type", "softmax 精度", (LOSS, SPEED), 0.65, lambda p: p.precision.softmax),
    _meaning("precision.norm", "norm type", "归一化精度", (LOSS, SPEED), 0.65, lambda p: p.precision.norm),
    _meaning("precision.rotary", "rotary type", "旋转编码精度", (LOSS,), 0.45, lambda p: p.precision.rotary),
    _meaning("precision.router", "router type", "路由精度", (LOSS,), 0.45, lambda p: p.precision.router),
    _meaning("precision.loss_scale", "loss scale", "损失缩放", (LOSS,), 0.85, lambda p: p.precision.loss_scale),
    _meaning("optimizer.type", "optimizer", "优化器", (LOSS, SPEED, MEMORY), 0.85, lambda p: p.optimizer.type),
    _meaning("optimizer.betas", "betas", "betas", (LOSS,), 0.5, lambda p: p.optimizer.betas),
    _meaning("optimizer.beta1", "beta1", "beta1", (LOSS,), 0.5, lambda p: p.optimizer.beta1),
    _meaning("optimizer.beta2", "beta2", "beta2", (LOSS,), 0.5, lambda p: p.optimizer.beta2),
    _meaning("optimizer.epsilon", "epsilon", "epsilon", (LOSS,), 0.4, lambda p: p.optimizer.epsilon),
    _meaning("optimizer.weight_decay", "weight decay", "权重衰减", (LOSS,), 0.5, lambda p: p.optimizer.weight_decay),
    _meaning("optimizer.clip", "gradient clipping", "梯度裁剪", (LOSS,), 0.7, lambda p: p.optimizer.clip),
    _meaning("optimizer.clip_norm", "clip norm", "裁剪阈值", (LOSS,), 0.7, lambda p: p.optimizer.clip_norm),
    _meaning("optimizer.offload", "optimizer offload", "优化器卸载", _SIZES, 0.6, lambda p: p.optimizer.offload),
    _meaning("data.path", "data", "数据", (LOSS, FAILURE), 0.8, lambda p: p.data.path),
    _meaning("data.loader_type", "data loader", "数据加载器", (LOSS, FAILURE), 0.5, lambda p: p.data.loader_type),
    _meaning("data.shuffle", "shuffle", "打乱", (LOSS,), 0.4, lambda p: p.data.shuffle),
    _meaning("data.tokenizer", "tokenizer", "分词器", (LOSS, FAILURE), 0.7, lambda p: p.data.tokenizer),
    _meaning(
        "data.drop_remainder", "drop remainder", "丢弃尾批", (LOSS, FAILURE), 0.2, lambda p: p.data.drop_remainder
    ),
    _meaning("data.workers", "data workers", "数据进程数", (SPEED, FAILURE), 0.7, lambda p: p.data.workers),
    _meaning("data.sink_mode", "sink mode", "数据下沉", (SPEED,), 0.6, lambda p: p.data.sink_mode),
    _meaning("data.sink_size", "sink size", "下沉步数", (SPEED,), 0.4, lambda p: p.data.sink_size),
    _meaning("checkpoint.load", "weights loaded", "加载的权重", (LOSS, FAILURE), 0.9, lambda p: p.checkpoint.load),
    _meaning("checkpoint.resume", "resumed", "断点续训", (LOSS,), 0.7, lambda p: p.checkpoint.resume),
    _meaning(
        "checkpoint.transform", "weights transformed", "权重切分转换", (FAILURE,), 0.4, lambda p: p.checkpoint.transform
    ),
    _meaning(
        "checkpoint.save_steps", "steps between saves", "保存间隔", (SPEED,), 0.4, lambda p: p.checkpoint.save_steps
    ),
    _meaning("checkpoint.keep", "checkpoints kept", "保留数量", (), 0.05, lambda p: p.checkpoint.keep),
    _meaning("checkpoint.save_format", "format of saves", "保存格式", (), 0.05, lambda p: p.checkpoint.save_format),
    _meaning("parallel.mode", "parallel mode", "并行模式", _ALL, 0.7, lambda p: p.parallel.mode_value),
    _meaning("parallel.enabled", "parallel", "并行开关", _ALL, 0.6, lambda p: p.parallel.enabled),
    _meaning("parallel.data", "data parallel", "数据并行", _SIZES, 0.7, lambda p: p.parallel.data),
    _meaning("parallel.tensor", "tensor parallel", "张量并行", _SIZES, 0.7, lambda p: p.parallel.tensor),
    _meaning("parallel.pipeline", "pipeline stages", "流水线阶段", _SIZES, 0.7, lambda p: p.parallel.pipeline),
    _meaning("parallel.context", "context parallel", "上下文并行", _SIZES, 0.6, lambda p: p.parallel.context),
    _meaning("parallel.expert", "expert parallel", "专家并行", _SIZES, 0.6, lambda p: p.parallel.expert),
    _meaning("parallel.sequence", "sequence parallel", "序列并行", _SIZES, 0.5, lambda p: p.parallel.sequence),
    _meaning(
        "parallel.micro_batches", "micro batches", "micro batch 数", _SIZES, 0.6, lambda p: p.parallel.micro_batches
    ),
    _meaning("parallel.interleave", "pipeline interleave", "流水线交织", _SIZES, 0.4, lambda p: p.parallel.interleave),
    _meaning("parallel.offset", "layers of stages", "各阶段层数偏移", _SIZES, 0.4, lambda p: p.parallel.offset),
    _meaning("parallel.optimizer", "sharded optimizer", "优化器并行", _SIZES, 0.6, lambda p: p.parallel.optimizer),
    _meaning(
        "parallel.gradients_mean", "mean of gradients", "梯度取平均", (LOSS,), 0.6, lambda p: p.parallel.gradients_mean
    ),
    _meaning("parallel.full_batch", "full batch", "full_batch", (LOSS, FAILURE), 0.4, lambda p: p.parallel.full_batch),
    _meaning("batch.per_device", "batch per device", "单卡 batch", _SIZES, 0.75, lambda p: p.batch.per_device),
    _meaning("batch.accumulation", "accumulation", "梯度累积", (SPEED, MEMORY), 0.6, lambda p: p.batch.accumulation),
    _meaning(
        "batch.interleave", "interleaved copies", "多副本交织", (SPEED, MEMORY), 0.4, lambda p: p.batch.interleave
    ),
    _meaning("recompute.full", "recompute", "重计算", (SPEED, MEMORY), 0.8, lambda p: p.recompute.full),
    _meaning(
        "recompute.select", "selective recompute", "选择重计算", (SPEED, MEMORY), 0.7, lambda p: p.recompute.select
    ),
    _meaning("recompute.swap", "swap", "激活换出", (SPEED, MEMORY), 0.5, lambda p: p.recompute.swap),
    _meaning("context.mode", "mode", "运行模式", (SPEED, MEMORY, FAILURE), 0.7, lambda p: p.context.mode),
    _meaning("context.device_target", "device target", "运行设备", _ALL, 0.7, lambda p: p.context.device_target),
    _meaning("context.max_memory", "memory limit", "显存上限", (MEMORY, FAILURE), 0.6, lambda p: p.context.max_memory),
    _meaning("context.save_graphs", "graphs saved", "保存计算图", (SPEED,), 0.5, lambda p: p.context.save_graphs),
    _meaning("context.jit_level", "jit level", "编译级别", (SPEED, FAILURE), 0.5, lambda p: p.context.jit_level),
    _meaning("context.seed", "seed", "随机种子", (LOSS,), 0.45, lambda p: p.context.seed),
    _meaning("model.name", "model", "模型", _ALL, 0.9, lambda p: p.model.name),
    _meaning("model.type", "model type", "模型类型", _ALL, 0.9, lambda p: p.model.type),
    _meaning("model.adapter", "adapter", "微调方式", _ALL, 0.8, lambda p: p.model.adapter),
    _meaning("model.pretrained", "model folder", "模型目录", (LOSS, FAILURE), 0.5, lambda p: p.model.pretrained),
    _meaning("run_mode", "run mode", "运行任务", _ALL, 0.8, lambda p: p.run_mode),
)

#: mcore names of model fields that change what is learnt, and those that change only where and how it is computed
_MODEL_SPEED = frozenset(("use_flash_attention", "apply_rope_fusion", "bias_swiglu_fusion", "moe_permute_fusion"))


def of_model_field(name: str) -> tuple[tuple[str, ...], float]:
    """What a field of the network bears on, and its weight."""
    if name in _MODEL_SPEED:
        return (SPEED, MEMORY, FAILURE), 0.5
    if name in ("hidden_size", "num_layers", "num_attention_heads", "vocab_size", "ffn_hidden_size", "seq_length"):
        return _ALL, 0.9
    if name.endswith("dtype"):
        return _ALL, 0.7
    return (LOSS,), 0.6
