"""Several hosts of one job, the files of hosts, redaction, and the commands that people type."""

from __future__ import annotations

import copy
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from doctor import runner
from doctor.check import Options
from doctor.checks.environment import subject
from doctor.checks.environment.redact import Redactor, redact
from doctor.errors import UsageError

HOSTS = Path(__file__).resolve().parents[2] / "fixtures" / "hosts"


def healthy(name: str) -> dict[str, Any]:
    document = json.loads((HOSTS / "fresh_800t_a2.json").read_text(encoding="utf-8"))
    del document["expect"], document["note"]
    document["facts"]["host"]["hostname"] = name
    document["facts"]["hccn"]["ports"] = [
        {"id": number, "link": "UP", "net_health": "Success", "tls": 0} for number in range(8)
    ]
    document["facts"]["env"].update(
        MS_SCHED_HOST="10.0.0.1", MS_SCHED_PORT="8118", MS_WORKER_NUM="16", HCCL_CONNECT_TIMEOUT="1800"
    )
    document["facts"]["hccn"].update(readable=True, addresses={str(n): f"192.168.1.{n + 1}" for n in range(8)})
    return document  # type: ignore[no-any-return]


def judged(tmp_path: Path, *documents: dict[str, Any]) -> dict[str, list[Any]]:
    files = []
    for number, document in enumerate(documents):
        file = tmp_path / f"host{number}.json"
        file.write_text(json.dumps(document), encoding="utf-8")
        files.append(str(file))
    outcomes = runner.judge_host(Options(hosts=tuple(files))).outcomes
    assert not [outcome for outcome in outcomes if outcome.state == "crashed"]
    return {outcome.rule: list(outcome.findings) for outcome in outcomes if outcome.findings}


def test_a_config_is_judged_by_the_card_of_the_host_beside_it(tmp_path: Path, doctor: Callable[..., Any]) -> None:
    """HCCL's head room: 61 GB of pool on the 64 GB card that npu-smi showed."""
    config = tmp_path / "train.yaml"
    config.write_text(
        "run_mode: train\ncontext:\n  mode: 0\n  max_device_memory: 61GB\nparallel_config:\n  data_parallel: 8\n",
        encoding="utf-8",
    )
    document = tmp_path / "host.json"
    document.write_text(json.dumps(healthy("node-1")), encoding="utf-8")
    for words in ([str(config), "--host", str(document)], [str(config), str(document)]):
        done = doctor("check", *words, "--format", "json", "--only", "CFG-MEM-002")
        [finding] = json.loads(done.stdout)["findings"]
        assert finding["rule"] == "CFG-MEM-002" and finding["evidence"][0]["line"] == 4
    alone = json.loads(doctor("check", str(config), "--format", "json", "--only", "CFG-MEM-002").stdout)
    assert alone["outcomes"][0]["state"] == "skipped" and "--host" in alone["outcomes"][0]["reason"]


def test_a_default_that_is_written_out_is_no_difference(tmp_path: Path) -> None:
    first, second = healthy("node-1"), healthy("node-2")
    first["facts"]["env"]["HCCL_EXEC_TIMEOUT"] = "1836"
    assert judged(tmp_path, first, second) == {}
    first["facts"]["env"]["HCCL_EXEC_TIMEOUT"] = "3600"
    [finding] = judged(tmp_path, first, second)["ENV-JOB-003"]
    assert "1836: node-2" in finding.message.en and finding.fixes[0].command == "export HCCL_EXEC_TIMEOUT=3600"


def test_two_equal_nodes_are_well(tmp_path: Path) -> None:
    assert judged(tmp_path, healthy("node-1"), healthy("node-2")) == {}


def change_version(facts: dict[str, Any]) -> None:
    facts["packages"]["mindspore"] = "2.7.2.post1"


def remove_mindformers(facts: dict[str, Any]) -> None:
    del facts["packages"]["mindformers"]
    facts["mindformers"] = None


def change_cann(facts: dict[str, Any]) -> None:
    facts["cann"]["version"] = "8.5.1"
    facts["cann"]["readings"] = []
    facts["cann"]["components"] = {}


def change_name(facts: dict[str, Any]) -> None:
    facts["host"]["hostname"] = "node-1"


def change_timeout(facts: dict[str, Any]) -> None:
    facts["env"]["HCCL_CONNECT_TIMEOUT"] = "600"


def drop_timeout(facts: dict[str, Any]) -> None:
    del facts["env"]["HCCL_CONNECT_TIMEOUT"]


def change_master(facts: dict[str, Any]) -> None:
    facts["env"]["MS_SCHED_HOST"] = "10.0.0.2"


def same_node_id(facts: dict[str, Any]) -> None:
    facts["env"]["MS_NODE_ID"] = "0"


def change_tls(facts: dict[str, Any]) -> None:
    for port in facts["hccn"]["ports"]:
        port["tls"] = 1


def change_clock(facts: dict[str, Any]) -> None:
    facts["host"]["clock"] = {"synchronised": False}


def change_devices(facts: dict[str, Any]) -> None:
    del facts["npu"]["devices"][4:]
    facts["devices"]["davinci"] = facts["devices"]["davinci"][:4]
    facts["env"]["MS_WORKER_NUM"] = "16"


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (change_version, "ENV-JOB-001"), (remove_mindformers, "ENV-JOB-001"), (change_cann, "ENV-JOB-001"), (change_name, "ENV-JOB-002"), (change_timeout, "ENV-JOB-003"), (drop_timeout, "ENV-JOB-003"),
        (change_master, "ENV-JOB-004"), (same_node_id, "ENV-JOB-004"), (change_tls, "ENV-NET-004"), (change_clock, "ENV-JOB-005"), (change_devices, "ENV-JOB-006"),
    ],
)  # fmt: skip
def test_one_difference_is_one_finding(tmp_path: Path, change: Callable[[dict[str, Any]], None], rule: str) -> None:
    first, second = healthy("node-1"), healthy("node-2")
    first["facts"]["env"]["MS_NODE_ID"] = "0"
    change(second["facts"])
    found = judged(tmp_path, first, second)
    assert set(found) == {rule}
    assert len(found[rule]) == 1
    assert len(found[rule][0].evidence) >= 2


def test_a_fault_of_both_nodes_is_told_once_with_both_names(tmp_path: Path) -> None:
    documents = [healthy("node-1"), healthy("node-2")]
    for document in documents:
        document["facts"]["env"]["ASCEND_LAUNCH_BLOCKING"] = "1"
    found = judged(tmp_path, *documents)
    assert set(found) == {"ENV-SYS-007"}
    [finding] = found["ENV-SYS-007"]
    assert finding.message.en.startswith("[node-1, node-2] ")
    assert {item.source for item in finding.evidence} == {"node-1: environment", "node-2: environment"}


def test_different_rank_tables(tmp_path: Path) -> None:
    documents = [healthy("node-1"), healthy("node-2")]
    for number, document in enumerate(documents):
        servers = [
            {
                "server_id": f"10.0.0.{s}",
                "devices": [
                    {"device_id": str(d), "device_ip": f"192.168.{s}.{d + 1}", "rank_id": str(8 * s + d)}
                    for d in range(8)
                ],
            }
            for s in range(2)
        ]
        document["facts"]["launch"]["rank_table"] = {
            "variable": "RANK_TABLE_FILE",
            "path": "t.json",
            "error": None,
            "sha256": str(number) * 64,
            "version": "1.0",
            "status": "completed",
            "server_count": "2",
            "servers": servers,
        }
        for name in ("MS_SCHED_HOST", "MS_SCHED_PORT", "MS_WORKER_NUM"):
            del document["facts"]["env"][name]
    found = judged(tmp_path, *documents)
    assert set(found) == {"ENV-JOB-004"}
    assert found["ENV-JOB-004"][0].category == "hccl-config"


def test_an_address_that_two_servers_share(tmp_path: Path) -> None:
    """A table written by copying a server's part: ids are right, one address was forgotten."""
    document = healthy("node-1")
    for name in ("MS_SCHED_HOST", "MS_SCHED_PORT", "MS_WORKER_NUM"):
        del document["facts"]["env"][name]
    rows = [
        [{"device_id": str(d), "device_ip": f"192.168.{s + 1}.{d + 1}", "rank_id": str(8 * s + d)} for d in range(8)]
        for s in range(2)
    ]
    table = {"variable": "RANK_TABLE_FILE", "path": "t.json", "error": None, "version": "1.0", "status": "completed"}
    table["server_count"] = "2"
    table["servers"] = [{"server_id": f"10.0.0.{s}", "devices": rows[s]} for s in range(2)]  # type: ignore[assignment]
    document["facts"]["launch"]["rank_table"] = table
    assert not judged(tmp_path, document)
    rows[1][3]["device_ip"] = "192.168.1.4"
    [finding] = judged(tmp_path, document)["ENV-LAUN-004"]
    assert "two devices have the address 192.168.1.4" in finding.title.en


# ------------------------------------------------------------------------------- files


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'"x"', b"{}", b'{"facts": 3}', b"\xff\xfe\x00", b"[" * 100_000, b"null"],
    ids=range(9),
)
def test_files_that_are_no_facts(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "host.json"
    file.write_bytes(content)
    with pytest.raises(UsageError) as error:
        subject.load(None, Options(hosts=(str(file),)))
    assert str(file) in error.value.line("en") and "doctor collect" in error.value.line("zh")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        subject.load(None, Options(hosts=(str(tmp_path / "gone.json"),)))


def test_a_collected_document_is_recognised(tmp_path: Path) -> None:
    assert subject.recognises(HOSTS / "fresh_800t_a2.json")
    assert not subject.recognises(tmp_path)
    other = tmp_path / "x.json"
    other.write_text('{"model": "llama"}')
    assert not subject.recognises(other)
    assert not subject.recognises(tmp_path / "gone")


def test_the_same_document_gives_the_same_bytes(doctor: Any) -> None:
    words = ("check", "--host", str(HOSTS / "half_upgrade.json"), "--format", "json")
    first, second = doctor(*words), doctor(*words)
    assert first.stdout == second.stdout and first.returncode == 1
    report = json.loads(first.stdout)
    assert [finding["rule"] for finding in report["findings"]] == ["ENV-CANN-008"]
    assert report["facts"]["npu"]["devices"][7]["name"] == "910B3"


def test_collect_and_check_elsewhere_agree(doctor: Any, tmp_path: Path) -> None:
    collected = doctor("collect")
    assert collected.returncode == 0 and collected.stderr == ""
    document = json.loads(collected.stdout)
    assert document["schema"] == "doctor.report/1" and document["command"] == "collect"
    (tmp_path / "host.json").write_text(collected.stdout)
    here, there = (
        doctor("check", "--format", "json"),
        doctor("check", "--host", str(tmp_path / "host.json"), "--format", "json"),
    )
    assert here.returncode == there.returncode
    assert json.loads(here.stdout)["outcomes"] == json.loads(there.stdout)["outcomes"]


# --------------------------------------------------------------------------- redaction


def test_names_addresses_and_secrets_are_gone() -> None:
    document = healthy("secret-host-17")
    facts = document["facts"]
    facts["host"]["user"].update(name="liwei", home="/home/liwei")
    facts["cwd"] = "/home/liwei/job"
    facts["env"].update(
        MS_SCHED_HOST="10.23.4.5",
        HCCL_TOKEN="abcdef",
        MS_NODE="secret-host-17",
        PATH="/home/liwei/bin:/data/zhang@example.com",
    )
    text = json.dumps(redact(document))
    for secret in ("secret-host-17", "liwei", "10.23.4.5", "abcdef", "zhang@example.com", "192.168.1.3"):
        assert secret not in text, secret
    assert "25.5.0" in text and "910B3" in text


def test_redacted_nodes_are_judged_as_before(tmp_path: Path) -> None:
    second = healthy("node-1")
    second["facts"]["env"]["MS_SCHED_HOST"] = "10.0.0.9"
    plain = judged(tmp_path, healthy("node-1"), second)
    hidden = judged(tmp_path, redact(healthy("node-1")), redact(copy.deepcopy(second)))
    assert set(plain) == set(hidden) == {"ENV-JOB-002", "ENV-JOB-004"}


@pytest.mark.parametrize(
    ("text", "gone", "kept"),
    [
        ("curl -H 'Authorization: Bearer abc.def' x", "abc.def", "curl"),
        ("export AWS_SECRET_ACCESS_KEY=wJalrXUtn", "wJalrXUtn", "AWS_SECRET_ACCESS_KEY"),
        ("git clone https://me:pw@example.org/x.git", "me:pw", "example.org"),
        ("token hf_abcdefghijklmnopqrstuv", "hf_abcdef", "token"),
        ("--api-key 12345 --lr 1e-5", "12345", "1e-5"),
        ("from 172.16.3.4 port 22", "172.16.3.4", "port 22"),
        ("fe80::a00:27ff:fe4e:66a1", "a00:27ff", ""),
        ("/home/zhang/ascend/log", "zhang", "/ascend/log"),
        (
            "at 127.0.0.1, mask 255.255.255.0, CANN 7.6.0.1.220",
            "no such",
            "127.0.0.1, mask 255.255.255.0, CANN 7.6.0.1.220",
        ),
    ],
)
def test_texts(text: str, gone: str, kept: str) -> None:
    clean = Redactor().text(text)
    assert gone not in clean and kept in clean
    assert Redactor().text(text) == clean


def test_a_file_given_twice_is_one_node(tmp_path: Path) -> None:
    file = tmp_path / "host.json"
    file.write_text(json.dumps(healthy("node-1")), encoding="utf-8")
    assert len(subject.load(None, Options(hosts=(str(file), str(file)))).hosts) == 1


def test_other_versions_come_with_the_command_for_the_odd_node(tmp_path: Path) -> None:
    """Three nodes, one of an older MindSpore and CANN: that one is to follow the others, with the pip of its interpreter."""
    odd = healthy("node-3")
    odd["facts"]["packages"]["mindspore"] = odd["facts"]["mindspore"]["version"] = "2.7.1"
    odd["facts"]["cann"]["version"] = "8.3.RC1"
    odd["facts"]["python"]["executable"] = "/opt/other/bin/python"
    findings = judged(tmp_path, odd, healthy("node-1"), healthy("node-2"))["ENV-JOB-001"]
    commands = {finding.title.en.split()[-1]: finding.fixes[0].command for finding in findings}
    assert commands["MindSpore"] == "/opt/other/bin/python -m pip install mindspore==2.7.2"
    assert "Ascend-cann-toolkit_8.5.0_linux-aarch64.run" in commands["CANN"]


def test_a_file_too_large_for_a_host_is_said_to_be_too_large(tmp_path: Path) -> None:
    file = tmp_path / "host.json"
    file.write_bytes(b" " * (subject.LIMIT + 1))
    with pytest.raises(UsageError, match="larger than 32 MiB"):
        subject.load(None, Options(hosts=(str(file),)))


def test_every_name_of_a_node_is_redacted(tmp_path: Path) -> None:
    """The scheduler is given as an address, PyTorch's variable beside it as a name, the rank table names its servers."""
    document = healthy("node-1")
    document["facts"]["env"].update(MS_SCHED_HOST="10.0.0.1", MASTER_ADDR="gpu-head.corp.example")
    document["facts"]["launch"]["rank_table"] = {"servers": [{"server_id": "rack7-b2", "devices": []}]}
    clean = json.dumps(redact(document))
    assert "gpu-head" not in clean and "rack7-b2" not in clean


def test_what_the_user_keeps_is_not_changed(tmp_path: Path, doctor: Callable[..., Any]) -> None:
    """MindSpore 2.7.2 takes CANN 8.5 only: beside CANN 8.3.RC1 either may change, unless the user forbids it."""
    document = healthy("node-1")
    document["facts"]["cann"].update(version="8.3.RC1", internal="8.3.0.1.200")
    del document["facts"]["packages"]["mindformers"]
    document["facts"]["mindformers"] = None
    file = tmp_path / "host.json"
    file.write_text(json.dumps(document), encoding="utf-8")

    def changed(*words: str) -> list[str]:
        done = doctor("check", "--host", str(file), "--only", "ENV-CANN-001", "--format", "json", *words)
        return [fix["summary"].split()[1] for fix in json.loads(done.stdout)["findings"][0]["fixes"]]

    assert changed() == ["MindSpore", "CANN"]
    assert changed("--keep", "mindspore") == ["CANN"]
    assert changed("--keep", "cann", "--keep", "driver") == ["MindSpore"]


def test_facts_come_through_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO(json.dumps(healthy("node-1")).encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(raw))
    assert subject.load(None, Options(hosts=("-",))).hosts[0].mindspore == "2.7.2"
