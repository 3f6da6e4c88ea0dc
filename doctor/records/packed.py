"""A run folder that came as one file (`.tar.gz` or `.zip`), unpacked for as long as it is read.

Whoever packed it is not trusted: only plain files of sane names and sizes are taken out, nothing is followed and nothing
executed; what would leave the folder, or grow beyond `MOST`, is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from doctor.errors import UsageError
from doctor.escape import visible
from doctor.finding import Text

#: bytes that are taken out of one archive, of all files together, and files
MOST, MOST_FILES = 1 << 30, 20_000
_DEEPEST, _LONGEST = 32, 240
_BLOCK = 1 << 20


def is_packed(path: Path) -> bool:
    """Whether `path` is an archive of files, by its content; a log that is only compressed is none."""
    try:
        if not path.is_file() or path.stat().st_size < 22:
            return False
        with path.open("rb") as file:
            head = file.read(4)
    except (OSError, ValueError):
        return False
    if head == b"PK\x03\x04":
        import zipfile

        return zipfile.is_zipfile(path)
    return head[:2] == b"\x1f\x8b" and _is_tar(path)


def _is_tar(path: Path) -> bool:
    import tarfile
    import zlib

    try:
        with tarfile.open(path, "r:gz") as archive:
            return archive.next() is not None
    except (OSError, EOFError, ValueError, zlib.error, tarfile.TarError):
        return False


@contextmanager
def unpacked(path: Path) -> Iterator[str]:
    """While it lasts, the process stands in a temporary folder that holds what was in the archive; gives the name of the one
    folder at its top (``.`` where there are several). Names of files are then those within the archive, wherever it lies.
    Raises UsageError when it cannot be read or is not safe to unpack."""
    import shutil
    import tarfile
    import tempfile
    import zipfile
    import zlib

    before = Path.cwd()
    try:
        room = tempfile.mkdtemp(prefix="doctor-bundle-")
    except OSError as error:
        raise _refused(path, error.strerror or str(error)) from error
    try:
        folder = Path(room)
        try:
            _take_out(path, folder)
        except (
            tarfile.TarError,
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            ValueError,
            NotImplementedError,
            RuntimeError,
        ) as error:
            raise _refused(path, str(error)) from error
        except OSError as error:
            raise _refused(path, error.strerror or str(error)) from error
        os.chdir(folder)
        tops = sorted(os.listdir("."))
        yield tops[0] if len(tops) == 1 and Path(tops[0]).is_dir() else "."
    finally:
        os.chdir(before)
        shutil.rmtree(room, ignore_errors=True)


def _take_out(path: Path, folder: Path) -> None:
    import stat
    import tarfile
    import zipfile

    left = MOST
    count = 0
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as packed:
            for info in packed.infolist():
                if info.is_dir() or stat.S_ISLNK(info.external_attr >> 16):
                    continue
                count = _counted(count)
                with packed.open(info) as file:
                    left -= _copy(file, _place(folder, info.filename), left)
        return
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:
            count = _counted(count)
            if not member.isreg():  # links, devices, pipes: none of them is in a run
                continue
            source = archive.extractfile(member)
            if source is not None:
                left -= _copy(source, _place(folder, member.name), left)


def _counted(count: int) -> int:
    if count >= MOST_FILES:
        raise ValueError(f"more than {MOST_FILES} files")
    return count + 1


def _place(folder: Path, name: str) -> Path:
    """Where a member goes. Raises ValueError for a name that leads out of the folder or cannot be one."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    parts = tuple(part for part in parts if part != ".")
    bad = not parts or len(parts) > _DEEPEST or name.startswith(("/", "\\")) or "\0" in name
    if bad or any(part == ".." or len(part.encode("utf-8", "replace")) > _LONGEST or ":" in part[:2] for part in parts):
        raise ValueError(f"the name {visible(name, 80)!r} leads out of the archive")
    return folder.joinpath(*parts)


def _copy(source: IO[bytes], target: Path, most: int) -> int:
    """Bytes that were copied. Raises ValueError when there are more than `most`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    done = 0
    with target.open("wb") as file:
        while True:
            block = source.read(_BLOCK)
            if not block:
                return done
            done += len(block)
            if done > most:
                raise ValueError(f"it unpacks to more than {MOST >> 20} MB")
            file.write(block)


def _refused(path: Path, why: str) -> UsageError:
    name = visible(str(path), 200)
    return UsageError(
        Text(f"{name} cannot be unpacked: {visible(why, 200)}.", f"{name} 无法解包：{visible(why, 200)}。"),
        Text("Ask for it again, or unpack it by hand and name the folder.", "请重新获取，或手动解包后指定目录。"),
    )


@contextmanager
def opened(path: str) -> Iterator[str]:
    """`path` itself, or the folder within when it is an archive, as long as it is read."""
    with opened_all([path]) as paths:
        yield paths[0]


@contextmanager
def opened_all(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    """The same for several paths. Raises UsageError when one of several is an archive: names within it would be no paths."""
    archives = [path for path in paths if path != "-" and "\0" not in path and is_packed(Path(path))]
    if not archives:
        yield paths
        return
    if len(paths) > 1:
        name = visible(archives[0], 200)
        raise UsageError(
            Text(f"{name} is an archive, which is read by itself.", f"{name} 是归档文件，须单独读取。"),
            Text(f"Name it alone, or unpack it: tar xzf {name}", f"请单独指定，或先解包：tar xzf {name}"),
        )
    with unpacked(Path(archives[0]).absolute()) as folder:
        yield [folder]
