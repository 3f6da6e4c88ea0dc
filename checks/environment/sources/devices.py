"""Facts of the device nodes and of the PCI bus: what the kernel shows, whether or not npu-smi answers."""

from __future__ import annotations

import os
import re
import stat
from typing import Any, Optional

from doctor.checks.environment.sources.machine import Machine

CONTROL = ("davinci_manager", "devmm_svm", "hisi_hdc")
HUAWEI, NVIDIA = "0x19e5", "0x10de"


def facts(machine: Machine) -> dict[str, Any]:
    """``{davinci: [node…], control: {name: node or None}, pci: {vendor:device: count}, gpus}``."""
    names = machine.names("/dev")
    numbers = sorted(int(name[7:]) for name in names if re.fullmatch(r"davinci\d{1,5}", name))
    pci, gpus = _pci(machine)
    return {
        "davinci": [{"id": number, **(_node(machine, f"/dev/davinci{number}") or {})} for number in numbers],
        "control": {name: _node(machine, f"/dev/{name}") for name in CONTROL},
        "virtual": [name for name in names if re.fullmatch(r"vdavinci\d+", name)],
        "pci": pci,
        "gpus": gpus,
        "dev_readable": bool(names),
    }


def _node(machine: Machine, path: str) -> Optional[dict[str, Any]]:
    try:
        status = os.stat(machine.real(path))
    except OSError:
        return None
    return {
        "path": path,
        "mode": f"{stat.S_IMODE(status.st_mode):04o}",
        "uid": status.st_uid,
        "gid": status.st_gid,
        "group": _group(status.st_gid),
        "read": os.access(machine.real(path), os.R_OK),
        "write": os.access(machine.real(path), os.W_OK),
    }


def _group(gid: int) -> Optional[str]:
    try:
        import grp

        return grp.getgrgid(gid).gr_name
    except (ImportError, KeyError, OSError):
        return None


def _pci(machine: Machine) -> tuple[dict[str, int], int]:
    """Counts of Ascend accelerators by vendor:device, and of NVIDIA display controllers."""
    base = "/sys/bus/pci/devices"
    counts: dict[str, int] = {}
    gpus = 0
    for name in machine.names(base):
        vendor = (machine.read(f"{base}/{name}/vendor", 16) or "").strip()
        if vendor not in (HUAWEI, NVIDIA):
            continue
        kind = (machine.read(f"{base}/{name}/class", 16) or "").strip()
        if vendor == NVIDIA:
            gpus += kind.startswith("0x03")
        elif kind.startswith("0x12"):  # processing accelerator; the vendor makes network cards too
            key = f"19e5:{(machine.read(f'{base}/{name}/device', 16) or '').strip()[2:]}"
            counts[key] = counts.get(key, 0) + 1
    return {key: counts[key] for key in sorted(counts)}, gpus
