"""`doctor collect`: the facts of this machine and interpreter as JSON, for `doctor check --host` elsewhere."""

from __future__ import annotations

import argparse
import json
import sys

from doctor.errors import EXIT_OK
from doctor.finding import Text
from doctor.language import Help

DESCRIPTION = Text(
    "Prints what `doctor check` judges: files, environment, npu-smi and the Python packages, as one JSON document.",
    "输出 `doctor check` 所依据的信息：文件、环境变量、npu-smi 和 Python 包，合为一个 JSON 文档。",
)
EPILOG = Text(
    "examples:\n  doctor collect > host.json\n  doctor check --host host.json\n"
    "  doctor check --host node1.json --host node2.json    (also compares the nodes)\n  doctor collect --redact > to-share.json",
    "示例：\n  doctor collect > host.json\n  doctor check --host host.json\n"
    "  doctor check --host node1.json --host node2.json    （同时比较各节点）\n  doctor collect --redact > to-share.json",
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--python",
        metavar="PATH",
        help=Help("interpreter or environment folder to examine", "要检查的解释器或虚拟环境目录"),
    )
    parser.add_argument(
        "--redact",
        action="store_true",
        help=Help("hide host names, user names, addresses and secrets", "隐去主机名、用户名、地址与密钥"),
    )
    parser.add_argument(
        "--deep",
        action="store_true",
        help=Help("import the framework and compute, in a child process", "在子进程中导入框架并实际计算"),
    )


def run(args: argparse.Namespace) -> int:
    from doctor.checks.environment.collect import collect, document

    facts = document(collect(python=args.python, deep=args.deep))
    if args.redact:
        from doctor.checks.environment.redact import redact

        facts = redact(facts)
    sys.stdout.write(json.dumps(facts, ensure_ascii=False, indent=2) + "\n")
    return EXIT_OK
