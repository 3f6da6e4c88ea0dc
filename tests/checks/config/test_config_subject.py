"""A config as the command sees it: recognised, loaded, described, silenced; and what is no config at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from config_bases import BASES
from conftest import Run

from doctor.check import Options
from doctor.checks.config.subject import facts, load, recognises
from doctor.errors import UsageError

LEGACY, DEVICES, _ = BASES["legacy"]


def _write(folder: Path, text: str, name: str = "run.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def _changed(**changes: Any) -> str:
    data = yaml.safe_load(LEGACY)
    for key, value in changes.items():
        section, _, name = key.partition("__")
        data[section][name] = value
    return str(yaml.safe_dump(data, sort_keys=False))


def _report(doctor: Run, *words: str) -> dict[str, Any]:
    done = doctor("check", *words, "--format", "json")
    assert done.returncode in (0, 1), done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.parametrize("base", sorted(set(BASES) - {"huggingface"}))
def test_training_yaml_is_recognised_under_any_name(base: str, tmp_path: Path) -> None:
    assert recognises(_write(tmp_path, BASES[base][0]))
    assert recognises(_write(tmp_path, BASES[base][0], "run_cfg"))


def test_other_files_are_not(tmp_path: Path) -> None:
    assert recognises(_write(tmp_path, BASES["huggingface"][0], "config.json"))
    assert not recognises(_write(tmp_path, '{"a": 1}', "notes.json"))
    assert not recognises(_write(tmp_path, LEGACY, "worker_0.log"))
    assert not recognises(_write(tmp_path, "step: 1\nloss: 2\n", "notes"))
    assert not recognises(tmp_path)
    assert not recognises(tmp_path / "missing.yaml")
    binary = tmp_path / "x"
    binary.write_bytes(b"model:\0\xff")
    assert not recognises(binary)


def test_facts_show_the_global_batch(tmp_path: Path) -> None:
    told = facts(load(_write(tmp_path, LEGACY), Options(devices=DEVICES)))
    data = yaml.safe_load(LEGACY)
    parallel, runner = data["parallel_config"], data["runner_config"]
    micro = parallel.get("micro_batch_num", 1) if parallel["pipeline_stage"] > 1 else 1
    total = (
        runner["batch_size"]
        * parallel["data_parallel"]
        * micro
        * runner.get("gradient_accumulation_steps", 1)
        * data.get("micro_batch_interleave_num", 1)
    )
    assert told["batch"]["global"] == total
    assert told["dialect"] == "legacy"
    assert told["parallel"]["product"] == DEVICES
    json.dumps(told)


def test_one_pass_reports_every_fault(tmp_path: Path, doctor: Run) -> None:
    text = _changed(
        parallel_config__data_parallel=3,
        optimizer__betas=[0.9, 1.5],
        context__max_device_memory="58XB",
        runner_config__epochs=-1,
    )
    report = _report(doctor, str(_write(tmp_path, text)), "--devices", str(DEVICES))
    keys = {item["key"] for finding in report["findings"] for item in finding["evidence"] if item.get("key")}
    assert {"parallel_config.data_parallel", "context.max_device_memory", "runner_config.epochs"} <= keys
    assert any(key.startswith("optimizer.betas") for key in keys)
    assert any(finding["rule"] == "CFG-PAR-001" for finding in report["findings"])


def test_a_comment_silences_its_line_only(tmp_path: Path, doctor: Run) -> None:
    text = _changed(context__max_device_memory="58XB", runner_config__epochs=-1)
    line = next(row for row in text.split("\n") if "max_device_memory" in row)
    rule = next(
        finding["rule"]
        for finding in _report(doctor, str(_write(tmp_path, text)))["findings"]
        if any(item.get("key") == "context.max_device_memory" for item in finding["evidence"])
    )
    for mark in (f"# doctor: ignore={rule}", "# doctor: ignore", f"# doctor: ignore = CFG-BAT-001, {rule}"):
        quiet = _write(tmp_path, text.replace(line, f"{line}  {mark}"), "quiet.yaml")
        report = _report(doctor, str(quiet))
        ids = {finding["rule"] for finding in report["findings"]}
        assert rule not in ids
        assert ids, "the other fault stays"
    other = _write(tmp_path, text.replace(line, f"{line}  # doctor: ignore=CFG-BAT-001"), "other.yaml")
    assert rule in {finding["rule"] for finding in _report(doctor, str(other))["findings"]}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: [1, 2\nb: {\n", 2),
        ("a: 1\nb: 'x\n", 2),
        ("a: 1\n b: 2\n", 2),
        ("", None),
        ("# nothing\n", None),
        ("just a sentence\n", None),
        ("- 1\n- 2\n", None),
    ],
)
def test_what_is_no_config_is_refused_in_one_line(text: str, line: int, tmp_path: Path, doctor: Run) -> None:
    path = _write(tmp_path, text)
    with pytest.raises(UsageError):
        load(path, Options())
    done = doctor("check", str(path))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr + done.stdout
    assert "run.yaml" in done.stderr
    if line:
        assert str(line) in done.stderr


def test_a_slip_in_a_training_config_is_a_finding_with_its_line(tmp_path: Path, doctor: Run) -> None:
    lines = LEGACY.split("\n")
    at = next(number for number, line in enumerate(lines) if "gradient_accumulation_steps:" in line)
    for line, broken in (
        (at, lines[at].replace(": ", ":")),
        (at, lines[at].replace(":", "：")),
        (at, lines[at].replace(":", " =")),
        (at, lines[at] + "\n   sink_size: 2"),
        (at, '  gradient_accumulation_steps: "1'),
    ):
        text = "\n".join([*lines[:line], broken, *lines[line + 1 :]])
        report = _report(doctor, str(_write(tmp_path, text)))
        (finding,) = [item for item in report["findings"] if item["severity"] == "error"]
        assert finding["rule"] == "CFG-YML-010"
        assert finding["evidence"][0]["line"] in (line + 1, line + 1 + broken.count("\n")), broken


def test_a_bomb_of_aliases_and_a_deep_file_are_refused(tmp_path: Path, doctor: Run) -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12))
    deep = "a: " + "[" * 3000 + "]" * 3000
    for text in (bomb, deep):
        done = doctor("check", str(_write(tmp_path, text)))
        assert done.returncode == 2, done.stdout
        assert "Traceback" not in done.stderr


def test_three_hundred_files_in_one_call(tmp_path: Path, doctor: Run) -> None:
    texts = [BASES[name][0] for name in sorted(set(BASES) - {"huggingface"})]
    paths = [str(_write(tmp_path, texts[i % len(texts)], f"run_{i:03d}.yaml")) for i in range(300)]
    report = _report(doctor, *paths)
    assert len(report["facts"]["targets"]) == 300
    assert not [item for item in report["findings"] if item["severity"] in ("error", "fatal")]


def test_ten_thousand_keys(tmp_path: Path, doctor: Run) -> None:
    text = LEGACY + "".join(f"key_{i}: {i}\n" for i in range(10_000))
    report = _report(doctor, str(_write(tmp_path, text)), "--devices", str(DEVICES))
    # one finding names the unknown keys together, or as many as a reader can use
    assert len(report["findings"]) < 200


def test_a_vision_config_is_left_to_its_own_task(tmp_path: Path, doctor: Run) -> None:
    text = """\
trainer:
  type: ImageClassificationTrainer
  model_name: 'vit_base_p16'
model:
  arch:
    type: ViTForImageClassification
  model_config:
    type: ViTConfig
    hidden_size: 768
    patch_size: 16
    num_hidden_layers: 12
    num_attention_heads: 12
runner_config:
  epochs: 300
  batch_size: 64
"""
    report = _report(doctor, str(_write(tmp_path, text)))
    assert not [item for item in report["findings"] if item["severity"] in ("error", "fatal")]


def test_equal_input_gives_equal_bytes(tmp_path: Path, doctor: Run) -> None:
    path = _write(tmp_path, _changed(parallel_config__data_parallel=3, runner_config__epochs=-1))
    first, second = (doctor("check", str(path), "--format", "json").stdout for _ in range(2))
    assert first == second
