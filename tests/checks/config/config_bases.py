"""Healthy configs of every dialect, in the shape that people write them, for fixtures to be derived from."""

from __future__ import annotations

from doctor.selftest.bases import LEGACY, MCORE, PYNATIVE

#: MindFormers 1.3, prediction with the same model
PREDICT = """\
seed: 42
output_dir: './output'
load_checkpoint: '/data/llama2_7b'
run_mode: 'predict'
trainer:
  type: CausalLanguageModelingTrainer
  model_name: 'llama2_7b'
use_parallel: True
parallel:
  parallel_mode: 1
  full_batch: True
parallel_config:
  data_parallel: 1
  model_parallel: 2
  pipeline_stage: 1
runner_config:
  epochs: 2
  batch_size: 1
context:
  mode: 0
  device_target: "Ascend"
  max_device_memory: "58GB"
model:
  model_config:
    type: LlamaConfig
    batch_size: 1
    seq_length: 4096
    hidden_size: 4096
    num_layers: 32
    num_heads: 32
    vocab_size: 32000
    compute_dtype: "float16"
    param_init_type: "float16"
    use_past: True
    use_flash_attention: True
  arch:
    type: LlamaForCausalLM
processor:
  type: LlamaProcessor
  tokenizer:
    type: LlamaTokenizer
"""

#: MindFormers 1.1, ChatGLM2 fine-tuning on ADGEN
GLM = """\
seed: 42
run_mode: 'finetune'
load_checkpoint: '/data/glm2'
trainer:
  type: CausalLanguageModelingTrainer
  model_name: 'glm2_6b'
runner_config:
  epochs: 1
  batch_size: 8
  sink_mode: True
  sink_size: 4
optimizer:
  type: FP32StateAdamWeightDecay
  beta1: 0.9
  beta2: 0.95
  eps: 1.e-8
  weight_decay: 0.1
lr_schedule:
  type: polynomial
  learning_rate: 5.e-5
  lr_end: 1.e-6
  warmup_steps: 0
  total_steps: -1
train_dataset: &train_dataset
  data_loader:
    type: ADGenDataLoader
    dataset_dir: "/data/train.json"
    shuffle: True
    phase: "train"
    origin_columns: ["content", "summary"]
  tokenizer:
    type: ChatGLM2Tokenizer
    vocab_file: "/data/tokenizer.model"
  input_columns: ["input_ids", "labels"]
  max_source_length: 64
  max_target_length: 127
  num_parallel_workers: 8
  drop_remainder: True
  batch_size: 8
train_dataset_task:
  type: KeyWordGenDataset
  dataset_config: *train_dataset
use_parallel: True
parallel:
  parallel_mode: 1
  gradients_mean: False
  full_batch: True
  enable_parallel_optimizer: True
parallel_config:
  data_parallel: 8
  model_parallel: 1
  pipeline_stage: 1
  micro_batch_num: 1
callbacks:
  - type: MFLossMonitor
  - type: CheckpointMointor
    prefix: "glm2-6b"
    save_checkpoint_steps: 500
    keep_checkpoint_max: 2
    integrated_save: False
context:
  mode: 0
  device_target: "Ascend"
  max_device_memory: "58GB"
model:
  model_config:
    type: ChatGLM2Config
    num_layers: 28
    padded_vocab_size: 65024
    hidden_size: 4096
    ffn_hidden_size: 13696
    kv_channels: 128
    num_attention_heads: 32
    seq_length: 192
    layernorm_epsilon: 1e-5
    multi_query_attention: True
    multi_query_group_num: 2
    compute_dtype: "float16"
    param_init_type: "float16"
    layernorm_compute_type: "float32"
    pre_seq_len: None
  arch:
    type: ChatGLM2ForConditionalGeneration
metric:
  type: ADGENMetric
runner_wrapper:
  type: MFTrainOneStepCell
  scale_sense:
    type: DynamicLossScaleUpdateCell
    loss_scale_value: 65536
    scale_factor: 2
    scale_window: 1000
  use_clip_grad: True
"""

#: the built-in trainer
TRAINER = """\
model:
  type: llama
  hidden_size: 2048
  num_hidden_layers: 16
  num_attention_heads: 32
  num_key_value_heads: 8
  intermediate_size: 8192
  vocab_size: 32000
train_dataset:
  data_loader:
    type: Generated
    samples: 1024
  max_length: 1024
  num_parallel_workers: 8
training_args:
  seed: 0
  max_steps: 1000
  per_device_train_batch_size: 4
  gradient_accumulation_steps: 2
  learning_rate: 3.0e-4
  lr_end: 3.0e-5
  lr_scheduler: cosine
  warmup_steps: 100
  adam_beta1: 0.9
  adam_beta2: 0.95
  adam_epsilon: 1.0e-8
  weight_decay: 0.1
  max_grad_norm: 1.0
  mixed_precision: O2
  loss_scale:
    type: dynamic
    loss_scale_value: 65536
    scale_factor: 2
    scale_window: 1000
    drop_overflow_update: true
  use_parallel: false
  save_steps: 100
  save_total_limit: 3
"""

#: a Hugging Face config.json
HUGGINGFACE = """\
{
  "architectures": ["Qwen2ForCausalLM"],
  "model_type": "qwen2",
  "hidden_size": 3584,
  "intermediate_size": 18944,
  "num_hidden_layers": 28,
  "num_attention_heads": 28,
  "num_key_value_heads": 4,
  "max_position_embeddings": 32768,
  "vocab_size": 152064,
  "rms_norm_eps": 1e-06,
  "hidden_act": "silu",
  "attention_dropout": 0.0,
  "bos_token_id": 151643,
  "eos_token_id": 151643,
  "torch_dtype": "bfloat16",
  "rope_theta": 1000000.0
}
"""

#: name -> text, devices that fit it, release it is written for
BASES: dict[str, tuple[str, int, str]] = {
    "legacy": (LEGACY, 8, "1.3.2"),
    "predict": (PREDICT, 2, "1.3.2"),
    "glm": (GLM, 8, "1.1.0"),
    "mcore": (MCORE, 64, "1.8.0"),
    "pynative": (PYNATIVE, 16, "2.1.0"),
    "trainer": (TRAINER, 1, "2.1.0"),
    "huggingface": (HUGGINGFACE, 1, "2.1.0"),
}
