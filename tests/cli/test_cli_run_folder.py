"""The folder of a run of `doctor train` as a target of check and watch: its config, its logs, and how it goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from doctor.commands.folders import is_run, resume_command
from tests.conftest import Run
from tests.match.packs import rule

CONFIG = """model: {type: llama, hidden_size: 32, num_hidden_layers: 1, num_attention_heads: 2, vocab_size: 64}
train_dataset: {data_loader: {type: Generated}, max_length: 16}
training_args: {max_steps: 400, warmup_steps: 20, learning_rate: 1.0e-3, save_steps: 100}
"""


def run_folder(root: Path, state: str, losses: list[Any], ranks: int = 1) -> Path:
    """What the trainer leaves of a run, without its checkpoints."""
    (root / "metrics").mkdir(parents=True)
    (root / "log").mkdir()
    (root / "config.yaml").write_text(CONFIG)
    for name in ("findings.jsonl", "interventions.jsonl"):
        (root / name).touch()
    for rank in range(ranks):
        rows = [
            {
                "event": "metric",
                "source": f"log/rank_{rank}.log",
                "line": step,
                "rank": rank,
                "step": step,
                "global_step": step,
                "steps": 400,
                "epochs": 1,
                "loss": loss,
                "lr": 1e-3 * min(1.0, (step - 1) / 20),
                "grad_norm": 1.0,
            }
            for step, loss in enumerate(losses, 1)
        ]
        (root / f"metrics/rank_{rank}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    end = {"state": state, "exit_code": 143 if state == "interrupted" else 0, "last_step": len(losses)}
    (root / "end.json").write_text(json.dumps(end))
    return root


SOUND = [4.0 - 0.02 * step for step in range(40)]


@pytest.mark.parametrize("command", ["check", "watch"])
@pytest.mark.parametrize(("ranks", "more"), [(1, ""), (2, " --workers 2")])
def test_a_run_that_was_stopped_is_told_how_it_goes_on(
    command: str,
    ranks: int,
    more: str,
    doctor: Any,
    tmp_path: Path,
) -> None:
    run = run_folder(tmp_path / "out", "interrupted", SOUND, ranks)
    words = ["watch", "--once", "--plain"] if command == "watch" else ["check"]
    done = doctor(*words, str(run), "--lang", "en")
    assert done.returncode == 0, done.stdout
    expected = f"Next: doctor train {run}/config.yaml --output-dir {run} --resume{more}"
    assert done.stdout.splitlines()[-1].endswith(expected)


def test_check_judges_config_and_logs_and_takes_no_book_of_a_run_for_data(doctor: Any, tmp_path: Path) -> None:
    run = run_folder(tmp_path / "out", "ended", SOUND)
    done = doctor("check", str(run), "--format", "json")
    report = json.loads(done.stdout)
    assert report["verdict"] == "ok", report["findings"]
    assert report["facts"]["targets"][str(run)]["run"]["state"] == "ended"
    broken = run_folder(tmp_path / "bad", "ended", [*SOUND, "nan", "nan", "nan"])
    done = doctor("check", str(broken), "--format", "json")
    assert done.returncode == 1
    assert "RUN-NAN-001" in [finding["rule"] for finding in json.loads(done.stdout)["findings"]]
    only = doctor("check", str(broken), "--only", "CFG", "--format", "json")
    assert json.loads(only.stdout)["findings"] == []


def test_other_folders_are_no_runs(tmp_path: Path) -> None:
    assert not is_run(tmp_path)
    (tmp_path / "config.yaml").write_text(CONFIG)
    assert not is_run(tmp_path)
    (tmp_path / "end.json").write_text("{")
    assert is_run(tmp_path)
    assert resume_command(tmp_path / "a b").startswith(f"doctor train '{tmp_path}/a b'/config.yaml")


def test_own_rules_of_the_settings_judge_a_run_folder(doctor: Run, tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "log").mkdir(parents=True)
    (run / "log" / "rank_0.log").write_text("our storage says: quota of team seven is used up\n")
    (run / "config.yaml").write_text("model: {type: llama}\n")
    (run / "end.json").write_text('{"state": "failed", "exit_code": 1, "last_step": 3}')
    (tmp_path / "own").mkdir()
    row = rule(1, match={"line": ["quota of team seven"]}, category="disk-io")
    (tmp_path / "own" / "quota.yaml").write_text(yaml.safe_dump(row), encoding="utf-8")
    (tmp_path / "doctor.toml").write_text('rules = ["own"]\n', encoding="utf-8")
    said = json.loads(doctor("check", "run", "--format", "json").stdout)
    assert "LOG-TST-001" in [finding["rule"] for finding in said["findings"]]
