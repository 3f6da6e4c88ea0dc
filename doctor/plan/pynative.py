"""MindFormers' PyNative files (1.9 to 2.1) as a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from doctor.plan.fields import canonical_fields
from doctor.plan.graph import _member
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


def parts(root: Value, pretrained: Optional[Value]) -> Mapping[str, Any]:
    """The sections of a plan, by their names."""
    found = _model(root, pretrained)
    return {
        "run_mode": root.get("run_mode").or_default("train"),
        "complete": "training" in root.mapping,
        "model": found,
        "parallel": _parallel(root, found),
        "batch": _batch(root),
        "precision": _precision(root, found),
        "recompute": _recompute(root),
        "optimizer": _optimizer(root),
        "schedule": _schedule(root),
        "data": _data(root),
        "checkpoint": _checkpoint(root),
        "context": _context(root),
    }


def _model(root: Value, pretrained: Optional[Value]) -> Model:
    section = root.get("model")
    more = [pretrained] if pretrained is not None else []
    return Model(
        section=section,
        fields=canonical_fields(section, *more),
        type=section.get("model_type"),
        architecture=section.get("architectures"),
        name=section.absent("model_name"),
        adapter=root.get("lora_config"),
        pretrained=root.get("pretrained_model_dir"),
    )


def _parallel(root: Value, model: Model) -> Parallel:
    section = root.get("parallelism")
    return Parallel(
        section=section,
        context_section=section,
        enabled=section.absent("use_parallel", default=True),
        mode=ParallelMode.SEMI_AUTO,
        mode_value=section.absent("parallel_mode"),
        data=section.get("data_parallel_shard").or_default(-1),
        tensor=section.get("tensor_parallel").or_default(1),
        pipeline=section.get("pipeline_parallel").or_default(1),
        context=section.get("context_parallel").or_default(1),
        expert=section.get("expert_parallel").or_default(1),
        sequence=section.get("sequence_parallel").or_default(False),
        micro_batches=section.absent("micro_batch_num", default=1),
        interleave=section.get("pipeline_parallel_interleave_num").or_default(1),
        offset=section.get("pipeline_parallel_layers_per_stage"),
        sequence_split=section.absent("seq_split_num", default=1),
        scheduler=section.get("pipeline_parallel_schedule").or_default("1f1b"),
        context_method=section.get("context_parallel_method").or_default("colossal"),
        ulysses=section.get("ulysses_degree_in_cp"),
        optimizer=section.absent("enable_parallel_optimizer", default=True),
        optimizer_shard_size=section.get("dense_fsdp_shard_size"),
        full_batch=section.absent("full_batch"),
        dataset_strategy=section.absent("dataset_strategy"),
        gradients_mean=section.absent("gradients_mean", default=False),
        vocabulary_data_parallel=section.absent("vocab_emb_dp", default=False),
    )


def _batch(root: Value) -> Batch:
    training = root.get("training")
    return Batch(
        per_device=training.get("local_batch_size").or_default(1),
        accumulation=training.absent("gradient_accumulation_steps"),
        interleave=training.absent("micro_batch_interleave_num", default=1),
        global_size=training.get("global_batch_size").or_default(1),
        dataset=root.absent("train_dataset", "batch_size"),
    )


def _precision(root: Value, model: Model) -> Precision:
    return Precision(
        compute=model.field("compute_dtype"),
        parameters=model.field("params_dtype"),
        softmax=model.field("softmax_compute_dtype"),
        norm=model.field("layernorm_compute_dtype"),
        rotary=model.field("rotary_dtype"),
        router=model.field("moe_router_dtype"),
        loss_scale=root.absent("scale_sense"),
        level=root.absent("mixed_precision"),
    )


def _recompute(root: Value) -> Recompute:
    section = root.get("recompute")
    return Recompute(
        section=section,
        full=section.get("mode"),
        select=section.get("select_module"),
        communication=root.get("recompute_comm", "enable").or_default(False),
        slice_activation=section.absent("recompute_slice_activation"),
        swap=root.get("swap", "enable").or_default(False),
    )


def _optimizer(root: Value) -> Optimizer:
    section, training = root.get("optimizer"), root.get("training")
    name = "betas" if section.get("betas").given else "adamw_betas"
    epsilon = section.get("eps")
    norm = training.get("max_norm").or_default(1.0)
    return Optimizer(
        section=section,
        type=section.get("type"),
        betas=section.get(name),
        beta1=_member(section, name, 0, "beta1"),
        beta2=_member(section, name, 1, "beta2"),
        epsilon=epsilon if epsilon.given else section.get("adamw_eps"),
        weight_decay=section.get("weight_decay"),
        learning_rate=section.get("learning_rate"),
        clip=training.absent("use_clip_grad", default=(norm.number or 0) > 0),
        clip_norm=norm,
        wrapper=training.absent("runner_wrapper"),
        offload=root.get("parallelism", "cpu_offload"),
    )


def _schedule(root: Value) -> Schedule:
    section, training = root.get("lr_scheduler"), root.get("training")
    return Schedule(
        section=section,
        type=section.get("type"),
        learning_rate=section.get("learning_rate"),
        end=section.get("lr_end"),
        warmup_steps=section.get("warmup_steps"),
        warmup_ratio=section.get("warmup_ratio"),
        warmup_epochs=section.absent("warmup_epochs"),
        warmup_start=section.get("warmup_lr_init"),
        total_steps=section.get("total_steps"),
        epochs=training.absent("epochs"),
        steps=training.get("steps").or_default(1000),
        grouped=root.get("grouped_lr_schedule"),
    )


def _data(root: Value) -> Data:
    section = root.get("train_dataset")
    loader = section.get("dataloader")
    path = loader.get("dataset_dir")
    return Data(
        section=section,
        task=section.absent("type"),
        loader=loader,
        loader_type=loader.get("type"),
        path=path if path.given else loader.get("dataset_files"),
        columns=loader.get("column_names"),
        construct_columns=section.absent("construct_args_key"),
        sequence=loader.get("config", "seq_length"),
        workers=section.get("num_parallel_workers"),
        drop_remainder=section.get("drop_remainder"),
        shuffle=loader.get("shuffle"),
        tokenizer=loader.get("tokenizer"),
        sink_mode=section.absent("sink_mode"),
        sink_size=section.absent("sink_size"),
    )


def _checkpoint(root: Value) -> Checkpoint:
    section = root.get("checkpoint")
    enabled = section.get("enable_save").value is not False and section.given
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
        output=section.get("save_path"),
    )


def _context(root: Value) -> Context:
    section = root.get("context")
    return Context(
        section=section,
        mode=section.get("mode").or_default(1),
        device_target=section.get("device_target"),
        device_id=section.absent("device_id"),
        max_memory=section.get("max_device_memory"),
        save_graphs=section.absent("save_graphs"),
        jit_level=section.absent("jit_level"),
        callbacks=root.get("callbacks"),
        seed=root.get("training", "seed"),
    )
