"""MindFormers' graph-mode files (legacy and mcore) as a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from doctor.plan.fields import canonical_fields
from doctor.plan.plan import (
    Batch,
    Checkpoint,
    Context,
    Data,
    Model,
    Optimizer,
    Parallel,
    ParallelMode,
    Precision,
    Recompute,
    Schedule,
)
from doctor.plan.value import Value

#: spellings of parallel.parallel_mode (mindformers/tools/utils.py PARALLEL_MODE, and MindSpore's own names)
MODES: dict[Any, ParallelMode] = {
    0: ParallelMode.DATA,
    1: ParallelMode.SEMI_AUTO,
    2: ParallelMode.AUTO,
    3: ParallelMode.HYBRID,
    "DATA_PARALLEL": ParallelMode.DATA,
    "SEMI_AUTO_PARALLEL": ParallelMode.SEMI_AUTO,
    "AUTO_PARALLEL": ParallelMode.AUTO,
    "HYBRID_PARALLEL": ParallelMode.HYBRID,
    "STAND_ALONE": ParallelMode.STAND_ALONE,
    "MANUAL_PARALLEL": ParallelMode.STAND_ALONE,
    "data_parallel": ParallelMode.DATA,
    "semi_auto_parallel": ParallelMode.SEMI_AUTO,
    "auto_parallel": ParallelMode.AUTO,
    "hybrid_parallel": ParallelMode.HYBRID,
    "stand_alone": ParallelMode.STAND_ALONE,
}
_CHECKPOINT_CALLBACKS = ("CheckpointMonitor", "CheckpointMointor")


def model(root: Value, pretrained: Optional[Value]) -> Model:
    """`pretrained` is the Hugging Face config.json that completes the file, when it could be read."""
    section = root.get("model", "model_config")
    parts = [root.get("moe_config")] if root.get("use_legacy").flag is not False else []
    parallel_in_model = [pretrained] if pretrained is not None else []
    fields = dict(canonical_fields(section, *parts, *parallel_in_model))
    groups = section.get("multi_query_group_num")
    if groups.given and section.get("multi_query_attention").value is not False:
        fields.setdefault("num_query_groups", groups)
    kind = section.get("type")
    return Model(
        section=section,
        fields=fields,
        type=kind if kind.given else section.get("model_type"),
        architecture=root.get("model", "arch", "type"),
        name=root.get("trainer", "model_name"),
        adapter=section.get("pet_config"),
        pretrained=root.get("pretrained_model_dir"),
    )


def parallel(root: Value, model: Model) -> Parallel:
    section, context = root.get("parallel_config"), root.get("parallel")
    mode_value = context.get("parallel_mode")
    interleave = model.field("virtual_pipeline_model_parallel_size")
    return Parallel(
        section=section,
        context_section=context,
        enabled=root.get("use_parallel").or_default(False),
        mode=parallel_mode(mode_value),
        mode_value=mode_value,
        data=section.get("data_parallel").or_default(1),
        tensor=section.get("model_parallel").or_default(1),
        pipeline=section.get("pipeline_stage").or_default(1),
        context=section.get("context_parallel").or_default(1),
        expert=section.get("expert_parallel").or_default(1),
        sequence=section.get("use_seq_parallel").or_default(False),
        micro_batches=section.get("micro_batch_num").or_default(1),
        interleave=interleave.or_default(1),
        offset=model.field("offset").or_default(0),
        sequence_split=section.get("seq_split_num").or_default(1),
        scheduler=context.get("pipeline_config", "pipeline_scheduler"),
        context_method=section.get("context_parallel_algo").or_default("colossalai_cp"),
        ulysses=section.get("ulysses_degree_in_cp").or_default(1),
        optimizer=context.get("enable_parallel_optimizer").or_default(False),
        optimizer_shard_size=context.get("parallel_optimizer_config", "optimizer_weight_shard_size"),
        full_batch=context.get("full_batch"),
        dataset_strategy=context.get("dataset_strategy"),
        gradients_mean=context.get("gradients_mean").or_default(False),
        vocabulary_data_parallel=section.get("vocab_emb_dp").or_default(True),
    )


def parallel_mode(value: Value) -> ParallelMode:
    if not value.given:
        return ParallelMode.SEMI_AUTO
    word = value.value
    if isinstance(word, bool) or not isinstance(word, (int, str)):
        return ParallelMode.UNKNOWN
    return MODES.get(word, ParallelMode.UNKNOWN)


def batch(root: Value) -> Batch:
    runner = root.get("runner_config")
    return Batch(
        per_device=runner.get("batch_size").or_default(1),
        accumulation=runner.get("gradient_accumulation_steps").or_default(1),
        interleave=root.get("micro_batch_interleave_num").or_default(1),
        global_size=root.absent("runner_config", "global_batch_size"),
        dataset=root.get("train_dataset", "batch_size"),
    )


def precision(root: Value, model: Model) -> Precision:
    return Precision(
        compute=model.field("compute_dtype"),
        parameters=model.field("params_dtype"),
        softmax=model.field("softmax_compute_dtype"),
        norm=model.field("layernorm_compute_dtype"),
        rotary=model.field("rotary_dtype"),
        router=model.field("moe_router_dtype"),
        loss_scale=root.get("runner_wrapper", "scale_sense"),
        level=root.absent("mixed_precision"),
    )


def recompute(root: Value) -> Recompute:
    section = root.get("recompute_config")
    return Recompute(
        section=section,
        full=section.get("recompute").or_default(False),
        select=section.get("select_recompute").or_default(False),
        communication=section.get("select_comm_recompute").or_default(False),
        slice_activation=section.get("recompute_slice_activation"),
        swap=root.get("swap_config", "swap").or_default(False),
    )


def optimizer(root: Value) -> Optimizer:
    section, wrapper = root.get("optimizer"), root.get("runner_wrapper")
    return Optimizer(
        section=section,
        type=section if section.is_scalar and section.given else section.get("type"),
        betas=section.get("betas"),
        beta1=_member(section, "betas", 0, "beta1"),
        beta2=_member(section, "betas", 1, "beta2"),
        epsilon=section.get("eps"),
        weight_decay=section.get("weight_decay"),
        learning_rate=section.get("learning_rate"),
        clip=wrapper.get("use_clip_grad"),
        clip_norm=wrapper.get("max_grad_norm").or_default(1.0),
        wrapper=wrapper.get("type"),
        offload=section.get("swap"),
    )


def _member(section: Value, name: str, index: int, single: str) -> Value:
    """A beta by its place in the list, or by its own name."""
    items = section.get(name).sequence
    return items[index] if len(items) > index else section.get(single)


def schedule(root: Value) -> Schedule:
    section, runner = root.get("lr_schedule"), root.get("runner_config")
    return Schedule(
        section=section,
        type=section if section.is_scalar and section.given else section.get("type"),
        learning_rate=section.get("learning_rate"),
        end=section.get("lr_end"),
        warmup_steps=section.get("warmup_steps"),
        warmup_ratio=section.get("warmup_ratio"),
        warmup_epochs=section.get("warmup_epochs"),
        warmup_start=section.get("warmup_lr_init"),
        total_steps=section.get("total_steps"),
        epochs=runner.get("epochs"),
        steps=runner.absent("steps"),
        grouped=root.get("grouped_lr_schedule"),
    )


def data(root: Value) -> Data:
    section, task = root.get("train_dataset"), root.get("train_dataset_task")
    if not section.is_mapping or not section.mapping:
        inner = task.get("dataset_config")
        section = inner if inner.is_mapping else section
    loader, runner = section.get("data_loader"), root.get("runner_config")
    path = loader.get("dataset_dir")
    return Data(
        section=section,
        task=task.get("type"),
        loader=loader,
        loader_type=loader.get("type"),
        path=path if path.given else loader.get("dataset_files"),
        columns=section.get("input_columns"),
        construct_columns=section.get("construct_args_key"),
        sequence=loader.get("config", "seq_length"),
        workers=section.get("num_parallel_workers"),
        drop_remainder=section.get("drop_remainder"),
        shuffle=loader.get("shuffle"),
        tokenizer=section.get("tokenizer"),
        sink_mode=runner.get("sink_mode"),
        sink_size=runner.get("sink_size"),
    )


def checkpoint(root: Value) -> Checkpoint:
    section = root.get("checkpoint")
    if section.is_mapping:
        return _checkpoint_section(root, section)
    saver = _saver(root)
    resume = root.get("resume_training")
    return Checkpoint(
        load=root.get("load_checkpoint"),
        load_format=root.get("load_ckpt_format"),
        transform=root.get("auto_trans_ckpt").or_default(False),
        resume=resume.or_default(False),
        saver=saver,
        save_steps=saver.get("save_checkpoint_steps"),
        keep=saver.get("keep_checkpoint_max"),
        prefix=saver.get("prefix"),
        save_format=saver.get("checkpoint_format"),
        remove_redundancy=saver.get("remove_redundancy"),
        output=root.get("output_dir"),
    )


def _checkpoint_section(root: Value, section: Value) -> Checkpoint:
    """MindFormers 2.x: one section for saving and loading."""
    enabled = section.get("enable_save").value is not False
    saver = section if enabled else section.absent("enable_save")
    return Checkpoint(
        load=section.get("load_path"),
        load_format=section.absent("load_ckpt_format", default="safetensors"),
        transform=section.absent("auto_trans_ckpt", default=False),
        resume=section.absent("resume_training", default=False),
        saver=saver,
        save_steps=section.get("save_interleaved_steps").or_default(1000) if enabled else saver,
        keep=section.get("save_max").or_default(5) if enabled else saver,
        prefix=section.get("prefix"),
        save_format=section.absent("checkpoint_format", default="safetensors"),
        remove_redundancy=section.get("remove_redundancy"),
        output=section.get("save_path") if section.get("save_path").given else root.get("output_dir"),
    )


def _saver(root: Value) -> Value:
    callbacks = root.get("callbacks")
    for item in callbacks.sequence:
        if item.get("type").words in _CHECKPOINT_CALLBACKS:
            return item
    return callbacks.absent("CheckpointMonitor")


def context(root: Value) -> Context:
    section = root.get("context")
    jit = section.get("jit_config", "jit_level")
    return Context(
        section=section,
        mode=section.get("mode"),
        device_target=section.get("device_target"),
        device_id=section.get("device_id"),
        max_memory=section.get("max_device_memory"),
        save_graphs=section.get("save_graphs"),
        jit_level=jit if jit.given else section.get("jit_level"),
        callbacks=root.get("callbacks"),
        seed=root.get("seed"),
    )


def parts(root: Value, pretrained: Optional[Value]) -> Mapping[str, Any]:
    """The sections of a plan, by their names."""
    found = model(root, pretrained)
    return {
        "run_mode": root.get("run_mode"),
        "complete": complete(root),
        "model": found,
        "parallel": parallel(root, found),
        "batch": batch(root),
        "precision": precision(root, found),
        "recompute": recompute(root),
        "optimizer": optimizer(root),
        "schedule": schedule(root),
        "data": data(root),
        "checkpoint": checkpoint(root),
        "context": context(root),
    }


def complete(root: Value) -> bool:
    """Whether the file is a whole run and not a fragment that a `base_config:` list pulls in."""
    keys = root.mapping.keys()
    if "base_config" in keys and "model" not in keys:
        return False
    return ("trainer" in keys or "run_mode" in keys) and bool(keys & {"model", "runner_config", "train_dataset"})
