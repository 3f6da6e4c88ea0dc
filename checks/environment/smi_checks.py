"""Does npu-smi answer, and if not, what keeps it from the cards."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Optional

from doctor.check import Skip
from doctor.checks.environment.host import Device, Host
from doctor.checks.environment.subject import ascend_only, host_check
from doctor.checks.environment.wording import phrased, said
from doctor.finding import Evidence, Finding, Fix, Severity, Text
from doctor.rule import Rule


def told(host: Host) -> Text:
    """What npu-smi, or the collector in its place, said instead of naming devices."""
    return said(host.npu.text("error") or "npu-smi named no device")


def own_words(host: Host) -> Optional[Text]:
    """The same where it is the collector's sentence; None where the tool's own words are to be quoted."""
    sentence = told(host)
    return None if sentence.zh == f"“{sentence.en}”" else sentence


def needs_devices(host: Host) -> tuple[Device, ...]:
    """The devices, or Skip with what kept them away."""
    ascend_only(host)
    if not host.devices:
        raise Skip(Text("no device to judge: ", "没有可检查的设备：") + told(host))
    return host.devices


def needs_whole_table(host: Host) -> None:
    """Raises Skip where npu-smi hung within its table: the rows that did come do not speak for the others."""
    if host.npu_failure is not None:
        raise Skip(Text("the table of npu-smi is not whole: ", "npu-smi 的表不完整：") + told(host))


@host_check(
    Rule(
        id="ENV-NPU-001",
        name="npu-smi-no-device",
        severity=Severity.ERROR,
        category="device-unavailable",
        title=Text("npu-smi reaches no usable device (-8005)", "npu-smi 找不到可用设备（-8005）"),
        why=Text(
            "The driver interface could not be initialised: the user is not in the group of the device nodes, the control nodes "
            "(davinci_manager, devmm_svm, hisi_hdc) are not mapped into the container, or the driver is not loaded.",
            "驱动接口初始化失败：用户不在设备节点所属的组里、容器没有映射管理节点（davinci_manager、devmm_svm、hisi_hdc），或驱动没有加载。",
        ),
        fix=Text(
            "On a host: join the group of the device nodes and log in again. In a container: start it with the devices and the driver mapped.",
            "物理机：把用户加入设备节点所属的组并重新登录。容器：启动时映射设备和驱动。",
        ),
        verify="npu-smi info",
        references=(
            "https://github.com/Ascend/cann-container-image/issues/46",
            "https://github.com/Project-HAMi/HAMi/issues/1696",
        ),
        explains=("ENV-DEEP-001",),
    )
)
def npu_smi_no_device(host: Host) -> Iterator[Finding]:
    kind = failed(host, "no-device", "driver-error", "not-permitted")
    if kind is None:
        return
    command = container_command(host) if host.container else "sudo usermod -aG HwHiAiUser $USER"
    error = host.npu.text("error") or ""
    yield npu_smi_no_device.finding(
        evidence=(Evidence("command", "npu-smi info", text=error, note=own_words(host)),),
        confidence=0.9 if kind == "no-device" else 0.7,
        fixes=(Fix(npu_smi_no_device.rule.fix, command=command, verify="npu-smi info"),),
    ).with_(
        title=npu_smi_no_device.rule.title
        if kind == "no-device"
        else Text(f"npu-smi cannot use the driver: {error}", f"npu-smi 无法使用驱动：{error}"),
        category="permissions" if kind == "not-permitted" else "device-unavailable",
    )


def failed(host: Host, *kinds: str) -> Optional[str]:
    """The kind of npu-smi's failure when it is one of `kinds`; None when npu-smi answers. Raises Skip where there is
    nothing of Ascend, and when npu-smi failed in another way: then this question cannot be asked."""
    ascend_only(host)
    kind = host.npu_failure
    if kind is None and not host.devices:
        raise Skip(Text("npu-smi was not asked", "没有查询 npu-smi"))
    if kind is not None and kind not in kinds:
        raise Skip(Text("npu-smi failed otherwise: ", "npu-smi 因其他原因失败：") + told(host))
    return kind


def container_command(host: Host) -> str:
    nodes = " ".join(f"--device=/dev/davinci{number}" for number in host.node_ids or range(host.wanted or 8))
    return (
        f"docker run {nodes} --device=/dev/davinci_manager --device=/dev/devmm_svm --device=/dev/hisi_hdc "
        "-v /usr/local/dcmi:/usr/local/dcmi -v /usr/local/bin/npu-smi:/usr/local/bin/npu-smi "
        "-v /usr/local/Ascend/driver:/usr/local/Ascend/driver -v /etc/ascend_install.info:/etc/ascend_install.info IMAGE"
    )


@host_check(
    Rule(
        id="ENV-NPU-002",
        name="npu-smi-device-used",
        severity=Severity.ERROR,
        category="device-unavailable",
        title=Text("The card is held by another container (-8020)", "卡被另一个容器独占（-8020）"),
        why=Text(
            "Outside share mode a card belongs to one container at a time.",
            "未开启共享模式时，一张卡同一时间只能属于一个容器。",
        ),
        fix=Text(
            "Stop the container that holds it, take another card, or have an administrator turn on share mode.",
            "停掉占用它的容器，换一张卡，或请管理员开启共享模式。",
        ),
        verify="npu-smi info",
        references=("https://github.com/vllm-project/vllm-ascend/issues/2698",),
        explains=("ENV-DEEP-001",),
    )
)
def npu_smi_device_used(host: Host) -> Iterator[Finding]:
    if failed(host, "device-used"):
        yield npu_smi_device_used.finding(
            evidence=(Evidence("command", "npu-smi info", text=host.npu.text("error"), note=own_words(host)),),
            fixes=(
                Fix(
                    npu_smi_device_used.rule.fix,
                    command="docker ps --format '{{.ID}} {{.Names}} {{.Image}}'",
                    verify="npu-smi info",
                ),
            ),
        )


@host_check(
    Rule(
        id="ENV-NPU-003",
        name="npu-smi-library-missing",
        severity=Severity.ERROR,
        category="install",
        title=Text("npu-smi does not start: {library} {problem}", "npu-smi 无法启动：{library} {problem}"),
        why=Text(
            "The driver's libraries are not on the library path, or the driver folder is not mapped into the container. MindSpore will miss them too.",
            "驱动的动态库不在库搜索路径里，或容器没有映射驱动目录。MindSpore 同样会找不到它们。",
        ),
        fix=Text(
            "Put the driver's libraries on the path, or map /usr/local/Ascend/driver into the container.",
            "把驱动库目录加入搜索路径，或在容器中映射 /usr/local/Ascend/driver。",
        ),
        verify="npu-smi info",
        references=("https://github.com/Project-HAMi/HAMi/issues/615",),
        explains=("ENV-DEEP-001",),
    )
)
def npu_smi_library_missing(host: Host) -> Iterator[Finding]:
    if failed(host, "library-missing") is None:
        return
    from doctor.checks.environment.sources.npu_smi_details import missing_library

    error = host.npu.text("error") or ""
    too_old = re.search(r"version `?([\w.]+)'? not found|undefined symbol", error)
    if too_old is not None:
        missing = too_old[1] or "a symbol"
        problem = Text(f"lacks {missing}", f"缺少 {missing}")
        fix = Text(
            "Use an image whose system is as new as the host's driver, and leave other lib folders out of LD_LIBRARY_PATH.",
            "使用系统版本不低于宿主机驱动要求的镜像，并从 LD_LIBRARY_PATH 中去掉其他库目录。",
        )
        yield phrased(
            npu_smi_library_missing.finding(
                evidence=(Evidence("command", "npu-smi info", text=error),),
                fixes=(Fix(fix, command="env -u LD_LIBRARY_PATH npu-smi info; ldd --version", verify="npu-smi info"),),
                library=missing_library(error) or "?",
            ),
            problem=problem,
        )
        return
    base = host.driver.text("install_info", "driver_path") or "/usr/local/Ascend"
    finding = npu_smi_library_missing.finding(
        evidence=(Evidence("command", "npu-smi info", text=error, note=own_words(host)),),
        fixes=(
            Fix(
                npu_smi_library_missing.rule.fix,
                command=f"export LD_LIBRARY_PATH={base}/driver/lib64:{base}/driver/lib64/common:{base}/driver/lib64/driver:$LD_LIBRARY_PATH",
                verify="npu-smi info",
            ),
        ),
        library=missing_library(error) or "?",
    )
    yield phrased(finding, problem=Text("is not found", "不存在"))


@host_check(
    Rule(
        id="ENV-NPU-004",
        name="npu-smi-hangs",
        severity=Severity.ERROR,
        category="device-unavailable",
        title=Text("npu-smi does not answer", "npu-smi 没有响应"),
        why=Text(
            "{error}. The driver is busy or stuck: a card that is being reset, a lost PCIe link, or a process stuck in the driver. Training would hang the same way.",
            "{error}。驱动繁忙或卡死：卡正在复位、PCIe 链路丢失，或有进程卡在驱动里。训练也会同样卡住。",
        ),
        fix=Text(
            "Look at the kernel log; if it stays so, have an administrator reset the card or reboot.",
            "查看内核日志；若一直如此，请管理员复位该卡或重启机器。",
        ),
        verify="time npu-smi info",
        explains=("ENV-DEEP-001",),
    )
)
def npu_smi_hangs(host: Host) -> Iterator[Finding]:
    if failed(host, "timeout"):
        yield phrased(
            npu_smi_hangs.finding(
                evidence=(Evidence("command", "npu-smi info", text=host.npu.text("error"), note=own_words(host)),),
                fixes=(
                    Fix(
                        npu_smi_hangs.rule.fix,
                        command="dmesg -T | grep -iE 'davinci|drv_|pcie' | tail -50",
                        verify="time npu-smi info",
                    ),
                ),
            ),
            error=told(host),
        )


@host_check(
    Rule(
        id="ENV-NPU-005",
        name="npu-smi-missing",
        severity=Severity.WARNING,
        category="install",
        title=Text("npu-smi cannot be run on this machine", "本机无法运行 npu-smi"),
        why=Text(
            "{error}. Health and memory of the cards cannot be judged; the driver may not be installed, or the container lacks the mount.",
            "{error}。因此无法检查卡的健康状态和显存；可能没有安装驱动，或容器没有映射它。",
        ),
        fix=Text(
            "Install the driver, or map /usr/local/bin/npu-smi and the driver into the container.",
            "安装驱动，或把 /usr/local/bin/npu-smi 和驱动映射进容器。",
        ),
        verify="npu-smi info",
    )
)
def npu_smi_missing(host: Host) -> Iterator[Finding]:
    kind = failed(host, "not-found", "not-startable")
    if kind is None:
        return
    if kind == "not-found" and not (host.node_ids or host.pci_count or host.has_driver):
        raise Skip(Text("no card or driver is here: ", "本机没有卡或驱动：") + told(host))
    yield phrased(
        npu_smi_missing.finding(
            evidence=(Evidence("command", "npu-smi info", text=host.npu.text("error"), note=own_words(host)),),
            fixes=(
                Fix(
                    npu_smi_missing.rule.fix,
                    command=container_command(host)
                    if host.container
                    else "ls -l /usr/local/bin/npu-smi /usr/local/sbin/npu-smi",
                    verify="npu-smi info",
                ),
            ),
        ),
        error=told(host),
    )


@host_check(
    Rule(
        id="ENV-NPU-006",
        name="npu-smi-unreadable",
        severity=Severity.WARNING,
        category="device-unavailable",
        title=Text("npu-smi answers without naming a device", "npu-smi 有输出，但没有列出任何设备"),
        why=Text(
            "{said}{error}. No card can be judged, and none is called well.",
            "{said}{error}。因此无法判断任何一张卡，也不会说它正常。",
        ),
        fix=Text("Run it by hand and look at its whole output.", "手工运行并查看完整输出。"),
        verify="npu-smi info",
        confidence=0.8,
    )
)
def npu_smi_unreadable(host: Host) -> Iterator[Finding]:
    kind = failed(host, "no-rows", "unreadable", "silent", "unsupported")
    if kind is not None:
        code = host.npu.integer("exit_code")
        yield phrased(
            npu_smi_unreadable.finding(
                evidence=(
                    Evidence(
                        "command",
                        "npu-smi info",
                        text=host.npu.text("error"),
                        note=own_words(host),
                        observed=code,
                        expected=0,
                    ),
                ),
                fixes=(
                    Fix(npu_smi_unreadable.rule.fix, command="npu-smi info; echo exit code $?", verify="npu-smi info"),
                ),
            ),
            # What the tool printed is quoted; what the collector says of it stands by itself.
            said=Text("It printed: ", "它的输出是：") if kind in {"unreadable", "unsupported"} else Text("", ""),
            error=told(host),
        )
