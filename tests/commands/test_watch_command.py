"""``doctor watch`` as scripts and people use it: real files, real processes, exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from doctor.cli import main

_STEP = (
    "2026-03-01 10:00:{s:02d},000 - mindformers/log[mindformers/core/callback/callback.py:616] - INFO - "
    "{{ Epoch:[  1/  1], step:[{step:5d}/{total:5d}], loss:[{loss}/{loss}], per_step_time: 120ms, lr: 0.001, "
    "overflow cond: False, loss_scale: 1.0, global_norm: [{norm}], train_throughput_per_npu: 0.020T\n"
)
OVER = "2026-03-01 10:00:59,000 - mindformers/log[mindformers/trainer/base_trainer.py:1557] - INFO - ....Training Over!...\n"


def step(number: int, total: int = 64, loss: object = None, norm: float = 0.7) -> str:
    value = f"{2 + 4.2 / (1 + number / 12) + (number * 37 % 11) / 500:.6f}" if loss is None else loss
    return _STEP.format(s=number % 60, step=number, total=total, loss=value, norm=norm)


def healthy(steps: int = 64, total: int = 64) -> str:
    text = "".join(step(number, total) for number in range(1, steps + 1))
    return text + (OVER if steps == total else "")


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def doctor(*words: str) -> list[str]:
    return [sys.executable, "-m", "doctor", *words]


def test_a_healthy_log_is_ok(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "train.log"
    log.write_text(healthy())
    assert main(["watch", "--once", "--lang", "en", str(log)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("1 log, 65 lines; step 64 of 64")
    assert out[-1] == "OK."


def test_jsonl_has_metrics_findings_and_an_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "train.log"
    log.write_text(healthy(40) + "".join(step(number, loss="nan") for number in range(41, 65)) + OVER)
    assert main(["watch", "--once", "--format", "jsonl", "--metrics", "--lang", "en", str(log)]) == 1
    rows = events(capsys.readouterr().out)
    metrics = [row for row in rows if row["event"] == "metric"]
    assert [row["step"] for row in metrics] == list(range(1, 65))
    assert metrics[0]["loss"] == pytest.approx(5.884923)
    assert metrics[50]["loss"] == "nan"
    opened = next(row["finding"] for row in rows if row["event"] == "opened")
    assert (opened["rule"], opened["name"], opened["severity"]) == ("RUN-NAN-001", "loss-not-finite", "error")
    assert opened["evidence"][0]["step"] == 41
    assert opened["evidence"][0]["line"] == 41
    assert rows[-1] == {"event": "end", "verdict": "error", "lines": 65, "bytes": log.stat().st_size}


def test_equal_input_gives_equal_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "train.log"
    log.write_text(healthy(30) + step(31, loss="nan") * 4)
    outputs = []
    for _ in range(2):
        main(["watch", "--once", "--format", "jsonl", str(log)])
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize(("level", "code"), [("error", 0), ("warning", 1), ("never", 0)])
def test_fail_on_decides_the_exit_code(level: str, code: int, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(healthy(20, total=1280))  # ended early: a warning
    assert main(["watch", "--once", "--fail-on", level, str(log)]) == code


def test_a_log_that_ends_early_says_at_which_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "train.log"
    log.write_text(healthy(20, total=64))
    main(["watch", "--once", "--lang", "en", str(log)])
    assert "RUN-END-001 The log stops at step 20 of 64" in capsys.readouterr().out


def test_a_log_that_is_still_written_has_not_ended_early(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "train.log"
    log.write_text(healthy(20, total=64))
    hold = "import sys, time; file = open(sys.argv[1], 'a'); print('open', flush=True); time.sleep(60)"
    writer = subprocess.Popen([sys.executable, "-c", hold, str(log)], stdout=subprocess.PIPE)
    try:
        assert writer.stdout is not None
        writer.stdout.readline()
        assert main(["watch", "--once", "--fail-on", "warning", str(log)]) == 0
    finally:
        writer.kill()
        writer.communicate()
    assert "RUN-END-001" not in capsys.readouterr().out


def test_an_end_record_of_the_trainer_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "rank_0.log").write_text(healthy(20, total=64))
    (tmp_path / "end.json").write_text(json.dumps({"state": "interrupted", "exit_code": 130, "last_step": 20}))
    assert main(["watch", "--once", "--fail-on", "warning", str(tmp_path)]) == 0


def test_both_languages_say_the_same_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "train.log"
    log.write_text(healthy(30) + step(31, loss="inf") * 4)
    main(["watch", "--once", "--lang", "zh", str(log)])
    out = capsys.readouterr().out
    assert "第 31 步起损失为 inf" in out
    assert "The loss is" not in out


@pytest.mark.parametrize("name", ["absent.log", "absent/*.log"])
def test_a_path_that_is_not_there_is_a_usage_error(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", "--once", str(tmp_path / name)]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert name.split("/")[0] in error


def test_bad_input_gives_no_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "odd.log"
    log.write_bytes(
        healthy(40).encode() + os.urandom(70_000) + b"\n" + b"x" * 3_000_000 + b"\n" + "损失: 不是数\n".encode("gbk")
    )
    assert main(["watch", "--once", "--lang", "en", str(log)]) in (0, 1)
    assert "Traceback" not in "".join(capsys.readouterr())


def test_control_characters_of_a_log_do_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "train.log"
    log.write_text(healthy(30) + "\x1b[31mRuntimeError: zork\x07\x1b]0;owned\x07 step: 31, loss is nan\n" * 4)
    main(["watch", "--once", "--lang", "en", "--color", "never", str(log)])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\x07" not in out


def test_no_permission_on_one_of_many_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in range(3):
        (tmp_path / f"worker_{rank}.log").write_text(healthy())
    (tmp_path / "worker_1.log").chmod(0)
    if os.access(tmp_path / "worker_1.log", os.R_OK):
        pytest.skip("root reads everything")
    assert main(["watch", "--once", "--lang", "en", str(tmp_path)]) == 0
    assert "worker_1.log: not read" in capsys.readouterr().out


@pytest.mark.parametrize("options", [["--once"], ["--plain"], ["--once", "--format", "jsonl"]])
def test_a_folder_below_that_cannot_be_listed_is_said(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "worker_0.log").write_text(healthy())
    closed = tmp_path / "node_1"
    closed.mkdir()
    scandir = os.scandir

    def guarded(path: Any = ".") -> Any:  # root may list everything
        if str(path) == str(closed):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    assert main(["watch", *options, "--lang", "en", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert (said.err if "jsonl" in options else said.out + said.err).count(f"{closed}/: not read") >= 1
    assert "Permission denied" in said.out + said.err


def test_standard_input_is_followed_to_its_end() -> None:
    text = healthy(40) + step(41, loss="nan") * 3
    done = subprocess.run(
        doctor("watch", "-", "--format", "jsonl"), input=text.encode(), capture_output=True, timeout=60
    )
    rows = events(done.stdout.decode())
    assert next(row["finding"]["rule"] for row in rows if row["event"] == "opened") == "RUN-NAN-001"
    assert rows[-1]["verdict"] == "error"
    assert done.returncode == 1


def test_live_says_it_while_the_log_grows_and_stops_when_the_run_ends(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("")
    watch = subprocess.Popen(doctor("watch", str(tmp_path), "--format", "jsonl"), stdout=subprocess.PIPE)
    assert watch.stdout is not None
    with log.open("a") as out:
        out.write(healthy(40))
        out.flush()
        out.write(step(41, loss="nan") * 2)
        out.flush()
        first = json.loads(watch.stdout.readline())
        assert (first["event"], first["finding"]["rule"]) == ("opened", "RUN-NAN-001")
        out.write("".join(step(number, loss="nan") for number in range(42, 65)) + OVER)
    rest, _ = watch.communicate(timeout=60)
    assert events(rest.decode())[-1]["event"] == "end"
    assert watch.returncode == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_watch_ends_cleanly(number: signal.Signals, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(healthy(20, total=64))
    with log.open("a"):  # someone still writes: this test
        errors = tmp_path / "errors.txt"
        with errors.open("wb") as talk:
            watch = subprocess.Popen(
                doctor("watch", str(log), "--format", "jsonl", "--metrics"), stdout=subprocess.PIPE, stderr=talk
            )
        assert watch.stdout is not None
        for _ in range(20):
            watch.stdout.readline()
        watch.send_signal(number)
        rest = watch.stdout.read()
        watch.wait(60)
        watch.stdout.close()
    assert events(rest.decode())[-1] == {"event": "end", "verdict": "ok", "lines": 20, "bytes": log.stat().st_size}
    assert watch.returncode == 130
    assert errors.read_bytes() == b""


def test_a_state_is_gone_on_from(tmp_path: Path) -> None:
    log, state = tmp_path / "train.log", tmp_path / "state.json"
    log.write_text(healthy(30) + step(31, loss="nan") * 3 + step(32) * 5)
    command = doctor("watch", str(log), "--format", "jsonl", "--metrics", "--state", str(state))

    def watch_until(steps: int) -> list[dict[str, Any]]:
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        rows = []
        while sum(row["event"] == "metric" for row in rows) < steps:
            rows.append(json.loads(process.stdout.readline()))
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
        return rows + events(rest.decode())

    with log.open("a") as out:
        first = watch_until(38)
        assert state.exists()
        out.write(step(33) + step(34))
        out.flush()
        second = watch_until(2)
    assert any(row["event"] == "opened" for row in first)
    assert [row["step"] for row in second if row["event"] == "metric"] == [33, 34]
    assert not any(row["event"] == "opened" for row in second)


def test_a_state_that_cannot_be_saved_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "train.log"
    log.write_text(healthy())
    monkeypatch.setattr("doctor.commands.watch.SAVE_EVERY", 0.0)
    assert main(["watch", "--plain", "--lang", "en", "--state", str(tmp_path / "absent" / "state"), str(log)]) == 0
    assert capsys.readouterr().err.count("the state could not be saved") == 1


def test_notify_runs_the_command_with_the_finding(tmp_path: Path) -> None:
    log, told = tmp_path / "train.log", tmp_path / "told.json"
    log.write_text(healthy(30) + step(31, loss="nan") * 3)
    script = tmp_path / "tell.py"
    script.write_text("import sys; open(sys.argv[1], 'w').write(sys.stdin.read() + '|' + sys.argv[2])")
    main(["watch", "--once", "--lang", "en", "--notify", f"{sys.executable} {script} {told}", str(log)])
    row, rule = told.read_text().split("|")
    assert json.loads(row)["name"] == "loss-not-finite"
    assert rule == "RUN-NAN-001"


def test_notify_that_cannot_start_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "train.log"
    log.write_text(healthy(30) + step(31, loss="nan") * 3)
    assert main(["watch", "--once", "--notify", str(tmp_path / "absent"), str(log)]) == 1
    assert "--notify" in capsys.readouterr().err


def test_own_output_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(healthy())
    with (tmp_path / "out.log").open("wb") as out:
        done = subprocess.run(
            doctor("watch", "--once", "--format", "jsonl", "--metrics", str(tmp_path)), stdout=out, timeout=60
        )
    assert done.returncode == 0
    rows = events((tmp_path / "out.log").read_text())
    assert rows[-1]["lines"] == 65


@pytest.mark.parametrize("form", ["text", "jsonl"])
def test_a_log_without_a_line_is_neither_good_nor_bad(doctor: Any, tmp_path: Path, form: str) -> None:
    (tmp_path / "worker_0.log").write_bytes(b"")
    done = doctor("watch", "--once", "--format", form, "worker_0.log")
    assert done.returncode == 2
    assert ("Unknown" if form == "text" else '"verdict": "unknown"') in done.stdout.splitlines()[-1]


def test_a_file_that_is_no_log_is_not_ok(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "model.ckpt"
    log.write_bytes(bytes(number * 37 % 251 for number in range(20_000)))
    assert main(["watch", "--once", "--lang", "en", str(log)]) == 2
    out = " ".join(capsys.readouterr().out.split())
    assert out == f"0 logs, 0 lines. {log}: not read (binary data, not a log) Unknown."


@pytest.mark.parametrize(
    ("setting", "of"),
    [("max_steps: 40", 40), ("total_steps: 40", 40), ("max_steps: -1", 128), ("max_steps: null", 128)],
)
def test_a_run_that_ends_within_an_epoch_is_counted_to_its_own_last_step(
    setting: str, of: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run of 40 steps whose epochs have 64: its lines announce 128."""
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "rank_0.log").write_text(healthy(40).replace("[  1/  1]", "[  1/  2]"))
    (tmp_path / "config.yaml").write_text(f"training_args:\n  {setting}\n  learning_rate: 0.001\n")
    main(["watch", "--once", "--lang", "en", str(tmp_path)])
    out = capsys.readouterr().out
    assert f"step 40 of {of}" in out
    assert ("ended early" in out or "step 40 of the 128" in out or "RUN-END" in out) == (of == 128)
