"""`doctor rules`: lists the rules, shows one, or checks a pack of rule files."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from doctor.errors import EXIT_FINDINGS, EXIT_OK, UsageError
from doctor.escape import visible
from doctor.finding import CATEGORIES, Text
from doctor.language import language


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="ID | check PATH", help="a rule id or name; or: check PATH…")


def run(args: argparse.Namespace) -> int:
    words: list[str] = list(args.words)
    lang = language(getattr(args, "lang", None))
    if words[:1] == ["check"]:
        if len(words) < 2:
            raise UsageError(
                Text("doctor rules check needs a path.", "doctor rules check 需要一个路径。"),
                Text("For example: doctor rules check rules/hccl", "例如：doctor rules check rules/hccl"),
            )
        return _check([Path(word) for word in words[1:]], lang)
    return _list(words, lang)


def _check(paths: list[Path], lang: str) -> int:
    from doctor.match.pack import load_pack
    from doctor.match.validate import check_pack, unknown_consequences

    files, faults = [], []
    for path in paths:
        if not path.exists():
            raise UsageError(Text(f"{path}: there is no such file or folder.", f"{path}：文件或目录不存在。"))
        some_files, some_faults = check_pack(path)
        files.extend(some_files)
        faults.extend(some_faults)
    known = {name for item in files for name in (item.rule.id, item.rule.rule.name)} | set(CATEGORIES)
    known |= {name for rule in load_pack().rules for name in (rule.id, rule.rule.name)}
    faults.extend(unknown_consequences(files, known))
    for fault in faults:
        _out(visible(f"{fault.path}: {fault.what}"))
    bad = len({fault.path for fault in faults})
    if lang == "zh":
        _out(f"{len(files)} 条规则，{bad} 个文件有问题。" if bad else f"{len(files)} 条规则，全部正确。")
    else:
        _out(f"{len(files)} rules, {bad} files with faults." if bad else f"{len(files)} rules, all right.")
    return EXIT_FINDINGS if bad else EXIT_OK


def _list(words: list[str], lang: str) -> int:
    from doctor import registry

    if words:
        for word in words:
            rule = registry.rule(word)
            if rule is None:
                raise UsageError(Text(f"There is no rule {word}.", f"没有规则 {word}。"), _list_hint())
            _out(f"{rule.id} {rule.name} [{rule.severity.value}, {rule.category}]\n{rule.title.pick(lang)}")
            _out(f"{rule.why.pick(lang)}\n{rule.fix.pick(lang)}")
        return EXIT_OK
    for rule in sorted(registry.rules(), key=lambda item: item.id):
        _out(f"{rule.id:14}{rule.severity.value:9}{rule.title.pick(lang)}")
    return EXIT_OK


def _list_hint() -> Text:
    return Text("List them with: doctor rules", "用 doctor rules 列出全部规则")


def _out(line: str) -> None:
    sys.stdout.write(line + "\n")
