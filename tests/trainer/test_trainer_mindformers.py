"""MindFormers' own YAML, read as what it says; and any config made small."""

from __future__ import annotations

from pathlib import Path

import pytest

from doctor.errors import UsageError
from doctor.trainer.config import load_config, parse_config
from doctor.trainer.data.samples import load_samples
from doctor.trainer.models.families import names
from doctor.trainer.shrink import shrink

THEIRS = """
seed: 7
output_dir: './output'
load_checkpoint: ''
use_parallel: False
run_mode: 'train'
trainer: {type: CausalLanguageModelingTrainer, model_name: 'llama2_7b'}
runner_config: {epochs: 2, batch_size: 6, sink_mode: True, sink_size: 2, gradient_accumulation_steps: 3}
optimizer: {type: AdamW, betas: [0.8, 0.9], eps: 1.e-6, weight_decay: 0.05}
lr_schedule: {type: CosineWithWarmUpLR, learning_rate: 2.e-4, lr_end: 1.e-6, warmup_ratio: 0.03, total_steps: -1}
train_dataset: &train_dataset
  data_loader: {type: MindDataset, dataset_dir: "wiki.mindrecord", shuffle: False}
  input_columns: ["input_ids"]
  num_parallel_workers: 8
  batch_size: 6
train_dataset_task: {type: CausalLanguageModelDataset, dataset_config: *train_dataset}
callbacks:
  - type: MFLossMonitor
  - {type: CheckpointMonitor, prefix: "llama2", save_checkpoint_steps: 200, keep_checkpoint_max: 4}
  - type: ObsMonitor
recompute_config: {recompute: False, select_recompute: True}
context: {mode: 0, device_target: "Ascend"}
runner_wrapper:
  type: MFTrainOneStepCell
  scale_sense: {type: DynamicLossScaleUpdateCell, loss_scale_value: 4096, scale_factor: 2, scale_window: 500}
  use_clip_grad: True
model:
  model_config:
    type: LlamaConfig
    seq_length: 2048
    hidden_size: 4096
    num_layers: 40
    num_heads: 32
    n_kv_heads: 8
    vocab_size: 32000
    multiple_of: 256
    rms_norm_eps: 1.0e-5
    compute_dtype: "float16"
    use_flash_attention: True
  arch: {type: LlamaForCausalLM}
"""


def test_settings_are_read_as_what_they_mean() -> None:
    config = parse_config(THEIRS.encode(), "run_llama.yaml", "run_llama")
    args, model = config.args, config.model
    assert (args.seed, args.num_train_epochs, args.max_steps) == (7, 2.0, -1)
    assert (args.per_device_train_batch_size, args.gradient_accumulation_steps) == (6, 3)
    assert (args.learning_rate, args.lr_end, args.warmup_ratio, args.lr_scheduler) == (2e-4, 1e-6, 0.03, "cosine")
    assert (args.adam_beta1, args.adam_beta2, args.adam_epsilon, args.weight_decay) == (0.8, 0.9, 1e-6, 0.05)
    assert (args.mixed_precision, args.dtype) == ("O2", "float16")
    assert args.loss_scale is not None
    assert (args.loss_scale.dynamic, args.loss_scale.value, args.loss_scale.window) == (True, 4096.0, 500)
    assert (args.save_steps, args.save_total_limit, args.recompute, args.mode) == (200, 4, "selective", "graph")
    assert (model.num_hidden_layers, model.kv_heads, model.ffn, model.norm_eps) == (40, 8, 11008, 1e-5)
    assert (config.length, config.dataset.data_loader.dataset_dir) == (2048, ("wiki.mindrecord",))
    assert "callbacks ObsMonitor" in config.left_out
    assert "model.model_config.use_flash_attention" in config.left_out


def test_loader_of_raw_data_is_named_when_it_would_be_needed() -> None:
    text = THEIRS.replace("type: MindDataset", "type: ADGenDataLoader").replace("workers: 8", "workers: 1")
    config = parse_config(text.encode(), "x.yaml", "x")
    with pytest.raises(UsageError, match="ADGenDataLoader is not one that this trainer reads"):
        load_samples(config.dataset, 8, 100, 0, "train_dataset")
    small = shrink(config, 6, 3)
    assert small.config.dataset.data_loader.type == "Generated"
    assert any("ADGenDataLoader" in note.en for note in small.untried)


@pytest.mark.parametrize("name", names())
def test_every_model_shrinks_to_one_that_is_consistent(name: str) -> None:
    from doctor.trainer.fields import Place

    text = f"model: {name}\ntraining_args: {{gradient_accumulation_steps: 16, recompute: [0, 30]}}\n"
    config = parse_config(text.encode(), "x.yaml", "x")
    small = shrink(config, 6, 3).config
    small.model.check(Place())
    assert small.model.parameters < 1_000_000
    assert small.model.family == config.model.family
    ratio = config.model.num_attention_heads // config.model.kv_heads
    assert small.model.num_attention_heads // small.model.kv_heads == min(ratio, 4)
    assert small.length <= small.model.max_position_embeddings
    assert small.args.recompute == (0,)


def test_what_a_smoke_test_cannot_try_is_said(tmp_path: Path) -> None:
    text = (
        "model: llama3_8b\ntrainer: {load_checkpoint: weights/}\n"
        "train_dataset: {data_loader: {type: Json, dataset_dir: gone.jsonl}}\n"
        "training_args: {mixed_precision: bf16, use_parallel: true, parallel_config: {data_parallel: 8}}\n"
    )
    shrunk = shrink(parse_config(text.encode(), "x.yaml", "x"), 6, 3)
    words = " | ".join(note.en for note in shrunk.untried)
    for word in ("weights/", "gone.jsonl is not here", "bfloat16", "parallel_config"):
        assert word in words
    assert shrunk.config.args.dtype == "float32"


def test_an_official_yaml_whose_data_set_is_still_to_be_named_is_tried_on_generated_data() -> None:
    config = parse_config(THEIRS.replace('dataset_dir: "wiki.mindrecord"', 'dataset_dir: ""').encode(), "x.yaml", "x")
    shrunk = shrink(config, 6, 3)
    assert shrunk.config.dataset.data_loader.type == "Generated"
    assert any("no data set is named" in note.en for note in shrunk.untried)


def test_a_scale_that_begins_high_and_adapts_leaves_a_smoke_test_some_steps() -> None:
    """4294967296 is what MindFormers' files begin with; a fixed scale is what the run would have, and stays."""
    high = (
        "training_args: {mixed_precision: fp16, loss_scale: {type: TYPE, loss_scale_value: 4294967296}}\nmodel: llama\n"
    )
    for kind, value in (("dynamic", 65536), ("fixed", 4294967296)):
        small = shrink(parse_config(high.replace("TYPE", kind).encode(), "x.yaml", "x"), 6, 3).config
        assert small.args.loss_scale is not None
        assert small.args.loss_scale.value == value


def test_official_yaml_of_the_shared_tool(shared: Path) -> None:
    config = load_config(str(shared / "tools" / "mindformers-on-cpu" / "tiny_llama.yaml"))
    assert (config.model.hidden_size, config.model.kv_heads, config.model.ffn) == (128, 2, 352)
    assert (config.args.learning_rate, config.args.warmup_steps, config.args.save_steps) == (1e-3, 5, 30)
    assert config.args.dtype == "float32"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("seed: 0\nrun_mode: predict\ncontext: {mode: 0}\nparallel_config: {data_parallel: 8}\n", "trains nothing"),
        ("base_config: ['./__base__.yaml']\nseed: 0\nrunner_config: {epochs: 1}\n", "MindFormers"),
        (
            "training: {steps: 10, local_batch_size: 1}\nparallelism: {data_parallel: 2}\nmodel: {pretrained_model_dir: x}\n",
            "PyNative",
        ),
        ("architectures: [LlamaForCausalLM]\nmodel_type: llama\nhidden_size: 64\n", "Hugging Face"),
        (
            "services: {web: {image: nginx}}\nvolumes: {data: {}}\n",
            "no training config: its sections are services, volumes",
        ),
    ],
)
def test_a_file_of_another_program_is_told_as_that_and_not_as_a_misspelt_setting(text: str, said: str) -> None:
    with pytest.raises(UsageError) as found:
        parse_config(text.encode(), "x.yaml", "x")
    line = found.value.line("en")
    assert said in line
    assert "Did you mean" not in line
    assert "doctor check x.yaml" in line


def test_a_misspelt_section_of_ours_is_still_a_slip() -> None:
    with pytest.raises(UsageError, match="train_dataste is not a known setting") as found:
        parse_config(b"model: llama\ntrain_dataste: {max_length: 8}\n", "x.yaml", "x")
    assert "train_dataset" in found.value.line("en")


def test_a_model_that_is_no_decoder_of_ours_is_not_guessed_at() -> None:
    text = "runner_config: {epochs: 1}\nmodel: {arch: {type: CLIPModel}, model_config: {type: CLIPConfig}}\n"
    with pytest.raises(UsageError, match="the model is CLIPModel; this trainer has decoders of the families") as found:
        parse_config(text.encode(), "x.yaml", "x")
    assert "Did you mean" not in found.value.line("en")


def test_experts_and_adapters_are_named_first_among_what_a_smoke_test_leaves_out() -> None:
    text = (
        "runner_config: {epochs: 1}\nauto_tune: False\nmoe_config: {expert_num: 8}\n"
        "model: {arch: {type: LlamaForCausalLM}, model_config: {hidden_size: 64, num_layers: 1, num_heads: 2,\n"
        "  vocab_size: 99, seq_length: 16, use_past: False, pet_config: {pet_type: lora}}}\n"
    )
    config = parse_config(text.encode(), "x.yaml", "x")
    assert set(config.left_out[:2]) == {"moe_config", "model.model_config.pet_config"}
    untried = [note.en for note in shrink(config, 6, 3).untried]
    assert any("moe_config" in note and "pet_config" in note for note in untried)
    one = parse_config(text.replace("expert_num: 8", "expert_num: 1").encode(), "x.yaml", "x")
    assert "moe_config" not in one.left_out
