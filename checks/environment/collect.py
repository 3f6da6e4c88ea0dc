"""Gathers the facts of this machine and of one interpreter into one JSON document; judges nothing.

Files are read here and now; commands run side by side in at most two rounds (the second asks about
cards that the first named), each under its time-out and all under `BUDGET`. Whatever fails is a fact too.
"""

from __future__ import annotations

import re
import time
from typing import Any, Optional

from doctor.checks.environment.sources import cann, devices, driver, hccn, interpreter, launch, npu, system
from doctor.checks.environment.sources.commands import run_all
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


def collect(machine: Optional[Machine] = None, python: Optional[str] = None, deep: bool = False) -> dict[str, Any]:
    """The facts as `doctor collect` prints them: keys host, python, packages, cann, driver, npu and more.

    `deep` also asks the cards that report OK for their error counters."""
    machine = machine or Machine.this()
    deadline = time.monotonic() + BUDGET
    path, why = interpreter.chosen(machine, python)
    own = interpreter.is_own(path)
    nodes = devices.facts(machine)
    commands = {**npu.first_round(machine, nodes)}
    if not own:
        commands["python"] = interpreter.command(path, machine)
    outputs = run_all(commands, machine.environ, BUDGET)
    npu_facts = npu.facts(machine, outputs)
    second = npu.second_round(machine, npu_facts, nodes, deep)
    left = deadline - time.monotonic()
    if second and left > 0.5:
        npu.add_details(npu_facts, run_all(second, machine.environ, left))
    answer = interpreter.own_facts(machine) if own else interpreter.child_facts(path, outputs["python"])
    return {
        "host": system.facts(machine),
        "python": {**answer.pop("python"), "chosen_by": why},
        "packages": answer.pop("packages"),
        "cann": cann.facts(machine),
        "driver": driver.facts(machine),
        "npu": npu_facts,
        "devices": nodes,
        "hccn": {**hccn.configuration(machine), "ports": npu.hccn_answers(outputs)},
        "env": {name: machine.environ[name] for name in sorted(machine.environ) if _VARIABLES.match(name)},
        "launch": launch.facts(machine),
        **answer,
        "cwd": machine.cwd,
    }


def document(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts as the file that `--host` reads back."""
    return {"schema": SCHEMA, "command": "collect", "facts": facts}
