"""Gathers the facts of this machine and of one interpreter into one JSON document; judges nothing.

Files are read here and now; commands run side by side in at most two rounds (the second asks about
cards that the first named), each under its time-out and all under `BUDGET`. Whatever fails is a fact too.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Optional

from doctor.checks.environment.sources.machine import Machine

SCHEMA = "doctor.report/1"
#: seconds for everything
BUDGET = 12.0
_VARIABLES = re.compile(
    r"ASCEND_|MS_|HCCL_|LCCL_|GLOG_|MINDSPORE_|MF_|NPU_|RANK|DEVICE_ID$|LOCAL_RANK|WORLD_SIZE$|MASTER_|CUDA_VISIBLE|"
    r"LD_LIBRARY_PATH$|LD_PRELOAD$|PYTHONPATH$|PYTHONHOME$|PYTHONNOUSERSITE$|PATH$|HOME$|TMPDIR$|VIRTUAL_ENV$|"
    r"CONDA_PREFIX$|CONDA_DEFAULT_ENV$|OMP_NUM_THREADS$|CPU_AFFINITY$|PROTOCOL_BUFFERS_|TOOLCHAIN_HOME$|ATB_|TE_PARALLEL|"
    r"PLOG_|RUN_MODE$|FORCE_EAGER$|ENABLE_LAZY_INLINE$|KUBERNETES_SERVICE_HOST$|LANG$|LC_ALL$|OMPI_COMM_WORLD_|"
    r"OMPI_MCA_orte_default_hostfile$|SLURM_(JOB_ID|NNODES|NTASKS)$|LOCAL_DEFAULT_PATH$|GRAPH_OP_RUN$"
)


def collect(on: Optional[Machine] = None, python: Optional[str] = None, deep: bool = False) -> dict[str, Any]:
    """The facts as `doctor collect` prints them: keys host, python, packages, cann, driver, npu and more.

    `on` is the machine to look at, this one by default. `deep` lets the framework compute."""
    # Loaded here: the sources bring subprocess and socket along, which judging a document does not need.
    from doctor.checks.environment.sources import cann, devices, driver, hccn, interpreter, launch, npu, system
    from doctor.checks.environment.sources.commands import run_all

    first = on or Machine.this()
    deadline = time.monotonic() + BUDGET
    errors: dict[str, str] = {}
    has_nodes = any(name.startswith("davinci") for name in first.names("/dev"))
    host = _guarded(errors, "host", lambda: system.facts(first, with_clock=has_nodes), {})
    machine = replace(first, dead=tuple(disk["path"] for disk in host.get("disks", ()) if disk["hangs"]))
    nodes = _guarded(errors, "devices", lambda: devices.facts(machine), {"davinci": []})
    cann_facts = _guarded(errors, "cann", lambda: cann.facts(machine), {})
    path, why = interpreter.chosen(machine, python, bool(nodes["davinci"] or cann_facts.get("path")))
    own = interpreter.is_own(path)
    commands = npu.first_round(machine, nodes)
    if not own:
        commands["python"] = interpreter.command(path, machine)
    launcher = _guarded(errors, "launch", lambda: launch.facts(machine, bool(nodes["davinci"])), {})
    # A dead disk and a name server that is silent have taken 2 s each by now; the commands get the rest.
    outputs = run_all(commands, machine.environ, deadline - time.monotonic())
    npu_facts = npu.facts(machine, outputs)
    second = npu.second_round(machine, npu_facts)
    left = deadline - time.monotonic()
    if second and left > 0.5:
        npu.add_details(npu_facts, run_all(second, machine.environ, left))
    if own:
        answer = _guarded(errors, "python", lambda: interpreter.own_facts(machine), interpreter.unknown(path))
    else:
        answer = interpreter.child_facts(path, outputs["python"])
    facts: dict[str, Any] = {
        "host": host,
        "python": {**answer.pop("python"), "chosen_by": why},
        "packages": answer.pop("packages"),
        "cann": cann_facts,
        "driver": _guarded(errors, "driver", lambda: driver.facts(machine), {}),
        "npu": npu_facts,
        "devices": nodes,
        "hccn": {**hccn.configuration(machine), "ports": npu.hccn_answers(outputs)},
        "env": {name: machine.environ[name] for name in sorted(machine.environ) if _VARIABLES.match(name)},
        "launch": launcher,
        **answer,
        "cwd": machine.cwd,
        "errors": errors,
    }
    if deep:
        from doctor.checks.environment import deep as computation

        target = "Ascend" if npu_facts["devices"] or nodes["davinci"] or nodes.get("pci") else "CPU"
        facts["deep"] = computation.run(machine, path, target, facts["mindformers"] is not None)
    return facts


def _guarded(
    errors: dict[str, str], name: str, gather: Callable[[], dict[str, Any]], otherwise: dict[str, Any]
) -> dict[str, Any]:
    """One source that fails on a strange machine must not take the facts of the others along."""
    try:
        return gather()
    except Exception as error:  # noqa: BLE001 - the boundary round each source; what happened is kept as a fact
        errors[name] = f"{type(error).__name__}: {error}"[:300]
        return otherwise


def document(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts as the file that `--host` reads back."""
    return {"schema": SCHEMA, "command": "collect", "facts": facts}
