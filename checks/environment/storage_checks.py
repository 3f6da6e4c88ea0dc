"""Disks, folders and shared memory: is there room, may it be written, does it answer."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import Skip
from doctor.checks.environment.fields import Fields
from doctor.checks.environment.host import Host
from doctor.checks.environment.subject import host_check
from doctor.checks.environment.wording import phrased
from doctor.finding import Evidence, Finding, Fix, Severity, Text
from doctor.rule import Rule

_ENV_LIST = "https://www.mindspore.cn/docs/en/stable/api_python/env_var_list.html"


#: what the collector calls the places it measures
PURPOSES = {
    "root": Text("root", "根目录"),
    "home": Text("home", "主目录"),
    "tmp": Text("temporary files", "临时目录"),
    "working folder": Text("working folder", "当前目录"),
    "CANN": Text("CANN", "CANN"),
    "CANN logs": Text("CANN's logs", "CANN 日志"),
    "CANN cache": Text("CANN's cache", "CANN 缓存"),
    "output": Text("output", "输出目录"),
}


def purpose_of(disk: Fields) -> Text:
    word = disk.text("purpose") or "?"
    return PURPOSES.get(word, Text(word, word))


@host_check(
    Rule(
        id="ENV-SYS-001",
        name="disk-nearly-full",
        severity=Severity.WARNING,
        category="disk-io",
        title=Text("{path} ({purpose}) has {free} free", "{path}（{purpose}）只剩 {free}"),
        why=Text(
            'Operator caches (kernel_meta), CANN\'s logs (~/ascend/log) and checkpoints grow during a run; a full disk stops it with "No space left on device" or a torn checkpoint.',
            "训练中算子缓存（kernel_meta）、CANN 日志（~/ascend/log）和权重文件都会增长；磁盘写满会报 “No space left on device” 或留下不完整的权重。",
        ),
        fix=Text("Clear old logs and caches, or write elsewhere.", "清理旧日志和缓存，或换个位置输出。"),
        verify="df -h {path}",
        references=(_ENV_LIST,),
    )
)
def disk_nearly_full(host: Host) -> Iterator[Finding]:
    disks = list(host.system.rows("disks"))
    if not any(disk.number("free_mb") is not None for disk in disks):
        raise Skip(Text("the free space is not known", "不知道剩余空间"))
    seen: set[tuple[object, object]] = set()
    for disk in disks:
        path, free, total = disk.text("path") or "?", disk.number("free_mb"), disk.number("total_mb")
        if free is None or total is None or (free, total) in seen or disk.flag("read_only"):
            continue
        seen.add((free, total))
        inodes = disk.number("inodes_free_percent")
        no_names = inodes is not None and inodes < 1 and total > 0
        if free >= 5 * 1024 and not no_names:
            continue
        # A small partition that is used for nothing else (a tmpfs of 1 GB) is not short of room.
        if disk.text("purpose") == "tmp" and free >= 512 and not no_names:
            continue
        gone = free < 512 or (no_names and inodes is not None and inodes < 0.1)
        finding = disk_nearly_full.finding(
            evidence=(
                Evidence(
                    "command",
                    f"df {path}",
                    note=Text(f"{free:.0f} MB of {total:.0f} MB free", f"共 {total:.0f} MB，剩余 {free:.0f} MB")
                    + (Text(f", {inodes} % of the inodes", f"，inode 剩余 {inodes} %") if no_names else Text("", "")),
                    observed=free,
                    expected=">= 5120",
                ),
            ),
            severity=Severity.ERROR if gone else Severity.WARNING,
            fixes=(
                Fix(
                    disk_nearly_full.rule.fix,
                    command=f"du -xhd1 {path} 2>/dev/null | sort -h | tail -20",
                    verify=f"df -h {path}",
                ),
            ),
            path=path,
            free=f"{free / 1024:.1f} GB" if not no_names else f"{inodes} % inode",
        )
        yield phrased(finding, purpose=purpose_of(disk))


@host_check(
    Rule(
        id="ENV-SYS-002",
        name="folder-not-writable",
        severity=Severity.WARNING,
        category="permissions",
        title=Text("{path} ({purpose}) is not writable", "{path}（{purpose}）不可写"),
        why=Text(
            "Training writes there: caches and logs to the home folder and /tmp, kernel_meta and rank folders to the working folder.",
            "训练会写这些目录：缓存和日志写到主目录和 /tmp，kernel_meta 和各 rank 目录写到当前目录。",
        ),
        fix=Text("Start from a folder you own, or give the permission.", "换到自己的目录启动，或授予写权限。"),
        verify="touch {path}/.doctor && rm {path}/.doctor",
        confidence=0.8,
    )
)
def folder_not_writable(host: Host) -> Iterator[Finding]:
    disks = [disk for disk in host.system.rows("disks") if disk.flag("writable") is not None or _is_missing(disk)]
    if not disks:
        raise Skip(Text("the folders were not examined", "没有检查目录"))
    for disk in disks:
        purpose, path = disk.text("purpose") or "?", disk.text("path") or "?"
        if (disk.flag("writable") and not _is_missing(disk)) or purpose in {"root", "CANN"}:
            continue
        # Looking at a config from a folder of others is no fault.
        if purpose == "working folder" and not host.wants_ascend:
            continue
        finding = folder_not_writable.finding(
            evidence=(
                Evidence(
                    "file",
                    path,
                    key=purpose,
                    note=_why_not_writable(disk),
                ),
            ),
            severity=Severity.ERROR if purpose == "tmp" else Severity.WARNING,
            fixes=(
                Fix(
                    folder_not_writable.rule.fix,
                    command=f"mkdir -p {path}" if disk.flag("exists") is False else f"ls -ld {path}; id",
                    verify=f"touch {path}/.doctor && rm {path}/.doctor",
                ),
            ),
            path=path,
        )
        yield phrased(finding, purpose=purpose_of(disk))


def _why_not_writable(disk: Fields) -> Text:
    if _is_missing(disk):
        return Text("no such folder", "没有这个目录")
    if disk.flag("read_only"):
        return Text("read-only file system", "只读文件系统")
    return Text("no write permission", "没有写权限")


def _is_missing(disk: Fields) -> bool:
    """Whether the home folder or the one for temporary files is not there; the others are made when they are needed."""
    return disk.text("purpose") in {"home", "tmp"} and (disk.flag("exists") is False or disk.flag("is_folder") is False)


@host_check(
    Rule(
        id="ENV-SYS-003",
        name="shared-memory-too-small",
        severity=Severity.WARNING,
        category="memory-host",
        title=Text("/dev/shm holds {free} MB of {total} MB", "/dev/shm 共 {total} MB，剩余 {free} MB"),
        why=Text(
            'Data workers hand batches over through /dev/shm; Docker\'s default is 64 MB. A full one kills them with "Bus error" or "No space left on device".',
            "数据处理进程通过 /dev/shm 传递数据，Docker 默认只有 64 MB。写满后会报 “Bus error” 或 “No space left on device”。",
        ),
        fix=Text("Start the container with a larger one.", "启动容器时加大它。"),
        verify="df -h /dev/shm",
        references=(
            "https://github.com/deepspeedai/DeepSpeed/pull/4015",
            "https://github.com/hiyouga/LLaMA-Factory/issues/7315",
        ),
    )
)
def shared_memory_too_small(host: Host) -> Iterator[Finding]:
    total, free = host.system.number("shm", "total_mb"), host.system.number("shm", "free_mb")
    if total is None or free is None:
        raise Skip(Text("/dev/shm is not there", "没有 /dev/shm"))
    if total >= 1024 and free >= 512:
        return
    # Only where something trains: a laptop or a CI job does as it likes.
    if not host.wants_ascend and total > 64:
        return
    yield shared_memory_too_small.finding(
        evidence=(
            Evidence(
                "command",
                "df /dev/shm",
                note=Text(f"{free:.0f} MB of {total:.0f} MB free", f"共 {total:.0f} MB，剩余 {free:.0f} MB"),
                observed=total,
                expected=">= 1024",
            ),
        ),
        severity=Severity.WARNING if host.wants_ascend else Severity.INFO,
        fixes=(
            Fix(
                shared_memory_too_small.rule.fix,
                command="docker run --shm-size=64g …" if host.container else "sudo mount -o remount,size=64G /dev/shm",
                verify="df -h /dev/shm",
            ),
        ),
        total=int(total),
        free=int(free),
    )


@host_check(
    Rule(
        id="ENV-SYS-005",
        name="shared-memory-left-over",
        severity=Severity.WARNING,
        category="memory-host",
        title=Text(
            "{count} shared memory segments ({size} MB) belong to nobody", "有 {count} 个无主的共享内存段（{size} MB）"
        ),
        why=Text(
            "A crashed run left them; they take memory until they are removed or the machine is restarted.",
            "它们是异常退出的任务留下的，在删除或重启之前一直占用内存。",
        ),
        fix=Text("Remove your own ones.", "删除属于自己的共享内存段。"),
        verify="ipcs -m",
        references=("https://www.mindspore.cn/docs/en/stable/faq/distributed_parallel.html",),
        confidence=0.8,
    )
)
def shared_memory_left_over(host: Host) -> Iterator[Finding]:
    if not isinstance(host.system.at("shared_segments").value, list):
        raise Skip(Text("the kernel does not list shared memory here", "此处内核不提供共享内存列表"))
    uid = host.system.integer("user", "uid")
    left = [
        row
        for row in host.system.rows("shared_segments")
        if row.flag("creator_alive") is False and (uid in (0, None) or row.integer("uid") == uid)
    ]
    size = sum(row.integer("size_mb") or 0 for row in left)
    if left and size >= 64:
        ids = [str(row.integer("id")) for row in left]
        yield shared_memory_left_over.finding(
            evidence=(
                Evidence(
                    "file",
                    "/proc/sysvipc/shm",
                    note=Text(
                        f"shmid {', '.join(ids[:8])}: nothing attached, creator gone",
                        f"shmid {', '.join(ids[:8])}：没有进程挂接，创建者已退出",
                    ),
                ),
            ),
            fixes=(
                Fix(
                    shared_memory_left_over.rule.fix,
                    command=" ".join(["ipcrm", *(f"-m {one}" for one in ids[:32])]),
                    verify="ipcs -m",
                ),
            ),
            count=len(left),
            size=size,
        )


@host_check(
    Rule(
        id="ENV-SYS-009",
        name="file-system-hangs",
        severity=Severity.ERROR,
        category="disk-io",
        title=Text("{path} ({purpose}) does not answer", "{path}（{purpose}）没有响应"),
        why=Text(
            "The file system did not answer within 2 s: a dead network mount. Every process that touches it hangs.",
            "该文件系统 2 秒内没有响应：网络盘已失联。任何访问它的进程都会卡住。",
        ),
        fix=Text("Remount it, or keep home, logs and output elsewhere.", "重新挂载，或把主目录、日志、输出放到别处。"),
        verify="timeout 5 stat {path}",
    )
)
def file_system_hangs(host: Host) -> Iterator[Finding]:
    disks = [disk for disk in host.system.rows("disks") if disk.flag("hangs") is not None]
    if not disks:
        raise Skip(Text("the disks were not examined", "没有检查磁盘"))
    for disk in disks:
        if disk.flag("hangs"):
            finding = file_system_hangs.finding(
                evidence=(Evidence("command", "statvfs", note=_no_answer(disk.text("path") or "?")),),
                fixes=(
                    Fix(
                        file_system_hangs.rule.fix,
                        command="mount | grep -E 'nfs|cifs|lustre'",
                        verify=f"timeout 5 stat {disk.text('path')}",
                    ),
                ),
                path=disk.text("path") or "?",
            )
            yield phrased(finding, purpose=purpose_of(disk))


def _no_answer(path: str) -> Text:
    return Text(f"{path}: no answer within 2 s", f"{path}：2 秒内没有响应")
