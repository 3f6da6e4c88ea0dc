"""Builds folders that look like machines: version files, device nodes, an npu-smi that prints what it is told."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from doctor.checks.environment.sources.machine import Machine

#: public version -> (internal number, innerversion of the package record)
CANN = {
    "6.3.RC2": ("6.4.12.1.241", "V100R001C12SPC001B250"),
    "7.0.RC1": ("7.0.0.5.242", "V100R001C13SPC001B249"),
    "7.0.0": ("7.1.0.3.220", "V100R001C15SPC003B220"),
    "8.0.RC3": ("7.5.0.1.129", "V100R001C19SPC001B148"),
    "8.0.0": ("7.6.0.1.220", "V100R001C20SPC001B251"),
    "8.1.RC1": ("7.7.0.1.238", "V100R001C21SPC001B238"),
    "8.2.RC1": ("8.2.0.1.210", "V100R001C22SPC001B231"),
    "8.3.RC1": ("8.3.0.1.200", "V100R001C23SPC001B235"),
    "8.5.0": ("8.5.0.1.215", "V100R001C25SPC001B212"),
    "9.0.0": ("9.0.0", "V100R001C26SPC001B210"),
    "9.1.0": ("9.1.0", "V100R001C27SPC001B204"),
}


@dataclass
class Card:
    """One die in the table."""

    npu: int
    name: str = "910B3"
    chip: int = 0
    health: str = "OK"
    used: int = 3390
    total: int = 65536
    bus: str = "0000:C1:00.0"
    physical: Optional[int] = None


def hbm_table(
    cards: Sequence[Card], processes: Sequence[tuple[int, int, int, str, int]] = (), driver: str = "25.5.0"
) -> str:
    """The table of an HBM card, or of an A3 where a card has a physical id."""
    a3 = any(card.physical is not None for card in cards)
    bar = "+===========================+===============+====================================================+"
    lines = [
        "+" + "-" * 96 + "+",
        f"| npu-smi {driver:<24}Version: {driver:<54}|",
        "+---------------------------+---------------+----------------------------------------------------+",
        "| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|",
        f"| Chip  {'Phy-ID' if a3 else '      '}              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |",
        bar,
    ]
    for card in cards:
        power = "-" if a3 and card.chip else "93.2"
        physical = "" if card.physical is None else str(card.physical)
        lines += [
            f"| {card.npu:<6}{card.name:<20}| {card.health:<14}| {power:<12}41                0    / 0             |",
            f"| {card.chip:<6}{physical:<20}| {card.bus:<14}| 0           0    / 0          {card.used:<5}/ {card.total:<14}|",
            bar,
        ]
    lines += [
        "+---------------------------+---------------+----------------------------------------------------+",
        "| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |",
        bar,
    ]
    for npu in dict.fromkeys(card.npu for card in cards):
        own = [row for row in processes if row[0] == npu]
        if not own:
            lines += [f"| No running processes found in NPU {npu:<61}|", bar]
        for _, chip, pid, name, memory in own:
            lines += [f"| {npu:<8}{chip:<18}| {pid:<14}| {name:<25}| {memory:<24}|", bar]
    return "\n".join(lines) + "\n"


def ddr_table(cards: Sequence[Card], driver: str = "23.0.3") -> str:
    """The table of a 310, 310P or 310B."""
    bar = "+===============================+=================+======================================================+"
    lines = [
        "+" + "-" * 104 + "+",
        f"| npu-smi {driver:<40}Version: {driver:<46}|",
        "+-------------------------------+-----------------+------------------------------------------------------+",
        "| NPU     Name                  | Health          | Power(W)     Temp(C)           Hugepages-Usage(page) |",
        "| Chip    Device                | Bus-Id          | AICore(%)    Memory-Usage(MB)                        |",
        bar,
    ]
    for number, card in enumerate(cards):
        lines += [
            f"| {card.npu:<8}{card.name:<22}| {card.health:<16}| NA           51                0     / 0             |",
            f"| {card.chip:<8}{number:<22}| {card.bus:<16}| 0            {card.used:<5}/ {card.total:<34}|",
            bar,
        ]
    return "\n".join(lines) + "\n"


@dataclass
class Tree:
    """A folder as the root of a machine. Every method returns the tree, so that they chain."""

    root: Path
    environ: dict[str, str] = field(default_factory=lambda: {"PATH": "/usr/local/bin:/usr/bin", "HOME": "/home/train"})
    cwd: str = "/home/train/job"

    def __post_init__(self) -> None:
        for folder in ("/dev", "/tmp", self.cwd, "/usr/local/bin", "/etc"):
            self.at(folder).mkdir(parents=True, exist_ok=True)
        self.file("/dev/null")

    def at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def file(self, path: str, text: str | bytes = "", mode: int = 0o644) -> Tree:
        place = self.at(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode() if isinstance(text, str) else text)
        place.chmod(mode)
        return self

    def link(self, path: str, target: str) -> Tree:
        """A link to a path of the machine, relative so that it stays inside the tree."""
        place = self.at(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(os.path.relpath(self.at(target), place.parent))
        return self

    def env(self, **values: str) -> Tree:
        self.environ.update(values)
        return self

    def driver(
        self, version: str = "25.5.0", firmware: Optional[str] = None, firmware_range: str = "[7.0.0,7.9.99]"
    ) -> Tree:
        self.file(
            "/etc/ascend_install.info",
            "UserName=HwHiAiUser\nUserGroup=HwHiAiUser\nDriver_Install_Type=full\nDriver_Install_Path_Param=/usr/local/Ascend\n"
            "Driver_Install_For_All=yes\nFirmware_Install_Path_Param=/usr/local/Ascend\n",
        )
        trains = "[V100R001C19],[V100R001C25]" if version.startswith(("25", "26")) else "[V100R001C13],[V100R001C15]"
        self.file(
            "/usr/local/Ascend/driver/version.info",
            f"Version={version}\nascendhal_version=7.35.23\nInnerversion=V100R001C25SPC002B220\n"
            f"compatible_version={trains}\ncompatible_version_fw={firmware_range}\n",
        )
        if firmware is not None:
            self.file("/usr/local/Ascend/firmware/version.info", f"Version={firmware}\npackage_version={version}\n")
        return self

    def devices(self, count: int = 8, mode: int = 0o666) -> Tree:
        for name in [f"davinci{number}" for number in range(count)] + ["davinci_manager", "devmm_svm", "hisi_hdc"]:
            self.file(f"/dev/{name}", "", mode)
        return self

    def cann(
        self,
        version: str = "8.5.0",
        *,
        chips: Sequence[str] = ("ascend910b",),
        source: bool = True,
        arch: str = "aarch64",
    ) -> Tree:
        """A CANN in the layout of its time. `chips` are those that the operator package brings; none, no package."""
        internal, inner = CANN[version]
        new = tuple(int(part) for part in version.split(".")[:2]) >= (8, 5)
        base = f"/usr/local/Ascend/cann-{version}" if new else f"/usr/local/Ascend/ascend-toolkit/{version}"
        home = base if new else "/usr/local/Ascend/ascend-toolkit/latest"
        self.file(
            f"{base}/{arch}-linux/ascend_toolkit_install.info",
            f"package_name=Ascend-cann-toolkit\nversion={version}\ninnerversion={inner}\ncompatible_version=[V100R001C19],[V100R001C25]\n"
            f"arch={arch}\nos=linux\npath={base}/{arch}-linux\n",
        )
        parts = ["runtime", "compiler", "hccl", "opp", "toolkit"] + (["opp_kernel"] if chips else [])
        stages = ("running", "upgrade", "installed")
        self.file(
            f"{base}/version.cfg",
            "# version: 1.0\n" + "".join(f"{p}_{s}_version=[{internal}:{version}]\n" for s in stages for p in parts),
        )
        for part in ("runtime", "compiler", "hccl", "opp"):
            self.file(
                f"{base}/{part}/version.info",
                f"Version={internal}\nversion_dir={version}\ntimestamp=20260110_101010101\n",
            )
        kernels = f"{base}/opp/built-in/op_impl/ai_core/tbe/kernel"
        for chip in chips:
            self.file(f"{kernels}/config/{chip}/binary_info_config.json", "{}")
            self.file(f"{kernels}/{chip}/mat_mul/MatMul_1.o", "")
        if not chips:
            self.file(f"{kernels}/ascend910b/ops_oam/x.o", "")
        script = "/usr/local/Ascend/cann/set_env.sh" if new else "/usr/local/Ascend/ascend-toolkit/set_env.sh"
        if new:
            if not self.at("/usr/local/Ascend/cann").exists():
                self.link("/usr/local/Ascend/cann", base)
            self.file(f"{base}/set_env.sh", "")
        else:
            if not self.at(home).exists():
                self.link(home, base)
            self.file(script, "")
        return self.source(home) if source else self

    def source(self, home: str) -> Tree:
        """What set_env.sh of that root leaves in the environment."""
        ahead = {
            "LD_LIBRARY_PATH": f"{home}/lib64:{home}/lib64/plugin/opskernel",
            "PYTHONPATH": f"{home}/python/site-packages:{home}/opp/built-in/op_impl/ai_core/tbe",
            "PATH": f"{home}/bin",
        }
        for name, value in ahead.items():
            before = self.environ.get(name)
            self.environ[name] = f"{value}:{before}" if before else value
        return self.env(
            ASCEND_TOOLKIT_HOME=home,
            ASCEND_HOME_PATH=home,
            ASCEND_AICPU_PATH=home,
            ASCEND_OPP_PATH=f"{home}/opp",
            TOOLCHAIN_HOME=f"{home}/toolkit",
        )

    def npu_smi(
        self, text: str, *, code: int = 0, errors: str = "", answers: Optional[Mapping[str, str]] = None
    ) -> Tree:
        """A script in the place of npu-smi. `answers` maps the words after ``info`` to other outputs."""
        cases = "".join(
            f"  '{words}') cat <<'END'\n{answer}\nEND\n  exit 0;;\n" for words, answer in (answers or {}).items()
        )
        script = (
            f"#!/bin/sh\ncase \"$*\" in\n{cases}  info) ;;\n  *) echo 'This device does not support querying it.'; exit 1;;\nesac\n"
            f"cat <<'END'\n{text}\nEND\ncat >&2 <<'END'\n{errors}\nEND\nexit {code}\n"
        )
        return self.file("/usr/local/bin/npu-smi", script, 0o755)

    def machine(self) -> Machine:
        return Machine(environ=dict(self.environ), cwd=self.cwd, root=str(self.root))


#: what the packages of each release declare, as far as the checks look
REQUIRES = {
    "mindspore 2.7.2": [
        "numpy<2.0.0,>=1.20.0",
        "protobuf>=3.13.0",
        "scipy>=1.5.4",
        "psutil>=5.6.1",
        "safetensors>=0.4.0",
    ],
    "mindspore 2.10.0": ["numpy>=1.25.0", "protobuf>=7.34.1", "scipy>=1.5.4", "psutil>=5.7.0", "safetensors>=0.4.0"],
    "mindformers 1.8.0": [
        "setuptools",
        "numpy<2.0.0",
        "tokenizers",
        "safetensors",
        "transformers==4.57.1",
        "datasets>=4.0.0",
        "mindspore~=2.7.2",
    ],
    "transformers 4.57.1": [
        "numpy>=1.17",
        "pyyaml>=5.1",
        "tokenizers<=0.23.0,>=0.22.0",
        "safetensors>=0.4.3",
        'torch>=2.2 ; extra == "torch"',
    ],
}
ACCEPTED = {
    "2.7.0": ["7.7", "7.8", "8.2"],
    "2.7.1": ["7.8", "8.2", "8.3"],
    "2.7.2": ["8.5"],
    "2.9.0": ["8.2", "8.3", "8.5", "9.0"],
    "2.10.0": ["8.2", "8.3", "8.5", "9.0", "9.1"],
}
SITE = "/opt/conda/envs/ms/lib/python3.11/site-packages"


def interpreter(*packages: str, python: str = "3.11.4", machine: str = "aarch64", **more: Any) -> dict[str, Any]:
    """The probe's answer for an interpreter with those packages (``name version``) and what CANN needs of Python."""
    base = [
        "numpy 1.26.4",
        "scipy 1.13.1",
        "decorator 5.1.1",
        "attrs 24.2.0",
        "sympy 1.13.1",
        "psutil 6.0.0",
        "cffi 1.17.1",
        "pyyaml 6.0.2",
        "protobuf 3.20.3",
        "safetensors 0.5.3",
        "setuptools 75.1.0",
        "pip 24.2",
    ]
    versions = dict(entry.split(" ") for entry in (*base, *packages))
    for name in [name for name, version in versions.items() if version == "-"]:
        del versions[name]  # "numpy -" takes one out
    modules = {"attrs": "attr", "pyyaml": "yaml", "torch-npu": "torch_npu"}
    names = [
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
    installed = {modules.get(name, name) for name in versions}
    mindspore = versions.get("mindspore")
    answer: dict[str, Any] = {
        "python": {
            "executable": "/opt/conda/envs/ms/bin/python",
            "version": python,
            "implementation": "cpython",
            "prefix": "/opt/conda/envs/ms",
            "kind": "conda",
            "machine": machine,
            "pip": versions.get("pip"),
            "libpython": "/opt/conda/envs/ms/lib/libpython3.11.so",
            "path": [SITE],
            "error": None,
            "chosen_by": "CONDA_PREFIX",
        },
        "packages": {name: versions[name] for name in sorted(versions)},
        "distributions": {
            name: {
                "version": version,
                "location": SITE,
                "others": [],
                "requires": REQUIRES.get(f"{name} {version}", []),
                "requires_python": None,
            }
            for name, version in sorted(versions.items())
            if name
            in {
                "mindspore",
                "mindformers",
                "transformers",
                "tokenizers",
                "datasets",
                "torch",
                "torch-npu",
                "te",
                "hccl",
                "topi",
                "mindspore-ascend",
            }
        },
        "modules": {
            name: (
                {"origin": f"{SITE}/{name}/__init__.py", "folder": f"{SITE}/{name}", "namespace": False}
                if name in installed
                else None
            )
            for name in names
        },
        "shadows": [],
        "mindspore": {
            "path": f"{SITE}/mindspore",
            "version": mindspore,
            "accepted_cann": ACCEPTED.get(mindspore),
            "operators_built_with": None,
            "backends": ["cpu", "ascend"],
        }
        if mindspore
        else None,
        "mindformers": {
            "path": f"{SITE}/mindformers",
            "version": versions["mindformers"],
            "installed": True,
            "version_map": None,
            "has_trainer": True,
        }
        if "mindformers" in versions
        else None,
    }
    for key, value in more.items():
        answer[key] = {**answer[key], **value} if isinstance(value, dict) and isinstance(answer[key], dict) else value
    return answer


#: the host part of a healthy eight-card server
SERVER: dict[str, Any] = {
    "hostname": "node-1",
    "os": "openEuler 22.03 (LTS-SP4)",
    "os_id": "openEuler",
    "kernel": "5.10.0-216.0.0.115.oe2203sp4.aarch64",
    "machine": "aarch64",
    "glibc": "2.34",
    "container": None,
    "user": {
        "uid": 1001,
        "gid": 1001,
        "groups": [1000, 1001],
        "name": "train",
        "in_passwd": True,
        "home": "/home/train",
    },
    "cpu": {
        "count": 192,
        "usable": 192,
        "quota": None,
        "model": "Kunpeng-920",
        "governor": "performance",
        "numa_nodes": 8,
    },
    "memory": {"total_mb": 1544000, "available_mb": 1490000, "swap_mb": 0, "limit_mb": None, "limit_used_mb": None},
    "disks": [
        {
            "path": "/",
            "purpose": "root",
            "hangs": False,
            "file_system": "ext4",
            "network": False,
            "exists": True,
            "total_mb": 900000,
            "free_mb": 512000,
            "inodes_free_percent": 93.0,
            "writable": False,
            "read_only": False,
        },
        {
            "path": "/tmp",
            "purpose": "tmp",
            "hangs": False,
            "file_system": "tmpfs",
            "network": False,
            "exists": True,
            "total_mb": 772000,
            "free_mb": 771000,
            "inodes_free_percent": 99.0,
            "writable": True,
            "read_only": False,
        },
    ],
    "shm": {"total_mb": 772000, "free_mb": 771800},
    "shared_segments": [],
    "clock": {"synchronised": True, "max_error_us": 16000},
    "collected_at": 1790000000,
}


def document(facts: dict[str, Any]) -> dict[str, Any]:
    return {"schema": "doctor.report/1", "command": "collect", "facts": facts}


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1, sort_keys=False) + "\n"
