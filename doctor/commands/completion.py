"""`doctor completion bash|zsh|fish`: a script that completes commands, options and their choices, made from the parsers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import NamedTuple

from doctor.errors import EXIT_OK
from doctor.finding import Text
from doctor.language import Help

SHELLS = ("bash", "zsh", "fish")
FORMATS = ("text",)
DESCRIPTION = Text(
    "Prints a script that completes commands, options and their choices in a shell. It calls nothing while completing.",
    "输出 shell 补全脚本，可补全命令、选项及其取值；补全时不会调用任何程序。",
)
EPILOG = Text(
    "examples:\n  doctor completion bash > ~/.local/share/bash-completion/completions/doctor\n"
    '  doctor completion zsh > "${fpath[1]}/_doctor"\n'
    "  doctor completion fish > ~/.config/fish/completions/doctor.fish\n"
    "  source <(doctor completion bash)      for this shell only",
    "示例：\n  doctor completion bash > ~/.local/share/bash-completion/completions/doctor\n"
    '  doctor completion zsh > "${fpath[1]}/_doctor"\n'
    "  doctor completion fish > ~/.config/fish/completions/doctor.fish\n"
    "  source <(doctor completion bash)      仅对当前 shell 生效",
)


class Option(NamedTuple):
    """`names` as typed; `takes` says that a value follows, one of `choices` if there are any, else a path."""

    names: tuple[str, ...]
    takes: bool
    choices: tuple[str, ...]
    help: str


class Command(NamedTuple):
    name: str
    help: str
    options: tuple[Option, ...]
    #: words that may stand without an option; empty: paths
    words: tuple[str, ...]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=Help("bash, zsh or fish", "bash、zsh 或 fish"))


def run(args: argparse.Namespace) -> int:
    sys.stdout.write({"bash": bash, "zsh": zsh, "fish": fish}[args.shell](commands(args.lang)))
    return EXIT_OK


def commands(lang: str) -> tuple[Command, ...]:
    """All commands as the command line knows them."""
    from doctor.cli import COMMANDS, command_parser

    return tuple(_command(name, text.pick(lang), command_parser(name, lang)) for name, text in COMMANDS.items())


def _command(name: str, told: str, parser: argparse.ArgumentParser) -> Command:
    options: list[Option] = []
    words: list[str] = []
    for action in parser._actions:
        choices = tuple(str(choice) for choice in action.choices or ())
        if action.option_strings and action.help != argparse.SUPPRESS:
            takes = action.nargs != 0
            options.append(Option(tuple(action.option_strings), takes, choices, str(action.help or "")))
        else:
            words.extend(choices)
    return Command(name, told, tuple(options), tuple(words))


def bash(found: tuple[Command, ...]) -> str:
    """For bash 3.2 and later; paths where no word is known."""
    cases = []
    for command in found:
        names = " ".join(name for option in command.options for name in option.names)
        cases.append(f"    {command.name}) options={_quoted(names)} words={_quoted(' '.join(command.words))} ;;")
    values: dict[tuple[str, ...], list[str]] = {}
    for name, choices in _values(found):
        values.setdefault(choices, []).append(name)
    chosen = [f"    {'|'.join(names)}) values={_quoted(' '.join(choices))} ;;" for choices, names in values.items()]
    every = _quoted(" ".join(command.name for command in found))
    return "\n".join(
        [
            "# doctor completion bash",
            "_doctor() {",
            '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" values="" options="" words=""',
            '  if [ "$COMP_CWORD" -eq 1 ]; then',
            f'    COMPREPLY=($(compgen -W {every} -- "$word")); return',
            "  fi",
            '  case "${COMP_WORDS[1]}:$before" in',
            *chosen,
            "  esac",
            '  if [ -n "$values" ]; then',
            '    COMPREPLY=($(compgen -W "$values" -- "$word")); return',
            "  fi",
            '  case "${COMP_WORDS[1]}" in',
            *cases,
            "  esac",
            '  case "$word" in',
            '    -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;',
            '    *) COMPREPLY=($(compgen -W "$words" -- "$word") $(compgen -f -- "$word")) ;;',
            "  esac",
            "}",
            "complete -o filenames -F _doctor doctor",
            "",
        ]
    )


def _values(found: tuple[Command, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Patterns `command:option` with the choices of the option."""
    for command in found:
        for option in command.options:
            if option.choices:
                for name in option.names:
                    yield f"{command.name}:{name}", option.choices


def zsh(found: tuple[Command, ...]) -> str:
    """For the completion system of zsh 5."""
    lines = ["#compdef doctor", "", "_doctor() {", "  local -a commands", "  commands=("]
    lines += [f"    {_quoted(command.name + ':' + command.help.replace(':', ' '))}" for command in found]
    lines += ["  )", "  if (( CURRENT == 2 )); then", "    _describe 'command' commands", "    return", "  fi"]
    lines.append('  case "$words[2]" in')
    for command in found:
        lines.append(f"    {command.name})")
        specs = [_quoted(spec) for option in command.options for spec in _zsh_specs(option)]
        rest = f"*:word:({' '.join(command.words)})" if command.words else "*:path:_files"
        lines.append("      shift words; (( CURRENT-- ))")
        lines.append("      _arguments " + " ".join([*specs, _quoted(rest)]) + " ;;")
    return "\n".join([*lines, "  esac", "}", "", '_doctor "$@"', ""])


def _zsh_specs(option: Option) -> Iterator[str]:
    told = option.help.replace("[", "(").replace("]", ")").replace(":", " ")
    value = ""
    if option.takes:
        value = f":value:({' '.join(option.choices)})" if option.choices else ":value:_files"
    for name in option.names:
        yield f"{name}[{told}]{value}"


def fish(found: tuple[Command, ...]) -> str:
    """For fish 3."""
    lines = ["# doctor completion fish"]
    for command in found:
        told = f"-d {_quoted(command.help)}"
        lines.append(f"complete -c doctor -f -n __fish_use_subcommand -a {command.name} {told}")
    for command in found:
        seen = f"-n '__fish_seen_subcommand_from {command.name}'"
        if command.words:
            lines.append(f"complete -c doctor -f {seen} -a {_quoted(' '.join(command.words))}")
        for option in command.options:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            value = ""
            if option.takes:
                value = f" -x -a {_quoted(' '.join(option.choices))}" if option.choices else " -r"
            lines.append(f"complete -c doctor {seen} {names}{value} -d {_quoted(option.help)}")
    return "\n".join([*lines, ""])


def _quoted(text: str) -> str:
    """In single quotes, for all three shells (fish knows \\' within them, the others close and open again)."""
    return "'" + text.replace("'", "’") + "'"
