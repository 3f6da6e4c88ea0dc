"""Facts of CANN: which version the environment points to, told from every file that records it, and what else is installed.

The order of trust is that of the installers: the package record (public version), the version table
of the suite, the component records of 8.5 and later, the older component records, the folder's name.
All readings are kept, because readings that disagree are a finding of their own.
"""

from __future__ import annotations

import re
from typing import Any, Optional

from doctor.checks.environment.sources.driver import listed
from doctor.checks.environment.sources.machine import Machine

ARCHES = ("aarch64", "x86_64")
#: variables that hold one root, in the order in which they are believed
ROOT_VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_AICPU_PATH", "ASCEND_OPP_PATH")
#: variables that hold lists of folders
LIST_VARIABLES = ("LD_LIBRARY_PATH", "PYTHONPATH", "PATH")
PACKAGE_RECORDS = ("ascend_toolkit_install.info", "ascend_nnae_install.info", "ascend_nnrt_install.info")
_ROOT = re.compile(r"(/.*?(?:/(?:ascend-toolkit|nnae|nnrt|nnal)/[^/]+|/cann(?:-[\w.-]+)?))(?=/|$)")
_VERSION_IN_NAME = re.compile(
    r"(?:^|/)(?:cann-)?(\d+\.\d+(?:\.(?:RC\d+|T\d+|\d+))*(?:[.-](?:alpha|beta)[.-]?\d+)?)$", re.I
)
_BOTH = re.compile(r"\[([^:\[\]]*):([^\[\]]+)\]")
#: components that stand for the suite
_MAIN: tuple[str, ...] = ("toolkit", "runtime", "compiler", "nnae")
#: subfolders that are links into the version folder where ``latest`` itself is a real folder
_INNER = ("compiler", "runtime", "opp", "toolkit")


def facts(machine: Machine) -> dict[str, Any]:
    """Everything about CANN as one dict; ``version`` is None when none is installed or none can be read."""
    in_use = roots_in_use(machine)
    home, home_variable = _home(machine)
    installs = _installs(machine)
    known = {row["identity"] for row in installs}
    for row in in_use:
        if row["exists"] and row["identity"] not in known and "/nnal/" not in row["root"]:
            installs.append(_install(machine, row["root"], "environment"))
            known.add(row["identity"])
    chosen = home if home is not None and machine.is_folder(home) else None
    if chosen is None and installs:
        chosen = installs[0]["path"]
    return {
        **_describe(machine, chosen),
        "home": home,
        "home_variable": home_variable,
        "home_exists": machine.is_folder(home) if home is not None else None,
        "home_readable": machine.may_enter(home) if home is not None and machine.is_folder(home) else None,
        "sourced": home is not None and machine.is_folder(home),
        "path": chosen,
        "roots_in_use": in_use,
        "installs": installs,
        "set_env": _set_env(machine, chosen),
        "custom_ops": _custom_ops(machine, chosen),
        "set_env_lines": _set_env_lines(machine),
    }


def _home(machine: Machine) -> tuple[Optional[str], Optional[str]]:
    for name in ROOT_VARIABLES:
        value = machine.environ.get(name, "").split(":")[0].rstrip("/")
        if value:
            return (value[: -len("/opp")] if value.endswith("/opp") else value), name
    return None, None


def root_of(path: str) -> Optional[str]:
    """The CANN root that a path lies in: ``/usr/local/Ascend/cann-8.5.0/lib64`` gives ``/usr/local/Ascend/cann-8.5.0``."""
    match = _ROOT.match(path.rstrip("/"))
    return match.group(1) if match else None


def roots_in_use(machine: Machine) -> list[dict[str, Any]]:
    """Every CANN root that the environment names, with the variables that name it and the version found there."""
    named: dict[str, list[str]] = {}
    for name in (*ROOT_VARIABLES, *LIST_VARIABLES):
        for entry in machine.environ.get(name, "").split(":"):
            root = root_of(entry) if entry.startswith("/") else None
            if root is None and entry.startswith("/") and name in ROOT_VARIABLES:
                root = entry.rstrip("/")
                root = root[: -len("/opp")] if root.endswith("/opp") else root
            if root is not None and name not in named.setdefault(root, []):
                named[root].append(name)
    return [
        {
            "root": root,
            "identity": identity(machine, root),
            "exists": machine.is_folder(root),
            "version": _describe(machine, root)["version"],
            "variables": variables,
        }
        for root, variables in named.items()
    ]


def identity(machine: Machine, root: str) -> str:
    """What a root really is: where its components lie. ``latest`` may be a link or a folder of links."""
    for name in _INNER:
        if machine.exists(f"{root}/{name}"):
            return machine.resolve(f"{root}/{name}").rsplit("/", 1)[0] or root
    return machine.resolve(root)


def _installs(machine: Machine) -> list[dict[str, Any]]:
    """What stands in the usual places, each real install once, the newest layout first."""
    rows: dict[str, dict[str, Any]] = {}
    bases = ["/usr/local/Ascend"]
    home = machine.home()
    if home:
        bases.append(home.rstrip("/") + "/Ascend")
    for prefix in ("CONDA_PREFIX", "VIRTUAL_ENV"):
        if machine.environ.get(prefix):
            bases.append(machine.environ[prefix].rstrip("/") + "/Ascend")
    for base in dict.fromkeys(bases):
        places = [f"{base}/cann"]
        places += [f"{base}/{name}" for name in machine.names(base) if name.startswith("cann-")]
        for suite in ("ascend-toolkit", "nnae"):
            inside = [name for name in machine.names(f"{base}/{suite}") if name[:1].isdecimal()]
            places += [f"{base}/{suite}/{name}" for name in ["latest", *inside]]
        for place in places:
            if machine.is_folder(place):
                row = _install(machine, place, "usual place")
                rows.setdefault(row["identity"], row)
    return list(rows.values())


def _install(machine: Machine, path: str, found: str) -> dict[str, Any]:
    kind = "nnae" if "/nnae/" in path else "toolkit"
    described = _describe(machine, path)
    return {
        "path": path,
        "identity": identity(machine, path),
        "version": described["version"],
        "kind": kind,
        "found": found,
    }


def _describe(machine: Machine, root: Optional[str]) -> dict[str, Any]:
    """Version, its internal number, all readings and the components of one root."""
    readings: list[dict[str, Optional[str]]] = []
    record: dict[str, str] = {}
    components: dict[str, dict[str, Optional[str]]] = {}
    if root is not None:
        record = _package_record(machine, root, readings)
        components = _version_table(machine, root, readings)
        _component_records(machine, root, readings)
        named = _VERSION_IN_NAME.search(identity(machine, root)) or _VERSION_IN_NAME.search(machine.resolve(root))
        if named is not None:
            readings.append({"source": root, "version": named.group(1), "internal": None})
    first = next((row for row in readings if row["version"]), None)
    internal = next((row["internal"] for row in readings if row["internal"]), None)
    return {
        "version": first["version"] if first else None,
        "version_source": first["source"] if first else None,
        "internal": internal,
        "innerversion": record.get("innerversion"),
        "compatible_driver": listed(record.get("compatible_version")),
        "arch": record.get("arch"),
        "readings": readings,
        "components": components,
        "ops": _ops(machine, root, components),
    }


def _package_record(machine: Machine, root: str, readings: list[dict[str, Optional[str]]]) -> dict[str, str]:
    parent = root.rsplit("/", 1)[0]
    folders = [f"{root}/{arch}-linux" for arch in ARCHES] + [root] + [f"{parent}/{arch}-linux" for arch in ARCHES]
    for folder in folders:
        for name in PACKAGE_RECORDS:
            values = machine.pairs(f"{folder}/{name}")
            if values is not None:
                readings.append(
                    {"source": f"{folder}/{name}", "version": values.get("version") or None, "internal": None}
                )
                return values
    return {}


def _version_table(
    machine: Machine, root: str, readings: list[dict[str, Optional[str]]]
) -> dict[str, dict[str, Optional[str]]]:
    """version.cfg: ``runtime_running_version=[7.6.0.1.220:8.0.0]`` by component and by stage."""
    source = f"{root}/version.cfg"
    values = machine.pairs(source)
    if values is None:
        return {}
    components: dict[str, dict[str, Optional[str]]] = {}
    internal: Optional[str] = None
    for key, value in values.items():
        match = re.fullmatch(r"(\w+?)_(running|installed|upgrade)_version", key)
        if match is None:
            continue
        both = _BOTH.findall(value)
        if match.group(2) == "installed":  # every release that stands side by side
            public = ",".join(pair[1] for pair in both) or value.strip("[] ") or None
        else:
            public = both[-1][1] if both else value.strip("[] ") or None
            internal = internal or (both[-1][0] if both else None)
        components.setdefault(match.group(1), {})[match.group(2)] = public
    if components:
        preferred = [name for name in _MAIN if name in components]
        best = components[preferred[0] if preferred else min(components)]
        public = best.get("running") or (best.get("installed") or "").split(",")[-1] or None
        readings.append({"source": source, "version": public, "internal": internal})
    return components


def _component_records(machine: Machine, root: str, readings: list[dict[str, Optional[str]]]) -> None:
    for name in ("runtime", "hccl"):
        source = f"{root}/share/info/{name}/version.info"
        values = machine.pairs(source)
        if values is not None and values.get("Version"):
            readings.append({"source": source, "version": values["Version"], "internal": values["Version"]})
    for name in ("compiler", "runtime", "opp", "hccl"):
        source = f"{root}/{name}/version.info"
        values = machine.pairs(source)
        if values is not None and (values.get("Version") or values.get("version_dir")):
            readings.append(
                {
                    "source": source,
                    "version": values.get("version_dir") or None,
                    "internal": values.get("Version") or None,
                }
            )


def _ops(machine: Machine, root: Optional[str], components: dict[str, dict[str, Optional[str]]]) -> dict[str, Any]:
    """The operator package: its record (8.5 and later), its row in version.cfg, and the chips it has kernels for."""
    if root is None:
        return {
            "package": None,
            "version": None,
            "kernels": [],
            "kernel_folder": False,
            "opp_kernel": None,
            "version_table": False,
        }
    record: dict[str, str] = {}
    for arch in ARCHES:
        values = machine.pairs(f"{root}/{arch}-linux/ascend_ops_install.info")
        if values is not None:
            record = values
            break
    base = f"{root}/opp/built-in/op_impl/ai_core/tbe/kernel"
    # Without the operator package a folder of the chip may still be there, with the toolkit's ops_oam only.
    kernels = {name for name in machine.names(base) if set(machine.names(f"{base}/{name}")) - {"ops_oam"}}
    kernels |= {name for name in machine.names(f"{base}/config") if machine.names(f"{base}/config/{name}")}
    opp_kernel = components.get("opp_kernel", {})
    return {
        "package": record.get("package_name"),
        "version": record.get("version"),
        "kernels": sorted(name for name in kernels if re.fullmatch(r"ascend\d\w*", name)),
        "kernel_folder": machine.is_folder(base),
        "opp_kernel": opp_kernel.get("running") or opp_kernel.get("installed"),
        "version_table": bool(components),
    }


def _custom_ops(machine: Machine, root: Optional[str]) -> list[dict[str, Any]]:
    """Operator packages of third parties: those under opp/vendors and those ASCEND_CUSTOM_OPP_PATH names."""
    rows: list[dict[str, Any]] = []
    if root is not None:
        folder = f"{root}/opp/vendors"
        order = (machine.pairs(f"{folder}/config.ini") or {}).get("load_priority", "")
        loaded = [name.strip() for name in order.split(",") if name.strip()]
        for name in machine.names(folder):
            if machine.is_folder(f"{folder}/{name}"):
                rows.append(_custom_op(machine, f"{folder}/{name}", name in loaded))
    for entry in machine.environ.get("ASCEND_CUSTOM_OPP_PATH", "").split(":"):
        # MindSpore adds its own folders when it is imported; they are of its version by nature.
        if entry.startswith("/") and "/mindspore/" not in entry:
            rows.append(_custom_op(machine, entry.rstrip("/"), True))
    return rows


def _custom_op(machine: Machine, path: str, loaded: bool) -> dict[str, Any]:
    built = (machine.pairs(f"{path}/version.info") or {}).get("custom_opp_compiler_version")
    return {"path": path, "built_with": built, "loaded": loaded, "exists": machine.is_folder(path)}


def _set_env(machine: Machine, root: Optional[str]) -> Optional[str]:
    """The script to source for that root."""
    if root is None:
        return None
    parent = root.rsplit("/", 1)[0]
    return next((path for path in (f"{root}/set_env.sh", f"{parent}/set_env.sh") if machine.exists(path)), None)


def _set_env_lines(machine: Machine) -> Optional[list[str]]:
    """The set_env.sh scripts of CANN that the user's shell start-up files source; None when no home folder can be read."""
    home = machine.home()
    if not home or not machine.names(home):
        return None
    found: dict[str, None] = {}
    for name in (".bashrc", ".bash_profile", ".profile", ".zshrc"):
        for line in (machine.read(f"{home}/{name}") or "").splitlines():
            match = re.match(r"\s*(?:source|\.)\s+[\"']?([^\s\"';&]*set_env\.sh)", line)
            if match is not None and (
                "ascend-toolkit" in match.group(1) or "/cann" in match.group(1) or "/nnae" in match.group(1)
            ):
                found.setdefault(match.group(1))
    return list(found)
