"""Every dialect becomes the same plan; the release is found from what a file says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from doctor.errors import UsageError
from doctor.plan.arithmetic import global_batch, pipeline_layers
from doctor.plan.build import load_plan, plan_of
from doctor.plan.names import nearest, registered, version_key
from doctor.plan.plan import Dialect, Plan
from doctor.plan.reader import parse
from doctor.plan.release import inferred, named

LEGACY = """\
run_mode: train
trainer: {type: CausalLanguageModelingTrainer}
runner_config: {batch_size: 2}
use_parallel: True
parallel: {parallel_mode: 1}
parallel_config: {data_parallel: 4, model_parallel: 2, pipeline_stage: 1}
callbacks:
  - type: CheckpointMointor
model:
  model_config: {type: LlamaConfig, seq_length: 2048, hidden_size: 4096, num_heads: 32, n_kv_heads: 8, num_layers: 32, vocab_size: 32000}
  arch: {type: LlamaForCausalLM}
"""
MCORE = """\
use_legacy: False
run_mode: train
trainer: {type: CausalLanguageModelingTrainer}
runner_config: {batch_size: 1}
parallel_config: {data_parallel: 4, model_parallel: 2, pipeline_stage: 2, micro_batch_num: 8}
model:
  model_config: {model_type: qwen3, seq_length: 4096, hidden_size: 4096, num_attention_heads: 32, num_key_value_heads: 8, num_hidden_layers: 32, vocab_size: 151936, intermediate_size: 12288}
"""
PYNATIVE = """\
training: {steps: 10, local_batch_size: 2, global_batch_size: 32}
parallelism: {tensor_parallel: 2, pipeline_parallel: 1}
model: {model_type: qwen3, seq_length: 4096, hidden_size: 4096, num_attention_heads: 32, num_hidden_layers: 32}
"""
TRAINER = """\
model: {type: llama, hidden_size: 4096, num_attention_heads: 32, num_hidden_layers: 32}
train_dataset: {max_length: 1024}
training_args: {per_device_train_batch_size: 4, gradient_accumulation_steps: 8}
"""


def plan(text: str, devices: int = 0, mindformers: str = "", name: str = "run.yaml") -> Plan:
    return plan_of(parse(text.encode(), Path(name)), devices=devices or None, mindformers=mindformers or None)


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        (LEGACY, Dialect.LEGACY),
        (MCORE, Dialect.MCORE),
        (MCORE.replace("False", "True", 1), Dialect.LEGACY),
        (PYNATIVE, Dialect.PYNATIVE),
        (TRAINER, Dialect.TRAINER),
        ('{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2}', Dialect.HUGGINGFACE),
        ("llama: {input_path: a, output_path: b}", Dialect.OTHER),
        # a tool that balances pipeline stages, a server for chats: one section's name in common, nothing else
        ("pipeline_info: {stages: 4}\nrecompute_config: {recompute: [1, 2, 3]}\nmeasured: {head: 1}", Dialect.OTHER),
        ("server: {port: 8080}\nmodel: {config: a.yaml}\ndefault_arguments: {top_k: 1}", Dialect.OTHER),
        ("optimzer: {type: AdamW}\nlr_schedul: {type: ConstantWarmUpLR}\nrunner_config: {epochs: 1}", Dialect.LEGACY),
        ("recompute_config: {recompute: True}", Dialect.LEGACY),
    ],
)
def test_dialects_are_told_apart(text: str, dialect: Dialect) -> None:
    assert plan(text).dialect is dialect


@pytest.mark.parametrize("text", [LEGACY, MCORE, PYNATIVE, TRAINER])
def test_every_dialect_gives_the_same_model(text: str) -> None:
    model = plan(text).model
    assert (model.hidden.count, model.heads.count, model.layers.count) == (4096, 32, 32)
    assert model.hidden.location.line is not None


def test_global_batch_is_the_product_of_its_factors() -> None:
    # The story that is miscounted most: 4 x 8 accumulations on 8 cards is 256 sequences, not 32.
    batch = global_batch(plan(TRAINER, devices=8))
    assert (batch.per_device, batch.data_parallel, batch.accumulation, batch.total) == (4, 8, 8, 256)
    assert batch.tokens == 256 * 1024
    assert global_batch(plan(LEGACY)).total == 2 * 4
    # With a pipeline the micro batches accumulate.
    assert global_batch(plan(MCORE)).total == 1 * 4 * 8
    assert global_batch(plan(PYNATIVE, devices=16)).accumulation == 32 // (2 * 8)


def test_data_parallel_mode_counts_every_device() -> None:
    text = LEGACY.replace("parallel_mode: 1", "parallel_mode: 0")
    assert global_batch(plan(text, devices=8)).total == 2 * 8


def test_prediction_layers_count_in_legacy_and_in_mcore_of_1_6_only() -> None:
    legacy = LEGACY.replace("num_layers: 32", "num_layers: 32, mtp_depth: 1")
    assert pipeline_layers(plan(legacy)) == 33
    mcore = MCORE.replace("num_hidden_layers: 32", "num_hidden_layers: 32, mtp_depth: 1")
    assert pipeline_layers(plan(mcore, mindformers="1.6.0")) == 33
    assert pipeline_layers(plan(mcore, mindformers="1.9.0")) == 32


def test_release_given_installed_or_inferred() -> None:
    assert plan(LEGACY, mindformers="1.3.2").release.how == "given"
    release = plan(LEGACY).release
    assert release.how == "inferred"
    assert "1.1.0" in release.candidates
    assert "1.3.2" not in release.candidates  # CheckpointMointor was renamed in 1.2
    assert all(version_key(item) >= (1, 6, 0) for item in plan(MCORE).release.candidates)
    assert all(version_key(item) >= (1, 9, 0) for item in plan(PYNATIVE).release.candidates)
    with pytest.raises(UsageError, match="not a version"):
        plan(LEGACY, mindformers="newest")


def test_a_release_between_two_known_ones_has_the_names_of_both() -> None:
    release = named("1.5.0", "given")
    assert release.candidates == ("1.3.2", "1.6.0")
    assert release.since("1.5.0")
    assert release.before("1.6.0")
    assert named("1.8.0rc1", "given").candidates == ("1.8.0",)
    assert inferred(()).candidates


def test_a_beta_may_still_have_what_its_release_removed() -> None:
    beta = named("1.6.0-beta1", "given")
    assert beta.candidates == ("1.3.2", "1.6.0")
    assert not beta.since("1.6.0")
    assert named("1.4.0-beta2", "given").candidates == ("1.3.2", "1.6.0")


def test_versions_compare_as_numbers() -> None:
    assert version_key("1.10.0") > version_key("1.9.0")
    assert version_key("2.0.0.post1") == (2, 0, 0)
    assert version_key("none") == ()


def test_names_know_their_releases() -> None:
    assert registered("callback")["ObsMonitor"].spans() == "0.3.0-1.3.2"
    assert registered("optimizer")["AdamW"].spans() == "1.2.0-2.1.0"
    assert registered("optimizer")["Lamb"].origin == "mindspore"
    assert nearest("CheckpointMoniter", registered("callback")) == "CheckpointMonitor"


def test_a_hugging_face_folder_completes_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "qwen"
    folder.mkdir()
    (folder / "config.json").write_text(
        json.dumps({"hidden_size": 3584, "num_attention_heads": 28, "num_hidden_layers": 28})
    )
    path = tmp_path / "run.yaml"
    path.write_text(
        "use_legacy: False\npretrained_model_dir: ./qwen\nrun_mode: train\nmodel:\n  model_config: {num_hidden_layers: 14}\n"
    )
    model = load_plan(path).model
    assert (model.hidden.count, model.layers.count) == (3584, 14)
    assert model.hidden.location.source.endswith("config.json")
    assert model.layers.location.source.endswith("run.yaml")


def test_base_config_files_are_followed(tmp_path: Path) -> None:
    (tmp_path / "model.yaml").write_text("model:\n  model_config: {type: GPT2Config, hidden_size: 768}\n")
    path = tmp_path / "run.yaml"
    path.write_text(
        "base_config: ['./model.yaml', './missing.yaml']\nrun_mode: train\ntrainer: {type: general}\nmodel:\n  model_config: {hidden_size: 1024}\n"
    )
    found = load_plan(path)
    assert found.model.type.words == "GPT2Config"
    assert found.model.hidden.count == 1024
    assert found.model.type.location.source.endswith("model.yaml")


@pytest.mark.parametrize(
    "text",
    [
        "a: 1",
        "model:",
        "model: 3",
        "parallel_config: 7\nrunner_config: [1]",
        "training: {steps: x}",
        "training_args: 5",
    ],
)
def test_odd_shapes_make_a_plan_all_the_same(text: str) -> None:
    found = plan(text)
    global_batch(found)
    assert found.parallel.stages >= 1
