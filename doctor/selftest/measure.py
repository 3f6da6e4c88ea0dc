"""Performs a self-test: chooses the trials, performs them, and gives what came of each part."""

from __future__ import annotations

import errno
import importlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Optional

from doctor.errors import UsageError
from doctor.finding import Text
from doctor.match.pack import Pack, load_pack, read_files, rule_paths
from doctor.match.rulefile import RuleError, read_rule
from doctor.selftest.pool import NoRoom, perform_all
from doctor.selftest.rows import Part, parts_of
from doctor.selftest.trial import GIVEN, HEALTHY, PARTS, Result, Room, Trial

#: called with what is being done, how much of it is done and how much there is
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Request:
    """What the user asked for. `only` are parts, PART/KIND, kinds or rule ids; `healthy` logs of runs that went well."""

    seed: int = 0
    runs: int = 1
    only: tuple[str, ...] = ()
    healthy: tuple[str, ...] = ()
    folder: Optional[Path] = None
    own: tuple[Path, ...] = ()
    settings: Optional[str] = None


@dataclass(frozen=True)
class Measured:
    """`own` are the files of the user's own rules by id, `broken` those that cannot be read; `folder` is where files were
    written, None when nowhere could be."""

    parts: tuple[Part, ...]
    own: dict[str, str]
    broken: tuple[RuleError, ...]
    folder: Optional[Path]
    inotify: bool = False


def measure(request: Request, progress: Progress) -> Measured:
    """Raises UsageError when `only` names nothing, or a folder that the user named is not there."""
    pack, own, broken = rules_of(request.own)
    trials, skipped = choose(request)
    folder_error: Optional[Text] = None
    results: list[Result] = []
    with _scratch(request.folder) as folder:
        if folder is None:
            where = str(request.folder or tempfile.gettempprefix())
            folder_error = Text(
                f"no temporary folder can be written ({where}); set TMPDIR or give --folder.",
                f"没有可写的临时目录（{where}）；请设置 TMPDIR 或用 --folder 指定。",
            )
        room = Room(pack, folder or Path("."), request.settings)
        for name in PARTS:
            mine = [trial for trial in trials if trial.part == name]
            if not mine:
                continue
            if folder_error is not None and name != "explain":
                skipped[name] = folder_error
            elif name == "live" and broken:
                skipped[name] = Text(
                    "doctor watch does not start while a rule file of yours cannot be read (ENV-SELF-003).",
                    "自有规则文件无法读取时 doctor watch 不会启动（ENV-SELF-003）。",
                )
            else:
                given, why = _part(name, mine, room, progress)
                results.extend(given)
                if why is not None:
                    skipped[name] = why
        inotify = folder is not None and _told_at_once(folder)
    place = request.folder or (Path(tempfile.gettempdir()) if folder is not None else None)
    return Measured(parts_of(results, skipped), own, broken, place, inotify)


def rules_of(folders: Sequence[Path]) -> tuple[Pack, dict[str, str], tuple[RuleError, ...]]:
    """All rules that can be read, the files of those in `folders` by id, and what keeps others from being read. Raises
    RuleError when a folder is not there."""
    broken: list[RuleError] = []
    for folder in folders:
        if not folder.exists():
            raise RuleError(str(folder), "", "there is no such file or folder")
        for path in rule_paths(folder):
            try:
                read_rule(path)
            except RuleError as error:
                broken.append(error)
    if not broken:
        try:
            pack = load_pack(folders)
        except RuleError as error:  # two files share an id
            broken.append(error)
    if broken:
        rules = {rule.id: rule for rule in load_pack().rules}
        for folder in folders:
            rules.update((item.rule.id, item.rule) for item in read_files(folder, strict=False))
        pack = Pack(rules.values())
    paths = {str(path) for folder in folders for path in rule_paths(folder)}
    return pack, {rule.id: rule.path for rule in pack.rules if rule.path in paths}, tuple(broken)


def choose(request: Request) -> tuple[list[Trial], dict[str, Text]]:
    """The trials that are asked for, and the parts that cannot be tried with the reason."""
    skipped: dict[str, Text] = {}
    trials: list[Trial] = []
    for name in PARTS:
        if request.only and not any(_may_be_in(word, name) for word in request.only):
            continue
        try:
            trials.extend(_trials(name, request))
        except ImportError as error:
            skipped[name] = _lacking(error)
    if request.only:
        trials = [trial for trial in trials if any(_meant(word, trial) for word in request.only)]
        if not trials and not skipped:
            wanted = " ".join(request.only)
            raise UsageError(
                Text(f"there is no part, kind or rule {wanted}.", f"没有名为 {wanted} 的部分、故障或规则。"),
                Text(
                    f"Parts: {', '.join(PARTS)}; -v shows the kinds of each.",
                    f"可选部分：{'、'.join(PARTS)}；加 -v 查看每部分的种类。",
                ),
            )
    for path in request.healthy:
        if not Path(path).exists():
            raise UsageError(Text(f"{path}: there is no such file or folder.", f"{path}：文件或目录不存在。"))
        trials.append(Trial("watch", GIVEN, str(Path(path).absolute())))
    return trials, skipped


def _trials(name: str, request: Request) -> Iterator[Trial]:
    module = importlib.import_module(f"doctor.selftest.{name}")
    if name == "explain":
        return iter(module.trials(request.seed, request.own))
    if name == "live":
        return iter(module.trials(request.seed))
    return iter(module.trials(request.seed, request.runs))


def _may_be_in(word: str, part: str) -> bool:
    """Whether a word of ``--only`` can mean something in the part: a part's name excludes the others."""
    head = word.partition("/")[0]
    return head == part or head not in PARTS


def _meant(word: str, trial: Trial) -> bool:
    head, _, kind = word.partition("/")
    if head in PARTS:
        return trial.part == head and kind in ("", trial.kind)
    if trial.part == "explain" and "-" in word and word.upper() == word:
        return bool(importlib.import_module("doctor.selftest.explain").rule_id(trial) == word)
    return trial.kind == word and word != HEALTHY


def _part(name: str, trials: list[Trial], room: Room, progress: Progress) -> tuple[list[Result], Optional[Text]]:
    """The results of one part, or why it has none."""
    from concurrent.futures.process import BrokenProcessPool

    results: list[Result] = []

    def done(count: int) -> None:
        progress(name, count, len(trials))

    done(0)
    try:
        if name == "live":
            from doctor.selftest.live import perform_live
            from doctor.selftest.pool import shared_finder

            results.extend(perform_live(trials, replace(room, finder=shared_finder(room.pack)), done))
        else:
            results.extend(perform_all(trials, room, done))
    except ImportError as error:
        return [], _lacking(error)
    except NoRoom as error:
        return [], Text(f"{room.folder}: {error}.", f"{room.folder}：{error}。")
    except BrokenProcessPool:
        text = "a process was ended from outside (memory?)"
        return [Result(trials[0], found=False, crash=text)], None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES):
            return [], Text(f"{room.folder}: {error.strerror}.", f"{room.folder}：{error.strerror}。")
        raise
    return results, None


def _lacking(error: ImportError) -> Text:
    return Text(f"a package is missing or broken: {error}.", f"依赖包缺失或损坏：{error}。")


@contextmanager
def _scratch(parent: Optional[Path]) -> Iterator[Optional[Path]]:
    """A folder of our own that is removed; None where nothing can be written. Raises UsageError when the user named it."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="doctor-selftest-", dir=parent))
    except OSError as error:
        if parent is not None:
            why = error.strerror or str(error)
            raise UsageError(Text(f"{parent}: {why}.", f"{parent}：{why}。")) from None
        yield None
        return
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _told_at_once(folder: Path) -> bool:
    from doctor.selftest.live import told_at_once

    return bool(told_at_once(folder))
