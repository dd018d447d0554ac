"""Checks of the machine around the GPUs: shared memory, limits, memory, disks, clock and name."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from windlass.core.model.resources import format_bytes
from windlass.diagnose.host.facts import FileSystem, HostFacts
from windlass.diagnose.steps import CheckStep, State, absent, ok, unseen

_MIB = 1 << 20
_LEAST_SHM = 512 * _MIB
"""Container runtimes give 64 MiB by default; workers of data loaders and NCCL need more."""
_LEAST_FREE_SHM = 256 * _MIB
_LEAST_FREE_DISK, _LOW_FREE_DISK = 256 * _MIB, 0.05
_LEAST_FILES, _LEAST_PIDS = 4096, 1024
_LOW_MEMORY = 0.05
_TIME_SERVICES = ("chronyd", "ntpd", "systemd-timesyn", "ptp4l", "phc2sys", "openntpd")
_SHM_FIX = "docker: --shm-size 16g or --ipc host; Kubernetes: an emptyDir with medium Memory mounted at /dev/shm"


def check_system(facts: HostFacts) -> Iterator[CheckStep]:
    """Yields the steps of the operating system."""
    yield _check_shm(facts.shm)
    yield _check_locked_memory(facts)
    yield _check_open_files(facts)
    yield _check_processes(facts)
    yield _check_memory(facts)
    for disk in facts.disks:
        yield _check_disk(disk)
    yield _check_clock(facts)
    yield _check_own_name(facts)


def _check_shm(shm: FileSystem | None) -> CheckStep:
    name = "system.shm"
    if shm is None:
        return CheckStep(name, State.WRONG, "there is no /dev/shm", "mount -t tmpfs tmpfs /dev/shm")
    if shm.total < _LEAST_SHM:
        text = f"{format_bytes(shm.total)} in /dev/shm: data loaders and NCCL fail with bus errors"
        return CheckStep(name, State.WRONG, text, _SHM_FIX)
    if shm.free < _LEAST_FREE_SHM:
        text = f"{format_bytes(shm.free)} of {format_bytes(shm.total)} in /dev/shm are free"
        return CheckStep(name, State.WRONG, text, "remove leftovers of dead processes: ls -la /dev/shm")
    return ok(name, f"{format_bytes(shm.free)} of {format_bytes(shm.total)} free")


def _check_locked_memory(facts: HostFacts) -> CheckStep:
    name = "system.locked_memory"
    if "Max locked memory" not in facts.limits:
        return unseen(name, "the limits of this process are not readable")
    soft, _ = facts.limits["Max locked memory"]
    if soft is None:
        return ok(name, "unlimited")
    if not facts.rdma:
        return ok(name, f"{format_bytes(soft)}, and no RDMA device needs more")
    text = f"limited to {format_bytes(soft)}: registering memory for RDMA fails"
    fix = "ulimit -l unlimited (/etc/security/limits.d); services: LimitMEMLOCK=infinity; pods: capability IPC_LOCK"
    return CheckStep(name, State.WRONG, text, fix)


def _check_open_files(facts: HostFacts) -> CheckStep:
    name = "system.open_files"
    if "Max open files" not in facts.limits:
        return unseen(name, "the limits of this process are not readable")
    soft, hard = facts.limits["Max open files"]
    if soft is None or soft >= _LEAST_FILES:
        return ok(name, f"{soft or 'unlimited'}")
    text = f"limited to {soft}: many ranks and data loaders on one node reach it"
    return CheckStep(name, State.WARNING, text, f"ulimit -n {min(hard or 65536, 65536)}; services: LimitNOFILE=65536")


def _check_processes(facts: HostFacts) -> CheckStep:
    name, limit = "system.processes", facts.cgroup.pids_max
    soft, _ = facts.limits.get("Max processes", (None, None))
    least = min((value for value in (limit, soft) if value is not None), default=None)
    if least is None:
        return ok(name, "unlimited")
    if least >= _LEAST_PIDS:
        return ok(name, f"at most {least}")
    text = f"at most {least} processes and threads: ranks and data loaders reach it"
    fix = "kubelet: podPidsLimit; docker: --pids-limit; systemd: TasksMax; shells: ulimit -u"
    return CheckStep(name, State.WARNING, text, fix)


def _check_memory(facts: HostFacts) -> CheckStep:
    name = "system.memory"
    total, available = facts.memory.get("MemTotal"), facts.memory.get("MemAvailable")
    limit, used = facts.cgroup.memory_max, facts.cgroup.memory_used
    if not total or available is None:
        return unseen(name, "/proc/meminfo is not readable")
    shown = f"{format_bytes(available)} of {format_bytes(total)} available"
    if limit is not None and limit < total:
        left = max(0, limit - (used or 0))
        shown += f", {format_bytes(left)} of {format_bytes(limit)} of this control group"
        total, available = limit, min(left, available)
    if available < _LOW_MEMORY * total:
        fix = "see which processes hold it: ps --sort=-rss -eo rss,pid,comm | head"
        return CheckStep(name, State.WARNING, f"nearly used up: {shown}", fix)
    return ok(name, shown)


def _check_disk(disk: FileSystem) -> CheckStep:
    name = f"system.disk:{disk.path}"
    if disk.read_only:
        return CheckStep(
            name, State.WARNING, "mounted read-only", f"if that is not intended: mount -o remount,rw {disk.path}"
        )
    shown = f"{format_bytes(disk.free)} of {format_bytes(disk.total)} free"
    if disk.inodes and disk.free_inodes < 0.01 * disk.inodes:
        text = f"{disk.free_inodes} of {disk.inodes} inodes are free ({shown}): no new file can be made"
        return CheckStep(name, State.WRONG, text, f"remove many small files: du --inodes -xd2 {disk.path} | sort -n")
    if disk.free < _LEAST_FREE_DISK:
        return CheckStep(name, State.WRONG, f"full: {shown}", f"remove files: du -xhd2 {disk.path} | sort -h")
    if disk.free < _LOW_FREE_DISK * disk.total:
        return CheckStep(name, State.WARNING, f"nearly full: {shown}", f"remove files: du -xhd2 {disk.path} | sort -h")
    return ok(name, shown)


def _check_clock(facts: HostFacts) -> CheckStep:
    name, clock = "system.clock", facts.clock
    running = sorted(service for service in _TIME_SERVICES if service in facts.processes)
    if clock.synchronized:
        error = f", error at most {clock.max_error_us / 1000:.0f} ms" if clock.max_error_us is not None else ""
        return ok(name, f"synchronized{error}")
    if clock.synchronized is None:
        return unseen(name, "the kernel does not say whether a time service keeps it")
    if facts.container:
        return unseen(name, "not kept from within this container; the node's time service may", "run it on the node")
    seen = f"{', '.join(running)} runs, but has not synchronized it yet" if running else "no time service runs"
    text = f"not synchronized ({seen}): times in logs of nodes do not compare, certificates may fail"
    return CheckStep(name, State.WARNING, text, "systemctl enable --now chronyd, then: chronyc tracking")


def _check_own_name(facts: HostFacts) -> CheckStep:
    """Gloo and rendezvous hand out the address that the own name resolves to."""
    name, own = "system.own_name", facts.own_name
    if not own.name:
        return absent(name, "no name is known")
    fix = f"add the address of the interface to /etc/hosts or DNS: {(own.own or ('ADDRESS',))[0]} {own.name}"
    if not own.resolved:
        text = f"{own.name} does not resolve ({own.error or 'no address'}): other nodes cannot be told this address"
        return CheckStep(name, State.WARNING, text, f"{fix}; or set GLOO_SOCKET_IFNAME and MASTER_ADDR")
    shown = f"{own.name} is {', '.join(own.resolved)}"
    if all(_is_loopback(address) for address in own.resolved):
        text = f"{shown}: other nodes cannot reach that address"
        return CheckStep(name, State.WARNING, text, f"{fix}; or set GLOO_SOCKET_IFNAME and MASTER_ADDR")
    if own.own and not set(own.own) & set(own.resolved) and not facts.container:
        return CheckStep(name, State.WARNING, f"{shown}, but this machine sends from {', '.join(own.own)}", fix)
    return ok(name, shown)


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
