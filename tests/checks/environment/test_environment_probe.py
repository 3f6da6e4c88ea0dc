"""The probe in other interpreters and environments: what is installed, importable, shadowed; nothing of it is run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from machines import Tree

from doctor.checks.environment import probe
from doctor.checks.environment.collect import collect
from doctor.checks.environment.sources import interpreter
from doctor.checks.environment.sources.commands import Output, run_all
from doctor.checks.environment.sources.machine import Machine

BOMB = "raise SystemExit('this must not be imported')\n"


def site(folder: Path, *names: str) -> Path:
    """Distributions with metadata; their modules may not be imported."""
    for entry in names:
        name, version = entry.split(" ")
        info = folder / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Python: >=3.9\nRequires-Dist: numpy<2.0.0\n\nnumpy>=9 in the description\n"
        )
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(BOMB)
    return folder


def test_versions_and_requirements(tmp_path: Path) -> None:
    path = [str(site(tmp_path, "mindspore 2.7.2", "numpy 2.1.0"))]
    facts = probe.examine(path, {}, str(tmp_path))
    assert facts["packages"] == {"mindspore": "2.7.2", "numpy": "2.1.0"}
    assert facts["distributions"]["mindspore"]["requires"] == ["numpy<2.0.0"]
    assert facts["distributions"]["mindspore"]["requires_python"] == ">=3.9"
    assert facts["modules"]["mindspore"]["origin"] == str(tmp_path / "mindspore" / "__init__.py")
    assert facts["modules"]["transformers"] is None


def test_old_forms_of_metadata(tmp_path: Path) -> None:
    egg = tmp_path / "mindspore_ascend-1.10.1-py3.9.egg-info"
    egg.mkdir()
    (egg / "PKG-INFO").write_text("Name: mindspore-ascend\nVersion: 1.10.1\n")
    develop = tmp_path / "mindformers.egg-info"
    develop.mkdir()
    (develop / "PKG-INFO").write_text("Name: mindformers\nVersion: 1.3.2\n")
    (tmp_path / "odd.dist-info").mkdir()
    facts = probe.examine([str(tmp_path)], {}, "/")
    assert facts["packages"] == {"mindspore-ascend": "1.10.1", "mindformers": "1.3.2"}


def test_a_package_installed_twice(tmp_path: Path) -> None:
    path = [str(site(tmp_path / "a", "mindspore 2.7.2")), str(site(tmp_path / "b", "mindspore 2.6.0"))]
    facts = probe.examine(path, {}, "/")
    assert facts["packages"]["mindspore"] == "2.7.2"
    assert facts["distributions"]["mindspore"]["others"] == [{"version": "2.6.0", "location": path[1]}]


def test_what_mindspore_says_of_itself(tmp_path: Path) -> None:
    root = site(tmp_path, "mindspore 2.9.0") / "mindspore"
    (root / "version.py").write_text("__version__ = '2.9.0'\n")
    (root / "run_check").mkdir()
    (root / "run_check" / "_check_version.py").write_text(
        "class GPUEnvChecker:\n    def __init__(self):\n        self.version = ['10.1', '11.1']\n\n"
        'class AscendEnvChecker:\n    def __init__(self, path):\n        self.version = ["8.5", "9.0"]\n'
    )
    custom = root / "lib" / "plugin" / "ascend" / "custom_ascendc_910b"
    custom.mkdir(parents=True)
    (custom / "version.info").write_text("custom_opp_compiler_version=9.0.0\n")
    facts = probe.examine([str(tmp_path)], {}, "/")["mindspore"]
    assert facts == {
        "path": str(root),
        "version": "2.9.0",
        "accepted_cann": ["8.5", "9.0"],
        "operators_built_with": "9.0.0",
        "backends": ["cpu", "ascend"],
        "needs_glibcxx": None,
    }


def test_mindformers_from_source(tmp_path: Path) -> None:
    root = tmp_path / "mindformers"
    (root / "trainer").mkdir(parents=True)
    (root / "trainer" / "__init__.py").write_text(BOMB)
    (root / "__init__.py").write_text('"""x"""\n__version__ = "1.8.0"\n' + BOMB)
    (root / "VERSION_MAP.json").write_text('{"mf": {"1.8.0": {"prefer": "2.7.2", "support": ["2.7.2"]}}}')
    facts = probe.examine([str(tmp_path)], {}, "/")["mindformers"]
    assert facts["version"] == "1.8.0" and not facts["installed"] and facts["has_trainer"]
    assert facts["version_map"]["mf"]["1.8.0"]["prefer"] == "2.7.2"


def test_a_version_map_nested_without_end_tells_nothing(tmp_path: Path) -> None:
    package = tmp_path / "mindformers"
    package.mkdir()
    (package / "VERSION_MAP.json").write_text("[" * 100_000)
    facts = probe.mindformers_facts(str(package), True)
    assert facts is not None and facts["version_map"] is None


def test_shadowing_files_and_folders(tmp_path: Path) -> None:
    path = [str(site(tmp_path / "lib" / "site-packages", "mindspore 2.7.2"))]
    job = tmp_path / "job"
    (job / "mindspore").mkdir(parents=True)
    (job / "mindspore" / "__init__.py").write_text(BOMB)
    (job / "datasets.py").write_text(BOMB)
    (job / "tokenizers").mkdir()  # a plain folder of files shadows nothing
    rows = probe.examine(path, {}, str(job))["shadows"]
    assert [(row["name"], row["kind"], row["installed"], row["looks_whole"]) for row in rows] == [
        ("mindspore", "folder", True, False),
        ("datasets", "file", False, False),
    ]


def test_versions_of_the_cpp_library(tmp_path: Path) -> None:
    """The first on LD_LIBRARY_PATH is the one that is loaded; MindSpore's own file says what it needs."""
    library = tmp_path / "lib" / "libstdc++.so.6"
    library.parent.mkdir()
    library.write_bytes(b"\x7fELF" + bytes(5000) + b"GLIBCXX_3.4\0GLIBCXX_3.4.9\0GLIBCXX_3.4.19\0GLIBCXX_3.4.2\0")
    found = probe.libstdcxx({"LD_LIBRARY_PATH": f"{tmp_path}/none:{library.parent}"})
    assert found == {"path": str(library), "glibcxx": "3.4.19"}
    package = tmp_path / "mindspore"
    package.mkdir()
    (package / "_c_mindrecord.cpython-311-x86_64-linux-gnu.so").write_bytes(b"\0GLIBCXX_3.4.26\0GLIBCXX_3.4.20\0")
    facts = probe.mindspore_facts(str(package))
    assert facts is not None and facts["needs_glibcxx"] == "3.4.26"
    assert probe.glibcxx(str(tmp_path / "absent")) is None and probe.glibcxx(str(package / "x")) is None


def test_an_empty_entry_of_pythonpath_is_the_working_folder() -> None:
    assert probe.search_path({"PYTHONPATH": "/a::/b:"}, "/job", ["/lib", "/a"]) == ["/a", "/job", "/b", "/lib"]


def interpreters() -> list[str]:
    """Other Pythons on PATH that start (a version manager's stand-ins may not)."""
    found = {os.path.realpath(path) for path in (shutil.which(f"python3.{minor}") for minor in range(7, 15)) if path}
    found.add("/usr/bin/python3")
    starts = []
    for path in sorted(found - {os.path.realpath(sys.executable)}):
        try:
            done = subprocess.run([path, "-I", "-c", ""], capture_output=True, timeout=20, check=False)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            starts.append(path)
    return starts


def ask(python: str, cwd: Path, **environ: str) -> dict[str, Any]:
    machine = Machine({"PATH": os.environ["PATH"], "HOME": str(cwd), **environ}, str(cwd))
    outputs = run_all({"python": interpreter.command(python, machine)}, machine.environ)
    return interpreter.child_facts(python, outputs["python"])


@pytest.mark.parametrize("python", interpreters() or [None])
def test_other_interpreters_of_this_machine(python: str | None, tmp_path: Path) -> None:
    if python is None:
        pytest.skip("no other interpreter here")
    facts = ask(python, tmp_path)
    said = subprocess.run(
        [python, "-I", "-c", "import sys; print('.'.join(map(str, sys.version_info[:3])))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert facts["python"]["error"] is None
    assert facts["python"]["version"] == said.stdout.strip()


def test_a_hostile_working_folder_and_pythonpath_are_not_run(tmp_path: Path) -> None:
    for name in ("json.py", "re.py", "os.py", "platform.py", "mindspore.py", "sitecustomize.py"):
        (tmp_path / name).write_text("open('ran', 'w').close()\n" + BOMB)
    facts = ask(sys.executable, tmp_path, PYTHONPATH=str(tmp_path))
    assert facts["python"]["error"] is None
    assert facts["modules"]["mindspore"]["origin"] == str(tmp_path / "mindspore.py")
    assert not (tmp_path / "ran").exists() and not Path("ran").exists()


def test_the_probe_needs_no_newer_python_than_3_7() -> None:
    import ast

    for name in ("probe.py", "deep_probe.py"):
        source = (Path(probe.__file__).parent / name).read_text(encoding="utf-8")
        ast.parse(source, feature_version=(3, 7))


def test_its_own_answer_and_a_childs_are_alike(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "root")
    own = collect(tree.machine(), python=sys.executable)
    child = ask(sys.executable, Path(tree.cwd))
    assert own["packages"] == child["packages"]
    assert own["python"]["version"] == child["python"]["version"]


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (Output("missing", message="No such file"), "could not be started"),
        (Output("timeout"), "did not answer"),
        (Output("failed", "", "Traceback\nImportError: libpython3.9.so\n", 127), "ImportError: libpython3.9.so"),
        (Output("ok", "hello"), "no output"),
        (Output("ok", f"{probe.MARK}[1]{probe.MARK}"), "no output"),
        (Output("ok", f"{probe.MARK}{{{probe.MARK}"), "no output"),
    ],
)
def test_answers_that_are_none(output: Output, reason: str) -> None:
    facts = interpreter.child_facts("/x/python", output)
    assert reason in facts["python"]["error"]
    assert facts["packages"] == {} and facts["modules"] is None


def test_which_interpreter_is_examined(tmp_path: Path) -> None:
    for name in ("venv", "conda"):
        python = tmp_path / name / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text("")
    venv, conda = str(tmp_path / "venv"), str(tmp_path / "conda")
    machine = Machine({"VIRTUAL_ENV": venv, "CONDA_PREFIX": conda}, "/")
    assert interpreter.chosen(machine, None) == (f"{venv}/bin/python", "VIRTUAL_ENV")
    assert interpreter.chosen(Machine({"CONDA_PREFIX": conda}, "/"), None) == (f"{conda}/bin/python", "CONDA_PREFIX")
    assert interpreter.chosen(machine, conda) == (f"{conda}/bin/python", "--python")
    assert interpreter.chosen(machine, f"{conda}/bin") == (f"{conda}/bin/python", "--python")
    assert interpreter.chosen(Machine({"VIRTUAL_ENV": "/gone"}, "/"), None)[0] == sys.executable
    on_path = Machine({"PATH": f".:/nowhere:{venv}/bin"}, "/")
    os.chmod(f"{venv}/bin/python", 0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [])
        assert interpreter.chosen(on_path, None) == (sys.executable, "the doctor's own")
        assert interpreter.chosen(on_path, None, meant_for_ascend=True) == (f"{venv}/bin/python", "PATH")
    assert interpreter.is_own(sys.executable) and not interpreter.is_own(f"{venv}/bin/python")


def test_facts_are_json(tmp_path: Path) -> None:
    facts = probe.examine(sys.path, dict(os.environ), str(tmp_path))
    assert json.loads(json.dumps(facts)) == facts
