"""Checks of RDMA: ports, addresses, device nodes, and direct transfers between GPUs and network cards."""

from __future__ import annotations

import re
from collections.abc import Iterator

from windlass.diagnose.host.compatibility import parse_version
from windlass.diagnose.host.facts import UNASKED, HostFacts, RdmaPort
from windlass.diagnose.steps import CheckStep, State, absent, ok
from windlass.hardware.network.automatic import fabric_of_device
from windlass.hardware.network.variables import obsolete_settings

_IPV4_MAPPED = re.compile(r"0000:0000:0000:0000:0000:ffff:[0-9a-f]{4}:[0-9a-f]{4}")
_DMABUF_KERNEL = (5, 12)
_SHOWN = {"efa": "EFA", "roce": "RoCE", "infiniband": "InfiniBand"}


def check_network(facts: HostFacts) -> Iterator[CheckStep]:
    """Yields the steps of the variables and of RDMA; one step of these if there is no RDMA device."""
    yield from _check_variables(facts)
    if not facts.rdma:
        yield absent("network.rdma", "no InfiniBand, RoCE or EFA device")
        return
    yield _check_ports(facts.rdma)
    yield _check_gids(facts.rdma)
    yield _check_nodes(facts)
    yield _check_direct(facts)


def _check_variables(facts: HostFacts) -> Iterator[CheckStep]:
    """Settings that are wrong or obsolete; no step without variables of NCCL and libfabric."""
    name = "network.variables"
    if not facts.variables:
        return
    lines = tuple(
        f"{each.name}={facts.variables[each.name][:60]}: {each.why}" for each in obsolete_settings(facts.variables)
    )
    if lines:
        fix = "unset these variables: windlass explain network lists what each fabric needs"
        yield CheckStep(name, State.WARNING, "variables of NCCL or libfabric are wrong or obsolete", fix, lines)
    else:
        yield ok(name, ", ".join(sorted(facts.variables)))


def _kind(port: RdmaPort) -> str:
    return _SHOWN[fabric_of_device(port.driver, port.link_layer)]


def _check_ports(ports: tuple[RdmaPort, ...]) -> CheckStep:
    name = "network.rdma"
    kinds = ", ".join(
        f"{sum(_kind(port) == kind for port in ports)} × {kind}" for kind in sorted(set(map(_kind, ports)))
    )
    down = [port for port in ports if not port.is_active]
    lines = tuple(f"{port.device} port {port.port}: {port.state}, {port.physical_state}" for port in down)
    if not down:
        rates = ", ".join(sorted({port.rate for port in ports if port.rate}))
        return ok(name, f"{kinds}, all active" + (f" ({rates})" if rates else ""))
    waits = any(port.state == "INIT" for port in down)
    fix = "start the subnet manager of the fabric (opensm)" if waits else "check cable, transceiver and switch: ibstat"
    state = State.WRONG if len(down) == len(ports) or waits else State.WARNING
    return CheckStep(name, state, f"{len(down)} of {len(ports)} ports are not active ({kinds})", fix, lines)


def _check_gids(ports: tuple[RdmaPort, ...]) -> CheckStep:
    """RoCE between routed networks needs an address of type RoCE v2 that maps an IPv4 address."""
    name, active = "network.gids", [port for port in ports if port.is_active]
    roce = [port for port in active if _kind(port) == "RoCE"]
    empty = [port.device for port in active if not port.gids]
    if empty:
        text = f"no address (GID) is set on {', '.join(empty)}"
        return CheckStep(
            name, State.WRONG, text, "give the interface of the device an IP address; pods: check the CNI plugin"
        )
    if not roce:
        return ok(name, "every active port has an address")
    indices = {port.device: [gid[0] for gid in port.gids if _is_routable(gid)] for port in roce}
    missing = [device for device, found in indices.items() if not found]
    if missing:
        text = f"no RoCE v2 address with IPv4 on {', '.join(missing)}"
        fix = "give the interface an IPv4 address; read: show_gids"
        return CheckStep(name, State.WARNING, text, fix)
    shown = ", ".join(f"{device} index {found[0]}" for device, found in indices.items())
    return ok(name, f"RoCE v2 with IPv4: {shown}")


def _is_routable(gid: tuple[int, str, str, str]) -> bool:
    _, address, kind, _ = gid
    return "v2" in kind and bool(_IPV4_MAPPED.fullmatch(address))


def _check_nodes(facts: HostFacts) -> CheckStep:
    name = "network.device_nodes"
    verbs = [node for node in facts.node_errors if node.startswith("infiniband/uverbs")]
    if not verbs:
        fix = "modprobe ib_uverbs; in a pod: request the RDMA device (rdma/..., vpc.amazonaws.com/efa)"
        return CheckStep(name, State.WRONG, "no /dev/infiniband/uverbs*: programs cannot use RDMA", fix)
    errors = {node: facts.node_errors[node] for node in verbs}
    denied = [f"/dev/{node}: {error}" for node, error in errors.items() if error not in ("", UNASKED)]
    if denied:
        fix = "chmod 666 /dev/infiniband/uverbs*, or request the device in the pod"
        return CheckStep(name, State.WRONG, "device nodes cannot be opened", fix, tuple(denied))
    return ok(name, f"{len(verbs)} devices {'exist' if UNASKED in errors.values() else 'open'}")


def _check_direct(facts: HostFacts) -> CheckStep:
    """Transfers between GPU and card need nvidia_peermem, or DMA-BUF of the open module; EFA has its own."""
    name = "network.gpudirect"
    if not facts.has_gpus:
        return absent(name, "no NVIDIA GPU")
    if all(_kind(port) == "EFA" for port in facts.rdma):
        return ok(name, "EFA brings its own")
    if "nvidia_peermem" in facts.modules:
        return ok(name, "by nvidia_peermem")
    if facts.is_open_driver and parse_version(facts.kernel)[:2] >= _DMABUF_KERNEL:
        return ok(name, f"by DMA-BUF (open module, kernel {facts.kernel})")
    text = "neither nvidia_peermem nor DMA-BUF: data between GPUs and network cards passes through host memory"
    return CheckStep(name, State.WARNING, text, "modprobe nvidia-peermem, or install the open kernel module")
