"""``python -m doctor.trainer CONFIG``: the trainer as a process of its own, as `doctor train` starts it."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

from doctor.errors import EXIT_FINDINGS, EXIT_USAGE, UsageError
from doctor.escape import visible
from doctor.language import language
from doctor.trainer import runtime
from doctor.trainer.cluster import Cluster, schedule, schedules
from doctor.trainer.config import RunConfig, load_config
from doctor.trainer.runfolder import RunFolder, default_root


def main(argv: Optional[Sequence[str]] = None) -> int:
    """0 ended well, 1 failed, 2 bad input, 130 or 143 stopped by a signal after saving."""
    parser = argparse.ArgumentParser(prog="python -m doctor.trainer", description=__doc__)
    parser.add_argument("config", help="YAML file or the name of a packaged example")
    parser.add_argument("--output-dir", metavar="DIR", help="folder of the run (default output/<name>-<time>)")
    parser.add_argument(
        "--resume",
        nargs="?",
        const="newest",
        metavar="CHECKPOINT",
        help="go on from the newest or the given checkpoint",
    )
    parser.add_argument("--parent", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    lang = language()
    if schedules():
        return schedule()
    try:
        return _run(options)
    except UsageError as error:
        sys.stderr.write(visible(f"doctor: {error.line(lang)}") + "\n")
        return EXIT_USAGE


def _run(options: argparse.Namespace) -> int:
    config = load_config(options.config)
    runtime.require_mindspore()
    runtime.set_environment()
    folder = RunFolder(Path(options.output_dir or config.args.output_dir or default_root(config.name)))
    cluster = Cluster.of_environment()
    if not cluster.leads:
        folder.make()
        return _in_folder(config, folder, options, cluster)
    folder.create(options.resume is not None)
    with folder.lock():
        return _in_folder(config, folder, options, cluster)


def _in_folder(config: RunConfig, folder: RunFolder, options: argparse.Namespace, cluster: Cluster) -> int:
    log = os.open(folder.log(cluster.rank), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    # MindSpore writes many warnings, from C++ as well, to descriptors 1 and 2. They belong in the log, complete; the
    # screen is for steps. Python's own streams keep the real ones.
    screen = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace")
    talk = os.fdopen(os.dup(2), "w", encoding="utf-8", errors="backslashreplace")
    for number in (1, 2):
        os.dup2(log, number)
    try:
        from doctor.trainer.assemble import RunFailed, train

        try:
            # msrun copies what its workers say into files: the steps are in the log already.
            shown = None if cluster.shared else screen
            return train(config, folder, options.resume, shown, options.parent, cluster=cluster).code
        except RunFailed as error:
            talk.write(visible(f"doctor: the run failed: {error.line(language())}") + "\n")
            return EXIT_FINDINGS
    except UsageError as error:
        talk.write(visible(f"doctor: {error.line(language())}") + "\n")
        return EXIT_USAGE
    except Exception as error:  # noqa: BLE001 - the end of the process: the log gets the traceback, the screen one line
        traceback.print_exc()
        sys.stderr.flush()
        talk.write(
            visible(f"doctor: the run failed: {type(error).__name__}: {_gist(error)} (see {folder.log()})") + "\n"
        )
        return EXIT_FINDINGS
    finally:
        screen.flush()
        talk.flush()


def _gist(error: Exception) -> str:
    """The first line that says something: MindSpore begins with a ruler and a heading."""
    lines = [line.strip(" -") for line in str(error).splitlines()]
    said = [line for line in lines if line]
    return next((line for line in said if not line.endswith(":")), said[0] if said else "")


if __name__ == "__main__":
    sys.exit(main())
