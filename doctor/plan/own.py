"""Files of the built-in trainer (sections model, trainer, train_dataset, training_args) and Hugging Face's config.json as a
plan. A model without a run leaves everything else not given."""

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

#: samples a device and step, where nothing is said
DEFAULT_BATCH = 8


def trainer_parts(root: Value, pretrained: Optional[Value]) -> Mapping[str, Any]:
    """The sections of a plan, by their names."""
    arguments = root.get("training_args")
    section = root.get("model", "model_config")
    section = section if section.is_mapping else root.get("model")
    more = [pretrained] if pretrained is not None else []
    kind = section.get("type")
    model = Model(
        section=section,
        fields=canonical_fields(section, *more),
        type=kind if kind.given else section.get("model_type"),
        architecture=section.get("architectures"),
        name=root.get("trainer", "model_name"),
        adapter=root.absent("pet_config"),
        pretrained=root.get("model", "checkpoint"),
    )
    return {
        "run_mode": root.get("run_mode").or_default("train"),
        "complete": True,
        "model": model,
        **_run(root, arguments),
    }


def huggingface_parts(root: Value) -> Mapping[str, Any]:
    """A model and nothing else."""
    architectures = root.get("architectures")
    first = architectures.sequence[0] if architectures.sequence else architectures
    model = Model(
        section=root,
        fields=canonical_fields(root),
        type=root.get("model_type"),
        architecture=first,
        name=root.absent("model_name"),
        adapter=root.absent("pet_config"),
        pretrained=root.absent("pretrained_model_dir"),
    )
    return {
        "run_mode": root.absent("run_mode"),
        "complete": False,
        "model": model,
        **_run(root, root.absent("training_args")),
    }


def nothing_parts(root: Value) -> Mapping[str, Any]:
    """A file that is no run at all."""
    empty = root.absent("model")
    model = Model(empty, {}, empty, empty, empty, root.absent("pet_config"), root.absent("pretrained_model_dir"))
    return {
        "run_mode": root.absent("run_mode"),
        "complete": False,
        "model": model,
        **_run(root.absent(), root.absent()),
    }


def _first(section: Value, *names: str) -> Value:
    for name in names:
        found = section.get(name)
        if found.given:
            return found
    return section.get(names[0])


def _run(root: Value, arguments: Value) -> Mapping[str, Any]:
    section = arguments.get("parallel_config")
    checkpoint = arguments.get("checkpoint_callback")
    data = root.get("train_dataset")
    loader = _first(data, "data_loader", "loader", "source")
    path = _first(loader, "dataset_dir", "dataset_files", "path", "path_or_name")
    save_steps = _first(checkpoint, "save_checkpoint_steps", "save_steps")
    keep = _first(checkpoint, "keep_checkpoint_max", "save_total_limit")
    rate = arguments.get("learning_rate")
    return {
        "parallel": Parallel(
            section=section,
            context_section=section,
            enabled=arguments.get("use_parallel").or_default(False),
            mode=ParallelMode.DATA,
            mode_value=section.get("parallel_mode"),
            data=section.get("data_parallel").or_default(1),
            tensor=_first(section, "model_parallel", "tensor_parallel").or_default(1),
            pipeline=_first(section, "pipeline_stage", "pipeline_parallel").or_default(1),
            context=section.absent("context_parallel", default=1),
            expert=section.absent("expert_parallel", default=1),
            sequence=section.absent("use_seq_parallel", default=False),
            micro_batches=section.get("micro_batch_num").or_default(1),
            interleave=section.absent("pp_interleave_num", default=1),
            offset=section.absent("offset", default=0),
            sequence_split=section.absent("seq_split_num", default=1),
            scheduler=section.absent("pipeline_scheduler"),
            context_method=section.absent("context_parallel_algo"),
            ulysses=section.absent("ulysses_degree_in_cp"),
            optimizer=section.get("enable_parallel_optimizer").or_default(False),
            optimizer_shard_size=section.absent("optimizer_weight_shard_size"),
            full_batch=section.absent("full_batch"),
            dataset_strategy=section.absent("dataset_strategy"),
            gradients_mean=section.absent("gradients_mean", default=False),
            vocabulary_data_parallel=section.absent("vocab_emb_dp", default=True),
        ),
        "batch": Batch(
            per_device=_first(arguments, "per_device_train_batch_size", "batch_size").or_default(DEFAULT_BATCH),
            accumulation=arguments.get("gradient_accumulation_steps").or_default(1),
            interleave=arguments.absent("micro_batch_interleave_num", default=1),
            global_size=arguments.absent("global_batch_size"),
            dataset=data.get("batch_size"),
        ),
        "precision": Precision(
            compute=arguments.get("compute_dtype"),
            parameters=arguments.absent("param_init_type"),
            softmax=arguments.absent("softmax_compute_dtype"),
            norm=arguments.absent("layernorm_compute_dtype"),
            rotary=arguments.absent("rotary_dtype"),
            router=arguments.absent("router_dense_type"),
            loss_scale=_first(arguments, "loss_scale", "scale_sense"),
            level=arguments.get("mixed_precision"),
        ),
        "recompute": Recompute(
            section=arguments,
            full=arguments.get("recompute"),
            select=arguments.absent("select_recompute"),
            communication=arguments.absent("select_comm_recompute"),
            slice_activation=arguments.absent("recompute_slice_activation"),
            swap=arguments.absent("swap", default=False),
        ),
        "optimizer": Optimizer(
            section=arguments,
            type=arguments.absent("optimizer"),
            betas=arguments.absent("betas"),
            beta1=arguments.get("adam_beta1"),
            beta2=arguments.get("adam_beta2"),
            epsilon=arguments.get("adam_epsilon"),
            weight_decay=arguments.get("weight_decay"),
            learning_rate=rate,
            clip=arguments.absent("use_clip_grad", default=True),
            clip_norm=arguments.get("max_grad_norm").or_default(1.0),
            wrapper=arguments.absent("runner_wrapper"),
            offload=arguments.get("optimizer_offload"),
        ),
        "schedule": Schedule(
            section=arguments,
            type=_first(arguments, "lr_scheduler", "lr_scheduler_type"),
            learning_rate=rate,
            end=arguments.get("lr_end"),
            warmup_steps=arguments.get("warmup_steps"),
            warmup_ratio=arguments.get("warmup_ratio"),
            warmup_epochs=arguments.absent("warmup_epochs"),
            warmup_start=arguments.absent("warmup_lr_init"),
            total_steps=arguments.absent("lr_total_steps"),
            epochs=_first(arguments, "num_train_epochs", "epochs"),
            steps=_first(arguments, "max_steps", "total_steps"),
            grouped=arguments.absent("grouped_lr_schedule"),
        ),
        "data": Data(
            section=data,
            task=data.absent("type"),
            loader=loader,
            loader_type=loader.get("type"),
            path=path,
            columns=data.get("input_columns"),
            construct_columns=data.absent("construct_args_key"),
            sequence=_first(data, "max_length", "seq_length"),
            workers=data.get("num_parallel_workers"),
            drop_remainder=data.get("drop_remainder"),
            shuffle=loader.get("shuffle"),
            tokenizer=data.get("tokenizer"),
            sink_mode=data.absent("sink_mode"),
            sink_size=data.absent("sink_size"),
        ),
        "checkpoint": Checkpoint(
            load=root.get("trainer", "load_checkpoint"),
            load_format=arguments.absent("load_ckpt_format"),
            transform=arguments.absent("auto_trans_ckpt", default=False),
            resume=arguments.absent("resume_training", default=False),
            saver=checkpoint if checkpoint.given else arguments,
            save_steps=save_steps if save_steps.given else arguments.get("save_steps").or_default(500),
            keep=keep if keep.given else arguments.get("save_total_limit").or_default(3),
            prefix=checkpoint.get("prefix"),
            save_format=arguments.get("save_format"),
            remove_redundancy=arguments.absent("remove_redundancy"),
            output=arguments.get("output_dir"),
        ),
        "context": Context(
            section=arguments,
            mode=arguments.get("mode"),
            device_target=arguments.get("device_target"),
            device_id=arguments.get("device_id"),
            max_memory=arguments.absent("max_device_memory"),
            save_graphs=arguments.absent("save_graphs"),
            jit_level=arguments.get("jit_level"),
            callbacks=root.absent("callbacks"),
            seed=arguments.get("seed"),
        ),
    }
