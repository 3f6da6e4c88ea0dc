"""The command line itself: help, misuse, settings, languages. The commands have tests of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from doctor.cli import COMMANDS, main


def test_help_lists_every_command_and_each_has_its_own_help(doctor) -> None:  # type: ignore[no-untyped-def]
    top = doctor("--help")
    assert top.returncode == 0 and not top.stderr
    for name in COMMANDS:
        assert f"  {name} " in top.stdout
        own = doctor(name, "--help")
        assert own.returncode == 0, own.stderr
        assert "--lang" in own.stdout and own.stdout.startswith(f"usage: doctor {name}")


def test_no_terminal_and_no_command_is_the_help(doctor) -> None:  # type: ignore[no-untyped-def]
    done = doctor()
    assert done.returncode == 0 and "commands:" in done.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["chekc"], "Did you mean: doctor check"),
        (["check", "--devices", "many"], "many"),
        (["check", "--devices", "0"], "not a number of devices"),
        (["check", "--format", "xml"], "xml"),
        (["check", "--device-memory", "lots"], "not a size such as 64GB"),
        (["check", "no/such/file.yaml"], "there is no such file"),
        (["check", "--config", "absent.toml"], "absent.toml"),
    ],
)
def test_misuse_is_one_line_on_stderr_and_exit_2(doctor, words: list[str], says: str) -> None:  # type: ignore[no-untyped-def]
    done = doctor(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1 and says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_in_place_of_a_command_says_what_to_type(doctor, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "a.yaml").write_text("a: 1\n")
    assert "doctor check a.yaml" in doctor("a.yaml").stderr


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ("[doctor]\nlang = 'fr'\n", "lang must be en | zh"),
        ("[doctor]\nignore = 'CFG'\n", "ignore must be a list of strings"),
        ("[doctor]\nignroe = []\n", "one of the known keys"),
        ("doctor = 3\n", "must be a table"),
        ("ignroe = []\n", "one of the known keys"),
        ("[check]\nignore = ['CFG']\n", "check must be one of the known keys"),
        ("[doctor\n", "not TOML"),
    ],
)
def test_a_wrong_settings_file_names_its_key(doctor, tmp_path: Path, toml: str, says: str) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "doctor.toml").write_text(toml)
    done = doctor("check")
    assert done.returncode == 2 and says in done.stderr


@pytest.mark.parametrize("head", ["", "[doctor]\n"])
def test_settings_with_and_without_their_table(doctor, tmp_path: Path, head: str) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "doctor.toml").write_text(f'{head}lang = "zh"\n')
    shown = doctor("rules", "RUN-NAN-001").stdout
    assert shown == doctor("rules", "RUN-NAN-001", "--lang", "zh").stdout and "损失" in shown


def test_chinese_by_option_and_by_locale(doctor, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    assert "退出码" in doctor("--help", "--lang", "zh").stdout
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    assert "退出码" in doctor("--help").stdout
    assert "没有命令" in doctor("chekc").stderr


def test_the_language_may_stand_before_the_command(doctor) -> None:  # type: ignore[no-untyped-def]
    behind = doctor("rules", "RUN-NAN-001", "--lang", "zh")
    for lead in (["--lang", "zh"], ["--lang=zh"]):
        before = doctor(*lead, "rules", "RUN-NAN-001")
        assert (before.returncode, before.stdout) == (0, behind.stdout) and before.stdout
    assert doctor("--lang", "fr", "rules").returncode == 2


def test_the_titles_of_the_help_have_the_colon_of_their_language(doctor) -> None:  # type: ignore[no-untyped-def]
    for words in (["--help"], ["check", "--help"]):
        chinese = doctor(*words, "--lang", "zh").stdout
        assert "选项：\n" in chinese and not any(line.endswith(":") for line in chinese.splitlines())
        assert "options:\n" in doctor(*words, "--lang", "en").stdout


@pytest.mark.parametrize("words", [[], ["--lang", "zh"], ["--lang=zh"]])
def test_a_terminal_and_no_command_opens_the_screens(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    opened: list[str] = []
    monkeypatch.setenv("TEXTUAL_DRIVER", "a.browser:Driver")
    monkeypatch.setenv("DOCTOR_LANG", "en")
    monkeypatch.setattr("doctor.cli._home", lambda lang: opened.append(lang) or 0)
    assert main(words) == 0
    assert opened == ["zh" if words else "en"]


def test_a_locale_that_cannot_show_chinese_does_not_raise(doctor, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    done = doctor("--help", "--lang", "zh")
    assert done.returncode == 0 and "\\u" in done.stdout


@pytest.mark.parametrize("command", ["--help", "check --help", "explain --help", "watch --help"])
def test_help_imports_nothing_heavy(command: str) -> None:
    code = (
        "import sys, io, contextlib\nfrom doctor.cli import main\n"
        f"with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n    main({command.split()!r})\n"
        "heavy = {'textual', 'rich', 'numpy', 'yaml', 'mindspore', 'psutil', 'hyperscan'} & set(sys.modules)\n"
        "print(sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_and_a_closed_stdout_are_no_bugs_of_ours() -> None:
    command = f"{sys.executable} -m doctor rules CFG-PAR-001"
    full = subprocess.run(["/bin/sh", "-c", f"{command} > /dev/full"], capture_output=True, text=True, check=False)
    assert full.returncode == 2 and full.stderr == "doctor: cannot write: No space left on device.\n"
    closed = subprocess.run(["/bin/sh", "-c", f"{command} >&-"], capture_output=True, text=True, check=False)
    assert closed.returncode == 0 and closed.stderr == ""


def test_a_machine_of_which_nothing_is_known_is_to_be_asked(doctor, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "host.json").write_text('{"host": {}}')
    done = doctor("check", "--host", str(tmp_path / "host.json"), "--lang", "en")
    assert done.stdout.splitlines()[-1].endswith("Next: doctor collect > host.json")


def test_the_next_command_sees_what_this_one_saw(doctor, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    config = tmp_path / "my run.yaml"
    config.write_text((Path(__file__).parents[1] / "benchmarks" / "llama2_7b.yaml").read_text())
    done = doctor("check", str(config), "--devices", "16", "--lang", "en")
    assert done.stdout.splitlines()[-1].endswith(f"Next: doctor check '{config}' --devices 16 --fix --unsafe-fixes")


def test_a_note_does_not_send_anyone_to_fix_a_config(doctor, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """A loss scale beside bfloat16 only costs a check a step; the verdict is OK, and the next thing is not to edit."""
    config = tmp_path / "run.yaml"
    config.write_text(
        "model: {type: llama, hidden_size: 64, num_hidden_layers: 1, num_attention_heads: 2, vocab_size: 64}\n"
        "train_dataset: {data_loader: {type: Generated}, max_length: 16}\n"
        "training_args: {max_steps: 400, learning_rate: 3.0e-4, compute_dtype: bfloat16, mixed_precision: O2,\n"
        "  warmup_steps: 20, loss_scale: {type: dynamic, loss_scale_value: 65536}}\n",
        encoding="utf-8",
    )
    done = doctor("check", str(config), "--lang", "en")
    assert done.returncode == 0, done.stdout
    assert "info" in done.stdout
    last = done.stdout.splitlines()[-1]
    assert last.startswith("OK")
    assert "--fix" not in last
