"""A finding of a run beside what the checks say of the configuration that the run itself printed."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from doctor.finding import Finding
from doctor.match.pack import load_pack
from doctor.records.cutter import Cutter
from doctor.session import DiagnosisSession
from doctor.session.echoed import Echoes
from doctor.session.reading import read_run

_HEAD = "2026-03-01 10:00:00,000 - mindformers/output/log[mindformers/trainer/base_trainer.py:1443] - INFO - "
_PRINTED = """\
{'callbacks': [{'type': 'MFLossMonitor'}],
 'lr_schedule': {'learning_rate': 5.0, 'total_steps': 99, 'type': 'CosineWithWarmUpLR', 'warmup_steps': 5},
 'model': {'arch': {'type': 'LlamaForCausalLM'},
[WARNING] ME(11:22,MainProcess):2026-03-01-10:00:00.000.000 [mindspore/context.py:1334] a line {between
           'model_config': {'compute_dtype': Float32,
                            'hidden_size': 4096,
                            'num_heads': 32,
                            'num_layers': 32,
                            'rms_norm_eps': 1e-06,
                            'seq_length': 4096,
                            'type': 'LlamaConfig',
                            'vocab_size': 32000}},
 'moe_config': <mindformers.modules.transformer.moe.MoEConfig object at 0x7f42df06b210>,
 'optimizer': {'eps': 1e-08,
               'learning_rate': CosineWithWarmUpLR(),
               'params': [{'params': [Parameter (name=a.b, shape=(512, 128), dtype=Float32, requires_grad=True)],
                           'weight_decay': 0.01}],
               'type': 'AdamW'},
 'run_mode': 'train',
 'runner_config': {'batch_size': 4, 'epochs': 2},
 'trainer': {'model_name': 'llama2_7b', 'type': 'CausalLanguageModelingTrainer'},
 'use_parallel': False}
"""
_SETTINGS = {
    "training": {"local_batch_size": 4, "steps": 99},
    "lr_scheduler": {"type": "CosineWithWarmUpLR", "learning_rate": 5.0, "warmup_steps": 5},
    "optimizer": {"type": "AdamW", "eps": 1e-08},
}
_STEP = "{{ Epoch:[  1/  1], step:[{step:5d}/   99], loss: {loss}, per_step_time: 900ms, lr: 0.5, global_norm: [1.5]"


def log_of(block: str) -> str:
    losses = [f"{9 - 0.2 * step:.3f}" for step in range(12)] + ["nan"] * 6
    steps = [_HEAD + _STEP.format(step=step, loss=loss) for step, loss in enumerate(losses, 1)]
    return "\n".join([_HEAD + "Build Callbacks For Train", block.rstrip(), *steps]) + "\n"


GRAPH = _HEAD + ".........Starting Init Train Model..........\n" + _PRINTED


def nan_of(log: Path) -> Finding:
    session = DiagnosisSession(load_pack())
    read_run(session, [str(log)], lambda event: None)
    found = session.findings()[0]
    assert found.rule == "RUN-NAN-001"
    return found


def test_the_printed_configuration_is_checked_and_its_place_told(tmp_path: Path) -> None:
    log = tmp_path / "worker_0.log"
    log.write_text(log_of(GRAPH))
    finding = nan_of(log)
    assert "printed: CFG-OPT-007" in finding.message.en and "打印的配置" in finding.message.zh
    place = next(item for item in finding.evidence if item.key == "lr_schedule.learning_rate")
    assert (place.source, place.line, place.observed) == (str(log), 3, 5.0)
    assert any("lr_schedule.learning_rate" in fix.summary.en and not fix.edits for fix in finding.fixes)


def test_a_configuration_that_was_given_comes_first(tmp_path: Path) -> None:
    log = tmp_path / "worker_0.log"
    log.write_text(log_of(GRAPH))
    (tmp_path / "config.yaml").write_text("seed: 0\n")
    session = DiagnosisSession(load_pack())
    read_run(session, [str(tmp_path)], lambda event: None)
    assert "CFG-OPT-007" not in session.findings()[0].message.en


@pytest.mark.parametrize("cut", range(6))
def test_it_is_read_in_any_cut(cut: int) -> None:
    session, cutter = DiagnosisSession(load_pack()), Cutter("worker_0.log")
    data, rng, at = log_of(GRAPH).encode(), random.Random(cut), 0
    while at < len(data):
        size = rng.choice([1, 30, 200, 3000]) if cut else len(data)
        for chunk in cutter.feed(data[at : at + size]):
            session.feed(chunk)
        at += size
    session.end()
    assert "printed: CFG-OPT-007" in session.findings()[0].message.en


def echo_of(text: str) -> Echoes:
    session, cutter = DiagnosisSession(load_pack()), Cutter("worker_0.log")
    for chunk in cutter.feed(text.encode()):
        session.feed(chunk)
    return session.part().echoes


def test_pynative_prints_it_as_json() -> None:
    block = _HEAD + "Current config: " + json.dumps(_SETTINGS, indent=2)
    echo = echo_of(log_of(block)).echo
    assert echo is not None and echo.line == 2
    assert echo.settings == _SETTINGS


def test_parts_that_are_printed_by_themselves_belong_to_it() -> None:
    part = _HEAD + "initial parallel_config from dict: {'data_parallel': 3, 'model_parallel': 2, 'algo': Algo.X}"
    echo = echo_of(log_of(part + "\n" + GRAPH)).echo
    assert echo is not None and echo.settings["parallel_config"] == {"data_parallel": 3, "model_parallel": 2}
    assert echo.settings["model"]["model_config"]["rms_norm_eps"] == 1e-06
    assert "learning_rate" not in echo.settings["optimizer"]


@pytest.mark.parametrize(
    "block",
    [
        _HEAD + ".........Starting Init Train Model..........",  # nothing behind it
        GRAPH[: len(GRAPH) // 2],  # torn
        GRAPH.replace("'epochs': 2}", "'epochs': 2}}"),  # closed too soon
        _HEAD + "Current config: {\n  not json\n}",
        GRAPH.replace("'run_mode': 'train'", "'run_mode': " + "[" * 400),
    ],
)
def test_what_cannot_be_read_is_passed_over(block: str) -> None:
    assert echo_of(log_of(block)).echo is None
