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
        "data_parallel", "model_parallel", "pipeline_stage", "recompute", "per_device_batch", "reason"
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
