"""Reading a run's config: sections, spellings, and the one clear line for each kind of mistake."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from doctor import registry
from doctor.errors import UsageError
from doctor.examples import examples
from doctor.trainer.arguments import LossScale, TrainingArguments
from doctor.trainer.config import RunConfig, build_config, load_config, parse_config
from doctor.trainer.fields import Place
from doctor.trainer.models import families
from doctor.trainer.models.config import ModelConfig

BASE = """
model: {type: llama, hidden_size: 64, num_hidden_layers: 1, num_attention_heads: 4, vocab_size: 300}
train_dataset: {max_length: 32}
training_args: {max_steps: 3}
"""


def read(text: str) -> RunConfig:
    return parse_config(text.encode(), "run.yaml", "run")


def refused(text: str) -> str:
    with pytest.raises(UsageError) as caught:
        read(text)
    return caught.value.line("en")


@pytest.mark.parametrize("name", sorted(examples()))
def test_packaged_examples_are_read_by_name(name: str) -> None:
    assert load_config(name).args.max_steps


def test_effective_config_reads_back_as_itself() -> None:
    config = read(BASE)
    again = read(yaml.safe_dump(config.effective()))
    assert again.effective() == config.effective()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("model: llama\ntraining_args:\n  learning_rat: 1.0e-5\n", ("run.yaml:3", "Did you mean learning_rate?")),
        ("model: llama\ntraining_args:\n  learning_rate: 1e-5\n", ("run.yaml:3", "is a string", "1.0e-5")),
        ("model: llama\ntraining_args:\n  learning_rate: '2e4'\n", ("2.0e+4",)),
        ("model: lama\n", ("there is no model 'lama'", "llama")),
        ("model: llama\noptimizer: {}\n", ("optimizer is not a known setting",)),
        ("model: {type: llama, hidden_size: 100, num_attention_heads: 3}\n", ("100 / num_attention_heads 3",)),
        ("model: {type: llama, num_key_value_heads: 5}\n", ("num_attention_heads 32 / num_key_value_heads 5",)),
        ("model: llama\ntraining_args: {max_grad_norm: .nan}\n", ("max_grad_norm: nan",)),
        ("model: llama\ntraining_args: {num_train_epochs: 0}\n", ("> 0",)),
        ("model: llama\ntraining_args: {gradient_accumulation_steps: 1.5}\n", ("whole number",)),
        ("model: llama\ntraining_args: {lr_scheduler: cosin}\n", ("Did you mean cosine?",)),
        ("model: llama\ntraining_args: {recompute: sometimes}\n", ("selective",)),
        ("model: llama\ntraining_args: {warmup_steps: 5, warmup_ratio: 0.1}\n", ("both given",)),
        ("model: llama\ntraining_args: {lr_end: 1.0}\n", ("at most learning_rate",)),
        (
            "model: llama\ntrain_dataset: {batch_size: 4}\ntraining_args: {per_device_train_batch_size: 2}\n",
            ("contradicts",),
        ),
        ("model: llama\ntraining_args: {loss_scale: {type: dynamic, loss_scale_vale: 1}}\n", ("loss_scale_value",)),
        ("model: llama\ntraining_args: {loss_scale: -1}\n", ("> 0",)),
        ("model: llama\nmodel: qwen2\n", ("a key stands twice",)),
        ("- 1\n", ("not a mapping",)),
        ("model: [1\n", ("not YAML",)),
    ],
)
def test_mistake_is_named_with_place_and_cure(text: str, words: tuple[str, ...]) -> None:
    line = refused(text)
    for word in words:
        assert word in line
    assert "\n" not in line


def test_mindformers_names_of_sizes_mean_the_same() -> None:
    ours = read(
        "model: {type: llama, hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2}"
    )
    theirs = read(
        "model: {arch: {type: LlamaForCausalLM}, "
        "model_config: {type: LlamaConfig, hidden_size: 64, num_layers: 2, num_heads: 4, n_kv_heads: 2}}"
    )
    assert ours.model == theirs.model


def test_two_spellings_of_one_setting_must_agree() -> None:
    assert "contradicts" in refused("model: llama\ntraining_args: {num_train_epochs: 1, epochs: 2}\n")


def test_checkpoint_callback_is_save_steps() -> None:
    config = read(
        "model: llama\ntraining_args: {checkpoint_callback: {save_checkpoint_steps: 7, keep_checkpoint_max: 2}}"
    )
    assert (config.args.save_steps, config.args.save_total_limit) == (7, 2)


def test_half_precision_brings_a_dynamic_scale_unless_told() -> None:
    assert TrainingArguments(mixed_precision="fp16").loss_scale == LossScale()
    assert TrainingArguments(mixed_precision="fp16", loss_scale=1024).loss_scale == LossScale(1024, dynamic=False)
    assert TrainingArguments(mixed_precision="bf16").loss_scale is None
    assert TrainingArguments(mixed_precision="bf16").dtype == "bfloat16"
    assert TrainingArguments().dtype == "float32"


# Parameter counts published with the models.
@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("llama2_7b", 6_738_415_616),
        ("llama2_13b", 13_015_864_320),
        ("llama2_70b", 68_976_648_192),
        ("llama3_8b", 8_030_261_248),
        ("qwen2_7b", 7_615_616_512),
        ("qwen2.5-0.5b", 494_032_768),
        ("qwen3_8b", 8_190_735_360),
        ("gpt2", 124_439_808),
        ("bloom_560m", 559_214_592),
        ("chatglm3_6b", 6_243_584_000),
        ("glm4_9b", 9_399_951_360),
    ],
)
def test_named_models_have_their_true_size(name: str, count: int) -> None:
    assert families.named(name, Place()).parameters == count


def test_second_owner_of_a_name_is_refused_and_both_are_named() -> None:
    families.register("mine_for_the_test", ModelConfig(), "plugin_a.py:1")
    try:
        with pytest.raises(ValueError, match=r"plugin_a\.py:1.*plugin_b\.py:9"):
            families.register("Mine-for-the-test", ModelConfig(), "plugin_b.py:9")
    finally:
        del families._ENTRIES["mine_for_the_test"]


def test_every_rule_that_a_refusal_names_exists() -> None:
    """The trainer names rules as plain words, since it may not know those of the doctor."""
    named: set[str] = set()
    for path in (Path(__file__).parents[2] / "trainer").rglob("*.py"):
        named |= set(re.findall(r'"((?:CFG|DAT|WGT|RUN|LOG)-[A-Z]+-\d{3})"', path.read_text(encoding="utf-8")))
    assert len(named) > 40
    assert [name for name in sorted(named) if registry.rule(name) is None] == []


@pytest.mark.parametrize(
    ("section", "key", "value", "words", "rule"),
    [
        ("training_args", "adam_beta1", 1.0, "a number >= 0 and < 1", "CFG-OPT-001"),
        ("training_args", "max_steps", 0, "-1 or > 0", "CFG-LRS-007"),
        ("training_args", "recompute", "all", "numbers of layers", "CFG-KEY-015"),
        ("training_args", "parallel_config", {"data_paralel": 2}, "Did you mean data_parallel", "CFG-KEY-014"),
        ("training_args", "parallel_config", {"data_parallel": 0}, "is not a whole number >= 1", "CFG-PAR-008"),
        ("training_args", "learning_rate", "1e-3", "is a string, not a number", "CFG-TYP-001"),
        ("training_args", "lr_end", 1.0, "at most learning_rate", "CFG-LRS-001"),
        ("trainer", "task", "vision", "is not one of", "CFG-KEY-015"),
        ("model", "num_attention_heads", 5, "hidden_size 32 / num_attention_heads 5", "CFG-MOD-001"),
        ("model", "type", "mixtral", "Families: bloom, glm", "CFG-REG-001"),
        ("train_dataset", "max_length", 0, "is not a whole number >= 1", "CFG-MOD-005"),
    ],
)
def test_what_is_wrong_is_one_line_with_the_rule(section: str, key: str, value: object, words: str, rule: str) -> None:
    raw: dict[str, dict[str, object]] = {
        "model": {"type": "llama", "hidden_size": 32, "num_attention_heads": 2, "vocab_size": 64},
        "training_args": {"max_steps": 3},
    }
    raw.setdefault(section, {})[key] = value
    with pytest.raises(UsageError) as caught:
        build_config(raw, Place("run.yaml"), "run")
    line = caught.value.line("en")
    assert words in line
    assert line.endswith(f" [{rule}]")
    assert "\n" not in line
