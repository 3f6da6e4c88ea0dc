"""What a person meant by a name that is not known where it stands: a slip of the pen, the word of another program, or a
setting that lives in another section."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Optional

from doctor.plan.fields import CANONICAL, SPELLINGS
from doctor.plan.names import nearest
from doctor.plan.plan import Dialect
from doctor.plan.schema import section_specs, sections

#: words of other programs (Megatron-LM, DeepSpeed, Hugging Face's TrainingArguments, torchtitan, MindFormers' other
#: generation) and the names here that mean the same; the first that the section lacks is meant
_WORDS: dict[str, str] = {
    "accumulate_grad_batches": "gradient_accumulation_steps",
    "accumulate_step": "gradient_accumulation_steps",
    "accumulation_steps": "gradient_accumulation_steps",
    "activation_checkpointing": "recompute",
    "adam_beta1": "beta1",
    "adam_beta2": "beta2",
    "adam_betas": "betas",
    "adam_epsilon": "eps",
    "architecture": "arch",
    "attn_implementation": "use_flash_attention",
    "auto_transform": "auto_trans_ckpt",
    "beta": "betas",
    "ckpt": "load_checkpoint load_path",
    "ckpt_format": "load_ckpt_format checkpoint_format",
    "ckpt_path": "load_checkpoint load_path checkpoint_name_or_path",
    "checkpoint_dir": "load_checkpoint load_path",
    "checkpoint_path": "load_checkpoint load_path checkpoint_name_or_path",
    "clip_grad": "use_clip_grad max_grad_norm max_norm",
    "clip_grad_norm": "max_grad_norm max_norm",
    "clip_norm": "max_grad_norm max_norm",
    "column_names": "input_columns",
    "columns": "input_columns column_names",
    "compute_type": "compute_dtype",
    "config": "model_config",
    "context_parallel_size": "context_parallel",
    "context_parallel_algo": "context_parallel_method",
    "cp": "context_parallel",
    "data_dir": "dataset_dir",
    "data_files": "dataset_files",
    "data_loader": "dataloader",
    "data_parallel": "data_parallel_shard",
    "data_parallel_size": "data_parallel",
    "data_path": "dataset_dir",
    "data_sink_mode": "sink_mode",
    "data_strategy": "dataset_strategy",
    "dataloader": "data_loader",
    "dataset_path": "dataset_dir",
    "device": "device_target",
    "device_type": "device_target",
    "distributed": "use_parallel",
    "dp": "data_parallel data_parallel_shard",
    "drop_last": "drop_remainder",
    "dtype": "compute_dtype",
    "enable_optimizer_parallel": "enable_parallel_optimizer",
    "ep": "expert_parallel",
    "epoch": "epochs",
    "epsilon": "eps",
    "expert_model_parallel_size": "expert_parallel",
    "flash_attention": "use_flash_attention",
    "fp16": "compute_dtype",
    "bf16": "compute_dtype",
    "full_recompute": "recompute",
    "grad_clip": "use_clip_grad max_grad_norm max_norm",
    "gradient_checkpointing": "recompute",
    "gradient_clipping": "use_clip_grad max_grad_norm max_norm",
    "init_checkpoint": "load_checkpoint load_path",
    "initial_lr": "learning_rate",
    "input_columns": "column_names",
    "keep_checkpoint_max": "save_max save_total_limit",
    "layer_offset": "offset",
    "load": "load_checkpoint load_path",
    "load_checkpoint": "load_path",
    "load_ckpt": "load_checkpoint load_path",
    "load_from": "load_checkpoint load_path",
    "load_path": "load_checkpoint",
    "local_batch_size": "batch_size",
    "logging_steps": "per_print_times",
    "loss_scale": "scale_sense",
    "loss_scaler": "scale_sense",
    "lr": "learning_rate",
    "base_lr": "learning_rate",
    "lr_scheduler": "lr_schedule",
    "lr_scheduler_type": "type",
    "max_epochs": "epochs",
    "max_grad_norm": "max_norm",
    "max_length": "seq_length",
    "max_lr": "learning_rate",
    "max_memory": "max_device_memory",
    "max_norm": "max_grad_norm",
    "max_seq_len": "seq_length",
    "max_seq_length": "seq_length",
    "max_steps": "total_steps steps",
    "max_to_keep": "keep_checkpoint_max save_max",
    "memory": "max_device_memory",
    "micro_batch_num": "pipeline_parallel_microbatch_size",
    "micro_batch_size": "batch_size local_batch_size micro_batch_num",
    "micro_batches": "micro_batch_num",
    "min_lr": "lr_end",
    "lr_min": "lr_end",
    "eta_min": "lr_end",
    "mode": "parallel_mode",
    "model": "model_config model_name",
    "model_parallel": "tensor_parallel",
    "model_parallel_size": "model_parallel tensor_parallel",
    "moe": "moe_config",
    "mp": "model_parallel tensor_parallel",
    "name": "type model_name",
    "class": "type",
    "kind": "type",
    "num_epochs": "epochs",
    "num_micro_batches": "micro_batch_num",
    "num_train_epochs": "epochs",
    "num_workers": "num_parallel_workers",
    "dataloader_num_workers": "num_parallel_workers",
    "optimizer_parallel": "enable_parallel_optimizer",
    "optimizer_type": "type",
    "output_path": "output_dir",
    "per_device_batch_size": "batch_size local_batch_size",
    "per_device_train_batch_size": "batch_size local_batch_size",
    "pipeline_model_parallel_size": "pipeline_stage pipeline_parallel",
    "pipeline_parallel": "pipeline_stage",
    "pipeline_parallel_size": "pipeline_stage pipeline_parallel",
    "pipeline_stage": "pipeline_parallel",
    "pipeline_stages": "pipeline_stage pipeline_parallel",
    "pp": "pipeline_stage pipeline_parallel",
    "prefetch": "prefetch_size",
    "pretrained": "load_checkpoint load_path pretrained_model_dir",
    "pretrained_model": "pretrained_model_dir",
    "pretrained_model_name_or_path": "pretrained_model_dir",
    "pretrained_model_path": "pretrained_model_dir",
    "random_seed": "seed",
    "resume": "resume_training",
    "resume_from_checkpoint": "resume_training",
    "save_checkpoint_steps": "save_interleaved_steps save_steps",
    "save_dir": "output_dir directory save_path",
    "save_interval": "save_checkpoint_steps save_interleaved_steps",
    "save_steps": "save_checkpoint_steps save_interleaved_steps",
    "save_total_limit": "keep_checkpoint_max save_max",
    "schedule": "lr_schedule lr_scheduler",
    "scheduler": "lr_schedule lr_scheduler",
    "seq_len": "seq_length",
    "seq_parallel": "use_seq_parallel sequence_parallel",
    "sequence_length": "seq_length",
    "sequence_parallel": "use_seq_parallel",
    "sequence_parallel_size": "context_parallel",
    "sink_step": "sink_size",
    "sink_steps": "sink_size",
    "softmax_type": "softmax_compute_type softmax_compute_dtype",
    "src_strategy": "src_strategy_path_or_dir",
    "tensor_model_parallel_size": "model_parallel tensor_parallel",
    "tensor_parallel": "model_parallel",
    "tensor_parallel_size": "model_parallel tensor_parallel",
    "total_steps": "steps",
    "tp": "model_parallel tensor_parallel",
    "tp_size": "model_parallel tensor_parallel",
    "train_batch_size": "batch_size local_batch_size",
    "train_data": "train_dataset",
    "train_task": "train_dataset_task",
    "use_seq_parallel": "sequence_parallel",
    "warmup": "warmup_steps warmup_ratio",
    "warmup_iters": "warmup_steps",
    "warmup_proportion": "warmup_ratio",
    "world_size": "device_num",
    "zero_stage": "enable_parallel_optimizer",
}


def meant(word: str, lacking: Collection[str], cutoff: float = 0.75) -> Optional[str]:
    """The known name, of those that the section lacks, that a person most likely meant by `word`."""
    return same_in_other_words(word, lacking) or nearest(word, lacking, cutoff)


def same_in_other_words(word: str, lacking: Collection[str]) -> Optional[str]:
    """The known name that another program, or another generation of models, calls `word`."""
    plain = word.strip().replace("-", "_")
    for name in _WORDS.get(plain.lower(), "").split():
        if name in lacking:
            return name
    group = SPELLINGS.get(CANONICAL.get(plain, ""), ())
    return next((name for name in group if name in lacking and name != word), None)


def one_slip(word: str, known: str) -> bool:
    """Whether a letter too many, too few, wrong, or two in the wrong order make the one of the other."""
    if word == known or abs(len(word) - len(known)) > 1:
        return False
    start = 0
    while start < min(len(word), len(known)) and word[start] == known[start]:
        start += 1
    end = 0
    while end < min(len(word), len(known)) - start and word[-1 - end] == known[-1 - end]:
        end += 1
    left, right = word[start : len(word) - end], known[start : len(known) - end]
    return max(len(left), len(right)) <= 1 or (len(left) == 2 and left == right[::-1])


#: the likelier home first; "" is the top of the file
_HOMES = (
    "parallel_config",
    "parallelism",
    "runner_config",
    "training",
    "recompute_config",
    "recompute",
    "optimizer",
    "lr_schedule",
    "lr_scheduler",
    "context",
    "train_dataset",
    "train_dataset.dataloader",
    "parallel",
    "runner_wrapper",
    "swap_config",
    "swap",
    "moe_config",
    "checkpoint",
    "monitor_config",
    "metric",
    "trainer",
    "model.model_config",
    "model",
    "",
)
#: names that mean something almost anywhere
_COMMON = frozenset(("type", "auto_register", "mode", "name", "seed", "batch_size", "path"))


@cache
def home(dialect: Dialect, name: str, here: str = "") -> Optional[str]:
    """The section, other than `here`, that a setting with this name most likely belongs to; "" for the top of the file,
    None when many sections or none have it."""
    if name in _COMMON and here:
        return "" if name == "seed" and dialect is not Dialect.PYNATIVE else None
    known = [
        section
        for section in (*sections(dialect), "")
        if section != here and section in _HOMES and name in section_specs(dialect, section)
    ]
    found = sorted(set(known), key=_HOMES.index)
    models = {"model.model_config", "model"}
    # A model takes many words; a section that is about the run is the likelier home.
    found = [section for section in found if section not in models] or found
    return found[0] if 0 < len(found) <= 2 else None
