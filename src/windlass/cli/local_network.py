"""The network profile of a job on this machine: `auto` is decided by the devices in /sys/class/infiniband."""

from __future__ import annotations

from pathlib import Path

from windlass.diagnose.host.readers.network_reader import read_rdma
from windlass.hardware.network.automatic import choose_for_devices, fabric_of_device
from windlass.hardware.network.profiles import AUTO
from windlass.hardware.network.request import NetworkRequest, parse_network


def local_request(text: str, root: Path = Path("/")) -> tuple[NetworkRequest | None, str]:
    """Returns the request of a role with a decided profile, and what to tell the user; None and "" without a text."""
    if not text:
        return None, ""
    request = parse_network(text)
    if request.profile != AUTO:
        return request, ""
    active = [port for port in read_rdma(root) if port.is_active]
    choice = choose_for_devices(fabric_of_device(port.driver, port.link_layer) for port in active)
    return request.over(None, choice.profile), f"network auto is {choice.profile}: {choice.reason}"
