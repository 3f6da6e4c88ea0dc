"""Facts of driver and firmware from their version files; no command, no root."""

from __future__ import annotations

import re
from typing import Any, Optional

from doctor.checks.environment.sources.machine import Machine, pairs_of

INSTALL_INFO = "/etc/ascend_install.info"
DEFAULT_PATH = "/usr/local/Ascend"


def facts(machine: Machine) -> dict[str, Any]:
    """``version`` and ``firmware`` are None where no file says them (containers rarely map the firmware's)."""
    text = machine.read(INSTALL_INFO)
    info = pairs_of(text) if text is not None else {}
    path = info.get("Driver_Install_Path_Param") or DEFAULT_PATH
    source = f"{path}/driver/version.info"
    driver = machine.pairs(source) or {}
    firmware_path = f"{info.get('Firmware_Install_Path_Param') or path}/firmware/version.info"
    firmware = machine.pairs(firmware_path) or {}
    module = machine.read("/proc/driver/davinci/version") or ""
    return {
        "version": driver.get("Version") or None,
        "source": source if machine.exists(source) else None,
        "readable": bool(driver.get("Version")),
        "innerversion": driver.get("Innerversion") or driver.get("innerversion") or None,
        "compatible_cann": listed(driver.get("compatible_version")),
        "firmware_range": bounds(driver.get("compatible_version_fw")),
        "firmware": firmware.get("Version") or None,
        "firmware_source": firmware_path if machine.exists(firmware_path) else None,
        "firmware_driver_range": firmware.get("compatible_version_drv") or None,
        "install_info": {
            "present": text is not None or machine.exists(INSTALL_INFO),
            "readable": text is not None,
            "driver_path": info.get("Driver_Install_Path_Param") or None,
            "install_type": info.get("Driver_Install_Type") or None,
            "user": info.get("UserName") or None,
            "group": info.get("UserGroup") or None,
        },
        "module": module.strip().splitlines()[0][:200] if module.strip() else None,
    }


def listed(value: Optional[str]) -> list[str]:
    """``[V100R001C30],[V100R001C13]`` as a list."""
    return re.findall(r"\[([^\[\]]+)\]", value or "")


def bounds(value: Optional[str]) -> Optional[list[str]]:
    """``[7.0.0,7.2.99]`` as [lowest, highest]; None when it is not a range."""
    match = re.fullmatch(r"\[\s*([\w.]+)\s*,\s*([\w.]+)\s*\]", (value or "").strip())
    return [match.group(1), match.group(2)] if match else None
