"""Looks at one Python interpreter from inside without importing anything of it: standard library only, Python 3.7 on.

The doctor calls `examine` when the interpreter is its own; for another one it hands this file's text
to ``python -I -c``. Nothing found on the search path is executed: versions come from metadata files,
importability from find_spec, MindSpore's own expectations from the text of its files.
"""

from __future__ import annotations

import json
import os
import re
import sys
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

MARK = "<<doctor-probe>>"
HEAD = 256 * 1024
#: distributions whose declared requirements are read
DECLARING = [
    "mindspore",
    "mindspore-ascend",
    "mindspore-gpu",
    "mindspore-dev",
    "mindformers",
    "mindnlp",
    "mindpet",
    "hyper-parallel",
    "vllm-mindspore",
    "transformers",
    "tokenizers",
    "datasets",
    "torch",
    "torch-npu",
    "te",
    "topi",
    "hccl",
]
#: import names that the checks ask for
MODULES = [
    "mindspore",
    "mindformers",
    "numpy",
    "scipy",
    "decorator",
    "attr",
    "sympy",
    "psutil",
    "cffi",
    "yaml",
    "te",
    "tbe",
    "hccl",
    "torch",
    "torch_npu",
    "transformers",
    "tokenizers",
    "safetensors",
    "datasets",
]
#: what a file or folder of the user must not be called
SHADOWABLE = ("mindspore", "mindformers", "numpy", "transformers", "tokenizers", "datasets", "safetensors", "torch")
_DIST = re.compile(r"(.+?)-(\d[^-]*)(?:-py\d[\d.]*)?\.(dist-info|egg-info)$")


def _read(path: str, limit: int = HEAD) -> str | None:
    try:
        if not os.path.isfile(path):
            return None
        with open(path, "rb") as handle:
            return handle.read(limit).decode("utf-8", "replace")
    except OSError:
        return None


def _names(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def search_path(environ: Mapping[str, str], cwd: str, entries: list[str]) -> list[str]:
    """Where a training script would import from, the script's own folder apart: PYTHONPATH, then `entries`."""
    python_path = environ.get("PYTHONPATH")
    ahead = [entry or cwd for entry in python_path.split(os.pathsep)] if python_path else []
    found: list[str] = []
    for entry in ahead + [entry or cwd for entry in entries]:
        if entry not in found:
            found.append(entry)
    return found


def distributions(path: list[str]) -> dict[str, dict[str, Any]]:
    """``{name: {version, location, requires, requires_python, others}}`` of everything installed on `path`."""
    found: dict[str, dict[str, Any]] = {}
    for folder in path:
        for entry in _names(folder):
            if not entry.endswith(("-info",)):
                continue
            match = _DIST.match(entry)
            place = os.path.join(folder, entry)
            metadata = None
            if match is None:
                if not entry.endswith(".egg-info") or not os.path.isdir(place):
                    continue
                metadata = _headers(_read(os.path.join(place, "PKG-INFO")))
                name, version = normal(entry[: -len(".egg-info")]), _first(metadata, "Version")
            else:
                name, version = normal(match.group(1)), match.group(2)
                if name in DECLARING:
                    metadata = _headers(
                        _read(os.path.join(place, "METADATA")) or _read(os.path.join(place, "PKG-INFO"))
                    )
                    version = _first(metadata, "Version") or version
            if name in found:
                found[name]["others"].append({"version": version, "location": folder})
                continue
            row: dict[str, Any] = {"version": version, "location": folder, "others": []}
            if metadata is not None:
                row["requires"] = metadata.get("Requires-Dist", [])
                row["requires_python"] = _first(metadata, "Requires-Python")
            found[name] = row
    return found


def _headers(text: str | None) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for line in (text or "").splitlines():
        if not line.strip():
            break
        key, colon, value = line.partition(":")
        if colon and not key[:1].isspace():
            values.setdefault(key, []).append(value.strip())
    return values


def _first(headers: dict[str, list[str]], key: str) -> str | None:
    values = headers.get(key)
    return values[0] if values else None


def find(name: str, path: list[str]) -> dict[str, Any] | None:
    """Where `import name` would take it from: {origin, folder}, or None. Top-level names only: nothing is run."""
    finders = [PathFinder] + [
        finder
        for finder in sys.meta_path
        if finder is not PathFinder
        and "editable" in getattr(finder, "__module__", "") + getattr(finder, "__name__", "")
    ]
    for finder in finders:
        try:
            spec = finder.find_spec(name, path if finder is PathFinder else None)
        except Exception:  # noqa: BLE001 - a foreign finder may raise anything; it then finds nothing
            spec = None
        if spec is None:
            continue
        places = list(spec.submodule_search_locations or [])
        origin = spec.origin if spec.origin not in (None, "namespace") else None
        return {"origin": origin, "folder": os.path.abspath(places[0]) if places else None, "namespace": origin is None}
    return None


def shadows(cwd: str, path: list[str], found: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Files and folders of the user that would be imported in place of an installed package."""
    rows = []
    sites = [folder for folder in path if folder.rstrip("/").endswith(("site-packages", "dist-packages"))]
    for folder in [cwd] + [entry for entry in path if entry not in sites and entry != cwd]:
        for name in SHADOWABLE:
            package = os.path.join(folder, name)
            kind = "file" if os.path.isfile(package + ".py") else None
            if kind is None and os.path.isfile(os.path.join(package, "__init__.py")):
                kind = "folder"
            if kind is None:
                continue
            installed = found.get(name)
            if installed is not None and os.path.abspath(installed["location"]) == os.path.abspath(folder):
                continue  # an egg-info beside it: installed from source, in place
            rows.append(
                {
                    "name": name,
                    "path": package + ".py" if kind == "file" else package,
                    "kind": kind,
                    "in_cwd": folder == cwd,
                    "installed": installed is not None,
                    "looks_whole": kind == "folder"
                    and os.path.isfile(os.path.join(package, "version.py" if name == "mindspore" else "__init__.py"))
                    and (name != "mindspore" or os.path.isdir(os.path.join(package, "lib"))),
                }
            )
    return rows


def mindspore_facts(folder: str | None) -> dict[str, Any] | None:
    """What MindSpore's own files expect: the CANN versions it accepts, the CANN its operators were built with, its back ends."""
    if folder is None:
        return None
    text = _read(os.path.join(folder, "run_check", "_check_version.py")) or ""
    ascend = text[text.find("class AscendEnvChecker") :] if "class AscendEnvChecker" in text else ""
    accepted = re.search(r"self\.version\s*=\s*\[([^\]]*)\]", ascend)
    version = re.search(r"__version__\s*=\s*['\"]([^'\"]+)", _read(os.path.join(folder, "version.py")) or "")
    plugin = os.path.join(folder, "lib", "plugin")
    names = _names(plugin)
    built = None
    for name in ("custom_ascendc_910b", "custom_ascendc_910"):
        record = _read(os.path.join(plugin, "ascend", name, "version.info")) or ""
        match = re.search(r"custom_opp_compiler_version\s*=\s*(\S+)", record)
        built = built or (match.group(1) if match else None)
    backends = ["cpu"] if names or _names(os.path.join(folder, "lib")) else []
    if any(name.startswith(("libmindspore_ascend", "ascend")) for name in names):
        backends.append("ascend")
    if any(name.startswith(("libmindspore_gpu", "gpu")) for name in names):
        backends.append("gpu")
    return {
        "path": folder,
        "version": version.group(1) if version else None,
        "accepted_cann": re.findall(r"['\"]([\w.]+)['\"]", accepted.group(1)) if accepted else None,
        "operators_built_with": built,
        "backends": backends,
        "needs_glibcxx": next(
            (glibcxx(os.path.join(folder, name)) for name in _names(folder) if name.startswith("_c_mindrecord")), None
        ),
    }


def mindformers_facts(folder: str | None, installed: bool) -> dict[str, Any] | None:
    """Version, whether it is a source tree, and the pairs its VERSION_MAP.json declares."""
    if folder is None:
        return None
    version = re.search(r"__version__\s*=\s*['\"]([^'\"]+)", _read(os.path.join(folder, "__init__.py")) or "")
    pairs = None
    text = _read(os.path.join(folder, "VERSION_MAP.json"))
    if text:
        try:
            pairs = json.loads(text)
        except (ValueError, RecursionError):
            pairs = None
    return {
        "path": folder,
        "version": version.group(1) if version else None,
        "installed": installed,
        "version_map": pairs if isinstance(pairs, dict) else None,
        "has_trainer": os.path.isfile(os.path.join(folder, "trainer", "__init__.py")),
    }


def glibcxx(path: str) -> str | None:
    """The newest GLIBCXX version that a library names, such as 3.4.30: what libstdc++ offers, or what another needs.

    The names stand in the string table near the head of the file: the first MiB is read."""
    try:
        with open(path, "rb") as handle:
            found = re.findall(rb"GLIBCXX_3\.4\.(\d{1,3})\0", handle.read(1024 * 1024))
    except OSError:
        return None
    return "3.4." + str(max(int(number) for number in found)) if found else None


def libstdcxx(environ: Mapping[str, str]) -> dict[str, Any] | None:
    """The libstdc++ that the loader takes first: of LD_LIBRARY_PATH, of a conda environment, of the system."""
    folders = [entry for entry in environ.get("LD_LIBRARY_PATH", "").split(":") if entry]
    if kind_of() == "conda":
        folders.append(os.path.join(sys.prefix, "lib"))
    folders += ["/lib/" + machine() + "-linux-gnu", "/usr/lib/" + machine() + "-linux-gnu"]
    folders += ["/lib64", "/usr/lib64", "/lib", "/usr/lib"]
    for folder in folders:
        path = os.path.join(folder, "libstdc++.so.6")
        if os.path.isfile(path):
            return {"path": path, "glibcxx": glibcxx(path)}
    return None


def libpython(environ: Mapping[str, str]) -> str | None:
    """A shared libpython of this version, or None when none of the usual folders has one."""
    stem = "libpython" + ".".join(map(str, sys.version_info[:2]))
    folders = [os.path.join(prefix, "lib") for prefix in (sys.prefix, sys.base_prefix, "/usr", "/usr/local")]
    folders += ["/usr/lib64", "/lib64", "/usr/lib/" + machine() + "-linux-gnu"]
    folders += [entry for entry in environ.get("LD_LIBRARY_PATH", "").split(":") if entry]
    for folder in folders:
        for name in _names(folder):
            if name.startswith(stem) and ".so" in name:
                return os.path.join(folder, name)
    return None


def machine() -> str:
    return os.uname().machine if hasattr(os, "uname") else ""


def kind_of() -> str:
    if os.path.isdir(os.path.join(sys.prefix, "conda-meta")):
        return "conda"
    return "venv" if sys.prefix != sys.base_prefix else "system"


def examine(path: list[str], environ: Mapping[str, str], cwd: str) -> dict[str, Any]:
    """Everything about this interpreter as plain JSON values."""
    installed = distributions(path)
    modules = {name: find(name, path) for name in MODULES}
    spots = {name: (modules[name] or {}).get("folder") for name in ("mindspore", "mindformers")}
    return {
        "python": {
            "executable": sys.executable or None,
            "version": ".".join(map(str, sys.version_info[:3])),
            "implementation": sys.implementation.name,
            "prefix": sys.prefix,
            "kind": kind_of(),
            "machine": machine() or None,
            "pip": (installed.get("pip") or {}).get("version"),
            "libpython": libpython(environ),
            "libstdcxx": libstdcxx(environ),
            "path": path,
            "error": None,
        },
        "packages": {name: installed[name]["version"] for name in sorted(installed)},
        "distributions": {name: row for name, row in sorted(installed.items()) if name in DECLARING or row["others"]},
        "modules": modules,
        "shadows": shadows(cwd, path, installed),
        "mindspore": mindspore_facts(spots["mindspore"]),
        "mindformers": mindformers_facts(spots["mindformers"], "mindformers" in installed),
    }


def main(argv: list[str]) -> None:
    cwd = argv[1] if len(argv) > 1 else os.getcwd()
    entries = list(sys.path)
    user = os.path.expanduser("~/.local/lib/python" + ".".join(map(str, sys.version_info[:2])) + "/site-packages")
    if sys.prefix == sys.base_prefix and not os.environ.get("PYTHONNOUSERSITE") and os.path.isdir(user):
        entries.insert(0, user)
    facts = examine(search_path(os.environ, cwd, entries), os.environ, cwd)
    sys.stdout.write(MARK + json.dumps(facts) + MARK + "\n")


if __name__ == "__main__":
    main(sys.argv)
