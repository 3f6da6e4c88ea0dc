"""`doctor estimate` as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

CONFIG = Path(__file__).parents[1] / "benchmarks" / "llama2_7b.yaml"


def facts(doctor, *words: str) -> dict:  # type: ignore[no-untyped-def, type-arg]
    done = doctor("estimate", str(CONFIG), "--format", "json", *words)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def test_the_keys_of_the_contract_and_the_measured_run(doctor) -> None:  # type: ignore[no-untyped-def]
    row = facts(doctor, "--device-memory", "64GB")
    memory = row["facts"]["memory"]
    assert [sorted(stage) for stage in memory["stages"]] == [
        sorted(["stage", "layers", "weights", "gradients", "optimizer", "activations", "buffers", "total"])
    ]
    assert memory["device"] == 64 << 30 and memory["fits"] is True
    assert abs(memory["stages"][0]["total"] / 2**30 / 52 - 1) < memory["error_bar"]
    assert row["facts"]["batch"] == {
        "per_device": 2, "data_parallel": 8, "accumulation": 1, "global": 16, "tokens_per_step": 32768
    }  # fmt: skip
    assert row["facts"]["model"]["parameters"] == 6_738_415_616
    assert set(row["facts"]["suggestion"]) == {
        "data_parallel", "model_parallel", "pipeline_stage", "expert_parallel", "recompute", "per_device_batch",
        "micro_batch_num", "sequence_parallel", "optimizer_parallel", "reason"
    }  # fmt: skip


def test_a_card_that_is_too_small_is_an_error_before_the_launch(doctor) -> None:  # type: ignore[no-untyped-def]
    row = facts(doctor, "--device-memory", "32GB")
    assert row["facts"]["memory"]["fits"] is False
    (finding,) = row["findings"]
    assert (finding["rule"], finding["category"]) == ("CFG-MEM-001", "oom-device")
    assert finding["evidence"][0]["key"] == "runner_config.batch_size"
    assert "recompute" in finding["fixes"][0]["summary"]


def test_check_says_the_same_when_it_knows_the_card(doctor) -> None:  # type: ignore[no-untyped-def]
    done = doctor("check", str(CONFIG), "--device-memory", "32GB", "--only", "CFG-MEM-001", "--format", "json")
    assert [finding["rule"] for finding in json.loads(done.stdout)["findings"]] == ["CFG-MEM-001"]
    done = doctor("check", str(CONFIG), "--only", "CFG-MEM-001", "--format", "json")
    assert [outcome["state"] for outcome in json.loads(done.stdout)["outcomes"]] == ["skipped"]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_text_fits_a_screen(doctor, lang: str) -> None:  # type: ignore[no-untyped-def]
    from doctor.report.width import cell_width

    done = doctor("estimate", str(CONFIG), "--lang", lang, "--formula")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) < 24 and all(cell_width(line) <= 80 for line in lines[:-1])


def test_what_is_missing_is_named(doctor, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "config.json").write_text(json.dumps({
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "num_attention_heads": 32,
        "num_hidden_layers": 32, "vocab_size": 32000, "intermediate_size": 11008, "max_position_embeddings": 4096}))  # fmt: skip
    done = doctor("estimate", "config.json", "--batch", "1", "--sequence", "2048", "--format", "json")
    assert json.loads(done.stdout)["facts"]["model"]["parameters"] == 6_738_415_616
    (tmp_path / "config.json").write_text('{"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32}')
    done = doctor("estimate", "config.json")
    assert done.returncode == 2 and "num_layers" in done.stderr and done.stdout == ""


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("  data_parallel: 8", "\tdata_parallel: 8", "indented with a tab"),
        ("  data_parallel: 8", "  data_parallel：8", "full-width"),
        ('    compute_dtype: "bfloat16"', '    compute_dtype: "bfloat16', "quote opens here"),
        ("  data_parallel: 8", "  data_parallel: 8，", "data_parallel is 8，, not a whole number above zero"),
        ("    num_layers: 32", "    num_layers: 999999999999999999", "num_layers is larger than 10,000"),
        ("    num_layers: 32", "    num_layers: 3x2", "num_layers is 3x2, not a whole number above zero"),
    ],
)
def test_a_slip_is_named_with_its_line(doctor, tmp_path: Path, old: str, new: str, words: str) -> None:  # type: ignore[no-untyped-def]
    text = CONFIG.read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "slip.yaml").write_text(text.replace(old, new, 1), encoding="utf-8")
    line = text[: text.index(old)].count("\n") + 1
    done = doctor("estimate", "slip.yaml", "--device-memory", "64GB")
    assert done.returncode == 2 and done.stdout == "" and words in done.stderr
    assert f"slip.yaml:{line}: " in done.stderr or f"line {line}: " in done.stderr


def test_a_batch_that_is_asked_for_counts_in_the_equation(doctor) -> None:  # type: ignore[no-untyped-def]
    row = facts(doctor, "--batch", "4", "--sequence", "1024", "--device-memory", "64GB")
    batch = row["facts"]["batch"]
    assert (batch["per_device"], batch["global"], batch["tokens_per_step"]) == (4, 32, 32768)
    done = doctor("estimate", str(CONFIG), "--batch", "4")
    assert "4 x 8 x 1 = 32" in done.stdout


def test_a_sequence_that_is_asked_for_need_not_be_in_the_file(doctor, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "config.json").write_text(json.dumps({
        "model_type": "bloom", "architectures": ["BloomForCausalLM"], "hidden_size": 1024, "n_layer": 24, "n_head": 16,
        "vocab_size": 250880}))  # fmt: skip
    done = doctor("estimate", "config.json", "--batch", "1", "--sequence", "2048", "--format", "json")
    assert json.loads(done.stdout)["facts"]["model"]["parameters"] == 559_214_592


def test_the_changes_are_named_as_the_file_names_them(doctor, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    from doctor.examples import example

    path = example("tiny-llama")
    assert path is not None
    text = path.read_text(encoding="utf-8").replace("hidden_size: 128", "hidden_size: 8192")
    (tmp_path / "big.yaml").write_text(text, encoding="utf-8")
    done = doctor("estimate", "big.yaml", "--device-memory", "24GB", "--batch", "256", "--sequence", "4096")
    assert "training_args.recompute: True" in done.stdout, done.stdout
    assert "recompute_config" not in done.stdout


def test_no_cheap_change_is_promised_where_none_is_enough(doctor) -> None:  # type: ignore[no-untyped-def]
    done = doctor("estimate", str(CONFIG), "--device-memory", "8GB")
    assert "No cheap change" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        # the count in facts of the model's own config: ChatGLM3-6B
        (
            {"model_type": "chatglm", "architectures": ["ChatGLMModel"], "hidden_size": 4096, "num_layers": 28,
             "num_attention_heads": 32, "kv_channels": 128, "ffn_hidden_size": 13696, "multi_query_attention": True,
             "multi_query_group_num": 2, "padded_vocab_size": 65024, "seq_length": 8192, "add_qkv_bias": True},
            6_243_584_000,
        ),
        # Qwen2-57B-A14B by hand: 28 x (attention 29,364,736 + norms 7,168 + router 229,376 + experts 1,761,607,680
        # + shared expert 220,200,960 + its gate 3,584) + embedding and head 1,089,077,248 + norm 3,584
        (
            {"model_type": "qwen2_moe", "architectures": ["Qwen2MoeForCausalLM"], "hidden_size": 3584,
             "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "intermediate_size": 18944,
             "vocab_size": 151936, "max_position_embeddings": 32768, "num_experts": 64, "num_experts_per_tok": 8,
             "moe_intermediate_size": 2560, "shared_expert_intermediate_size": 20480, "tie_word_embeddings": False},
            57_408_658_944,
        ),
    ],
)  # fmt: skip
def test_hugging_face_models_are_counted_exactly(doctor, tmp_path: Path, config, parameters) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "config.json").write_text(json.dumps(config))
    done = doctor("estimate", "config.json", "--batch", "1", "--sequence", "2048", "--format", "json")
    assert json.loads(done.stdout)["facts"]["model"]["parameters"] == parameters
