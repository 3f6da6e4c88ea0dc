"""Healthy configs in the shape that people write them, for faults to be planted in. The numbers are of real models."""

from __future__ import annotations

#: MindFormers 1.3, LLaMA 7B on 8 devices of 64 GB
LEGACY = """\
seed: 42
output_dir: './output'
load_checkpoint: '/data/llama2_7b'
auto_trans_ckpt: True
only_save_strategy: False
resume_training: False
run_mode: 'finetune'
trainer:
  type: CausalLanguageModelingTrainer
  model_name: 'llama2_7b'
runner_config:
  epochs: 2
  batch_size: 1
  sink_mode: True
  sink_size: 2
  gradient_accumulation_steps: 1
optimizer:
  type: AdamW
  betas: [0.9, 0.95]
  eps: 1.e-8
  weight_decay: 0.1
lr_schedule:
  type: CosineWithWarmUpLR
  learning_rate: 1.e-5
  lr_end: 0.0
  warmup_ratio: 0.03
  total_steps: -1
train_dataset: &train_dataset
  data_loader:
    type: MindDataset
    dataset_dir: "/data/train.mindrecord"
    shuffle: True
  input_columns: ["input_ids", "labels"]
  num_parallel_workers: 8
  python_multiprocessing: False
  drop_remainder: True
  batch_size: 1
  repeat: 1
  numa_enable: False
  prefetch_size: 1
train_dataset_task:
  type: CausalLanguageModelDataset
  dataset_config: *train_dataset
do_eval: False
use_parallel: True
parallel:
  parallel_mode: 1
  gradients_mean: False
  enable_alltoall: False
  full_batch: True
  search_mode: "sharding_propagation"
  enable_parallel_optimizer: True
  strategy_ckpt_config:
    save_file: "./ckpt_strategy.ckpt"
    only_trainable_params: False
  parallel_optimizer_config:
    gradient_accumulation_shard: False
    parallel_optimizer_threshold: 64
parallel_config:
  data_parallel: 2
  model_parallel: 2
  pipeline_stage: 2
  use_seq_parallel: True
  micro_batch_num: 8
  vocab_emb_dp: False
  gradient_aggregation_group: 4
micro_batch_interleave_num: 1
recompute_config:
  recompute: False
  select_recompute: False
  parallel_optimizer_comm_recompute: False
  mp_comm_recompute: True
  recompute_slice_activation: False
callbacks:
  - type: MFLossMonitor
  - type: CheckpointMonitor
    prefix: "llama2_7b"
    save_checkpoint_steps: 500
    keep_checkpoint_max: 3
    integrated_save: False
    async_save: False
context:
  mode: 0
  device_target: "Ascend"
  max_call_depth: 10000
  max_device_memory: "58GB"
  save_graphs: False
  save_graphs_path: "./graph"
  device_id: 0
  memory_optimize_level: "O0"
  jit_config:
    jit_level: "O1"
  ascend_config:
    precision_mode: "must_keep_origin_dtype"
model:
  model_config:
    type: LlamaConfig
    batch_size: 1
    seq_length: 4096
    hidden_size: 4096
    num_layers: 32
    num_heads: 32
    n_kv_heads: 8
    vocab_size: 32000
    intermediate_size: 11008
    rms_norm_eps: 1.0e-5
    bos_token_id: 1
    eos_token_id: 2
    pad_token_id: 0
    ignore_token_id: -100
    compute_dtype: "bfloat16"
    layernorm_compute_type: "float32"
    softmax_compute_type: "float32"
    rotary_dtype: "float32"
    param_init_type: "float32"
    use_past: False
    extend_method: "None"
    use_flash_attention: True
    offset: 0
    max_position_embedding: 4096
    theta: 10000.0
  arch:
    type: LlamaForCausalLM
runner_wrapper:
  type: MFTrainOneStepCell
  scale_sense: 1.0
  use_clip_grad: True
  max_grad_norm: 1.0
profile: False
profile_start_step: 1
profile_stop_step: 10
"""

#: MindFormers 1.8, mcore, mixture of experts on 64 devices
MCORE = """\
use_legacy: False
seed: 42
output_dir: './output'
load_checkpoint: ''
load_ckpt_format: 'safetensors'
auto_trans_ckpt: False
resume_training: False
run_mode: 'train'
use_parallel: True
trainer:
  type: CausalLanguageModelingTrainer
  model_name: 'deepseekV3'
runner_config:
  epochs: 1
  batch_size: 1
  sink_mode: True
  sink_size: 1
optimizer:
  type: AdamW
  betas: [0.9, 0.95]
  eps: 1.e-8
  weight_decay: 0.01
lr_schedule:
  type: ConstantWarmUpLR
  learning_rate: 2.2e-4
  lr_end: 2.2e-4
  warmup_steps: 20
  total_steps: 5000
train_dataset: &train_dataset
  data_loader:
    type: BlendedMegatronDatasetDataLoader
    datasets_type: "GPTDataset"
    sizes:
      - 8000
      - 0
      - 0
    config:
      random_seed: 1234
      seq_length: 4096
      eod_mask_loss: False
      reset_position_ids: False
      create_attention_mask: False
      reset_attention_mask: False
      create_compressed_eod_mask: False
      eod_pad_length: 128
      eod: 1
      pad: -1
      data_path:
        - '1'
        - "/data/wiki_text_document"
  input_columns: ["input_ids", "labels", "loss_mask", "position_ids"]
  construct_args_key: ["input_ids", "labels", "loss_mask", "position_ids"]
  num_parallel_workers: 8
  drop_remainder: True
train_dataset_task:
  type: CausalLanguageModelDataset
  dataset_config: *train_dataset
parallel_config:
  data_parallel: 4
  model_parallel: 4
  pipeline_stage: 4
  expert_parallel: 8
  micro_batch_num: 16
  use_seq_parallel: True
  gradient_aggregation_group: 4
micro_batch_interleave_num: 1
parallel:
  parallel_mode: 1
  gradients_mean: False
  full_batch: False
  dataset_strategy: [[4, 1], [4, 1], [4, 1], [4, 1]]
  enable_parallel_optimizer: True
  pipeline_config:
    pipeline_interleave: True
    pipeline_scheduler: 1f1b
recompute_config:
  recompute: True
  select_recompute: False
  recompute_slice_activation: False
swap_config:
  swap: False
  default_prefetch: 1
model:
  model_config:
    model_type: "deepseek_v3"
    architectures: ["DeepseekV3ForCausalLM"]
    seq_length: 4096
    hidden_size: 7168
    num_hidden_layers: 64
    num_attention_heads: 128
    vocab_size: 129280
    intermediate_size: 18432
    max_position_embeddings: 4096
    use_flash_attention: True
    hidden_act: "silu"
    hidden_dropout: 0.0
    attention_dropout: 0.0
    params_dtype: "float32"
    compute_dtype: "bfloat16"
    layernorm_compute_dtype: "float32"
    softmax_compute_dtype: "float32"
    rotary_dtype: "float32"
    router_dense_type: "float32"
    add_bias_linear: False
    position_embedding_type: "yarn"
    rotary_scaling_factor: 40
    multi_latent_attention: True
    q_lora_rank: 1536
    kv_lora_rank: 512
    qk_nope_head_dim: 128
    qk_rope_head_dim: 64
    v_head_dim: 128
    num_nextn_predict_layers: 0
    pp_interleave_num: 1
    offset: 0
    first_k_dense_replace: 4
    n_routed_experts: 256
    num_experts_per_tok: 8
    n_shared_experts: 1
    moe_intermediate_size: 2048
    n_group: 8
    topk_group: 4
    moe_token_dispatcher_type: "alltoall"
    moe_router_score_function: "sigmoid"
    moe_router_enable_expert_bias: True
    moe_router_load_balancing_type: "seq_aux_loss"
callbacks:
  - type: MFLossMonitor
  - type: CheckpointMonitor
    prefix: "deepseekv3"
    save_checkpoint_steps: 1000
    keep_checkpoint_max: 5
    integrated_save: False
    checkpoint_format: "safetensors"
context:
  mode: 0
  device_target: "Ascend"
  max_device_memory: "55GB"
  mempool_block_size: "55GB"
  memory_optimize_level: "O0"
  jit_config:
    jit_level: "O0"
  ascend_config:
    parallel_speed_up_json_path: "./parallel_speed_up.json"
runner_wrapper:
  type: MFTrainOneStepCell
  scale_sense: 1.0
  use_clip_grad: True
"""

#: MindFormers 2.1, PyNative on 16 devices
PYNATIVE = """\
run_mode: train
checkpoint:
  enable_save: True
  save_path: "./output/checkpoint"
  save_max: 3
  save_interleaved_steps: 500
  no_save_optim: False
  prefix: "deepseekv3"
  load_path: ""
  no_load_optim: False
training:
  steps: 1000
  local_batch_size: 1
  global_batch_size: 32
  max_norm: 1.0
  seed: 42
  deterministic: False
optimizer:
  type: AdamW
  betas:
    - 0.9
    - 0.95
  eps: 1.e-8
  weight_decay: 0.1
lr_scheduler:
  type: ConstantWarmUpLR
  learning_rate: 2.e-4
  warmup_steps: 20
  total_steps: -1
parallelism:
  data_parallel_shard: -1
  tensor_parallel: 2
  context_parallel: 1
  context_parallel_method: colossal
  pipeline_parallel: 2
  pipeline_parallel_schedule: "1f1b"
  pipeline_parallel_interleave_num: 1
  pipeline_parallel_layers_per_stage: auto
  sequence_parallel: True
  expert_parallel: 4
  npu_nums_per_device: 8
  moe_token_dispatcher_type: "alltoall"
train_dataset:
  dataloader:
    type: BlendedMegatronDatasetDataLoader
    datasets_type: GPTDataset
    sizes:
      - 8000
      - 0
      - 0
    config:
      seq_length: 4096
      create_attention_mask: False
      create_compressed_eod_mask: False
      data_path:
        - "1"
        - "/data/wiki_text_document"
    column_names: ["input_ids", "labels", "loss_mask", "position_ids"]
    shuffle: False
  drop_remainder: True
  num_parallel_workers: 8
  prefetch_size: 1
recompute:
  mode: full
  full_recompute_layer: ["0-15"]
context:
  mode: 1
  max_device_memory: "58GB"
  device_target: "Ascend"
model:
  model_type: deepseek_v3
  architectures: DeepseekV3ForCausalLM
  vocab_size: 129280
  seq_length: 4096
  hidden_size: 2048
  intermediate_size: 6144
  num_hidden_layers: 16
  num_attention_heads: 16
  max_position_embeddings: 163840
  hidden_act: "silu"
  rms_norm_eps: 1.e-6
  add_bias_linear: False
  use_flash_attention: True
  multi_latent_attention: True
  kv_lora_rank: 512
  q_lora_rank: 1536
  qk_rope_head_dim: 64
  qk_nope_head_dim: 128
  v_head_dim: 128
  attention_dropout: 0.0
  hidden_dropout: 0.0
  params_dtype: "float32"
  compute_dtype: "bfloat16"
  num_nextn_predict_layers: 0
  position_embedding_type: "rope"
  first_k_dense_replace: 1
  n_routed_experts: 8
  num_experts_per_tok: 4
  moe_intermediate_size: 1024
  scoring_func: "sigmoid"
  moe_router_enable_expert_bias: True
"""
