"""A finding of a run beside what the checks say of the configuration that the run used."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

from doctor.finding import Finding
from doctor.match.pack import load_pack
from doctor.session import DiagnosisSession
from doctor.session.reading import configured, read_run

_CONFIG = """\
seed: 0
run_mode: 'train'
trainer:
  type: CausalLanguageModelingTrainer
  model_name: 'llama2_7b'
runner_config:
  epochs: 2
  batch_size: 4
lr_schedule:
  type: CosineWithWarmUpLR
  learning_rate: {rate}
  warmup_ratio: 0.03
optimizer:
  type: AdamW
model:
  model_config:
    type: LlamaConfig
    seq_length: 4096
    hidden_size: 4096
    num_layers: 32
    num_heads: 32
    vocab_size: 32000
  arch:
    type: LlamaForCausalLM
"""
_STEP = "Epoch:[  1/  1], step:[{step:5d}/   99], loss: {loss}, per_step_time: 900ms, lr: 0.5, global_norm: [1.5]"


def diagnosed(folder: Path, rate: str, losses: list[str]) -> tuple[Finding, ...]:
    config, log = folder / "pretrain.yaml", folder / "info.log"
    config.write_text(_CONFIG.format(rate=rate))
    log.write_text("".join(_STEP.format(step=step, loss=loss) + "\n" for step, loss in enumerate(losses, 1)))
    session = DiagnosisSession(load_pack())
    configured(session, config)
    read_run(session, [str(log)], lambda event: None)
    return session.findings()


NAN = [f"{9 - 0.2 * step:.3f}" for step in range(12)] + ["nan"] * 6


def test_a_rate_that_check_warns_of_stands_beside_the_nan_with_its_edit(tmp_path: Path) -> None:
    finding = diagnosed(tmp_path, "5.0", NAN)[0]
    assert finding.rule == "RUN-NAN-001"
    assert "warned of this: CFG-OPT-007" in finding.message.en and "CFG-OPT-007" in finding.message.zh
    place = next(item for item in finding.evidence if item.source.endswith("pretrain.yaml"))
    assert place.line == 11
    assert [edit.key for fix in finding.fixes for edit in fix.edits] == ["lr_schedule.learning_rate"]


def test_a_config_without_such_a_warning_changes_nothing(tmp_path: Path) -> None:
    finding = diagnosed(tmp_path, "3.0e-4", NAN)[0]
    assert finding.rule == "RUN-NAN-001"
    assert "warned of this" not in finding.message.en
    assert not any(item.source.endswith(".yaml") for item in finding.evidence)


def test_a_healthy_run_is_not_blamed_for_its_config(tmp_path: Path) -> None:
    healthy = [f"{2 + 7 / (1 + step / 5):.3f}" for step in range(99)]
    assert [item.rule for item in diagnosed(tmp_path, "5.0", healthy) if item.severity.value != "info"] == []


def test_the_command_takes_the_config(doctor: Callable[..., CompletedProcess[str]], tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(_CONFIG.format(rate="5.0"))
    log = tmp_path / "info.log"
    log.write_text("".join(_STEP.format(step=step, loss=loss) + "\n" for step, loss in enumerate(NAN, 1)))
    done = doctor("watch", "--once", "--format", "jsonl", "--run-config", str(tmp_path / "p.yaml"), str(log))
    opened = [json.loads(line) for line in done.stdout.splitlines()]
    assert any("CFG-OPT-007" in row["finding"]["message"] for row in opened if row["event"] == "opened")
    missing = doctor("watch", "--once", "--run-config", str(tmp_path / "none.yaml"), str(log))
    assert missing.returncode == 2 and "no such file" in missing.stderr
