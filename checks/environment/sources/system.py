"""Facts of the host: operating system, user, processors, memory, disks, shared memory, clock."""

from __future__ import annotations

import os
import re
import threading
import time
from typing import Any, Optional

from doctor.checks.environment.sources.machine import Machine

MB = 1024 * 1024
_NETWORK_FILE_SYSTEMS = ("nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "lustre", "gpfs", "beegfs", "ceph", "dpc")


def facts(machine: Machine, with_clock: bool = True) -> dict[str, Any]:
    """Whatever cannot be read is None; a file system that does not answer within 2 s is said to hang."""
    release = machine.pairs("/etc/os-release") or {}
    name = os.uname()
    return {
        "hostname": name.nodename or None,
        "os": release.get("PRETTY_NAME", "").strip("\"'") or None,
        "os_id": release.get("ID", "").strip("\"'") or None,
        "kernel": name.release or None,
        "machine": name.machine or None,
        "glibc": _glibc(),
        "container": _container(machine),
        "user": _user(machine),
        "cpu": _cpu(machine),
        "memory": _memory(machine),
        "disks": _disks(machine),
        "shm": _shm(machine),
        "shared_segments": _segments(machine),
        "clock": _clock() if with_clock else {"synchronised": None},
        "collected_at": int(time.time()),
    }


def _glibc() -> Optional[str]:
    try:
        value = os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError, AttributeError):
        return None
    return value.split()[-1] if value else None


def _container(machine: Machine) -> Optional[str]:
    """The kind of container this is, or None on a plain host."""
    environ = machine.environ
    if environ.get("KUBERNETES_SERVICE_HOST") or machine.exists("/var/run/secrets/kubernetes.io"):
        return "kubernetes"
    if machine.exists("/.dockerenv"):
        return "docker"
    if environ.get("container"):
        return environ["container"][:40]
    if machine.exists("/run/.containerenv"):
        return "podman"
    groups = machine.read("/proc/1/cgroup") or ""
    match = re.search(r"(docker|containerd|kubepods|lxc|isulad)", groups)
    return match.group(1) if match else None


def _user(machine: Machine) -> dict[str, Any]:
    try:
        uid, gid, groups = os.getuid(), os.getgid(), sorted({os.getgid(), *os.getgroups()})
    except (OSError, AttributeError):
        return {"uid": None, "gid": None, "groups": [], "name": None, "in_passwd": None, "home": machine.home()}
    try:
        import pwd

        name: Optional[str] = pwd.getpwuid(uid).pw_name
    except (ImportError, KeyError):
        name = None
    return {
        "uid": uid,
        "gid": gid,
        "groups": groups,
        "name": name,
        "in_passwd": name is not None,
        "home": machine.environ.get("HOME") or None,
    }


def _cpu(machine: Machine) -> dict[str, Any]:
    try:
        usable: Optional[int] = len(os.sched_getaffinity(0))
    except (OSError, AttributeError):
        usable = None
    info = machine.read("/proc/cpuinfo", 8192) or ""
    model = re.search(r"^model name\s*:\s*(.+)$", info, re.M)
    base = "/sys/devices/system"
    governor = (machine.read(f"{base}/cpu/cpu0/cpufreq/scaling_governor", 64) or "").strip()
    return {
        "count": os.cpu_count(),
        "usable": usable,
        "quota": _cpu_quota(machine),
        "model": model.group(1).strip() if model else None,
        "governor": governor or None,
        "numa_nodes": sum(re.fullmatch(r"node\d+", name) is not None for name in machine.names(f"{base}/node")) or None,
    }


def _cpu_quota(machine: Machine) -> Optional[float]:
    """How many processors the control group grants, or None when it sets no limit."""
    text = machine.read("/sys/fs/cgroup/cpu.max", 64)
    if text is not None:
        quota, _, period = text.strip().partition(" ")
    else:
        base = "/sys/fs/cgroup/cpu"
        quota = (machine.read(f"{base}/cpu.cfs_quota_us", 64) or "").strip()
        period = (machine.read(f"{base}/cpu.cfs_period_us", 64) or "").strip()
    if not quota.isdecimal() or not period.isdecimal() or int(period) == 0:
        return None
    return round(int(quota) / int(period), 2)


def _memory(machine: Machine) -> dict[str, Optional[int]]:
    """MiB. `limit_mb` is the control group's, None when it sets none."""
    text = machine.read("/proc/meminfo") or ""
    sizes = {key: int(value) // 1024 for key, value in re.findall(r"^(\w+):\s+(\d{1,15}) kB", text, re.M)}
    raw = machine.read("/sys/fs/cgroup/memory.max", 64) or machine.read(
        "/sys/fs/cgroup/memory/memory.limit_in_bytes", 64
    )
    limit = int(raw.strip()) // MB if raw and raw.strip().isdecimal() else None
    total = sizes.get("MemTotal")
    used = machine.read("/sys/fs/cgroup/memory.current", 64) or ""
    if limit is not None and total is not None and limit >= total:
        limit = None
    return {
        "total_mb": total,
        "available_mb": sizes.get("MemAvailable"),
        "swap_mb": sizes.get("SwapTotal"),
        "limit_mb": limit,
        "limit_used_mb": int(used.strip()) // MB if limit is not None and used.strip().isdecimal() else None,
    }


def _disks(machine: Machine) -> list[dict[str, Any]]:
    """Free space where training writes: root, home, /tmp, the working folder, CANN's logs and caches."""
    wanted: dict[str, str] = {"/": "root"}
    for purpose, path in (
        ("home", machine.home()),
        ("tmp", machine.environ.get("TMPDIR") or "/tmp"),
        ("working folder", machine.cwd),
        ("CANN logs", machine.environ.get("ASCEND_PROCESS_LOG_PATH")),
        ("CANN cache", machine.environ.get("ASCEND_CACHE_PATH")),
        ("output", machine.environ.get("LOCAL_DEFAULT_PATH")),
        ("CANN", machine.environ.get("ASCEND_HOME_PATH")),
    ):
        if path and path.startswith("/"):
            wanted.setdefault(path, purpose)
    mounts = _mounts(machine)
    rows: list[dict[str, Any]] = []

    def measure() -> None:
        for path, purpose in wanted.items():
            rows.append({"path": path, "purpose": purpose, "hangs": True})
            rows[-1] = {"path": path, "purpose": purpose, "hangs": False, **_disk(machine, path, mounts)}

    # A dead network mount blocks whoever touches it, without end: only this thread may be lost to it.
    thread = threading.Thread(target=measure, daemon=True)
    thread.start()
    thread.join(2.0)
    return [dict(row) for row in list(rows)]


def _disk(machine: Machine, path: str, mounts: list[tuple[str, str]]) -> dict[str, Any]:
    place = machine.resolve(path)
    kind = next((kind for point, kind in mounts if place == point or place.startswith(point.rstrip("/") + "/")), None)
    row: dict[str, Any] = {"file_system": kind, "network": kind in _NETWORK_FILE_SYSTEMS if kind else None}
    try:
        status = os.statvfs(machine.real(path))
    except OSError:
        return {
            **row,
            "exists": machine.exists(path),
            "is_folder": machine.is_folder(path),
            "total_mb": None,
            "free_mb": None,
            "inodes_free_percent": None,
            "writable": None,
            "read_only": None,
        }
    return {
        **row,
        "exists": True,
        "is_folder": machine.is_folder(path),
        "total_mb": status.f_blocks * status.f_frsize // MB,
        "free_mb": status.f_bavail * status.f_frsize // MB,
        "inodes_free_percent": round(100 * status.f_favail / status.f_files, 1) if status.f_files else None,
        "writable": os.access(machine.real(path), os.W_OK),
        "read_only": bool(status.f_flag & os.ST_RDONLY),
    }


def _mounts(machine: Machine) -> list[tuple[str, str]]:
    """(mount point, type), the longest point first."""
    rows = []
    for line in (machine.read("/proc/self/mounts", 1024 * 1024) or "").splitlines():
        fields = line.split(" ")
        if len(fields) >= 3:
            rows.append((fields[1].replace("\\040", " "), fields[2]))
    return sorted(rows, key=lambda row: -len(row[0]))


def _shm(machine: Machine) -> dict[str, Optional[int]]:
    try:
        status = os.statvfs(machine.real("/dev/shm"))
    except OSError:
        return {"total_mb": None, "free_mb": None}
    return {
        "total_mb": status.f_blocks * status.f_frsize // MB,
        "free_mb": status.f_bavail * status.f_frsize // MB,
    }


def _segments(machine: Machine) -> Optional[list[dict[str, Any]]]:
    """System V shared-memory segments that nothing is attached to; None when the kernel does not list them."""
    text = machine.read("/proc/sysvipc/shm", 1024 * 1024)
    if text is None:
        return None
    lines = text.splitlines()
    names = lines[0].split() if lines else []
    try:
        columns = {key: names.index(key) for key in ("shmid", "size", "nattch", "uid", "cpid")}
    except ValueError:
        return None
    rows = []
    for line in lines[1:2000]:
        cells = line.split()
        if len(cells) >= len(names) and all(cells[at].lstrip("-").isdecimal() for at in columns.values()):
            row = {key: int(cells[at]) for key, at in columns.items()}
            if row["nattch"] == 0:
                alive = machine.exists(f"/proc/{row['cpid']}")
                rows.append(
                    {"id": row["shmid"], "size_mb": row["size"] // MB, "uid": row["uid"], "creator_alive": alive}
                )
    return rows


def _clock() -> dict[str, Any]:
    """Whether the kernel's clock is held by a time service (STA_UNSYNC of adjtimex), and its error bound."""
    try:
        import ctypes

        buffer = (ctypes.c_long * 64)()
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.adjtimex(ctypes.byref(buffer)) < 0:
            return {"synchronised": None}
        # struct timex: modes, (pad), offset, freq, maxerror, esterror, status
        status = ctypes.cast(buffer, ctypes.POINTER(ctypes.c_int))[10]
        return {"synchronised": not status & 0x40, "max_error_us": int(buffer[3])}
    except (ImportError, OSError, AttributeError, ValueError):
        return {"synchronised": None}
