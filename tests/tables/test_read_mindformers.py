"""The table of constructors is what the wheels' own code says, and the choices of the built-in trainer are the trainer's."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from read_mindformers import TABLE, arguments_of, constructors

from doctor.plan.names import read_table
from doctor.trainer.arguments import TrainingArguments
from doctor.trainer.data.settings import Source
from doctor.trainer.fields import Choice
from doctor.trainer.models.config import ModelConfig
from doctor.trainer.models.families import names


def test_constructors_are_read_without_running_the_code() -> None:
    code = """
@MindFormerRegister.register(MindFormerModuleType.CONFIG)
class AConfig(PretrainedConfig):
    def __init__(self, hidden_size: int = 8, *, num_layers=2, **kwargs):
        raise SystemExit

@MindFormerRegister.register(MindFormerModuleType.MODELS)
class AModel:
    def __init__(self, config): ...
"""
    assert list(constructors(code, "CONFIG")) == [("AConfig", ["hidden_size", "num_layers"])]


@pytest.mark.heavy
def test_the_table_of_constructors_is_what_the_wheels_say() -> None:
    folder = Path.home() / ".cache" / "mindspore-doctor" / "wheels"
    wheels = sorted(folder.glob("mindformers-*.whl"))
    releases = read_table("mindformers-names")["releases"]
    if len(wheels) < len(releases):
        pytest.skip("NOT TESTED AGAINST THE WHEELS: run tests/checks/config/test_config_official.py once to fetch them")
    table = json.loads(TABLE.read_text("utf-8"))
    assert table["arguments"]["config"] == arguments_of(wheels, "config")


def test_choices_of_the_built_in_trainer_are_its_own() -> None:
    table = {path: words.split() for path, words in read_table("config-keys")["trainer choices"].items()}
    assert table["model.type"] == list(names())
    kinds = {
        f"{section}.{item.name}": item.metadata["kind"]
        for section, owner in (
            ("training_args", TrainingArguments),
            ("model", ModelConfig),
            ("train_dataset.data_loader", Source),
        )
        for item in dataclasses.fields(owner)
        if isinstance(item.metadata.get("kind"), Choice)
    }
    for path, kind in kinds.items():
        if path in table:
            assert table[path] == [*kind.words, *kind.spelled], path
    assert len(set(kinds) & set(table)) >= 5
