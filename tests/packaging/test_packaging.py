"""The house as others get it: links, wheel from sdist, imports that work, none that should not."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINKED = ("checks", "trainer", "rules")


@pytest.mark.parametrize("name", LINKED)
def test_the_link_is_relative_and_resolves(name: str) -> None:
    link = ROOT / "doctor" / name
    assert link.is_symlink() and str(link.readlink()) == f"../{name}"
    assert (link / "__init__.py").is_file()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sdist, and the wheel built from that sdist (as an index would)."""
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)],
        check=True,
        capture_output=True,
        timeout=300,
    )
    return next(out.glob("*.tar.gz")), next(out.glob("*.whl"))


def sources() -> set[str]:
    """Every file of the package as git has it, by its place inside the wheel."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "doctor", *LINKED],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    files = {name for name in listed if not (ROOT / name).is_symlink() and (ROOT / name).is_file()}
    return {f"doctor/{name}" if name.split("/", 1)[0] in LINKED else name for name in files}


def test_the_wheel_holds_every_file_of_the_package_as_plain_folders(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[1]) as wheel:
        names = set(wheel.namelist())
    packaged = {name for name in names if not name.split("/", 1)[0].endswith(".dist-info")}
    assert packaged == sources() | {"doctor/rules/pack.json"}


def test_the_sdist_holds_the_real_folders_and_the_tests(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[0]) as sdist:
        names = {name.split("/", 1)[1] for name in sdist.getnames() if "/" in name}
    for wanted in ("pyproject.toml", "README.md", "LICENSE", "checks/__init__.py", "trainer/__init__.py",
                   "rules/__init__.py", "tests/conftest.py"):  # fmt: skip
        assert wanted in names


def test_the_wheel_names_its_command_and_does_not_pull_mindspore(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[1]) as wheel:
        info = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = wheel.read(info).decode()
        entry = wheel.read(info.replace("METADATA", "entry_points.txt")).decode()
    assert "doctor = doctor.cli:main" in entry
    base = [line for line in metadata.splitlines() if line.startswith("Requires-Dist:") and "extra ==" not in line]
    assert base and not [line for line in base if re.search(r"mindspore|torch|pyarrow|hyperscan", line)]
    assert "License-Expression: Apache-2.0" in metadata and "Requires-Python: <3.13,>=3.9" in metadata


@pytest.mark.heavy
def test_the_wheel_works_installed_alone(built: tuple[Path, Path], tmp_path: Path) -> None:
    """In an environment of its own, from an empty folder, with the base dependencies only."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "v")], check=True, timeout=120)
    python = tmp_path / "v" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", str(built[1])], check=True, timeout=600)
    empty = tmp_path / "empty"
    empty.mkdir()
    for words, code in ((["--version"], 0), (["check"], None), (["explain", "E19999"], 0), (["rules"], 0)):
        done = subprocess.run(
            [tmp_path / "v" / "bin" / "doctor", *words],
            cwd=empty,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert "Traceback" not in done.stderr and done.returncode in ((0, 1) if code is None else (code,)), done.stderr


def test_nobody_imports_the_short_names() -> None:
    """`import checks` would be a second copy of the module beside doctor.checks."""
    short = re.compile(r"^\s*(?:from|import)\s+(?:checks|trainer|rules)\b", re.MULTILINE)
    for top in ("doctor", *LINKED, "tests"):
        for file in (ROOT / top).rglob("*.py"):
            assert not short.search(file.read_text(encoding="utf-8")), file


def test_the_import_contracts_hold() -> None:
    program = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout


def test_every_package_says_what_it_is_for() -> None:
    import ast

    for top in ("doctor", *LINKED):
        for file in (ROOT / top).rglob("*.py"):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            assert ast.get_docstring(tree), f"{file} has no docstring"


def test_the_source_is_valid_for_the_oldest_python() -> None:
    """Parsed with the grammar of 3.9; run-time features are for the versions matrix in CI."""
    import ast

    for top in ("doctor", *LINKED):
        for file in (ROOT / top).rglob("*.py"):
            ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 9))
