"""Collecting: version files in every layout and every broken form, and commands that misbehave."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from machines import CANN, Card, Tree, hbm_table

from doctor import registry, runner
from doctor.checks.environment.cann_checks import cann_path_missing
from doctor.checks.environment.collect import collect
from doctor.checks.environment.host import from_document
from doctor.checks.environment.sources import cann, commands, driver, hccn, launch, npu, npu_smi_details, system
from doctor.checks.environment.sources.commands import Command, run_all
from doctor.checks.environment.sources.machine import text_of
from doctor.checks.environment.subject import Inspection


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "root")


def npu_facts(tree: Tree) -> dict[str, Any]:
    machine = tree.machine()
    outputs = run_all(npu.first_round(machine, {"davinci": []}), machine.environ)
    return npu.facts(machine, outputs)


# ------------------------------------------------------------------------------ CANN


@pytest.mark.parametrize("version", sorted(CANN))
def test_version_in_each_layout(tree: Tree, version: str) -> None:
    facts = cann.facts(tree.cann(version).machine())
    assert facts["version"] == version
    assert facts["internal"] == CANN[version][0]
    assert facts["version_source"].endswith("ascend_toolkit_install.info")
    assert facts["sourced"] and facts["home_exists"]
    assert facts["ops"]["kernels"] == ["ascend910b"]
    assert len({row["identity"] for row in facts["roots_in_use"]}) == 1


@pytest.mark.parametrize(
    ("remove", "source"),
    [
        (["aarch64-linux/ascend_toolkit_install.info"], "version.cfg"),
        (["aarch64-linux/ascend_toolkit_install.info", "version.cfg"], "compiler/version.info"),
        (["aarch64-linux/ascend_toolkit_install.info", "version.cfg", "compiler/version.info"], "runtime/version.info"),
    ],
)
def test_the_next_file_is_believed(tree: Tree, remove: list[str], source: str) -> None:
    tree.cann("8.2.RC1")
    for name in remove:
        tree.at(f"/usr/local/Ascend/ascend-toolkit/8.2.RC1/{name}").unlink()
    facts = cann.facts(tree.machine())
    assert facts["version"] == "8.2.RC1"
    assert facts["version_source"].endswith(source)


def test_only_the_folder_name_is_left(tree: Tree) -> None:
    home = "/usr/local/Ascend/cann-9.0.0"
    tree.file(f"{home}/lib64/libascendcl.so").env(ASCEND_HOME_PATH=home)
    assert cann.facts(tree.machine())["version"] == "9.0.0"


def test_component_records_of_9(tree: Tree) -> None:
    home = "/opt/ascend"
    tree.file(f"{home}/share/info/runtime/version.info", "Version=9.1.0\n").env(ASCEND_HOME_PATH=home)
    facts = cann.facts(tree.machine())
    assert (facts["version"], facts["internal"]) == ("9.1.0", "9.1.0")


def test_record_one_level_up(tree: Tree) -> None:
    """Some images link latest/<arch>-linux itself and put the record beside the root."""
    tree.file("/usr/local/Ascend/nnae/aarch64-linux/ascend_nnae_install.info", "version=7.0.0\narch=aarch64\n")
    tree.file("/usr/local/Ascend/nnae/latest/lib64/x.so")
    facts = cann.facts(tree.machine())
    assert facts["version"] == "7.0.0"
    assert facts["installs"][0]["kind"] == "nnae"
    assert not facts["sourced"]


def test_latest_is_a_folder_of_links(tree: Tree) -> None:
    """Up to 8.3 `latest` is often a real folder whose parts are links."""
    tree.cann("8.1.RC1", source=False)
    latest = tree.at("/usr/local/Ascend/ascend-toolkit/latest")
    latest.unlink()
    for part in ("compiler", "runtime", "opp", "aarch64-linux"):
        tree.link(f"/usr/local/Ascend/ascend-toolkit/latest/{part}", f"/usr/local/Ascend/ascend-toolkit/8.1.RC1/{part}")
    facts = cann.facts(tree.source("/usr/local/Ascend/ascend-toolkit/latest").machine())
    assert facts["version"] == "8.1.RC1"
    assert {row["identity"] for row in facts["roots_in_use"]} == {"/usr/local/Ascend/ascend-toolkit/8.1.RC1"}
    assert len(facts["installs"]) == 1


def test_several_installed_releases_in_one_table(tree: Tree) -> None:
    base = "/usr/local/Ascend/ascend-toolkit/latest"
    tree.file(
        f"{base}/version.cfg",
        "# version: 1.0\nruntime_running_version=[7.3.0.1.231:8.0.RC2]\n"
        "runtime_installed_version=[7.0.0.5.242:7.0.RC1][7.1.0.3.220:7.0.0][7.3.0.1.231:8.0.RC2]\n",
    )
    facts = cann.facts(tree.env(ASCEND_HOME_PATH=base).machine())
    assert facts["version"] == "8.0.RC2"
    assert facts["components"]["runtime"] == {"running": "8.0.RC2", "installed": "7.0.RC1,7.0.0,8.0.RC2"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n\n",
        b"\x00" * 100,
        b"\xff\xfe" + "version=8.5.0\n".encode("utf-16-le"),
        "version=8.5.0\n".encode("utf-16-be"),
        b"\xef\xbb\xbfversion=8.5.0\n",
        "# 版本\nversion=8.5.0\n".encode("gb18030"),
        b"version=8.5.0\n" + b"x" * 3_000_000,
        b"=\n==\nversion\n",
        os.urandom(2048),
    ],
    ids=["empty", "blank", "zeros", "utf16", "utf16-be", "bom", "gbk", "huge", "equals", "noise"],
)
def test_version_files_of_any_content(tree: Tree, content: bytes) -> None:
    home = "/usr/local/Ascend/cann-8.5.0"
    tree.file(f"{home}/aarch64-linux/ascend_toolkit_install.info", content)
    tree.file(f"{home}/version.cfg", content).file("/usr/local/Ascend/driver/version.info", content)
    tree.file("/etc/ascend_install.info", content).env(ASCEND_HOME_PATH=home)
    machine = tree.machine()
    assert cann.facts(machine)["version"] == "8.5.0"  # from the file where it can be read, else from the folder
    assert driver.facts(machine)["version"] is None


def test_text_of_odd_encodings() -> None:
    assert text_of("Version=7.6\n".encode("utf-16")) == "Version=7.6\n"
    assert text_of("Version=7.6\n".encode("utf-16-le")) == "Version=7.6\n"
    assert text_of(b"\xef\xbb\xbfa=b") == "a=b"
    assert text_of("版本=1".encode("gb18030")) == "版本=1"


def test_a_pipe_or_folder_in_the_place_of_a_file(tree: Tree) -> None:
    os.mkfifo(tree.at("/etc/ascend_install.info"))
    tree.at("/usr/local/Ascend/driver/version.info").mkdir(parents=True)
    facts = driver.facts(tree.machine())
    assert facts["version"] is None
    assert facts["install_info"]["present"] and not facts["install_info"]["readable"]


def test_driver_and_firmware(tree: Tree) -> None:
    facts = driver.facts(tree.driver("24.1.rc1", firmware="7.1.0.11.220", firmware_range="[7.0.0,7.2.99]").machine())
    assert (facts["version"], facts["firmware"], facts["firmware_range"]) == (
        "24.1.rc1",
        "7.1.0.11.220",
        ["7.0.0", "7.2.99"],
    )
    assert facts["compatible_cann"] == ["V100R001C13", "V100R001C15"]


# --------------------------------------------------------------------------- npu-smi


def test_a_table_through_the_tool(tree: Tree) -> None:
    board = "        NPU ID                         : 0\n        Firmware Version               : 7.8.0.6.201\n        Compatibility                  : OK"
    mapping = "NPU ID  Chip ID  Chip Logic ID  Chip Name\n2 0 0 Ascend910B3\n2 1 - Mcu\n6 0 1 Ascend910B3"
    cards = [Card(2), Card(6, health="Warning")]
    tree.npu_smi(hbm_table(cards), answers={"info -t board -i 2": board, "info -m": mapping})
    facts = collect(tree.machine(), python=sys.executable)["npu"]
    assert [row["npu_id"] for row in facts["devices"]] == [2, 6]
    assert facts["boards"][0]["compatibility"] == "OK"
    assert [(row["npu_id"], row["logic_id"]) for row in facts["mapping"]] == [(2, 0), (6, 1)]
    assert facts["error"] is None


@pytest.mark.parametrize(
    ("errors", "kind"),
    [
        ("DrvMngGetConsoleLogLevel failed. (ret=4)\ndcmi module initialize failed. ret is -8005", "no-device"),
        ("dcmi model initialized failed, because the device is used. ret is -8020", "device-used"),
        ("dcmi module initialize failed. ret is -8011", "driver-error"),
        (
            "npu-smi: error while loading shared libraries: libdrvdsmi_host.so: cannot open shared object file",
            "library-missing",
        ),
        ("/usr/local/bin/npu-smi: Permission denied", "not-permitted"),
        ("This device does not support querying it.", "unsupported"),
        ("DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)", "driver-error"),
        ("", "silent"),
        ("\x1b]0;x\x07 what", "unreadable"),
    ],
)
def test_failures_of_the_tool(tree: Tree, errors: str, kind: str) -> None:
    facts = npu_facts(tree.npu_smi("", code=255, errors=errors))
    assert facts["devices"] == []
    assert facts["error_kind"] == kind
    assert "\x1b" not in facts["error"]


def test_the_tool_is_a_folder_or_is_absent(tree: Tree) -> None:
    assert npu_facts(tree)["error_kind"] == "not-found"
    tree.at("/usr/local/bin/npu-smi").mkdir()
    # Only the machine's own PATH matters; on the machine of the test none is installed either.
    assert npu_facts(tree)["error_kind"] == "not-found"


def test_the_tool_is_no_program(tree: Tree) -> None:
    tree.file("/usr/local/bin/npu-smi", b"\x7fELF\x00\x01garbage", 0o755)
    assert npu_facts(tree)["error_kind"] == "not-startable"


def test_empty_path_and_no_home(tree: Tree) -> None:
    tree.environ.clear()
    facts = collect(tree.machine(), python=sys.executable)
    assert facts["npu"]["error_kind"] == "not-found"
    assert facts["env"] == {}
    assert facts["errors"] == {}


def test_the_working_folder_is_not_searched_for_tools(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.file(f"{tree.cwd}/npu-smi", "#!/bin/sh\ntouch ran\n", 0o755)
    monkeypatch.chdir(tree.at(tree.cwd))
    tree.env(PATH=".:")
    npu_facts(tree)
    assert not Path("ran").exists()


def test_a_cann_of_another_user(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed by root for root alone: the folder's name tells a version, and nothing of it can be loaded."""
    home = tree.cann("8.5.0").environ["ASCEND_HOME_PATH"]
    assert cann.facts(tree.machine())["home_readable"] is True
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: access(path, mode) and not str(path).endswith(home))
    host = from_document({"facts": {"cann": cann.facts(tree.machine()), "env": tree.environ}}, "")
    assert host is not None
    [finding] = cann_path_missing(Inspection((host,), ({},)))
    assert finding.category == "permissions" and "may not read" in finding.title.en


def test_a_table_that_breaks_off_is_a_tool_that_hangs(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cards of the first half speak for themselves only: none is called dropped, and none well for the others."""
    table = hbm_table([Card(number) for number in range(8)])
    half = table[: table.index("| 5 ")]
    tree.driver().devices().file("/usr/local/bin/npu-smi", f"#!/bin/sh\ncat <<'END'\n{half}\nEND\nsleep 60\n", 0o755)
    monkeypatch.setattr(npu, "NPU_SMI_TIMEOUT", 0.5)
    facts = collect(tree.machine())
    assert facts["npu"]["error_kind"] == "timeout" and len(facts["npu"]["devices"]) == 5
    facts["host"] = {**facts["host"], "memory": None, "cpu": None}
    host = from_document({"facts": facts}, "")
    assert host is not None and host.device_count == 8
    checks = [check for check in registry.checks("environment") if check.rule.id.startswith("ENV-NPU-0")]
    outcomes = {outcome.rule: outcome for outcome in runner.run_checks(checks, Inspection((host,), ({},)))}
    assert {rule for rule, outcome in outcomes.items() if outcome.findings} == {"ENV-NPU-004"}
    assert {outcomes[rule].state for rule in ("ENV-NPU-010", "ENV-NPU-011", "ENV-NPU-012")} == {"skipped"}


# -------------------------------------------------------------------------- commands


def run_one(script: str, timeout: float = 2.0) -> tuple[commands.Output, float]:
    start = time.monotonic()
    output = run_all({"x": Command(("/bin/sh", "-c", script), timeout)}, os.environ, 12.0)["x"]
    return output, time.monotonic() - start


def test_a_command_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    output, seconds = run_one(f"sleep 30 & echo $! > {tmp_path}/child; wait", 0.3)
    assert output.state == "timeout"
    assert seconds < 3
    child = int((tmp_path / "child").read_text())
    time.sleep(0.05)
    stat = Path(f"/proc/{child}/stat")
    assert not stat.exists() or stat.read_text().split()[2] == "Z"


def test_a_command_that_ignores_its_pipes_closing() -> None:
    output, seconds = run_one("exec >&- 2>&-; sleep 30", 0.3)
    assert output.state == "timeout" and seconds < 3


def test_a_child_that_keeps_the_pipe_open() -> None:
    output, seconds = run_one("sleep 5 & echo answer; exit 0", 4.0)
    assert output.text == "answer\n" and output.state == "ok"
    assert seconds < 3


def test_ten_megabytes_and_endless_output() -> None:
    output, _ = run_one("head -c 10000000 /dev/zero | tr '\\0' x")
    assert output.state == "ok" and len(output.text) == commands.OUTPUT_LIMIT
    output, seconds = run_one("yes", 10.0)
    assert output.state == "flood" and seconds < 8


def test_commands_run_side_by_side() -> None:
    start = time.monotonic()
    outputs = run_all({str(n): Command(("/bin/sh", "-c", f"sleep 0.5; echo {n}")) for n in range(8)}, os.environ)
    assert [outputs[str(n)].text for n in range(8)] == [f"{n}\n" for n in range(8)]
    assert time.monotonic() - start < 3


# ------------------------------------------------------------------------- other parts


def test_unreadable_proc(tree: Tree) -> None:
    """A root without /proc and /sys: everything is None, nothing raises."""
    facts = system.facts(tree.machine())
    assert facts["memory"] == {
        "total_mb": None,
        "available_mb": None,
        "swap_mb": None,
        "limit_mb": None,
        "limit_used_mb": None,
    }
    assert facts["shared_segments"] is None
    assert facts["cpu"]["quota"] is None


def test_a_dead_file_system_is_not_touched_again(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """The home folder hangs: it is said so after 2 s, and CANN below it is not looked for."""
    tree.file("/home/train/Ascend/cann-8.5.0/lib64/x.so").file(
        "/home/train/.bashrc", "source /x/ascend-toolkit/set_env.sh\n"
    )
    touched: list[str] = []
    statvfs, listing, stat = os.statvfs, os.listdir, os.stat

    def dead_statvfs(path: str) -> Any:
        if "/home/train" in str(path) and not str(path).endswith("job"):
            time.sleep(30)
        return statvfs(path)

    def watched(real: Any) -> Any:
        def call(path: Any = ".", *args: Any, **more: Any) -> Any:
            if "/home/train/" in str(path):
                touched.append(str(path))
            return real(path, *args, **more)

        return call

    monkeypatch.setattr(os, "statvfs", dead_statvfs)
    start = time.monotonic()
    disks = system.facts(tree.machine())["disks"]
    assert time.monotonic() - start < 6
    assert [disk["path"] for disk in disks if disk["hangs"]] == ["/home/train"]
    machine = replace(tree.machine(), dead=("/home/train",))
    monkeypatch.setattr(os, "listdir", watched(listing))
    monkeypatch.setattr(os, "stat", watched(stat))
    facts = cann.facts(machine)
    assert facts["installs"] == [] and facts["set_env_lines"] is None
    assert touched == []


def test_limits_of_a_control_group(tree: Tree) -> None:
    tree.file("/proc/meminfo", "MemTotal:       65536000 kB\nMemAvailable:   60000000 kB\nSwapTotal: 0 kB\n")
    tree.file("/sys/fs/cgroup/memory.max", f"{8 << 30}\n").file("/sys/fs/cgroup/memory.current", f"{1 << 30}\n")
    tree.file("/sys/fs/cgroup/cpu.max", "400000 100000\n")
    facts = system.facts(tree.machine())
    assert facts["memory"]["limit_mb"] == 8192 and facts["memory"]["limit_used_mb"] == 1024
    assert facts["cpu"]["quota"] == 4.0


def test_shared_memory_segments(tree: Tree) -> None:
    head = "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime\n"
    tree.file(
        "/proc/sysvipc/shm",
        head
        + "         0         65   600            1073741824  4242  4243      0  1001  1001  1001  1001 1 2 3\n"
        + "         0         66   600 4096  4242  4243      2  1001  1001  1001  1001 1 2 3\n",
    )
    assert system.facts(tree.machine())["shared_segments"] == [
        {"id": 65, "size_mb": 1024, "uid": 1001, "creator_alive": False}
    ]


def test_ports_of_the_npus(tree: Tree) -> None:
    tree.file(
        "/etc/hccn.conf",
        "address_0=192.168.1.10\nnetmask_0=255.255.255.0\n address_10=192.168.1.20\naddress_2=192.168.1.12\n",
    )
    assert hccn.configuration(tree.machine())["addresses"] == {
        "0": "192.168.1.10",
        "2": "192.168.1.12",
        "10": "192.168.1.20",
    }
    tool = "#!/bin/sh\ncase $3 in -link) echo 'link status: DOWN';; -net_health) echo 'net health status: Fault';; -tls) echo 'dev_id:0, tls switch[1](0:disable, 1:enable), tls preconfigured[1]';; esac\n"
    flaps = {"up_count": 4, "downs": 0, "downs_last_day": None, "last_down": None}
    tool = tool.replace("esac", "-link_stat) echo '[device 0]link up count : 4';; esac")
    tree.devices(2).file("/usr/local/Ascend/driver/tools/hccn_tool", tool, 0o755)
    ports = collect(tree.machine(), python=sys.executable)["hccn"]["ports"]
    told = {"link": "DOWN", "net_health": "Fault", "tls": 1, "link_stat": flaps}
    assert ports == [{"id": number, **told} for number in range(2)]


RECORD = """\
[device 3]current time        : Thu Mar  5 09:00:00 2026
[device 3]link up count       : 3
[device 3]link change records :
[device 3]    Thu Mar  5 08:40:02 2026    LINK UP
[device 3]    Thu Mar  5 08:39:58 2026    LINK DOWN
[device 3]    Wed Mar  4 23:11:00 2026    LINK DOWN
[device 3]    Wed Mar  4 08:59:59 2026    LINK DOWN
"""


def test_the_link_record_of_a_port() -> None:
    record = {"up_count": 3, "downs": 3, "downs_last_day": 2, "last_down": "Thu Mar  5 08:39:58 2026"}
    assert hccn.parse("link_stat", RECORD) == record
    # without its own clock nothing is recent, and a date that is none counts as a loss all the same
    assert hccn.parse("link_stat", RECORD[RECORD.index("\n") + 1 :]) == {**record, "downs_last_day": None}
    assert hccn.parse("link_stat", RECORD.replace("Mar  5 08:39:58", "Mar 45 08:39:58")) == {
        **record,
        "downs_last_day": 1,
        "last_down": "Wed Mar  4 23:11:00 2026",
    }
    assert hccn.parse("link_stat", "hccn_tool: permission denied\n") is None


ECC = "NPU ID : 4\nChip Count : 2\n\nHBM Single Bit Error Count : 7\nHBM Double Bit Error Count : {}\nChip ID : 0\n\nHBM Double Bit Error Count : 0\nChip ID : 1\n"


def test_memory_errors_are_asked_of_cards_that_report_ok(tree: Tree) -> None:
    tree.devices(1).npu_smi(hbm_table([Card(4)]), answers={"info -t ecc -i 4": ECC.format(2)})
    facts = collect(tree.machine(), python=sys.executable)
    assert facts["npu"]["ecc"] == [
        {"npu_id": 4, "chip_id": 0, "double_bit": {"HBM Double Bit Error Count": 2}},
        {"npu_id": 4, "chip_id": 1, "double_bit": {"HBM Double Bit Error Count": 0}},
    ]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "not JSON"),
        ("[1]", "not a JSON object"),
        ("{}", "no server_list"),
        ('{"group_list": []}', "old format"),
        ("[" * 100_000, "not JSON"),
        ('{"server_list": "x"}', "no server_list"),
    ],
)
def test_rank_tables_that_are_none(text: str, error: str) -> None:
    assert error in launch.rank_table(text.encode(), "t.json")["error"]


def test_host_file_lines() -> None:
    lines = "node-1 slots=8\n# node-0\n\n10.0.0.2:8\nnode-3  max_slots=4 # spare\n"
    assert launch.host_lines(lines) == [
        {"line": 1, "host": "node-1", "slots": "8"},
        {"line": 4, "host": "10.0.0.2", "slots": "8"},
        {"line": 5, "host": "node-3", "slots": "4"},
    ]


def test_master_address_and_port(tree: Tree) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = taken.getsockname()[1]
        facts = launch.facts(tree.env(MS_SCHED_HOST="127.0.0.1", MS_SCHED_PORT=str(port)).machine())["master"]
        assert facts["port_state"] == "in use" and facts["resolved"] == ["127.0.0.1"]
    facts = launch.facts(tree.machine())["master"]
    assert facts["port_state"] == "free"
    facts = launch.facts(tree.env(MS_SCHED_HOST="no-such-host.invalid", MS_SCHED_PORT="x").machine())["master"]
    assert facts["resolve_error"] and facts["port_state"] is None


def test_the_document_is_json(tree: Tree) -> None:
    tree.driver().devices().cann("8.5.0").npu_smi(hbm_table([Card(0)]))
    facts = collect(tree.machine(), python=sys.executable)
    assert list(facts)[:6] == ["host", "python", "packages", "cann", "driver", "npu"]
    assert json.loads(json.dumps(facts)) == facts
    assert list(facts["npu"]["devices"][0])[:11] == [
        "npu_id", "chip_id", "physical_id", "name", "health", "power_w", "temperature_c", "aicore_percent",
        "memory_used_mb", "memory_total_mb", "bus_id",
    ]  # fmt: skip


# ------------------------------------------------------- other outputs of npu-smi


def test_mapping_leaves_the_management_chip_out() -> None:
    text = (
        "    NPU ID     Chip ID     Chip Logic ID     Chip Phy-ID     Chip Name\n"
        "    2          0           4                 4               Ascend910\n"
        "    2          1           5                 5               Ascend910\n"
        "    2          2           -                 -               Mcu\n"
    )
    assert [
        (r["npu_id"], r["chip_id"], r["logic_id"], r["physical_id"]) for r in npu_smi_details.parse_mapping(text)
    ] == [(2, 0, 4, 4), (2, 1, 5, 5)]


def test_processes_by_chip() -> None:
    text = (
        "    No process in device.\n    Chip ID                        : 0\n\n"
        "    Process id:31777   Process name:                  Process memory(MB):40211\n"
        "    Process id:31778   Process name:python3.10        Process memory(MB):12\n    Chip ID                        : 1\n"
    )
    rows = npu_smi_details.parse_process_memory(text, 3)
    assert [(r["npu_id"], r["chip_id"], r["pid"], r["name"], r["memory_mb"]) for r in rows] == [
        (3, 1, 31777, None, 40211),
        (3, 1, 31778, "python3.10", 12),
    ]


def test_field_lists_by_chip() -> None:
    text = "NPU ID : 0\nChip Count : 2\n\nHBM Usage Rate(%) : 16\nChip ID : 0\n\nHBM Usage Rate(%) : 17\nChip ID : 1\n"
    assert [block.get("HBM Usage Rate(%)") for block in npu_smi_details.parse_fields(text)] == [None, "16", "17"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("err_8005_g_conLogLevel", "no-device"),
        ("err_8005_ret4", "no-device"),
        ("err_8020_device_is_used", "device-used"),
        ("err_proc-mem_not_supported", "unsupported"),
    ],
)
def test_shared_failures(shared: Path, name: str, kind: str) -> None:
    text = (shared / "npu-smi" / f"{name}.txt").read_text(encoding="utf-8")
    body = "\n".join(line for line in text.splitlines() if not line.startswith("# "))
    assert npu_smi_details.classify_failure(body)[0] == kind


def test_shared_outputs_of_other_commands(shared: Path) -> None:
    folder = shared / "npu-smi"
    for path in sorted(folder.glob("t_*.txt")):
        text = path.read_text(encoding="utf-8")
        if "proc-mem" in path.name:
            assert npu_smi_details.parse_process_memory(text, 0), path.name
        else:
            assert npu_smi_details.parse_fields(text), path.name
    assert len(npu_smi_details.parse_mapping((folder / "m_A3.txt").read_text(encoding="utf-8"))) == 2
    assert [
        row["logic_id"]
        for row in npu_smi_details.parse_mapping((folder / "m_A2_offset_ids.txt").read_text(encoding="utf-8"))
    ] == [0, 1]
    assert hccn.parse("tls", (folder / "hccn_tls.txt").read_text(encoding="utf-8")) == 0
    assert hccn.parse("net_health", (folder / "hccn_net_health.txt").read_text(encoding="utf-8")) == "Init"
    assert hccn.parse("link_stat", (folder / "hccn_link_stat.txt").read_text(encoding="utf-8")) == {
        "up_count": 2,
        "downs": 1,
        "downs_last_day": 1,
        "last_down": "Tue Jun  6 16:32:10 2023",
    }
