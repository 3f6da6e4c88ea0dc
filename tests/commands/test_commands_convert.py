"""`doctor convert` as a user runs it: dry run, result, exit codes, bad input."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from doctor.commands.convert import _ended_by_signal
from doctor.formats.write import Atomic

REFERENCE = Path(__file__).resolve().parents[1] / "formats" / "reference"
Run = Callable[..., Any]


def test_a_dry_run_shows_the_mapping_and_writes_nothing(doctor: Run, tmp_path: Path) -> None:
    done = doctor("convert", str(REFERENCE / "qwen3"), "out.safetensors", "--dry-run")
    assert done.returncode == 0 and "dry run: nothing was written" in done.stdout
    assert "qkv-grouped" in done.stdout and not (tmp_path / "out.safetensors").exists()
    done = doctor("convert", str(REFERENCE / "qwen3"), "out.safetensors", "--dry-run", "--format", "json")
    facts = json.loads(done.stdout)["facts"]
    assert facts["written"] is False and facts["family"] == "qwen3" and facts["to"] == "mcore"
    fused = next(row for row in facts["rows"] if row["operation"] == "qkv-grouped")
    assert fused["target"] == ["decoder.layers.{i}.self_attention.linear_qkv.weight"] and fused["count"] == 2


def test_there_and_back_and_a_look_at_the_keys(doctor: Run, tmp_path: Path) -> None:
    done = doctor("convert", str(REFERENCE / "llama"), "llama.ckpt")
    assert done.returncode == 0 and "30 keys, the first: model.tok_embeddings.embedding_weight" in done.stdout
    assert done.stdout.rstrip().endswith("doctor check llama.ckpt")
    shutil.copy(REFERENCE / "llama/config.json", tmp_path)
    assert doctor("convert", "llama.ckpt", "back", "--to", "huggingface").returncode == 0
    assert (tmp_path / "back/model.safetensors").is_file()
    assert doctor("check", "back").returncode == 0


def test_a_folder_takes_config_and_tokenizer_along(doctor: Run, tmp_path: Path) -> None:
    shutil.copytree(REFERENCE / "llama", tmp_path / "src")
    (tmp_path / "src/tokenizer.json").write_text("{}")
    assert doctor("convert", "src", "dst").returncode == 0
    assert (tmp_path / "dst/config.json").is_file() and (tmp_path / "dst/tokenizer.json").is_file()


def test_bad_input_is_one_line_and_exit_2(doctor: Run, tmp_path: Path) -> None:
    (tmp_path / "junk.safetensors").write_bytes(b"nothing of the kind")
    (tmp_path / "there.ckpt").write_bytes(b"mine")
    llama = str(REFERENCE / "llama")
    for words in (
        ("missing.ckpt", "out.ckpt"),
        ("junk.safetensors", "out.ckpt"),
        (llama, "there.ckpt"),
        (llama, "out.ckpt", "--form", "safetensors"),
        (llama, "out.ckpt", "--variant", "sideways"),
        (str(REFERENCE / "bloom"), "out.ckpt", "--to", "mcore"),
        (str(REFERENCE / "llama/model.safetensors"), "out.ckpt", "--model-config", "none.json"),
    ):
        done = doctor("convert", *words)
        assert done.returncode == 2 and not done.stdout and done.stderr.count("\n") == 1, (words, done.stderr)
        assert "Traceback" not in done.stderr
    assert (tmp_path / "there.ckpt").read_bytes() == b"mine"


def test_chinese(doctor: Run) -> None:
    done = doctor("convert", str(REFERENCE / "gpt2"), "out.ckpt", "--lang", "zh")
    assert "已写入" in done.stdout


def test_a_polite_kill_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended, _ended_by_signal(), Atomic(tmp_path / "out.ckpt") as output:
        output.file.write(b"half")
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("not reached")
    assert ended.value.code == 143
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
