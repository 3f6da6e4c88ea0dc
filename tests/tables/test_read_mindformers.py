"""The table of constructors is what the wheels' own code says, and the choices of the built-in trainer are the trainer's."""

from __future__ import annotations

import dataclasses
import json
import zipfile
from pathlib import Path

import pytest
from read_mindformers import TABLE, arguments_of, constructors
from read_names import KINDS, names_of, registered
from read_sections import refusing

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


@pytest.mark.heavy
def test_the_names_of_classes_are_what_the_wheels_register() -> None:
    folder = Path.home() / ".cache" / "mindspore-doctor" / "wheels"
    wheels = sorted(folder.glob("mindformers-*.whl"))
    if len(wheels) < len(read_table("mindformers-names")["releases"]):
        pytest.skip("NOT TESTED AGAINST THE WHEELS: run tests/checks/config/test_config_official.py once to fetch them")
    table = {kind: names for kind, names in read_table("mindformers-names")["registered"].items() if kind in KINDS}
    assert table == names_of(wheels)


def test_names_are_read_without_running_the_code() -> None:
    code = """
@MindFormerRegister.register(MindFormerModuleType.LR, alias="cosine")
class CosineLR: raise SystemExit

@MindFormerRegister.register(MindFormerModuleType.CALLBACK)
class Monitor: ...
"""
    assert sorted(registered(code)) == [("callback", "Monitor"), ("lr", "cosine")]


@pytest.mark.heavy
def test_the_keys_of_refusing_sections_are_what_the_wheels_say() -> None:
    folder = Path.home() / ".cache" / "mindspore-doctor" / "wheels"
    wheels = sorted(folder.glob("mindformers-*.whl"))
    if len(wheels) < len(read_table("mindformers-names")["releases"]):
        pytest.skip("NOT TESTED AGAINST THE WHEELS: run tests/checks/config/test_config_official.py once to fetch them")
    assert read_table("config-keys")["refusing"] == refusing(wheels)


def test_keys_that_a_class_attribute_or_a_pop_declares(tmp_path: Path) -> None:
    old, new = tmp_path / "mindformers-1.0.0-py3.whl", tmp_path / "mindformers-1.6.0-py3.whl"
    with zipfile.ZipFile(old, "w") as archive:
        archive.writestr(
            "mindformers/modules/transformer/transformer.py",
            "class TransformerOpParallelConfig:\n def __init__(self, data_parallel=1, recompute=None): raise SystemExit",
        )
        archive.writestr("mindformers/core/parallel_config.py", "config.parallel_config.pop('mem_coeff', 0.1)")
    with zipfile.ZipFile(new, "w") as archive:
        archive.writestr(
            "mindformers/tools/register/template.py",
            "class P(Config):\n data_parallel = 1\n seq_split_num = 1\n _name = 'parallel_config'",
        )
    assert refusing([new, old]) == {
        "parallel_config": {"data_parallel": "1.0.0-1.6.0", "mem_coeff": "1.0.0", "seq_split_num": "1.6.0"}
    }


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
