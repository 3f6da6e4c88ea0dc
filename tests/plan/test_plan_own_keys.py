"""What `check` knows of the built-in trainer's settings is what the trainer takes."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml

from doctor import runner
from doctor.check import Options
from doctor.plan.plan import Dialect
from doctor.plan.schema import section_specs
from doctor.trainer.arguments import TrainingArguments
from doctor.trainer.config import load_config
from doctor.trainer.data.settings import DatasetSettings, Source
from doctor.trainer.models.config import ModelConfig


@pytest.mark.parametrize(
    ("section", "settings"),
    [
        ("training_args", TrainingArguments),
        ("train_dataset", DatasetSettings),
        ("eval_dataset", DatasetSettings),
        ("train_dataset.data_loader", Source),
        ("eval_dataset.data_loader", Source),
        ("model", ModelConfig),
    ],
)
def test_every_setting_of_the_trainer_is_known_by_each_of_its_names(section: str, settings: Any) -> None:
    names = {
        name
        for item in dataclasses.fields(settings)
        if item.metadata
        for name in (item.name, *item.metadata.get("also", ()))
    }
    assert names - set(section_specs(Dialect.TRAINER, section)) == set()


def test_a_config_as_the_trainer_writes_it_passes(tmp_path: Path) -> None:
    given = {
        "model": {
            "type": "llama",
            "hidden_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "vocab_size": 64,
        },
        "train_dataset": {"data_loader": {"type": "Generated"}, "max_length": 16},
        "training_args": {"max_steps": 400, "warmup_steps": 20, "learning_rate": 1e-3, "save_steps": 100},
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(given))
    written = tmp_path / "config.yaml"
    written.write_text(yaml.safe_dump(load_config(str(tmp_path / "run.yaml")).effective(), sort_keys=False))
    judged = runner.judge_path(written, Options())
    found = [finding for outcome in judged.outcomes for finding in outcome.findings if finding.severity.rank >= 1]
    assert [(finding.rule, finding.evidence[0].key) for finding in found] == []
