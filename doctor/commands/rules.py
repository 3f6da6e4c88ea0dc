"""`doctor rules [ID…]`: lists or shows rules. `doctor rules check PATH…`: validates rule files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from doctor.commands.shown import opened, rule_report
from doctor.errors import EXIT_FINDINGS, EXIT_OK, UsageError
from doctor.finding import CATEGORIES, Text
from doctor.language import Help
from doctor.match.pack import Pack, load_pack
from doctor.report.model import Report
from doctor.report.write import emit

DESCRIPTION = Text(
    "Lists all rules, shows some, or validates files of your own log rules.",
    "列出全部规则、查看规则，或校验自己编写的日志规则文件。",
)
EPILOG = Text(
    "examples:\n  doctor rules\n  doctor rules CFG-PAR\n  doctor rules LOG-HCCL-001\n  doctor rules check my-rules/",
    "示例：\n  doctor rules\n  doctor rules CFG-PAR\n  doctor rules LOG-HCCL-001\n  doctor rules check my-rules/",
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        nargs="*",
        metavar="ID | check PATH",
        help=Help("rule ids, names or prefixes; or: check PATH…", "规则编号、名称或前缀；或 check PATH…"),
    )


def run(args: argparse.Namespace) -> int:
    words: list[str] = list(args.words)
    if words[:1] == ["check"]:
        if len(words) < 2:
            raise UsageError(
                Text("doctor rules check needs a path.", "doctor rules check 需要一个路径。"),
                Text("For example: doctor rules check my-rules/", "例如：doctor rules check my-rules/"),
            )
        return _check([Path(word) for word in words[1:]], args)
    return _show(words, args)


def _check(paths: list[Path], args: argparse.Namespace) -> int:
    from doctor.match.validate import Fault, check_pack, unknown_consequences

    files, faults = [], []
    for path in paths:
        if not path.exists():
            raise UsageError(Text(f"{path}: there is no such file or folder.", f"{path}：文件或目录不存在。"))
        some_files, some_faults = check_pack(path)
        if not some_files and not some_faults:
            some_faults = [Fault(str(path), "holds no rule files (*.yaml)")]
        files.extend(some_files)
        faults.extend(some_faults)
    known = {name for item in files for name in (item.rule.id, item.rule.rule.name)} | set(CATEGORIES)
    known |= {name for rule in load_pack().rules for name in (rule.id, rule.rule.name)}
    faults.extend(unknown_consequences(files, known))
    bad = len({fault.path for fault in faults})
    lines = [Text(f"{fault.path}: {fault.what}", f"{fault.path}: {fault.what}") for fault in faults]
    if bad:
        summary = Text(
            f"{len(files)} rules read, {bad} files with faults.", f"已读取 {len(files)} 条规则，{bad} 个文件有问题。"
        )
    else:
        summary = Text(f"{len(files)} rules, all right.", f"{len(files)} 条规则，全部正确。")
    rows = [{"path": fault.path, "fault": fault.what} for fault in faults]
    report = Report("rules", facts={"rules": len(files), "rows": rows}, headline=(*lines, summary), unknown=bool(bad))
    emit(report, args)
    return EXIT_FINDINGS if bad else EXIT_OK


def _show(words: list[str], args: argparse.Namespace) -> int:
    from doctor import registry

    pack = load_pack(args.settings.rules)
    own = {rule.id: rule.rule for rule in pack.rules}
    rules = sorted(
        [*own.values(), *(rule for rule in registry.rules() if rule.id not in own)], key=lambda item: item.id
    )
    chosen = [rule for rule in rules if not words or any(_meant(word, rule.id, rule.name) for word in words)]
    if not chosen:
        wanted = " ".join(words)
        raise UsageError(
            Text(f"there is no rule {wanted}.", f"没有规则 {wanted}。"),
            Text("See: doctor rules", "请查看：doctor rules"),
        )
    if words and len(chosen) == 1:
        return _one(chosen[0].id, pack, args)
    rows: list[dict[str, Any]] = [
        {
            "id": rule.id,
            "name": rule.name,
            "severity": rule.severity.value,
            "category": rule.category,
            "title": opened(rule.title).pick(args.lang),
        }
        for rule in chosen
    ]
    lines = tuple(
        Text(*(f"{rule.id:<14} {rule.severity.value:<8} {opened(rule.title).pick(lang)}" for lang in ("en", "zh")))
        for rule in chosen
    )
    count = Text(f"{len(chosen)} rules", f"共 {len(chosen)} 条规则")
    return emit(Report("rules", facts={"rows": rows}, headline=(*lines, count), next_command="doctor rules ID"), args)


def _one(rule_id: str, pack: Pack, args: argparse.Namespace) -> int:
    shown = rule_report(rule_id, pack)
    assert shown is not None
    rows = [shown.facts["rule"]]
    return emit(Report("rules", facts={"rows": rows}, headline=shown.headline, next_command=shown.next_command), args)


def _meant(word: str, rule_id: str, name: str) -> bool:
    return rule_id.startswith(word.upper()) or name == word.lower()
