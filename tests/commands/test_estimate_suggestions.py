"""What `estimate` suggests, put into the config and estimated again: it fits. Dense, grouped, expert and latent models."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from doctor.commands.estimate import build_report
from doctor.plan.edit import edit_text
from doctor.report.model import Report

_RUN = """
run_mode: train
use_legacy: {legacy}
trainer: {{type: CausalLanguageModelingTrainer}}
runner_config: {{epochs: 1, batch_size: {batch}, gradient_accumulation_steps: 1}}
parallel: {{parallel_mode: 1, full_batch: True, enable_parallel_optimizer: {shard}}}
parallel_config: {{data_parallel: {devices}, model_parallel: 1, pipeline_stage: 1, micro_batch_num: 1}}
recompute_config: {{recompute: False}}
model:
  model_config: {model}
"""
_DENSE = "{type: LlamaConfig, num_layers: 40, hidden_size: 5120, num_heads: 40, vocab_size: 32000, seq_length: 4096, compute_dtype: bfloat16, use_flash_attention: True}"
_GROUPED = "{model_type: qwen3, num_hidden_layers: 64, hidden_size: 5120, num_attention_heads: 64, num_key_value_heads: 8, head_dim: 128, intermediate_size: 25600, vocab_size: 151936, seq_length: 4096, compute_dtype: bfloat16}"
_EXPERTS = "{model_type: qwen3_moe, num_hidden_layers: 48, hidden_size: 2048, num_attention_heads: 32, num_key_value_heads: 4, head_dim: 128, intermediate_size: 6144, moe_intermediate_size: 768, num_experts: 128, num_experts_per_tok: 8, vocab_size: 151936, seq_length: 4096, compute_dtype: bfloat16}"
_LATENT = "{model_type: deepseek_v3, num_hidden_layers: 27, hidden_size: 2048, num_attention_heads: 16, kv_lora_rank: 512, q_lora_rank: 1536, qk_nope_head_dim: 128, qk_rope_head_dim: 64, v_head_dim: 128, intermediate_size: 10944, moe_intermediate_size: 1408, n_routed_experts: 64, num_experts_per_tok: 6, n_shared_experts: 2, first_k_dense_replace: 1, multi_latent_attention: True, vocab_size: 102400, seq_length: 4096, compute_dtype: bfloat16}"
FAMILIES = {
    "dense": (True, _DENSE, 8),
    "grouped": (False, _GROUPED, 32),
    "experts": (False, _EXPERTS, 32),
    "latent": (False, _LATENT, 16),
}


def _config(folder: Path, family: str, *, batch: int = 1, shard: bool = True) -> Path:
    legacy, model, devices = FAMILIES[family]
    path = folder / f"{family}.yaml"
    path.write_text(_RUN.format(legacy=legacy, batch=batch, shard=shard, devices=devices, model=model), "utf-8")
    return path


def _estimate(path: Path, memory: int | None, devices: int | None = None, formula: bool = False) -> Report:
    return build_report(
        argparse.Namespace(
            config=str(path),
            devices=devices,
            device_memory=memory,
            mindformers="1.8.0",
            batch=None,
            sequence=None,
            profile="fused",
            formula=formula,
        )
    )


@pytest.mark.parametrize("memory", [32, 64])
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_the_suggested_strategy_fits(tmp_path: Path, family: str, memory: int) -> None:
    path = _config(tmp_path, family)
    devices = FAMILIES[family][2]
    suggestion = _estimate(path, memory << 30, devices).facts["suggestion"]
    if suggestion is None:
        assert memory == 32
        return
    data = yaml.safe_load(path.read_text("utf-8"))
    data["parallel_config"].update(
        data_parallel=suggestion["data_parallel"],
        model_parallel=suggestion["model_parallel"],
        pipeline_stage=suggestion["pipeline_stage"],
        expert_parallel=suggestion["expert_parallel"],
        micro_batch_num=suggestion["micro_batch_num"],
        use_seq_parallel=suggestion["sequence_parallel"],
    )
    data["parallel"]["enable_parallel_optimizer"] = suggestion["optimizer_parallel"]
    recompute = {"none": {"recompute": False}, "full": {"recompute": True}, "select": {"select_recompute": True}}
    data["recompute_config"] = recompute[suggestion["recompute"]]
    data["runner_config"]["batch_size"] = suggestion["per_device_batch"]
    path.write_text(yaml.safe_dump(data), "utf-8")
    again = _estimate(path, memory << 30, devices).facts
    sizes = data["parallel_config"]
    assert sizes["data_parallel"] * sizes["model_parallel"] * sizes["pipeline_stage"] == devices
    assert again["memory"]["fits"] is True
    assert again["memory"]["largest_batch"] >= suggestion["per_device_batch"]


#: layers that leave room on a card once the cheap changes are made, and a batch for which they are needed
_FEWER = {"dense": (20, 24), "grouped": (10, 24), "experts": (6, 32), "latent": (9, 48)}


@pytest.mark.parametrize("shard", [True, False])
@pytest.mark.parametrize("family", sorted(_FEWER))
def test_the_cheapest_changes_fit_once_they_are_made(tmp_path: Path, family: str, shard: bool) -> None:
    path, memory = _fewer(tmp_path, family, shard), 64
    (finding,) = _estimate(path, memory << 30).findings
    edits = finding.fixes[0].edits
    assert edits, finding.fixes[0].summary.en
    before = _estimate(path, memory << 30).facts["batch"]["global"]
    path.write_text(edit_text(path.read_text("utf-8"), edits), "utf-8")
    again = _estimate(path, memory << 30)
    assert again.findings == () and again.facts["memory"]["fits"] is True
    if not any("seq_length" in edit.key for edit in edits):
        assert again.facts["batch"]["global"] == before


def _fewer(folder: Path, family: str, shard: bool) -> Path:
    layers, batch = _FEWER[family]
    path = _config(folder, family, batch=batch, shard=shard)
    path.write_text(re.sub(r"(num_(?:hidden_)?layers): \d+", rf"\1: {layers}", path.read_text("utf-8")), "utf-8")
    return path


def test_the_fix_of_a_run_that_does_not_fit_can_be_applied(tmp_path: Path, doctor: Any) -> None:
    path = _fewer(tmp_path, "dense", shard=False)
    words = ("check", str(path), "--devices", "8", "--device-memory", "64GB", "--only", "CFG-MEM-001")
    done = doctor(*words, "--fix", "--unsafe-fixes", "--yes")
    assert done.returncode in (0, 1), done.stderr
    after = doctor(*words, "--format", "json")
    assert json.loads(after.stdout)["findings"] == []


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_an_unknown_card_is_no_verdict(tmp_path: Path, family: str) -> None:
    report = _estimate(_config(tmp_path, family), None)
    memory = report.facts["memory"]
    assert (memory["fits"], memory["device"], memory["largest_batch"]) == (None, None, None)
    assert report.facts["suggestion"] is None and report.findings == ()
    assert any("--device-memory" in line.en and "--device-memory" in line.zh for line in report.headline)
    assert all(stage["total"] > 0 for stage in memory["stages"])


def test_the_formula_is_shown_on_request_alone(tmp_path: Path) -> None:
    path = _config(tmp_path, "dense")
    without, shown = (
        "\n".join(line.en for line in _estimate(path, 64 << 30, formula=formula).headline) for formula in (False, True)
    )
    assert "moments 8 B" in shown and "moments 8 B" not in without
