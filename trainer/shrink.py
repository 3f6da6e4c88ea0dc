"""A config made small: the same structure, data path and settings, in sizes that a CPU runs in seconds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from doctor.finding import Text
from doctor.trainer.arguments import LossScale, TrainingArguments
from doctor.trainer.config import RunConfig
from doctor.trainer.data.settings import FOREIGN, DatasetSettings, Source
from doctor.trainer.data.tokenizer import load_tokenizer
from doctor.trainer.models.config import ModelConfig

#: settings that are named before the rest is only counted
_NAMED = 6
LAYERS, HEAD, LENGTH, BATCH, ACCUMULATION, VOCABULARY = 2, 16, 64, 2, 2, 512


@dataclass(frozen=True)
class Shrunk:
    """The small config, and what about the full one it cannot try."""

    config: RunConfig
    untried: tuple[Text, ...]


def shrink(config: RunConfig, steps: int, save_steps: int) -> Shrunk:
    """Keeps family, head ratio, data source, precision, schedule and clipping; shrinks sizes, batch and steps."""
    untried: list[Text] = []
    dataset = _dataset(config, untried)
    model = _model(config.model, _vocabulary(config, dataset))
    args = _arguments(config.args, steps, save_steps, untried)
    if config.left_out:
        # Experts, adapters and callbacks of a MindFormers file, say: what passes without them has not passed with them.
        listed = ", ".join(config.left_out[:_NAMED])
        more = len(config.left_out) - _NAMED
        untried.append(
            Text(
                f"settings that this trainer has not: {listed}" + (f" and {more} more" if more > 0 else ""),
                f"本训练器没有的设置：{listed}" + (f" 等，另有 {more} 项" if more > 0 else ""),
            )
        )
    if config.load_checkpoint:
        untried.append(
            Text(
                f"load_checkpoint {config.load_checkpoint}: the small model has other shapes; look at it with doctor check",
                f"load_checkpoint {config.load_checkpoint}：缩小后的模型形状不同；请用 doctor check 检查",
            )
        )
    evaluation = None
    if config.eval_dataset is not None:
        evaluation = replace(_dataset(replace(config, dataset=config.eval_dataset), untried), batch_size=None)
        args = replace(args, eval_steps=save_steps)
    small = replace(
        config, model=model, dataset=dataset, args=args, eval_dataset=evaluation, load_checkpoint=None, raw={}
    )
    return Shrunk(small, tuple(untried))


def _model(model: ModelConfig, vocabulary: int) -> ModelConfig:
    group = model.num_attention_heads // model.kv_heads
    kv_heads = 2 if model.kv_heads > 1 else 1
    heads = kv_heads * min(group, 4)
    hidden = heads * HEAD
    # The MLP keeps its ratio to the width, to the nearest multiple of 16.
    ffn = max(16, round(model.ffn / model.hidden_size * hidden / 16) * 16)
    return replace(
        model,
        vocab_size=vocabulary,
        hidden_size=hidden,
        num_hidden_layers=min(LAYERS, model.num_hidden_layers),
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=HEAD if model.head_dim is not None else None,
        intermediate_size=ffn,
        max_position_embeddings=min(model.max_position_embeddings, LENGTH),
    )


def _vocabulary(config: RunConfig, dataset: DatasetSettings) -> int:
    """As small as the data allow: ids that are on disk already keep the full vocabulary."""
    if dataset.data_loader.type == "Generated":
        return min(config.model.vocab_size, VOCABULARY)
    if dataset.data_loader.type == "MindDataset":
        return config.model.vocab_size
    return min(config.model.vocab_size, max(VOCABULARY, load_tokenizer(dataset.tokenizer).vocab_size))


def _dataset(config: RunConfig, untried: list[Text]) -> DatasetSettings:
    dataset = config.dataset
    length = min(config.length, LENGTH, config.model.max_position_embeddings)
    loader = dataset.data_loader
    if loader.type == FOREIGN:
        untried.append(
            Text(
                f"data: {loader.field} is not read here; generated data are used",
                f"数据：此处不读取 {loader.field}，改用生成的数据",
            )
        )
        loader = Source()
    if loader.type != "Generated" and not loader.dataset_dir:
        untried.append(
            Text("data: no data set is named; generated data are used", "数据：没有指定数据集，改用生成的数据")
        )
        loader = Source()
    gone = [path for path in loader.dataset_dir if not Path(path).exists()]
    if gone and loader.type != "Generated":
        untried.append(
            Text(f"data: {gone[0]} is not here; generated data are used", f"数据：{gone[0]} 不在本机，改用生成的数据")
        )
        loader = Source()
    if loader.type == "Generated":
        loader = replace(loader, samples=min(loader.samples, 64))
    return replace(dataset, data_loader=loader, max_length=length, batch_size=None, num_parallel_workers=None)


def _arguments(args: TrainingArguments, steps: int, save_steps: int, untried: list[Text]) -> TrainingArguments:
    if args.dtype == "bfloat16":
        untried.append(
            Text("bfloat16: the CPU cannot multiply in it; FP32 is used", "bfloat16：CPU 不支持其矩阵乘，改用 FP32")
        )
        args = replace(args, mixed_precision="O0", compute_dtype=None, loss_scale=None)
    if args.use_parallel:
        untried.append(Text("parallel_config: one process is used", "parallel_config：只用单进程"))
    recompute = args.recompute
    if isinstance(recompute, tuple):
        recompute = tuple(layer for layer in recompute if layer < LAYERS)
    scale = args.loss_scale
    if scale is not None and scale.dynamic and scale.value > LossScale.value:
        # MindFormers begins at 2^32 and drops a step for each halving: of a few steps none would be left.
        scale = replace(scale, value=LossScale.value)
    warmup = min(args.warmup_steps, 1) if args.warmup_steps else 0
    return replace(
        args,
        output_dir=None,
        max_steps=steps,
        num_train_epochs=1.0,
        per_device_train_batch_size=min(args.per_device_train_batch_size, BATCH),
        gradient_accumulation_steps=min(args.gradient_accumulation_steps, ACCUMULATION),
        warmup_steps=warmup,
        warmup_ratio=0.0,
        loss_scale=scale,
        recompute=recompute,
        optimizer_offload=False,
        use_parallel=False,
        parallel_config={},
        save_steps=save_steps,
        save_total_limit=10,
        eval_steps=0,
        logging_steps=1,
        skip_steps=(),
        summary_dir=None,
        device_target="CPU",
        device_id=None,
    )
