"""Completion scripts: made from the parsers, loaded by the shells that are there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from doctor.cli import COMMANDS
from doctor.commands.completion import bash, commands, fish, zsh


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["doctor", "ch"], {"check"}),
        (["doctor", ""], set(COMMANDS)),
        (["doctor", "check", "--fo"], {"--format"}),
        (["doctor", "check", "--format", ""], {"text", "json", "sarif", "github"}),
        (["doctor", "watch", "--format", "j"], {"jsonl"}),
        (["doctor", "completion", "b"], {"bash"}),
        (["doctor", "check", "conf"], {"config.yaml"}),
        (["doctor", "nothing", "--x"], set()),
    ],
)
def test_bash_offers(tmp_path: Path, typed: list[str], offered: set[str]) -> None:
    (tmp_path / "config.yaml").touch()
    script = bash(commands("en")) + (
        'COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); COMPREPLY=(); _doctor; printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "-c", script, "bash", *typed], capture_output=True, text=True, check=True, cwd=tmp_path, timeout=20
    )
    assert not done.stderr
    assert set(done.stdout.split()) == offered


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_command_and_option_is_in_every_script(lang: str) -> None:
    found = commands(lang)
    assert [command.name for command in found] == list(COMMANDS)
    for make in (bash, zsh, fish):
        script = make(found)
        for command in found:
            assert command.name in script
            for option in command.options:
                assert all(name.lstrip("-") in script for name in option.names)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_read_it(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    script = tmp_path / "script"
    script.write_text({"zsh": zsh, "fish": fish}[shell](commands("zh")))
    subprocess.run([shell, "-n", str(script)], check=True, timeout=20)
