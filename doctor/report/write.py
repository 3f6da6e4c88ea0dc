"""Writes a report to stdout in the form that was asked for, and gives the exit code."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from typing import Any

from doctor import __version__
from doctor.report.model import Report, exit_code


def emit(report: Report, args: argparse.Namespace) -> int:
    """Prints `report` as ``args.format`` says (text, json, sarif, github) and returns its exit code."""
    out = sys.stdout
    if args.format == "json":
        out.write(json_bytes(report.to_dict(args.lang)))
    elif args.format == "sarif":
        from doctor.report.sarif import to_sarif

        out.write(json_bytes(to_sarif(report, args.lang, __version__)))
    elif args.format == "github":
        from doctor.report.github import to_github

        for line in to_github(report, args.lang):
            out.write(line + "\n")
    else:
        from doctor.report.text import render, width_of

        width = width_of(terminal_width())
        lines = render(
            report,
            args.lang,
            colour=use_colour(args.color),
            width=width,
            verbose=args.verbose,
            quiet=args.quiet,
        )
        for line in lines:
            out.write(line + "\n")
    out.flush()
    return exit_code(report, args.fail_on)


def json_bytes(row: dict[str, Any]) -> str:
    """Stable text: keys in the order they were made, one object, a newline at the end."""
    return json.dumps(row, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def terminal_width() -> int:
    """Columns of the terminal; 80 when output goes elsewhere, so that files look the same everywhere."""
    return shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else 80


def use_colour(choice: str) -> bool:
    """--color, then NO_COLOR, then whether stdout is a terminal that understands it."""
    if choice != "auto":
        return choice == "always"
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
