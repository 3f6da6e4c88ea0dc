"""The trainer from a script: Trainer, models and weights, data sets, callbacks, TensorBoard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trainer_references import Reference

from doctor.errors import UsageError
from doctor.trainer import (
    AutoModelForCausalLM,
    AutoTokenizer,
    Callback,
    ModelLoader,
    Trainer,
    TrainingArguments,
    build_dataset,
)

SIZES = {"type": "llama", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 257}


class Ear(Callback):
    def __init__(self) -> None:
        self.heard: list[Any] = []

    def begin(self, total_steps: int) -> None:
        self.heard.append(("begin", total_steps))

    def step(self, record: Any) -> None:
        self.heard.append(record.global_step)

    def evaluated(self, step: int, loss: float) -> None:
        self.heard.append(("evaluated", step, round(loss)))

    def saved(self, step: int, path: Path) -> None:
        self.heard.append(("saved", step, path.name))

    def end(self, step: int) -> None:
        self.heard.append(("end", step))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps({"text": f"line {i}: abcabc"}) + "\n" for i in range(60)))
    return path


def test_trainer_from_a_script(mindspore: Any, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tensorboardX")
    from doctor.trainer import SummaryCollector

    ear = Ear()
    data = {"data_loader": {"type": "Json", "dataset_dir": str(text)}, "max_length": 16, "batch_size": 4}
    args = TrainingArguments(
        output_dir=str(tmp_path / "out"), max_steps=4, learning_rate=0.01, save_steps=2, save_best=True, eval_steps=2
    )
    trainer = Trainer("text_generation", SIZES, args, data, "byte", eval_dataset=data)
    ended = trainer.train(callbacks=[ear, SummaryCollector(str(tmp_path / "summary"), collect_freq=2)])
    assert (ended.state, ended.code, ended.last_step) == ("ended", 0, 4)
    first = [("begin", 4), 1, 2, ("evaluated", 2, 5), ("saved", 2, "step-2"), 3, 4]
    assert ear.heard[: len(first)] == first
    assert ear.heard[-1] == ("end", 4)
    assert "Eval result: {'loss':" in (tmp_path / "out" / "log" / "rank_0.log").read_text()
    assert "step:[    4/" in capsys.readouterr().out

    loader = pytest.importorskip("tensorboardX.proto.event_pb2")
    events = next((tmp_path / "summary").iterdir()).read_bytes()
    assert b"train/loss" in events
    assert b"eval/loss" in events
    assert loader is not None

    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out" / "checkpoints" / "latest")
    assert model.config.hidden_size == 32
    assert model([[1, 2, 3]]).shape == (1, 3, 257)


def test_hugging_face_folder_gives_its_logits(mindspore: Any, tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    reference = Reference.load("qwen3")
    save_file(reference.weights, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3", **reference.config}))
    for model in (
        AutoModelForCausalLM.from_pretrained(tmp_path),
        ModelLoader("my_qwen", "qwen3", tmp_path).load_model(),
    ):
        assert np.abs(model(reference.ids) - reference.logits).max() < 1e-5
    model.save_pretrained(tmp_path / "again")
    assert (
        np.abs(AutoModelForCausalLM.from_pretrained(tmp_path / "again")(reference.ids) - reference.logits).max() < 1e-5
    )


def test_weights_of_another_model_are_named(mindspore: Any, tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    reference = Reference.load("qwen3")
    save_file(reference.weights, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "qwen3", **reference.config, "num_hidden_layers": 3})
    )
    with pytest.raises(UsageError, match="11 of 36 weights are not there"):
        AutoModelForCausalLM.from_pretrained(tmp_path)(reference.ids)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3", **reference.config, "vocab_size": 41}))
    with pytest.raises(UsageError, match=r"has shape \(40, 16\), the model \(41, 16\)"):
        AutoModelForCausalLM.from_pretrained(tmp_path)(reference.ids)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: AutoModelForCausalLM.from_pretrained("llama2_7b"), "nothing is downloaded"),
        (lambda: AutoModelForCausalLM.from_config("llama2_8b"), "Did you mean llama3_8b"),
        (lambda: ModelLoader("mine", "llama").load_model(), "sizes of a llama of your own"),
        (lambda: ModelLoader("mine").load_model(), "there is no model 'mine'"),
        (lambda: Trainer(task="translation"), "is not one of"),
        (lambda: Trainer(args={"learning_rat": 1}), "Did you mean learning_rate"),
        (lambda: Trainer(train_dataset="data.csv").train(), "a data set is a .jsonl"),
        (lambda: Trainer().train(), "train_dataset is not given"),
        (lambda: TrainingArguments(learning_rate="1e-5"), "is a string, not a number"),
        (lambda: build_dataset({"data_loader": "Generated"}), "max_length is needed"),
        (lambda: AutoTokenizer.from_pretrained("nowhere"), "no such file"),
    ],
)
def test_bad_input_is_one_line(call: Any, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert words in caught.value.line("en")


def test_model_loader_takes_a_config_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("model:\n  type: llama\n  hidden_size: 64\n  num_attention_heads: 4\n  num_hidden_layers: 3\n")
    for config in (
        path,
        str(path),
        {"type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 3},
    ):
        assert ModelLoader("mine", "llama", config=config).load_model().config.num_hidden_layers == 3


def test_build_dataset_is_iterated_in_batches() -> None:
    made = build_dataset({"data_loader": {"type": "Generated", "samples": 10}, "max_length": 6, "batch_size": 4}, 100)
    assert made.get_dataset_size() == len(made) == 2
    rows = list(made)
    assert [row["input_ids"].shape for row in rows] == [(4, 6)] * 2
    assert np.array_equal(rows[0]["labels"][:, :-1], rows[0]["input_ids"][:, 1:])
