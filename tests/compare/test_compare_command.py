"""`doctor compare` as a person uses it: real files, both languages, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from doctor.cli import main
from doctor.report.width import cell_width

_CONFIG = """\
model: {{type: llama, hidden_size: 128, num_hidden_layers: 2, num_attention_heads: 4, vocab_size: 512}}
train_dataset: {{data_loader: {{type: Generated, samples: 1024}}, max_length: 64}}
training_args:
  max_steps: 80
  per_device_train_batch_size: {batch}
  learning_rate: {rate}
  mixed_precision: {level}
  output_dir: {out}
versions: {{mindspore: {mindspore}, python: 3.11.7}}
"""


def make_run(
    folder: Path, shift: float = 0.0, begin: int = 0, bad: int = 0, scale: float = 1.0, steps: int = 80, **settings: Any
) -> Path:
    """A run folder as the trainer leaves it; the loss falls by a formula, shifted from step `begin` on, nan from `bad` on."""
    (folder / "metrics").mkdir(parents=True)
    rows = []
    for number in range(1, steps + 1):
        loss: Any = round(2 + 4 / (1 + number / 12) + (number * 37 % 11) / 100 + (shift if number >= begin else 0), 6)
        if bad and number >= bad:
            loss = "nan"
        rows.append(
            {
                "event": "metric", "source": "log/rank_0.log", "line": number, "rank": 0, "epoch": 1, "step": number,
                "global_step": number, "steps": 80, "epochs": 1, "loss": loss, "lr": 0.001, "grad_norm": 0.7,
                "overflow": False, "step_time_ms": 100.0 * scale + number % 3, "throughput": 80.0 / scale,
                "throughput_unit": "samples/s", "memory_mb": 600.0, "time": 1796012398.0 + number,
            }
        )  # fmt: skip
    (folder / "metrics" / "rank_0.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    values = {"batch": 8, "rate": "1.0e-3", "level": "O0", "mindspore": "2.10.0", "out": str(folder), **settings}
    (folder / "config.yaml").write_text(_CONFIG.format(**values))
    (folder / "end.json").write_text(json.dumps({"state": "ended", "exit_code": 0, "last_step": steps}))
    return folder


def compared(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, dict[str, Any]]:
    code = main(["compare", "--lang", "en", "--format", "json", *map(str, words)])
    return code, json.loads(capsys.readouterr().out)


def keys(report: dict[str, Any]) -> list[str]:
    return [row["key"] for row in report["facts"]["rows"]]


def test_a_run_and_its_copy_do_not_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = make_run(tmp_path / "a"), make_run(tmp_path / "b")
    code, report = compared(capsys, a, b)
    assert code == 0 and report["verdict"] == "ok" and report["facts"]["rows"] == []
    assert report["facts"]["loss"]["first_difference"] is None
    assert main(["compare", "--lang", "en", str(a), str(b)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "They came out alike: the losses are equal up to step 80."


def test_the_setting_that_explains_a_worse_loss_comes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = make_run(tmp_path / "a")
    b = make_run(tmp_path / "b", shift=1.0, begin=20, rate="9.0e-3", mindspore="2.7.2")
    code, report = compared(capsys, a, b)
    facts = report["facts"]
    assert code == 1 and report["verdict"] == "error" and facts["regression"] is True
    assert keys(report)[:2] == ["schedule.learning_rate", "mindspore"]
    first = facts["rows"][0]
    assert (first["part"], first["a"], first["b"], first["explains"]) == ("config", 0.001, 0.009, True)
    assert first["place_a"].endswith("config.yaml:6")
    assert facts["loss"]["parts_at"] == 20 and facts["loss"]["equal_until"] == 19
    assert facts["outcome"] == ["loss"]
    assert main(["compare", "--fail-on", "never", str(a), str(b)]) == 0
    capsys.readouterr()
    code, report = compared(capsys, b, a)  # the other way round it has become better
    assert code == 0 and report["facts"]["regression"] is False and report["verdict"] == "ok"


def test_findings_that_only_b_has_are_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, report = compared(capsys, make_run(tmp_path / "a"), make_run(tmp_path / "b", bad=30, level="O2"))
    assert code == 1
    assert "RUN-NAN-001" in [finding["rule"] for finding in report["findings"]]
    assert keys(report)[0] == "precision.level" and "loss.not_finite_at" in keys(report)


def test_speed_is_explained_by_what_bears_on_speed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = make_run(tmp_path / "a")
    code, report = compared(capsys, a, make_run(tmp_path / "b", scale=2.0, rate="1.1e-3", level="O2"))
    explaining = [row["key"] for row in report["facts"]["rows"] if row["explains"]]
    assert code == 0 and explaining == ["precision.level"]
    assert report["facts"]["outcome"] == ["speed"]


def test_what_nothing_explains_is_said_to_be_unexplained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = make_run(tmp_path / "a"), make_run(tmp_path / "b", shift=1.0, begin=20)
    assert main(["compare", "--lang", "en", str(a), str(b)]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "Nothing recorded explains it" in out and "look at data, code and hardware" in out


def test_where_a_run_writes_is_no_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = make_run(tmp_path / "a", out="/x/1"), make_run(tmp_path / "b", out="/y/2")
    assert compared(capsys, a, b)[1]["facts"]["rows"] == []


def test_two_dialects_are_compared_by_what_they_mean(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(
        "model: {type: llama, hidden_size: 128, num_hidden_layers: 2, num_attention_heads: 4, vocab_size: 512}\n"
        "train_dataset: {data_loader: {type: MindDataset, dataset_dir: data.mindrecord}, max_length: 64}\n"
        "training_args: {per_device_train_batch_size: 8, learning_rate: 1.0e-3, warmup_steps: 10}\n"
    )
    theirs = tmp_path / "theirs.yaml"
    theirs.write_text(
        "run_mode: train\nuse_parallel: False\nrunner_config: {batch_size: 8, epochs: 1, sink_mode: True}\n"
        "model: {model_config: {type: LlamaConfig, hidden_size: 128, num_layers: 2, num_heads: 4, vocab_size: 512, seq_length: 64}}\n"
        "train_dataset: {data_loader: {type: MindDataset, dataset_dir: data.mindrecord}}\n"
        "lr_schedule: {type: CosineWithWarmUpLR, learning_rate: 3.0e-3, warmup_steps: 10}\n"
    )
    code, report = compared(capsys, own, theirs)
    found = keys(report)
    assert "schedule.learning_rate" in found
    same = {
        "model.hidden_size",
        "model.num_layers",
        "model.vocab_size",
        "batch.per_device",
        "global_batch",
        "data.path",
    }
    assert same.isdisjoint(found) and "schedule.warmup_steps" not in found
    assert code == (1 if any(f["severity"] in ("error", "fatal") for f in report["findings"]) else 0)


def test_a_run_beside_a_config_is_that_runs_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "a")
    short = tmp_path / "short.yaml"
    short.write_text("".join((run / "config.yaml").read_text().partition("versions:")[:1]).replace("1.0e-3", "5.0e-3"))
    _, report = compared(capsys, run, short)
    assert report["facts"]["kind"] == "config" and keys(report) == ["schedule.learning_rate"]


def test_two_machines_differ_in_versions_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = {
        "host": {"hostname": "one"}, "python": {"version": "3.11.7"}, "packages": {"mindspore": "2.7.2", "six": "1.0"},
        "cann": {"version": "8.2.RC1"}, "driver": {"version": "25.0.1"}, "npu": {}, "env": {"HCCL_BUFFSIZE": "200"},
    }  # fmt: skip
    other = json.loads(json.dumps(facts))
    other["cann"]["version"], other["packages"]["six"], other["env"]["HCCL_BUFFSIZE"] = "8.0.RC1", "1.1", "400"
    for name, row in (("1.json", facts), ("2.json", other)):
        (tmp_path / name).write_text(json.dumps({"schema": "doctor.report/1", "command": "collect", "facts": row}))
    _, report = compared(capsys, tmp_path / "1.json", tmp_path / "2.json")
    assert [key for key in keys(report) if "-" not in key] == ["cann", "variable.HCCL_BUFFSIZE", "package.six"]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_text_fits_a_screen_and_80_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str], lang: str) -> None:
    a = make_run(tmp_path / "a")
    b = make_run(tmp_path / "b", bad=30, level="O2", rate="7.0e-3", batch=4, mindspore="2.7.2", scale=3.0)
    main(["compare", "--lang", lang, str(a), str(b)])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 40
    assert [line for line in lines if cell_width(line) > 80 and str(tmp_path) not in line] == []
    assert ("Next:" if lang == "en" else "下一步：") in " ".join(lines[-3:])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "no such file"),
        (lambda path: path.mkdir(), "no log files"),
        (lambda path: path.write_bytes(bytes(range(256)) * 64), "neither steps nor errors"),
        (lambda path: path.write_bytes(b""), "neither steps nor errors"),
        (
            lambda path: path.write_text('{"schema": "x", "command": "collect", "facts": {"host": {}}}'),
            "cannot be compared",
        ),
    ],
)
def test_bad_input_is_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], make: Any, said: str) -> None:
    other = tmp_path / "other"
    make(other)
    assert main(["compare", "--lang", "en", str(make_run(tmp_path / "a")), str(other)]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1 and said in captured.err


def test_real_logs_of_mindformers(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs of MindFormers 1.8 on the CPU whose settings are known: lr 1e6, FP16, another number of layers."""
    logs = shared / "logs" / "mindformers-on-cpu"
    code, report = compared(capsys, logs / "mf18_healthy.log", logs / "mf18_lr1e6_nan.log")
    assert code == 1 and keys(report)[0] == "schedule.learning_rate"
    assert report["facts"]["rows"][0]["place_a"].endswith("mf18_healthy.log:170")
    code, report = compared(capsys, logs / "mf18_healthy.log", logs / "mf18_fp16_overflow.log")
    assert "precision.compute" in keys(report)[:2]
    code, report = compared(capsys, logs / "mf18_load_ok.log", logs / "mf18_load_missing_keys.log")
    assert code == 0 and keys(report)[0] == "model.num_layers"
    assert [finding["rule"] for finding in report["findings"]] == ["LOG-MS-031"]
    code, report = compared(capsys, logs / "mf18_healthy.log", logs / "mf18_killed9.log")
    assert code == 0 and "last_step" in keys(report) and "failure" in report["facts"]["outcome"]
