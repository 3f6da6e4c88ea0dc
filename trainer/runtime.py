"""Starts MindSpore: what must be set before it is imported, and how many threads it may take."""

from __future__ import annotations

import importlib.util
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from doctor.errors import UsageError
from doctor.finding import Text
from doctor.trainer.cluster import Cluster

#: With this few cores the runtime's launch thread, which waits by spinning, takes a core from the kernels: measured on
#: two cores, 2,405 tokens/s without the pipeline and 1,175 with it, same losses.
FEW_CORES = 8
INSTALL = "pip install 'mindspore-doctor[train]'"


@dataclass(frozen=True)
class Runtime:
    """What the run really runs on."""

    device: str
    cores: int
    mindspore: str
    #: settings made for the user, as NAME=value
    set_here: tuple[str, ...]


def cores() -> int:
    """Cores this process may use: the affinity mask, cut by a container's CPU quota."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = file.read().split()[:2]
        if quota != "max":
            allowed = min(allowed, max(1, int(quota) // int(period)))
    except (OSError, ValueError):
        pass  # no quota file: not in a cgroup v2, so no limit of that kind
    return max(1, allowed)


def set_environment() -> tuple[str, ...]:
    """Sets what MindSpore reads at import, unless the user has. Does nothing once MindSpore is imported."""
    if "mindspore" in sys.modules:
        return ()
    wanted = {"GLOG_v": "3"}
    if cores() <= FEW_CORES:
        wanted["MS_DEV_RUNTIME_CONF"] = "pipeline:False"
        # Without this each OpenMP region starts one thread for every core of the host, not of the container.
        # The workers of one machine share its cores.
        wanted["OMP_NUM_THREADS"] = str(max(1, cores() // Cluster.of_environment().size))
    made = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(made)
    return tuple(f"{name}={value}" for name, value in sorted(made.items()))


def require_mindspore() -> None:
    """Raises UsageError when MindSpore cannot be found, saying how to get it; costs no import."""
    if importlib.util.find_spec("mindspore") is None:
        raise UsageError(
            Text("the trainer needs MindSpore, which is not installed.", "训练器需要 MindSpore，当前环境未安装。"),
            Text(
                f"On a CPU: {INSTALL}. On Ascend install the MindSpore that pairs with your CANN.",
                f"CPU 环境：{INSTALL}。昇腾环境请安装与 CANN 配套的 MindSpore。",
            ),
        )


def start(
    device: str = "auto",
    mode: str = "graph",
    jit_level: str = "O0",
    dumps: Optional[Path] = None,
    device_id: Optional[int] = None,
) -> Runtime:
    """Imports MindSpore and sets device (on Ascend card `device_id`, else the first) and mode; `dumps` is where it may put what it dumps of a failed compilation
    (by itself it would write ``rank_0/om`` into the working directory). Raises UsageError when the device is not there."""
    require_mindspore()
    made = set_environment()
    try:
        import mindspore as ms
    except (ImportError, OSError) as error:
        raise UsageError(
            Text(f"MindSpore does not import: {error}.", f"MindSpore 无法导入：{error}。"),
            Text("See: doctor check", "请运行：doctor check"),
        ) from None
    target = _device(ms, device)
    context: dict[str, Any] = {"mode": ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE}
    if dumps is not None:
        context["save_graphs_path"] = str(dumps)
    if mode == "graph":
        context["jit_config"] = {"jit_level": jit_level}
    ms.set_context(**context)
    cluster = Cluster.of_environment()
    if target != "CPU" and cluster.shared:
        # msrun numbers the workers of a machine as it numbers cards.
        device_id = int(os.environ.get("DEVICE_ID", cluster.rank))
    if target == "CPU" or device_id is None:
        ms.set_device(target)
    else:
        ms.set_device(target, device_id)
    return Runtime(device=target, cores=cores(), mindspore=str(ms.__version__), set_here=made)


def _device(ms: Any, asked: str) -> str:
    manager = ms.device_context
    if asked in {"auto", "Ascend"}:
        try:
            there = bool(manager.ascend.is_available())
        except (AttributeError, RuntimeError):
            there = False
        if there:
            return "Ascend"
        if asked == "Ascend":
            raise UsageError(
                Text(
                    "device_target is Ascend, but MindSpore finds no Ascend device.",
                    "device_target 为 Ascend，但 MindSpore 未发现昇腾设备。",
                ),
                Text(
                    "Find out why: doctor check. To run here: device_target: CPU",
                    "排查：doctor check。在本机运行：device_target: CPU",
                ),
                "CFG-CTX-002",
            )
    return "CPU"
