"""`doctor bundle RUN`: the run as one small file to show to others, names covered, that gives the same diagnosis."""

from __future__ import annotations

import argparse
import getpass
import os
import shlex
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from doctor.commands.check import size
from doctor.errors import EXIT_FINDINGS, EXIT_OK, UsageError
from doctor.finding import Text
from doctor.language import Help

if TYPE_CHECKING:
    from doctor.bundle.gather import Gathered
    from doctor.bundle.make import Bundle

DESCRIPTION = Text(
    "Packs a run (folder or log) into one small archive for a bug report or a colleague: secrets, users, hosts, addresses,\n"
    "serial numbers and paths are covered by others of equal length, so that lines and offsets stay; long logs are cut to what\n"
    "the diagnosis needs. The archive is replayed before it is called done.",
    "把一次训练（目录或日志）打包成一个小文件，用于反馈问题或请同事分析：密钥、用户、主机、地址、序列号与路径\n"
    "以等长内容替换，行号与偏移不变；过长的日志只保留诊断所需部分。写出前会重放校验。",
)
EPILOG = Text(
    "examples:\n  doctor bundle output/run                       writes output/run/bundle.tar.gz\n"
    "  doctor bundle output/run --dry-run             shows what would be taken\n  doctor bundle train.log -o train.bundle.tar.gz\n\n"
    "Whoever gets it: doctor watch --once bundle.tar.gz · doctor report bundle.tar.gz -o page.html\n"
    "Exit code 1: the archive does not give the same diagnosis (it is said what differs).",
    "示例：\n  doctor bundle output/run                       写出 output/run/bundle.tar.gz\n"
    "  doctor bundle output/run --dry-run             只显示将要打包的内容\n  doctor bundle train.log -o train.bundle.tar.gz\n\n"
    "收到的人：doctor watch --once bundle.tar.gz · doctor report bundle.tar.gz -o page.html\n"
    "退出码 1：重放得到的诊断不同（会说明差异）。",
)
_SHOWN = 12


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help=Help("run folder or log", "训练目录或日志"))
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help=Help("where the archive goes (default RUN/bundle.tar.gz)", "归档路径（默认 RUN/bundle.tar.gz）"),
    )
    parser.add_argument(
        "--max-size",
        type=size,
        default=1_000_000,
        metavar="1MB",
        help=Help("the archive is smaller than this (default 1 MB)", "归档大小上限（默认 1 MB）"),
    )
    parser.add_argument(
        "--dry-run", action="store_true", help=Help("show what would be taken, write nothing", "只显示内容，不写文件")
    )


def run(args: argparse.Namespace) -> int:
    from doctor.bundle.cover import Coverer
    from doctor.bundle.gather import gather
    from doctor.bundle.make import Maker
    from doctor.bundle.replay import watch
    from doctor.match.pack import load_pack
    from doctor.records.packed import is_packed
    from doctor.report.deliver import check_target, deliver, target_of

    if is_packed(Path(args.run)):
        raise UsageError(
            Text(f"{args.run} is an archive already.", f"{args.run} 已是归档文件。"),
            Text(
                f"Read it with: doctor watch --once {shlex.quote(args.run)}",
                f"读取：doctor watch --once {shlex.quote(args.run)}",
            ),
        )
    target = target_of(args.run, args.output, "bundle.tar.gz", Text("the archive", "归档"))
    if not args.dry_run:
        check_target(target, "bundle.tar.gz", is_bundle)
    pack = load_pack(args.settings.rules)
    gathered = gather(args.run, target)
    findings = watch(args.run, pack)
    bundle = Maker(gathered, pack, findings, Coverer(*_own_names())).make(args.max_size)
    if args.format == "text" and not args.quiet:
        for line in _taken(gathered, bundle, args):
            (sys.stdout if args.dry_run else sys.stderr).write(line + "\n")
    if not args.dry_run:
        deliver(bundle.archive, target)
    _say(bundle, args.output or str(target), args)
    return EXIT_OK if bundle.proven else EXIT_FINDINGS


def is_bundle(path: Path) -> bool:
    """Whether a file is an archive of ours, which may be written over."""
    import tarfile

    from doctor.bundled import MANIFEST

    try:
        with tarfile.open(path, "r:gz") as archive:
            return any(member.name.endswith(f"/{MANIFEST}") for member in archive)
    except (OSError, EOFError, ValueError, tarfile.TarError):
        return False


def _own_names() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Users and hosts that this machine knows itself by."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):
        user = ""
    host = socket.gethostname()
    users = {user, os.environ.get("SUDO_USER", ""), os.path.basename(os.path.expanduser("~"))}
    return tuple(sorted(users - {""})), tuple(sorted({host} - {""}))


def _taken(gathered: Gathered, bundle: Bundle, args: argparse.Namespace) -> Iterator[str]:
    """What is in the archive under which name, what was cut and covered, what stays."""
    from doctor.escape import visible

    lang, shown = args.lang, None if args.verbose else _SHOWN
    rows = bundle.manifest["files"]
    yield Text("taken:", "打包：").pick(lang)
    for row, item in list(zip(rows, gathered.wanted))[:shown]:
        said = f"  {visible(item.name)}" + (f" -> {row['path']}" if row["path"] != item.name else "")
        if "pieces" in row:
            kept = sum(piece[3] for piece in row["pieces"])
            share = 100 * kept / max(1, row["bytes"])
            said += Text(f"  ({share:.2g}% of {row['lines']} lines)", f"  （{row['lines']} 行的 {share:.2g}%）").pick(
                lang
            )
        yield said
    if shown is not None and len(rows) > shown:
        yield Text(f"  … and {len(rows) - shown} more: -v", f"  ……另有 {len(rows) - shown} 个：加 -v").pick(lang)
    if bundle.counts:
        covered = ", ".join(f"{_kind(kind, lang)} {count}" for kind, count in bundle.counts.items())
        yield Text(f"covered: {covered}", f"已遮盖：{covered}").pick(lang)
    if gathered.left:
        names = ", ".join(visible(name) for name, _, _ in gathered.left[:6])
        rest = len(gathered.left) + gathered.more - 6
        more = Text(f" and {rest} more", f" 等另外 {rest} 个").pick(lang) if rest > 0 else ""
        yield Text(f"left out: {names}{more}", f"未打包：{names}{more}").pick(lang)


_KINDS = {
    "secret": "密钥",
    "user": "用户",
    "host": "主机",
    "address": "地址",
    "hardware address": "硬件地址",
    "serial number": "序列号",
    "mail": "邮箱",
    "path": "路径",
    "id": "标识",
}


def _kind(kind: str, lang: str) -> str:
    return _KINDS.get(kind, kind) if lang == "zh" else kind


def _say(bundle: Bundle, place: str, args: argparse.Namespace) -> None:
    from doctor.escape import visible
    from doctor.report.model import Report
    from doctor.report.text import width_of
    from doctor.report.width import wrap
    from doctor.report.write import emit, terminal_width

    command = f"doctor watch --once {shlex.quote(place)}"
    if args.format != "text":
        facts: dict[str, Any] = {
            "path": None if args.dry_run else place,
            "bytes": len(bundle.archive),
            "kept": bundle.level,
            "replays": bundle.proven,
            "lost": list(bundle.lost),
            "added": list(bundle.added),
            "manifest": bundle.manifest,
        }
        extra = {} if bundle.proven else {"verdict": "warning"}
        emit(Report("bundle", facts={"bundle": facts}, next_command=command, extra=extra), args)
        return
    for line in wrap(
        visible(_verdict(bundle, place, args.dry_run, command).pick(args.lang)), width_of(terminal_width())
    ):
        sys.stdout.write(line + "\n")


def _verdict(bundle: Bundle, place: str, dry: bool, command: str) -> Text:
    kb = f"{max(1, round(len(bundle.archive) / 1000))} KB"
    head = (
        Text(f"{place}: would be {kb}", f"{place}：将为 {kb}")
        if dry
        else Text(f"{place}: written, {kb}", f"{place}：已写出，{kb}")
    )
    if bundle.proven:
        return head + Text(
            f"; replayed: the diagnosis is the same. Next: {command}", f"；已重放：诊断一致。下一步：{command}"
        )
    parts_en, parts_zh = [], []
    if bundle.lost:
        parts_en.append(f"it lacks {', '.join(bundle.lost)}")
        parts_zh.append(f"缺少 {', '.join(bundle.lost)}")
    if bundle.added:
        parts_en.append(f"it adds {', '.join(bundle.added)}")
        parts_zh.append(f"多出 {', '.join(bundle.added)}")
    if not parts_en:
        parts_en.append("its findings are the same, but not all their figures")
        parts_zh.append("诊断相同，但部分数字不同")
    if bundle.level and not bundle.same:
        return head + Text(
            f"; replayed: {'; '.join(parts_en)}, for want of lines. Keep more of them with --max-size 20MB.",
            f"；已重放：{'；'.join(parts_zh)}，因为日志被裁剪。可用 --max-size 20MB 保留更多。",
        )
    return head + Text(
        f"; replayed: {'; '.join(parts_en)}, because of names that were covered. Say so when you send it.",
        f"；已重放：{'；'.join(parts_zh)}，因为部分名称被遮盖。发送时请说明。",
    )
