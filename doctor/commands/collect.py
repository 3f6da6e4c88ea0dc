"""`doctor collect`: the facts of this machine and interpreter as JSON, for `doctor check --host` elsewhere."""

from __future__ import annotations

import argparse
import json
import sys


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--python", metavar="PATH", help="examine this interpreter or environment folder")
    parser.add_argument("--redact", action="store_true", help="replace host names, user names, addresses and secrets")
    parser.add_argument("--deep", action="store_true", help="import the framework in a child process and compute")


def run(args: argparse.Namespace) -> int:
    from doctor.checks.environment.collect import collect, document
    from doctor.errors import EXIT_OK

    facts = document(collect(python=args.python, deep=args.deep))
    if args.redact:
        from doctor.checks.environment.redact import redact

        facts = redact(facts)
    sys.stdout.write(json.dumps(facts, ensure_ascii=False, indent=2) + "\n")
    return EXIT_OK
