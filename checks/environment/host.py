"""One host as the checks see it: the collected document with its questions answered once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Optional

from doctor.checks.environment.fields import Fields
from doctor.checks.environment.pairing import Card, Table, table


@dataclass(frozen=True)
class Device:
    """One die as npu-smi shows it. `card` is None for a name that the table does not have."""

    npu_id: Optional[int]
    chip_id: Optional[int]
    physical_id: Optional[int]
    name: str
    health: Optional[str]
    used_mb: Optional[int]
    total_mb: Optional[int]
    card: Optional[Card]

    @property
    def label(self) -> str:
        number = "?" if self.npu_id is None else str(self.npu_id)
        return f"NPU {number}" if not self.chip_id else f"NPU {number} chip {self.chip_id}"


@dataclass(frozen=True)
class Process:
    npu_id: Optional[int]
    chip_id: Optional[int]
    pid: Optional[int]
    name: Optional[str]
    memory_mb: Optional[int]


@dataclass(frozen=True)
class Host:
    """`label` names the host where several are judged; `wanted` is how many devices the user asked for,
    `keep` the parts that the user will not have changed."""

    facts: Fields
    label: str
    wanted: Optional[int] = None
    keep: tuple[str, ...] = ()

    # ------------------------------------------------------------------ parts

    @cached_property
    def cann(self) -> Fields:
        return _part(self.facts, "cann")

    @cached_property
    def driver(self) -> Fields:
        return _part(self.facts, "driver")

    @cached_property
    def npu(self) -> Fields:
        value = self.facts.at("npu").value
        if isinstance(value, str):  # the output of npu-smi itself
            from doctor.checks.environment.sources.npu_smi import parse_info

            parsed = parse_info(value)
            return Fields(
                {"devices": parsed.devices, "processes": parsed.processes, "driver_version": parsed.driver_version}
            )
        return self.facts.at("npu")

    @cached_property
    def system(self) -> Fields:
        return self.facts.at("host")

    @cached_property
    def env(self) -> dict[str, str]:
        return self.facts.pairs("env")

    @cached_property
    def packages(self) -> dict[str, str]:
        return self.facts.pairs("packages")

    @cached_property
    def pairing(self) -> Table:
        return table()

    # --------------------------------------------------------------- versions

    @cached_property
    def mindspore(self) -> Optional[str]:
        return self.packages.get("mindspore") or self.facts.text("mindspore", "version")

    @cached_property
    def mindformers(self) -> Optional[str]:
        return self.packages.get("mindformers") or self.facts.text("mindformers", "version")

    @cached_property
    def cann_version(self) -> Optional[str]:
        """The public CANN version; an internal number alone is translated (7.6.0.1.220 is 8.0.0)."""
        version = self.cann.text("version")
        if version is not None and re.match(r"(1\.8\d|6\.4|7\.[1-9])(\.|$)", version):
            # These numbers exist only inside CANN: no release has such a public name.
            return self.pairing.public_cann(version) or version
        if version is not None:
            return version
        internal = self.cann.text("internal")
        return self.pairing.public_cann(internal) if internal is not None else None

    @cached_property
    def cann_shown(self) -> Optional[str]:
        """The number that MindSpore's start-up check reads: the first two parts of the internal version."""
        internal = self.cann.text("internal")
        if internal is not None:
            return ".".join(internal.split(".")[:2])
        return self.pairing.shown(self.cann_version) if self.cann_version else None

    @cached_property
    def driver_version(self) -> Optional[str]:
        return self.driver.text("version") or self.npu.text("driver_version")

    @cached_property
    def python(self) -> Optional[str]:
        return self.facts.text("python", "version")

    @cached_property
    def executable(self) -> str:
        return self.facts.text("python", "executable") or "python"

    @cached_property
    def pip(self) -> str:
        """pip of the examined interpreter, so that a copied command changes the right one."""
        return f"{self.executable} -m pip"

    # ---------------------------------------------------------------- devices

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        return tuple(self._device(row) for row in self.npu.rows("devices"))

    def _device(self, row: Fields) -> Device:
        name, total, physical = row.text("name") or "", row.integer("memory_total_mb"), row.integer("physical_id")
        return Device(
            npu_id=row.integer("npu_id"),
            chip_id=row.integer("chip_id"),
            physical_id=physical,
            name=name,
            health=row.text("health"),
            used_mb=row.integer("memory_used_mb"),
            total_mb=total,
            card=self.pairing.card(name, total, physical is not None) if name else None,
        )

    @cached_property
    def processes(self) -> tuple[Process, ...]:
        return tuple(
            Process(
                row.integer("npu_id"),
                row.integer("chip_id"),
                row.integer("pid"),
                row.text("name"),
                row.integer("memory_mb"),
            )
            for row in self.npu.rows("processes")
        )

    @cached_property
    def node_ids(self) -> tuple[int, ...]:
        """Numbers of the /dev/davinciN nodes."""
        found = (row.integer("id") for row in self.facts.rows("devices", "davinci"))
        return tuple(sorted({number for number in found if number is not None}))

    @cached_property
    def pci_count(self) -> int:
        """Ascend accelerators on the PCI bus; a card may carry two dies."""
        counts = (Fields(count).integer() or 0 for count in self.facts.pairs("devices", "pci").values())
        return sum(count for count in counts if count > 0)

    @cached_property
    def card(self) -> Optional[Card]:
        """The chip family of this host, or None when no device tells."""
        return next((device.card for device in self.devices if device.card is not None), None)

    @cached_property
    def device_count(self) -> Optional[int]:
        """How many devices a job can use here: those of npu-smi, else device nodes; None when nothing tells."""
        listed = 0 if self.npu_failure else len(self.devices)  # a table that broke off names too few
        return listed or len(self.node_ids) or None

    @property
    def container(self) -> Optional[str]:
        return self.system.text("container")

    @cached_property
    def npu_failure(self) -> Optional[str]:
        """The kind of npu-smi's failure (see `npu_smi_details.classify_failure`); None when devices were read and it ended."""
        error, kind = self.npu.text("error"), self.npu.text("error_kind")
        if error is None or (self.devices and kind != "timeout"):
            return None
        if kind is None:
            from doctor.checks.environment.sources.npu_smi_details import classify_failure

            kind = classify_failure(error)[0]
        return kind

    # ------------------------------------------------------------ what it is for

    @cached_property
    def has_hardware(self) -> bool:
        return bool(self.devices or self.node_ids or self.pci_count)

    @cached_property
    def has_driver(self) -> bool:
        return bool(self.driver_version or self.driver.flag("install_info", "present"))

    @cached_property
    def has_cann(self) -> bool:
        return bool(self.cann_version or self.cann.text("path") or self.cann.text("home"))

    @cached_property
    def wants_ascend(self) -> bool:
        """Whether this machine is meant for Ascend: its hardware, driver or CANN is here, or the environment names them."""
        named = any(
            self.env.get(name)
            for name in ("ASCEND_HOME_PATH", "ASCEND_OPP_PATH", "RANK_TABLE_FILE", "ASCEND_RT_VISIBLE_DEVICES")
        )
        has_tool = self.npu_failure not in {None, "not-found"}
        return self.has_hardware or self.has_driver or self.has_cann or has_tool or named

    @cached_property
    def ranks(self) -> Optional[int]:
        """Processes of the job that the environment announces."""
        for name in ("MS_WORKER_NUM", "RANK_SIZE", "WORLD_SIZE"):
            value = self.env.get(name)
            if value is not None and value.isdecimal() and 0 < len(value) < 9:
                return int(value)
        return None


def _part(facts: Fields, key: str) -> Fields:
    """A part that others write as a bare version text."""
    value = facts.at(key).value
    return (
        Fields({"version": str(value)})
        if isinstance(value, (str, int, float)) and not isinstance(value, bool)
        else Fields(value)
    )


KNOWN_KEYS = ("host", "python", "packages", "cann", "driver", "npu")


def from_document(
    document: Any, label: str, wanted: Optional[int] = None, keep: tuple[str, ...] = ()
) -> Optional[Host]:
    """The host of a collected document (or of its bare facts); None when it is none."""
    facts = Fields(document)
    if isinstance(facts.at("facts").value, dict):
        facts = facts.at("facts")
    if not isinstance(facts.value, dict) or not any(key in facts.value for key in KNOWN_KEYS):
        return None
    return Host(facts, label, wanted, keep)
